//! The user's own state, outside every repository: approvals of commands.
//!
//! Whoever can write here decides what runs, so the directory and its files are the user's alone, and anything else is
//! refused instead of repaired: a file that was open to others may have been written by them. A damaged file is an
//! error; taken for an empty one it would be overwritten with the next approval.

use crate::model::text::shown_path;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The file of approvals, its lock, and the one that takes its place.
const APPROVALS: &str = "approvals.json";
const LOCK: &str = "approvals.lock";
/// The key of the list of what was made.
const MADE: &str = "made";
const NEXT: &str = "approvals.json.new";

/// How many approvals of one repository are kept: branches carry different files, and going back asks no second time.
const KEPT: usize = 16;

/// The largest file that is read. Ours has a few kilobytes a repository.
const LARGEST: u64 = 16 * 1024 * 1024;

/// The version of the file that is written.
const VERSION: u64 = 1;

/// What can be wrong with the user's state.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither `XDG_STATE_HOME` nor `HOME` says where it is.
    #[error("{0}")]
    NoHome(&'static str),
    /// Something else than a directory or file of ours stands there.
    #[error("'{}' is {what}", crate::model::text::shown_path(.path))]
    Wrong {
        /// The directory or file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Others can read or write it.
    #[error("'{}' is open to others (mode {mode:04o})", crate::model::text::shown_path(.path))]
    Open {
        /// The directory or file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What it should have.
        wanted: u32,
    },
    /// It cannot be understood.
    #[error("'{}' is damaged: {reason}", crate::model::text::shown_path(.path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// A later version wrote it.
    #[error("'{}' was written by a later version of git agents", crate::model::text::shown_path(.path))]
    Later {
        /// The file.
        path: PathBuf,
    },
    /// The system says no.
    #[error("cannot {what} '{}': {source}", crate::model::text::shown_path(.path))]
    Io {
        /// What was tried.
        what: &'static str,
        /// The directory or file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl Error {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::NoHome(_) => Some("set HOME to your home directory, with its full path".to_owned()),
            Error::Open { path, wanted, .. } => {
                Some(format!("check what is in it, then chmod {wanted:o} '{}'", shown_path(path)))
            }
            Error::Damaged { path, .. } => {
                Some(format!("mend it or move it away; then 'git agents trust' approves anew: '{}'", shown_path(path)))
            }
            _ => None,
        }
    }
}

/// One approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Of all that was approved.
    pub digest: String,
    /// The text that was shown.
    pub items: String,
    /// When, RFC 3339.
    pub at: String,
}

/// The approvals as they were when they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    /// The newest last.
    repositories: BTreeMap<String, Vec<Entry>>,
}

impl Approvals {
    /// Reads them; none where there is no file.
    pub fn load(state: &UserState) -> Result<Approvals, Error> {
        match state.directory(false)? {
            Some(dir) => Ok(Approvals::of(&state.document(&dir)?, &state.file(APPROVALS))?),
            None => Ok(Approvals::default()),
        }
    }

    /// The last approval in this repository.
    pub fn find(&self, repo_identity: &str) -> Option<&Entry> {
        self.repositories.get(repo_identity)?.last()
    }

    /// All approvals in this repository, the newest last.
    pub fn all(&self, repo_identity: &str) -> &[Entry] {
        self.repositories.get(repo_identity).map_or(&[], Vec::as_slice)
    }

    /// Records an approval; on return it is durable. `items` is the text that was shown.
    pub fn approve(state: &UserState, repo_identity: &str, digest: &str, items: &str) -> Result<Approvals, Error> {
        let at = jiff::Timestamp::now().to_string();
        let entry = serde_json::json!({ "digest": digest, "items": items, "at": at });
        state.change(|repositories| {
            let repository = repositories.entry(repo_identity).or_insert_with(|| Value::Object(Map::new()));
            let approved = repository.as_object_mut()?.entry("approved").or_insert_with(|| Value::Array(Vec::new()));
            let approved = approved.as_array_mut()?;
            approved.retain(|one| one["digest"] != digest);
            approved.push(entry);
            let surplus = approved.len().saturating_sub(KEPT);
            approved.drain(..surplus);
            Some(())
        })
    }

