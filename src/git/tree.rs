//! Snapshots: the tree that `git add -A && git write-tree` would write in a worktree now.
//!
//! Seam: [`take`] looks at a [`Place`] and answers with a [`Snapshot`]; everything it writes is in the [`Store`] it was
//! given, so the repository keeps no trace: no object, no index refresh, no reference. What differs from the commit is
//! found by the stat pass of `status`, and only that is read; trees are those of the commit with these paths changed.
//! Where conversions decide, git hashes the changed files (`update-index` on an index of nothing else); where the index
//! is of a form that is not read here, git does it all with a copy of the index (`by_git`).
//!
//! No program of the repository's runs: of filters only those that the user's own settings define. A path with another
//! one is *doubtful*: it stays as it is in the index, and nobody may conclude anything from it.

mod by_git;
mod convert;

use super::objects::{from_gix, to_gix};
use super::status::{self, Place, RelPath, Seen};
use super::store::Store;
use super::{Error, Result};
use crate::model::agent::Oid;
use crate::runtime::files;
use gix::ObjectId;
use gix::bstr::BStr;
use gix::index::entry::{Flags, Mode};
use gix::objs::tree::EntryKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A worktree as it was for a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// What `git add -A && git write-tree` would write; the tip's own while paths are unmerged.
    pub tree: Oid,
    /// What to compare: the tip where nothing differs from it, else a commit in the store, on the tip and on what is
    /// being merged.
    pub commit: Oid,
    /// Something is not committed.
    pub dirty: bool,
    /// Paths are in the middle of a conflict; nothing but the tip was looked at.
    pub unmerged: bool,
    /// Paths whose content could not be told, and why.
    pub doubtful: BTreeMap<RelPath, String>,
    /// The same looking as `status`; `None` where git did it.
    pub changes: Option<status::Changes>,
}

/// A larger file is not read: what is in it is *doubtful*.
const LARGEST: u64 = 16 << 20;
/// Nor is more than this of one worktree: it would be held in memory.
const MOST: u64 = 128 << 20;

/// What a path becomes; `None` where it goes.
type Edits = BTreeMap<RelPath, Edit>;
type Edit = Option<(EntryKind, ObjectId)>;
/// Edits of one directory, by the path below it.
type Below<'e> = Vec<(&'e [u8], &'e Edit)>;

/// The snapshot of what `place` holds now. It must have a commit checked out.
pub fn take(store: &Store, place: &Place<'_>) -> Result<Snapshot> {
    let Some(head) = place.head else { return Err(Error::NotUsable("it has no commit yet".into())) };
    if is_being_made(place.admin) {
        return Err(Error::NotUsable("git is still making it".into()));
    }
    let commit = store.objects().commit(head)?.ok_or_else(|| Error::Object(format!("commit {head} is missing")))?;
    let mut doubtful = BTreeMap::new();
    let seen = status::look(store.repo(), store.objects(), place).unwrap_or_else(|e| {
        tracing::debug!(%e, "the program reads this worktree");
        None
    });
    // Where conversions decide about a file, these are not all.
    let changes = seen.as_ref().filter(|s| s.doubted.is_empty()).map(|s| s.changes.clone());
    let tree = match seen.filter(|s| is_plain(store, s)) {
        Some(seen) if !seen.changes.conflicted.is_empty() => None,
        Some(seen) => match edits(store, place, &seen, &mut doubtful)? {
            Some(edits) => Some(edited(store, &commit.tree, &edits)?),
            None => by_git::tree(store, place, &mut doubtful)?,
        },
        None => by_git::tree(store, place, &mut doubtful)?,
    };
    let Some(tree) = tree else {
        return Ok(Snapshot {
            tree: commit.tree,
            commit: head.clone(),
            dirty: true,
            unmerged: true,
            doubtful,
            changes,
        });
    };
    let mut parents = vec![head.clone()];
    let merging = files::read_limited(&place.admin.join("MERGE_HEAD"), 1 << 16)?.unwrap_or_default();
    parents.extend(String::from_utf8_lossy(&merging).lines().filter_map(Oid::parse));
    let dirty = tree != commit.tree || !doubtful.is_empty();
    let wrapped =
        if tree == commit.tree && parents.len() == 1 { head.clone() } else { store.commit(&tree, &parents)? };
    Ok(Snapshot { dirty: dirty || parents.len() > 1, tree, commit: wrapped, unmerged: false, doubtful, changes })
}

/// `git worktree add` has not checked anything out yet: that is no work of somebody who deletes everything.
fn is_being_made(admin: &Path) -> bool {
    let marked = || files::read_limited(&admin.join("locked"), 64).ok().flatten();
    !admin.join("index").exists() && marked().is_some_and(|m| m.trim_ascii() == b"initializing")
}

