//! Node to node calls: framing, verbs, deadlines, back-pressure.
#![forbid(unsafe_code)]
