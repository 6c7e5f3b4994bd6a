//! Objects, read and written in-process. What is written here is synced before its id is handed out.
//!
//! A new object is made in a folder of ours and then renamed into the repository, so that a kill leaves no temporary
//! file where git's own programs never look for one. Writing is for holders of the repository's lock.

use super::repo::Repo;
use super::{Error, Result};
use crate::model::agent::Oid;
use crate::runtime::files;
use gix::ObjectId;
use gix::objs::tree::EntryKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The object database of one repository. Cheap to clone; each thread takes its own handle inside.
#[derive(Debug, Clone)]
pub struct Objects {
    repo: gix::ThreadSafeRepository,
    dir: PathBuf,
    incoming: PathBuf,
    /// Commits that were read: many agents stand on one, and each is asked about several times.
    commits: Arc<Mutex<HashMap<Oid, Commit>>>,
}

/// More commits are not remembered.
const REMEMBERED: usize = 2_000;

/// What a commit says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub id: Oid,
    /// Its tree.
    pub tree: Oid,
    /// Its parents.
    pub parents: Vec<Oid>,
    /// The first line of its message.
    pub subject: String,
    /// Committer's time, seconds since the epoch.
    pub time: i64,
}

/// One entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The name, exact bytes.
    pub name: Vec<u8>,
    /// Its mode, as git writes it.
    pub mode: u16,
    /// Whether it is a tree.
    pub is_tree: bool,
    /// Its object.
    pub id: Oid,
}

pub(super) fn to_gix(id: &Oid) -> Result<ObjectId> {
    ObjectId::from_hex(id.0.as_bytes()).map_err(|_| Error::Object(format!("'{id}' is not an object id")))
}

pub(super) fn from_gix(id: impl Into<ObjectId>) -> Oid {
    Oid(id.into().to_hex().to_string())
}

fn why(e: impl std::fmt::Display) -> Error {
    Error::Object(e.to_string())
}

/// What happened to a file between two commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It is new.
    Added,
    /// Its content, mode or kind is another.
    Modified,
    /// It is gone.
    Deleted,
}

impl Objects {
    /// Opens the object database; only the repository's own settings are read, nothing is run.
    pub fn open(repo: &Repo) -> Result<Objects> {
        let options = gix::open::Options::isolated().open_path_as_is(true);
        let opened = gix::ThreadSafeRepository::open_opts(&repo.common_dir, options).map_err(why)?;
        let (dir, incoming) = (repo.common_dir.join("objects"), repo.agents_dir().join("incoming"));
        Ok(Objects { repo: opened, dir, incoming, commits: Arc::default() })
    }

    /// Opens that of a private git dir.
    pub(super) fn open_private(git_dir: &std::path::Path) -> Result<Objects> {
        let options = gix::open::Options::isolated().open_path_as_is(true);
        let opened = gix::ThreadSafeRepository::open_opts(git_dir, options).map_err(why)?;
        Ok(Objects {
            repo: opened,
            dir: git_dir.join("objects"),
            incoming: git_dir.join("incoming"),
            commits: Arc::default(),
        })
    }

    pub(super) fn local(&self) -> gix::Repository {
        let mut repo = self.repo.to_thread_local();
        repo.object_cache_size_if_unset(4 << 20);
        repo
    }

    /// The bytes of a blob; `None` where the object is missing.
    pub fn blob(&self, id: &Oid) -> Result<Option<Vec<u8>>> {
        let repo = self.local();
        let found = repo.try_find_object(to_gix(id)?).map_err(why)?;
        Ok(found.map(|o| o.detach().data))
    }

    /// The same for a blob of at most `limit` bytes; a larger one is like a missing one, and is not read.
    pub fn small_blob(&self, id: &Oid, limit: u64) -> Result<Option<Vec<u8>>> {
        let repo = self.local();
        let id = to_gix(id)?;
        match repo.try_find_header(id).map_err(why)? {
            Some(header) if header.size() <= limit => {
                Ok(repo.try_find_object(id).map_err(why)?.map(|o| o.detach().data))
            }
            _ => Ok(None),
        }
    }

    /// Whether the object is there.
    pub fn has(&self, id: &Oid) -> bool {
        to_gix(id).is_ok_and(|id| self.local().has_object(id))
    }

