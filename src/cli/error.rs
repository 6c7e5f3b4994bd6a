//! Every error becomes words in git's manner and an exit code here.

use crate::ops;
use std::fmt::Write as _;

/// The codes, as the manual lists them.
pub mod code {
    /// Done.
    pub const DONE: i32 = 0;
    /// Done, and the answer is "no".
    pub const NO: i32 = 1;
    /// `wait` ran out of time.
    pub const TIME: i32 = 124;
    /// Could not be done.
    pub const FATAL: i32 = 128;
    /// Wrong usage.
    pub const USAGE: i32 = 129;
}

/// Why a command ends early.
#[derive(Debug)]
pub enum CliError {
    /// An operation did not happen.
    Ops(ops::Error),
    /// Wrong usage.
    Usage(String),
    /// Standard output is closed: nobody reads any more.
    Closed,
}

impl<E: Into<ops::Error>> From<E> for CliError {
    fn from(e: E) -> CliError {
        CliError::Ops(e.into())
    }
}

impl CliError {
    /// Standard output could not be written: silently where nobody reads any more, as an error otherwise.
    pub fn output(e: std::io::Error) -> CliError {
        match e.kind() {
            std::io::ErrorKind::BrokenPipe => CliError::Closed,
            _ => CliError::refused(format!("could not write to standard output: {e}"), "what was asked for was done"),
        }
    }

    /// A refusal with a hint.
    pub fn refused(what: impl Into<String>, hint: impl Into<String>) -> CliError {
        CliError::Ops(ops::Error::refused(what, hint))
    }

    /// The words for standard error, with a newline at the end, and the exit code.
    pub fn render(&self) -> (String, i32) {
        match self {
            CliError::Closed => (String::new(), 141),
            CliError::Ops(ops::Error::Interrupted(signal)) => (String::new(), 128 + signal),
            CliError::Usage(what) => (format!("error: {what}\n"), code::USAGE),
            CliError::Ops(e) => {
                let mut out = format!("error: {}\n", clean(&e.to_string()));
                let mut source = std::error::Error::source(e);
                let mut last = e.to_string();
                while let Some(s) = source {
                    let text = s.to_string();
                    if !last.contains(&text) {
                        let _ = writeln!(out, "error:   {}", clean(&text));
                    }
                    last = text;
                    source = s.source();
                }
                if let ops::Error::Many { items, .. } = e {
                    for i in items {
                        let _ = writeln!(out, "error:   {}", clean(i));
                    }
                }
                if let Some(hint) = e.hint() {
                    let _ = writeln!(out, "hint: {}", clean(&hint));
                }
                (out, code::FATAL)
            }
        }
    }
}

/// Words that may quote a hostile name.
fn clean(text: &str) -> String {
    crate::model::text::safe_text(text.as_bytes()).lines().collect::<Vec<_>>().join("\nerror:   ")
}
