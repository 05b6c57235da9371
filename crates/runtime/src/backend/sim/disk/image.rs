//! Copies of a whole disk, for nodes whose folders are copied or restored.

use std::collections::BTreeMap;

use super::{Disk, Ino, NameOp, Node};

/// What a disk held at one moment.
#[derive(Clone)]
pub(crate) struct Image {
    nodes: BTreeMap<Ino, Node>,
    pending: Vec<NameOp>,
    next_ino: Ino,
    used: u64,
}

impl Disk {
    /// What is on it now. Nothing may have a file open.
    pub(crate) fn image(&self) -> Image {
        assert!(
            self.handles.is_empty() && self.inflight.is_empty(),
            "a disk is copied while its node is down"
        );
        let (nodes, pending) = (self.nodes.clone(), self.pending.clone());
        Image { nodes, pending, next_ino: self.next_ino, used: self.used }
    }

    /// Replaces everything on it. Nothing may have a file open.
    pub(crate) fn restore(&mut self, image: Image) {
        assert!(
            self.handles.is_empty() && self.inflight.is_empty(),
            "a disk is replaced while its node is down"
        );
        (self.nodes, self.pending) = (image.nodes, image.pending);
        (self.next_ino, self.used) = (image.next_ino, image.used);
    }
}