    /// Whether `file` holds exactly the bytes of the blob `id` (a link: its target).
    pub fn is_blob_of_file(&self, id: &Oid, file: &std::path::Path) -> bool {
        use std::os::unix::ffi::OsStrExt as _;
        let bytes = match std::fs::symlink_metadata(file) {
            Ok(m) if m.file_type().is_symlink() => std::fs::read_link(file).map(|t| t.as_os_str().as_bytes().to_vec()),
            Ok(_) => std::fs::read(file),
            Err(e) => Err(e),
        };
        let Ok(bytes) = bytes else { return false };
        let kind = self.local().object_hash();
        gix::objs::compute_hash(kind, gix::objs::Kind::Blob, &bytes).is_ok_and(|h| from_gix(h) == *id)
    }

    /// What a commit says; `None` where it is missing.
    pub fn commit(&self, id: &Oid) -> Result<Option<Commit>> {
        if let Some(known) = self.commits.lock().ok().and_then(|c| c.get(id).cloned()) {
            return Ok(Some(known));
        }
        let repo = self.local();
        let Some(object) = repo.try_find_object(to_gix(id)?).map_err(why)? else { return Ok(None) };
        let commit = object.try_into_commit().map_err(why)?;
        let tree = from_gix(commit.tree_id().map_err(why)?);
        let parents = commit.parent_ids().map(from_gix).collect();
        let message = commit.message_raw().map_err(why)?.to_string();
        let subject = message.lines().next().unwrap_or_default().to_owned();
        let time = commit.time().map_err(why)?.seconds;
        let found = Commit { id: id.clone(), tree, parents, subject, time };
        if let Ok(mut known) = self.commits.lock() {
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(id.clone(), found.clone());
        }
        Ok(Some(found))
    }

    /// The content of the file at `path` in a commit, exact bytes; `None` where it has no file there.
    pub fn blob_at(&self, commit: &Oid, path: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut at = commit.clone();
        let mut names = path.split(|b| *b == b'/').peekable();
        while let Some(name) = names.next() {
            let is_last = names.peek().is_none();
            match self.tree(&at)?.into_iter().find(|e| e.name == name && e.is_tree != is_last) {
                Some(e) => at = e.id,
                None => return Ok(None),
            }
        }
        self.blob(&at)
    }

    /// The whole message of a commit.
    pub fn message(&self, id: &Oid) -> Result<String> {
        let repo = self.local();
        let commit = repo.find_object(to_gix(id)?).map_err(why)?.try_into_commit().map_err(why)?;
        Ok(commit.message_raw().map_err(why)?.to_string())
    }

    /// The entries of a tree, or of a commit's tree.
    pub fn tree(&self, id: &Oid) -> Result<Vec<TreeEntry>> {
        let repo = self.local();
        let tree = repo.find_object(to_gix(id)?).map_err(why)?.peel_to_tree().map_err(why)?;
        let decoded = tree.decode().map_err(why)?;
        Ok(decoded
            .entries
            .iter()
            .map(|e| TreeEntry {
                name: e.filename.to_vec(),
                mode: e.mode.value(),
                is_tree: e.mode.is_tree(),
                id: from_gix(e.oid),
            })
            .collect())
    }

    /// Paths that differ between the trees of two commits, files only, no renames followed.
    pub fn changed_paths(&self, from: &Oid, to: &Oid) -> Result<Vec<Vec<u8>>> {
        Ok(self.changes(from, to)?.into_iter().map(|(path, _)| path).collect())
    }

    /// The same with what happened to the file of that path.
    pub fn changes(&self, from: &Oid, to: &Oid) -> Result<Vec<(Vec<u8>, Change)>> {
        let mut out = Vec::new();
        let (a, b) = (self.commit(from)?, self.commit(to)?);
        let (Some(a), Some(b)) = (a, b) else { return Err(Error::Object("a commit is missing".into())) };
        self.diff_trees(Some(&a.tree), Some(&b.tree), &[], &mut out)?;
        Ok(out)
    }

    fn diff_trees(
        &self,
        a: Option<&Oid>,
        b: Option<&Oid>,
        prefix: &[u8],
        out: &mut Vec<(Vec<u8>, Change)>,
    ) -> Result<()> {
        if a == b {
            return Ok(());
        }
        let entries = |id: Option<&Oid>| id.map_or(Ok(Vec::new()), |id| self.tree(id));
        let (old, new) = (entries(a)?, entries(b)?);
        let mut names: BTreeMap<&[u8], (Option<&TreeEntry>, Option<&TreeEntry>)> = Default::default();
        for e in &old {
            names.entry(&e.name).or_default().0 = Some(e);
        }
        for e in &new {
            names.entry(&e.name).or_default().1 = Some(e);
        }
        for (name, (x, y)) in names {
            if x == y {
                continue;
            }
            let path = [prefix, name].concat();
            let tree = |e: Option<&TreeEntry>| e.filter(|e| e.is_tree).map(|e| e.id.clone());
            match (x.is_some_and(|e| !e.is_tree), y.is_some_and(|e| !e.is_tree)) {
                (true, true) => out.push((path.clone(), Change::Modified)),
                (true, false) => out.push((path.clone(), Change::Deleted)),
                (false, true) => out.push((path.clone(), Change::Added)),
                (false, false) => {}
            }
            let (tx, ty) = (tree(x), tree(y));
            if tx.is_some() || ty.is_some() {
                self.diff_trees(tx.as_ref(), ty.as_ref(), &[path.as_slice(), b"/"].concat(), out)?;
            }
        }
        Ok(())
    }