/// `tree` with `text` as the file at `path`, which keeps its mode where it is there.
pub fn with_file(store: &Store, tree: &Oid, path: &[u8], text: &[u8]) -> Result<Oid> {
    let repo = store.objects().local();
    let there = repo.find_tree(to_gix(tree)?).map_err(|e| Error::Object(e.to_string()))?;
    let names = path.split(|b| *b == b'/');
    let entry = there.lookup_entry(names).map_err(|e| Error::Object(e.to_string()))?;
    let kind = entry.filter(|e| e.mode().is_executable()).map_or(EntryKind::Blob, |_| EntryKind::BlobExecutable);
    let edits = Edits::from([(path.to_vec(), Some((kind, store.put(gix::objs::Kind::Blob, text)?)))]);
    edited(store, tree, &edits)
}

/// Whether the index says everything in the way that is read here.
fn is_plain(store: &Store, seen: &Seen) -> bool {
    let sparse = seen.index.entries().iter().any(|e| e.flags.contains(Flags::SKIP_WORKTREE));
    let no_links = store
        .repo()
        .settings()
        .is_ok_and(|s| s.iter().rev().find(|(_, k, _)| k == "core.symlinks").is_some_and(|(_, _, v)| v == "false"));
    store.repo().file_mode && !sparse && !no_links
}

/// What the files on disk change in the commit's tree; `None` where git has to say.
fn edits(
    store: &Store,
    place: &Place<'_>,
    seen: &Seen,
    doubtful: &mut BTreeMap<RelPath, String>,
) -> Result<Option<Edits>> {
    let mut disk = Disk { top: place.worktree, dirs: HashMap::new(), left: MOST };
    let mut edits = Edits::new();
    let mut to_convert: Vec<&RelPath> = Vec::new();
    let changed = seen.changes.modified.iter().chain(&seen.changes.untracked);
    let paths: BTreeSet<&RelPath> = changed.chain(&seen.touched).chain(&seen.doubted).collect();
    if paths.is_empty() {
        return Ok(Some(edits));
    }
    let settings = store.repo().settings()?;
    let converts = seen.converts
        || settings.iter().any(|(_, k, v)| k == "core.autocrlf" && v != "false")
        || !super::attributes::Attributes::read(store.repo(), settings).is_empty();
    for path in paths {
        if !converts && seen.touched.contains(path) && !seen.changes.modified.contains(path) {
            continue;
        }
        let tracked = seen.index.entry_by_path(BStr::new(path));
        let as_indexed = tracked.and_then(|e| Some((kind_of(e.mode)?, e.id)));
        if let Some(e) = tracked
            && e.flags.contains(Flags::ASSUME_VALID)
        {
            edits.insert(path.clone(), as_indexed);
            continue;
        }
        match disk.at(path, tracked.is_some_and(|e| e.mode == Mode::COMMIT)) {
            Ok(Found::File { .. }) if converts => {
                to_convert.push(path);
                edits.insert(path.clone(), as_indexed);
            }
            Ok(Found::File { bytes, executable }) => {
                let kind = if executable { EntryKind::BlobExecutable } else { EntryKind::Blob };
                edits.insert(path.clone(), Some((kind, store.put(gix::objs::Kind::Blob, &bytes)?)));
            }
            Ok(Found::Link(target)) => {
                let id = store.put(gix::objs::Kind::Blob, &target)?;
                edits.insert(path.clone(), Some((EntryKind::Link, id)));
            }
            Ok(Found::Repository(Some(id))) => {
                let path = path.strip_suffix(b"/").unwrap_or(path);
                edits.insert(path.to_vec(), Some((EntryKind::Commit, to_gix(&id)?)));
            }
            // A submodule that is not initialised, or another repository without a commit.
            Ok(Found::Repository(None)) if !path.ends_with(b"/") => drop(edits.insert(path.clone(), as_indexed)),
            Ok(Found::Repository(None)) => {}
            Ok(Found::Nothing) if path.ends_with(b"/") => return Ok(None),
            Ok(Found::Nothing) => drop(edits.insert(path.clone(), None)),
            Ok(Found::TooLarge) => {
                doubtful.insert(path.clone(), "it is too large to look into".into());
                edits.insert(path.clone(), as_indexed);
            }
            Ok(Found::Special) => drop(edits.insert(path.clone(), as_indexed)),
            Err(e) => {
                doubtful.insert(path.clone(), format!("it cannot be read: {e}"));
                edits.insert(path.clone(), as_indexed);
            }
        }
    }
    if !to_convert.is_empty() {
        convert::convert(store, place, seen, &to_convert, &mut edits, doubtful)?;
    }
    Ok(Some(edits))
}

fn kind_of(mode: Mode) -> Option<EntryKind> {
    Some(match mode {
        Mode::FILE => EntryKind::Blob,
        Mode::FILE_EXECUTABLE => EntryKind::BlobExecutable,
        Mode::SYMLINK => EntryKind::Link,
        Mode::COMMIT => EntryKind::Commit,
        _ => return None,
    })
}

enum Found {
    File {
        bytes: Vec<u8>,
        executable: bool,
    },
    Link(Vec<u8>),
    /// Too large to be read.
    TooLarge,
    /// A directory that is a repository of its own, with the commit it has checked out.
    Repository(Option<Oid>),
    /// Neither file, link nor directory.
    Special,
    /// Nothing, or a plain directory.
    Nothing,
}

