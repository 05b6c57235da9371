//! Where randomness and key exchanges come from: ring, or in a simulated world the shard's seeded chance.
//!
//! Everything else that ring does is a function of its input: hashes, ciphers, ed25519 signatures. A simulated node must not be given a
//! key of another kind, whose signatures are drawn by chance that nobody seeds.

use rustls::Error;
use rustls::NamedGroup;
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use std::sync::Arc;
use x25519_dalek::{PublicKey, StaticSecret};

/// The cryptography of the world this shard is in.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let ring = rustls::crypto::ring::default_provider();
    if !runtime::simulated() {
        return Arc::new(ring);
    }
    Arc::new(CryptoProvider { kx_groups: vec![&SeededExchange], secure_random: &SeededRandom, ..ring })
}

/// The shard's chance, as bytes. Simulated worlds only.
#[derive(Debug)]
struct SeededRandom;

fn fill(bytes: &mut [u8]) {
    for piece in bytes.chunks_mut(8) {
        piece.copy_from_slice(&runtime::random_u64().to_le_bytes()[..piece.len()]);
    }
}

impl SecureRandom for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill(bytes);
        Ok(())
    }
}

/// X25519 with secrets of the shard's chance.
#[derive(Debug)]
struct SeededExchange;

struct Started {
    secret: StaticSecret,
    public: PublicKey,
}

impl SupportedKxGroup for SeededExchange {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut seed = [0; 32];
        fill(&mut seed);
        let secret = StaticSecret::from(seed);
        let public = PublicKey::from(&secret);
        Ok(Box::new(Started { secret, public }))
    }

    fn ffdhe_group(&self) -> Option<rustls::ffdhe_groups::FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl ActiveKeyExchange for Started {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let invalid = || Error::from(rustls::PeerMisbehaved::InvalidKeyShare);
        let peer: [u8; 32] = peer.try_into().map_err(|_| invalid())?;
        let shared = self.secret.diffie_hellman(&PublicKey::from(peer));
        if !shared.was_contributory() {
            return Err(invalid());
        }
        Ok(SharedSecret::from(&shared.as_bytes()[..]))
    }

    fn ffdhe_group(&self) -> Option<rustls::ffdhe_groups::FfdheGroup<'static>> {
        None
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}
