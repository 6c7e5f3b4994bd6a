//! Captures: a commit with the exact bytes of a worktree and its index, under a reference of ours, for giving back.
//!
//! First parent the tip, second the index as a commit (one for each stage while paths are unmerged), then every commit
//! that only this worktree names. Files go in byte for byte, without filters; ignored files never. One `fast-import`
//! writes it all, so many files make one pack; the reference appears last, is synced and then walked.

use super::objects::Objects;
use super::repo::Repo;
use super::status::{self, Changes, Place, RelPath};
use super::sterile::quote_c;
use super::worktree::Entry;
use super::{Error, Result, refs};
use crate::model::agent::Oid;
use crate::runtime::files::because;
use gix::index::entry::{Flags, Mode};
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

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
    let mut stream = Stream { out: Vec::new(), next_mark: 0, skipped: Vec::new() };
    let mut child = repo
        .call(["-c", "core.fsync=all", "fast-import", "--quiet", "--done", "--force", "--date-format=raw"])
        .spawn()?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let written = (|| -> Result<()> {
        let index_commits = stream.index_commits(options.reference, index.as_ref(), &changes, head);
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
                    stream.skipped.push(((*path).clone(), "another repository".into()));
                }
                Ok(Blob::Directory) => removals.push([b"D ", quote_c(path).as_slice(), b"\n"].concat()),
                Err(why) => stream.skipped.push(((*path).clone(), why)),
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
            json!(stream.skipped.iter().map(|(p, why)| json!({"path": show(p), "why": why})).collect::<Vec<_>>());
        stream.commit_head(options.reference, &serde_json::to_vec(&about).expect("plain JSON"));
        if let Some(head) = head {
            stream.line(format!("from {head}"));
        }
        for mark in index_commits {
            stream.line(format!("merge :{mark}"));
        }
        for id in own_commits(objects, &entry.admin, head) {
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
        return Err(super::command::failed("fast-import", &out));
    }
    written?;
    refs::sync(repo, options.reference)?;
    let commit = refs::read(repo, options.reference)?
        .ok_or_else(|| Error::Damaged { what: options.reference.to_owned(), why: "the capture is not there".into() })?;
    verify(repo, &commit, head)?;
    Ok(Capture { reference: options.reference.to_owned(), commit, skipped: stream.skipped })
}

/// Removes the reports that `fast-import` leaves in the repository when we die while it listens. The caller holds the
/// repository's lock.
pub(super) fn heal(repo: &Repo) {
    for e in std::fs::read_dir(&repo.common_dir).into_iter().flatten().filter_map(std::result::Result::ok) {
        let ours = e.file_name().to_str().is_some_and(|n| n.starts_with("fast_import_crash_"))
            && crate::runtime::files::read_limited(&e.path(), 1 << 20)
                .is_ok_and(|b| b.unwrap_or_default().windows(OURS.len()).any(|w| w == OURS));
        if ours {
            let _ = std::fs::remove_file(e.path());
        }
    }
}

const OURS: &[u8] = b" refs/agents/";

/// Walks every object the capture added; an error where one is missing.
pub fn verify(repo: &Repo, commit: &Oid, tip: Option<&Oid>) -> Result<()> {
    let mut call = repo.call(["rev-list", "--objects", "--quiet", &commit.0]);
    if let Some(tip) = tip {
        call.arg(format!("^{tip}"));
    }
    call.run().map(drop)
}

struct Stream {
    out: Vec<u8>,
    next_mark: u32,
    skipped: Vec<(RelPath, String)>,
}

enum Blob {
    Data { mode: &'static str, mark: u32 },
    Directory,
    Gone,
}

const WHO: &str = "git-agents <git-agents@localhost>";

impl Stream {
    fn line(&mut self, text: String) {
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'\n');
    }

    fn data(&mut self, bytes: &[u8]) {
        self.line(format!("data {}", bytes.len()));
        self.out.extend_from_slice(bytes);
        self.out.push(b'\n');
    }

    /// Begins a commit without history of its own on `reference`; its mark.
    fn commit_head(&mut self, reference: &str, message: &[u8]) -> u32 {
        self.line(format!("reset {reference}"));
        self.line(String::new());
        self.line(format!("commit {reference}"));
        self.next_mark += 1;
        let mark = self.next_mark;
        self.line(format!("mark :{mark}"));
        let now = jiff::Timestamp::now().as_second();
        self.line(format!("committer {WHO} {now} +0000"));
        self.data(message);
        mark
    }

