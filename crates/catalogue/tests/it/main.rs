//! A catalogue on a node in a simulated world: imported while the node dies, compared, operated on, counted; what is wrong is named.

use catalogue::check::check;
use catalogue::generate::write;
use catalogue::import::{ImportOptions, import};
use catalogue::lookup::Whereabouts;
use catalogue::operate::{OperateOptions, operate};
use catalogue::placement::folder_id;
use catalogue::record::Record;
use catalogue::{Catalogue, Error, Format, Generator, Server};
use loadtools::output::Output;
use node::config::Config;
use node::{Ready, Reporter, main_closure};
use protocol::request::Parameters;
use runtime::sim::{NodeId, SimConfig, Task, World};
use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use types::{Consistency, timeuuid};
use uuid::Uuid;

/// How long anything may take on the world's clock.
const PATIENCE: Duration = Duration::from_secs(900);

/// A node, and a machine that runs the tool.
struct Stage {
    world: World,
    node: NodeId,
    client: NodeId,
}

impl Stage {
    fn new(seed: u64) -> Stage {
        let mut world = World::new(seed, SimConfig::calm());
        let node = world.add_node("10.0.0.1".parse().expect("an address"));
        let client = world.add_client("10.0.9.9".parse().expect("an address"));
        let mut stage = Stage { world, node, client };
        stage.boot();
        stage
    }

    fn boot(&mut self) {
        let ip: IpAddr = "10.0.0.1".parse().expect("an address");
        let mut config = Config::standard(PathBuf::from("/data"));
        (config.listen_address, config.rpc_address) = (ip, ip);
        // Nothing acknowledged is lost when the node is killed.
        config.read_argument("test", "commitlog_sync", "batch").expect("a mode");
        config.finish().expect("a configuration");
        let ready: Arc<Mutex<Option<Ready>>> = Arc::default();
        let told = ready.clone();
        let reporter = Reporter {
            ready: Arc::new(move |ready| *told.lock().expect("one thread") = Some(ready.clone())),
            failed: Arc::new(|text| panic!("the node does not start: {text}")),
        };
        self.world.boot(self.node, 2, main_closure(config, reporter));
        assert!(self.world.run_until(|_| ready.lock().expect("one thread").is_some(), PATIENCE));
    }

    fn end<T: 'static>(&mut self, mut task: Task<T>) -> T {
        let done = self.world.run_until(|_| task.done(), PATIENCE);
        assert!(done, "it does not end: {:?}", self.world.log_lines());
        task.take().expect("it is done")
    }

    fn run<T: 'static, F: Future<Output = T> + 'static>(&mut self, work: F) -> T {
        let task = self.world.spawn(self.client, work);
        self.end(task)
    }
}

fn server() -> Server {
    Server { nodes: vec!["10.0.0.1".into()], ..Server::local() }
}

fn options(name: &str, format: Format) -> ImportOptions {
    ImportOptions { file: format!("/{name}"), format, table: "files".into(), blocks: 16 }
}

async fn open() -> Rc<Catalogue> {
    Rc::new(Catalogue::open(&server()).await.expect("a catalogue"))
}

fn quiet() -> Rc<Output> {
    Rc::new(Output::in_memory())
}

/// Writes a small catalogue into a file.
async fn written(files: u64, format: Format) -> Rc<Generator> {
    let generator = Rc::new(Generator::new(3, files).expect("few"));
    write(&generator, &options("files", format).file, format).await.expect("written");
    generator
}

/// Imports that file; the comparison is clean.
async fn import_into(catalogue: Rc<Catalogue>, files: u64, format: Format) {
    let options = options("files", format);
    let imported = import(&catalogue, &options, &quiet()).await.expect("imported");
    assert_eq!(imported.rows, files);
    let checked = check(&catalogue, &options, Some(&imported.sums), 4).await.expect("compared");
    assert!(checked.is_clean(), "{checked:?}");
    assert_eq!((checked.file_rows, checked.database_rows, checked.index_rows), (files, files, files));
}

/// Writes and imports a small catalogue.
async fn imported(files: u64, format: Format) -> (Rc<Catalogue>, Rc<Generator>) {
    let (generator, catalogue) = (written(files, format).await, open().await);
    import_into(catalogue.clone(), files, format).await;
    (catalogue, generator)
}

