//! The rows of large partitions in the order of their positions: a B+tree of handles.
//!
//! ```text
//! branch: ≤ 32 × {head, row, child}       leaf: ≤ 32 × {head, row}, linked to the leaves beside it
//! ```
//! A head is the first eight telling bytes of a position: most comparisons end there, without a look at the row. Rows that
//! come in order, as those of time series do, fill leaves to the last place. Nothing is ever taken out.

use super::slab::Slab;
use std::cmp::Ordering;

const WIDTH: usize = 32;
/// No leaf.
const NONE: u32 = u32::MAX;
/// The byte that nearly all positions of rows begin with: that of a component follows.
const COMPONENT: u8 = 0x40;
/// Levels of branches: 32^12 rows are more than there are handles.
const HEIGHT_MAX: usize = 12;

#[derive(Debug)]
struct Leaf {
    heads: [u64; WIDTH],
    rows: [u32; WIDTH],
    len: u32,
    previous: u32,
    next: u32,
}

#[derive(Debug)]
struct Branch {
    /// Of the first row that a child had when it was made. The first child's counts as smaller than all.
    heads: [u64; WIDTH],
    rows: [u32; WIDTH],
    children: [u32; WIDTH],
    len: u32,
}

#[derive(Debug)]
struct Root {
    node: u32,
    height: u32,
    rows: u64,
    oldest: i64,
}

/// The trees of one memtable.
#[derive(Default)]
pub(crate) struct Trees {
    roots: Slab<Root, 16>,
    branches: Slab<Branch, 16>,
    leaves: Slab<Leaf, 64>,
}

/// A place between rows: before the row that stands at it, if one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    leaf: u32,
    at: u32,
}

/// Compares as positions do, as far as it tells.
#[inline]
fn head_of(position: &[u8]) -> u64 {
    match position.first() {
        Some(&COMPONENT) => {}
        Some(&first) if first > COMPONENT => return u64::MAX,
        _ => return 0,
    }
    let mut head = [0; 8];
    let rest = &position[1..];
    match rest.first_chunk::<8>() {
        Some(chunk) => head = *chunk,
        None => head[..rest.len()].copy_from_slice(rest),
    }
    u64::from_be_bytes(head)
}

/// What is looked for.
struct Sought<'a, F> {
    head: u64,
    position: &'a [u8],
    /// The position of a row.
    position_of: F,
}

