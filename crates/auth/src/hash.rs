//! Salted hashes of passwords: bcrypt, written as Cassandra writes them (`$2a$10$…`), so that either reads the other's.
//!
//! Computing one takes tens of milliseconds by design: never on a shard's thread, except in the simulator.

use crate::limits;

/// How expensive a hash is: a power of two of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost(u32);

impl Cost {
    /// What new hashes of a real node cost.
    pub const USUAL: Cost = Cost(limits::HASH_COST);
    /// What new hashes of a simulated node cost.
    pub const LEAST: Cost = Cost(limits::HASH_COST_MIN);
}

const _: () = assert!(limits::HASH_COST_MIN >= 4 && limits::HASH_COST <= limits::HASH_COST_MAX);

/// Hashes a password; what lies beyond its first 72 bytes does not count, as everywhere with bcrypt.
/// `salt`: drawn anew for each hash.
pub fn hash(password: &str, cost: Cost, salt: [u8; 16]) -> String {
    let parts = bcrypt::hash_with_salt(password.as_bytes(), cost.0, salt);
    parts.expect("the cost is one that bcrypt takes").format_for_version(bcrypt::Version::TwoA)
}

/// A hash that nobody has, to spend the time of a comparison on.
pub(crate) fn hash_of_nobody(cost: Cost) -> String {
    format!("$2a${:02}$......................eVc0pWbPn5RtYx2qZ1mKd7gHs3jLa8u", cost.0)
}

/// Whether a text is a hash that [`verify`] can compare with, at a cost that logins can bear.
pub fn is_hash(text: &str) -> bool {
    let cost = text.split('$').nth(2).and_then(|cost| cost.parse::<u32>().ok());
    let bearable = cost.is_some_and(|c| (limits::HASH_COST_MIN..=limits::HASH_COST_MAX).contains(&c));
    bearable && text.starts_with("$2") && text.parse::<bcrypt::HashParts>().is_ok()
}

/// Whether a password is the one of a hash; a hash that is none matches nothing.
pub fn verify(password: &str, hash: &str) -> bool {
    is_hash(hash) && bcrypt::verify(password.as_bytes(), hash).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_matches_its_hash_only() {
        let made = hash("secret", Cost::LEAST, [7; 16]);
        assert!(made.starts_with("$2a$04$"), "{made}");
        assert_eq!(made.len(), 60);
        assert!(verify("secret", &made));
        assert!(!verify("Secret", &made));
        assert_ne!(made, hash("secret", Cost::LEAST, [8; 16]), "the salt is in it");
        assert!(hash("x", Cost::USUAL, [1; 16]).starts_with("$2a$10$"));
    }

    #[test]
    fn hashes_of_others_are_understood() {
        // Published with jBCrypt, which Cassandra uses.
        let published = [
            ("a", "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe"),
            ("abc", "$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"),
        ];
        for (password, hash) in published {
            assert!(verify(password, hash), "{password:?}");
            assert!(!verify("other", hash));
        }
    }

    #[test]
    fn nobody_has_the_hash_of_nobody_and_it_can_be_compared() {
        for cost in [Cost::LEAST, Cost::USUAL] {
            let hash = hash_of_nobody(cost);
            assert_eq!(bcrypt::verify(b"secret", &hash).ok(), Some(false), "{hash}");
        }
    }

    #[test]
    fn what_is_no_hash_matches_nothing() {
        let dear = hash("a", Cost::LEAST, [1; 16]).replacen("$04$", "$31$", 1);
        for text in ["", "secret", "$2a$", "$2a$10$short", "$9z$10$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &dear] {
            assert!(!is_hash(text), "{text}");
            assert!(!verify("a", text), "{text}");
        }
    }
}