/// Files below one directory, never reached through a link.
struct Disk<'a> {
    top: &'a Path,
    dirs: HashMap<Vec<u8>, bool>,
    /// How many bytes may still be read.
    left: u64,
}

impl Disk<'_> {
    fn path(&self, path: &[u8]) -> PathBuf {
        self.top.join(OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)))
    }

    fn at(&mut self, path: &[u8], is_submodule: bool) -> std::io::Result<Found> {
        let trimmed = path.strip_suffix(b"/").unwrap_or(path);
        for dir in crate::model::meet::parents(trimmed) {
            if !self.dirs.contains_key(dir) {
                let real = std::fs::symlink_metadata(self.path(dir)).is_ok_and(|m| m.is_dir());
                self.dirs.insert(dir.to_vec(), real);
            }
            if !self.dirs[dir] {
                return Ok(Found::Nothing);
            }
        }
        let file = self.path(path);
        let meta = match std::fs::symlink_metadata(&file) {
            Ok(m) => m,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                return Ok(Found::Nothing);
            }
            Err(e) => return Err(e),
        };
        if meta.is_file() {
            let Some(left) = self.left.checked_sub(meta.len()).filter(|_| meta.len() <= LARGEST) else {
                return Ok(Found::TooLarge);
            };
            self.left = left;
            let executable = meta.permissions().mode() & 0o100 != 0;
            return Ok(Found::File { bytes: std::fs::read(&file)?, executable });
        }
        if meta.file_type().is_symlink() {
            return Ok(Found::Link(std::fs::read_link(&file)?.as_os_str().as_bytes().to_vec()));
        }
        if !meta.is_dir() {
            return Ok(Found::Special);
        }
        let here = status::checked_out(&file);
        let is_repository = here.is_some() || is_git_dir(&file);
        Ok(if is_submodule || is_repository { Found::Repository(here) } else { Found::Nothing })
    }
}

/// Whether `dir` is the top of a repository, if only of one without a commit.
fn is_git_dir(dir: &Path) -> bool {
    let git_dir = super::worktree::points_to(dir).unwrap_or_else(|| dir.join(".git"));
    git_dir.join("HEAD").symlink_metadata().is_ok()
        && (git_dir.join("objects").is_dir() || git_dir.join("commondir").is_file())
}

/// The tree `base` with `edits`, written to the store.
fn edited(store: &Store, base: &Oid, edits: &Edits) -> Result<Oid> {
    let list: Below<'_> = edits.iter().map(|(p, e)| (p.as_slice(), e)).collect();
    if list.is_empty() {
        return Ok(base.clone());
    }
    let repo = store.objects().local();
    let edited = match below(store, &repo, Some(to_gix(base)?), &list)? {
        Some(id) => id,
        None => store.put(gix::objs::Kind::Tree, b"")?,
    };
    Ok(from_gix(edited))
}

fn below(store: &Store, repo: &gix::Repository, base: Option<ObjectId>, edits: &Below<'_>) -> Result<Option<ObjectId>> {
    let why = |e: &dyn std::fmt::Display| Error::Object(e.to_string());
    let mut entries: BTreeMap<Vec<u8>, (gix::objs::tree::EntryMode, ObjectId)> = BTreeMap::new();
    if let Some(base) = base {
        let tree = repo.find_tree(base).map_err(|e| why(&e))?;
        for e in tree.decode().map_err(|e| why(&e))?.entries {
            entries.insert(e.filename.to_vec(), (e.mode, e.oid.to_owned()));
        }
    }
    let before = entries.clone();
    let mut deeper: BTreeMap<&[u8], Below<'_>> = BTreeMap::new();
    let mut here = Vec::new();
    for (path, edit) in edits {
        match path.iter().position(|b| *b == b'/') {
            Some(slash) => deeper.entry(&path[..slash]).or_default().push((&path[slash + 1..], edit)),
            None => here.push((*path, edit)),
        }
    }
    // First what goes: a directory may come where a file was, and a file where a directory was.
    for (name, _) in here.iter().filter(|(_, e)| e.is_none()) {
        if entries.get(*name).is_some_and(|(mode, _)| !mode.is_tree()) {
            entries.remove(*name);
        }
    }
    for (name, list) in deeper {
        let old = entries.get(name).filter(|(mode, _)| mode.is_tree()).map(|(_, id)| *id);
        match below(store, repo, old, &list)? {
            Some(id) => drop(entries.insert(name.to_vec(), (EntryKind::Tree.into(), id))),
            None if old.is_some() => drop(entries.remove(name)),
            None => {}
        }
    }
    for (name, edit) in here {
        if let Some((kind, id)) = edit {
            entries.insert(name.to_vec(), ((*kind).into(), *id));
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    if entries == before {
        return Ok(base);
    }
    let mut tree = gix::objs::Tree::empty();
    for (name, (mode, oid)) in entries {
        tree.entries.push(gix::objs::tree::Entry { mode, filename: name.into(), oid });
    }
    tree.entries.sort();
    let mut bytes = Vec::new();
    gix::objs::WriteTo::write_to(&tree, &mut bytes).map_err(|e| why(&e))?;
    store.put(gix::objs::Kind::Tree, &bytes).map(Some)
}
