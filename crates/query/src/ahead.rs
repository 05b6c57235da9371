//! Looking at requests before their turn: which partition an EXECUTE will touch is told to the store, which has memory bring it.

use crate::engine::Engine;
use base::Token;
use cql::Plan;
use protocol::envelope::Version;
use protocol::request::Execute;
use protocol::wire::RawValue;
use schema::TableId;
use storage::Purpose;

/// Columns of a partition key that is looked at ahead.
const KEY_COLUMNS_MAX: usize = 4;

impl Engine {
    /// Whether so much is in memory that it pays to look ahead. O(1).
    pub fn is_looking_ahead_worth(&self) -> bool {
        self.coordinator.local().is_prefetch_worth()
    }

    /// Looks at the body of an EXECUTE that will come, of which nothing is taken for granted; says so of no other request.
    /// Cost:   some 100 ns, and what those told before take to come one place further.
    pub fn look_ahead(&self, version: Version, body: &[u8]) {
        match self.partition_of(version, body) {
            Some((table, token, purpose)) => self.coordinator.local().prefetch(table, token, purpose),
            None => self.look_on(),
        }
    }

    /// Brings those told before one place further.
    pub fn look_on(&self) {
        self.coordinator.local().prefetch_on();
    }

    fn partition_of(&self, version: Version, body: &[u8]) -> Option<(TableId, Token, Purpose)> {
        let (id, values) = Execute::glance(version, body)?;
        let statement = self.find(id).ok()?;
        let analysed = statement.known();
        let (table, purpose) = match &analysed.plan {
            Plan::Select(plan) => (plan.table(), Purpose::Read),
            Plan::Modify(plan) => (plan.table(), Purpose::Write),
            _ => return None,
        };
        let mut parts = [&[][..]; KEY_COLUMNS_MAX];
        let count = analysed.key_markers.len();
        for (part, marker) in parts.iter_mut().zip(&analysed.key_markers) {
            let (_, RawValue::Bytes(value)) = values.iter().nth(usize::from(*marker))? else { return None };
            *part = value;
        }
        let token = match parts.get(..count)? {
            [] => return None,
            [only] => Token::of_key(only),
            parts => {
                let mut key = Vec::new();
                table.push_key(parts, &mut key);
                Token::of_key(&key)
            }
        };
        Some((table.id, token, purpose))
    }
}
