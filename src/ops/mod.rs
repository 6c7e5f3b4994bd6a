//! What commands do, without a terminal: options in, typed outcomes out, progress as events to a callback.

pub mod adopt;
pub mod answer;
pub mod assistant;
pub mod base;
mod cache;
pub mod clean;
pub mod commands;
pub mod create;
pub mod diff;
pub mod doctor;
mod endings;
pub mod executable;
pub mod expire;
pub mod flags;
pub mod history;
pub mod hold;
pub mod hooks;
pub mod identity;
pub mod inbox;
pub mod init;
pub mod inventory;
pub mod land;
pub mod landed;
pub mod merged;
pub mod moved;
pub mod moved_base;
pub mod naming;
pub mod overlap;
pub mod plan;
pub mod push;
pub mod rebuild;
pub mod record;
pub mod remove;
pub mod repair;
pub mod report;
pub mod restore;
pub mod retry;
pub mod safe;
mod scratch;
pub mod select;
pub mod skills;
pub mod start;
pub mod sync;
pub mod tested;
mod trash;
pub mod trial;
pub mod typed;
pub mod unfinished;
pub mod verify;
pub mod wanted;

use crate::config::{self, Settings};
use crate::git::{self, repo::Repo, state::State};
use crate::model::text::shown_path;
use crate::place;
use crate::runtime::{files, user};
use std::path::{Path, PathBuf};

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not possible as asked.
    #[error("{what}")]
    Refused {
        /// What is wrong, naming the subject.
        what: String,
        /// What to do next.
        hint: Option<String>,
    },
    /// Several things of one kind are wrong.
    #[error("{what}")]
    Many {
        /// What is wrong with all of them.
        what: String,
        /// Each.
        items: Vec<String>,
        /// What to do next.
        hint: Option<String>,
    },
    /// A signal asked for the end.
    #[error("interrupted")]
    Interrupted(i32),
    /// git.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// Settings.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// Files.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// The user's own state.
    #[error(transparent)]
    User(#[from] user::Error),
    /// The environment.
    #[error(transparent)]
    Place(#[from] place::Error),
}

impl Error {
    /// Refused, with a hint.
    pub fn refused(what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Refused { what: what.into(), hint: Some(hint.into()) }
    }

    /// What is wrong with all its causes, in one line.
    pub fn words(&self) -> String {
        let mut out = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(s) = source {
            let text = s.to_string();
            if !out.contains(&text) {
                out = format!("{out}: {text}");
            }
            source = s.source();
        }
        out
    }

    /// The same with the hint behind it, for a place that has room for one line.
    pub fn with_hint(&self) -> String {
        self.hint().map_or_else(|| self.words(), |hint| format!("{}; {hint}", self.words()))
    }

    /// The next command to type, where there is one.
    pub fn hint(&self) -> Option<String> {
        let full = || {
            let words = self.words();
            let is_full = ["the disk is full", "No space left on device"].iter().any(|w| words.contains(w));
            is_full.then(|| "free some space, then try again".to_owned())
        };
        self.own_hint().or_else(full)
    }

    fn own_hint(&self) -> Option<String> {
        match self {
            Error::Refused { hint, .. } | Error::Many { hint, .. } => hint.clone(),
            Error::Config(e) => e.hint(),
            Error::Git(git::Error::NoGit(e)) if e.kind() == std::io::ErrorKind::NotFound => {
                Some("install git 2.39 or later, and see that it is on PATH".into())
            }
            Error::Git(git::Error::TooOld { .. }) => Some("install git 2.39 or later".into()),
            Error::Git(git::Error::Locked { path, .. }) => {
                Some(format!("if no git process is running, remove '{}' and try again", shown_path(path)))
            }
            Error::User(e) => e.hint(),
            Error::Files(e) | Error::Git(git::Error::Files(e)) => lacking(e),
            _ => None,
        }
    }
}

/// A lock that the file system cannot make at all: it has no `flock`, or no hard links.
fn lacking(e: &files::Error) -> Option<String> {
    use nix::errno::Errno;
    let files::Error::Io { what: "lock", source, .. } = e else { return None };
    let never = [Errno::EPERM, Errno::ENOLCK, Errno::ENOSYS, Errno::EOPNOTSUPP].map(|e| e as i32);
    let lacks = source.raw_os_error().is_some_and(|n| never.contains(&n));
    lacks
        .then(|| "this file system has no file locks or no hard links; keep the repository on one that has both".into())
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

/// What every operation needs: the repository, its state, where the command was started.
#[derive(Debug, Clone)]
pub struct Context {
    /// The repository's state.
    pub state: State,
    /// The directory the command was started in.
    pub cwd: PathBuf,
}

impl Context {
    /// Finds the repository of `cwd`.
    pub fn open(cwd: &Path) -> Result<Context> {
        let repo = Repo::discover(cwd)?;
        Ok(Context { state: State::open(repo)?, cwd: cwd.to_owned() })
    }

    /// The repository.
    pub fn repo(&self) -> &Repo {
        &self.state.repo
    }

    /// The registered agent whose worktree the command was started in.
    pub fn here(&self) -> Result<Option<git::state::Registration>> {
        if self.repo().git_dir == self.repo().common_dir {
            return Ok(None);
        }
        let id = self.repo().git_dir.file_name().map(|n| n.to_string_lossy().into_owned());
        let all = self.state.registrations()?.0;
        let named = |r: &&git::state::Registration| r.worktree.is_some() && r.worktree == id;
        Ok(all.iter().filter(named).find(|r| identity::owner_of_named(self, r, &all).is_none()).cloned())
    }

    /// Settings and the project file, as the command's flags leave them.
    pub fn settings(&self, flags: &config::Flags) -> Result<Loaded> {
        plan::load(self, flags)
    }
}

/// Settings, and where they came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The values.
    pub settings: Settings,
    /// The project's file with its overlay; empty where there is none.
    pub project: config::Project,
    /// What the user should know.
    pub warnings: Vec<config::settings::Warning>,
    /// The checkout the file was read from, and ignored files are taken from.
    pub source: Option<PathBuf>,
}
