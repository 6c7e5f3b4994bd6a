//! Captures: a commit with the exact bytes of a worktree and its index, under a reference of ours, for giving back.
//!
//! First parent the tip, second the index as a commit (one for each stage while paths are unmerged), then every commit
//! that only this worktree names. Files go in byte for byte, without filters; ignored files never. One `fast-import`
//! writes it all, so many files make one pack, in a private git dir; the objects are moved into the repository when all
//! are there, the reference appears last, is synced and then walked.

pub mod back;
mod carry;
mod stream;

use super::objects::Objects;
use super::repo::Repo;
use super::status::{self, Changes, Place, RelPath};
use super::sterile::{Sterile, quote_c};
use super::worktree::Entry;
use super::{Error, Result, refs};
use crate::model::agent::Oid;
use crate::runtime::files::{self, because};
pub use carry::Work;
use gix::index::entry::Flags;
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use stream::{Blob, Named, Stream};

/// What was captured.
#[derive(Debug, Clone)]
pub struct Capture {
    /// The reference that keeps it.
    pub reference: String,
    /// The commit.
    pub commit: Oid,
    /// What could not go in, with the reason: too large, another repository, not readable.
    pub skipped: Vec<(RelPath, String)>,
}

/// What else a capture says, and how much it takes.
#[derive(Debug)]
pub struct Options<'a> {
    /// The new reference.
    pub reference: &'a str,
    /// For people and for giving back.
    pub about: serde_json::Value,
    /// Bytes; larger files are listed instead.
    pub max_file: u64,
    /// Further commits to keep.
    pub also: &'a [Oid],
}

/// Captures the worktree of `entry` as it is now. Durable and verified when it returns.
pub fn take(
    repo: &Repo,
    objects: &Objects,
    entry: &Entry,
    head: Option<&Oid>,
    options: &Options<'_>,
) -> Result<Capture> {
    let place = Place { worktree: &entry.path, admin: &entry.admin, head };
    let changes = status::changes(repo, objects, &place)?;
    let hash = if repo.object_format == "sha256" { gix::hash::Kind::Sha256 } else { gix::hash::Kind::Sha1 };
    let index_path = entry.admin.join("index");
    let index = if index_path.exists() {
        Some(
            gix::index::File::at(index_path, hash, true, Default::default())
                .map_err(|e| Error::Object(e.to_string()))?,
        )
    } else {
        None
    };
    let mut stream = Stream::new();
    let mut skipped: Vec<(RelPath, String)> = Vec::new();
    // In a private git dir, from which the finished objects are moved: a kill leaves nothing in the repository.
    let sterile = Sterile::new(repo, "")?;
    let import = ["-c", "core.fsync=all", "fast-import", "--quiet", "--done", "--force", "--date-format=raw"];
    let mut child = sterile.call(sterile.dir(), import).spawn()?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let written = (|| -> Result<()> {
        let mut kept = stream.index_commits(options.reference, index.as_ref(), &changes, head);
        let named = index.as_ref().map(|i| beside(repo, objects, entry, i)).transpose()?.unwrap_or_default();
        if !named.is_empty() {
            kept.push(stream.keep_blobs(options.reference, &named));
        }
        let (commits, trees) = own(repo, objects, entry, head, options.also);
        kept.extend(trees.iter().map(|t| stream.keep_tree(options.reference, t)).collect::<Vec<_>>());
        // Everything that is not as committed, hidden files included.
        let mut paths: BTreeSet<&RelPath> = changes.all().collect();
        let hidden = status::hidden(repo, &place).unwrap_or_default();
        paths.extend(hidden.iter().map(|(p, _)| p));
        let sparse: BTreeSet<&RelPath> =
            hidden.iter().map(|(p, _)| p).filter(|p| !on_disk(&entry.path, p).exists()).collect();
        let mut commands: Vec<Vec<u8>> = Vec::new();
        let mut removals: Vec<Vec<u8>> = Vec::new();
        for path in paths.iter().filter(|p| !sparse.contains(**p)) {
            let file = on_disk(&entry.path, path);
            match stream.blob(&file, options.max_file) {
                Ok(Blob::Data { mode, mark }) => {
                    commands.push([format!("M {mode} :{mark} ").as_bytes(), &quote_c(path), b"\n"].concat());
                }
                Ok(Blob::Gone) => removals.push([b"D ", quote_c(path).as_slice(), b"\n"].concat()),
                Ok(Blob::Directory) if path.ends_with(b"/") => {
                    skipped.push(((*path).clone(), "another repository".into()));
                }
                Ok(Blob::Directory) => removals.push([b"D ", quote_c(path).as_slice(), b"\n"].concat()),
                Err(why) => skipped.push(((*path).clone(), why)),
            }
            // Bounded memory: what has been read goes to git at once.
            stdin
                .write_all(&std::mem::take(&mut stream.out))
                .map_err(because("write to", Path::new("git fast-import")))?;
        }
        let modes = unusual_modes(&entry.path, index.as_ref(), &changes);
        let mut about = options.about.clone();
        about["version"] = json!(1);
        about["modes"] = json!(modes);
        about["skipped"] =
            json!(skipped.iter().map(|(p, why)| json!({"path": show(p), "why": why})).collect::<Vec<_>>());
        stream.commit_head(options.reference, &serde_json::to_vec(&about).expect("plain JSON"));
        if let Some(head) = head {
            stream.line(format!("from {head}"));
        }
        for mark in kept {
            stream.line(format!("merge :{mark}"));
        }
        for id in commits {
            stream.line(format!("merge {id}"));
        }
        for c in removals.iter().chain(&commands) {
            stream.out.extend_from_slice(c);
        }
        stream.line("done".into());
        stdin.write_all(&stream.out).map_err(because("write to", Path::new("git fast-import")))?;
        Ok(())
    })();
    drop(stdin);
    let out = child.wait_with_output().map_err(Error::NoGit)?;
    if !out.status.success() {
        return Err(super::command::failed("fast-import", &out, Some(&repo.common_dir)));
    }
    written?;
    let commit = files::read_limited(&sterile.dir().join(options.reference), 1 << 12)?
        .and_then(|b| Oid::parse(String::from_utf8_lossy(&b).trim()))
        .ok_or_else(|| Error::Damaged { what: options.reference.to_owned(), why: "the capture is not there".into() })?;
    hand_over(&sterile.dir().join("objects"), &repo.common_dir.join("objects"))?;
    refs::update_ours(repo, options.reference, &commit, None)?;
    verify(repo, &commit, head)?;
    Ok(Capture { reference: options.reference.to_owned(), commit, skipped })
}

