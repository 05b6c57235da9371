//! What may come before any message of a response: a trace id, warnings (v4 and above). Custom payloads are for plugins of
//! the server: there are none, so none goes back.

use crate::envelope::{Version, flag};
use crate::wire::put_string_list;

/// What may come before any message of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras<'a> {
    /// The id of the request's trace.
    pub trace_id: Option<[u8; 16]>,
    /// Warnings for the client's log.
    pub warnings: &'a [String],
}

impl Extras<'_> {
    fn has_warnings(&self, version: Version) -> bool {
        !self.warnings.is_empty() && Version::V4 <= version
    }

    /// The header flags that announce them.
    pub fn flags(&self, version: Version) -> u8 {
        let tracing = if self.trace_id.is_some() { flag::TRACING } else { 0 };
        let warning = if self.has_warnings(version) { flag::WARNING } else { 0 };
        tracing | warning
    }

    /// Appends them.
    pub fn encode(&self, out: &mut Vec<u8>, version: Version) {
        if let Some(id) = self.trace_id {
            out.extend_from_slice(&id);
        }
        if self.has_warnings(version) {
            put_string_list(out, self.warnings);
        }
    }
}
