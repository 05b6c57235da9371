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
    file: RefCell<Option<Box<dyn Write>>>,
    kept: RefCell<Option<String>>,
    complaints: RefCell<Vec<String>>,
    broken: RefCell<Option<io::Error>>,
}

impl Output {
    /// To the terminal, and to a file if one is named. `kept`: also in memory, for the graph.
    #[allow(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        reason = "a tool's own log, of a few lines in a second"
    )]
    pub fn new(file: Option<&str>, kept: bool) -> io::Result<Output> {
        let file = match file {
            None => None,
            Some(name) => Some(Box::new(std::fs::File::create(name)?) as Box<dyn Write>),
        };
        let live = io::stdout().is_terminal();
        Ok(Output { terminal: true, live, file: RefCell::new(file), ..Output::memory(kept) })
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
        if let Some(file) = &mut *self.file.borrow_mut()
            && let Err(error) = file.write_all(format!("{text}\n").as_bytes())
        {
            self.broke(error);
        }
        if let Some(kept) = &mut *self.kept.borrow_mut() {
            kept.push_str(text);
            kept.push('\n');
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

    /// A file of the run could not be written: the run goes on and is told at its end.
    pub fn broke(&self, error: io::Error) {
        self.broken.borrow_mut().get_or_insert(error);
    }

    /// The first error of a file, once.
    pub fn broken(&self) -> Option<io::Error> {
        self.broken.borrow_mut().take()
    }
}
