//! The private store: where snapshots are written and merges are tried, and nothing is kept.
//!
//! A sterile git dir, in memory where there is one, with the repository's objects as its alternate. What is written
//! here never reaches the repository. Its config is an allow-list by value; see `settings_for_merging`.

use super::attributes::{Attributes, Files};
use super::command::Call;
use super::objects::{Objects, from_gix, to_gix};
use super::repo::{Repo, Setting};
use super::sterile::{self, Sterile};
use super::{Error, Result};
use crate::model::agent::Oid;
use crate::runtime::files;
use gix::ObjectId;
use gix::objs::Write as _;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// One round's private store; gone when dropped.
#[derive(Debug)]
pub struct Store {
    repo: Repo,
    sterile: Sterile,
    objects: Objects,
    rules: String,
    counter: AtomicU32,
    written: AtomicU64,
    /// The attribute files of a commit, and directories with them.
    attributes: Mutex<HashMap<Oid, Arc<Files>>>,
    trees: Mutex<HashMap<Option<Oid>, PathBuf>>,
}

/// Nobody keeps what is written here: neither small nor safe, but quick. Objects are named by their whole ids, so git
/// need not look ten times for a reference of that name.
const QUICK: &str = "[core]\nlooseCompression = 0\ncreateObject = rename\nwarnAmbiguousRefs = false\n";

impl Store {
    /// A new, empty one.
    pub fn open(repo: &Repo) -> Result<Store> {
        let settings = repo.settings()?;
        let rules = settings_for_merging(settings);
        let sterile = Sterile::in_memory(repo, &format!("{rules}{QUICK}"))?;
        Attributes::read(repo, settings).write_for_all(&sterile)?;
        sterile::copy(&repo.common_dir.join("info/exclude"), &sterile.dir().join("info/exclude"))?;
        Store::of(repo, sterile, rules)
    }

    /// One in which nothing counts but the commits: no setting and no attributes of anybody's.
    pub(super) fn plain(repo: &Repo) -> Result<Store> {
        let sterile = Sterile::in_memory(repo, "[core]\nlooseCompression = 0\n")?;
        Store::of(repo, sterile, String::new())
    }

    fn of(repo: &Repo, sterile: Sterile, rules: String) -> Result<Store> {
        let objects = Objects::open_private(sterile.dir())?;
        Ok(Store {
            repo: repo.clone(),
            sterile,
            objects,
            rules,
            counter: AtomicU32::new(0),
            written: AtomicU64::new(0),
            attributes: Default::default(),
            trees: Default::default(),
        })
    }

    /// The repository it belongs to.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// How many bytes snapshots have taken in it, about.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The repository's objects and those of the store.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Everything that decides a merge beside the trees and the attributes of the place where landing happens.
    pub fn rules(&self) -> Result<String> {
        let replaced = sterile::replacements(&self.repo)?;
        let shared = Attributes::read(&self.repo, self.repo.settings()?);
        Ok(format!("{}\n{}\n{replaced:?}\n{shared:?}", self.repo.version, self.rules))
    }

    /// A call in it. What it writes is not synced.
    pub(super) fn call(&self, worktree: &Path, args: &[&str]) -> Call {
        self.sterile.call(worktree, ["-c", "core.fsync=none"].iter().chain(args))
    }

    /// `call`, which then finds the objects that are only here.
    pub fn lend(&self, call: Call) -> Call {
        use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
        let objects = sterile::quote_c(self.sterile.dir().join("objects").as_os_str().as_bytes());
        call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", std::ffi::OsString::from_vec(objects))
    }

    /// A path in it that nothing has yet.
    pub(super) fn new_path(&self, what: &str) -> PathBuf {
        self.sterile.dir().join(format!("{what}-{}", self.counter.fetch_add(1, Ordering::Relaxed)))
    }

    pub(super) fn sterile(&self) -> &Sterile {
        &self.sterile
    }

