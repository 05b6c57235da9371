//! What a restart finds after schema changes that failed.

use crate::{Changed, Cluster, Error, SchemaLog};
use runtime::sim::{NodeId, SimConfig, World, main_of};
use schema::{Keyspace, Replication, Schema, TableBuilder, TableId};
use std::path::Path;
use std::time::Duration;
use types::CqlType;

const SECOND: Duration = Duration::from_secs(1);

/// A node of one shard that has nothing but a schema.
fn boot(world: &mut World, node: NodeId) {
    let main = || async {
        let (log, schema) = SchemaLog::open(Path::new("/schema.log")).await.expect("sound");
        runtime::install(Cluster::new(schema.into(), Some(log)));
        runtime::sleep(Duration::from_secs(3600)).await;
        0
    };
    world.boot(node, 1, main_of(main));
    world.run_for(SECOND);
}

fn change(
    world: &mut World,
    node: NodeId,
    to: impl Fn(&Schema) -> Schema + Send + 'static,
) -> Result<(), Error> {
    let decide = move |from: &Schema| Ok::<_, ()>(Some((to(from), Vec::new())));
    let mut task = world.spawn(node, async move { Cluster::change(decide).await });
    world.run_for(SECOND / 2);
    let changed = task.take().expect("it is done")?;
    assert!(matches!(changed, Ok(Changed::Done(_))));
    Ok(())
}

fn has_keyspace(world: &mut World, node: NodeId) -> bool {
    let mut task = world.spawn(node, async { runtime::local::<Cluster>().schema().keyspace("a").is_some() });
    world.run_for(SECOND / 100);
    task.take().expect("it is done")
}

#[test]
fn a_drop_that_failed_does_not_come_back_with_a_restart() {
    // The first failing sync is that of the record, the others those of attempts to write over it.
    for failing in 1..4 {
        let mut world = World::new(u64::from(failing), SimConfig::calm());
        let node = world.add_node([10, 0, 0, 1].into());
        boot(&mut world, node);
        let keyspace = Keyspace::new("a", Replication::Local);
        change(&mut world, node, move |from| from.with_keyspace(2, keyspace.clone())).expect("durable");
        world.fail_next_syncs(node, failing);
        let dropped = change(&mut world, node, |from| from.without_keyspace(3, "a"));
        assert!(matches!(dropped, Err(Error::Log(_))), "{failing} syncs fail: {dropped:?}");
        assert!(has_keyspace(&mut world, node), "what failed has not happened");
        world.run_for(5 * SECOND);
        // The page cache outlives a process, with the record that failed, had it not been written over.
        world.kill(node);
        boot(&mut world, node);
        assert!(has_keyspace(&mut world, node), "{failing} syncs fail: the drop came back");
    }
}

#[test]
fn a_change_that_alters_nothing_is_none() {
    let mut world = World::new(9, SimConfig::calm());
    let node = world.add_node([10, 0, 0, 1].into());
    boot(&mut world, node);
    let keyspace = || Keyspace::new("a", Replication::Local);
    change(&mut world, node, move |from| from.with_keyspace(2, keyspace())).expect("durable");
    let again = move |from: &Schema| Ok::<_, ()>(Some((from.with_keyspace(3, keyspace()), Vec::new())));
    let mut task = world.spawn(node, async move { Cluster::change(again).await });
    world.run_for(SECOND / 2);
    assert_eq!(task.take().expect("it is done").expect("durable"), Ok(Changed::Nothing));
}

#[test]
fn a_change_that_could_not_be_read_back_does_not_happen() {
    let mut world = World::new(10, SimConfig::calm());
    let node = world.add_node([10, 0, 0, 1].into());
    boot(&mut world, node);
    let deep = (0..40).fold(CqlType::Int, |ty, _| CqlType::list(ty).frozen());
    let table = TableBuilder::new("a", "t", TableId(1))
        .partition_key("k", CqlType::Int)
        .regular("v", deep)
        .build()
        .expect("what the builder does not look at");
    let mut keyspace = Keyspace::new("a", Replication::Local);
    keyspace.tables.insert(table.name.clone(), table.into());
    let refused = change(&mut world, node, move |from| from.with_keyspace(2, keyspace.clone()));
    assert!(matches!(refused, Err(Error::Unreadable(_))), "{refused:?}");
    assert!(!has_keyspace(&mut world, node));
    world.kill(node);
    boot(&mut world, node);
    assert!(!has_keyspace(&mut world, node));
}

/// A log from when columns were ordered by plain bytes of names: what packed rows call them by is what it was.
#[test]
fn columns_of_an_older_log_keep_their_ordinals() {
    let bytes = include_bytes!("../testdata/names.schema.log");
    let mut world = World::new(1, SimConfig::calm());
    let node = world.add_node([10, 0, 0, 1].into());
    let idle = || async {
        runtime::sleep(Duration::from_secs(3600)).await;
        0
    };
    world.boot(node, 1, main_of(idle));
    let mut written = world.spawn(node, async move {
        runtime::file::write_new_synced(Path::new("/schema.log"), bytes).await.expect("written");
    });
    world.run_for(SECOND);
    written.take().expect("it is done");
    world.kill(node);
    boot(&mut world, node);
    let mut task = world.spawn(node, async { runtime::local::<Cluster>().schema() });
    world.run_for(SECOND / 100);
    let schema = task.take().expect("it is done");
    let table = schema.keyspace("golden").and_then(|keyspace| keyspace.tables.get("names")).expect("a table");
    // As CREATE TABLE had them.
    let created =
        ["a", "ж", "b", "aж", "ab", "abcdefж", "abcdefg", "😀", "A", "é", "el", "я", "aя", "as", "ю", "up"];
    for (ordinal, name) in created.iter().enumerate() {
        assert_eq!(usize::from(table.column(name).expect(name).ordinal), ordinal, "{name}");
    }
    let statics = table.statics.iter().map(|column| (&*column.name, column.ordinal));
    assert_eq!(statics.collect::<Vec<_>>(), [("я1", 2), ("sa", 0), ("sж", 1), ("ям", 4), ("sm", 3)]);
    let regulars: Vec<&str> = table.regulars.iter().map(|column| &*column.name).collect();
    let selected =
        ["ж", "😀", "A", "a", "ab", "abcdefg", "abcdefж", "aж", "as", "aя", "b", "el", "up", "é", "ю", "я"];
    assert_eq!(regulars, selected);
}
