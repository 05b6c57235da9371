//! What a run is to do: the properties of the client and of the two bindings.

use crate::error::Error;
use crate::limits::{CONNECTIONS_MAX, REQUEST_TIMEOUT, THREADS_MAX};
use crate::measure::table::Measuring;
use crate::properties::Properties;
use crate::report::Form;
use crate::workload::{Workload, identifier};
use loadtools::output::Output;
use std::path::PathBuf;
use std::time::Duration;
use types::Consistency;

/// Whether records are written or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Records are written.
    Load,
    /// Operations are run on them.
    Run,
}

/// Whose properties and statements are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// `cassandra-cql`.
    Cassandra,
    /// `scylla`.
    Scylla,
}

impl Binding {
    /// By the word of the command line.
    pub fn of_word(word: &str) -> Option<Binding> {
        match word {
            "cassandra-cql" | "cassandra2-cql" => Some(Binding::Cassandra),
            "scylla" => Some(Binding::Scylla),
            _ => None,
        }
    }

    /// By the class that `-db` or the property `db` names.
    pub fn of_class(class: &str) -> Option<Binding> {
        match class.rsplit('.').next()? {
            "CassandraCQLClient" => Some(Binding::Cassandra),
            "ScyllaCQLClient" => Some(Binding::Scylla),
            _ => None,
        }
    }

    /// The class.
    pub fn class(self) -> &'static str {
        match self {
            Binding::Cassandra => "site.ycsb.db.CassandraCQLClient",
            Binding::Scylla => "site.ycsb.db.scylla.ScyllaCQLClient",
        }
    }
}

/// Whom to believe over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The PEM file with the authorities to trust; any certificate is believed without one.
    pub trust: Option<PathBuf>,
    /// The PEM file with a certificate and its key to show.
    pub certificate: Option<PathBuf>,
}

/// How to speak with the servers.
#[derive(Clone, Debug)]
pub struct Servers {
    /// Names or addresses.
    pub hosts: Vec<String>,
    /// Their port.
    pub port: u16,
    /// The keyspace.
    pub keyspace: String,
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// Consistency of reads.
    pub read_level: Consistency,
    /// Consistency of writes.
    pub write_level: Consistency,
    /// Writes are conditional: of what is there, or of what is not.
    pub is_conditional: bool,
    /// Connections to each node, where it does not say which shards it has.
    pub connections: u16,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// The datacenter whose nodes are asked; that of the first node that answers without one.
    pub datacenter: Option<String>,
    /// Connections are encrypted.
    pub tls: Option<Tls>,
}

/// The line that tells how a run goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How often.
    pub interval: Duration,
    /// What stands before it.
    pub label: String,
    /// Also where the report goes.
    pub on_report: bool,
}

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether records are written or used.
    pub phase: Phase,
    /// Tasks that each have one operation on its way.
    pub threads: u64,
    /// Operations of all threads; 0 for any number.
    pub operations: u64,
    /// Time between two operations of a thread, if there is a rate.
    pub tick: Option<Duration>,
    /// How long operations may begin.
    pub time: Option<Duration>,
    /// The line that tells how it goes.
    pub progress: Option<Progress>,
    /// The form of the report.
    pub form: Form,
    /// The file of the report; the terminal without one.
    pub report_file: Option<String>,
    /// How it is measured.
    pub measuring: Measuring,
    /// Results that have latencies of their own, as they are told at the start.
    pub reports_each_error: bool,
    /// What is done.
    pub workload: Workload,
    /// With whom.
    pub servers: Servers,
}

const NUMBERS: std::ops::RangeInclusive<u64> = 0..=i64::MAX as u64;

impl Settings {
    /// Reads the properties. `output`: is told what is passed over. Errors: name the property.
    pub fn read(properties: &Properties, binding: Binding, output: &Output) -> Result<Settings, Error> {
        let workload = Workload::read(properties)?;
        let phase = if properties.flag("dotransactions", true) { Phase::Run } else { Phase::Load };
        let operations = match phase {
            Phase::Run => properties.whole("operationcount", 0, NUMBERS)?,
            Phase::Load => {
                let records = properties.whole("recordcount", 0, NUMBERS)?;
                properties.whole("insertcount", records, NUMBERS)?
            }
        };
        let asked = properties.whole("threadcount", 1, 1..=THREADS_MAX)?;
        let is_too_many = 0 < operations && operations < asked;
        if is_too_many {
            output.line(
                "Warning: the threadcount is bigger than recordcount, the threadcount will be recordcount!",
            );
        }
        let target = properties.whole("target", 0, 0..=u64::from(u32::MAX))?;
        let seconds = properties.whole("maxexecutiontime", 0, 0..=i32::MAX as u64)?;
        Ok(Settings {
            phase,
            threads: if is_too_many { operations } else { asked },
            operations,
            // By the threads that were asked for, as there.
            tick: (0 < target).then(|| Duration::from_nanos((1e9 / (target as f64 / asked as f64)) as u64)),
            time: (0 < seconds).then(|| Duration::from_secs(seconds)),
            progress: progress(properties)?,
            form: form(properties, output),
            report_file: properties.get("exportfile").map(str::to_owned),
            measuring: Measuring::read(properties, output)?,
            reports_each_error: properties.flag("reportlatencyforeacherror", false),
            workload,
            servers: Servers::read(properties, binding)?,
        })
    }
}

