//! Worktrees: read from their admin directories, judged by their links, never taken for granted.
//!
//! An entry's id is not its folder's name, a link may be relative, and a tree that points elsewhere is not ours to
//! touch. Links are read here by hand because git itself calls a relatively linked live tree prunable (2.47, measured).

use super::repo::Repo;
use super::{Result, command::Call};
use crate::model::agent::Oid;
use crate::runtime::files::{self, because};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

/// One linked worktree as its admin directory describes it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Git's id: the name of the admin directory. One that is not text is shown so, and names no registered worktree.
    pub id: String,
    /// The admin directory.
    pub admin: PathBuf,
    /// The top of the tree, as linked.
    pub path: PathBuf,
    /// What is checked out.
    pub head: Head,
    /// The reason it is locked with; `None` where it is not.
    pub locked: Option<String>,
}

/// What a worktree has checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A branch, full name.
    Branch(String),
    /// A commit.
    Detached(Oid),
    /// Unreadable.
    Unknown,
}

/// Whether the directory and the admin entry belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// Each points at the other.
    Good,
    /// There is no directory.
    Missing,
    /// Something else is there; what, in words.
    Broken(String),
}

/// All linked worktrees, in the order of git's ids; those that only stand for a test left out.
pub fn list(repo: &Repo) -> Result<Vec<Entry>> {
    let is_place = |e: &Entry| !e.locked.as_deref().is_some_and(|r| r.starts_with(SCRATCH));
    Ok(admins(repo)?.into_iter().filter_map(|admin| read_at(repo, admin)).filter(is_place).collect())
}

/// The admin directories of all linked worktrees, sorted.
fn admins(repo: &Repo) -> Result<Vec<PathBuf>> {
    let dir = repo.common_dir.join("worktrees");
    let entries = match std::fs::read_dir(&dir) {
        Ok(d) => d,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(because("read", &dir)(e).into()),
    };
    let mut out: Vec<PathBuf> = entries.filter_map(std::result::Result::ok).map(|e| e.path()).collect();
    out.sort();
    Ok(out)
}

/// The top of the tree that the admin directory `admin` is linked with.
fn linked_tree(admin: &Path) -> Option<PathBuf> {
    let link = files::read_limited(&admin.join("gitdir"), 1 << 16).unwrap_or_default()?;
    let link = Path::new(std::ffi::OsStr::from_bytes(link.trim_ascii_end())).to_owned();
    let dot_git = normalize(&if link.is_absolute() { link } else { admin.join(link) });
    Some(dot_git.parent().unwrap_or(&dot_git).to_owned())
}

/// The entry with git's id `id`; `None` where there is none or it holds no link.
pub fn read(repo: &Repo, id: &str) -> Result<Option<Entry>> {
    Ok(read_at(repo, repo.common_dir.join("worktrees").join(id)))
}

/// The entry in the admin directory `admin`.
fn read_at(repo: &Repo, admin: PathBuf) -> Option<Entry> {
    let path = linked_tree(&admin)?;
    let locked = files::read_limited(&admin.join("locked"), 1 << 12)
        .unwrap_or_default()
        .map(|b| String::from_utf8_lossy(&b).trim_end().to_owned());
    let id = admin.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Some(Entry { id, head: head(repo, &admin), admin, path, locked })
}

/// Ends git's own watcher of the files of a worktree that is about to go, where the user has one: it would go on for ever,
/// and looks like somebody who works there.
pub fn stop_monitor(repo: &Repo, entry: &Entry) {
    if entry.admin.join("fsmonitor--daemon.ipc").symlink_metadata().is_ok() {
        let stop = repo.call_in(&entry.path, &entry.admin, ["fsmonitor--daemon", "stop"]);
        // One that does not answer is then in the way, as anybody else is.
        let _ = stop.within(std::time::Duration::from_secs(5)).output();
    }
}

/// The commit that was checked out last, by the log of HEAD; `None` where there is no log.
pub fn last_head(admin: &Path) -> Option<Oid> {
    let log = files::read_limited(&admin.join("logs/HEAD"), 16 << 20).ok()??;
    let is_commit = |id: &Oid| id.0.bytes().any(|b| b != b'0');
    let of_line = |line: &[u8]| {
        let ids: Vec<&[u8]> = line.splitn(3, |b| *b == b' ').take(2).collect();
        ids.into_iter().rev().filter_map(|id| Oid::parse(std::str::from_utf8(id).ok()?)).find(is_commit)
    };
    log.split(|b| *b == b'\n').rev().find_map(of_line)
}

