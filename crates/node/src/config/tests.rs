//! Files as users have them, values as they get them wrong, and the table of keys against what it claims.

use super::keys::{self, Effect};
use super::old_names::OLD_NAMES;
use super::value::Shape;
use super::*;

fn read(text: &str) -> Result<(Config, Vec<String>), ConfigError> {
    let mut config = Config::standard("data".into());
    let warnings = config.read("node.yaml", text)?;
    config.finish()?;
    Ok((config, warnings))
}

fn refused(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn both_dialects_of_keys_are_read() {
    let (c, warnings) = read(
        "cluster_name: 'My Cluster'\nread_request_timeout: 7s\nwrite_request_timeout_in_ms: 900\n\
         commitlog_segment_size_in_mb: 64\ncommitlog_sync: batch\ndata_file_directories:\n    - /d\n\
         native_transport_max_frame_size: 32MiB\nnative_transport_max_concurrent_connections: -1\n\
         commitlog_total_space_in_mb: -1\nmemtable_heap_space: 8MiB\nmemtable_offheap_space_in_mb: 4\n\
         prometheus_port: 0\nprometheus_address: 127.0.0.1\n",
    )
    .unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(c.cluster_name, "My Cluster");
    assert_eq!(c.read_timeout, Duration::from_secs(7));
    assert_eq!(c.write_timeout, Duration::from_millis(900));
    assert_eq!(c.commitlog_segment_bytes, 64 << 20);
    assert_eq!(c.commitlog_sync, CommitlogSync::Batch);
    assert_eq!(c.data_directory, PathBuf::from("/d"));
    assert_eq!(c.frame_bytes_max, 32 << 20);
    assert_eq!(c.connections_max, None);
    assert_eq!(c.commitlog_bytes, None);
    assert_eq!(c.memtable_bytes, Some(12 << 20));
    assert_eq!(c.prometheus, None);
}

#[test]
fn authorizers_are_read_with_and_without_their_package() {
    let guarded = "authenticator: PasswordAuthenticator\npermissions_validity: 10s\n";
    for class in [
        "authorizer: CassandraAuthorizer\n",
        "authorizer: org.apache.cassandra.auth.CassandraAuthorizer\n",
        "authorizer:\n  class_name: CassandraAuthorizer\n",
        "authorizer:\n  class_name: org.apache.cassandra.auth.CassandraAuthorizer\n",
    ] {
        let (c, _) = read(&format!("{guarded}{class}")).unwrap();
        assert!(c.authorization.by_permissions && !c.authorization.by_datacenter, "{class}");
    }
    let (c, _) = read(&format!("{guarded}network_authorizer: CassandraNetworkAuthorizer\n")).unwrap();
    assert!(!c.authorization.by_permissions && c.authorization.by_datacenter);
    let (c, _) = read("authorizer: org.apache.cassandra.auth.AllowAllAuthorizer\n").unwrap();
    assert!(!c.authorization.is_on());
}

#[test]
fn levels_of_roles_and_thresholds_of_batches_are_taken() {
    use types::Consistency;
    let (c, _) = read("cluster_name: c\n").unwrap();
    let levels = (c.authentication.read_level, c.authentication.write_level);
    assert_eq!(levels, (Consistency::LocalQuorum, Consistency::EachQuorum));
    assert_eq!(c.batch_warn_partitions, 10);
    let (c, warnings) = read(
        "auth_read_consistency_level: ONE\nauth_write_consistency_level: ALL\n\
         unlogged_batch_across_partitions_warn_threshold: 3\n",
    )
    .unwrap();
    let levels = (c.authentication.read_level, c.authentication.write_level);
    assert_eq!(levels, (Consistency::One, Consistency::All));
    assert_eq!(c.batch_warn_partitions, 3);
    assert_eq!(warnings, Vec::<String>::new());
    assert!(read("auth_read_consistency_level: SERIAL\n").is_err());
}

#[test]
fn what_cassandra_ships_is_taken() {
    let (c, warnings) = read(
        "cluster_name: 'Test Cluster'\nnum_tokens: 16\nauthenticator:\n  class_name : AllowAllAuthenticator\n\
         authorizer:\n  class_name : AllowAllAuthorizer\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
         commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\ncommitlog_segment_size: 32MiB\n\
         seed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters:\n      - seeds: \"127.0.0.1:7000\"\n\
         storage_port: 7000\nlisten_address: localhost\nstart_native_transport: true\nnative_transport_port: 9042\n\
         rpc_address: localhost\nendpoint_snitch: SimpleSnitch\ninitial_token:\n",
    )
    .unwrap();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(c.seeds, [Seed { host: "127.0.0.1".into(), port: Some(7000) }]);
    assert_eq!(c.listen_address, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let settings = c.effective();
    let setting = |name: &str| settings.iter().find(|row| row.0 == name).map(|row| row.1.as_str());
    assert_eq!(setting("seed_provider.parameters"), Some("[{seeds=127.0.0.1:7000}]"));
    assert_eq!(setting("commitlog_sync_period"), Some("10000ms"));
    assert_eq!(setting("tombstone_warn_threshold"), Some("1000"));
}

#[test]
fn sstables_are_tries_unless_cassandra_4_is_to_read_them() {
    use storage::SstableFormat::{Big, Bti};
    for (text, format, shown) in [
        ("cluster_name: a\n", Bti, "bti"),
        ("storage_compatibility_mode: CASSANDRA_4\n", Big, "big"),
        ("storage_compatibility_mode: UPGRADING\n", Bti, "bti"),
        ("sstable:\n  selected_format: big\n", Big, "big"),
        ("sstable:\n  selected_format: bti\nstorage_compatibility_mode: NONE\n", Bti, "bti"),
    ] {
        let (c, _) = read(text).unwrap();
        assert_eq!(c.sstable_format, format, "{text}");
        let told = c.effective().into_iter().find(|row| row.0 == "sstable.selected_format");
        assert_eq!(told.unwrap().1, shown, "{text}");
    }
    let both = refused("storage_compatibility_mode: CASSANDRA_4\nsstable:\n  selected_format: bti\n");
    assert!(both.contains("expected big, as storage_compatibility_mode is CASSANDRA_4"), "{both}");
}

#[test]
fn tables_without_a_choice_are_compacted_as_cassandra_latest_has_it_unless_for_cassandra_4() {
    let class_of =
        |text: &str| read(text).unwrap().0.default_compaction.map(|options| options["class"].clone());
    let class = |name: &str| Some(format!("org.apache.cassandra.db.compaction.{name}"));
    assert_eq!(class_of("cluster_name: a\n"), class("UnifiedCompactionStrategy"));
    assert_eq!(class_of("storage_compatibility_mode: CASSANDRA_4\n"), None);
    let given = "default_compaction:\n  class_name: LeveledCompactionStrategy\n";
    for mode in ["NONE", "CASSANDRA_4"] {
        let text = format!("{given}storage_compatibility_mode: {mode}\n");
        assert_eq!(class_of(&text), class("LeveledCompactionStrategy"), "{mode}");
    }
    // What stands in the configuration is what a statement could say.
    let mut options = super::unified();
    let class = options.remove("class").unwrap();
    assert_eq!(cql::compaction_options(&class, options), Ok(super::unified()));
}

#[test]
fn unknown_keys_warn_with_their_line_and_a_near_name() {
    let (_, warnings) = read(
        "cluster_name: a\n\nhinted_handof_enabled: true\nwholly_unknown: 1\nclient_encryption_options:\n  enable: false\n",
    )
    .unwrap();
    assert_eq!(
        warnings,
        [
            "node.yaml:3: key \"hinted_handof_enabled\" is not known and has no effect; did you mean \"hinted_handoff_enabled\"?",
            "node.yaml:4: key \"wholly_unknown\" is not known and has no effect",
            "node.yaml:6: key \"client_encryption_options.enable\" is not known and has no effect; \
             did you mean \"client_encryption_options.enabled\"?",
        ]
    );
}

#[test]
fn keys_without_effect_say_why_once_per_reason() {
    let (_, warnings) = read("concurrent_reads: 32\ngc_warn_threshold: 1s\nconcurrent_writes: 64\n").unwrap();
    assert_eq!(
        warnings,
        [
            "no effect: concurrent_reads (line 1), concurrent_writes (line 3): \
             work is divided among shards, one per core, not among pools of threads",
            "no effect: gc_warn_threshold (line 2): there is no Java virtual machine",
        ]
    );
}

#[test]
fn wrong_values_name_file_line_key_and_expectation() {
    let cases = [
        (
            "a: 1\nstorage_port: 70000\n",
            "node.yaml:2: storage_port: expected a number from 0 to 65535, got \"70000\"",
        ),
        (
            "commitlog_sync: sometimes",
            "node.yaml:1: commitlog_sync: expected periodic or batch or group, got \"sometimes\"",
        ),
        (
            "rpc_address: nowhere.example",
            "node.yaml:1: rpc_address: expected an IP address or localhost, got \"nowhere.example\"",
        ),
        (
            "read_request_timeout: 5000",
            "node.yaml:1: read_request_timeout: expected a duration such as 500ms, in d, h, m, s, ms, got \"5000\"",
        ),
        (
            "read_request_timeout_in_ms: 5s",
            "node.yaml:1: read_request_timeout_in_ms: expected a number without a unit, it counts in ms, got \"5s\"",
        ),
        (
            "commitlog_segment_size: 64KiB",
            "node.yaml:1: commitlog_segment_size: expected a size such as 64MiB, in GiB, MiB, got \"64KiB\"",
        ),
        (
            "native_transport_max_frame_size: 1GiB",
            "node.yaml:1: native_transport_max_frame_size: expected a size from 4KiB to 256MiB, got \"1GiB\"",
        ),
        (
            "compaction_throughput: 64",
            "node.yaml:1: compaction_throughput: expected a rate such as 24MiB/s, in MiB/s, KiB/s, B/s, got \"64\"",
        ),
        ("auto_snapshot: 1", "node.yaml:1: auto_snapshot: expected true or false, got \"1\""),
        ("cluster_name:", "node.yaml:1: cluster_name: expected text, got \"nothing\""),
        (
            "data_file_directories: [/a, /b]",
            "node.yaml:1: data_file_directories: expected exactly one folder, got \"[/a, /b]\"",
        ),
        ("num_tokens: 0", "node.yaml:1: num_tokens: expected a number from 1 to 256, got \"0\""),
        ("memtable: skiplist", "node.yaml:1: memtable: expected a map, got \"skiplist\""),
        (
            "authorizer: CassandraAuthorizer",
            "node.yaml:1: authorizer.class_name: expected authenticator: PasswordAuthenticator beside it, because nobody would have \
             to say who they are, got \"CassandraAuthorizer\"",
        ),
        (
            "authorizer: org.example.OwnAuthorizer",
            "node.yaml:1: authorizer: expected AllowAllAuthorizer or CassandraAuthorizer, got \"org.example.OwnAuthorizer\"",
        ),
        (
            "server_encryption_options:\n  internode_encryption: all\n  keystore: ''\n",
            "node.yaml:2: server_encryption_options.internode_encryption: \
             expected keystore, or certificate and keyfile, beside it: PEM files, got \"all\"",
        ),
        (
            "read_request_timeout: 7s\nread_request_timeout_in_ms: 900\n",
            "node.yaml:2: both read_request_timeout and read_request_timeout_in_ms are given, \
             which are names of the same key: keep read_request_timeout",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text), expected);
    }
}

#[test]
fn an_unspecified_client_address_needs_a_broadcast_one() {
    assert_eq!(
        refused("a: b\nrpc_address: 0.0.0.0\n"),
        "node.yaml:2: rpc_address: expected broadcast_rpc_address beside it, because clients cannot be told 0.0.0.0, \
         got \"0.0.0.0\""
    );
    assert!(read("rpc_address: 0.0.0.0\nbroadcast_rpc_address: 10.0.0.1\n").is_ok());
}

#[test]
fn sync_keys_come_in_any_order() {
    let (c, _) = read("commitlog_sync_period: 200ms\ncommitlog_sync: periodic\n").unwrap();
    assert_eq!(c.commitlog_sync, CommitlogSync::Periodic(Duration::from_millis(200)));
    let (c, _) = read("commitlog_sync: group\ncommitlog_sync_group_window_in_ms: 4.6\n").unwrap();
    assert_eq!(c.commitlog_sync, CommitlogSync::Group(Duration::from_millis(5)));
    assert_eq!(
        refused("commitlog_sync: group\ncommitlog_sync_group_window: 0ms\n"),
        "node.yaml:2: commitlog_sync_group_window: expected a duration above zero, got \"0ms\""
    );
    assert!(read("commitlog_sync_period: 0ms\n").is_err());
}

#[test]
fn later_sources_win() {
    let mut c = Config::standard("data".into());
    c.read("node.yaml", "read_request_timeout_in_ms: 1\nwrite_request_timeout: 2s\nrack: a\n").unwrap();
    c.read_environment("MESSINA_READ_REQUEST_TIMEOUT", "3s").unwrap();
    c.read_environment("MESSINA_RACK", "b").unwrap();
    c.read_environment("MESSINA_DATA_FILE_DIRECTORIES", "[/e]").unwrap();
    c.read_environment("MESSINA_CLIENT_ENCRYPTION_OPTIONS__ENABLED", "no").unwrap();
    c.read_argument("--set rack", "rack", "c").unwrap();
    c.finish().unwrap();
    assert_eq!((c.read_timeout, c.write_timeout), (Duration::from_secs(3), Duration::from_secs(2)));
    assert_eq!((c.rack.as_str(), c.data_directory.to_str()), ("c", Some("/e")));
    let told = c.explain();
    for line in [
        "read_request_timeout: 3s  # environment MESSINA_READ_REQUEST_TIMEOUT\n",
        "write_request_timeout: 2s  # node.yaml:2\n",
        "rack: c  # argument --set rack\n",
        "client_encryption_options.enabled: false  # environment MESSINA_CLIENT_ENCRYPTION_OPTIONS__ENABLED\n",
        "range_request_timeout: 10000ms  # standard\n",
    ] {
        assert!(told.contains(line), "{line} is not in {told}");
    }
}

#[test]
fn wrong_variables_and_arguments_are_named() {
    let mut c = Config::standard("data".into());
    assert_eq!(
        c.read_environment("MESSINA_STORAGE_PORT", "x").unwrap_err().to_string(),
        "environment MESSINA_STORAGE_PORT: storage_port: expected a number from 0 to 65535, got \"x\""
    );
    assert_eq!(
        c.read_environment("MESSINA_STORAGE_PORTT", "1").unwrap(),
        [
            "environment MESSINA_STORAGE_PORTT: key \"storage_portt\" is not known and has no effect; did you mean \"storage_port\"?"
        ]
    );
    assert_eq!(
        c.read_argument("--set storage_portt", "storage_portt", "1").unwrap_err().to_string(),
        "argument --set storage_portt: key \"storage_portt\" is not known; did you mean \"storage_port\"?"
    );
}

#[test]
fn log_levels_come_from_any_of_three_keys() {
    let (c, _) = read("default_log_level: warn\nlogger_log_level: {storage: debug, cql: trace}\n").unwrap();
    assert_eq!(c.log_levels.to_string(), "warn,cql=trace,storage=debug");
    let (c, _) = read("log_level: error,query=debug\nlog_format: json\n").unwrap();
    assert_eq!((c.log_levels.to_string().as_str(), c.log_json), ("error,query=debug", true));
    assert!(read("log_level: loud\n").is_err());
    assert!(read("logger_log_level: {storage: loud}\n").is_err());
}

#[test]
fn passwords_are_not_shown() {
    let (c, _) = read("client_encryption_options:\n  keystore_password: secret\n").unwrap();
    assert!(!c.explain().contains("secret"));
    assert!(
        c.effective().contains(&("client_encryption_options.keystore_password".into(), "<REDACTED>".into()))
    );
    let (c, _) = read(
        "client_encryption_options:\n  ssl_context_factory:\n    class_name: PEMBasedSslContextFactory\n    \
         parameters:\n      private_key_password: hunter2\nauthenticator:\n  class_name: AllowAllAuthenticator\n  \
         parameters:\n    pin: hunter2\nkmip_hosts:\n  host:\n    username: ann\n    token: hunter2\n\
         seed_provider:\n  - class_name: SimpleSeedProvider\n    parameters:\n      - seeds: 10.0.0.1\n        password: hunter2\n",
    )
    .unwrap();
    assert!(!c.explain().contains("hunter2"), "{}", c.explain());
    let shown = c.effective();
    for key in ["client_encryption_options.ssl_context_factory.parameters", "kmip_hosts"] {
        assert!(shown.contains(&(key.into(), "<REDACTED>".into())), "{key}");
    }
    let refused = read("client_encryption_options: [{keystore_password: hunter2}, 1]\n").unwrap_err();
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
}

/// What nobody sets is what the table says: setting every key to its standard changes nothing.
#[test]
fn standards_are_what_holds() {
    let standard = Config::standard("data".into());
    for key in keys::all() {
        let mut c = standard.clone();
        let text = if key.standard.is_empty() { "''" } else { key.standard };
        c.read("node.yaml", &format!("{}: {text}\n", key.name)).unwrap_or_else(|e| panic!("{e}"));
        c.finish().unwrap();
        c.given.clear();
        c.pieces = Pieces::default();
        assert_eq!(c, standard, "{}", key.name);
    }
}

/// No row asks its value for another shape than its own.
#[test]
fn every_key_takes_a_value_of_its_shape() {
    for key in keys::all() {
        let text = match (key.effect, key.shape) {
            (Effect::Only(values, _), _) => values[0].to_string(),
            (_, Shape::Flag) => "true".into(),
            (_, Shape::Whole(least, most)) => 7.clamp(least, most).to_string(),
            (_, Shape::Real) => "0.5".into(),
            (_, Shape::Time(_) | Shape::SecondsOrTime) => "1h".into(),
            (_, Shape::Size(_)) => "32MiB".into(),
            (_, Shape::PlainSize(_)) => "4096".into(),
            (_, Shape::Rate) => "1MiB/s".into(),
            (_, Shape::OneOf(choices)) => choices[0].into(),
            (_, Shape::Address) => "127.0.0.2".into(),
            (_, Shape::List) => "[/x]".into(),
            (_, Shape::Map) => "{}".into(),
            (_, Shape::Text | Shape::Class | Shape::Any) => match key.name {
                "initial_token" => "1,2".into(),
                "host_id" | "replace_node_first_boot" => "6ba7b810-9dad-41d1-80b4-00c04fd430c8".into(),
                "log_level" => "debug".into(),
                "authenticator.class_name" => "PasswordAuthenticator".into(),
                "authorizer.class_name" => "CassandraAuthorizer".into(),
                "network_authorizer.class_name" => "CassandraNetworkAuthorizer".into(),
                _ => "x".into(),
            },
        };
        let text = if text.is_empty() { "''" } else { &text };
        // Not finished: some keys ask for others beside them.
        let mut c = Config::standard("data".into());
        c.read("node.yaml", &format!("{}: {text}\n", key.name)).unwrap_or_else(|e| panic!("{e}"));
        assert!(c.is_given(key.name), "{}", key.name);
    }
}

#[test]
fn names_are_distinct_and_old_ones_lead_somewhere() {
    let mut names: Vec<&str> = keys::all().map(|key| key.name).collect();
    names.extend(OLD_NAMES.iter().map(|row| row.0));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for (old, new, _) in OLD_NAMES {
        let key = keys::find(new).unwrap_or_else(|| panic!("{old} is now {new}, which is no key"));
        let wrong = read(&format!("{old}: 1\n")).err().map(|e| e.to_string());
        assert!(wrong.is_none_or(|text| !text.contains("no key")), "{old} {}", key.name);
    }
}

#[test]
fn every_key_of_cassandra_is_known() {
    let list = include_str!("../../testdata/cassandra-5.0-keys.txt");
    let unknown: Vec<&str> = list
        .lines()
        .filter(|name| !name.starts_with('#'))
        .filter(|name| keys::find(name).is_none() && OLD_NAMES.iter().all(|row| row.0 != *name))
        .collect();
    assert_eq!(unknown, Vec::<&str>::new());
    assert!(list.lines().count() > 500);
}

const MARK: &str = "<!-- Below: written by `UPDATE=1 cargo test -p node document`. -->\n";

#[test]
#[allow(clippy::disallowed_methods, reason = "the document is no file of a node")]
fn the_document_lists_every_key() {
    let path = "../../docs/operating/configuration.md";
    let text = std::fs::read_to_string(path).expect("the document is there");
    let (prose, tables) = text.split_once(MARK).expect("the mark is in the document");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{prose}{MARK}{}", document())).expect("the document can be written");
        return;
    }
    assert!(tables == document(), "the document is old: UPDATE=1 cargo test -p node document");
}

