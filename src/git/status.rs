//! What is not committed in a worktree, read without writing: no index refresh, no lock, no object, no program.
//!
//! One `fstatat` a tracked file and one directory read a directory; a file is read only where its stat data differ.
//! Whatever this reading does not know for certain (filters, line-ending rules, sparse or damaged indexes) is asked of
//! the git program in a sterile git dir instead.

use super::ignore::Ignores;
use super::objects::{Objects, from_gix};
use super::repo::Repo;
use super::sterile;
use super::{Error, Result};
use crate::model::agent::Oid;
use gix::bstr::ByteSlice as _;
use gix::index::entry::{Flags, Mode};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode as Perm, SFlag, fstatat};
use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A path in a worktree, exact bytes, slash-separated.
pub type RelPath = Vec<u8>;

/// What differs from the commit that is checked out. Each path once, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Staged or not: content, mode, type, deleted, added to the index.
    pub modified: BTreeSet<RelPath>,
    /// Neither tracked nor ignored.
    pub untracked: BTreeSet<RelPath>,
    /// In the middle of a conflict.
    pub conflicted: BTreeSet<RelPath>,
}

impl Changes {
    /// Nothing at all.
    pub fn is_empty(&self) -> bool {
        self.modified.is_empty() && self.untracked.is_empty() && self.conflicted.is_empty()
    }

    /// All paths.
    pub fn all(&self) -> impl Iterator<Item = &RelPath> {
        self.modified.iter().chain(&self.untracked).chain(&self.conflicted)
    }
}

/// Where to look.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    /// The top of the tree.
    pub worktree: &'a Path,
    /// Its git directory: the admin directory, or the common one for the main worktree.
    pub admin: &'a Path,
    /// The commit that is checked out; `None` for an unborn branch.
    pub head: Option<&'a Oid>,
}

/// What is not committed at `place`.
pub fn changes(repo: &Repo, objects: &Objects, place: &Place<'_>) -> Result<Changes> {
    match look(repo, objects, place) {
        Ok(Some(seen)) if seen.doubted.is_empty() => Ok(seen.changes),
        Ok(_) => sterile::status(repo, place, sterile::Rules::AsUserSees),
        Err(e) => {
            tracing::debug!(%e, "falling back to the program");
            sterile::status(repo, place, sterile::Rules::AsUserSees)
        }
    }
}

/// What was seen without the program.
pub(super) struct Seen {
    /// For certain.
    pub(super) changes: Changes,
    /// Other stat data than the index has, and the very bytes that are stored.
    pub(super) touched: BTreeSet<RelPath>,
    /// Other bytes than are stored; git's conversions decide whether that is a change.
    pub(super) doubted: BTreeSet<RelPath>,
    /// Something may make stored and checked-out bytes differ.
    pub(super) converts: bool,
    /// The index it was compared with.
    pub(super) index: gix::index::File,
}

struct Walk<'a> {
    index: &'a gix::index::File,
    repo: &'a Repo,
    objects: &'a Objects,
    place: &'a Place<'a>,
    hash: gix::hash::Kind,
    trust_mode: bool,
    out: Changes,
    /// Paths on disk that the index does not know, directories with a slash at the end.
    unknown: Vec<RelPath>,
    touched: BTreeSet<RelPath>,
    doubted: BTreeSet<RelPath>,
    converts: bool,
}