/// Imports a file into a node that dies so long after, and comes back; how many requests were made again.
fn import_into_a_node_that_dies(after: Duration) -> u64 {
    let mut stage = Stage::new(1);
    stage.run(written(3_000, Format::Csv));
    // Tables and root first: the node is to die in the middle of the rows.
    let catalogue = stage.run(open());
    let task = stage.world.spawn(stage.client, import_into(catalogue.clone(), 3_000, Format::Csv));
    stage.world.run_for(after);
    stage.world.kill(stage.node);
    stage.world.run_for(Duration::from_secs(3));
    stage.boot();
    stage.end(task);
    // What was imported twice was imported once.
    stage.run(imported(3_000, Format::Mysql));
    catalogue.session.retried()
}

#[test]
fn an_import_outlives_its_node() {
    let retried = [1, 5, 10, 20, 40].map(|ms| import_into_a_node_that_dies(Duration::from_millis(ms)));
    assert!(retried.iter().any(|retried| 0 < *retried), "the node died too late or too early: {retried:?}");
}

#[test]
fn every_answer_of_a_mixed_load_is_right_and_quotas_follow() {
    let mut stage = Stage::new(2);
    let (catalogue, generator) = stage.run(imported(2_500, Format::Mysql));
    let (operated, found) = stage.run(async move {
        let options = OperateOptions { workers: 5, duration: Duration::from_secs(4), seed: 4 };
        let operated = operate(&catalogue, &generator, options, &quiet()).await.expect("operated");
        (operated, catalogue.quotas(4).await.expect("counted"))
    });
    assert!(operated.is_clean(), "{:?}", operated.told);
    let kinds: Vec<&str> = operated.snapshot.kinds.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(kinds, ["path", "guid", "list", "register", "move", "delete", "restore"]);
    assert!(operated.snapshot.total.operations > 1_000, "{}", operated.snapshot.total.operations);
    assert_eq!(found, operated.quotas);
    assert!(found.values().any(|usage| usage.trashed_files > 0));
}

#[test]
fn a_load_that_is_given_another_catalogue_finds_it_wrong() {
    let mut stage = Stage::new(3);
    let (catalogue, _) = stage.run(imported(1_000, Format::Csv));
    let operated = stage.run(async move {
        let other = Rc::new(Generator::new(4, 1_000).expect("few"));
        let options = OperateOptions { workers: 3, duration: Duration::from_secs(2), seed: 4 };
        operate(&catalogue, &other, options, &quiet()).await.expect("operated")
    });
    assert!(operated.mismatches > 10 && !operated.told.is_empty(), "{}", operated.mismatches);
}

#[test]
fn what_differs_is_named_by_its_path() {
    let mut stage = Stage::new(4);
    let (catalogue, generator) = stage.run(imported(600, Format::Csv));
    let lines = stage.run(async move {
        let path_of = |file: u64| {
            let folder = generator.folder_path(generator.folder_of(file));
            format!("{folder}/{}", generator.file(file).name)
        };
        let (gone, moved, other) = (path_of(5), path_of(77), path_of(400));
        catalogue.delete(&gone).await.expect("deleted");
        catalogue.move_to(&moved, "/alice/elsewhere").await.expect("moved");
        let facts = generator.file(400);
        let larger = Record { size: facts.size + 1, ..facts.record(&other) };
        catalogue.register(&larger).await.expect("its own GUID");
        let checked = check(&catalogue, &options("files", Format::Csv), None, 3).await.expect("compared");
        assert_eq!((checked.differing, checked.database_rows), (4, 599));
        for expected in [
            format!("missing: {gone}"),
            format!("missing: {moved}"),
            "not in the file: /alice/elsewhere".to_owned(),
            format!("another entry: {other}"),
        ] {
            assert!(checked.differences.contains(&expected), "{expected}: {:?}", checked.differences);
        }
        checked.lines()
    });
    assert!(lines[0].ends_with("4 differ"), "{}", lines[0]);
}

#[test]
fn a_row_that_makes_no_sense_is_named_with_its_line() {
    let mut stage = Stage::new(5);
    let error = stage.run(async move {
        let generator = Generator::new(1, 10).expect("few");
        write(&generator, "/wrong", Format::Csv).await.expect("written");
        let mut bytes = runtime::file::read("/wrong").await.expect("read");
        bytes.extend_from_slice(b"/a/b,me,644,1,0,no guid,\r\n");
        runtime::file::replace_atomic("/wrong", &bytes).await.expect("written");
        let catalogue = open().await;
        let wrong = import(&catalogue, &options("wrong", Format::Csv), &quiet()).await.expect_err("wrong");
        let missing =
            import(&catalogue, &options("missing", Format::Csv), &quiet()).await.expect_err("missing");
        (wrong.to_string(), missing.to_string())
    });
    assert_eq!(error.0, "/wrong:12: guid is \"no guid\", not a UUID");
    assert!(error.1.starts_with("/missing: "), "{}", error.1);
}