    /// Writes a blob, durably.
    pub fn write_blob(&self, bytes: &[u8]) -> Result<Oid> {
        let mut writer = Writer::new(self)?;
        let id = writer.put(gix::objs::Kind::Blob, bytes)?;
        writer.finish()?;
        Ok(id)
    }

    /// Writes `commit` and all of its `tree` that is missing here, from another database. Durable. What a tree names is
    /// written before the tree: after a kill one that is here is whole.
    pub(super) fn take_over(&self, from: &Objects, tree: &Oid, commit: &Oid) -> Result<()> {
        let mut writer = Writer::new(self)?;
        writer.take_tree(from, tree)?;
        writer.take(from, commit)?;
        writer.finish()
    }

    /// The blob of the note on `key` in the notes commit `tip`, whatever its fan-out.
    pub fn note(&self, tip: &Oid, key: &str) -> Result<Option<Oid>> {
        let (mut tree, mut rest) = (tip.clone(), key);
        loop {
            let entries = self.tree(&tree)?;
            if let Some(e) = entries.iter().find(|e| !e.is_tree && e.name == rest.as_bytes()) {
                return Ok(Some(e.id.clone()));
            }
            let Some((head, tail)) = rest.split_at_checked(2) else { return Ok(None) };
            match entries.into_iter().find(|e| e.is_tree && e.name == head.as_bytes()) {
                Some(e) => (tree, rest) = (e.id, tail),
                None => return Ok(None),
            }
        }
    }

    /// Writes a notes commit without parents: the one of `old` with these notes set. Durable. Only trees on the way to
    /// a changed note are written anew; new notes go one folder down (`ab/cdef…`), as git has it above 256 notes.
    pub fn write_notes(&self, old: Option<&Oid>, notes: &[(String, Vec<u8>)], message: &str) -> Result<Oid> {
        let mut writer = Writer::new(self)?;
        let blobs = notes.iter().map(|(_, bytes)| writer.put(gix::objs::Kind::Blob, bytes));
        let blobs = blobs.collect::<Result<Vec<Oid>>>()?;
        let notes: Vec<(&str, &Oid)> = notes.iter().map(|(k, _)| k.as_str()).zip(&blobs).collect();
        let tree = writer.notes(old, &notes, true)?;
        let who = gix::actor::Signature {
            name: "git-agents".into(),
            email: "git-agents@localhost".into(),
            time: gix::date::Time::now_utc(),
        };
        let commit = gix::objs::Commit {
            tree: to_gix(&tree)?,
            parents: Default::default(),
            author: who.clone(),
            committer: who,
            encoding: None,
            message: message.into(),
            extra_headers: Vec::new(),
        };
        let id = writer.object(&commit)?;
        writer.finish()?;
        Ok(id)
    }

    /// All merge bases of two commits; empty for unrelated histories.
    pub fn merge_bases(&self, a: &Oid, b: &Oid) -> Result<Vec<Oid>> {
        let repo = self.local();
        let found = repo.merge_bases_many(to_gix(a)?, &[to_gix(b)?]).map_err(why)?;
        Ok(found.into_iter().map(from_gix).collect())
    }

    /// The same for many pairs, over one graph.
    pub fn merge_bases_of(&self, pairs: &[(Oid, Oid)]) -> Result<Vec<Result<Vec<Oid>>>> {
        let repo = self.local();
        let cache = repo.commit_graph_if_enabled().map_err(why)?;
        let mut graph = repo.revision_graph(cache.as_ref());
        let mut known: HashMap<(&Oid, &Oid), Vec<Oid>> = Default::default();
        let mut ask = |a, b| -> Result<Vec<Oid>> {
            let found = repo.merge_bases_many_with_graph(to_gix(a)?, &[to_gix(b)?], &mut graph).map_err(why)?;
            let mut found: Vec<Oid> = found.into_iter().map(from_gix).collect();
            found.sort();
            Ok(found)
        };
        let mut out = Vec::with_capacity(pairs.len());
        for (a, b) in pairs {
            if let Some(found) = known.get(&(a, b)) {
                out.push(Ok(found.clone()));
                continue;
            }
            let found = ask(a, b);
            if let Ok(f) = &found {
                known.insert((a, b), f.clone());
            }
            out.push(found);
        }
        Ok(out)
    }

