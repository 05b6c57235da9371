//! Who this node is: host id and tokens, drawn at the first start and kept in the data folder.
//!
//! ```text
//! messina identity 1
//! host_id 6ba7b810-9dad-41d1-80b4-00c04fd430c8
//! tokens -9100000000000000000,12,…
//! crc32 1a2b3c4d          of all lines before
//! ```
//! Text, so that an operator can read it; with a checksum, so that a damaged one is named and not believed.

use crate::config::Config;
use std::path::{Path, PathBuf};

const FILE: &str = "identity";
const HEADER: &str = "messina identity 1";

/// A node's place in the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Never changes, whatever the addresses.
    pub host_id: u128,
    /// Ascending, distinct, at least one.
    pub tokens: Vec<i64>,
}

/// Why a node cannot know who it is. The node must not start.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read or written.
    #[error("{}: {}", path.display(), runtime::file::reason(source, path))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what a node wrote.
    #[error("{}:{line}: damaged identity file: expected {expected}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// The configuration gives another identity than the folder has.
    #[error("{}: the folder belongs to host {found}, the configuration says {given}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The host id of the file.
        found: uuid::Uuid,
        /// The host id of the configuration.
        given: uuid::Uuid,
    },
}

/// Reads the identity of the node in `folder`, or draws and keeps one.
pub async fn load(folder: &Path, config: &Config) -> Result<Identity, IdentityError> {
    let path = folder.join(FILE);
    let io = |source| IdentityError::Io { path: path.clone(), source };
    if runtime::file::exists(&path).await.map_err(io)? {
        let bytes = runtime::file::read(&path).await.map_err(io)?;
        let found = parse(&bytes).map_err(|(line, expected)| IdentityError::Damaged {
            path: path.clone(),
            line,
            expected,
        })?;
        return match config.host_id {
            Some(given) if given != found.host_id => Err(IdentityError::Foreign {
                path,
                found: uuid::Uuid::from_u128(found.host_id),
                given: uuid::Uuid::from_u128(given),
            }),
            _ => Ok(found),
        };
    }
    let host_id = config.host_id.unwrap_or_else(runtime::random_uuid);
    let identity = draw(host_id, config);
    runtime::file::replace_atomic(&path, format(&identity).as_bytes()).await.map_err(io)?;
    Ok(identity)
}

/// Whether a node has run here before.
pub async fn exists(folder: &Path) -> std::io::Result<bool> {
    runtime::file::exists(folder.join(FILE)).await
}

/// The identity of a host id: tokens as configured, or spread by the host id.
pub fn draw(host_id: u128, config: &Config) -> Identity {
    let mut tokens = config.initial_tokens.clone();
    if tokens.is_empty() {
        let mut prng = base::Prng::new((host_id as u64) ^ ((host_id >> 64) as u64));
        while tokens.len() < config.num_tokens.max(1) as usize {
            // The smallest token stands for "before all keys" and is nobody's.
            let token = (prng.u64() as i64).max(i64::MIN + 1);
            if !tokens.contains(&token) {
                tokens.push(token);
            }
        }
    }
    tokens.sort_unstable();
    tokens.dedup();
    Identity { host_id, tokens }
}

fn format(identity: &Identity) -> String {
    let tokens: Vec<String> = identity.tokens.iter().map(i64::to_string).collect();
    let host_id = uuid::Uuid::from_u128(identity.host_id);
    let body = format!("{HEADER}\nhost_id {host_id}\ntokens {}\n", tokens.join(","));
    let crc = base::crc32(body.as_bytes());
    format!("{body}crc32 {crc:08x}\n")
}

fn parse(bytes: &[u8]) -> Result<Identity, (usize, &'static str)> {
    let text = str::from_utf8(bytes).map_err(|_| (1, "text"))?;
    let lines: Vec<&str> = text.lines().collect();
    let line = |index: usize, expected| lines.get(index).copied().ok_or((index + 1, expected));
    if line(0, HEADER)? != HEADER {
        return Err((1, HEADER));
    }
    let crc = line(3, "crc32")?.strip_prefix("crc32 ").ok_or((4, "crc32"))?;
    let body = text.find("crc32 ").map_or(text, |at| &text[..at]);
    if u32::from_str_radix(crc, 16) != Ok(base::crc32(body.as_bytes())) {
        return Err((4, "the checksum of the lines before"));
    }
    let host_id = line(1, "host_id")?.strip_prefix("host_id ").ok_or((2, "host_id"))?;
    let host_id = uuid::Uuid::parse_str(host_id).map_err(|_| (2, "a uuid"))?.as_u128();
    let tokens = line(2, "tokens")?.strip_prefix("tokens ").ok_or((3, "tokens"))?;
    let tokens: Result<Vec<i64>, _> = tokens.split(',').map(str::parse).collect();
    let tokens = tokens.map_err(|_| (3, "tokens with commas between them"))?;
    Ok(Identity { host_id, tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_follow_from_the_host_id() {
        let config = Config::standard("d".into());
        let a = draw(7, &config);
        assert_eq!(a, draw(7, &config));
        assert_ne!(a.tokens, draw(8, &config).tokens);
        assert_eq!(a.tokens.len(), 16);
        assert!(a.tokens.is_sorted());
    }

    #[test]
    fn the_file_reads_back_and_damage_is_named() {
        let identity = draw(0x1234_5678, &Config::standard("d".into()));
        let text = format(&identity);
        assert_eq!(parse(text.as_bytes()), Ok(identity));
        let damaged = text.replacen("host_id 0", "host_id 1", 1);
        assert_eq!(parse(damaged.as_bytes()), Err((4, "the checksum of the lines before")));
        assert_eq!(parse(b""), Err((1, HEADER)));
        assert_eq!(parse(&[0xff, 0xfe]), Err((1, "text")));
    }
}
