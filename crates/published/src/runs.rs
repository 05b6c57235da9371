//! The runs, as data: which lines, how much, what came of them where they were published.
//!
//! Lines marked `Exact` are those of the publication; of lines marked otherwise the publication tells the parameters, not the words.
//! Threads, rates, levels and ratios are never scaled.

use crate::figures::Figures;
use crate::line::{Loader, Surroundings, Work, filled, places};
use crate::scale::Scale;
use std::time::Duration;

/// Whose words a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// The publication's.
    Exact,
    /// Ours, from the parameters that it tells.
    Ours,
}

/// A line, run by so many loaders at once.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// With places: see [`crate::line`].
    pub template: &'static str,
    /// Loaders, each a process where it was published.
    pub loaders: u64,
    /// How much all of them do.
    pub work: Work,
    /// Whose words.
    pub words: Words,
}

/// What runs a phase's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `messina cassandra-stress`.
    Stress,
    /// `messina cloudsuite`.
    Cloudsuite,
    /// The file catalogue, which is no line but several steps.
    Catalogue,
}

/// Lines that run at the same time, and what they came to.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// The tool.
    pub tool: Tool,
    /// The lines.
    pub lines: &'static [Line],
    /// What was published.
    pub published: Figures,
    /// What the figures mean.
    pub remark: &'static str,
}

/// What a publication has in the places that are ours to fill.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Its nodes, or as many names.
    pub nodes: &'static str,
    /// What `-schema replication()` holds.
    pub replication: &'static str,
    /// User and password.
    pub login: Option<(&'static str, &'static str)>,
    /// Files of the log and of the charts.
    pub log: &'static str,
    /// The other.
    pub graph: &'static str,
}

/// Three nodes, three replicas, no files.
const PLAIN: Own = Own { nodes: "a,b,c", replication: "factor=3", login: None, log: "", graph: "" };
/// The same of six nodes.
const SIX: Own = Own { nodes: "a,b,c,d,e,f", ..PLAIN };

/// A published run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Its size.
    pub size: &'static str,
    /// The figure it is known for.
    pub figure: &'static str,
    /// The machines it ran on.
    pub machines: &'static str,
    /// Replicas of a datacenter.
    pub replicas: u32,
    /// Whether the replication names each datacenter.
    pub by_datacenter: bool,
    /// What stands in the places of its lines where it was published.
    pub own: Own,
    /// What it does.
    pub phases: &'static [Phase],
    /// The scale for one laptop, and the one that is done in less than a minute.
    pub scale: f64,
    /// The other.
    pub tiny: f64,
}

/// All of them.
pub const RUNS: &[Run] = &[BARE_METAL, OCI, TABLE, WRITE_HEAVY, CLOUDSUITE, FILES];

/// The run of a name.
pub fn find(name: &str) -> Option<&'static Run> {
    RUNS.iter().find(|run| run.name == name)
}

impl Run {
    /// Its command lines as they were published, one for each loader: `write 1/10: cassandra-stress …`. Steps that are no lines are left out.
    pub fn published_lines(&self) -> Vec<String> {
        let around = Surroundings {
            nodes: self.own.nodes.into(),
            replication: self.own.replication.into(),
            login: self.own.login.map(|(user, password)| (user.into(), password.into())),
            ..Surroundings::default()
        };
        let mut all = Vec::new();
        for phase in self.phases {
            let lines = phase.lines.iter().filter(|line| !line.template.is_empty());
            let of: u64 = lines.clone().map(|line| line.loaders).sum();
            let loaders = lines.flat_map(|line| (0..line.loaders).map(move |number| (line, number)));
            for (at, (line, number)) in (1..).zip(loaders) {
                let loader = Loader { number, of: line.loaders };
                let mut places = places(&line.work, Scale::of(1.0), loader, &around);
                places.extend([
                    ("{log}", self.own.log.to_owned()),
                    ("{graph}", self.own.graph.to_owned()),
                    ("{operations}", (CLOUDSUITE_TARGET * line.work.duration.as_secs()).to_string()),
                    ("{more}", String::new()),
                ]);
                all.push(format!("{} {at}/{of}: {}", phase.name, filled(line.template, &places)));
            }
        }
        all
    }