/// Moves all objects from one object directory to another; durable.
fn hand_over(from: &Path, to: &Path) -> Result<()> {
    let mut touched = BTreeSet::from([to.to_owned()]);
    for dir in std::fs::read_dir(from).map_err(because("read", from))? {
        let dir = dir.map_err(because("read", from))?;
        let name = dir.file_name();
        if !(name == "pack" || name.len() == 2) {
            continue;
        }
        let target = to.join(&name);
        match std::fs::create_dir(&target) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(because("create", &target)(e).into()),
            _ => {}
        }
        let found = std::fs::read_dir(dir.path()).map_err(because("read", &dir.path()))?;
        let mut objects: Vec<_> = found.filter_map(std::result::Result::ok).map(|e| e.file_name()).collect();
        // A pack counts as soon as its index is there.
        objects.sort_by_key(|n| (n.as_bytes().ends_with(b".idx"), n.clone()));
        for o in objects.iter().filter(|n| !n.as_bytes().starts_with(b"tmp_")) {
            match files::rename_new(&dir.path().join(o), &target.join(o)) {
                Err(e) if e.kind() == Some(std::io::ErrorKind::AlreadyExists) => {}
                other => other?,
            }
        }
        touched.insert(target);
    }
    for dir in &touched {
        files::sync_dir(dir)?;
    }
    Ok(())
}

/// Walks every object the capture added; an error where one is missing.
pub fn verify(repo: &Repo, commit: &Oid, tip: Option<&Oid>) -> Result<()> {
    let mut call = repo.call(["rev-list", "--objects", "--quiet", &commit.0]);
    if let Some(tip) = tip {
        call.arg(format!("^{tip}"));
    }
    call.run().map(drop)
}

fn on_disk(worktree: &Path, path: &[u8]) -> std::path::PathBuf {
    worktree.join(OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)))
}

fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Files whose mode git cannot keep: path and octal mode.
fn unusual_modes(worktree: &Path, index: Option<&gix::index::File>, changes: &Changes) -> Vec<(String, String)> {
    let tracked = index.map(|i| i.entries().iter().map(|e| e.path(i).to_vec()).collect::<Vec<_>>()).unwrap_or_default();
    let paths: BTreeSet<RelPath> = tracked.into_iter().chain(changes.untracked.iter().cloned()).collect();
    let mut out = Vec::new();
    for p in paths {
        if let Ok(m) = std::fs::symlink_metadata(on_disk(worktree, &p))
            && m.is_file()
            && !matches!(m.mode() & 0o7777, 0o644 | 0o755)
        {
            out.push((show(&p), format!("{:o}", m.mode() & 0o7777)));
        }
    }
    out
}

