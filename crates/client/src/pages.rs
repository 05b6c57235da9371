//! Reading a long result page by page.

use crate::connection::Connection;
use crate::error::Error;
use crate::outcome::RowSet;
use crate::statement::Statement;
use protocol::request::Parameters;

/// What is read.
#[derive(Clone, Copy)]
enum Source<'s> {
    Text(&'s str),
    Statement(&'s Statement),
}

/// The pages of one result, on one connection.
pub struct Pages<'s> {
    connection: Connection,
    source: Source<'s>,
    parameters: Parameters<'s>,
    state: Option<Vec<u8>>,
    finished: bool,
}

impl<'s> Pages<'s> {
    /// The pages of a statement's text, `page_size` rows each.
    pub fn query(
        connection: &Connection,
        text: &'s str,
        parameters: Parameters<'s>,
        page_size: u32,
    ) -> Pages<'s> {
        Pages::new(connection, Source::Text(text), parameters, page_size)
    }

    /// The pages of a prepared statement.
    pub fn execute(
        connection: &Connection,
        statement: &'s Statement,
        parameters: Parameters<'s>,
        page_size: u32,
    ) -> Pages<'s> {
        Pages::new(connection, Source::Statement(statement), parameters, page_size)
    }

    fn new(
        connection: &Connection,
        source: Source<'s>,
        parameters: Parameters<'s>,
        page_size: u32,
    ) -> Pages<'s> {
        Pages {
            connection: connection.clone(),
            source,
            state: parameters.paging_state.map(<[u8]>::to_vec),
            parameters: Parameters { page_size: Some(page_size.max(1)), ..parameters },
            finished: false,
        }
    }

    /// Goes on over another connection: a paging state belongs to no connection.
    pub fn move_to(&mut self, connection: &Connection) {
        self.connection = connection.clone();
    }

    /// The next page (it may be empty), or `None` after the last. After an error the same page is asked for again.
    pub async fn next_page(&mut self) -> Result<Option<RowSet>, Error> {
        if self.finished {
            return Ok(None);
        }
        let parameters = Parameters { paging_state: self.state.as_deref(), ..self.parameters };
        let outcome = match self.source {
            Source::Text(text) => self.connection.query(text, parameters).await?,
            Source::Statement(statement) => self.connection.execute(statement, parameters).await?,
        };
        let rows = outcome.rows();
        self.state.clone_from(&rows.paging_state);
        self.finished = self.state.is_none();
        Ok(Some(rows))
    }

    /// All rows of all pages.
    pub async fn all(mut self) -> Result<Vec<Vec<Option<Vec<u8>>>>, Error> {
        let mut rows = Vec::new();
        while let Some(page) = self.next_page().await? {
            rows.extend(page.rows);
        }
        Ok(rows)
    }
}