    /// Most loaders that run at once.
    pub fn loaders(&self) -> u64 {
        let of = |phase: &Phase| phase.lines.iter().map(|line| line.loaders).sum();
        self.phases.iter().map(of).max().unwrap_or(1)
    }
}

const fn stress(
    name: &'static str,
    lines: &'static [Line],
    published: Figures,
    remark: &'static str,
) -> Phase {
    Phase { name, tool: Tool::Stress, lines, published, remark }
}

const BARE_METAL: Run = Run {
    name: "bare-metal-2017",
    what: "ten loaders write one range of keys after the other, twenty read around the middle ones: Scylla on bare metal, January 2017",
    size: "7,000,000,000 rows, then 240 minutes of reads",
    figure: "281,037 reads/s of each client, about 1.5 million of all; p99 10.3 ms",
    machines: "3 servers, each with 36 processors, 512 GB, 4 NVMe as one XFS, about 1.9 TB of data; 10 to 20 loaders on machines of their own",
    replicas: 3,
    by_datacenter: false,
    own: PLAIN,
    phases: &[
        stress(
            "write",
            &[Line {
                template: r#"cassandra-stress write n={n} cl=QUORUM -mode native cql3{login} -schema keyspace="keys" "replication({replication})" -pop seq={seq} -rate threads=700 -node {nodes}"#,
                loaders: 10,
                work: Work::rows(7_000_000_000, 1),
                words: Words::Exact,
            }],
            Figures::NONE,
            "published as about 1 GB written in a second",
        ),
        stress(
            "read",
            &[Line {
                template: r#"cassandra-stress read duration={duration} cl=QUORUM -mode native cql3{login} -schema keyspace="keys" "replication({replication})" -pop dist=gaussian\({gaussian}\) -rate threads=1500 -node {nodes}"#,
                loaders: 20,
                work: Work::minutes(240, 7_000_000_000, 1_100_000_000),
                words: Words::Exact,
            }],
            Figures::published(281_037, [5.3, 3.2, 7.5, 10.3, 34.7, 2507.4]),
            "published for one client of several; began with a cold cache, which a run beside its writes does not",
        ),
    ],
    scale: 1e-4,
    tiny: 1e-6,
};