/// What `admin` (or the common directory, for the main worktree) has checked out.
pub fn head(repo: &Repo, admin: &Path) -> Head {
    if repo.reftable {
        let call = Call::new(&repo.common_dir, ["rev-parse", "--symbolic-full-name", "HEAD", "--verify", "HEAD"]);
        let text = call.env("GIT_DIR", admin).env("GIT_COMMON_DIR", &repo.common_dir).text().unwrap_or_default();
        return match text.lines().find(|l| l.starts_with("refs/")) {
            Some(name) => Head::Branch(name.to_owned()),
            None => text.lines().find_map(Oid::parse).map_or(Head::Unknown, Head::Detached),
        };
    }
    let bytes = files::read_limited(&admin.join("HEAD"), 1 << 12).unwrap_or_default().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    match text.strip_prefix("ref:") {
        Some(name) => Head::Branch(name.trim().to_owned()),
        None => Oid::parse(&text).map_or(Head::Unknown, Head::Detached),
    }
}

impl Entry {
    /// Whether the directory is there, is a directory and points back at this entry.
    pub fn link(&self) -> Link {
        let meta = match std::fs::symlink_metadata(&self.path) {
            Ok(m) => m,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Link::Missing,
            Err(e) => return Link::Broken(format!("cannot be read: {e}")),
        };
        if meta.file_type().is_symlink() {
            return Link::Broken("was replaced by a link".into());
        }
        if !meta.is_dir() {
            return Link::Broken("was replaced by a file".into());
        }
        match points_to(&self.path) {
            Some(target) if same(&target, &self.admin) => Link::Good,
            Some(target) => Link::Broken(format!("belongs to '{}'", crate::model::text::shown_path(&target))),
            None => Link::Broken("has no '.git' file that points back".into()),
        }
    }

    /// The operation that is in the middle of something there, by git's word for it.
    pub fn operation(&self) -> Option<String> {
        operation(&self.admin)
    }
}

/// What the `.git` file in `dir` points to, resolved against its own place.
pub fn points_to(dir: &Path) -> Option<PathBuf> {
    would_point_to(dir, dir)
}

/// What the `.git` file in `dir` would point to if it stood in `place`.
pub fn would_point_to(dir: &Path, place: &Path) -> Option<PathBuf> {
    let dot_git = dir.join(".git");
    if !std::fs::symlink_metadata(&dot_git).ok()?.is_file() {
        return None;
    }
    let bytes = files::read_limited(&dot_git, 1 << 16).ok()??;
    let target = bytes.strip_prefix(b"gitdir: ")?.trim_ascii_end();
    let target = Path::new(std::ffi::OsStr::from_bytes(target));
    Some(normalize(&if target.is_absolute() { target.to_owned() } else { place.join(target) }))
}

/// Makes the entry at `admin` and the tree in `tree`, which will stand at `path`, point at each other; links that do
/// already, relative ones too, keep their bytes.
pub fn relink(kept: &Path, admin: &Path, tree: &Path, path: &Path) -> Result<()> {
    let link = path.join(".git");
    if kept.is_dir() {
        let file = kept.join("gitdir");
        let now = files::read_limited(&file, 1 << 16)?.unwrap_or_default();
        let target = Path::new(std::ffi::OsStr::from_bytes(now.trim_ascii_end()));
        if normalize(&admin.join(target)) != link {
            write_link(&file, &[link.as_os_str().as_bytes(), b"\n"].concat())?;
        }
    }
    if tree.is_dir() && would_point_to(tree, path).is_none_or(|t| t != admin) {
        let text = [b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"].concat();
        write_link(&tree.join(".git"), &text)?;
    }
    Ok(())
}

/// Makes a worktree that git has just made durable: its links, its index, its branch. git syncs none of them; the files that
/// were checked out are in the commit.
pub fn sync(repo: &Repo, entry: &Entry, branch: &str) -> Result<()> {
    let files = ["HEAD", "commondir", "gitdir", "index", "locked"].map(|n| entry.admin.join(n));
    for file in files.iter().chain([&entry.path.join(".git")]) {
        if let Ok(f) = std::fs::File::open(file) {
            f.sync_all().map_err(because("sync", file))?;
        }
    }
    let above = [entry.admin.parent(), entry.path.parent()];
    for dir in above.into_iter().flatten().chain([entry.admin.as_path(), &entry.path]) {
        files::sync_dir(dir)?;
    }
    super::refs::sync(repo, branch)
}

/// Makes at `admin` what git keeps of the worktree at `path`, as if it had just checked out `branch` there: the files stay
/// as they are. With the token of its agent.
pub fn rebuild(repo: &Repo, admin: &Path, path: &Path, branch: &str, token: &str) -> Result<()> {
    std::fs::create_dir_all(admin).map_err(because("create", admin))?;
    let link = [path.join(".git").as_os_str().as_bytes(), b"\n"].concat();
    let head = format!("ref: {branch}\n");
    let files: [(&str, &[u8]); 4] = [
        ("commondir", b"../..\n"),
        ("gitdir", &link),
        ("HEAD", head.as_bytes()),
        ("agents-token", &[token.as_bytes(), b"\n"].concat()),
    ];
    for (name, text) in files {
        write_link(&admin.join(name), text)?;
    }
    // Left by one that was killed in the middle of this: nobody else knows this directory.
    let _ = std::fs::remove_file(admin.join("index.lock"));
    if let Some(tip) = super::refs::read(repo, branch)? {
        repo.call_in(path, admin, ["read-tree", &tip.0]).run()?;
    }
    // 1: some are other than in the commit.
    repo.call_in(path, admin, ["update-index", "-q", "--refresh"]).output()?;
    Ok(())
}

/// Link files are git's: readable by whoever may read the rest.
fn write_link(file: &Path, text: &[u8]) -> Result<()> {
    let mode = std::fs::metadata(file).map_or(0o644, |m| m.permissions().mode() & 0o777);
    files::write_durable(file, text)?;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).map_err(because("write", file))?;
    Ok(())
}

