//! What may come before any message of a response: a trace id, warnings.

use crate::envelope::flag;
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
    /// The header flags that announce them.
    pub fn flags(&self) -> u8 {
        let tracing = if self.trace_id.is_some() { flag::TRACING } else { 0 };
        let warning = if self.warnings.is_empty() { 0 } else { flag::WARNING };
        tracing | warning
    }

    /// Appends them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Some(id) = self.trace_id {
            out.extend_from_slice(&id);
        }
        if !self.warnings.is_empty() {
            put_string_list(out, self.warnings);
        }
    }
}