    /// Whether `a` is reachable from `b`.
    pub fn is_ancestor(&self, a: &Oid, b: &Oid) -> Result<bool> {
        Ok(a == b || self.merge_bases(a, b)?.contains(a))
    }

    /// Those of `commits` that none of `from` reaches.
    pub fn unreachable(&self, commits: &[Oid], from: &[Oid]) -> Result<Vec<Oid>> {
        let repo = self.local();
        let ids = |list: &[Oid]| list.iter().map(to_gix).collect::<Result<Vec<_>>>();
        let walk = repo.rev_walk(ids(commits)?).with_hidden(ids(from)?).all().map_err(why)?;
        let beyond = walk.map(|i| i.map(|i| from_gix(i.id)).map_err(why)).collect::<Result<BTreeSet<Oid>>>()?;
        Ok(commits.iter().filter(|c| beyond.contains(c)).cloned().collect())
    }

    /// The commits reachable from `tip` and not from any of `hidden`, newest first, at most `limit`.
    pub fn commits_beyond(&self, tip: &Oid, hidden: &[Oid], limit: usize) -> Result<Vec<Oid>> {
        if hidden.contains(tip) {
            return Ok(Vec::new());
        }
        let repo = self.local();
        let hidden = hidden.iter().map(to_gix).collect::<Result<Vec<_>>>()?;
        let walk = repo
            .rev_walk([to_gix(tip)?])
            .sorting(gix::revision::walk::Sorting::ByCommitTime(Default::default()))
            .with_hidden(hidden)
            .all()
            .map_err(why)?;
        walk.take(limit).map(|i| i.map(|i| from_gix(i.id)).map_err(why)).collect()
    }
}

/// The SHA-1 that `size` bytes of `content` have as a blob, without reading them into memory at once.
pub fn hash_stream(content: &mut dyn std::io::Read, size: u64) -> std::io::Result<String> {
    let never = std::sync::atomic::AtomicBool::new(false);
    let (hash, kind) = (gix::hash::Kind::Sha1, gix::objs::Kind::Blob);
    let id = gix::objs::compute_stream_hash(hash, kind, content, size, &mut gix::progress::Discard, &never);
    Ok(id.map_err(std::io::Error::other)?.to_string())
}

/// New objects on their way into the repository.
struct Writer<'a> {
    objects: &'a Objects,
    repo: gix::Repository,
    incoming: gix::odb::loose::Store,
    /// Directories that got a new name.
    dirs: BTreeSet<PathBuf>,
}