const OCI: Run = Run {
    name: "oci-2018",
    what: "writes of 100 million and of a billion rows at LOCAL_QUORUM, then reads around the middle keys: DataStax Enterprise on OCI, March 2018",
    size: "2,000,000,000 rows, then 240 minutes of reads",
    figure: "77,087 writes/s of one client, 10 × 24,607 of ten, 156,651 with 1,000 threads; 47,646 reads/s",
    machines: "6 nodes of BM.DenseIO1.36 (36 processors, 512 GB, NVMe) in one region; 1 to 10 loaders on machines of their own",
    replicas: 3,
    by_datacenter: false,
    own: Own {
        login: Some(("cassandra", "xxxxxx")),
        log: "~/load100M<date>.log",
        graph: "oci_bm_local_quorum.html",
        ..SIX
    },
    phases: &[
        stress(
            "write-100m",
            &[Line {
                template: r#"cassandra-stress write n={n} cl=LOCAL_QUORUM -mode native cql3{login} -schema keyspace="keyspace1" "replication({replication})" -pop seq={seq} -rate threads=100 -log file={log} -node {nodes} -graph file={graph} title=oci_bm revision=benchmark-1"#,
                loaders: 1,
                work: Work::rows(100_000_000, 1),
                words: Words::Exact,
            }],
            Figures::published(77_087, [1.3, 1.2, 1.8, 1.9, 15.1, 591.9]),
            "0:21:37",
        ),
        stress(
            "write-10-clients",
            &[Line {
                template: r#"cassandra-stress write n={n} cl=LOCAL_QUORUM -mode native cql3{login} -schema keyspace="keyspace1" "replication({replication})" -pop seq={seq} -rate threads=100 -log file={log} -node {nodes} -graph file={graph} title=oci_bm revision=benchmark-1"#,
                loaders: 10,
                work: Work::rows(1_000_000_000, 1),
                words: Words::Exact,
            }],
            Figures::published(24_607, [4.0, 2.0, 11.4, 18.0, 221.8, 1022.4]),
            "published for each of ten clients, the first of which began earlier; 1:07:43",
        ),
        stress(
            "write-1b",
            &[Line {
                template: r#"cassandra-stress write n={n} cl=LOCAL_QUORUM -mode native cql3{login} -schema keyspace="keyspace1" "replication({replication})" -pop seq={seq} -rate threads=1000 -log file={log} -node {nodes} -graph file={graph} title=oci_bm revision=benchmark-11"#,
                loaders: 1,
                work: Work::rows(1_000_000_000, 1_000_000_001),
                words: Words::Exact,
            }],
            Figures::published(156_651, [6.4, 2.0, 18.1, 31.7, 474.5, 1959.8]),
            "1:46:23",
        ),
        stress(
            "read",
            &[Line {
                template: r#"cassandra-stress read duration={duration} cl=LOCAL_QUORUM -mode native cql3{login} -schema keyspace="keyspace1" "replication({replication})" -pop dist=gaussian\({gaussian}\) -rate threads=1500 -log file={log} -node {nodes} -graph file={graph} title=oci_bm revision=benchmark-11"#,
                loaders: 2,
                work: Work::minutes(240, 2_000_000_000, 500_000_000),
                words: Words::Exact,
            }],
            Figures::published(47_646, [31.4, 14.4, 117.0, 182.2, 345.8, 9781.1]),
            "published for one of two clients; 686,126,907 partitions",
        ),
    ],
    scale: 1e-3,
    tiny: 1e-5,
};

/// The middle part of the lines of the table.
macro_rules! table_line {
    ($command:literal, $threads:literal, $draw:literal) => {
        concat!(
            "cassandra-stress ",
            $command,
            " cl=QUORUM -mode native cql3{login} -schema \"replication({replication})\" -pop ",
            $draw,
            " -rate threads=",
            $threads,
            " -node {nodes}"
        )
    };
}

/// Entries of the table's catalogue.
const ENTRIES: u64 = 5_000_000_000;

/// A line of the table that is not an insert.
const fn drawn(template: &'static str, deviation: u64) -> Line {
    Line { template, loaders: 1, work: Work::minutes(60, ENTRIES, deviation), words: Words::Ours }
}

const READ: &str = table_line!("read duration={duration}", "2000", r"dist=gaussian\({gaussian}\)");
const MIXED: &str = table_line!(
    "mixed \"ratio(read=10,write=1)\" duration={duration}",
    "2200",
    r"dist=gaussian\({gaussian}\)"
);
const BESIDE: &str = table_line!("write duration={duration}", "200", r"dist=gaussian\({gaussian}\)");