/// The answer without the program; `None` where this reading would not be certain.
pub(super) fn look(repo: &Repo, objects: &Objects, place: &Place<'_>) -> Result<Option<Seen>> {
    let hash = if repo.object_format == "sha256" { gix::hash::Kind::Sha256 } else { gix::hash::Kind::Sha1 };
    let path = place.admin.join("index");
    if !path.exists() {
        return Ok(None);
    }
    // Whoever looks at many worktrees does so on all cores already; asking how many there are costs more than it gains.
    let options = gix::index::decode::Options { thread_limit: Some(1), ..Default::default() };
    let index = gix::index::File::at(path, hash, true, options).map_err(|e| Error::Object(e.to_string()))?;
    if index.is_sparse() || index.link().is_some() {
        return Ok(None);
    }
    if repo.ignore_case || repo.worktree_config {
        return Ok(None);
    }
    let mut walk = Walk {
        index: &index,
        repo,
        objects,
        place,
        hash,
        trust_mode: repo.file_mode,
        out: Changes::default(),
        unknown: Vec::new(),
        touched: BTreeSet::new(),
        doubted: BTreeSet::new(),
        converts: converts(repo, &index),
    };
    walk.staged()?;
    let root = nix::fcntl::open(place.worktree, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Perm::empty())
        .map_err(|e| Error::Files(crate::runtime::files::because("open", place.worktree)(e.into())))?;
    walk.directory(root, b"", 0..index.entries().len())?;
    let unknown = std::mem::take(&mut walk.unknown);
    if !unknown.is_empty() {
        walk.untracked(unknown)?;
    }
    let Walk { out, touched, doubted, converts, .. } = walk;
    Ok(Some(Seen { changes: out, touched, doubted, converts, index }))
}

/// Whether anything may make stored and checked-out bytes differ. Attribute files that are not tracked are found later.
fn converts(repo: &Repo, index: &gix::index::File) -> bool {
    repo.converts
        || index.entries().iter().any(|e| is_attributes(e.path(index).as_bytes()))
        || repo.common_dir.join("info/attributes").exists()
        || super::config_file::user_settings().converts
}

/// Whether `path` is a file of attributes.
pub fn is_attributes(path: &[u8]) -> bool {
    path.strip_suffix(b".gitattributes").is_some_and(|dir| dir.is_empty() || dir.ends_with(b"/"))
}