fn progress(properties: &Properties) -> Result<Option<Progress>, Error> {
    if !properties.flag("status", false) {
        return Ok(None);
    }
    let seconds = properties.whole("status.interval", 10, 1..=i32::MAX as u64)?;
    Ok(Some(Progress {
        interval: Duration::from_secs(seconds),
        label: properties.text("label", "").to_owned(),
        on_report: properties.text("measurementtype", "") == "timeseries",
    }))
}

fn form(properties: &Properties, output: &Output) -> Form {
    let class = properties.text("exporter", "site.ycsb.measurements.exporter.TextMeasurementsExporter");
    Form::of(class).unwrap_or_else(|| {
        output.complain(&format!("Could not find exporter {class}, will use default text reporter."));
        Form::Text
    })
}

impl Servers {
    fn read(properties: &Properties, binding: Binding) -> Result<Servers, Error> {
        let prefix = match binding {
            Binding::Cassandra => "cassandra",
            Binding::Scylla => "scylla",
        };
        let name = |rest: &str| format!("{prefix}.{rest}");
        let get = |rest: &str| properties.get(&name(rest));
        let (hosts_name, port_name) = match binding {
            Binding::Cassandra => ("hosts".to_owned(), "port".to_owned()),
            Binding::Scylla => (name("hosts"), name("port")),
        };
        let class = binding.class().rsplit('.').next().unwrap_or_default();
        let hosts = properties.get(&hosts_name).ok_or_else(|| {
            Error::refused(format!("Required property \"{hosts_name}\" missing for {class}"))
        })?;
        let hosts: Vec<String> =
            hosts.split(',').map(|host| host.trim().to_owned()).filter(|host| !host.is_empty()).collect();
        if hosts.is_empty() {
            return Err(Error::property(&hosts_name, "", "a list of names or addresses"));
        }
        if properties.flag(&name("tracing"), false) {
            let name = name("tracing");
            return Err(Error::refused(format!("{name}=true is not supported: requests are not traced")));
        }
        let datacenter = match binding {
            Binding::Cassandra => None,
            Binding::Scylla => get("local_dc").filter(|name| !name.is_empty()).map(str::to_owned),
        };
        let is_conditional = binding == Binding::Scylla && properties.flag("scylla.lwt", false);
        let (read_default, write_default) = match (binding, is_conditional, &datacenter) {
            (Binding::Cassandra, ..) => (Consistency::One, Consistency::One),
            (Binding::Scylla, true, _) => (Consistency::Serial, Consistency::Any),
            (Binding::Scylla, false, Some(_)) => (Consistency::LocalQuorum, Consistency::LocalQuorum),
            (Binding::Scylla, false, None) => (Consistency::Quorum, Consistency::Quorum),
        };
        let whole = |rest: &str, bounds| properties.whole_if_set(&name(rest), bounds);
        let millis = |rest: &str, default: Duration| {
            let millis = whole(rest, 1..=i32::MAX as u64)?;
            Ok::<Duration, Error>(millis.map_or(default, Duration::from_millis))
        };
        let most = whole("maxconnections", 1..=CONNECTIONS_MAX)?.unwrap_or(1);
        let core = whole("coreconnections", 1..=CONNECTIONS_MAX)?.unwrap_or(1);
        let user = get("username").filter(|user| !user.is_empty());
        Ok(Servers {
            hosts,
            port: properties.whole(&port_name, 9042, 1..=u64::from(u16::MAX))? as u16,
            keyspace: identifier(properties, &name("keyspace"), "ycsb")?,
            credentials: user.map(|user| (user.to_owned(), get("password").unwrap_or_default().to_owned())),
            read_level: level(properties, &name("readconsistencylevel"), read_default)?,
            write_level: level(properties, &name("writeconsistencylevel"), write_default)?,
            is_conditional,
            connections: most.max(core) as u16,
            connect_timeout: millis("connecttimeoutmillis", client::limits::CONNECT_TIMEOUT)?,
            request_timeout: millis("readtimeoutmillis", REQUEST_TIMEOUT)?,
            datacenter,
            tls: tls(properties, &name("useSSL"))?,
        })
    }
}

fn level(properties: &Properties, name: &str, default: Consistency) -> Result<Consistency, Error> {
    let Some(value) = properties.get(name) else { return Ok(default) };
    Consistency::parse(value.trim()).ok_or_else(|| Error::property(name, value, "a consistency level"))
}