const TABLE: Run = Run {
    name: "catalogue-2018",
    what: "table A to G: inserts, reads and mixtures 10 to 1 of a catalogue of five billion entries: ScyllaDB and CERN ALICE, 2018",
    size: "5,000,000,000 rows, then reads and mixtures with standard deviations of 10,000 to 10 million keys",
    figure: "2 to 6.4 times the rate of Cassandra on the same machines",
    machines: "6 nodes, each with 56 hyperthreads, 128 GB and one SSD; a second test with 7 nodes of 256 GB",
    replicas: 3,
    by_datacenter: false,
    own: SIX,
    phases: &[
        stress(
            "A-insert",
            &[Line {
                template: table_line!("write n={n}", "2000", "seq={seq}"),
                loaders: 1,
                work: Work::rows(ENTRIES, 1),
                words: Words::Ours,
            }],
            Figures::NONE,
            "published as 2 times Cassandra's rate",
        ),
        stress("B-read-10k", &[drawn(READ, 10_000)], Figures::NONE, "published as 3 times Cassandra's rate"),
        stress(
            "C-read-1m",
            &[drawn(READ, 1_000_000)],
            Figures::NONE,
            "published as 3.28 times Cassandra's rate",
        ),
        stress(
            "D-mixed-100k",
            &[drawn(MIXED, 100_000)],
            Figures::NONE,
            "published as 5.8 times Cassandra's rate",
        ),
        stress(
            "E-mixed-1m",
            &[drawn(MIXED, 1_000_000)],
            Figures::NONE,
            "published as 6.4 times Cassandra's rate",
        ),
        stress(
            "F-mixed-10m",
            &[drawn(MIXED, 10_000_000)],
            Figures::NONE,
            "published as 6.1 times Cassandra's rate",
        ),
        stress(
            "G-read-beside-write-100k",
            &[drawn(READ, 100_000), drawn(BESIDE, 100_000)],
            Figures::NONE,
            "two processes, 2,000 readers and 200 writers; published as 5.62 times Cassandra's rate",
        ),
    ],
    scale: 2e-4,
    tiny: 4e-6,
};

/// Hours of the soak.
const SOAK: u64 = 96 * 60;

/// The lines of the write-heavy runs.
macro_rules! heavy_line {
    ($command:literal, $draw:literal) => {
        concat!(
            "cassandra-stress ",
            $command,
            " duration={duration} cl=LOCAL_QUORUM -mode native cql3{login} -schema \"replication({replication})\" ",
            "\"compaction(strategy=SizeTieredCompactionStrategy)\" -pop ",
            $draw,
            " -rate threads=20000 throttle=25000/s -node {nodes}"
        )
    };
}

const fn heavy(template: &'static str) -> Line {
    Line { template, loaders: 1, work: Work::minutes(SOAK, 10_000, 1_000), words: Words::Ours }
}

const WRITE_HEAVY: Run = Run {
    name: "write-heavy-2dc",
    what: "20,000 users at 25,000 operations in a second, a fifth of them reads, for four days: Scylla as a write heavy database, two datacenters",
    size: "10,000 keys, 96 hours each of writes, reads and the mixture",
    figure: "600,000 op/s on six nodes; p95 10 ms, p99 50 ms; throughput drops at times",
    machines: "2 datacenters of 3 nodes, RAID0 with XFS; 15 processors pinned to the client",
    replicas: 3,
    by_datacenter: true,
    own: Own { replication: "strategy=NetworkTopologyStrategy,LABCLOUD1=3,LABCLOUD2=3", ..SIX },
    phases: &[
        stress(
            "fill",
            &[Line {
                template: "cassandra-stress write n={n} cl=LOCAL_QUORUM -mode native cql3{login} -schema \"replication({replication})\" \"compaction(strategy=SizeTieredCompactionStrategy)\" -pop seq={seq} -rate threads=1000 -node {nodes}",
                loaders: 1,
                work: Work::rows(10_000, 1),
                words: Words::Ours,
            }],
            Figures::NONE,
            "every key once, so that reads find all",
        ),
        stress(
            "write",
            &[heavy(heavy_line!("write", r"dist=uniform\({keys}\)"))],
            Figures::percentiles(Some(10.0), Some(50.0)),
            "published of all six nodes: 600,000 op/s, p95 10 ms, p99 50 ms",
        ),
        stress(
            "read",
            &[heavy(heavy_line!("read", r"dist=gaussian\({gaussian}\)"))],
            Figures::percentiles(Some(10.0), Some(50.0)),
            "as above",
        ),
        stress(
            "mixed",
            &[heavy(heavy_line!("mixed \"ratio(read=1,write=4)\"", r"dist=gaussian\({gaussian}\)"))],
            Figures::percentiles(Some(10.0), Some(50.0)),
            "as above",
        ),
    ],
    scale: 1e-4,
    tiny: 1e-6,
};

