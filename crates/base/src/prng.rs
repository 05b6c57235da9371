//! Seeded pseudo random numbers: xoshiro256**, seeded by splitmix64. Not for secrets.
//!
//! Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators".

/// A generator whose whole future is its seed.
#[derive(Clone, Debug)]
pub struct Prng {
    state: [u64; 4],
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Prng {
    /// A generator from one number; equal seeds give equal sequences.
    pub fn new(seed: u64) -> Prng {
        let mut s = seed;
        Prng { state: [splitmix(&mut s), splitmix(&mut s), splitmix(&mut s), splitmix(&mut s)] }
    }

    /// The next 64 bits.
    pub fn u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..n` (0 when `n` is 0). The bias of the multiply method is below 2^-32 for the sizes used here.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `low..high`; `low` when the range is empty.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Fills a buffer.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// A generator independent of what this one does next.
    pub fn fork(&mut self) -> Prng {
        Prng::new(self.u64())
    }

    /// Puts a slice in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides() {
        let (mut a, mut b) = (Prng::new(1), Prng::new(1));
        let mut fork = a.fork();
        assert_eq!(b.fork().u64(), fork.u64());
        for _ in 0..1000 {
            assert_eq!(a.u64(), b.u64());
            assert!(a.below(7) < 7);
            b.u64();
        }
        let mut bytes = [0u8; 13];
        a.fill(&mut bytes);
        assert_ne!(bytes, [0; 13]);
        assert!(!a.chance(0.0));
        assert!(a.chance(1.0));
    }
}
