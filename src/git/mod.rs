//! The only door to git: the program, and gix for reading. gix types stop here.

pub mod attributes;
pub mod capture;
pub mod changes;
pub mod command;
pub mod config_file;
pub mod endings;
pub mod executable;
pub mod ignore;
pub mod landing;
pub mod locks;
pub mod merge;
pub mod merging;
pub mod objects;
pub mod rebase;
pub mod refs;
pub mod repo;
pub mod state;
pub mod status;
pub mod sterile;
pub mod store;
pub mod tree;
pub mod worktree;

use crate::runtime::files;
use std::path::PathBuf;

/// What went wrong with git or with what it keeps.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started.
    #[error("could not run git")]
    NoGit(#[source] std::io::Error),
    /// The program said no; its own words.
    #[error("{}", message(args, stderr, *code))]
    Failed {
        /// What it was asked, without our fixed options.
        args: String,
        /// Its exit code; `None` where a signal ended it.
        code: Option<i32>,
        /// Its standard error.
        stderr: String,
    },
    /// It was to run in a directory that is not there.
    #[error("the directory '{}' is gone", crate::model::text::shown_path(path))]
    Gone {
        /// Which.
        path: PathBuf,
    },
    /// It did not answer in time and was ended.
    #[error("'git {args}' did not finish within {seconds} seconds")]
    TimedOut {
        /// What it was asked.
        args: String,
        /// The limit.
        seconds: u64,
    },
    /// Older than what this is built on.
    #[error("git {found} is too old; 2.39 or later is needed (for 'merge-tree --stdin')")]
    TooOld {
        /// Its version.
        found: String,
    },
    /// Not a repository, refused as unsafe, an unknown extension: git's own words.
    #[error("{0}")]
    NotUsable(String),
    /// A reference has another value than expected: somebody else was faster.
    #[error("'{name}' moved meanwhile")]
    Moved {
        /// The full name.
        name: String,
    },
    /// Somebody else's lock stands in the way.
    #[error("'{}' is held by another git process ({age_s} s old)", crate::model::text::shown_path(path))]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Its age in seconds.
        age_s: u64,
    },
    /// An object could not be read or written.
    #[error("{0}")]
    Object(String),
    /// A file or directory could not be used.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// What is stored makes no sense.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// Which thing.
        what: String,
        /// How.
        why: String,
    },
}

/// So many lines of git's are told, each with at most [`LONG`] bytes: it can say the same of every file.
const LINES: usize = 4;
const LONG: usize = 400;

fn message(args: &str, stderr: &str, code: Option<i32>) -> String {
    let all = stderr
        .lines()
        .map(|l| l.trim_start_matches("fatal: ").trim_start_matches("error: ").trim())
        .filter(|l| !l.is_empty());
    let cut = |l: &str| crate::model::text::clip_bytes(l.to_owned(), LONG);
    let mut words: Vec<String> = all.clone().take(LINES).map(cut).collect();
    let more = all.count() - words.len();
    if more > 0 {
        words.push(format!("and {more} more of such lines"));
    }
    match (words.is_empty(), code) {
        (false, _) => words.join("; "),
        (true, Some(code)) => format!("'git {args}' failed with code {code}"),
        (true, None) => format!("'git {args}' was ended by a signal"),
    }
}

/// The result of asking git.
pub type Result<T> = std::result::Result<T, Error>;
