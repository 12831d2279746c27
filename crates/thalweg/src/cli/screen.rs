//! Words on standard error, and at their end, on a terminal, a line that is redrawn.

use std::{
    io::{self, IsTerminal, Write},
    os::{fd::AsFd, unix::fs::FileTypeExt},
    sync::Arc,
};

use parking_lot::Mutex;

/// Goes back to the start of the line, and erases it.
const ERASE: &str = "\r\x1b[2K";

/// Standard error, with a line at its end that shows how things are.
pub struct Screen {
    is_terminal: bool,
    rows: Rows,
    has_colour: bool,
    /// The line that is shown; empty if none is.
    line: Mutex<String>,
}

/// Where rows on standard output go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// To the same terminal.
    Here,
    /// To another program, whose words may come to the same terminal a little later.
    Pipe,
    /// To where they are in nobody's way.
    Elsewhere,
}

impl Rows {
    fn find() -> Self {
        let is_pipe = || std::fs::metadata("/dev/stdout").is_ok_and(|stdout| stdout.file_type().is_fifo());
        match io::stdout().is_terminal() {
            true => Self::Here,
            false if is_pipe() => Self::Pipe,
            false => Self::Elsewhere,
        }
    }
}

impl Screen {
    /// The screen of this process.
    pub fn new() -> Self {
        let is_terminal = io::stderr().is_terminal() && !is_dumb();
        Self {
            is_terminal,
            rows: Rows::find(),
            has_colour: is_terminal && wants_colour(),
            line: Mutex::new(String::new()),
        }
    }

    /// Whether a line can be redrawn.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether standard output goes to the same terminal.
    pub fn shares_terminal(&self) -> bool {
        self.is_terminal && self.rows == Rows::Here
    }

    /// Whether text on it may have colours.
    pub fn has_colour(&self) -> bool {
        self.has_colour
    }

    /// How many columns there are.
    pub fn width(&self) -> usize {
        width(io::stderr())
    }

    /// Prints lines, above the one that is redrawn.
    pub fn say(&self, text: &str) {
        let line = self.line.lock();
        // Also without such a line: a terminal has echoed ^C where these words are to stand.
        let erase = if self.is_terminal { ERASE } else { "" };
        print(&format!("{erase}{text}\n{line}"));
    }

    /// Redraws the line; an empty one is no line.
    pub fn show(&self, text: String) {
        let mut line = self.line.lock();
        if self.is_terminal {
            print(&format!("{ERASE}{text}"));
            *line = text;
        }
    }

    /// Does something that may write on standard output, with the line out of its way.
    pub fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        match self.rows {
            Rows::Here => {
                let line = self.line.lock();
                if line.is_empty() {
                    return act();
                }
                print(ERASE);
                let done = act();
                print(&line);
                done
            }
            // The line comes back when it is redrawn: then the other program has had its turn, or keeps us waiting.
            Rows::Pipe => {
                self.show(String::new());
                act()
            }
            Rows::Elsewhere => act(),
        }
    }

    /// Erases the line without waiting for anybody, for who ends the process.
    pub fn leave(&self) {
        if self.is_terminal && self.line.try_lock().is_some() {
            print(ERASE);
        }
    }

    /// Text that is less important than rows.
    pub fn dim(&self, text: &str) -> String {
        match self.has_colour {
            true => format!("\x1b[2m{text}\x1b[0m"),
            false => text.to_string(),
        }
    }

    /// A message of an error, with its first and last words in colours where there are any.
    pub fn error(&self, message: &str) -> String {
        match self.has_colour {
            true => format!("\x1b[1;31merror:\x1b[0m {}", message.replace("\nhint:", "\n\x1b[1;36mhint:\x1b[0m")),
            false => format!("error: {message}"),
        }
    }
}

/// How many columns a terminal has.
pub fn width(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal);
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    // Some terminals do not know.
    if columns == 0 { 80 } else { columns.max(20) }
}

/// Whether whoever looks at a terminal wants colours (no-color.org).
pub fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && !is_dumb()
}

/// Whether the terminal can only write forward.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb")
}

/// Prints on standard error. If nobody can read that, there is nobody to tell.
fn print(text: &str) {
    let mut errors = io::stderr().lock();
    let _ = errors.write_all(text.as_bytes()).and_then(|()| errors.flush());
}

/// Puts lines of the log above the line that is redrawn.
pub struct LogWriter(pub Arc<Screen>);

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.say(String::from_utf8_lossy(bytes).trim_end_matches('\n'));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