impl Writer<'_> {
    fn new(objects: &Objects) -> Result<Writer<'_>> {
        if let Some(agents) = objects.incoming.parent() {
            files::ensure_private_dir(agents)?;
        }
        files::ensure_private_dir(&objects.incoming)?;
        let repo = objects.local();
        let incoming = gix::odb::loose::Store::at(objects.incoming.clone(), repo.object_hash());
        Ok(Writer { objects, repo, incoming, dirs: BTreeSet::new() })
    }

    fn object(&mut self, object: &dyn gix::objs::WriteTo) -> Result<Oid> {
        let mut bytes = Vec::new();
        object.write_to(&mut bytes).map_err(why)?;
        self.put(object.kind(), &bytes)
    }

    fn put(&mut self, kind: gix::objs::Kind, bytes: &[u8]) -> Result<Oid> {
        let id = gix::objs::compute_hash(self.repo.object_hash(), kind, bytes).map_err(why)?;
        let oid = from_gix(id);
        let (head, tail) = oid.0.split_at(2);
        let dir = self.objects.dir.join(head);
        if self.repo.has_object(id) {
            // Whoever wrote it may not have synced it.
            match std::fs::File::open(dir.join(tail)) {
                Ok(f) => f.sync_all().map_err(files::because("sync", &dir))?,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(oid),
                Err(e) => return Err(files::because("open", &dir)(e).into()),
            }
        } else {
            use gix::objs::Write as _;
            self.incoming.write_buf(kind, bytes).map_err(why)?;
            let made = self.incoming.object_path(&id);
            std::fs::File::open(&made).and_then(|f| f.sync_all()).map_err(files::because("sync", &made))?;
            match std::fs::create_dir(&dir) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(files::because("create", &dir)(e).into());
                }
                _ => {}
            }
            std::fs::rename(&made, dir.join(tail)).map_err(files::because("write", &dir))?;
            if let Some(parent) = made.parent() {
                // Left for the next object of the same beginning, or for the next holder of the lock, where it is not empty.
                let _ = std::fs::remove_dir(parent);
            }
        }
        self.dirs.insert(dir);
        Ok(oid)
    }

    /// One object of another database.
    fn take(&mut self, from: &Objects, id: &Oid) -> Result<()> {
        let repo = from.local();
        let object = repo.find_object(to_gix(id)?).map_err(why)?;
        self.put(object.kind, &object.data).map(drop)
    }

    /// A tree with all below it that is not here yet.
    fn take_tree(&mut self, from: &Objects, tree: &Oid) -> Result<()> {
        const SUBMODULE: u16 = 0o160000;
        if self.repo.has_object(to_gix(tree)?) {
            return Ok(());
        }
        for e in from.tree(tree)? {
            if e.is_tree {
                self.take_tree(from, &e.id)?;
            } else if e.mode != SUBMODULE && !self.repo.has_object(to_gix(&e.id)?) {
                self.take(from, &e.id)?;
            }
        }
        self.take(from, tree)
    }

    /// The tree `old` with `notes` set.
    fn notes(&mut self, old: Option<&Oid>, notes: &[(&str, &Oid)], top: bool) -> Result<Oid> {
        let before = old.map_or(Ok(Vec::new()), |o| self.objects.tree(o))?;
        let mut entries: BTreeMap<Vec<u8>, (bool, Oid)> =
            before.into_iter().map(|e| (e.name, (e.is_tree, e.id))).collect();
        let mut below: BTreeMap<&str, Vec<(&str, &Oid)>> = BTreeMap::new();
        for (name, id) in notes {
            let here = entries.get(name.as_bytes()).is_some_and(|(is_tree, _)| !is_tree);
            match name.split_at_checked(2) {
                Some((head, tail)) if !here && (top || entries.get(head.as_bytes()).is_some_and(|(t, _)| *t)) => {
                    below.entry(head).or_default().push((tail, id));
                }
                _ => drop(entries.insert(name.as_bytes().to_vec(), (false, (*id).clone()))),
            }
        }
        for (head, notes) in below {
            let there = entries.get(head.as_bytes()).filter(|(is_tree, _)| *is_tree).map(|(_, id)| id.clone());
            let id = self.notes(there.as_ref(), &notes, false)?;
            entries.insert(head.as_bytes().to_vec(), (true, id));
        }
        let mut tree = gix::objs::Tree::empty();
        for (name, (is_tree, id)) in entries {
            let mode = if is_tree { EntryKind::Tree } else { EntryKind::Blob }.into();
            tree.entries.push(gix::objs::tree::Entry { mode, filename: name.into(), oid: to_gix(&id)? });
        }
        tree.entries.sort();
        self.object(&tree)
    }

    /// Makes the new names durable.
    fn finish(self) -> Result<()> {
        for d in &self.dirs {
            files::sync_dir(d)?;
        }
        if !self.dirs.is_empty() {
            files::sync_dir(&self.objects.dir)?;
        }
        Ok(())
    }
}

/// Removes what a kill left on its way. The caller holds the repository's lock, so nobody is writing.
pub(super) fn heal(repo: &Repo) {
    let dir = repo.agents_dir().join("incoming");
    for e in std::fs::read_dir(&dir).into_iter().flatten().filter_map(std::result::Result::ok) {
        if let Ok(meta) = e.path().symlink_metadata() {
            use std::os::unix::fs::MetadataExt as _;
            let _ = files::remove_tree(&e.path(), meta.dev());
        }
    }
}

/// A digest of `parts`, each by its length and bytes: a name for all of them together.
pub fn digest(parts: &[&str]) -> String {
    let mut bytes = Vec::with_capacity(parts.iter().map(|p| p.len() + 8).sum());
    for part in parts {
        bytes.extend_from_slice(part.len().to_string().as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(part.as_bytes());
    }
    let id = gix::objs::compute_hash(gix::hash::Kind::Sha256, gix::objs::Kind::Blob, &bytes);
    id.expect("SHA-256 of bytes in memory does not fail").to_hex().to_string()
}