impl Walk<'_> {
    /// The index against the commit.
    fn staged(&mut self) -> Result<()> {
        let Some(head) = self.place.head else {
            for e in self.index.entries() {
                self.out.modified.insert(e.path(self.index).to_vec());
            }
            return Ok(());
        };
        let commit = self.objects.commit(head)?.ok_or_else(|| Error::Object(format!("commit {head} is missing")))?;
        let tree = super::objects::to_gix(&commit.tree)?;
        if self.index.tree().is_some_and(|t| t.num_entries.is_some() && t.id == tree) {
            return Ok(());
        }
        let repo = self.objects.local();
        let of_head = repo.index_from_tree(&tree).map_err(|e| Error::Object(e.to_string()))?;
        let (mut a, mut b) = (of_head.entries().iter().peekable(), self.index.entries().iter().peekable());
        loop {
            match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some(x), Some(y)) => {
                    let (px, py) = (x.path(&of_head), y.path(self.index));
                    match px.cmp(py) {
                        std::cmp::Ordering::Equal => {
                            if y.stage_raw() == 0 && (x.id != y.id || x.mode != y.mode) {
                                self.out.modified.insert(py.to_vec());
                            }
                            let same = py.to_owned();
                            a.next();
                            while b.peek().is_some_and(|e| e.path(self.index) == same) {
                                b.next();
                            }
                        }
                        std::cmp::Ordering::Less => {
                            self.out.modified.insert(px.to_vec());
                            a.next();
                        }
                        std::cmp::Ordering::Greater => {
                            self.added(y);
                            b.next();
                        }
                    }
                }
                (Some(x), None) => {
                    self.out.modified.insert(x.path(&of_head).to_vec());
                    a.next();
                }
                (None, Some(y)) => {
                    self.added(y);
                    b.next();
                }
            }
        }
        Ok(())
    }

    fn added(&mut self, e: &gix::index::Entry) {
        if e.stage_raw() == 0 {
            self.out.modified.insert(e.path(self.index).to_vec());
        }
    }

    /// Compares one directory: `entries` are those below `prefix` (which ends in a slash, or is empty).
    fn directory(&mut self, fd: OwnedFd, prefix: &[u8], entries: std::ops::Range<usize>) -> Result<()> {
        let mut dir = nix::dir::Dir::from_fd(fd).map_err(io)?;
        let mut names: Vec<(Vec<u8>, Option<nix::dir::Type>)> = Vec::new();
        for e in dir.iter() {
            let e = e.map_err(io)?;
            let name = e.file_name().to_bytes();
            if name != b"." && name != b".." && !(prefix.is_empty() && name == b".git") {
                // Before the files it speaks of are looked at.
                self.converts |= name == b".gitattributes";
                names.push((name.to_vec(), e.file_type()));
            }
        }
        let mut known: Vec<&[u8]> = Vec::new();
        let index = self.index;
        let mut i = entries.start;
        while i < entries.end {
            let entry = &index.entries()[i];
            let rest = &entry.path(index).as_bytes()[prefix.len()..];
            match rest.find_byte(b'/') {
                None => {
                    known.push(rest);
                    self.file(dir.as_fd(), entry, rest)?;
                    i += 1;
                }
                Some(slash) => {
                    let name = &rest[..slash];
                    let below: Vec<u8> = [prefix, &rest[..=slash]].concat();
                    let end =
                        i + index.entries()[i..entries.end].partition_point(|e| e.path(index).starts_with(&below));
                    known.push(name);
                    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                    match nix::fcntl::openat(dir.as_fd(), name, flags, Perm::empty()) {
                        Ok(fd) => self.directory(fd, &below, i..end)?,
                        Err(nix::errno::Errno::ENOENT | nix::errno::Errno::ENOTDIR | nix::errno::Errno::ELOOP) => {
                            // A file or a link stands where the directory was: it is itself an unknown name.
                            if fstatat(dir.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok() {
                                self.unknown.push([prefix, name].concat());
                            }
                            for e in &index.entries()[i..end] {
                                if e.stage_raw() != 0 {
                                    self.out.conflicted.insert(e.path(index).to_vec());
                                } else if !e.flags.contains(Flags::SKIP_WORKTREE) {
                                    self.out.modified.insert(e.path(index).to_vec());
                                }
                            }
                        }
                        Err(e) => return Err(io(e)),
                    }
                    i = end;
                }
            }
        }
        known.sort_unstable();
        for (name, kind) in names {
            if known.binary_search(&name.as_slice()).is_err() {
                let is_dir = match kind {
                    Some(k) => k == nix::dir::Type::Directory,
                    None => fstatat(dir.as_fd(), name.as_slice(), AtFlags::AT_SYMLINK_NOFOLLOW)
                        .is_ok_and(|s| is_kind(&s, SFlag::S_IFDIR)),
                };
                let special = kind.is_some_and(|k| {
                    !matches!(k, nix::dir::Type::Directory | nix::dir::Type::File | nix::dir::Type::Symlink)
                });
                // git does not see pipes, sockets and devices.
                if !special {
                    self.unknown.push([prefix, &name, if is_dir { b"/" } else { b"" }].concat());
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, dir: BorrowedFd<'_>, entry: &gix::index::Entry, name: &[u8]) -> Result<()> {
        let path = entry.path(self.index);
        if entry.stage_raw() != 0 {
            self.out.conflicted.insert(path.to_vec());
            return Ok(());
        }
        if entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::ASSUME_VALID) {
            let stands = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW);
            if entry.mode != Mode::COMMIT && stands.is_ok_and(|s| is_kind(&s, SFlag::S_IFDIR)) {
                // The file is believed unchanged; what is in a directory in its place is new all the same.
                self.unknown.push([path.as_bytes(), b"/"].concat());
            }
            return Ok(());
        }
        if entry.flags.contains(Flags::INTENT_TO_ADD) {
            self.out.modified.insert(path.to_vec());
            return Ok(());
        }
        let stat = match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(s) => s,
            Err(nix::errno::Errno::ENOENT | nix::errno::Errno::ENOTDIR) => {
                self.out.modified.insert(path.to_vec());
                return Ok(());
            }
            Err(e) => return Err(io(e)),
        };
        if entry.mode == Mode::COMMIT {
            // A submodule: whether its own tree is dirty is its own business here.
            let sub = self.place.worktree.join(std::ffi::OsStr::from_bytes(path));
            let moved = checked_out(&sub).is_some_and(|head| head != from_gix(entry.id));
            if !is_kind(&stat, SFlag::S_IFDIR) || moved {
                self.out.modified.insert(path.to_vec());
            }
            return Ok(());
        }
        if self.same_type(entry, &stat) && self.same_stat(entry, &stat) {
            return Ok(());
        }
        if !self.same_type(entry, &stat) {
            if is_kind(&stat, SFlag::S_IFDIR) {
                // What is in a directory that stands where the file was is new.
                self.unknown.push([path.as_bytes(), b"/"].concat());
            }
            self.out.modified.insert(path.to_vec());
            return Ok(());
        }
        match self.same_content(dir, name, entry, &stat)? {
            Some(true) => drop(self.touched.insert(path.to_vec())),
            Some(false) => drop(self.out.modified.insert(path.to_vec())),
            None => drop(self.doubted.insert(path.to_vec())),
        }
        Ok(())
    }

    fn same_type(&self, entry: &gix::index::Entry, stat: &FileStat) -> bool {
        let executable = stat.st_mode & 0o100 != 0;
        if entry.mode == Mode::SYMLINK {
            is_kind(stat, SFlag::S_IFLNK)
        } else {
            is_kind(stat, SFlag::S_IFREG) && (!self.trust_mode || executable == (entry.mode == Mode::FILE_EXECUTABLE))
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the index keeps the low 32 bits")]
    fn same_stat(&self, entry: &gix::index::Entry, stat: &FileStat) -> bool {
        let s = &entry.stat;
        let same = s.mtime.secs == stat.st_mtime as u32
            && s.size == stat.st_size as u32
            && s.ctime.secs == stat.st_ctime as u32
            && s.ino == stat.st_ino as u32
            && s.uid == stat.st_uid
            && s.gid == stat.st_gid
            && (s.mtime.nsecs == 0 || s.mtime.nsecs == stat.st_mtime_nsec as u32);
        // A file written in the same instant as the index may have changed after it was hashed.
        let written = self.index.timestamp();
        let racy = (stat.st_mtime, stat.st_mtime_nsec as u32) >= (written.unix_seconds(), written.nanoseconds());
        same && !racy
    }

    /// Whether the file holds the bytes of the entry; `None` where git's conversions decide.
    fn same_content(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        entry: &gix::index::Entry,
        stat: &FileStat,
    ) -> Result<Option<bool>> {
        use std::io::Read as _;
        let bytes = if entry.mode == Mode::SYMLINK {
            nix::fcntl::readlinkat(dir, name).map_err(io)?.as_bytes().to_vec()
        } else {
            let fd =
                nix::fcntl::openat(dir, name, OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Perm::empty())
                    .map_err(io)?;
            let mut bytes = Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or(0).min(1 << 26));
            std::fs::File::from(fd).read_to_end(&mut bytes).map_err(|e| Error::Object(e.to_string()))?;
            bytes
        };
        let id = gix::objs::compute_hash(self.hash, gix::objs::Kind::Blob, &bytes)
            .map_err(|e| Error::Object(e.to_string()))?;
        if id == entry.id {
            return Ok(Some(true));
        }
        if entry.mode != Mode::SYMLINK && self.converts {
            return Ok(None);
        }
        Ok(Some(false))
    }

    /// Which of the unknown names are ignored, and the files below the directories that are not.
    fn untracked(&mut self, unknown: Vec<RelPath>) -> Result<()> {
        let mut ignores = Ignores::new(self.repo, self.objects, self.place.worktree, self.index)?;
        let mut todo = unknown;
        while let Some(path) = todo.pop() {
            let is_dir = path.ends_with(b"/");
            let trimmed = path.strip_suffix(b"/").unwrap_or(&path);
            if ignores.is_ignored(trimmed, is_dir)? {
                continue;
            }
            if !is_dir {
                self.out.untracked.insert(path);
                continue;
            }
            let on_disk = self.place.worktree.join(std::ffi::OsStr::from_bytes(trimmed));
            if on_disk.join(".git").symlink_metadata().is_ok() {
                // Another repository: one entry, never searched.
                self.out.untracked.insert(path);
                continue;
            }
            let Ok(entries) = std::fs::read_dir(&on_disk) else {
                self.out.untracked.insert(path);
                continue;
            };
            for e in entries.filter_map(std::result::Result::ok) {
                let Ok(kind) = e.file_type() else { continue };
                self.converts |= e.file_name() == ".gitattributes";
                let slash: &[u8] = if kind.is_dir() { b"/" } else { b"" };
                if kind.is_dir() || kind.is_file() || kind.is_symlink() {
                    todo.push([&path, e.file_name().as_bytes(), slash].concat());
                }
            }
        }
        Ok(())
    }
}

fn is_kind(stat: &FileStat, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) == kind
}

