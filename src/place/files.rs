//! What git ignores and an environment needs all the same: `.env` files and keys, copied; `node_modules`, cloned.
//!
//! Only files that git ignores are taken, only those that patterns name, and never over something that is there.
//! Links are taken as links and followed nowhere, in neither tree; repositories inside are not entered. What was meant
//! and not taken is said with its reason.

mod beneath;
mod clone;
mod copy;
mod manifest;
mod patterns;

pub use manifest::{Entry, RelPath, unchanged};

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What to take along, and from where to where.
pub struct Options<'a> {
    /// The root of the user's own checkout.
    pub from: &'a Path,
    /// The root of the new worktree.
    pub to: &'a Path,
    /// Whether git ignores a path (relative to `from`; true for a directory).
    pub ignored: &'a dyn Fn(&Path, bool) -> bool,
    /// gitignore patterns of files to copy.
    pub copy: &'a [String],
    /// The text of `.worktreeinclude`: more such patterns.
    pub include_file: Option<String>,
    /// Directories to clone, relative to the root.
    pub clone: &'a [String],
    /// Copy a directory that cannot be cloned.
    pub clone_fallback_copy: bool,
    /// Up to this many bytes for each.
    pub clone_limit: u64,
    /// Take files that look like secrets of production too.
    pub copy_secrets: bool,
}

/// What was taken along.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Files and links, by path.
    pub copied: Vec<Entry>,
    /// Whole directories.
    pub cloned: Vec<Cloned>,
    /// What was meant and is not there.
    pub left_out: Vec<LeftOut>,
}

/// A directory that was cloned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cloned {
    /// Where.
    pub path: RelPath,
    /// How many files.
    pub files: u64,
    /// Their bytes, shared with the original unless `copied`.
    pub bytes: u64,
    /// A plain copy, as this file system cannot clone.
    pub copied: bool,
}

/// Something that was meant and not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// What.
    pub path: RelPath,
    /// Why.
    pub reason: Reason,
}

/// Why something was not taken. [`fmt::Display`] gives the words for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// There is something of that name.
    Exists,
    /// It looks like a secret of production, and nobody said that it may be spread.
    Secret,
    /// A pipe, socket or device.
    Special(String),
    /// A directory above it is a link in the new worktree.
    LinkInTheWay(RelPath),
    /// A directory above it is a file in the new worktree.
    FileInTheWay(RelPath),
    /// A repository or worktree of its own.
    Repository,
    /// A Python environment, which contains its own path.
    VirtualEnvironment,
    /// An ignored directory that a pattern matches by a wildcard only.
    NotNamed,
    /// To clone: git does not ignore it.
    NotIgnored,
    /// To clone: not a directory.
    NoDirectory {
        /// It is a link.
        link: bool,
    },
    /// To clone: not a path inside the checkout.
    Outside,
    /// To clone: no copy-on-write here.
    CannotClone,
    /// To clone: no copy-on-write here, and too large to copy.
    TooLarge {
        /// Its size.
        bytes: u64,
        /// What is allowed.
        limit: u64,
    },
    /// It cannot be read.
    Unreadable(String),
    /// More than 100 directories deep.
    TooDeep,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::model::units::format_size;
        match self {
            Reason::Exists => write!(f, "there already"),
            Reason::Secret => write!(f, "looks like a secret of production"),
            Reason::Special(kind) => write!(f, "a {kind}"),
            Reason::LinkInTheWay(path) => write!(f, "'{}' is a link", crate::model::text::shown_path(path)),
            Reason::FileInTheWay(path) => write!(f, "'{}' is a file", crate::model::text::shown_path(path)),
            Reason::Repository => write!(f, "a repository or worktree of its own"),
            Reason::VirtualEnvironment => write!(f, "a Python environment, which cannot be moved"),
            Reason::NotNamed => write!(f, "an ignored directory; a pattern must name it, or end with '/'"),
            Reason::NotIgnored => write!(f, "git does not ignore it"),
            Reason::NoDirectory { link: true } => write!(f, "a link, which is not cloned"),
            Reason::NoDirectory { link: false } => write!(f, "not a directory"),
            Reason::Outside => write!(f, "not a path inside the repository"),
            Reason::CannotClone => write!(f, "this file system cannot copy on write"),
            Reason::TooLarge { bytes, limit } => {
                let (size, limit) = (format_size(*bytes), format_size(*limit));
                write!(f, "this file system cannot copy on write, and {size} is more than the {limit} to copy")
            }
            Reason::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Reason::TooDeep => write!(f, "nested too deeply"),
        }
    }
}

/// Why nothing could be taken along.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A pattern that is none.
    #[error("'{pattern}' in {origin} is not a pattern: {why}")]
    Pattern {
        /// As written.
        pattern: String,
        /// `copy` or the file.
        origin: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The new worktree could not be written, or the checkout not be listed.
    #[error("cannot take '{}' along", crate::model::text::shown_path(path))]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    fn at(root: &Path, path: &Path) -> impl Fn(io::Error) -> Error {
        let path = if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) };
        move |source| Error::Io { path: path.clone(), source }
    }
}

/// Takes ignored files along. What cannot be read or must not be taken is in [`Taken::left_out`]; an error is a
/// pattern that is none (nothing was done), or a worktree that cannot be written (files taken before it stay, each
/// complete).
pub fn take_along(options: &Options<'_>) -> Result<Taken, Error> {
    let patterns = patterns::Patterns::new(options.copy, options.include_file.as_deref())?;
    let mut taken = Taken::default();
    if patterns.is_empty() && options.clone.is_empty() {
        return Ok(taken);
    }
    let here = Path::new("");
    let from = beneath::root(options.from).map_err(Error::at(options.from, here))?;
    let to = beneath::root(options.to).map_err(Error::at(options.to, here))?;
    let to_identity = beneath::stat_open(&to).map_err(Error::at(options.to, here))?.identity;
    // First: a file copied into one of these would be something of that name.
    for directory in options.clone {
        clone::clone(options, &from, &to, directory, &mut taken)?;
    }
    if !patterns.is_empty() {
        let mut walk = copy::Walk { options, patterns, from: &from, to: &to, to_identity, taken: &mut taken };
        walk.directory(&from, here, None)?;
    }
    Ok(taken)
}

/// Whether a file's name says that it holds the secrets of production: `.env.production`, `.env.prod-eu`,
/// `shop.production.env`, `production.key`. Examples and templates hold none.
pub fn looks_like_production_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    let parts: Vec<&str> = name.split(['.', '-', '_']).collect();
    if matches!(parts.last(), Some(&("example" | "sample" | "template" | "tmpl" | "dist" | "defaults"))) {
        return false;
    }
    let production = parts.iter().any(|p| matches!(*p, "production" | "prod"));
    let environment = name.starts_with(".env") || name.ends_with(".env");
    name.starts_with(".env.prod")
        || (environment && production)
        || matches!(name.as_str(), "production.key" | "prod.key")
}

#[cfg(test)]
mod tests;
