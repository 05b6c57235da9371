//! From text to a configuration: files, environment variables and arguments, one after the other.

use super::error::{ConfigError, Source};
use super::keys::{self, Effect, Key};
use super::old_names::{self, Converted};
use super::report::{REDACTED, names_secret};
use super::value::{Shape, Value, show};
use super::{CommitlogSync, Config, Given};
use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

/// The environment variables that name keys begin with this.
pub const ENVIRONMENT_PREFIX: &str = "MESSINA_";

/// What one file, variable or argument says.
struct Reading<'a> {
    config: &'a mut Config,
    /// Keys met, by their new names, with the name they were written under.
    met: Vec<(&'static str, String)>,
    /// Keys without effect by reason, in the order of the file.
    idle: Vec<(&'static str, Vec<String>)>,
    warnings: Vec<String>,
}

impl Config {
    /// Reads the text of the file called `name` over `self`; [`Config::finish`] follows.
    ///
    /// Returns the warnings, each with its `file:line`.
    pub fn read(&mut self, name: &str, text: &str) -> Result<Vec<String>, ConfigError> {
        let place = |line| Source::File { name: name.into(), line };
        let malformed = |line, reason: String| ConfigError::Malformed { source_of: place(line), reason };
        let document = yaml::parse(text).map_err(|m| malformed(m.line, m.reason))?;
        let entries = match document.value {
            yaml::Value::Map(entries) => entries,
            yaml::Value::Null => Vec::new(),
            _ => return Err(malformed(document.line, "expected `key: value` lines".into())),
        };
        let mut reading = Reading::new(self);
        for entry in &entries {
            reading.enter(&entry.key, &entry.value, entry.line, &place)?;
        }
        Ok(reading.end())
    }

    /// Whether datacenter and rack are said by `cassandra-rackdc.properties` beside the file.
    pub fn wants_rack_file(&self) -> bool {
        let snitch = self.given.get("endpoint_snitch");
        snitch.is_some_and(|given| given.text.ends_with("GossipingPropertyFileSnitch"))
    }

    /// Reads the text of `cassandra-rackdc.properties`; what the keys `data_center` and `rack` say wins over it.
    /// Errors: the file names no datacenter or no rack.
    pub fn read_rack_file(&mut self, name: &str, text: &str) -> Result<Vec<String>, ConfigError> {
        let mut warnings = Vec::new();
        let (mut dc, mut rack, mut suffix) = (None, None, String::new());
        for (index, line) in text.lines().enumerate() {
            let line_text = line.trim();
            if line_text.is_empty() || line_text.starts_with(['#', '!']) {
                continue;
            }
            let (key, value) = line_text.split_once(['=', ':']).unwrap_or((line_text, ""));
            let value = value.trim().to_owned();
            match key.trim() {
                "dc" => dc = Some(value),
                "rack" => rack = Some(value),
                "dc_suffix" => suffix = value,
                "prefer_local" if value != "true" => {}
                "prefer_local" => warnings.push(format!(
                    "{name}:{}: no effect: prefer_local: other nodes are always called at their broadcast_address",
                    index + 1
                )),
                other => warnings.push(format!("{name}:{}: no effect: {other}", index + 1)),
            }
        }
        let missing = |what: &str| ConfigError::Malformed {
            source_of: Source::File { name: name.into(), line: 1 },
            reason: format!("\"{what}\" is missing"),
        };
        let (dc, rack) = (dc.ok_or_else(|| missing("dc"))?, rack.ok_or_else(|| missing("rack"))?);
        if !self.is_given("data_center") {
            self.data_center = dc + &suffix;
        }
        if !self.is_given("rack") {
            self.rack = rack;
        }
        Ok(warnings)
    }

    /// Sets one key from the environment: `MESSINA_READ_REQUEST_TIMEOUT`, `MESSINA_CLIENT_ENCRYPTION_OPTIONS__ENABLED`.
    /// A variable with the prefix that names no key is a warning.
    pub fn read_environment(&mut self, variable: &str, text: &str) -> Result<Vec<String>, ConfigError> {
        let name = variable.strip_prefix(ENVIRONMENT_PREFIX).unwrap_or(variable);
        let wanted = name.replace("__", ".").to_lowercase();
        let key = keys::all().find(|key| key.name.to_lowercase() == wanted);
        let key = key.map_or(wanted.as_str(), |key| key.name);
        self.read_one(key, text, &Source::Environment(variable.into()))
    }

    /// Sets one key from the command line; `written` is the argument as the user wrote it, without the value: it is shown.
    pub fn read_argument(
        &mut self,
        written: &str,
        key: &str,
        text: &str,
    ) -> Result<Vec<String>, ConfigError> {
        let known = keys::find(key).is_some() || keys::is_group(key) || old_names::new_name(key).is_some();
        let source_of = Source::Argument(written.into());
        if !known {
            // A file may be that of a newer server; what is typed is meant.
            let reason = format!("key \"{key}\" is not known{}", nearest_hint(key));
            return Err(ConfigError::Malformed { source_of, reason });
        }
        self.read_one(key, text, &source_of)
    }

    fn read_one(&mut self, key: &str, text: &str, source: &Source) -> Result<Vec<String>, ConfigError> {
        let scalar = yaml::Node { line: 1, value: yaml::Value::Scalar(text.into()) };
        // Lists and maps as in a file; everything else is taken as it stands.
        let node = match text.trim_start().starts_with(['[', '{']) {
            true => yaml::parse(text)
                .map_err(|m| ConfigError::Malformed { source_of: source.clone(), reason: m.reason })?,
            false => scalar,
        };
        let mut reading = Reading::new(self);
        reading.enter(key, &node, 1, &|_| source.clone())?;
        Ok(reading.end())
    }

    /// Takes the addresses of `listen_interface` and `rpc_interface`, where they are set; `addresses_of` knows those of an interface.
    /// [`Config::finish`] follows. Errors: there is no such interface, it has no address, or an address is set beside it.
    pub fn take_interfaces(
        &mut self,
        addresses_of: impl Fn(&str) -> std::io::Result<Vec<IpAddr>>,
    ) -> Result<(), ConfigError> {
        let pieces = &mut self.pieces;
        let wanted = [
            ("listen", pieces.listen_interface.take(), pieces.listen_prefers_ipv6),
            ("rpc", pieces.rpc_interface.take(), pieces.rpc_prefers_ipv6),
        ];
        for (kind, name, prefers_ipv6) in wanted {
            let Some(name) = name.filter(|name| !matches!(name.as_str(), "" | "null")) else { continue };
            let key = format!("{kind}_interface");
            if self.is_given(&format!("{kind}_address")) {
                return Err(self.wrong(&key, &format!("no {kind}_address beside it"), &name));
            }
            let known = addresses_of(&name).map_err(|error| {
                self.wrong(&key, "the name of a network interface", &format!("{name}: {error}"))
            })?;
            // The first of the wanted kind, else the first at all, as in Cassandra.
            let address = known.iter().find(|address| address.is_ipv6() == prefers_ipv6).or(known.first());
            let Some(address) = address.copied() else {
                return Err(self.wrong(&key, "an interface with an address", &name));
            };
            match kind {
                "listen" => self.listen_address = address,
                _ => self.rpc_address = address,
            }
        }
        Ok(())
    }

    /// Puts together what only makes sense together. Call it once, after everything was read.
    pub fn finish(&mut self) -> Result<(), ConfigError> {
        self.finish_sync()?;
        let pieces = &mut self.pieces;
        if let Some(folder) = pieces.data.take().or(pieces.workdir.take()) {
            self.data_directory = folder;
        }
        if let (Some(bytes), None) | (None, Some(bytes)) = (pieces.memtable_heap, pieces.memtable_offheap) {
            self.memtable_bytes = Some(bytes);
        } else if let (Some(heap), Some(offheap)) = (pieces.memtable_heap, pieces.memtable_offheap) {
            self.memtable_bytes = Some(heap.saturating_add(offheap));
        }
        if pieces.prometheus_port.is_some() || pieces.prometheus_address.is_some() {
            let port = pieces.prometheus_port.unwrap_or(9180);
            self.prometheus = (port != 0).then_some((pieces.prometheus_address, port));
        }
        // Cassandra 4 reads no tries: what must be readable by it is written without.
        match (pieces.sstable_format.take(), pieces.for_cassandra_4) {
            (Some(storage::SstableFormat::Bti), true) => {
                let expected = "big, as storage_compatibility_mode is CASSANDRA_4";
                return Err(self.wrong("sstable.selected_format", expected, "bti"));
            }
            (Some(format), _) => self.sstable_format = format,
            (None, true) => {
                let source = match self.given.get("storage_compatibility_mode") {
                    Some(given) => given.source.clone(),
                    None => Source::Standard,
                };
                self.sstable_format = storage::SstableFormat::Big;
                self.given.insert("sstable.selected_format", Given { text: "big".into(), source });
            }
            (None, false) => {}
        }
        if pieces.for_cassandra_4 {
            self.default_compaction = None;
        }
        if let Some(class) = pieces.compaction_class.take() {
            let parameters = pairs_of(&std::mem::take(&mut pieces.compaction_parameters));
            match cql::compaction_options(&class, parameters) {
                Ok(options) => self.default_compaction = Some(options),
                Err(error) => {
                    let got = format!("{class}: {error}");
                    return Err(self.wrong(
                        "default_compaction.class_name",
                        "a strategy with its options",
                        &got,
                    ));
                }
            }
        }
        self.finish_log();
        self.clients.check().map_err(|(key, expected, got)| self.wrong(key, expected, &got))?;
        self.internode.check().map_err(|(key, expected, got)| self.wrong(key, expected, &got))?;
        if self.authorization.is_on() && self.authentication.authenticator == query::Authenticator::AllowAll {
            let (key, kind) = match self.authorization.by_permissions {
                true => ("authorizer.class_name", "CassandraAuthorizer"),
                false => ("network_authorizer.class_name", "CassandraNetworkAuthorizer"),
            };
            let expected = "authenticator: PasswordAuthenticator beside it, because nobody would have to say who they are";
            return Err(self.wrong(key, expected, kind));
        }
        let told = self.internode_address();
        if told.is_unspecified() {
            return Err(self.wrong(
                "listen_address",
                "broadcast_address beside it, because other nodes cannot be told 0.0.0.0",
                &told.to_string(),
            ));
        }
        let count = self.initial_tokens.len();
        if count > 0 && self.is_given("num_tokens") && count != self.num_tokens as usize {
            let expected = format!("as many tokens as num_tokens says, {}", self.num_tokens);
            return Err(self.wrong("initial_token", &expected, &count.to_string()));
        }
        let client = self.client_address();
        if client.is_unspecified() {
            return Err(self.wrong(
                "rpc_address",
                "broadcast_rpc_address beside it, because clients cannot be told 0.0.0.0",
                &client.to_string(),
            ));
        }
        Ok(())
    }

    fn finish_sync(&mut self) -> Result<(), ConfigError> {
        let (mode, period, window) =
            (self.pieces.mode.take(), self.pieces.period.take(), self.pieces.window.take());
        let Some(mode) = mode else {
            if let (Some(period), CommitlogSync::Periodic(_)) = (period, self.commitlog_sync) {
                self.commitlog_sync = CommitlogSync::Periodic(period);
            }
            return self.refuse_no_pause();
        };
        self.commitlog_sync = match mode.as_str() {
            "periodic" => CommitlogSync::Periodic(period.unwrap_or(Duration::from_secs(10))),
            "batch" => CommitlogSync::Batch,
            _ => CommitlogSync::Group(window.unwrap_or(Duration::from_millis(1000))),
        };
        self.refuse_no_pause()
    }

    fn refuse_no_pause(&self) -> Result<(), ConfigError> {
        let key = match self.commitlog_sync {
            CommitlogSync::Periodic(Duration::ZERO) => "commitlog_sync_period",
            CommitlogSync::Group(Duration::ZERO) => "commitlog_sync_group_window",
            _ => return Ok(()),
        };
        Err(self.wrong(key, "a duration above zero", "0ms"))
    }

    fn finish_log(&mut self) {
        let pieces = &mut self.pieces;
        if let Some(level) = pieces.log_level.take() {
            self.log_levels = level.parse().expect("the key takes only levels");
        }
        for (module, level) in std::mem::take(&mut pieces.loggers) {
            self.log_levels.set(&module, level.parse().ok());
        }
        if let Some(levels) = pieces.log_levels.take() {
            self.log_levels = levels;
        }
    }

    fn wrong(&self, key: &str, expected: &str, got: &str) -> ConfigError {
        ConfigError::Wrong {
            source_of: self.given.get(key).map_or(Source::Standard, |given| given.source.clone()),
            key: key.into(),
            expected: expected.into(),
            got: got.into(),
        }
    }
}

type Place<'a> = &'a dyn Fn(usize) -> Source;

impl<'a> Reading<'a> {
    fn new(config: &'a mut Config) -> Reading<'a> {
        Reading { config, met: Vec::new(), idle: Vec::new(), warnings: Vec::new() }
    }

    /// Reads what stands under `name`: a key, an old name, or a group of keys.
    fn enter(&mut self, name: &str, node: &yaml::Node, line: usize, place: Place) -> Result<(), ConfigError> {
        if let Some(key) = keys::find(name) {
            return self.take(key, name, node, place(line));
        }
        if let Some((new, conversion)) = old_names::new_name(name) {
            let key = keys::find(new).expect("a test finds the new name of every old one");
            let converted = match &node.value {
                yaml::Value::Scalar(text) => conversion.convert(text),
                _ => Ok(Converted::Text(String::new())),
            };
            let converted = converted.map_err(|expected| wrong(place(line), name, expected, node))?;
            let node = match (&node.value, converted) {
                (yaml::Value::Scalar(_), Converted::Text(text)) => {
                    yaml::Node { line: node.line, value: yaml::Value::Scalar(text) }
                }
                (yaml::Value::Scalar(_), Converted::Null) => return self.meet(key, name, &place(line)),
                _ => node.clone(),
            };
            return self.take(key, name, &node, place(line));
        }
        if keys::is_group(name) {
            return self.enter_group(name, node, line, place);
        }
        let (place, hint) = (place(line), nearest_hint(name));
        self.warnings.push(format!("{place}: key \"{name}\" is not known and has no effect{hint}"));
        Ok(())
    }

    fn enter_group(
        &mut self,
        name: &str,
        node: &yaml::Node,
        line: usize,
        place: Place,
    ) -> Result<(), ConfigError> {
        let entries = match &node.value {
            yaml::Value::Null => return Ok(()),
            yaml::Value::Map(entries) => entries,
            yaml::Value::List(items) => match items.as_slice() {
                [yaml::Node { value: yaml::Value::Map(entries), .. }] => entries,
                _ => return Err(wrong(place(line), name, "a map".into(), node)),
            },
            // A class without parameters is named alone.
            yaml::Value::Scalar(_) => {
                return match keys::find(&format!("{name}.class_name")) {
                    Some(key) => self.take(key, name, node, place(line)),
                    None => Err(wrong(place(line), name, "a map".into(), node)),
                };
            }
        };
        for entry in entries {
            self.enter(&format!("{name}.{}", entry.key), &entry.value, entry.line, place)?;
        }
        Ok(())
    }

    /// Errors: the key was met under its other name.
    fn meet(&mut self, key: &'static Key, name: &str, source: &Source) -> Result<(), ConfigError> {
        if let Some((_, other)) = self.met.iter().find(|met| met.0 == key.name && met.1 != name) {
            let reason = format!(
                "both {other} and {name} are given, which are names of the same key: keep {}",
                key.name
            );
            return Err(ConfigError::Malformed { source_of: source.clone(), reason });
        }
        self.met.push((key.name, name.to_string()));
        Ok(())
    }

    fn take(
        &mut self,
        key: &'static Key,
        name: &str,
        node: &yaml::Node,
        source: Source,
    ) -> Result<(), ConfigError> {
        self.meet(key, name, &source)?;
        if node.value == yaml::Value::Null {
            return match key.standard {
                "null" | "" => Ok(()),
                _ => Err(wrong(source, name, key.shape.expected(), node)),
            };
        }
        let value = key.shape.read(node).map_err(|expected| wrong(source.clone(), name, expected, node))?;
        let text = shown(&value, node);
        match key.effect {
            Effect::Sets(set) => set(self.config, &value),
            Effect::Checks(set) => {
                set(self.config, &value).map_err(|expected| wrong(source.clone(), name, expected, node))?;
            }
            Effect::Only(values, why) => {
                let simple =
                    if key.shape == Shape::Class { text.rsplit('.').next().unwrap_or(&text) } else { &text };
                if !values.contains(&simple) {
                    let expected = format!("{} ({why})", values.join(" or "));
                    return Err(wrong(source, name, expected, node));
                }
            }
            Effect::Idle(why) | Effect::Later(why) => self.note_idle(why, name, &source),
        }
        self.config.given.insert(key.name, Given { text, source });
        Ok(())
    }

    fn note_idle(&mut self, why: &'static str, name: &str, source: &Source) {
        let told = match source {
            Source::File { line, .. } => format!("{name} (line {line})"),
            other => format!("{name} ({other})"),
        };
        match self.idle.iter_mut().find(|idle| idle.0 == why) {
            Some((_, names)) => names.push(told),
            None => self.idle.push((why, vec![told])),
        }
    }

    fn end(mut self) -> Vec<String> {
        let idle =
            self.idle.into_iter().map(|(why, names)| format!("no effect: {}: {why}", names.join(", ")));
        self.warnings.extend(idle);
        self.warnings
    }
}

fn wrong(source_of: Source, key: &str, expected: String, node: &yaml::Node) -> ConfigError {
    let got = match &node.value {
        yaml::Value::Null => "nothing".to_string(),
        _ => show(node),
    };
    let is_map = !matches!(node.value, yaml::Value::Null | yaml::Value::Scalar(_));
    let got = if names_secret(key) || (is_map && names_secret(&got)) { REDACTED.into() } else { got };
    ConfigError::Wrong { source_of, key: key.into(), expected, got }
}

fn shown(value: &Value, node: &yaml::Node) -> String {
    match value {
        Value::Flag(flag) => flag.to_string(),
        Value::List(items) => format!("[{}]", items.join(", ")),
        _ => show(node),
    }
}

/// `; did you mean "…"?`, when a known name is near.
fn nearest_hint(name: &str) -> String {
    let old = old_names::OLD_NAMES.iter().map(|row| row.0);
    let known = keys::all().map(|key| key.name).chain(old);
    let near = known.map(|known| (distance(name, known), known)).min();
    match near {
        Some((distance, known)) if distance <= name.len() / 4 => format!("; did you mean \"{known}\"?"),
        _ => String::new(),
    }
}

/// How many letters to add, remove or change to make one name of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in right.iter().enumerate() {
            let change = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

/// The pairs of a map as one line shows it, `{a=1, b=T4, L10}`: what has no `=` goes on with the value before it.
fn pairs_of(text: &str) -> BTreeMap<String, String> {
    let inside = text.trim().trim_start_matches('{').trim_end_matches('}');
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in inside.split(',').filter(|part| !part.trim().is_empty()) {
        match (part.split_once('='), pairs.last_mut()) {
            (Some((key, value)), _) => pairs.push((key.trim().to_string(), value.trim().to_string())),
            (None, Some((_, value))) => *value = format!("{value}, {}", part.trim()),
            (None, None) => {}
        }
    }
    pairs.into_iter().collect()
}