fn io(e: nix::errno::Errno) -> Error {
    Error::Object(format!("could not read the worktree: {e}"))
}

/// The commit an initialised submodule has checked out, read without opening it.
pub(super) fn checked_out(sub: &Path) -> Option<Oid> {
    let git_dir = super::worktree::points_to(sub).or_else(|| Some(sub.join(".git")).filter(|d| d.is_dir()))?;
    let head = std::fs::read_to_string(git_dir.join("HEAD")).ok()?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return Oid::parse(head.trim()) };
    // A worktree of another repository has its branches in that one.
    let shared = std::fs::read_to_string(git_dir.join("commondir")).map(|c| git_dir.join(c.trim_end_matches('\n')));
    let common = shared.unwrap_or(git_dir);
    if let Ok(id) = std::fs::read_to_string(common.join(name)) {
        return Oid::parse(id.trim());
    }
    let packed = std::fs::read_to_string(common.join("packed-refs")).ok()?;
    packed.lines().filter_map(|l| l.split_once(' ')).find(|(_, n)| *n == name).and_then(|(id, _)| Oid::parse(id))
}

/// Whether anything may make stored and checked-out bytes differ: attributes, or settings of the user's.
pub fn may_convert(repo: &Repo, place: &Place<'_>) -> bool {
    place.worktree.join(".gitattributes").exists()
        || repo.common_dir.join("info/attributes").exists()
        || repo.settings().is_ok_and(|all| all.iter().any(|(_, k, v)| k == "core.autocrlf" && v != "false"))
        || super::config_file::user_settings().converts
}