/// Blobs that an index names and no version of its files is: of files that are meant to be added, and of conflicts that
/// were resolved. git keeps them as long as the index; so do we.
fn beside(repo: &Repo, objects: &Objects, entry: &Entry, index: &gix::index::File) -> Result<Vec<Named>> {
    let meant = index.entries().iter().filter(|e| e.flags.contains(Flags::INTENT_TO_ADD));
    let mut out: Vec<Named> = meant
        .map(|e| Named {
            mode: "100644".into(),
            id: e.id.to_hex().to_string(),
            why: "add".into(),
            path: e.path(index).to_vec(),
        })
        .collect();
    if index.resolve_undo().is_some_and(|r| !r.is_empty()) {
        let listed = repo.call_in(&entry.path, &entry.admin, ["ls-files", "--resolve-undo", "-z"]).run()?;
        out.extend(listed.split(|b| *b == 0).filter_map(|line| {
            let tab = line.iter().position(|b| *b == b'\t')?;
            let mut words = std::str::from_utf8(&line[..tab]).ok()?.split(' ').map(str::to_owned);
            let (mode, id, why) = (words.next()?, words.next()?, words.next()?);
            Some(Named { mode, id, why, path: line[tab + 1..].to_vec() })
        }));
    }
    out.retain(|n| objects.has(&Oid(n.id.clone())));
    Ok(out)
}

/// Commits that the worktree of `entry` names and none of `kept` reaches.
pub fn only_there(repo: &Repo, objects: &Objects, entry: &Entry, kept: &[Oid]) -> Result<Vec<Oid>> {
    let (commits, _) = own(repo, objects, entry, None, &[]);
    objects.unreachable(&commits, kept)
}

/// Commits and trees that this worktree alone may name: its reflog, the heads of operations and what they will apply,
/// its private references; and `also`.
fn own(repo: &Repo, objects: &Objects, entry: &Entry, head: Option<&Oid>, also: &[Oid]) -> (Vec<Oid>, Vec<Oid>) {
    let admin = &entry.admin;
    let mut found: Vec<Oid> = also.to_vec();
    let mut add = |text: &str| {
        found.extend(text.split_ascii_whitespace().filter_map(Oid::parse).filter(|i| !i.0.bytes().all(|b| b == b'0')));
    };
    if repo.reftable {
        // Its references and their logs are in no file that could be read here.
        let mut ask = |args: &[&str]| {
            let out = repo.call_in(&entry.path, admin, args).output();
            add(&out.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default());
        };
        ask(&["for-each-ref", "--format=%(objectname)", "refs/worktree", "refs/bisect", "refs/rewritten"]);
        ask(&["log", "-g", "--format=%H", "HEAD", "--"]);
        for name in ["ORIG_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "AUTO_MERGE"] {
            ask(&["rev-parse", "--verify", "--quiet", name]);
        }
    }
    // Everything git keeps an id in lies in files of these places; their names differ by operation and version.
    let mut todo: Vec<PathBuf> =
        ["refs", "rebase-merge", "rebase-apply", "sequencer", "logs"].iter().map(|d| admin.join(d)).collect();
    let top = std::fs::read_dir(admin).into_iter().flatten().filter_map(std::result::Result::ok);
    todo.extend(top.map(|e| e.path()).filter(|p| {
        let name = p.file_name().unwrap_or_default().as_bytes();
        name != b"FETCH_HEAD" && name.iter().all(|b| b.is_ascii_uppercase() || *b == b'_')
    }));
    while let Some(path) = todo.pop() {
        match std::fs::read_dir(&path) {
            Ok(entries) => todo.extend(entries.filter_map(std::result::Result::ok).map(|e| e.path())),
            // Patches lie there too: they name blobs in short, and are no file of ours to search.
            Err(_) => {
                if let Ok(Some(bytes)) = files::read_limited(&path, 16 << 20) {
                    add(&String::from_utf8_lossy(&bytes));
                }
            }
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|id| seen.insert(id.clone()));
    let (commits, rest): (Vec<Oid>, Vec<Oid>) =
        found.into_iter().partition(|id| objects.commit(id).is_ok_and(|c| c.is_some()));
    let trees = rest.into_iter().filter(|id| objects.has(id) && objects.tree(id).is_ok()).collect();
    // Where the walk fails, all of them: more is kept than needed.
    let beyond = objects.unreachable(&commits, head.map(std::slice::from_ref).unwrap_or_default());
    (beyond.unwrap_or(commits), trees)
}
