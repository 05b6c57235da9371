//! The page of `-graph`: both tools add their runs to it, it fetches nothing, and a browser draws it without a complaint.

use std::path::Path;
use std::process::Command;

use super::{LIMIT, Tools};
use crate::server::Server;
use crate::{command, packages};

/// Both tools add runs to one page, whoever wrote it; it names nothing to fetch, and a browser draws it without a complaint. With
/// `--quick` in a browser only where there is one.
pub fn drawn(tools: &Tools<'_>) -> Result<String, String> {
    let rows = tools.options.records;
    let file = tools.server.folder.join("runs.html");
    if file.exists() {
        std::fs::remove_file(&file).map_err(|error| error.to_string())?;
    }
    let line = |revision: &str| {
        format!(
            "mixed ratio(read=1,write=1) n={rows} no-warmup -pop dist=uniform(1..{rows}) -rate threads=20 fixed=4000/s -log no-settings interval=200ms -graph file=runs.html title=runs revision={revision}"
        )
    };
    tools.ours_ends_well(&line("ours-1"), "graph-1")?;
    tools.java_ends_well(&line("java-2"), "graph-2")?;
    // The last one asks the server about itself, where it is one that says so.
    let scrape = scrape_words(&tools.server);
    tools.ours_ends_well(&format!("{}{scrape}", line("ours-3")), "graph-3")?;
    let page = command::read(&file)?;
    let block = page
        .split_once("/* stats start */")
        .and_then(|(_, rest)| Some(rest.split_once("/* stats end */")?.0));
    let block = block.ok_or("the page has no runs")?;
    let data = block.trim().trim_start_matches("stats = ").trim_end_matches(';');
    let stats: serde_json::Value = serde_json::from_str(data).map_err(|error| error.to_string())?;
    let runs = stats["stats"].as_array().ok_or("the runs are no list")?;
    let revisions: Vec<&str> = runs.iter().filter_map(|run| run["revision"].as_str()).collect();
    if revisions != ["ours-1", "java-2", "ours-3"] {
        return Err(format!("{revisions:?}"));
    }
    for run in runs {
        let intervals = run["intervals"].as_array().map_or(0, Vec::len);
        let complete = run["op rate"].is_string() && run["latency 99th percentile"].is_string();
        if run["test"] != "MIXED" || intervals == 0 || !complete {
            return Err(format!("{}: {} with {intervals} intervals", run["revision"], run["test"]));
        }
    }
    if let Some(fetched) = fetched(&page.replacen(block, "", 1)) {
        return Err(format!("the page fetches something: {fetched}"));
    }
    if tools.options.quick && !packages::has_chromium() {
        return Ok(format!("{} runs, not drawn: no browser", runs.len()));
    }
    opened(tools, &file, if scrape.is_empty() { 0 } else { 2 })
}

/// The port at which a Messina node tells of itself.
pub fn metrics_port(server: &Server) -> Option<String> {
    let config = command::read(&server.folder.join("messina.yaml")).unwrap_or_default();
    config.lines().find_map(|line| line.strip_prefix("prometheus_port: ")).map(str::to_owned)
}

/// The same as a command line has it.
fn scrape_words(server: &Server) -> String {
    metrics_port(server)
        .map_or(String::new(), |port| format!(" --scrape http://{}:{port}/metrics", server.address.ip()))
}

/// What a page without its data says that a browser would fetch, or that a script could. Names of XML's kinds are only names.
fn fetched(page: &str) -> Option<String> {
    const WAYS: [&str; 14] = [
        "http://",
        "https://",
        "src=",
        "href=",
        "srcset=",
        "url(",
        "@import",
        "import(",
        "fetch(",
        "xmlhttprequest",
        "websocket",
        "eventsource",
        "sendbeacon",
        "<iframe",
    ];
    let small = page.to_lowercase().replace("http://www.w3.org/", "");
    let (way, at) = WAYS.iter().find_map(|way| Some((way, small.find(way)?)))?;
    let around = small[at..].chars().take(60).collect::<String>();
    Some(format!("{way} in {around}"))
}

/// What a browser makes of the page; `of_server`: curves of what a server told of itself.
fn opened(tools: &Tools<'_>, file: &Path, of_server: usize) -> Result<String, String> {
    let folder = &tools.server.folder;
    let browse = |words: &[&str], name: &str| {
        let mut chromium = Command::new(packages::chromium()?);
        chromium.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-sync",
        ]);
        chromium.args([
            "--disable-background-networking",
            "--disable-component-update",
            "--enable-logging=stderr",
        ]);
        chromium
            .arg(format!("--user-data-dir={}", folder.join("browser").display()))
            .arg("--window-size=1200,1700");
        chromium.args(words).arg(format!("file://{}", file.display()));
        command::run(&mut chromium, &folder.join(name), LIMIT)
    };
    let dom = browse(&["--dump-dom"], "dom.log")?;
    if let Some(complaint) = dom.lines().find(|line| line.contains(":CONSOLE")) {
        return Err(complaint.to_owned());
    }
    // A curve for each run, five of the last one's latencies, and one for each distribution, which the Java tool does not write. The
    // two charts of servers are hidden where none was asked.
    let (charts, curves) = (dom.matches("<svg").count(), dom.matches("class=\"curve\"").count());
    if (charts, curves) != (5, 3 + 5 + 2 + of_server) {
        return Err(format!("{charts} charts with {curves} curves"));
    }
    if let Some(back) = dom.split("<path ").find(|path| path.contains("class=\"curve\"") && !goes_right(path))
    {
        return Err(format!("a curve goes back: {}", back.split('>').next().unwrap_or_default()));
    }
    let picture = folder.join("runs.png");
    browse(&[&format!("--screenshot={}", picture.display())], "screenshot.log")?;
    let bytes = std::fs::metadata(&picture).map_err(|error| error.to_string())?.len();
    if bytes < 20_000 {
        Err(format!("a picture of {bytes} bytes"))
    } else {
        Ok(format!("{charts} charts, {curves} curves: {}", picture.display()))
    }
}

/// Whether the points of a curve follow each other in time.
fn goes_right(path: &str) -> bool {
    let points = path.split(" d=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let xs =
        points.split(['M', 'L']).filter_map(|point| point.split_whitespace().next()?.parse::<f64>().ok());
    xs.is_sorted()
}

#[cfg(test)]
mod tests {
    use super::fetched;

    #[test]
    fn what_a_page_fetches_is_found() {
        assert_eq!(fetched("<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>"), None);
        for page in [
            "<SCRIPT SRC=a.js>",
            "<link href='a.css'>",
            "@import 'a.css'",
            "background: url(a.png)",
            "fetch('a')",
            "new XMLHttpRequest()",
            "var a = 'https://a.b'",
        ] {
            assert!(fetched(page).is_some(), "{page}");
        }
    }
}
