//! Whole runs against a node in a simulated world: every phase is done, the report says what came of it, and what fails ends the run.

use loadtools::output::Output;
use node::config::{Config, Seed};
use node::{Ready, Reporter, main_closure};
use published::command::{Order, run};
use published::facts::Servers;
use runtime::sim::{NodeId, SimConfig, World};
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a run may take on the world's clock.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// A node, and a machine that runs the tool.
struct Stage {
    world: World,
    node: NodeId,
    client: NodeId,
}

impl Stage {
    fn new(seed: u64) -> Stage {
        let mut world = World::new(seed, SimConfig::calm());
        let client = world.add_client("10.0.9.9".parse().expect("an address"));
        let node = boot(&mut world, 1, |_| {});
        Stage { world, node, client }
    }

    /// Runs; how it ended, what was said, and the report.
    #[allow(clippy::disallowed_methods, reason = "files of the machine that runs the test")]
    fn run(
        &mut self,
        name: &str,
        scale: &str,
        replicas: Option<u32>,
    ) -> (Result<(), String>, String, String) {
        // Logs and charts of cassandra-stress are files of the machine that runs this.
        let folder = std::env::temp_dir().join(format!("messina-published-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let folder = folder.display().to_string();
        let order = Order {
            name: name.into(),
            scale: Some(scale.into()),
            nodes: vec!["10.0.0.1".into()],
            port: 9042,
            login: None,
            folder: folder.clone(),
            replicas,
            metrics_port: 9180,
        };
        let mut task = self.world.spawn(self.client, async move {
            let output = Rc::new(Output::in_memory());
            let ended = run(&order, &output).await.map_err(|error| error.to_string());
            let file = format!("{}/{}.md", order.folder, order.name);
            let page = runtime::file::read(&file).await.unwrap_or_default();
            (ended, output.kept().unwrap_or_default(), String::from_utf8(page).expect("text"))
        });
        let done = self.world.run_until(|_| task.done(), PATIENCE);
        assert!(done, "the run does not end: {:?}", self.world.log_lines());
        std::fs::remove_dir_all(folder).expect("a folder");
        task.take().expect("it is done")
    }
}

/// Starts the node 10.0.0.N and waits until it serves.
fn boot(world: &mut World, last: u8, set: impl FnOnce(&mut Config)) -> NodeId {
    let ip = IpAddr::from([10, 0, 0, last]);
    let node = world.add_node(ip);
    let mut config = Config::standard(PathBuf::from("/data"));
    (config.listen_address, config.rpc_address) = (ip, ip);
    set(&mut config);
    let ready: Arc<Mutex<Option<Ready>>> = Arc::default();
    let told = ready.clone();
    let reporter = Reporter {
        ready: Arc::new(move |ready| *told.lock().expect("one thread") = Some(ready.clone())),
        failed: Arc::new(|text| panic!("the node does not start: {text}")),
    };
    world.boot(node, 2, main_closure(config, reporter));
    assert!(world.run_until(|_| ready.lock().expect("one thread").is_some(), PATIENCE));
    node
}

#[test]
fn every_node_of_a_datacenter_is_counted_once() {
    let mut world = World::new(3, SimConfig::calm());
    let client = world.add_client("10.0.9.9".parse().expect("an address"));
    for (last, datacenter) in [(1, "dc1"), (2, "dc2"), (3, "dc1"), (4, "dc2")] {
        boot(&mut world, last, |config| {
            config.seeds = vec![Seed { host: "10.0.0.1".into(), port: None }];
            config.data_center = datacenter.into();
        });
    }
    let mut task = world.spawn(client, async {
        let nodes: Vec<String> = (1..=4).map(|last| format!("10.0.0.{last}")).collect();
        Servers::ask(&nodes, 9042, None).await.map_err(|error| error.to_string())
    });
    assert!(world.run_until(|_| task.done(), PATIENCE));
    let servers = task.take().expect("it is done").expect("they answer");
    assert_eq!(servers.datacenters.into_iter().collect::<Vec<_>>(), [("dc1".into(), 2), ("dc2".into(), 2)]);
}

#[test]
fn a_file_catalogue_is_imported_operated_on_and_counted() {
    let mut stage = Stage::new(1);
    let (ended, said, page) = stage.run("file-catalogue", "0.0000004", None);
    assert_eq!(ended, Ok(()), "{said}");
    for part in [
        "\n1 replicas instead of 3: as many as there are nodes\n",
        "\n$ messina catalogue import ",
        "10,000 rows of the file, 10,000 files and 10,000 index entries of the database: all the same",
        "every answer was right",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    for part in ["## generate", "## import", "## operate", "## quota", "| published | 100,000 |", "| path |"]
    {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("**Failed:**"), "{page}");
}

#[test]
fn cloudsuite_is_loaded_and_run() {
    let mut stage = Stage::new(2);
    let (ended, said, page) = stage.run("cloudsuite", "tiny", None);
    assert_eq!(ended, Ok(()), "{said}");
    assert!(said.contains("$ messina cloudsuite load 10.0.0.1 10000 5000 64 5000\n"), "{said}");
    for part in ["## warmup", "| insert |", "## load", "| read |", "| update |", "| published | 5,000 |"] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    // Each phase is told with what this machine and the node did meanwhile, or why the node does not say.
    assert_eq!(page.matches("- This machine: processors ").count(), 2, "{page}");
    assert_eq!(page.matches("- Node 10.0.0.1:9180").count(), 2, "{page}");
}

#[test]
fn loaders_run_side_by_side() {
    let mut stage = Stage::new(3);
    let (ended, said, page) = stage.run("oci-2018", "tiny", None);
    assert_eq!(ended, Ok(()), "{said}");
    assert!(
        said.contains("-schema keyspace=\"keyspace1\" \"replication(factor=1)\" -pop seq=9001..10000 "),
        "{said}"
    );
    for part in
        ["## write-100m", "| loader 10 |", "## write-1b", "## read", "| published | 47,646 |", "| loader 2 |"]
    {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn a_phase_that_fails_ends_the_run_and_is_reported() {
    let mut stage = Stage::new(4);
    // More replicas than there are nodes: no quorum can be had.
    let (ended, _, page) = stage.run("bare-metal-2017", "tiny", Some(3));
    let reason = ended.expect_err("no quorum");
    assert!(reason.starts_with("write: loader 1: "), "{reason}");
    assert!(page.contains("**Failed:** loader 1: ") && !page.contains("## read"), "{page}");
    let (unknown, ..) = stage.run("bare-metal", "tiny", None);
    assert!(
        unknown
            .expect_err("unknown")
            .starts_with("there is no run \"bare-metal\": there are bare-metal-2017, ")
    );
    let (scaled, ..) = stage.run("oci-2018", "small", None);
    assert!(scaled.expect_err("no scale").starts_with("--scale: "));
    stage.world.kill(stage.node);
    let (away, ..) = stage.run("oci-2018", "tiny", None);
    assert!(away.expect_err("nobody is there").contains("NoHostAvailableException"));
}