    /// Forgets every approval of this repository.
    pub fn revoke(state: &UserState, repo_identity: &str) -> Result<Approvals, Error> {
        if state.directory(false)?.is_none() {
            return Ok(Approvals::default());
        }
        state.change(|repositories| {
            if let Some(repository) = repositories.get_mut(repo_identity) {
                repository.as_object_mut()?.shift_remove("approved");
            }
            repositories.retain(|_, r| r.as_object().is_none_or(|r| !r.is_empty()));
            Some(())
        })
    }

    fn of(document: &Map<String, Value>, path: &Path) -> Result<Approvals, Error> {
        let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
        let mut repositories = BTreeMap::new();
        let all = match document.get("repositories") {
            Some(Value::Object(all)) => all,
            None if document.is_empty() => return Ok(Approvals::default()),
            _ => return Err(damaged("'repositories' is not an object".to_owned())),
        };
        for (identity, repository) in all {
            if !repository.is_object() {
                return Err(damaged(format!("the repository '{}' is not an object", identity.escape_debug())));
            }
            let approved = repository.get("approved").cloned().unwrap_or(Value::Array(Vec::new()));
            let entries = serde_json::from_value(approved)
                .map_err(|e| damaged(format!("'approved' of the repository '{}': {e}", identity.escape_debug())))?;
            repositories.insert(identity.clone(), entries);
        }
        Ok(Approvals { repositories })
    }
}

/// What git would run or trust in a repository, as the user last took it to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// A digest of each, by name.
    pub items: BTreeMap<String, String>,
    /// The names that were found changed while agents worked, until the user has seen them.
    pub changed: Vec<String>,
}

impl Trusted {
    /// What is recorded of this repository; `None` where nothing is.
    pub fn load(state: &UserState, repo_identity: &str) -> Result<Option<Trusted>, Error> {
        let Some(dir) = state.directory(false)? else { return Ok(None) };
        let document = state.document(&dir)?;
        let found = document.get("repositories").and_then(|r| r.get(repo_identity)?.get("git").cloned());
        let damaged = |e: serde_json::Error| Error::Damaged {
            path: state.file(APPROVALS),
            reason: format!("'git' of the repository '{}': {e}", repo_identity.escape_debug()),
        };
        found.map(|v| serde_json::from_value(v).map_err(damaged)).transpose()
    }

    /// Records it; on return it is durable.
    pub fn keep(&self, state: &UserState, repo_identity: &str) -> Result<(), Error> {
        let value = serde_json::json!(self);
        let kept = state.change(|repositories| {
            let repository = repositories.entry(repo_identity).or_insert_with(|| Value::Object(Map::new()));
            repository.as_object_mut()?.insert("git".to_owned(), value);
            Some(())
        });
        kept.map(drop)
    }
}

/// Files and directories that were made outside of any repository, to be taken away when they are no longer needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Made(Vec<String>);

impl Made {
    /// Reads the list; empty where there is none.
    pub fn load(state: &UserState) -> Result<Made, Error> {
        let Some(dir) = state.directory(false)? else { return Ok(Made::default()) };
        let listed = state.document(&dir)?.get(MADE).and_then(|l| serde_json::from_value(l.clone()).ok());
        Ok(Made(listed.unwrap_or_default()))
    }

    /// Whether it was made.
    pub fn contains(&self, path: &Path) -> bool {
        path.to_str().is_some_and(|path| self.0.iter().any(|p| p == path))
    }

    /// Notes what is about to be made. A path that is not UTF-8 is not noted, so it stays.
    pub fn add(state: &UserState, paths: &[PathBuf]) -> Result<(), Error> {
        let old = Made::load(state)?;
        let new: Vec<&str> = paths.iter().filter(|p| !old.contains(p)).filter_map(|p| p.to_str()).collect();
        if new.is_empty() {
            return Ok(());
        }
        Made::change(state, |list| list.extend(new.into_iter().map(Value::from)))
    }