fn same(a: &Path, b: &Path) -> bool {
    a == b || matches!((std::fs::canonicalize(a), std::fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// The operation in progress in the git directory `admin`.
pub fn operation(admin: &Path) -> Option<String> {
    let there = |name: &str| admin.join(name).symlink_metadata().is_ok();
    let found = if there("rebase-merge") {
        "rebase"
    } else if there("rebase-apply/applying") {
        "am"
    } else if there("rebase-apply") {
        "rebase"
    } else if there("MERGE_HEAD") {
        "merge"
    } else if there("CHERRY_PICK_HEAD") {
        "cherry-pick"
    } else if there("REVERT_HEAD") {
        "revert"
    } else if there("BISECT_LOG") {
        "bisect"
    } else if there("sequencer") {
        "sequencer"
    } else {
        return None;
    };
    Some(found.to_owned())
}

/// Adds an entry for `path` with nothing checked out yet; the branch is created at `commit`, or taken as it is where
/// `commit` is none. The entry is locked with `reason` from the first moment. The caller holds the repository's lock.
pub fn add(repo: &Repo, path: &Path, branch: &str, commit: Option<&Oid>, reason: &str) -> Result<()> {
    let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    let mut call =
        repo.call(["worktree", "add", "--quiet", "--no-track", "--no-checkout", "--lock", "--reason", reason]);
    if let Some(commit) = commit {
        call.arg("-b").arg(short).arg(path).arg(&commit.0);
    } else {
        call = repo.call(["worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", reason]);
        call.arg(path).arg(short);
    }
    let mark = super::locks::Mark::of_ref(repo, branch);
    let result = call.within(std::time::Duration::from_secs(60)).run().map(drop);
    mark.end(&result);
    result
}

/// How the reason begins that a worktree is locked with which stands only for a test: it is nobody's place.
const SCRATCH: &str = "git-agents merged-";

/// Adds an entry for `path` that stands on `commit` and on no branch, with nothing checked out yet, locked with `reason`
/// from the first moment. The caller holds the repository's lock.
pub fn add_detached(repo: &Repo, path: &Path, commit: &Oid, reason: &str) -> Result<()> {
    debug_assert!(reason.starts_with(SCRATCH));
    let mut call = repo.call(["worktree", "add", "--quiet", "--detach", "--no-checkout", "--lock", "--reason", reason]);
    call.arg(path).arg(&commit.0);
    call.within(std::time::Duration::from_secs(60)).run().map(drop)
}

/// The entry whose tree is at `path`. Only links are read of the others: there may be hundreds.
pub fn find_by_path(repo: &Repo, path: &Path) -> Result<Option<Entry>> {
    let is_it = |admin: &Path| linked_tree(admin).is_some_and(|p| p.file_name() == path.file_name() && same(&p, path));
    // Git's id is the folder's name, with a number behind it where that was taken.
    let likely = path.file_name().map(|name| repo.common_dir.join("worktrees").join(name)).filter(|a| is_it(a));
    let admin = match likely {
        Some(admin) => Some(admin),
        None => admins(repo)?.into_iter().find(|a| is_it(a)),
    };
    Ok(admin.and_then(|a| read_at(repo, a)))
}

/// Locks the entry with a reason of ours, replacing only a lock in our own form.
pub fn lock(entry: &Entry, reason: &str) -> Result<()> {
    Ok(files::write_durable(&entry.admin.join("locked"), reason.as_bytes())?)
}

/// Removes the lock of ours, and only a lock that says `expected`.
pub fn unlock(entry: &Entry, expected: impl Fn(&str) -> bool) -> Result<()> {
    let path = entry.admin.join("locked");
    match files::read_limited(&path, 1 << 12)? {
        Some(b) if expected(String::from_utf8_lossy(&b).trim_end()) => {
            std::fs::remove_file(&path).map_err(because("unlock", &path))?;
            // One that came back after a power cut would be empty, and nobody's of ours.
            Ok(files::sync_dir(&entry.admin)?)
        }
        _ => Ok(()),
    }
}

/// `a/../b` without asking the file system: what a link file means.
pub fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for c in path.components() {
        match c {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}