impl<'r, F: Fn(u32) -> &'r [u8]> Sought<'_, F> {
    /// How a row compares to it.
    #[inline]
    fn compare(&self, head: u64, row: u32) -> Ordering {
        head.cmp(&self.head).then_with(|| (self.position_of)(row).cmp(self.position))
    }

    /// The first of sorted rows that is not before it.
    #[inline]
    fn lower(&self, heads: &[u64], rows: &[u32]) -> usize {
        let (mut low, mut high) = (0, heads.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.compare(heads[middle], rows[middle]) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl Branch {
    /// The child where a row is or belongs.
    fn child<'r, F: Fn(u32) -> &'r [u8]>(&self, sought: &Sought<'_, F>) -> usize {
        let len = self.len as usize;
        let lower = 1 + sought.lower(&self.heads[1..len], &self.rows[1..len]);
        let is_first = lower < len && sought.compare(self.heads[lower], self.rows[lower]) == Ordering::Equal;
        if is_first { lower } else { lower - 1 }
    }

    fn insert(&mut self, at: usize, separator: Separator) {
        let len = self.len as usize;
        self.heads.copy_within(at..len, at + 1);
        self.rows.copy_within(at..len, at + 1);
        self.children.copy_within(at..len, at + 1);
        (self.heads[at], self.rows[at], self.children[at]) = (separator.head, separator.row, separator.child);
        self.len += 1;
    }
}

impl Leaf {
    fn insert(&mut self, at: usize, head: u64, row: u32) {
        let len = self.len as usize;
        self.heads.copy_within(at..len, at + 1);
        self.rows.copy_within(at..len, at + 1);
        (self.heads[at], self.rows[at]) = (head, row);
        self.len += 1;
    }
}

/// What a branch keeps of a child.
#[derive(Clone, Copy)]
struct Separator {
    head: u64,
    row: u32,
    child: u32,
}

impl Trees {
    /// Makes a tree of rows that are in order; at most as many as a leaf holds. `oldest` as in [`Trees::age`].
    pub(crate) fn build<'r>(
        &mut self,
        rows: impl Iterator<Item = u32>,
        oldest: i64,
        position_of: impl Fn(u32) -> &'r [u8],
    ) -> u32 {
        let mut leaf = Leaf { heads: [0; WIDTH], rows: [0; WIDTH], len: 0, previous: NONE, next: NONE };
        for row in rows {
            leaf.insert(leaf.len as usize, head_of(position_of(row)), row);
        }
        let rows = u64::from(leaf.len);
        let node = self.leaves.push(leaf);
        self.roots.push(Root { node, height: 0, rows, oldest })
    }

    /// How many rows a tree has.
    pub(crate) fn rows(&self, tree: u32) -> u64 {
        self.roots.get(tree).rows
    }

    /// A timestamp that nothing in the rows of a tree is older than.
    pub(crate) fn oldest(&self, tree: u32) -> i64 {
        self.roots.get(tree).oldest
    }

    /// Something of this timestamp is in the rows of a tree.
    pub(crate) fn age(&mut self, tree: u32, timestamp: i64) {
        let root = self.roots.get_mut(tree);
        root.oldest = root.oldest.min(timestamp);
    }

    /// Bytes of memory of all trees.
    pub(crate) fn bytes(&self) -> usize {
        self.roots.bytes() + self.branches.bytes() + self.leaves.bytes()
    }

    /// Frees a page. Returns false when there was none.
    pub(crate) fn drop_page(&mut self) -> bool {
        self.leaves.drop_page() || self.branches.drop_page() || self.roots.drop_page()
    }

    /// The place of the first row at or behind a position, and whether that is its own. O(log rows).
    pub(crate) fn seek<'r>(
        &self,
        tree: u32,
        position: &[u8],
        position_of: impl Fn(u32) -> &'r [u8],
    ) -> (Spot, bool) {
        let sought = Sought { head: head_of(position), position, position_of };
        let root = self.roots.get(tree);
        let mut node = root.node;
        for _ in 0..root.height {
            let branch = self.branches.get(node);
            node = branch.children[branch.child(&sought)];
        }
        let leaf = self.leaves.get(node);
        let len = leaf.len as usize;
        let at = sought.lower(&leaf.heads[..len], &leaf.rows[..len]);
        let found = at < len && sought.compare(leaf.heads[at], leaf.rows[at]) == Ordering::Equal;
        (self.normal(Spot { leaf: node, at: at as u32 }), found)
    }

    /// Behind the last row of a leaf is before the first of the next.
    fn normal(&self, spot: Spot) -> Spot {
        let leaf = self.leaves.get(spot.leaf);
        if spot.at == leaf.len && leaf.next != NONE { Spot { leaf: leaf.next, at: 0 } } else { spot }
    }

    /// Before the first row.
    pub(crate) fn first(&self, tree: u32) -> Spot {
        let root = self.roots.get(tree);
        let leaf = (0..root.height).fold(root.node, |node, _| self.branches.get(node).children[0]);
        Spot { leaf, at: 0 }
    }

    /// Behind the last row.
    pub(crate) fn last(&self, tree: u32) -> Spot {
        let root = self.roots.get(tree);
        let leaf = (0..root.height).fold(root.node, |node, _| {
            let branch = self.branches.get(node);
            branch.children[branch.len as usize - 1]
        });
        Spot { leaf, at: self.leaves.get(leaf).len }
    }

    /// The row at a place, and the place behind it. There must be one.
    #[inline]
    pub(crate) fn next(&self, spot: Spot) -> (u32, Spot) {
        let row = self.row(spot);
        (row, self.normal(Spot { at: spot.at + 1, ..spot }))
    }

    /// The row before a place, and the place before that row. There must be one.
    #[inline]
    pub(crate) fn previous(&self, spot: Spot) -> (u32, Spot) {
        let before = if spot.at > 0 {
            Spot { at: spot.at - 1, ..spot }
        } else {
            let leaf = self.leaves.get(spot.leaf).previous;
            Spot { leaf, at: self.leaves.get(leaf).len - 1 }
        };
        (self.row(before), before)
    }

    /// The row at a place. There must be one.
    pub(crate) fn row(&self, spot: Spot) -> u32 {
        self.leaves.get(spot.leaf).rows[spot.at as usize]
    }

    /// The row at a place has moved.
    pub(crate) fn set(&mut self, spot: Spot, row: u32) {
        self.leaves.get_mut(spot.leaf).rows[spot.at as usize] = row;
    }

    /// Adds a row whose position is not there yet. O(log rows); copies some hundred bytes.
    pub(crate) fn insert<'r>(&mut self, tree: u32, row: u32, position_of: impl Fn(u32) -> &'r [u8]) {
        let position = position_of(row);
        let sought = Sought { head: head_of(position), position, position_of };
        let root = self.roots.get_mut(tree);
        root.rows += 1;
        let (mut node, height) = (root.node, root.height as usize);
        let mut path = [(0, 0); HEIGHT_MAX];
        for level in &mut path[..height] {
            let branch = self.branches.get(node);
            let child = branch.child(&sought);
            *level = (node, child);
            node = branch.children[child];
        }
        let leaf = self.leaves.get_mut(node);
        let len = leaf.len as usize;
        let at = sought.lower(&leaf.heads[..len], &leaf.rows[..len]);
        if len < WIDTH {
            return leaf.insert(at, sought.head, row);
        }
        let mut divided = Some(self.divide_leaf(node, at, sought.head, row));
        for (node, child) in path[..height].iter().rev() {
            let Some(separator) = divided else { return };
            divided = self.insert_child(*node, child + 1, separator);
        }
        if let Some(separator) = divided {
            self.grow(tree, separator);
        }
    }

    /// Divides a full leaf and adds a row; returns what leads to the new one. A row behind all others begins it.
    fn divide_leaf(&mut self, node: u32, at: usize, head: u64, row: u32) -> Separator {
        let right = self.leaves.push(Leaf {
            heads: [0; WIDTH],
            rows: [0; WIDTH],
            len: 0,
            previous: node,
            next: NONE,
        });
        let left = self.leaves.get_mut(node);
        let next = std::mem::replace(&mut left.next, right);
        let cut = if at == WIDTH && next == NONE { WIDTH } else { WIDTH / 2 };
        let (heads, rows) = (left.heads, left.rows);
        left.len = cut as u32;
        if at < cut || (at == cut && cut < WIDTH) {
            left.insert(at, head, row);
        }
        let leaf = self.leaves.get_mut(right);
        leaf.next = next;
        leaf.len = (WIDTH - cut) as u32;
        leaf.heads[..WIDTH - cut].copy_from_slice(&heads[cut..]);
        leaf.rows[..WIDTH - cut].copy_from_slice(&rows[cut..]);
        if at > cut || cut == WIDTH {
            leaf.insert(at - cut, head, row);
        }
        let separator = Separator { head: leaf.heads[0], row: leaf.rows[0], child: right };
        if next != NONE {
            self.leaves.get_mut(next).previous = right;
        }
        separator
    }

    /// Adds a child to a branch; returns what leads to a second branch when that divides it.
    fn insert_child(&mut self, node: u32, at: usize, separator: Separator) -> Option<Separator> {
        let left = self.branches.get_mut(node);
        if (left.len as usize) < WIDTH {
            left.insert(at, separator);
            return None;
        }
        let cut = if at == WIDTH { WIDTH - 1 } else { WIDTH / 2 };
        let mut right =
            Branch { heads: [0; WIDTH], rows: [0; WIDTH], children: [0; WIDTH], len: (WIDTH - cut) as u32 };
        right.heads[..WIDTH - cut].copy_from_slice(&left.heads[cut..]);
        right.rows[..WIDTH - cut].copy_from_slice(&left.rows[cut..]);
        right.children[..WIDTH - cut].copy_from_slice(&left.children[cut..]);
        left.len = cut as u32;
        if at <= cut {
            left.insert(at, separator);
        } else {
            right.insert(at - cut, separator);
        }
        let (head, row) = (right.heads[0], right.rows[0]);
        Some(Separator { head, row, child: self.branches.push(right) })
    }

    fn grow(&mut self, tree: u32, separator: Separator) {
        let root = self.roots.get_mut(tree);
        let mut branch = Branch { heads: [0; WIDTH], rows: [0; WIDTH], children: [0; WIDTH], len: 1 };
        branch.children[0] = root.node;
        branch.insert(1, separator);
        root.node = self.branches.push(branch);
        root.height += 1;
    }
}