/// The submodules in the index.
pub fn submodules(repo: &Repo, place: &Place<'_>) -> Result<Vec<RelPath>> {
    let hash = if repo.object_format == "sha256" { gix::hash::Kind::Sha256 } else { gix::hash::Kind::Sha1 };
    let path = place.admin.join("index");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let index = gix::index::File::at(path, hash, true, Default::default()).map_err(|e| Error::Object(e.to_string()))?;
    Ok(index.entries().iter().filter(|e| e.mode == Mode::COMMIT).map(|e| e.path(&index).to_vec()).collect())
}

/// Entries of the index that git is told to believe unchanged (assume-unchanged, skip-worktree), whose files are there.
pub fn hidden(repo: &Repo, place: &Place<'_>) -> Result<Vec<(RelPath, Oid)>> {
    let hash = if repo.object_format == "sha256" { gix::hash::Kind::Sha256 } else { gix::hash::Kind::Sha1 };
    let index = gix::index::File::at(place.admin.join("index"), hash, true, Default::default())
        .map_err(|e| Error::Object(e.to_string()))?;
    let marked = index.entries().iter().filter(|e| e.flags.intersects(Flags::SKIP_WORKTREE | Flags::ASSUME_VALID));
    Ok(marked.map(|e| (e.path(&index).to_vec(), from_gix(e.id))).collect())
}
