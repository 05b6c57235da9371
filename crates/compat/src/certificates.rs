//! Certificates of one run, made by the `openssl` program: an authority, a server's certificate, and a second authority
//! that did not sign it. Nothing secret lies in the repository.

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
    /// The authority that signed the server.
    pub authority: PathBuf,
    /// An authority that signed nobody here.
    pub stranger: PathBuf,
    /// The server's key, its certificate and the authority's, one file.
    pub server: PathBuf,
}

impl Certificates {
    /// Makes all of them in `folder`.
    pub fn make(folder: &Path) -> Result<Certificates, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        authority(folder, "authority")?;
        authority(folder, "stranger")?;
        let server = signed(folder, "server")?;
        Ok(Certificates {
            authority: folder.join("authority.pem"),
            stranger: folder.join("stranger.pem"),
            server,
        })
    }

    /// Cassandra's `client_encryption_options`; optional: plain clients are served, too.
    pub fn yaml(&self, optional: bool) -> String {
        format!(
            "client_encryption_options:\n  enabled: true\n  optional: {optional}\n  \
             require_client_auth: false\n  ssl_context_factory:\n    \
             class_name: org.apache.cassandra.security.PEMBasedSslContextFactory\n  \
             keystore: {}\n  truststore: {}\n",
            self.server.display(),
            self.authority.display()
        )
    }
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

/// A key and a certificate for the loopback interface, signed by `authority`; returns the file that holds the chain.
fn signed(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::write(
        folder.join("extensions"),
        "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n",
    )
    .map_err(told)?;
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
            "x509 -req -in {name}.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days {DAYS} \
             -extfile extensions -out {name}.pem"
        ),
    )?;
    let mut chain = String::new();
    for part in [format!("{name}.key"), format!("{name}.pem"), "authority.pem".into()] {
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
