//! What one request costs in the server's own code: instructions and heap allocations, counted by callgrind.
//!
//! The node runs twice from start to stop, once with N requests and once with 3 N; what is between the two counts is
//! 2 N requests and nothing else, because start and stop cost the same in both. Valgrind lets no other thread run while
//! one waits for io_uring, so the node uses epoll here; instructions of the kernel are not counted anyway.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::loader::{self, Connection, Plan};
use crate::machine::{self, Running};

/// Counts of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Instructions in user space.
    pub instructions: u64,
    /// Calls of the allocator that return memory.
    pub allocations: u64,
}

/// Prepares what is counted and gives its frames.
pub type Setup<'a> = &'a dyn Fn(&mut Connection) -> Result<Vec<Vec<u8>>, String>;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody: the node asks for no password and allows everything.
    Open,
    /// A role that has logged in and was granted the keyspace `bench`.
    Granted,
}

const ADMIN: (&str, &str) = ("cassandra", "cassandra");
const ROLE: (&str, &str) = ("bench", "bench");

/// Instructions and allocations per request for one kind of frame.
pub fn per_request(binary: &Path, name: &str, access: Access, setup: Setup) -> Result<(f64, f64), String> {
    const COUNT: u64 = 2_000;
    let few = run(binary, name, access, setup, COUNT)?;
    let many = run(binary, name, access, setup, 3 * COUNT)?;
    let per = |few: u64, many: u64| many.saturating_sub(few) as f64 / (2 * COUNT) as f64;
    Ok((per(few.instructions, many.instructions), per(few.allocations, many.allocations)))
}

fn run(binary: &Path, name: &str, access: Access, setup: Setup, count: u64) -> Result<Counts, String> {
    let folder = machine::fresh(&format!("callgrind-{name}"))?;
    let out = folder.join("callgrind.out");
    let port = machine::free_port()?;
    let mut arguments = vec![
        "--tool=callgrind".to_owned(),
        format!("--callgrind-out-file={}", out.display()),
        binary.display().to_string(),
    ];
    arguments.extend(machine::node_arguments(
        &folder,
        port,
        match access {
            Access::Open => "",
            Access::Granted => "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n",
        },
        &["--smp", "1", "--overprovisioned", "--memory", "256M", "--reactor", "epoll"],
    )?);
    let mut node = Running::start(None, Path::new("valgrind"), &arguments, port, &folder.join("node.log"))?;
    node.wait_until_listening(Duration::from_secs(120))?;
    let mut connection = admin(access, node.address)?;
    let frames = setup(&mut connection)?;
    if access == Access::Granted {
        let (name, password) = ROLE;
        for text in [
            format!("CREATE ROLE {name} WITH PASSWORD = '{password}' AND LOGIN = true"),
            format!("GRANT SELECT ON KEYSPACE bench TO {name}"),
            format!("GRANT MODIFY ON KEYSPACE bench TO {name}"),
        ] {
            connection.ask(&loader::query(&text))?;
        }
        connection = Connection::open_as(node.address, ROLE)?;
    }
    let mut connections = vec![connection];
    // Some requests to warm caches are made in both runs.
    for count in [500, count] {
        let plan = Plan {
            frames: vec![frames.clone()],
            depth: 16,
            rate: None,
            warm: Duration::ZERO,
            measure: Duration::ZERO,
            count: Some(count),
        };
        let measured = loader::drive(&mut connections, &plan, 0)?;
        if measured.errors > 0 {
            return Err(format!("{} requests failed", measured.errors));
        }
    }
    drop(connections);
    node.stop()?;
    let text = std::fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    counts(&text)
}

/// A connection that may do everything, once the node has made its default role: the hash of its password takes thirty thousand
/// requests' instructions, which must be in both counts or in none.
fn admin(access: Access, address: SocketAddr) -> Result<Connection, String> {
    let until = Instant::now() + Duration::from_secs(120);
    while Instant::now() < until {
        if access == Access::Granted {
            match Connection::open_as(address, ADMIN) {
                Ok(connection) => return Ok(connection),
                Err(_) => std::thread::sleep(Duration::from_millis(500)),
            }
            continue;
        }
        let mut connection = Connection::open(address)?;
        let answer = connection.ask(&loader::query("SELECT role FROM system_auth.roles"))?;
        if answer.windows(9).any(|bytes| bytes == b"cassandra") && has_row(&answer) {
            return Ok(connection);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err("the node does not make its default role".into())
}

/// Whether rows came: the body ends with the last of them, an empty answer with the count of rows.
fn has_row(answer: &[u8]) -> bool {
    !answer.ends_with(&[0, 0, 0, 0])
}

/// Reads a callgrind file: the totals, and the calls of the allocator's functions.
pub fn counts(text: &str) -> Result<Counts, String> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut callee = "";
    let mut counts = Counts::default();
    for line in text.lines() {
        if let Some(total) = line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")) {
            let first = total.split(' ').next().and_then(|number| number.parse().ok());
            counts.instructions = first.unwrap_or(counts.instructions);
        } else if let Some(name) = line.strip_prefix("cfn=").or(line.strip_prefix("fn=")) {
            // "(12) malloc" defines a number, "(12)" uses it.
            let (number, name) = name.split_once(' ').unwrap_or((name, ""));
            if !name.is_empty() {
                names.insert(number, name);
            }
            if line.starts_with('c') {
                callee = names.get(number).copied().unwrap_or("");
            }
        } else if let Some(calls) = line.strip_prefix("calls=")
            && is_allocator(callee)
        {
            let count: u64 = calls.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
            counts.allocations += count;
        }
    }
    if counts.instructions == 0 {
        return Err("callgrind counted nothing".into());
    }
    Ok(counts)
}

/// Functions of the C library that hand out memory, as valgrind names them.
fn is_allocator(name: &str) -> bool {
    let name = name.split('\'').next().unwrap_or(name);
    let name = name.split('@').next().unwrap_or(name);
    matches!(name, "malloc" | "calloc" | "realloc" | "posix_memalign" | "aligned_alloc" | "memalign")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callgrind_file_is_read() {
        let text = "events: Ir\nfn=(1) main\n1 10\ncfn=(2) malloc\ncalls=3 0\n1 300\ncfn=(3) free\ncalls=9 0\n1 1\n\
                    fn=(4) other\ncfn=(2)\ncalls=4 0\n1 400\ntotals: 711\n";
        assert_eq!(counts(text), Ok(Counts { instructions: 711, allocations: 7 }));
        assert!(counts("").is_err());
    }
}
