//! TLS and passwords on the second server, and clients' certificates on the third: right and wrong.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use scylla::client::Compression;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, MetadataError,
    NewSessionError,
};

use crate::rows::every_shard;
use crate::suite::{Failure, Outcome, Told, equal, that};
use crate::talk::{Talk, builder};
use crate::{Connections, connections};

/// Variables that name the files of authorities.
const AUTHORITY: &str = "NODE_AUTHORITY";
const STRANGER: &str = "NODE_STRANGER";
/// Variables that name files with a client's key and certificate: of the authority, and of the stranger.
const CLIENT: &str = "NODE_CLIENT";
const IMPOSTOR: &str = "NODE_IMPOSTOR";
const PASSWORD: &str = "it's secret";
/// How long a session may take to open or to be refused: more than the server gives a client that says nothing.
const OPENING: Duration = Duration::from_secs(70);
/// Times that a session is tried. Of some thousand whose certificate the server refuses, the driver (1.9.0) waits for one without an end
/// after it has closed its sockets.
const OPENINGS: u32 = 3;

/// A way to a server: what is trusted, what is shown, and who logs in.
#[derive(Clone, Copy, Debug)]
struct Way<'a> {
    port: u16,
    compression: Option<Compression>,
    /// `None`: no TLS.
    authority: Option<&'a str>,
    client: Option<&'a str>,
    login: Option<(&'a str, &'a str)>,
}

impl<'a> Way<'a> {
    /// To the server of passwords, as a role that the first test makes.
    fn own(told: &'a Told, compression: Option<Compression>) -> Way<'a> {
        let login = Some((told.driver.as_str(), PASSWORD));
        Way { port: told.secure_port, compression, authority: Some(AUTHORITY), client: None, login }
    }

    async fn open(self, told: &Told) -> Result<Session, Failure> {
        Ok(self.build(told).await?.map_err(|error| format!("{self:?}: {error}"))?)
    }

    async fn refused(self, told: &Told) -> Result<NewSessionError, Failure> {
        match self.build(told).await? {
            Ok(_) => Err(format!("{self:?}: a session that must be refused was opened").into()),
            Err(error) => Ok(error),
        }
    }

    /// What the driver made of it. Errors: it made nothing of it in time, while it had a connection: the server is silent.
    async fn build(self, told: &Told) -> Result<Result<Session, NewSessionError>, Failure> {
        for _ in 0..OPENINGS {
            if let Ok(ended) = tokio::time::timeout(OPENING, self.builder(told)?.build()).await {
                return Ok(ended);
            }
            let open = own_sockets(self.port)?;
            that(open.is_empty(), || format!("{self:?}: nothing after {OPENING:?}, connected by\n{open}"))?;
        }
        Err(format!("{self:?}: the driver waits without a connection, each of {OPENINGS} times").into())
    }

    fn builder(self, told: &Told) -> Result<SessionBuilder, Failure> {
        let mut builder = builder(&told.host, self.port, self.compression);
        if let Some((user, password)) = self.login {
            builder = builder.user(user, password);
        }
        let Some(authority) = self.authority else { return Ok(builder) };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(std::env::var(authority)?)? {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        let config = match self.client {
            None => config.with_no_client_auth(),
            Some(client) => {
                let file = std::env::var(client)?;
                let chain = CertificateDer::pem_file_iter(&file)?.collect::<Result<_, _>>()?;
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&file)?)?
            }
        };
        Ok(builder.tls_context(Some(Arc::new(config))))
    }
}

/// A role made and used; five sessions that must be refused, each for its own reason.
pub async fn tls_and_password(told: &Told, compression: Option<Compression>) -> Outcome {
    let own = Way::own(told, compression);
    let role = &told.driver;
    let root = Way { login: Some(("cassandra", "cassandra")), ..own }.open(told).await?;
    let text = format!("CREATE ROLE IF NOT EXISTS {role} WITH PASSWORD = 'it''s secret' AND LOGIN = true");
    root.query_unpaged(text, &[]).await?;
    let seen = connections(&own.open(told).await?).await?;
    let expected = Connections { tls: true, user: role.clone(), ..Connections::new(compression) };
    equal(expected, seen, "connections as the server sees them")?;

    for login in [(role.as_str(), "wrong"), ("nobody", PASSWORD)] {
        let error = Way { login: Some(login), ..own }.refused(told).await?;
        match setup(&error) {
            Some(ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, says)) => {
                that(says.contains("incorrect"), || format!("{login:?} was refused by: {says}"))?;
            }
            _ => return Err(format!("{login:?} was refused by: {error:?}").into()),
        }
    }
    let error = Way { login: None, ..own }.refused(told).await?;
    let missing = matches!(setup(&error), Some(ConnectionSetupRequestErrorKind::MissingAuthentication));
    that(missing, || format!("nobody was refused by: {error:?}"))?;
    let error = Way { authority: Some(STRANGER), ..own }.refused(told).await?;
    let distrusted = matches!(connection(&error), Some(ConnectionError::IoError(told))
        if told.to_string().contains("certificate"));
    that(distrusted, || format!("a strange authority was refused by: {error:?}"))?;
    let error = Way { authority: None, ..own }.refused(told).await?;
    that(connection(&error).is_some(), || format!("plain bytes were refused by: {error:?}"))?;
    Ok(String::new())
}

/// The third server lets in who shows a certificate of the authority, and nobody else.
pub async fn client_certificate(told: &Told, compression: Option<Compression>) -> Outcome {
    let port = told.mutual_port;
    let own = Way { port, compression, authority: Some(AUTHORITY), client: Some(CLIENT), login: None };
    let seen = connections(&own.open(told).await?).await?;
    equal(Connections { tls: true, ..Connections::new(compression) }, seen, "connections")?;
    for client in [Some(IMPOSTOR), None] {
        let error = Way { client, ..own }.refused(told).await?;
        that(connection(&error).is_some(), || format!("{client:?} was refused by: {error:?}"))?;
    }
    Ok(String::new())
}

/// The shard-aware port, encrypted.
pub async fn shard_aware(told: &Told, compression: Option<Compression>) -> Outcome {
    let talk = Talk::new(Way::own(told, compression).open(told).await?, &told.driver).await?;
    let note = every_shard(&talk, told, told.secure_port).await?;
    talk.exec(format!("DROP KEYSPACE {}", talk.keyspace)).await?;
    Ok(note)
}

/// The kernel's lines of this process's connections to a port: addresses, state, bytes that wait.
fn own_sockets(port: u16) -> Result<String, Failure> {
    const INODE: usize = 9;
    let links = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let own: BTreeSet<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    let end = format!(":{port:04X} ");
    let table = std::fs::read_to_string("/proc/self/net/tcp")?;
    let is_own = |line: &&str| {
        let inode = line.split_whitespace().nth(INODE);
        line.contains(&end) && inode.is_some_and(|inode| own.contains(&format!("socket:[{inode}]")))
    };
    Ok(table.lines().filter(is_own).collect::<Vec<_>>().join("\n"))
}

/// Why the first connection failed.
fn connection(error: &NewSessionError) -> Option<&ConnectionError> {
    match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
            last_connection_error,
        })) => Some(last_connection_error),
        _ => None,
    }
}

/// Why it failed after the bytes went both ways.
fn setup(error: &NewSessionError) -> Option<&ConnectionSetupRequestErrorKind> {
    match connection(error) {
        Some(ConnectionError::ConnectionSetupRequestError(error)) => Some(error.get_error()),
        _ => None,
    }
}
