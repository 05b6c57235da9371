//! A list in order of arrival from which any place can be taken out, and found by its rank.

/// Fewer slots are not worth to be made denser.
const SPARSE_LEAST: usize = 1_024;

/// Items in the order in which they came. Rank, removal and arrival cost the logarithm of their number.
#[derive(Clone, Debug)]
pub struct Ranked<T> {
    /// `None` where one was taken out.
    items: Vec<Option<T>>,
    /// Fenwick tree over the items that are there.
    sums: Vec<usize>,
    len: usize,
}

impl<T> Default for Ranked<T> {
    fn default() -> Ranked<T> {
        Ranked { items: Vec::new(), sums: vec![0], len: 0 }
    }
}

impl<T> Ranked<T> {
    /// How many are there.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is there.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds one behind the others and gives the slot from which it can be removed.
    pub fn push(&mut self, item: T) -> usize {
        if self.len == 0 {
            *self = Ranked::default();
        }
        self.items.push(Some(item));
        self.len += 1;
        // A new place of the tree sums up those below it, and itself.
        let at = self.items.len();
        let below = at - (at & at.wrapping_neg());
        let sum = 1 + self.before(at - 1) - self.before(below);
        self.sums.push(sum);
        at - 1
    }

    /// Items in the first so many slots.
    fn before(&self, mut slots: usize) -> usize {
        let mut sum = 0;
        while slots > 0 {
            sum += self.sums[slots];
            slots &= slots - 1;
        }
        sum
    }

    /// Takes out what is in a slot.
    pub fn remove(&mut self, slot: usize) -> Option<T> {
        let item = self.items.get_mut(slot)?.take()?;
        self.len -= 1;
        let mut at = slot + 1;
        while at < self.sums.len() {
            self.sums[at] -= 1;
            at += at & at.wrapping_neg();
        }
        Some(item)
    }

    /// Whether most slots are empty.
    pub fn is_sparse(&self) -> bool {
        self.items.len() > SPARSE_LEAST && self.items.len() > 2 * self.len
    }

    /// Gives every item a new slot, without empty ones between them, and says which.
    pub fn compact(&mut self, mut moved: impl FnMut(&T, usize)) {
        let items = std::mem::take(self).items;
        for item in items.into_iter().flatten() {
            moved(&item, self.len);
            self.push(item);
        }
    }

    /// The one before which so many are there.
    pub fn at(&self, rank: usize) -> Option<&T> {
        if rank >= self.len {
            return None;
        }
        let (mut slot, mut left) = (0, rank);
        let mut step = self.items.len().next_power_of_two();
        while step > 0 {
            if let Some(sum) = self.sums.get(slot + step).filter(|sum| **sum <= left) {
                left -= sum;
                slot += step;
            }
            step /= 2;
        }
        self.items.get(slot)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    #[test]
    fn ranks_are_those_of_a_plain_list() {
        let mut rng = Prng::new(1);
        let mut ranked: Ranked<u64> = Ranked::default();
        let mut plain: Vec<(usize, u64)> = Vec::new();
        for step in 0..20_000u64 {
            if plain.is_empty() || rng.chance(0.55) {
                plain.push((ranked.push(step), step));
            } else {
                let (slot, item) = plain.remove(rng.below(plain.len() as u64) as usize);
                assert_eq!((ranked.remove(slot), ranked.remove(slot)), (Some(item), None));
            }
            if ranked.is_sparse() {
                let mut slots = Vec::new();
                ranked.compact(|item, slot| slots.push((slot, *item)));
                assert_eq!(
                    slots.iter().map(|(_, item)| item).collect::<Vec<_>>(),
                    plain.iter().map(|(_, item)| item).collect::<Vec<_>>()
                );
                plain = slots;
            }
            let rank = rng.below(plain.len() as u64 + 2) as usize;
            assert_eq!(ranked.at(rank), plain.get(rank).map(|(_, item)| item));
            assert_eq!((ranked.len(), ranked.is_empty()), (plain.len(), plain.is_empty()));
        }
    }
}
