//! Values of one type in pages, addressed by `u32`.
//!
//! A page is never moved once it is whole, so growing copies less than a page, whatever the number of values. Values
//! are not freed one by one; who owns the slab may keep a list of places to use again.

use super::{PagedVec, paged};

/// Values in pages of `PER`, a power of two.
#[derive(Debug)]
pub(crate) struct Slab<T, const PER: usize> {
    pages: Vec<PagedVec<T>>,
    bytes: usize,
}

impl<T, const PER: usize> Default for Slab<T, PER> {
    fn default() -> Slab<T, PER> {
        Slab { pages: Vec::new(), bytes: 0 }
    }
}

impl<T, const PER: usize> Slab<T, PER> {
    /// Adds a value; returns its place. Panics at 2^30 values: memory ends long before.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        if self.pages.last().is_none_or(|page| page.len() == PER) {
            self.add_page();
        }
        let page = self.pages.len() - 1;
        let last = &mut self.pages[page];
        if last.len() == last.capacity() {
            // Only the first page grows: most tables hold little.
            let before = last.capacity();
            last.reserve_exact((before * 2).min(PER) - before);
            self.bytes += (last.capacity() - before) * size_of::<T>();
        }
        let at = page * PER + last.len();
        assert!(at < 1 << 30, "a place in a slab has 30 bits");
        last.push(value);
        at as u32
    }

    fn add_page(&mut self) {
        let room = if self.pages.is_empty() { PER.min(2) } else { PER };
        let page = paged(room);
        self.bytes += page.capacity() * size_of::<T>();
        let before = self.pages.capacity();
        self.pages.push(page);
        self.bytes += (self.pages.capacity() - before) * size_of::<PagedVec<T>>();
    }

    /// The value at a place that [`Slab::push`] gave.
    #[inline]
    pub(crate) fn get(&self, at: u32) -> &T {
        &self.pages[at as usize / PER][at as usize % PER]
    }

    /// As [`Slab::get`], to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.pages[at as usize / PER][at as usize % PER]
    }

    /// Bytes of its pages, used or not.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All values, in the order in which they were added.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten()
    }

    /// The last value, to change it.
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.pages.last_mut()?.last_mut()
    }

    /// Drops the last value. Returns false when there was none. Only for a slab that nothing is added to any more.
    pub(crate) fn pop(&mut self) -> bool {
        while self.pages.last().is_some_and(PagedVec::is_empty) {
            self.pages.pop();
        }
        self.pages.last_mut().is_some_and(|page| page.pop().is_some())
    }

    /// Frees the last page. Returns false when there was none.
    pub(crate) fn drop_page(&mut self) -> bool {
        self.pages.pop().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_where_they_are_and_bytes_are_those_of_the_pages() {
        let mut slab: Slab<u64, 8> = Slab::default();
        assert_eq!(slab.bytes(), 0, "an empty slab takes nothing");
        for value in 0..100 {
            assert_eq!(slab.push(value * 3), value as u32);
        }
        *slab.get_mut(50) = 7;
        assert_eq!((*slab.get(49), *slab.get(50), *slab.get(99)), (147, 7, 297));
        assert_eq!(slab.iter().count(), 100);
        let pages: usize = slab.pages.iter().map(|page| page.capacity() * 8).sum();
        assert_eq!(slab.bytes(), pages + slab.pages.capacity() * size_of::<PagedVec<u64>>());
        assert_eq!(pages, 13 * 64);
    }
}
