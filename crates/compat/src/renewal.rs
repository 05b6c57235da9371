//! Keys and certificates while the node runs: renewed ones are shown to whoever comes after, connections made before go
//! on, files that cannot be used change nothing and are told in the log. And whom a node lets in that asks clients for
//! certificates, when those it trusts change.
//!
//! What is shown is asked by `openssl s_client` and by the stock Python driver, `python/renewal.py`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bad_input::Raw;
use crate::certificates::{self, Certificates};
use crate::python::Script;
use crate::server::Server;
use crate::suite::{Options, Report};
use crate::{command, encrypted_tools, stream, wire};

/// The node looks every ten seconds; a busy machine takes longer.
const PATIENCE: Duration = Duration::from_secs(120);
const KEPT: &str = "keys and certificates stay as they were";

type Case = (&'static str, fn(&Options, u16) -> Result<String, String>);

const CASES: &[Case] = &[
    ("one_file_renewed", one_file),
    ("two_files_renewed", two_files),
    ("clients_required", |options, shards| clients(options, shards, "true")),
    ("clients_optional", |options, shards| clients(options, shards, "optional")),
    ("tools", encrypted_tools::run),
];

/// Every test with a node of its own, all at once: most of their time they wait for the node to look.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    if options.against_cassandra {
        return;
    }
    std::thread::scope(|scope| {
        let start = |&(name, case): &Case| (name, scope.spawn(move || case(options, shards)));
        let is_wanted =
            |(name, _): &&Case| options.only.as_ref().is_none_or(|word| name.contains(word.as_str()));
        let running: Vec<_> = CASES.iter().filter(is_wanted).map(start).collect();
        for (name, thread) in running {
            report.test(&format!("certificates::{name} --smp {shards}"), || {
                thread.join().map_err(|_| "the test panicked")?
            });
        }
    });
}

/// A node, a driver's session from its first minute, and the files it serves by.
struct Renewal {
    server: Server,
    session: Script,
    certificates: Certificates,
    /// How often the log told that files could not be used.
    refused: usize,
}

impl Renewal {
    fn start(
        options: &Options,
        shards: u16,
        name: &str,
        yaml: impl Fn(&Certificates, &Path) -> Result<String, String>,
    ) -> Result<Renewal, String> {
        let folder = options.folder(name)?;
        let certificates = Certificates::make(&folder.join("made"))?;
        let mut start = options.start(folder.clone(), shards);
        start.yaml = yaml(&certificates, &folder)?;
        let server = start.run()?;
        let authority = certificates.authority.display().to_string();
        let mut session =
            Script::spawn("renewal", server.address, 5, "lz4", &[("$NODE_AUTHORITY", authority)])?;
        expect(&session.line()?, &format!("OPEN {}", certificates::fingerprint(&certificates.server)?))?;
        Ok(Renewal { server, session, certificates, refused: 0 })
    }

