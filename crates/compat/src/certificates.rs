//! Certificates of one run, made by the `openssl` program: an authority, what it signed for a server and for a client,
//! and a second authority with a client of its own. Nothing secret lies in the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command;

const LIMIT: Duration = Duration::from_secs(60);
const DAYS: &str = "30";

/// Files of one run, PEM unless said otherwise.
#[derive(Clone, Debug)]
pub struct Certificates {
    folder: PathBuf,
    /// The authority that signed the server and the client.
    pub authority: PathBuf,
    /// An authority that signed neither.
    pub stranger: PathBuf,
    /// The server's key, its certificate and the authority's, one file.
    pub server: PathBuf,
    /// The same of a client.
    pub client: PathBuf,
    /// The same of a client that the stranger signed.
    pub impostor: PathBuf,
}

/// Who may show a certificate.
#[derive(Clone, Copy)]
enum Usage {
    Server,
    Client,
}

impl Certificates {
    /// Makes all of them in `folder`.
    pub fn make(folder: &Path) -> Result<Certificates, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        authority(folder, "authority")?;
        authority(folder, "stranger")?;
        Ok(Certificates {
            folder: folder.into(),
            authority: folder.join("authority.pem"),
            stranger: folder.join("stranger.pem"),
            server: signed(folder, "server", "authority", Usage::Server)?,
            client: signed(folder, "client", "authority", Usage::Client)?,
            impostor: signed(folder, "impostor", "stranger", Usage::Client)?,
        })
    }

    /// A new key and certificate for a server, from the authority or from the stranger: key, certificate and
    /// authority's in one file. Key and certificate alone are beside it: `NAME.key`, `NAME.pem`.
    pub fn renewed(&self, name: &str, by_stranger: bool) -> Result<PathBuf, String> {
        signed(&self.folder, name, if by_stranger { "stranger" } else { "authority" }, Usage::Server)
    }

    /// Cassandra's `client_encryption_options`; optional: plain clients are served, too.
    pub fn yaml(&self, optional: bool) -> String {
        options(&self.server, &self.authority, optional, "false")
    }

    /// The same for a server that asks clients for certificates: `true` or `optional`.
    pub fn asking_yaml(&self, require_client_auth: &str) -> String {
        options(&self.server, &self.authority, false, require_client_auth)
    }
}

/// `client_encryption_options` with these files.
pub fn options(keystore: &Path, truststore: &Path, optional: bool, require_client_auth: &str) -> String {
    format!(
        "client_encryption_options:\n  enabled: true\n  optional: {optional}\n  \
         require_client_auth: {require_client_auth}\n  ssl_context_factory:\n    \
         class_name: org.apache.cassandra.security.PEMBasedSslContextFactory\n  \
         keystore: {}\n  truststore: {}\n",
        keystore.display(),
        truststore.display()
    )
}

/// SHA-256 of the first certificate in a file, such as what `openssl s_client` printed; in hexadecimal.
pub fn fingerprint(file: &Path) -> Result<String, String> {
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(file);
    let text = command::run(&mut openssl, &file.with_extension("fingerprint"), LIMIT)?;
    let (_, digits) = text.trim().rsplit_once('=').ok_or_else(|| format!("openssl said {text}"))?;
    Ok(digits.replace(':', "").to_lowercase())
}

fn authority(folder: &Path, name: &str) -> Result<(), String> {
    openssl(
        folder,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {name}.key -out {name}.pem \
             -days {DAYS} -subj /CN={name} -addext basicConstraints=critical,CA:TRUE \
             -addext keyUsage=critical,keyCertSign,cRLSign"
        ),
    )
}

/// A key and a certificate for the loopback interface; returns the file that holds the chain.
fn signed(folder: &Path, name: &str, authority: &str, usage: Usage) -> Result<PathBuf, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let usage = match usage {
        Usage::Server => "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n",
        Usage::Client => "extendedKeyUsage=clientAuth\n",
    };
    fs::write(folder.join("extensions"), format!("{usage}basicConstraints=CA:FALSE\n")).map_err(told)?;
    openssl(
        folder,
        &format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {name}.key -out {name}.csr \
             -subj /CN={name}"
        ),
    )?;
    openssl(
        folder,
        &format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days {DAYS} \
             -extfile extensions -out {name}.pem"
        ),
    )?;
    let mut chain = String::new();
    for part in [format!("{name}.key"), format!("{name}.pem"), format!("{authority}.pem")] {
        chain += &command::read(&folder.join(part))?;
    }
    let path = folder.join(format!("{name}-chain.pem"));
    fs::write(&path, chain).map_err(told)?;
    Ok(path)
}

fn openssl(folder: &Path, arguments: &str) -> Result<(), String> {
    let mut openssl = Command::new("openssl");
    openssl.args(arguments.split_whitespace()).current_dir(folder);
    command::run(&mut openssl, &folder.join("openssl.log"), LIMIT).map(drop)
}