const CLOUDSUITE: Run = Run {
    name: "cloudsuite",
    what: "data serving: ten million records, then half reads and half updates of them at a rate (YCSB's workload A)",
    size: "10,000,000 records of 1 KB, 5,000 operations in a second for ten minutes",
    figure: "5,000 op/s, steady after two minutes, p99 of 5 to 10 ms",
    machines: "one server of the Skylake generation with half of its memory free; a client beside it",
    replicas: 3,
    by_datacenter: false,
    own: Own { nodes: "a", ..PLAIN },
    phases: &[
        Phase {
            name: "warmup",
            tool: Tool::Cloudsuite,
            lines: &[Line {
                template: "cloudsuite warmup {nodes} {records} 64{more}",
                loaders: 1,
                work: Work::rows(10_000_000, 1),
                words: Words::Exact,
            }],
            published: Figures::NONE,
            remark: "",
        },
        Phase {
            name: "load",
            tool: Tool::Cloudsuite,
            lines: &[Line {
                template: "cloudsuite load {nodes} {records} 5000 64 {operations}{more}",
                loaders: 1,
                work: Work {
                    rows: 0,
                    first: 1,
                    keys: 10_000_000,
                    deviation: 0,
                    duration: Duration::from_secs(600),
                },
                words: Words::Exact,
            }],
            published: Figures { rate: Some(5_000.0), p99: Some(10.0), ..Figures::NONE },
            remark: "the rate is asked for; reads and updates together, latencies of reads",
        },
    ],
    scale: 1e-2,
    tiny: 1e-3,
};

/// Operations in a second of the load of CloudSuite.
pub const CLOUDSUITE_TARGET: u64 = 5_000;

