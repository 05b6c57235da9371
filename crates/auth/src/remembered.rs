//! Logins that are remembered, so that a driver's many connections cost one hash and one read.
//!
//! Of a password only a digest is kept, keyed with chance that never leaves the process.

use crate::hash::{Cost, hash_of_nobody};
use base::{HashMap, Instant};
use core::time::Duration;
use sha2::{Digest, Sha256};

/// What is remembered of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The hash of its password.
    pub salted_hash: String,
    /// Whether it may log in.
    pub can_login: bool,
    /// Whether there is such a role with a password; if not, the hash is one to spend as much time on.
    pub exists: bool,
}

impl Known {
    /// Nobody: no password lets in, and comparing one takes as long as with a hash of this cost.
    pub fn nobody(cost: Cost) -> Known {
        Known { salted_hash: hash_of_nobody(cost), can_login: false, exists: false }
    }
}

struct Entry {
    known: Known,
    /// Digest of the password that was found to match the hash.
    verified: Option<[u8; 32]>,
    until: Instant,
}

/// Roles that logged in lately. Bounded; what is older than its validity is as good as forgotten.
pub struct Remembered {
    key: [u8; 16],
    validity: Duration,
    most: usize,
    entries: HashMap<String, Entry>,
    /// Names of nobody, as digests: long ones take no more room. Apart, so that made-up names push no role out.
    absent: HashMap<[u8; 32], (Known, Instant)>,
    changes: u64,
}

impl Remembered {
    /// Remembers nobody yet. `key`: drawn by chance. A validity of zero remembers nobody ever.
    pub fn new(key: [u8; 16], validity: Duration, most: usize) -> Remembered {
        Remembered {
            key,
            validity,
            most,
            entries: HashMap::default(),
            absent: HashMap::default(),
            changes: 0,
        }
    }

    /// What is known of a role, and whether this password was found to be its own.
    pub fn get(&self, now: Instant, name: &str, password: &str) -> Option<(Known, bool)> {
        let Some(entry) = self.entries.get(name).filter(|entry| now < entry.until) else {
            let nobody = self.absent.get(&self.digest(name)).filter(|(_, until)| now < *until);
            return nobody.map(|(known, _)| (known.clone(), false));
        };
        let verified = entry.verified.is_some_and(|digest| digest == self.digest(password));
        Some((entry.known.clone(), verified))
    }

    /// Remembers a role as it was read now.
    pub fn learn(&mut self, now: Instant, name: &str, known: Known) {
        if self.validity.is_zero() || self.most == 0 {
            return;
        }
        if !known.exists {
            self.entries.remove(name);
            return self.learn_absent(now, name, known);
        }
        if self.entries.len() >= self.most && !self.entries.contains_key(name) {
            self.entries.retain(|_, entry| now < entry.until);
            if self.entries.len() >= self.most {
                // Everybody is in use: whoever is left out is read again at the next login.
                return;
            }
        }
        let entry = Entry { known, verified: None, until: now + self.validity };
        self.entries.insert(name.to_string(), entry);
    }

    fn learn_absent(&mut self, now: Instant, name: &str, known: Known) {
        if self.absent.len() >= self.most {
            self.absent.retain(|_, (_, until)| now < *until);
        }
        if self.absent.len() < self.most {
            self.absent.insert(self.digest(name), (known, now + self.validity));
        }
    }

    /// Changes of roles so far: what was read before one is not to be learnt after it.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Remembers that a password matches the hash, if the role is still known by that hash.
    pub fn verified(&mut self, name: &str, password: &str, salted_hash: &str) {
        let digest = self.digest(password);
        if let Some(entry) = self.entries.get_mut(name)
            && entry.known.salted_hash == salted_hash
        {
            entry.verified = Some(digest);
        }
    }

    /// Forgets a role, because it has changed.
    pub fn forget(&mut self, name: &str) {
        self.entries.remove(name);
        let digest = self.digest(name);
        self.absent.remove(&digest);
        self.changes += 1;
    }

    fn digest(&self, password: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update(password.as_bytes());
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(hash: &str) -> Known {
        Known { salted_hash: hash.to_string(), can_login: true, exists: true }
    }

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn a_login_is_remembered_for_its_validity() {
        let mut remembered = Remembered::new([1; 16], Duration::from_secs(2), 10);
        assert_eq!(remembered.get(at(0), "a", "p"), None);
        remembered.learn(at(0), "a", known("h"));
        assert_eq!(remembered.get(at(1), "a", "p"), Some((known("h"), false)), "read, but not compared");
        remembered.verified("a", "p", "h");
        assert_eq!(remembered.get(at(1), "a", "p"), Some((known("h"), true)));
        assert_eq!(remembered.get(at(1), "a", "q"), Some((known("h"), false)));
        assert_eq!(remembered.get(at(2), "a", "p"), None);
    }

    #[test]
    fn a_changed_role_is_forgotten() {
        let mut remembered = Remembered::new([1; 16], Duration::from_secs(2), 10);
        remembered.learn(at(0), "a", known("h"));
        remembered.learn(at(0), "a", known("i"));
        remembered.verified("a", "p", "h");
        assert_eq!(remembered.get(at(0), "a", "p"), Some((known("i"), false)), "compared with the old hash");
        remembered.forget("a");
        assert_eq!(remembered.get(at(0), "a", "p"), None);
    }

    #[test]
    fn nobody_is_remembered_apart_and_for_a_while() {
        let mut remembered = Remembered::new([1; 16], Duration::from_secs(2), 2);
        let nobody = Known::nobody(Cost::LEAST);
        for name in ["x", "y", "z"] {
            remembered.learn(at(0), name, nobody.clone());
        }
        remembered.learn(at(0), "a", known("h"));
        assert_eq!(
            remembered.get(at(1), "a", "p"),
            Some((known("h"), false)),
            "made-up names push nobody out"
        );
        assert_eq!(remembered.get(at(1), "x", "p"), Some((nobody.clone(), false)));
        assert_eq!(remembered.get(at(1), "z", "p"), None, "two are remembered");
        assert_eq!(remembered.get(at(2), "x", "p"), None, "for the validity");
        let before = remembered.changes();
        remembered.forget("y");
        assert_eq!(remembered.get(at(1), "y", "p"), None, "it was made");
        assert_ne!(remembered.changes(), before);
        assert!(crate::is_hash(&nobody.salted_hash), "it costs what a hash costs");
    }

    #[test]
    fn it_is_bounded() {
        let mut remembered = Remembered::new([1; 16], Duration::from_secs(2), 2);
        for name in ["a", "b", "c"] {
            remembered.learn(at(0), name, known("h"));
        }
        assert_eq!(remembered.get(at(0), "c", "p"), None, "two are remembered already");
        remembered.learn(at(3), "c", known("h"));
        assert!(remembered.get(at(3), "c", "p").is_some(), "the others were too old");
        let mut never = Remembered::new([1; 16], Duration::ZERO, 2);
        never.learn(at(0), "a", known("h"));
        assert_eq!(never.get(at(0), "a", "p"), None);
    }
}