    /// Forgets what is gone.
    pub fn forget(state: &UserState, paths: &[PathBuf]) -> Result<(), Error> {
        if state.directory(false)?.is_none() {
            return Ok(());
        }
        Made::change(state, |list| list.retain(|p| !paths.iter().any(|gone| gone.to_str() == p.as_str())))
    }

    fn change(state: &UserState, edit: impl FnOnce(&mut Vec<Value>)) -> Result<(), Error> {
        let changed = state.change_document(|document| {
            document.entry("repositories").or_insert_with(|| Value::Object(Map::new()));
            edit(document.entry(MADE).or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?);
            Some(())
        });
        changed.map(drop)
    }
}

/// The directory of the user's state.
#[derive(Debug, Clone)]
pub struct UserState {
    path: PathBuf,
}

impl UserState {
    /// The one the environment names: `$XDG_STATE_HOME/git-agents`, or `~/.local/state/git-agents`.
    pub fn open() -> Result<UserState, Error> {
        UserState::from_env(|name| std::env::var_os(name).map(PathBuf::from))
    }

    fn from_env(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<UserState, Error> {
        // The XDG specification has a relative path ignored.
        if let Some(state) = variable("XDG_STATE_HOME").filter(|path| path.is_absolute()) {
            return Ok(UserState { path: state.join("git-agents") });
        }
        match variable("HOME").filter(|home| !home.as_os_str().is_empty()) {
            Some(home) if home.is_absolute() => Ok(UserState { path: home.join(".local/state/git-agents") }),
            Some(_) => Err(Error::NoHome("HOME is not a full path, so there is no place for approvals")),
            None => Err(Error::NoHome("HOME is not set, so there is no place for approvals")),
        }
    }

    /// The one at this full path. Nothing is touched until something is read or written.
    pub fn at(path: impl Into<PathBuf>) -> UserState {
        UserState { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The directory, opened and checked; made where `make` says so. Files are opened through it, so that exchanging
    /// the directory after the check gains nothing.
    fn directory(&self, make: bool) -> Result<Option<File>, Error> {
        let io = |what| move |source| Error::Io { what, path: self.path.clone(), source };
        if !self.path.is_absolute() {
            return Err(self.wrong_directory("not a full path"));
        }
        if make {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path).or_else(|e| {
                // A link or a file there is named by the check below.
                if e.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(io("make")(e)) }
            })?;
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let dir = match std::fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(&self.path) {
            Ok(dir) => dir,
            Err(e) if e.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
            Err(e) => {
                return Err(match std::fs::symlink_metadata(&self.path) {
                    Ok(m) if m.is_symlink() => self.wrong_directory("a symbolic link, not a directory"),
                    Ok(m) if !m.is_dir() => self.wrong_directory("not a directory"),
                    _ => io("open")(e),
                });
            }
        };
        let meta = dir.metadata().map_err(io("read"))?;
        check_owner(&meta, &self.path, 0o700)?;
        Ok(Some(dir))
    }

    fn wrong_directory(&self, what: &'static str) -> Error {
        Error::Wrong { path: self.path.clone(), what }
    }

    /// A file of the directory, opened and checked; `None` where there is none.
    fn entry(&self, dir: &File, name: &str, flags: OFlag) -> Result<Option<File>, Error> {
        let path = self.file(name);
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = match openat(dir.as_fd(), name, flags, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(fd) => File::from(fd),
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP) => return Err(Error::Wrong { path, what: "a symbolic link, not a file" }),
            Err(e) => return Err(Error::Io { what: "open", path, source: e.into() }),
        };
        let meta = file.metadata().map_err(|source| Error::Io { what: "read", path: path.clone(), source })?;
        if !meta.is_file() {
            return Err(Error::Wrong { path, what: "not a regular file" });
        }
        check_owner(&meta, &path, 0o600)?;
        Ok(Some(file))
    }

    /// The file's content; empty where there is no file.
    fn document(&self, dir: &File) -> Result<Map<String, Value>, Error> {
        let path = self.file(APPROVALS);
        let damaged = |reason: String| Error::Damaged { path: path.clone(), reason };
        let Some(file) = self.entry(dir, APPROVALS, OFlag::O_RDONLY)? else { return Ok(Map::new()) };
        let mut bytes = Vec::new();
        let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
        read.map_err(|source| Error::Io { what: "read", path: path.clone(), source })?;
        if bytes.len() as u64 > LARGEST {
            return Err(damaged("it is larger than 16 MiB".to_owned()));
        }
        let document: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        match document.get("version").and_then(Value::as_u64) {
            Some(VERSION) => Ok(document),
            Some(later) if later > VERSION => Err(Error::Later { path }),
            _ => Err(damaged("it has no version".to_owned())),
        }
    }

    /// Changes the repositories' entries.
    fn change(&self, edit: impl FnOnce(&mut Map<String, Value>) -> Option<()>) -> Result<Approvals, Error> {
        self.change_document(|document| {
            let repositories = document.entry("repositories").or_insert_with(|| Value::Object(Map::new()));
            repositories.as_object_mut().and_then(edit)
        })
    }

    /// Changes the file under the lock: read, changed, written beside, renamed, all synced. What is not ours to know stays
    /// as it is. `None` from `edit` is a file of another shape.
    fn change_document(&self, edit: impl FnOnce(&mut Map<String, Value>) -> Option<()>) -> Result<Approvals, Error> {
        let path = self.file(APPROVALS);
        let io = |what, name: &str| {
            let path = self.file(name);
            move |source| Error::Io { what, path, source }
        };
        let gone = || Error::Io { what: "open", path: self.path.clone(), source: io::ErrorKind::NotFound.into() };
        let dir = self.directory(true)?.ok_or_else(gone)?;
        let lock = self.entry(&dir, LOCK, OFlag::O_RDWR | OFlag::O_CREAT)?.ok_or_else(gone)?;
        lock.lock().map_err(io("lock", LOCK))?;

        let mut document = self.document(&dir)?;
        // Before anything is written: a file that cannot be read in full is not written over.
        Approvals::of(&document, &path)?;
        if document.is_empty() {
            document.insert("version".to_owned(), VERSION.into());
        }
        let shape = || Error::Damaged { path: path.clone(), reason: "a list in it has another shape".to_owned() };
        edit(&mut document).ok_or_else(shape)?;
        let approvals = Approvals::of(&document, &path)?;
        let mut bytes = serde_json::to_vec_pretty(&document).map_err(|e| io("write", NEXT)(e.into()))?;
        bytes.push(b'\n');

        // The name is fixed: under the lock nobody else uses it, and what a crash left is replaced.
        match unlinkat(dir.as_fd(), NEXT, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(e) => return Err(io("replace", NEXT)(e.into())),
        }
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let next = openat(dir.as_fd(), NEXT, flags, mode).map_err(|e| io("write", NEXT)(e.into()))?;
        let mut next = File::from(next);
        // A strange umask takes bits away that the next reader needs.
        fchmod(next.as_fd(), mode).map_err(|e| io("write", NEXT)(e.into()))?;
        next.write_all(&bytes).and_then(|()| next.sync_all()).map_err(io("write", NEXT))?;
        renameat(dir.as_fd(), NEXT, dir.as_fd(), APPROVALS).map_err(|e| io("replace", APPROVALS)(e.into()))?;
        dir.sync_all().map_err(io("sync", ""))?;
        Ok(approvals)
    }
}

/// Ours, and nobody else's to read or write.
fn check_owner(meta: &std::fs::Metadata, path: &Path, wanted: u32) -> Result<(), Error> {
    if meta.uid() != geteuid().as_raw() {
        return Err(Error::Wrong { path: path.to_owned(), what: "somebody else's" });
    }
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(Error::Open { path: path.to_owned(), mode, wanted });
    }
    Ok(())
}

#[cfg(test)]
#[path = "user_tests.rs"]
mod tests;
