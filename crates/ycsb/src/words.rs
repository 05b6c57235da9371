//! The command line: `load|run [BINDING] [options]`, as of the launchers of YCSB, and the options of its client behind them.

use crate::error::Error;
use crate::presets::preset;
use crate::properties::Properties;
use crate::settings::Binding;
use crate::workload::read_file;

/// What the words say.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Properties of files, then of words.
    pub properties: Properties,
    /// Whose properties and statements are meant.
    pub binding: Binding,
    /// The words as the Java tool's client would be given them: it prints them.
    pub command_line: String,
    /// What to warn of.
    pub warnings: Vec<String>,
}

/// How the tool is called.
pub const USAGE: &str = "\
Usage: ycsb load|run [cassandra-cql|scylla] [options]
Options:
  -threads n: execute using n threads (default: 1) - can also be specified as the
        \"threadcount\" property using -p
  -target n: attempt to do n operations per second (default: unlimited) - can also
       be specified as the \"target\" property using -p
  -load:  run the loading phase of the workload
  -t:  run the transactions phase of the workload (default)
  -db dbname: specify the name of the DB to use -
        can also be specified as the \"db\" property using -p
  -P propertyfile: load properties from the given file. Multiple files can
           be specified, and will be processed in the order specified;
           workloads/workloada to workloads/workloadf are built in
  -p name=value:  specify a property to be passed to the DB and workloads;
          multiple properties can be specified, and override any
          values in the propertyfile
  -s:  show status during run (default: no status)
  -l label:  use label for status (e.g. to label one experiment out of a whole batch)

Required properties:
  workload: the name of the workload class to use (e.g. site.ycsb.workloads.CoreWorkload)

To run the transaction phase from multiple servers, start a separate client on each.
To run the load phase from multiple servers, start a separate client on each; additionally,
use the \"insertcount\" and \"insertstart\" properties to divide up the records to be inserted
";

/// Whether the words ask for help.
pub fn wants_help(words: &[String]) -> bool {
    matches!(words.first().map(String::as_str), Some("-h" | "-help" | "--help" | "help"))
}

/// Reads the words and the files they name. Errors: of usage; a file that cannot be read or makes no sense.
pub fn read(words: &[String]) -> Result<Said, Error> {
    let mut words = words.iter().map(String::as_str).peekable();
    let is_load = match words.next() {
        Some("load") => true,
        Some("run") => false,
        Some("shell") => return Err(Error::refused("ycsb shell is not supported")),
        Some(other) => {
            return Err(Error::Usage(format!("\"{other}\" is no command: load and run are")));
        }
        None => return Err(Error::Usage("A command is required: load or run.".into())),
    };
    let mut warnings = Vec::new();
    let named = match words.next_if(|word| !word.starts_with('-')) {
        None => None,
        Some(word) => {
            if word == "cassandra2-cql" {
                warnings.push("[WARN]  cassandra2-cql is an old name of cassandra-cql".to_owned());
            }
            Some(Binding::of_word(word).ok_or_else(|| {
                Error::refused(format!("binding \"{word}\" is not supported: cassandra-cql and scylla are"))
            })?)
        }
    };
    let rest: Vec<&str> = words.collect();
    let mut own = Properties::default();
    own.set("dotransactions", if is_load { "false" } else { "true" });
    if let Some(binding) = named {
        own.set("db", binding.class());
    }
    let mut properties = options(&rest, &mut own)?;
    properties.set_all(own);
    let binding = match properties.get("db") {
        None => Binding::Cassandra,
        Some(class) => Binding::of_class(class).ok_or_else(|| {
            Error::refused(format!(
                "DB \"{class}\" is not supported: only those of cassandra-cql and scylla are"
            ))
        })?,
    };
    let phase = if is_load { "-load" } else { "-t" };
    let shown = rest.iter().map(|word| format!(" {}", without_password(word))).collect::<String>();
    let command_line = format!("Command line: {phase} -db {}{}", binding.class(), shown);
    Ok(Said { properties, binding, command_line, warnings })
}

/// A word as it may be shown.
fn without_password(word: &str) -> String {
    match word.split_once('=') {
        Some((name, _)) if name.ends_with(".password") => format!("{name}=*suppressed*"),
        _ => word.to_owned(),
    }
}