#[test]
fn the_rack_file_says_where_a_node_is_unless_the_configuration_does() {
    let text = "# a comment\ndc=DC1\nrack = RAC2\ndc_suffix=_west\nprefer_local=true\n";
    let (mut c, _) = read("endpoint_snitch: GossipingPropertyFileSnitch\n").unwrap();
    assert!(c.wants_rack_file());
    assert_eq!(
        c.read_rack_file("r", text).unwrap(),
        ["r:5: no effect: prefer_local: other nodes are always called at their broadcast_address"]
    );
    assert_eq!((&*c.data_center, &*c.rack), ("DC1_west", "RAC2"));
    let (mut c, _) = read("data_center: here\n").unwrap();
    assert!(!c.wants_rack_file());
    c.read_rack_file("r", text).unwrap();
    assert_eq!((&*c.data_center, &*c.rack), ("here", "RAC2"));
    assert_eq!(c.read_rack_file("r", "rack=a\n").unwrap_err().to_string(), "r:1: \"dc\" is missing");
}

#[test]
fn interfaces_stand_for_their_addresses() {
    let known = |name: &str| match name {
        "eth0" => Ok(vec!["fd00::1".parse().unwrap(), "10.0.0.5".parse().unwrap()]),
        "tun0" => Ok(vec!["fd00::2".parse().unwrap()]),
        "bare" => Ok(Vec::new()),
        _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
    };
    let (mut c, warnings) =
        read("listen_interface: eth0\nrpc_interface: eth0\nrpc_interface_prefer_ipv6: true\n").unwrap();
    c.take_interfaces(known).unwrap();
    c.finish().unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(
        (c.listen_address.to_string(), c.rpc_address.to_string()),
        ("10.0.0.5".into(), "fd00::1".into())
    );
    let (mut c, _) = read("listen_interface: tun0\nrpc_interface: null\n").unwrap();
    c.take_interfaces(known).unwrap();
    assert_eq!(
        (c.listen_address.to_string(), c.rpc_address.to_string()),
        ("fd00::2".into(), "127.0.0.1".into())
    );
    for (text, named) in [
        (
            "listen_interface: eth9\n",
            "node.yaml:1: listen_interface: expected the name of a network interface",
        ),
        ("rpc_interface: bare\n", "node.yaml:1: rpc_interface: expected an interface with an address"),
        (
            "rpc_address: 10.0.0.1\nrpc_interface: eth0\n",
            "node.yaml:2: rpc_interface: expected no rpc_address beside it",
        ),
    ] {
        let (mut c, _) = read(text).unwrap();
        let refused = c.take_interfaces(known).unwrap_err().to_string();
        assert!(refused.starts_with(named), "{refused}");
    }
}

