//! How a command ended, and the memory of that.

use crate::Error;
use crate::bytes::{Input, put_id, put_struct, put_text, put_version};
use crate::limits::{REFUSAL_BYTES_MAX, REMEMBERED_MAX};
use std::collections::VecDeque;
use topology::Version;

/// How a command ended. The proposer learns it as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was applied, as this version: wait for it here before answering a client.
    Done(Version),
    /// Its scope has changed since it was decided; nothing was applied. Decide again on the newer state, under a new command id.
    Moved,
    /// It may not be; nothing was applied. Show the text to whoever asked.
    Refused(String),
}

impl Outcome {
    /// A refusal; a text that is too long is cut.
    pub(crate) fn refused(mut text: String) -> Outcome {
        text.truncate(text.floor_char_boundary(REFUSAL_BYTES_MAX));
        Outcome::Refused(text)
    }

    /// The outcome as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// Reads what [`Outcome::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Outcome, Error> {
        let mut input = Input::new(bytes);
        let outcome = Outcome::read(&mut input)?;
        input.end()?;
        Ok(outcome)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_struct(out, |out| match self {
            Outcome::Done(version) => {
                out.push(0);
                put_version(out, *version);
            }
            Outcome::Moved => out.push(1),
            Outcome::Refused(text) => {
                out.push(2);
                put_text(out, text);
            }
        });
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Result<Outcome, Error> {
        let mut input = input.structure("an outcome")?;
        let error = input.malformed("a known outcome");
        match input.u8("kind of outcome")? {
            0 => Ok(Outcome::Done(input.version()?)),
            1 => Ok(Outcome::Moved),
            2 => Ok(Outcome::Refused(input.text("why it was refused")?)),
            _ => Err(error),
        }
    }
}

/// The last outcomes by command id, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    outcomes: VecDeque<(u128, Outcome)>,
}

impl Remembered {
    /// O(remembered), as rare as commands are.
    pub(crate) fn get(&self, id: u128) -> Option<&Outcome> {
        self.outcomes.iter().rev().find(|(known, _)| *known == id).map(|(_, outcome)| outcome)
    }

    pub(crate) fn push(&mut self, id: u128, outcome: Outcome) {
        self.outcomes.push_back((id, outcome));
        while self.outcomes.len() > REMEMBERED_MAX {
            self.outcomes.pop_front();
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        crate::bytes::put_list(out, self.outcomes.iter(), |out, (id, outcome)| {
            put_id(out, *id);
            outcome.put(out);
        });
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Result<Remembered, Error> {
        let read = |input: &mut Input<'_>| Ok((input.u128("a command id")?, Outcome::read(input)?));
        Ok(Remembered { outcomes: input.list("outcomes", read)?.into() })
    }
}