    /// Writes an object.
    pub(super) fn put(&self, kind: gix::objs::Kind, bytes: &[u8]) -> Result<ObjectId> {
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let hash = self.objects.local().object_hash();
        let loose = gix::odb::loose::Store::at(self.sterile.dir().join("objects"), hash);
        loose.write_buf(kind, bytes).map_err(|e| {
            let deepest = std::iter::successors(Some(&e as &dyn std::error::Error), |e| e.source()).last();
            let why = deepest.map_or_else(String::new, ToString::to_string);
            Error::Object(format!("the private store '{}' cannot be written: {why}", self.sterile.dir().display()))
        })
    }

    /// A commit of `tree`, with a fixed identity and a date that its first parent decides.
    pub fn commit(&self, tree: &Oid, parents: &[Oid]) -> Result<Oid> {
        self.commit_as(tree, parents, "not committed\n")
    }

    /// The same in `objects`, the repository's, with all of it that is not there: for a worktree to stand on. Durable;
    /// the caller holds the repository's lock.
    pub fn give(&self, objects: &Objects, tree: &Oid, parents: &[Oid]) -> Result<Oid> {
        let commit = self.commit_as(tree, parents, "Merged to be tested\n")?;
        objects.take_over(&self.objects, tree, &commit)?;
        Ok(commit)
    }

    fn commit_as(&self, tree: &Oid, parents: &[Oid], message: &str) -> Result<Oid> {
        let first = parents.first().map(|p| self.objects.commit(p)).transpose()?.flatten();
        let who = gix::actor::Signature {
            name: "git-agents".into(),
            email: "git-agents@localhost".into(),
            time: gix::date::Time::new(first.map_or(0, |c| c.time), 0),
        };
        let commit = gix::objs::Commit {
            tree: to_gix(tree)?,
            parents: parents.iter().map(to_gix).collect::<Result<_>>()?,
            author: who.clone(),
            committer: who,
            encoding: None,
            message: message.into(),
            extra_headers: Vec::new(),
        };
        let mut bytes = Vec::new();
        gix::objs::WriteTo::write_to(&commit, &mut bytes).map_err(|e| Error::Object(e.to_string()))?;
        Ok(from_gix(self.put(gix::objs::Kind::Commit, &bytes)?))
    }

    /// A directory that holds only the attribute files of `commit`: git reads attributes where it works.
    /// The `.gitattributes` files of a commit; looked for once.
    pub fn files_of(&self, commit: &Oid) -> Result<Arc<Files>> {
        let known = || self.attributes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(files) = known().get(commit) {
            return Ok(files.clone());
        }
        let files = Arc::new(super::attributes::files_of(&self.objects, commit)?);
        known().insert(commit.clone(), files.clone());
        Ok(files)
    }

    pub(super) fn attributes_of(&self, commit: Option<&Oid>) -> Result<PathBuf> {
        let mut trees = self.trees.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = commit.cloned();
        if let Some(dir) = trees.get(&key) {
            return Ok(dir.clone());
        }
        let dir = self.new_path("tree");
        files::ensure_private_dir(&dir)?;
        if let Some(commit) = commit {
            self.files_of(commit)?.write(&self.objects, &dir)?;
        }
        trees.insert(key, dir.clone());
        Ok(dir)
    }
}

/// The settings of the user that decide how git merges and converts, by value; nothing that runs a program.
fn settings_for_merging(settings: &[Setting]) -> String {
    let allowed = [
        "merge.default",
        "merge.renames",
        "merge.renamelimit",
        "merge.directoryrenames",
        "merge.renormalize",
        "diff.renames",
        "diff.renamelimit",
        "diff.algorithm",
        "core.autocrlf",
        "core.eol",
        "core.filemode",
        "core.symlinks",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.bigfilethreshold",
    ];
    let mut out = String::new();
    for (_, key, value) in settings {
        if allowed.contains(&key.as_str())
            && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && let Some((section, name)) = key.split_once('.')
        {
            out.push_str(&format!("[{section}]\n{name} = {value}\n"));
        }
    }
    out
}
