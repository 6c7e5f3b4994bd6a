//! Locks that a killed git left. git records no owner and heals none of them; one is removed here only with proof.
//!
//! Before a git of ours changes something, a mark says which locks it may take. It goes when that git has come to an end
//! by itself. A lock is ours when a mark names it whose git was killed or failed, it was made after the mark, stands unchanged for
//! a second and no process has it open, or the file that git writes beside it. Any other one is somebody else's: named, with
//! its age, and left alone.

use super::Error;
use super::repo::Repo;
use crate::runtime::files;
use crate::runtime::process::{self, Identity};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MARK: &str = "git-";

/// How long a lock must stand still: a git that lives is done with one in milliseconds.
const STILL: Duration = Duration::from_secs(1);

/// That a git of ours is at work, and what it may lock.
#[derive(Debug)]
pub struct Mark {
    path: PathBuf,
    locks: Vec<PathBuf>,
}

impl Mark {
    /// Set before git is started. Where it cannot be written nothing will be healed.
    pub fn set(repo: &Repo, locks: Vec<PathBuf>) -> Mark {
        let me = process::me();
        let name = format!("{MARK}{}-{}-{}", me.pid, me.start, crate::runtime::clock::random_hex(4));
        let path = repo.agents_dir().join(name);
        let text: Vec<u8> = locks.iter().flat_map(|l| l.as_os_str().as_bytes().iter().copied().chain([0])).collect();
        if repo.agents_dir().is_dir() {
            let _ = files::write_atomic(&path, &text);
        }
        Mark { path, locks }
    }

    /// What changing the reference `name` may lock.
    pub fn of_ref(repo: &Repo, name: &str) -> Mark {
        let locks = [format!("{name}.lock"), "packed-refs.lock".to_owned(), "HEAD.lock".to_owned()];
        Mark::set(repo, locks.iter().map(|l| repo.common_dir.join(l)).collect())
    }

    /// What a checkout or a rebase in the worktree with the admin directory `admin` may lock.
    pub fn of_worktree(repo: &Repo, admin: &Path, branch: &str) -> Mark {
        let of_tree = [
            "index",
            "HEAD",
            "ORIG_HEAD",
            "AUTO_MERGE",
            "REBASE_HEAD",
            "CHERRY_PICK_HEAD",
            "REVERT_HEAD",
            "MERGE_HEAD",
            "MERGE_MSG",
            "SQUASH_MSG",
        ];
        let mut locks: Vec<PathBuf> = of_tree.iter().map(|l| admin.join(format!("{l}.lock"))).collect();
        locks.extend([format!("{branch}.lock"), "packed-refs.lock".to_owned()].map(|l| repo.common_dir.join(l)));
        Mark::set(repo, locks)
    }

    /// Taken away with the end of that git: its locks are healed where it, or one that it had started, was killed. One that
    /// it found taken is not its own.
    pub fn end<T>(self, result: &Result<T, Error>) {
        let killed = matches!(result, Err(Error::Failed { .. } | Error::TimedOut { .. }));
        if killed && !self.heal() {
            // It stays, and is looked at again by whoever takes the repository's lock once we are gone.
            return;
        }
        let _ = std::fs::remove_file(&self.path);
    }

    /// Whether none of its locks stands any more.
    fn heal(&self) -> bool {
        let Ok(since) = self.path.metadata().map(|m| made(&m)) else { return true };
        let standing = |l: &&PathBuf| l.symlink_metadata().is_ok_and(|m| m.is_file() && made(&m) >= since);
        let found: Vec<&PathBuf> = self.locks.iter().filter(standing).collect();
        if found.is_empty() {
            return true;
        }
        let look = || found.iter().map(|l| l.symlink_metadata().ok().map(|m| (m.ino(), made(&m)))).collect::<Vec<_>>();
        let first = look();
        std::thread::sleep(STILL);
        let second = look();
        let mut all = true;
        for ((lock, a), b) in found.iter().zip(first).zip(second) {
            let written = lock.with_extension("new");
            let beside = lock.file_name() == Some(OsStr::new("packed-refs.lock"));
            if b.is_none() {
                continue;
            }
            if a != b || process::is_open_anywhere(lock) || (beside && process::is_open_anywhere(&written)) {
                all = false;
                continue;
            }
            if beside {
                let _ = std::fs::remove_file(&written);
            }
            all &= std::fs::remove_file(lock).is_ok();
        }
        all
    }
}

fn made(m: &std::fs::Metadata) -> (i64, i64) {
    (m.mtime(), m.mtime_nsec())
}

/// Heals what gits of processes that are gone left. The caller holds the repository's lock.
pub fn heal(repo: &Repo) {
    for e in std::fs::read_dir(repo.agents_dir()).into_iter().flatten().filter_map(Result::ok) {
        let name = e.file_name();
        let Some(owner) = name.to_str().and_then(|n| n.strip_prefix(MARK)) else { continue };
        let mut numbers = owner.split('-');
        let (Some(Ok(pid)), Some(Ok(start))) = (numbers.next().map(str::parse), numbers.next().map(str::parse)) else {
            continue;
        };
        if (Identity { pid, start, boot: process::boot_id() }).is_alive() {
            continue;
        }
        let text = files::read_limited(&e.path(), 1 << 16).ok().flatten().unwrap_or_default();
        let locks = text.split(|b| *b == 0).filter(|l| !l.is_empty()).map(|l| PathBuf::from(OsStr::from_bytes(l)));
        let mark = Mark { path: e.path(), locks: locks.filter(|l| l.starts_with(&repo.common_dir)).collect() };
        if mark.heal() {
            let _ = std::fs::remove_file(&mark.path);
        }
    }
}

/// The locks that stand in the admin directory `admin` of a worktree.
pub fn standing(admin: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(admin).into_iter().flatten().filter_map(Result::ok).map(|e| e.path());
    let mut out: Vec<PathBuf> = all.filter(|p| p.extension() == Some(OsStr::new("lock"))).collect();
    out.sort();
    out
}

/// The lock that git could not take, by its own words.
pub fn named_in(stderr: &str) -> Option<Error> {
    let rest = &stderr[stderr.find("Unable to create '")? + "Unable to create '".len()..];
    let path = PathBuf::from(&rest[..rest.find(".lock': File exists")? + ".lock".len()]);
    let age = path.metadata().ok().and_then(|m| m.modified().ok()).and_then(|t| t.elapsed().ok());
    Some(Error::Locked { age_s: age.map_or(0, |a| a.as_secs()), path })
}