    /// The index as commits: one, or one for each stage.
    fn index_commits(
        &mut self,
        reference: &str,
        index: Option<&gix::index::File>,
        changes: &Changes,
        head: Option<&Oid>,
    ) -> Vec<u32> {
        let Some(index) = index else { return Vec::new() };
        let stages: &[u32] = if changes.conflicted.is_empty() { &[0] } else { &[0, 1, 2, 3] };
        let mut marks = Vec::new();
        for stage in stages {
            let mark = self.commit_head(reference, format!("index, stage {stage}\n").as_bytes());
            if let Some(head) = head {
                self.line(format!("from {head}"));
            }
            let touched: BTreeSet<&RelPath> = changes.modified.iter().chain(&changes.conflicted).collect();
            let mut found = Vec::new();
            for e in index.entries() {
                let path = e.path(index).to_vec();
                if e.stage_raw() == *stage && touched.contains(&path) && !e.flags.contains(Flags::INTENT_TO_ADD) {
                    found.push((path, e.mode, e.id.to_hex().to_string()));
                }
            }
            for path in touched.iter().filter(|p| !found.iter().any(|(f, _, _)| f == **p)) {
                self.out.extend([b"D ", quote_c(path).as_slice(), b"\n"].concat());
            }
            for (path, mode, id) in found {
                let mode = match mode {
                    Mode::FILE_EXECUTABLE => "100755",
                    Mode::SYMLINK => "120000",
                    Mode::COMMIT => "160000",
                    _ => "100644",
                };
                self.out.extend([format!("M {mode} {id} ").as_bytes(), &quote_c(&path), b"\n"].concat());
            }
            self.line(String::new());
            marks.push(mark);
        }
        marks
    }

    fn blob(&mut self, file: &Path, max: u64) -> std::result::Result<Blob, String> {
        let meta = match std::fs::symlink_metadata(file) {
            Ok(m) => m,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                return Ok(Blob::Gone);
            }
            Err(e) => return Err(e.to_string()),
        };
        let (mode, bytes) = if meta.file_type().is_symlink() {
            ("120000", std::fs::read_link(file).map_err(|e| e.to_string())?.as_os_str().as_bytes().to_vec())
        } else if meta.is_dir() {
            return Ok(Blob::Directory);
        } else if !meta.is_file() {
            return Err("not a file".into());
        } else if meta.len() > max {
            return Err(format!("larger than {max} bytes"));
        } else {
            let mode = if meta.permissions().mode() & 0o100 != 0 { "100755" } else { "100644" };
            (mode, std::fs::read(file).map_err(|e| e.to_string())?)
        };
        self.line("blob".into());
        self.next_mark += 1;
        let mark = self.next_mark;
        self.line(format!("mark :{mark}"));
        self.data(&bytes);
        Ok(Blob::Data { mode, mark })
    }
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

/// Commits that this worktree alone may name: its reflog, the heads of operations, its private references.
pub fn own_commits(objects: &Objects, admin: &Path, head: Option<&Oid>) -> Vec<Oid> {
    let mut found: Vec<Oid> = Vec::new();
    let mut add = |text: &str| {
        for word in text.split_ascii_whitespace().take(2) {
            if let Some(id) = Oid::parse(word).filter(|i| !i.0.bytes().all(|b| b == b'0')) {
                found.push(id);
            }
        }
    };
    let read = |p: &Path| std::fs::read_to_string(p).unwrap_or_default();
    for name in [
        "ORIG_HEAD",
        "MERGE_HEAD",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
        "REBASE_HEAD",
        "AUTO_MERGE",
        "BISECT_EXPECTED_REV",
    ] {
        read(&admin.join(name)).lines().for_each(&mut add);
    }
    for name in [
        "rebase-merge/orig-head",
        "rebase-merge/onto",
        "rebase-merge/stopped-sha",
        "rebase-apply/orig-head",
        "rebase-apply/onto",
    ] {
        read(&admin.join(name)).lines().for_each(&mut add);
    }
    read(&admin.join("logs/HEAD")).lines().for_each(&mut add);
    let mut todo = vec![admin.join("refs")];
    while let Some(dir) = todo.pop() {
        for e in std::fs::read_dir(dir).into_iter().flatten().filter_map(std::result::Result::ok) {
            if e.file_type().is_ok_and(|t| t.is_dir()) {
                todo.push(e.path());
            } else {
                read(&e.path()).lines().for_each(&mut add);
            }
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|id| seen.insert(id.clone()));
    found.retain(|id| objects.commit(id).is_ok_and(|c| c.is_some()));
    found.retain(|id| head.is_none_or(|h| !objects.is_ancestor(id, h).unwrap_or(false)));
    found
}
