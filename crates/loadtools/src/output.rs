//! Where the lines of a run go: to the terminal, to a file that was asked for, and to the graph.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};

/// Goes to the beginning of the terminal's line and empties it.
const CLEAR: &str = "\r\x1b[2K";

/// What a run says. One line at a time, at once: somebody watches.
pub struct Output {
    /// Lines and complaints are printed.
    terminal: bool,
    /// Somebody watches: a line that changes may stand below the others, and does.
    live: bool,
    has_status: Cell<bool>,
    /// Its name, and the file until something could not be written.
    file: RefCell<Option<(String, Box<dyn Write>)>>,
    kept: RefCell<Option<String>>,
    complaints: RefCell<Vec<String>>,
    /// Names of files that are not whole.
    broken: RefCell<Vec<String>>,
}

impl Output {
    /// To the terminal, and to a file if one is named. `kept`: also in memory, for the graph.
    pub fn new(file: Option<&str>, kept: bool) -> io::Result<Output> {
        let live = io::stdout().is_terminal();
        Ok(Output { terminal: true, live, ..Output::unseen(file, kept)? })
    }

    /// The same, but not to the terminal: complaints are kept.
    #[allow(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        reason = "a tool's own log, of a few lines in a second"
    )]
    pub fn unseen(file: Option<&str>, kept: bool) -> io::Result<Output> {
        let file = match file {
            None => None,
            Some(name) => Some((name.to_owned(), Box::new(std::fs::File::create(name)?) as Box<dyn Write>)),
        };
        Ok(Output { file: RefCell::new(file), ..Output::memory(kept) })
    }

    /// Nowhere, but for complaints.
    pub fn complaints_only() -> Output {
        Output { terminal: true, ..Output::memory(false) }
    }

    /// To memory alone.
    pub fn in_memory() -> Output {
        Output::memory(true)
    }

    fn memory(kept: bool) -> Output {
        Output {
            terminal: false,
            live: false,
            has_status: Cell::new(false),
            file: RefCell::default(),
            kept: RefCell::new(kept.then(String::new)),
            complaints: RefCell::default(),
            broken: RefCell::default(),
        }
    }

    /// Says a line.
    pub fn line(&self, text: &str) {
        if self.terminal {
            // A terminal that is gone ends nothing: the file may still be wanted.
            let mut terminal = io::stdout().lock();
            let clear = self.clear();
            let _gone =
                terminal.write_all(format!("{clear}{text}\n").as_bytes()).and_then(|()| terminal.flush());
        }
        self.write(text);
        if let Some(kept) = &mut *self.kept.borrow_mut() {
            kept.push_str(text);
            kept.push('\n');
        }
    }

    /// Writes a line to the file. After one that could not be written no other follows: a file with a hole misleads who reads it.
    fn write(&self, text: &str) {
        let mut file = self.file.borrow_mut();
        let Some((name, open)) = &mut *file else { return };
        if let Err(error) = open.write_all(format!("{text}\n").as_bytes()) {
            self.broke(name, &error);
            *file = None;
        }
    }

    /// Whether somebody watches a terminal.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Shows how things stand below the lines, until the next line or status; nothing where nobody watches.
    pub fn status(&self, text: &str) {
        if self.live {
            self.has_status.set(true);
            let mut terminal = io::stdout().lock();
            let _gone =
                terminal.write_all(format!("{CLEAR}{text}").as_bytes()).and_then(|()| terminal.flush());
        }
    }

    /// What makes the status go.
    fn clear(&self) -> &'static str {
        if self.has_status.replace(false) { CLEAR } else { "" }
    }

    /// Says what went wrong, where nobody reads the results from.
    pub fn complain(&self, text: &str) {
        if self.terminal {
            let clear = self.clear();
            if !clear.is_empty() {
                let mut terminal = io::stdout().lock();
                let _gone = terminal.write_all(clear.as_bytes()).and_then(|()| terminal.flush());
            }
            let _gone = writeln!(io::stderr().lock(), "{text}");
        } else {
            self.complaints.borrow_mut().push(text.to_owned());
        }
    }

    /// What has been said, if it was kept.
    pub fn kept(&self) -> Option<String> {
        self.kept.borrow().clone()
    }

    /// What went wrong, if it was not printed.
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.borrow().clone()
    }

    /// A file of the run could not be written: that is said once, and the run goes on.
    pub fn broke(&self, file: &str, error: &io::Error) {
        if self.broken.borrow().iter().any(|known| known == file) {
            return;
        }
        self.broken.borrow_mut().push(file.to_owned());
        self.complain(&format!("{file}: {error}; nothing more is written to it"));
    }

    /// Whether every file of the run is whole.
    pub fn is_whole(&self) -> bool {
        self.broken.borrow().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full: what is said is said elsewhere, and the file is named once.
    #[test]
    fn a_file_that_cannot_be_written_is_named_once() {
        let full = Output::new(Some("/dev/full"), true).expect("it can be opened");
        let output = Output { terminal: false, ..full };
        assert!(output.is_whole());
        (0..5).for_each(|nth| output.line(&format!("line {nth}")));
        output.broke("other.hdr", &io::Error::other("no room"));
        output.broke("other.hdr", &io::Error::other("still no room"));
        let complaints = output.complaints();
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].starts_with("/dev/full: ") && complaints[1].starts_with("other.hdr: no room"));
        assert!(!output.is_whole());
        assert_eq!(output.kept().unwrap_or_default().lines().count(), 5);
    }
}
