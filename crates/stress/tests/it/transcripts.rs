//! All that runs say, from the settings to the status: scripts read it. `testdata/transcripts.txt` has command lines, then what is said;
//! the world's clock and a network without chance make every number the same each time. Digits that move when the client computes a little
//! more or less are `#`: those of the standard error, and of rates without a schedule. UPDATE=1 writes the file again.

use super::Stage;
use super::fake::Server;
use runtime::sim::{SimConfig, World};
use std::net::IpAddr;
use std::time::Duration;

const FILE: &str = "testdata/transcripts.txt";

#[test]
fn runs_say_what_they_said() {
    let text = std::fs::read_to_string(FILE).expect("the file");
    let (head, cases) = text.split_once("\n> ").expect("cases");
    let mut stage = stage();
    let mut now = head.to_owned();
    for (nth, case) in cases.split("\n> ").enumerate() {
        let line = case.lines().next().expect("a line");
        let machine = stage.machine(&format!("10.0.9.{}", 11 + nth), line);
        let (status, ended) = stage.status(machine);
        let complaints: Vec<&str> = ended.complaints.iter().map(|text| text.trim_end()).collect();
        let has_schedule = line.contains("/s ");
        let said: Vec<String> =
            ended.said.trim_end().lines().map(|said| masked(said.trim_end(), has_schedule)).collect();
        let said = said.join("\n");
        now.push_str(&format!(
            "\n> {line}\n---- standard output\n{said}\n---- standard error\n{}\n---- status {status}\n",
            complaints.join("\n")
        ));
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, &now).expect("the file");
        return;
    }
    let differs = text.lines().zip(now.lines()).enumerate().find(|(_, (then, now))| then != now);
    assert_eq!(differs, None, "line, then, now");
    assert_eq!(text.lines().count(), now.lines().count());
}

/// A line without the digits that move.
fn masked(line: &str, has_schedule: bool) -> String {
    let hidden = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "#");
    let label = line.split(':').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    if ["op rate", "partition rate", "row rate"].contains(&label.as_str()) && !has_schedule {
        return hidden(line);
    }
    let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
    // Counted from the end: those of steps have one more in front.
    let count = fields.len();
    if count < 19 {
        return line.to_owned();
    }
    for at in [7, 15, 16, 17].into_iter().take(if has_schedule { 1 } else { 4 }) {
        fields[count - at] = hidden(&fields[count - at]);
    }
    fields.join(",")
}

/// A server of its own, so that these lines do not change with what nodes do.
fn stage() -> Stage {
    let delay = Duration::from_micros(400);
    let mut world = World::new(61, SimConfig { delay: (delay, delay), ..SimConfig::calm() });
    let ip = IpAddr::from([10, 0, 0, 1]);
    let (node, client) = (world.add_node(ip), world.add_client(IpAddr::from([10, 0, 9, 9])));
    Server::alone(ip, &[]).boot(&mut world, node);
    Stage { world, node, client, goal: None, sync: None }
}