    /// Waits until new connections are shown this certificate; then a new session gets it, and the first goes on.
    fn shows(&mut self, certificate: &Path, authority: &Path) -> Result<(), String> {
        let wanted = certificates::fingerprint(certificate)?;
        let end = Instant::now() + PATIENCE;
        while self.shown()? != wanted {
            if Instant::now() > end {
                return Err(format!(
                    "{certificate:?} is not shown after {PATIENCE:?}:\n{}",
                    self.server.last_words()
                ));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        self.session.say(&format!("new {}", authority.display()))?;
        expect(&self.session.line()?, &format!("NEW {wanted}"))?;
        self.goes_on()
    }

    /// The connections from the beginning still answer.
    fn goes_on(&mut self) -> Result<(), String> {
        self.session.say("old")?;
        expect(&self.session.line()?, "OLD")
    }

    /// SHA-256 of the certificate that a new connection gets.
    fn shown(&self) -> Result<String, String> {
        let log = self.server.folder.join("s_client.log");
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-connect", &self.server.address.to_string()]);
        command::run(&mut openssl, &log, PATIENCE)?;
        certificates::fingerprint(&log)
    }

    /// Waits until the log tells once more that files could not be used.
    fn refuses(&mut self, what: &str) -> Result<(), String> {
        self.refused += 1;
        let end = Instant::now() + PATIENCE;
        while command::read(&self.server.log)?.matches(KEPT).count() < self.refused {
            if Instant::now() > end {
                return Err(format!("nothing was told of {what}:\n{}", self.server.last_words()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<String, String> {
        self.session.say("end")?;
        self.session.finish(PATIENCE)?;
        self.server.stop()?;
        let log = command::read(&self.server.log)?;
        let told = log.matches(KEPT).count();
        if told != self.refused {
            return Err(format!(
                "{} times files were broken, {told} times it was told:\n{log}",
                self.refused
            ));
        }
        Ok(String::new())
    }
}

/// Puts a file in the place of another at once, as people renew certificates.
fn replace(place: &Path, bytes: &[u8]) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", place.display());
    let beside = place.with_extension("new");
    fs::write(&beside, bytes).map_err(told)?;
    fs::rename(&beside, place).map_err(told)
}

fn bytes(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn expect(line: &str, wanted: &str) -> Result<(), String> {
    if line == wanted { Ok(()) } else { Err(format!("expected {wanted}, the driver says {line}")) }
}

/// Cassandra's keystore: key and certificates in one file. The same authority's, broken ones, another authority's.
fn one_file(options: &Options, shards: u16) -> Result<String, String> {
    let served = |folder: &Path| folder.join("served.pem");
    let mut renewal = Renewal::start(options, shards, "certificates-one-file", |made, folder| {
        replace(&served(folder), &bytes(&made.server)?)?;
        Ok(certificates::options(&served(folder), &made.authority, false, "false"))
    })?;
    let place = served(&renewal.server.folder);
    let authority = renewal.certificates.authority.clone();
    let stranger = renewal.certificates.stranger.clone();
    let mut newest = renewal.certificates.server.clone();
    let third = bytes(&renewal.certificates.renewed("third", false)?)?;
    let mut broken: Vec<(&str, Option<&[u8]>)> = vec![("half a file", Some(&third[..third.len() / 3]))];
    if !options.quick {
        newest = renewal.certificates.renewed("second", false)?;
        replace(&place, &bytes(&newest)?)?;
        renewal.shows(&newest, &authority)?;
        broken.extend([
            ("an empty file", Some(&b""[..])),
            ("no file", None),
            ("no PEM", Some(&[0; 5000][..])),
        ]);
    }
    for (what, content) in broken {
        match content {
            Some(content) => replace(&place, content)?,
            None => fs::remove_file(&place).map_err(|error| error.to_string())?,
        }
        renewal.refuses(what)?;
        renewal.shows(&newest, &authority)?;
    }
    let other = renewal.certificates.renewed("other", true)?;
    replace(&place, &bytes(&other)?)?;
    renewal.shows(&other, &stranger)?;
    renewal.session.say(&format!("new {}", authority.display()))?;
    expect(&renewal.session.line()?, "REFUSED certificate verify failed")?;
    renewal.finish()
}

/// ScyllaDB's certificate and keyfile, which cannot be renewed at once: between the two there is one too few.
fn two_files(options: &Options, shards: u16) -> Result<String, String> {
    let files =
        |folder: &Path| -> (PathBuf, PathBuf) { (folder.join("served.crt"), folder.join("served.key")) };
    let mut renewal = Renewal::start(options, shards, "certificates-two-files", |made, folder| {
        let (certificate, key) = files(folder);
        replace(&certificate, &bytes(&made.server)?)?;
        replace(&key, &bytes(&made.server)?)?;
        Ok(format!(
            "client_encryption_options:\n  enabled: true\n  certificate: {}\n  keyfile: {}\n",
            certificate.display(),
            key.display()
        ))
    })?;
    let (certificate, key) = files(&renewal.server.folder);
    let (authority, server) = (renewal.certificates.authority.clone(), renewal.certificates.server.clone());
    let second = renewal.certificates.renewed("second", false)?;
    let key_of_second = second.with_file_name("second.key");
    replace(&certificate, &bytes(&second)?)?;
    renewal.refuses("the key of another certificate")?;
    renewal.shows(&server, &authority)?;
    replace(&key, &bytes(&key_of_second)?)?;
    renewal.shows(&second, &authority)?;
    renewal.finish()
}

/// Who gets in: whom the truststore's authorities signed, then whom those of the renewed one signed. Who shows no
/// certificate gets in where they are optional.
fn clients(options: &Options, shards: u16, asked: &str) -> Result<String, String> {
    let folder = options.folder(&format!("certificates-clients-{asked}"))?;
    let made = Certificates::make(&folder.join("made"))?;
    let trusted = folder.join("trusted.pem");
    replace(&trusted, &bytes(&made.authority)?)?;
    let mut start = options.start(folder, shards);
    start.yaml = certificates::options(&made.server, &trusted, false, asked);
    let mut server = start.run()?;
    let lets_in = |client: Option<&Path>| lets_in(&server, &made.authority, client);
    let client = Some(made.client.as_path());
    let impostor = Some(made.impostor.as_path());
    let nobody = asked == "optional";
    let holds = |who: &str, client: Option<&Path>, wanted: bool| match (lets_in(client)?, wanted) {
        (Ok(()), true) | (Err(_), false) => Ok(()),
        (Ok(()), false) => Err(format!("{who} was let in")),
        (Err(why), true) => Err(format!("{who} was kept out: {why}")),
    };
    holds("the client", client, true)?;
    holds("an impostor", impostor, false)?;
    holds("who shows nothing", None, nobody)?;
    let both = [bytes(&made.authority)?, bytes(&made.stranger)?].concat();
    for (file, of_authority) in [(both, true), (bytes(&made.stranger)?, false)] {
        replace(&trusted, &file)?;
        let end = Instant::now() + PATIENCE;
        while lets_in(impostor)?.is_err() || lets_in(client)?.is_ok() != of_authority {
            if Instant::now() > end {
                return Err(format!("the renewed truststore is not used:\n{}", server.last_words()));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        holds("who shows nothing", None, nobody)?;
    }
    server.stop().map(|()| String::new())
}

/// Whether a client with this certificate is answered; the inner error says why not.
fn lets_in(server: &Server, authority: &Path, client: Option<&Path>) -> Result<Result<(), String>, String> {
    stream::encrypt_as(server.address, authority, client)?;
    let mut raw = Raw::connect(server.address, 4)?;
    raw.send(&wire::request(4, wire::OPTIONS, 0, &[]));
    let mut header = [0; 9];
    // By TLS 1.3 a client is done before the server has looked at its certificate: only an answer tells.
    Ok(match raw.fill(&mut header)? {
        true if header[4] == wire::SUPPORTED => Ok(()),
        true => Err(format!("answered with {header:?}")),
        false => Err("closed".into()),
    })
}