/// The Java tool asks the virtual machine's trust store; here it must be said whom to trust.
fn tls(properties: &Properties, name: &str) -> Result<Option<Tls>, Error> {
    if !properties.flag(name, false) {
        return Ok(None);
    }
    let trust = match properties.get("messina.trust") {
        Some("any") => None,
        Some(file) => Some(PathBuf::from(file)),
        None => {
            return Err(Error::refused(format!(
                "{name}=true wants to know whom to trust: messina.trust=FILE, PEM certificates, or messina.trust=any"
            )));
        }
    };
    Ok(Some(Tls { trust, certificate: properties.get("messina.certificate").map(PathBuf::from) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(binding: Binding, line: &str) -> Result<(Settings, Output), String> {
        let mut properties = Properties::default();
        properties.set("workload", "site.ycsb.workloads.CoreWorkload");
        for pair in line.split(' ').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').expect(pair);
            properties.set(name, value);
        }
        let output = Output::in_memory();
        let settings = Settings::read(&properties, binding, &output).map_err(|error| error.to_string())?;
        Ok((settings, output))
    }

    fn good(binding: Binding, line: &str) -> Settings {
        read(binding, line).unwrap_or_else(|error| panic!("{line}: {error}")).0
    }

    #[test]
    fn what_is_not_said_is_as_in_release_0_17_0() {
        let settings = good(Binding::Cassandra, "hosts=a,b");
        let servers = &settings.servers;
        assert_eq!((servers.hosts.as_slice(), servers.port), (&["a".to_owned(), "b".to_owned()][..], 9042));
        assert_eq!((servers.read_level, servers.write_level), (Consistency::One, Consistency::One));
        assert_eq!((settings.threads, settings.operations, settings.tick), (1, 0, None));
        assert_eq!((settings.phase, servers.request_timeout), (Phase::Run, Duration::from_secs(12)));
        assert!(settings.progress.is_none() && settings.time.is_none());
    }

    #[test]
    fn the_other_binding_has_names_and_levels_of_its_own() {
        let of = |line: &str| {
            let servers = good(Binding::Scylla, line).servers;
            (servers.read_level, servers.write_level, servers.is_conditional)
        };
        assert_eq!(of("scylla.hosts=a"), (Consistency::Quorum, Consistency::Quorum, false));
        let local = (Consistency::LocalQuorum, Consistency::LocalQuorum, false);
        assert_eq!(of("scylla.hosts=a scylla.local_dc=dc1"), local);
        assert_eq!(of("scylla.hosts=a scylla.lwt=true"), (Consistency::Serial, Consistency::Any, true));
        let set = "scylla.hosts=a scylla.readconsistencylevel=one scylla.writeconsistencylevel=ALL";
        assert_eq!(of(set), (Consistency::One, Consistency::All, false));
        assert!(read(Binding::Scylla, "hosts=a").is_err());
        assert!(!good(Binding::Cassandra, "hosts=a scylla.lwt=true").servers.is_conditional);
    }

    #[test]
    fn the_load_phase_counts_records() {
        let of =
            |line: &str| good(Binding::Cassandra, &format!("hosts=a dotransactions=false {line}")).operations;
        assert_eq!(of("recordcount=100 operationcount=7"), 100);
        assert_eq!(of("recordcount=100 insertstart=10 insertcount=20"), 20);
    }

    #[test]
    fn more_threads_than_operations_are_not_used() {
        let (settings, output) =
            read(Binding::Cassandra, "hosts=a operationcount=10 threadcount=40 target=80").expect("good");
        assert_eq!(settings.threads, 10);
        assert!(output.kept().unwrap_or_default().starts_with("Warning: the threadcount is bigger"));
        // The rate is that of the forty: two in a second each.
        assert_eq!(settings.tick, Some(Duration::from_millis(500)));
        assert_eq!(good(Binding::Cassandra, "hosts=a threadcount=20000").threads, 20_000);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (line, named) in [
            ("", "Required property \"hosts\" missing for CassandraCQLClient"),
            ("hosts=,", "hosts"),
            ("hosts=a port=0", "port"),
            ("hosts=a port=99999", "port"),
            ("hosts=a threadcount=0", "threadcount"),
            ("hosts=a threadcount=many", "threadcount"),
            ("hosts=a target=-1", "target"),
            ("hosts=a maxexecutiontime=1s", "maxexecutiontime"),
            ("hosts=a status=true status.interval=0", "status.interval"),
            ("hosts=a cassandra.readconsistencylevel=MOST", "cassandra.readconsistencylevel"),
            ("hosts=a cassandra.tracing=true", "cassandra.tracing"),
            ("hosts=a cassandra.useSSL=true", "cassandra.useSSL"),
            ("hosts=a cassandra.keyspace=a;b", "cassandra.keyspace"),
            ("hosts=a cassandra.maxconnections=0", "cassandra.maxconnections"),
        ] {
            let error = read(Binding::Cassandra, line).err().unwrap_or_else(|| panic!("{line}"));
            assert!(error.contains(named), "{line}: {error}");
        }
        let tls = good(Binding::Cassandra, "hosts=a cassandra.useSSL=true messina.trust=any").servers.tls;
        assert_eq!(tls, Some(Tls { trust: None, certificate: None }));
    }

    #[test]
    fn an_unknown_form_of_report_is_text() {
        let (settings, output) = read(Binding::Cassandra, "hosts=a exporter=my.Exporter").expect("good");
        assert_eq!(settings.form, Form::Text);
        assert!(output.complaints()[0].starts_with("Could not find exporter my.Exporter"));
    }
}
