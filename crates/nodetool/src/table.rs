//! A table of texts: every cell, the last of a row too, is padded to its column's longest.

/// Rows of cells.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    between: &'static str,
}

impl Table {
    /// One blank between columns.
    pub fn new() -> Table {
        Table { rows: Vec::new(), between: " " }
    }

    /// Something else between columns.
    pub fn with_between(between: &'static str) -> Table {
        Table { rows: Vec::new(), between }
    }

    /// Adds a row.
    pub fn add<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Writes every row as a line.
    pub fn print(&self, out: &mut String) {
        self.print_with(&self.widths(), out);
    }

    /// Writes every row as a line; a cell longer than its width pushes the others.
    pub fn print_with(&self, widths: &[usize], out: &mut String) {
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                if column > 0 {
                    out.push_str(self.between);
                }
                out.push_str(cell);
                let width = widths.get(column).copied().unwrap_or(0);
                let padding = width.saturating_sub(cell.chars().count());
                out.extend(std::iter::repeat_n(' ', padding));
            }
            out.push('\n');
        }
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

/// The widths that fit several tables printed below each other.
pub fn common_widths(tables: &[Table]) -> Vec<usize> {
    let mut common: Vec<usize> = Vec::new();
    for table in tables {
        for (column, width) in table.widths().into_iter().enumerate() {
            match common.get_mut(column) {
                Some(widest) => *widest = width.max(*widest),
                None => common.push(width),
            }
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_padded_too() {
        let mut table = Table::new();
        table.add(["User", "Connections"]);
        table.add(["anonymous", "2"]);
        let mut text = String::new();
        table.print(&mut text);
        assert_eq!(text, "User      Connections\nanonymous 2          \n");
    }
}
