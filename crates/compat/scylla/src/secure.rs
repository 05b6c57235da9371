//! TLS and passwords, right and wrong, on the second server.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
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
const PASSWORD: &str = "it's secret";

/// A role made and used; five sessions that must be refused, each for its own reason.
pub async fn tls_and_password(told: &Told, compression: Option<Compression>) -> Outcome {
    let root = with(told, compression, Some(AUTHORITY), Some(("cassandra", "cassandra")))?.build().await?;
    let role = &told.driver;
    let text = format!("CREATE ROLE IF NOT EXISTS {role} WITH PASSWORD = 'it''s secret' AND LOGIN = true");
    root.query_unpaged(text, &[]).await?;
    let session = own(told, compression).await?;
    let seen = connections(&session).await?;
    let expected = Connections { tls: true, user: role.clone(), ..Connections::new(compression) };
    equal(expected, seen, "connections as the server sees them")?;

    let refused = async |authority, login| match with(told, compression, authority, login)?.build().await {
        Ok(_) => Err(format!("{authority:?} {login:?}: a session that must be refused was opened").into()),
        Err(error) => Ok::<NewSessionError, Failure>(error),
    };
    for login in [(role.as_str(), "wrong"), ("nobody", PASSWORD)] {
        let error = refused(Some(AUTHORITY), Some(login)).await?;
        match setup(&error) {
            Some(ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, says)) => {
                that(says.contains("incorrect"), || format!("{login:?} was refused by: {says}"))?;
            }
            _ => return Err(format!("{login:?} was refused by: {error:?}").into()),
        }
    }
    let error = refused(Some(AUTHORITY), None).await?;
    let missing = matches!(setup(&error), Some(ConnectionSetupRequestErrorKind::MissingAuthentication));
    that(missing, || format!("nobody was refused by: {error:?}"))?;
    let error = refused(Some(STRANGER), Some((role, PASSWORD))).await?;
    let distrusted = matches!(connection(&error), Some(ConnectionError::IoError(told))
        if told.to_string().contains("certificate"));
    that(distrusted, || format!("a strange authority was refused by: {error:?}"))?;
    let error = refused(None, Some((role, PASSWORD))).await?;
    that(connection(&error).is_some(), || format!("plain bytes were refused by: {error:?}"))?;
    Ok(String::new())
}

/// The shard-aware port, encrypted.
pub async fn shard_aware(told: &Told, compression: Option<Compression>) -> Outcome {
    let talk = Talk::new(own(told, compression).await?, &told.driver).await?;
    let note = every_shard(&talk, told, told.secure_port).await?;
    talk.exec(format!("DROP KEYSPACE {}", talk.keyspace)).await?;
    Ok(note)
}

/// A session with everything right, as the role that the first test made.
async fn own(told: &Told, compression: Option<Compression>) -> Result<Session, Failure> {
    let login = Some((told.driver.as_str(), PASSWORD));
    Ok(with(told, compression, Some(AUTHORITY), login)?.build().await?)
}

fn with(
    told: &Told,
    compression: Option<Compression>,
    authority: Option<&str>,
    login: Option<(&str, &str)>,
) -> Result<SessionBuilder, Failure> {
    let mut builder = builder(&told.host, told.secure_port, compression);
    if let Some((user, password)) = login {
        builder = builder.user(user, password);
    }
    let Some(authority) = authority else { return Ok(builder) };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(std::env::var(authority)?)? {
        roots.add(certificate?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(builder.tls_context(Some(Arc::new(config))))
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