const FILES: Run = Run {
    name: "file-catalogue",
    what: "a file catalogue in CQL: import with a cross-check, lookups, listings, registrations, moves, the trash, quotas; every answer compared",
    size: "5,000,000,000 files, ten minutes of operations",
    figure: "asked for: 50 billion entries and 100,000 op/s; 10,000 op/s on MySQL before",
    machines: "MySQL: 1,300 tables of paths, 200 of GUIDs, 6 TB",
    replicas: 3,
    by_datacenter: false,
    own: PLAIN,
    phases: &[Phase {
        name: "files",
        tool: Tool::Catalogue,
        lines: &[Line {
            template: "",
            loaders: 1,
            work: Work {
                rows: 5_000_000_000,
                first: 1,
                keys: 5_000_000_000,
                deviation: 0,
                duration: Duration::from_secs(600),
            },
            words: Words::Ours,
        }],
        published: Figures { rate: Some(100_000.0), ..Figures::NONE },
        remark: "asked for, not measured",
    }],
    scale: 2e-4,
    tiny: 4e-5,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::words;

    fn lines(run: &Run, scale: Scale) -> Vec<String> {
        let around =
            Surroundings { nodes: "a,b,c".into(), replication: "factor=3".into(), ..Surroundings::default() };
        let line = |line: &Line, number| {
            filled(line.template, &places(&line.work, scale, Loader { number, of: line.loaders }, &around))
        };
        run.phases
            .iter()
            .flat_map(|phase| phase.lines)
            .flat_map(|one| [line(one, 0), line(one, one.loaders - 1)])
            .collect()
    }

    /// The lines of a run's phase.
    fn published(run: &str, phase: &str) -> Vec<String> {
        let all = find(run).expect("a run").published_lines();
        let of = |line: &String| {
            let (name, line) = line.split_once(": ").expect("a name");
            (name.rsplit_once(' ').expect("a loader").0 == phase).then(|| line.to_owned())
        };
        all.iter().filter_map(of).collect()
    }

    #[test]
    fn lines_come_back_as_they_were_published() {
        let bare = published("bare-metal-2017", "write");
        assert_eq!(
            bare[0],
            r#"cassandra-stress write n=700000000 cl=QUORUM -mode native cql3 -schema keyspace="keys" "replication(factor=3)" -pop seq=1..700000000 -rate threads=700 -node a,b,c"#
        );
        assert_eq!(bare.len(), 10);
        assert!(bare[9].contains(" n=700000000 ") && bare[9].contains(" seq=6300000001..7000000000 "));
        let read = published("bare-metal-2017", "read");
        assert_eq!(
            read[19],
            r#"cassandra-stress read duration=240m cl=QUORUM -mode native cql3 -schema keyspace="keys" "replication(factor=3)" -pop dist=gaussian\(1..7000000000,3500000000,1100000000\) -rate threads=1500 -node a,b,c"#
        );
        let oci = |phase| published("oci-2018", phase).pop().expect("a line");
        assert_eq!(
            oci("write-100m"),
            r#"cassandra-stress write n=100000000 cl=LOCAL_QUORUM -mode native cql3 user=cassandra password=xxxxxx -schema keyspace="keyspace1" "replication(factor=3)" -pop seq=1..100000000 -rate threads=100 -log file=~/load100M<date>.log -node a,b,c,d,e,f -graph file=oci_bm_local_quorum.html title=oci_bm revision=benchmark-1"#
        );
        let large = oci("write-1b");
        assert!(large.contains(" n=1000000000 "), "{large}");
        assert!(large.contains(" -pop seq=1000000001..2000000000 -rate threads=1000 "), "{large}");
        assert!(large.ends_with(" revision=benchmark-11"), "{large}");
        let read = oci("read");
        assert!(
            read.contains(r" duration=240m ")
                && read.contains(r"dist=gaussian\(1..2000000000,1000000000,500000000\) -rate threads=1500"),
            "{read}"
        );
        let table = |phase| published("catalogue-2018", phase).pop().expect("a line");
        let narrow = table("B-read-10k");
        assert!(narrow.contains(r"dist=gaussian\(1..5000000000,2500000000,10000\)"), "{narrow}");
        assert!(table("D-mixed-100k").contains(" mixed \"ratio(read=10,write=1)\" "));
        let heavy = published("write-heavy-2dc", "mixed").pop().expect("a line");
        assert!(heavy.contains(" -rate threads=20000 throttle=25000/s ") && heavy.contains(" duration=96h "));
        assert!(heavy.contains(r"dist=gaussian\(1..10000,5000,1000\)"), "{heavy}");
        assert!(heavy.contains("LABCLOUD1=3,LABCLOUD2=3"), "{heavy}");
        assert_eq!(published("cloudsuite", "load"), ["cloudsuite load a 10000000 5000 64 3000000"]);
        let loaders = |run| find(run).expect("a run").loaders();
        assert_eq!(
            (loaders("bare-metal-2017"), loaders("catalogue-2018"), loaders("file-catalogue")),
            (20, 2, 1)
        );
    }

    /// The tool takes every line at every scale.
    #[test]
    fn every_line_is_one_that_the_tool_understands() {
        for run in RUNS {
            for scale in [Scale::of(1.0), Scale::of(run.scale), Scale::parse("tiny", run.tiny).expect("tiny")]
            {
                for line in lines(run, scale).iter().filter(|line| line.starts_with("cassandra-stress")) {
                    let line = line.replace("{log}", "x.log").replace("{graph}", "x.html");
                    assert!(!line.contains('{'), "{line}");
                    let words = words(&line)[1..].to_vec();
                    let settings = stress::settings::split(&words).and_then(stress::settings::read);
                    assert!(settings.is_ok(), "{line}: {:?}", settings.err());
                }
            }
        }
    }

    #[test]
    fn names_are_their_own_and_scales_are_small() {
        for run in RUNS {
            assert_eq!(RUNS.iter().filter(|other| other.name == run.name).count(), 1);
            assert!(run.tiny < run.scale && run.scale < 0.1, "{}", run.name);
        }
        assert!(find("other").is_none());
    }
}