#[test]
fn other_nodes_are_told_an_address_that_they_can_call() {
    let listeners = |text: &str| {
        let (c, _) = read(text).unwrap();
        c.internode_listeners().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(listeners("listen_address: 10.0.0.1\nbroadcast_address: 1.2.3.4\n"), ["10.0.0.1"]);
    let both = "listen_address: 10.0.0.1\nbroadcast_address: 1.2.3.4\nlisten_on_broadcast_address: true\n";
    assert_eq!(listeners(both), ["10.0.0.1", "1.2.3.4"]);
    assert_eq!(listeners("listen_address: 10.0.0.1\nlisten_on_broadcast_address: true\n"), ["10.0.0.1"]);
    let refused = read("listen_address: 0.0.0.0\n").unwrap_err().to_string();
    assert!(refused.contains("listen_address: expected broadcast_address beside it"), "{refused}");
    assert!(read("listen_address: 0.0.0.0\nbroadcast_address: 10.0.0.1\n").is_ok());
}

#[test]
fn tokens_are_as_many_as_they_are_said_to_be() {
    let refused = read("num_tokens: 3\ninitial_token: 1,2\n").unwrap_err().to_string();
    assert_eq!(
        refused,
        "node.yaml:2: initial_token: expected as many tokens as num_tokens says, 3, got \"2\""
    );
    assert!(read("num_tokens: 2\ninitial_token: 1,2\n").is_ok() && read("initial_token: 1,2\n").is_ok());
}