/// Puts what options say among `own`, and gives the properties of the files they name.
fn options(words: &[&str], own: &mut Properties) -> Result<Properties, Error> {
    let mut files = Properties::default();
    let mut words = words.iter().copied();
    while let Some(option) = words.next() {
        let mut value =
            || words.next().ok_or_else(|| Error::Usage(format!("Missing argument value for {option}.")));
        match option {
            "-threads" => own.set("threadcount", value()?),
            "-target" => own.set("target", value()?),
            "-load" => own.set("dotransactions", "false"),
            "-t" => own.set("dotransactions", "true"),
            "-s" => own.set("status", "true"),
            "-db" => own.set("db", value()?),
            "-l" => own.set("label", value()?),
            "-P" => files.set_all(file(value()?)?),
            "-p" => match value()?.split_once('=') {
                Some((name, value)) => own.set(name, value),
                None => {
                    return Err(Error::Usage(
                        "Argument '-p' expected to be in key=value format (e.g., -p operationcount=99999)"
                            .into(),
                    ));
                }
            },
            // Of the virtual machine that is not there.
            "-cp" | "-classpath" | "-jvm-args" => {
                value()?;
            }
            other if other.starts_with("-jvm-args=") || other.starts_with("-cp=") => {}
            other if other.starts_with('-') => {
                return Err(Error::Usage(format!("Unknown option {other}")));
            }
            other => {
                return Err(Error::Usage(format!(
                    "An argument value without corresponding argument specifier (e.g., -p, -s) was found. \
                     We expected an argument specifier and instead found {other}"
                )));
            }
        }
    }
    Ok(files)
}

/// A property file: as it is, or the one that comes with the tool when there is none.
fn file(name: &str) -> Result<Properties, Error> {
    match (read_file("properties file", name), preset(name)) {
        (Ok(bytes), _) => Properties::parse(name, &bytes),
        (Err(Error::Read { source, .. }), Some(text)) if source.kind() == std::io::ErrorKind::NotFound => {
            Properties::parse(name, text.as_bytes())
        }
        (Err(error), _) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Result<Said, String> {
        let words: Vec<String> = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        read(&words).map_err(|error| error.to_string())
    }

    fn value(line: &str, name: &str) -> Option<String> {
        said(line).expect(line).properties.get(name).map(str::to_owned)
    }

    #[test]
    fn phase_and_binding_come_first() {
        for (line, binding, transactions) in [
            ("load cassandra-cql -s", Binding::Cassandra, "false"),
            ("run scylla -s", Binding::Scylla, "true"),
            ("run -s", Binding::Cassandra, "true"),
            ("run", Binding::Cassandra, "true"),
            ("load -t", Binding::Cassandra, "true"),
            ("run -load", Binding::Cassandra, "false"),
            ("run -db site.ycsb.db.scylla.ScyllaCQLClient", Binding::Scylla, "true"),
            ("run cassandra-cql -p db=site.ycsb.db.scylla.ScyllaCQLClient", Binding::Scylla, "true"),
        ] {
            let said = said(line).expect(line);
            assert_eq!(
                (said.binding, said.properties.get("dotransactions")),
                (binding, Some(transactions)),
                "{line}"
            );
        }
        let old = said("run cassandra2-cql").expect("an old name");
        assert_eq!((old.binding, old.warnings.len()), (Binding::Cassandra, 1));
        assert_eq!(
            said("load cassandra-cql -p hosts=a -s").expect("good").command_line,
            "Command line: -load -db site.ycsb.db.CassandraCQLClient -p hosts=a -s"
        );
        let secret = said("run -p cassandra.password=secret").expect("good");
        assert!(
            secret.command_line.ends_with(" -p cassandra.password=*suppressed*"),
            "{}",
            secret.command_line
        );
        assert_eq!(secret.properties.get("cassandra.password"), Some("secret"));
    }

    #[test]
    fn options_are_properties() {
        let line =
            "run -threads 7 -target 100 -s -l first -p a=b=c -jvm-args -Xmx1g -cp x.jar -jvm-args=-Xms1g";
        for (name, expected) in
            [("threadcount", "7"), ("target", "100"), ("status", "true"), ("label", "first"), ("a", "b=c")]
        {
            assert_eq!(value(line, name).as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn words_win_over_files_and_later_files_over_earlier() {
        let line = "run -p recordcount=5 -P workloads/workloada -P /else/where/workloade";
        assert_eq!(value(line, "recordcount").as_deref(), Some("5"));
        assert_eq!(value(line, "scanproportion").as_deref(), Some("0.95"));
        assert_eq!(value(line, "operationcount").as_deref(), Some("1000"));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, named) in [
            ("", "A command is required"),
            ("start", "\"start\""),
            ("shell basic", "shell"),
            ("run mongodb -s", "\"mongodb\""),
            ("run -db site.ycsb.BasicDB", "site.ycsb.BasicDB"),
            ("run -threads", "Missing argument value for -threads."),
            ("run -p", "Missing argument value for -p."),
            ("run -p hosts", "key=value"),
            ("run -x", "Unknown option -x"),
            ("run -s more", "found more"),
            ("run -P not/there", "Unable to open the properties file not/there"),
        ] {
            let error = said(line).expect_err(line);
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