const GUID: fn(i64) -> Uuid = |number| timeuuid::from_ticks(16_000_000_000_000_000 + number, 7);

fn record(path: &str, guid: Uuid) -> Record<'_> {
    Record { path, owner: "me", permissions: 0o644, size: 10, changed: 5, guid, locations: "A=x;B=y" }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut stage = Stage::new(6);
    stage.run(async {
        let catalogue = open().await;
        catalogue.make_folder("/a/b/c").await.expect("made");
        catalogue.register(&record("/a/b/f", GUID(1))).await.expect("registered");
        catalogue.register(&record("/a/b/f", GUID(1))).await.expect("again");
        let error = |result: Result<(), Error>| result.expect_err("refused").to_string();
        assert_eq!(error(catalogue.register(&record("/a/b/f", GUID(2))).await), "\"/a/b/f\" exists");
        assert_eq!(error(catalogue.register(&record("/a/x/f", GUID(2))).await), "\"/a/x\" does not exist");
        assert_eq!(error(catalogue.register(&record("/a/b/f/g", GUID(2))).await), "\"/a/b/f\" is no folder");
        assert_eq!(error(catalogue.move_to("/a/b", "/a/b/c/d").await), "\"/a/b/c/d\" is below \"/a/b\"");
        assert_eq!(error(catalogue.move_to("/a/b/f", "/a/b/c").await), "\"/a/b/c\" exists");
        assert_eq!(error(catalogue.move_to("/a/n", "/a/m").await), "\"/a/n\" does not exist");
        assert!(error(catalogue.move_to("/", "/a/m").await).contains("the root"));
        let gone = catalogue.restore("me", &GUID(1)).await.expect_err("it is there");
        assert!(gone.to_string().ends_with("in the trash of me\" does not exist"), "{gone}");
        assert!(matches!(catalogue.list("/a/b/f", "", 5).await, Err(Error::Kind(..))));
        let names = |list: Vec<(String, _)>| list.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(catalogue.list("/a/b", "", 5).await.expect("listed")), ["c", "f"]);
    });
}

#[test]
fn folders_move_with_all_below_and_their_names_are_free() {
    let mut stage = Stage::new(7);
    stage.run(async {
        let catalogue = open().await;
        catalogue.make_folder("/a/b/c").await.expect("made");
        catalogue.make_folder("/z").await.expect("made");
        catalogue.register(&record("/a/b/c/f", GUID(1))).await.expect("registered");
        catalogue.move_to("/a/b", "/z/y").await.expect("moved");
        assert_eq!(catalogue.look_up("/a/b/c/f").await.expect("asked"), None);
        let at = |path: &str| Whereabouts::Path(path.to_owned());
        let found = catalogue.look_up_guid(&GUID(1)).await.expect("asked").expect("there");
        assert_eq!((found.at, found.entry.size, found.locations.len()), (at("/z/y/c/f"), 10, 2));
        // A folder of the same path again is another one: its first id is taken.
        let again = catalogue.make_folder("/a/b").await.expect("made");
        assert_eq!(again.id, folder_id("/a/b", 1));
        assert!(catalogue.list("/a/b", "", 5).await.expect("listed").is_empty());
        // A whole folder into the trash and back.
        let deleted = catalogue.delete("/z/y").await.expect("deleted");
        assert_eq!(
            catalogue.look_up_guid(&GUID(1)).await.expect("asked").expect("there").at,
            Whereabouts::Trash
        );
        assert_eq!(catalogue.look_up("/z/y/c/f").await.expect("asked"), None);
        assert_eq!(catalogue.restore(&deleted.owner, &deleted.id).await.expect("restored"), "/z/y");
        assert_eq!(catalogue.look_up_guid(&GUID(1)).await.expect("asked").expect("there").at, at("/z/y/c/f"));
        // And a file for ever.
        catalogue.delete("/z/y/c/f").await.expect("deleted");
        catalogue.purge("me", &GUID(1)).await.expect("purged");
        assert_eq!(catalogue.look_up_guid(&GUID(1)).await.expect("asked"), None);
        let more = [("C".to_owned(), "z".to_owned())];
        assert!(matches!(catalogue.add_locations(&GUID(1), &more).await, Err(Error::NotFound(_))));
    });
}