#[cfg(test)]
mod tests {
    //! A tree says what a sorted list says, in whatever order its rows came.
    use super::*;
    use base::Prng;

    fn positions(prng: &mut Prng, count: usize, kind: u64) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = (0..count as u64)
            .map(|n| {
                let number = if kind == 2 { n } else { prng.u64() };
                let mut bytes = vec![0x40];
                match kind {
                    // Equal heads: twelve bytes in common.
                    0 => bytes.extend_from_slice(b"common prefix"),
                    // Missing and present components.
                    1 => bytes[0] = 0x3e + prng.below(3) as u8,
                    _ => {}
                }
                bytes.extend_from_slice(
                    &number.to_be_bytes()[prng.below(if kind == 2 { 1 } else { 8 }) as usize..],
                );
                bytes
            })
            .collect();
        all.sort();
        all.dedup();
        all
    }

    fn walk(trees: &Trees, from: Spot, to: Spot) -> Vec<u32> {
        let (mut rows, mut spot) = (Vec::new(), from);
        while spot != to {
            let (row, next) = trees.next(spot);
            rows.push(row);
            spot = next;
        }
        let (mut back, mut spot) = (Vec::new(), to);
        while spot != from {
            let (row, before) = trees.previous(spot);
            back.push(row);
            spot = before;
        }
        back.reverse();
        assert_eq!(rows, back, "backwards is the same");
        rows
    }

    #[test]
    fn rows_are_found_and_walked_in_order() {
        for kind in 0..4 {
            for count in [1, 31, 33, 500, 40_000] {
                let mut prng = Prng::new(kind * 100 + count as u64);
                let sorted = positions(&mut prng, count, kind);
                let mut order: Vec<u32> = (0..sorted.len() as u32).collect();
                match kind {
                    2 => {}
                    3 => order.reverse(),
                    _ => (1..order.len()).for_each(|n| order.swap(n, prng.below(n as u64 + 1) as usize)),
                }
                let position_of = |row: u32| sorted[row as usize].as_slice();
                let mut trees = Trees::default();
                trees.build(order[..1].iter().copied(), 0, position_of);
                let tree = trees.build(order[..1].iter().copied(), 5, position_of);
                order[1..].iter().for_each(|row| trees.insert(tree, *row, position_of));
                assert_eq!(trees.rows(tree), sorted.len() as u64);
                let (first, last) = (trees.first(tree), trees.last(tree));
                assert_eq!(walk(&trees, first, last), (0..sorted.len() as u32).collect::<Vec<_>>());
                for _ in 0..300 {
                    let row = prng.below(sorted.len() as u64) as u32;
                    let (spot, found) = trees.seek(tree, position_of(row), position_of);
                    assert!(found && trees.row(spot) == row);
                    let mut between = position_of(row).to_vec();
                    between.push(0);
                    let (spot, found) = trees.seek(tree, &between, position_of);
                    assert_eq!(found, sorted.binary_search(&between).is_ok());
                    let expected = sorted.partition_point(|position| *position < between) as u32;
                    assert_eq!(
                        walk(&trees, spot, last).first().copied().unwrap_or(sorted.len() as u32),
                        expected
                    );
                }
                if kind == 2 && count == 40_000 {
                    let each = trees.bytes() as f64 / sorted.len() as f64;
                    assert!(each < 14.0, "{each} bytes per row that comes in order");
                }
            }
        }
    }
}