/// Two clients: what one has moved the other finds after a second, where it is and not where it was.
#[test]
fn another_clients_moves_show_after_a_second() {
    let mut stage = Stage::new(8);
    stage.run(async {
        let (one, two) = (open().await, open().await);
        one.make_folder("/a/b").await.expect("made");
        one.register(&record("/a/b/f", GUID(1))).await.expect("registered");
        assert!(two.look_up("/a/b/f").await.expect("asked").is_some());
        one.move_to("/a/b", "/a/c").await.expect("moved");
        assert!(two.look_up("/a/c/f").await.expect("asked").is_some());
        runtime::sleep(Duration::from_millis(1_100)).await;
        assert_eq!(two.look_up("/a/b/f").await.expect("asked"), None);
        // Both make the same folder.
        let made =
            (one.make_folder("/n/m").await.expect("made"), two.make_folder("/n/m").await.expect("made"));
        assert_eq!(made.0.id, made.1.id);
        let more = [("C".to_owned(), "z".to_owned())];
        two.add_locations(&GUID(1), &more).await.expect("added");
        let found = one.look_up_guid(&GUID(1)).await.expect("asked").expect("there");
        assert_eq!(found.locations.len(), 3);
    });
}

/// A registration that was cut off leaves an index entry: it leads nowhere, is told as nothing, and goes when it is old.
#[test]
fn a_stale_index_entry_is_recognised_and_removed() {
    let mut stage = Stage::new(9);
    let count = |catalogue: Rc<Catalogue>| async move {
        let text = "SELECT guid FROM catalogue.guids";
        let rows = catalogue.session.pool.query(text, Parameters::at(Consistency::One)).await;
        rows.expect("asked").rows().rows.len()
    };
    let catalogue = stage.run(async move {
        let catalogue = open().await;
        catalogue.make_folder("/a").await.expect("made");
        catalogue.register(&record("/a/f", GUID(1))).await.expect("registered");
        let text = "DELETE FROM catalogue.folder_entries WHERE folder = ? AND bucket = 0 AND name = 'f'";
        let folder = folder_id("/a", 0);
        let text = text.replacen('?', &folder.to_string(), 1);
        catalogue.session.pool.query(&text, Parameters::at(Consistency::One)).await.expect("deleted");
        assert_eq!(catalogue.look_up_guid(&GUID(1)).await.expect("asked"), None);
        // It might be a registration under way.
        assert_eq!(count(catalogue.clone()).await, 1);
        catalogue
    });
    stage.world.run_for(Duration::from_secs(601));
    stage.run(async move {
        assert_eq!(catalogue.look_up_guid(&GUID(1)).await.expect("asked"), None);
        assert_eq!(count(catalogue).await, 0);
    });
}

/// A folder that gets more partitions keeps its entries where they are.
#[test]
fn a_folder_grows_without_moving_anything() {
    let mut stage = Stage::new(10);
    stage.run(async {
        let catalogue = open().await;
        catalogue.make_folder("/big").await.expect("made");
        let mut names = Vec::new();
        for number in 0..240 {
            if number % 60 == 59 {
                let id = folder_id("/big", 0);
                let partitions = 2 << (number / 60);
                let text = format!("UPDATE catalogue.folders SET partitions = {partitions} WHERE id = {id}");
                let done = catalogue.session.pool.query(&text, Parameters::at(Consistency::One)).await;
                done.expect("grown");
                runtime::sleep(Duration::from_millis(1_100)).await;
            }
            let path = format!("/big/{number:03}");
            catalogue.register(&record(&path, GUID(number))).await.expect("registered");
            names.push(format!("{number:03}"));
        }
        for number in (0..240).step_by(7) {
            let path = format!("/big/{number:03}");
            let found = catalogue.look_up(&path).await.expect("asked").expect(&path);
            assert_eq!(found.id, GUID(number));
            assert!(catalogue.look_up_guid(&GUID(number)).await.expect("asked").is_some());
        }
        let mut listed: Vec<String> = Vec::new();
        loop {
            let after = listed.last().cloned().unwrap_or_default();
            let page = catalogue.list("/big", &after, 50).await.expect("listed");
            if page.is_empty() {
                break;
            }
            listed.extend(page.into_iter().map(|(name, _)| name));
        }
        assert_eq!(listed, names);
    });
}
