//! Merging for a person, in their own checkout: by git itself, with their hooks and settings; and back again where that
//! came to no end.
//!
//! Going back touches nothing but the paths that the merge changes, and of those only what it is known to have written:
//! a file that was dirty before, or is neither the old nor (as far as it was written) the new one, stays as it is.

use super::command::Call;
use super::locks::Mark;
use super::objects::Objects;
use super::repo::Repo;
use super::{Error, Result, refs, status, worktree};
use crate::model::agent::Oid;
use crate::model::meet::{ChangeSet, Delta, Entry};
use crate::model::text::safe_path;
use crate::runtime::files::{self, because};
use crate::runtime::{clock, process};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A worktree of the user's, or one that is made for a merge alone.
#[derive(Debug, Clone)]
pub struct At {
    /// The top of its tree.
    pub path: PathBuf,
    /// Its git directory.
    pub admin: PathBuf,
    /// What is checked out, full name; `HEAD` where that is a commit.
    pub branch: String,
    /// By what every process of a merge there is found again.
    pub mark: Option<(&'static str, String)>,
}

/// What git shall do.
#[derive(Debug, Clone, Copy)]
pub enum How<'a> {
    /// A merge commit with the message in this file.
    Merge(&'a Path),
    /// One commit with the message in this file.
    Squash(&'a Path),
    /// Nothing but moving forward.
    Forward,
}

impl At {
    /// A linked worktree that has `branch` checked out.
    pub fn of(entry: &worktree::Entry, branch: &str) -> At {
        At { path: entry.path.clone(), admin: entry.admin.clone(), branch: branch.to_owned(), mark: None }
    }

    /// A call as the user would make it there. The main worktree is found as git finds it, so that hooks see what they
    /// always see; in any other nothing inside decides which repository is meant.
    fn call(&self, repo: &Repo, args: &[&str]) -> Call {
        let call =
            Call::user_visible(&self.path, ["-c", "gc.auto=0", "-c", "maintenance.auto=false"].iter().chain(args));
        let mut call = call.as_person();
        if let Some((name, value)) = &self.mark {
            call = call.env(name, value);
        }
        if self.admin == repo.common_dir {
            return call;
        }
        call.env("GIT_DIR", &self.admin).env("GIT_COMMON_DIR", &repo.common_dir).env("GIT_WORK_TREE", &self.path)
    }

    fn neutral(&self, repo: &Repo, args: &[&str]) -> Call {
        repo.call_in(&self.path, &self.admin, args)
    }

    /// Runs one that changes the worktree, with a mark for the locks it takes. Its standard error, whatever came of it.
    fn change(&self, repo: &Repo, call: Call, shown: &str) -> (String, Result<()>) {
        let mark = Mark::of_worktree(repo, &self.admin, &self.branch);
        let (said, result) = match call.output_alone(&repo.agents_dir()) {
            Ok(out) => {
                let said = String::from_utf8_lossy(&out.stderr).into_owned();
                // Of a merge that stops git tells on standard output.
                let failed = || {
                    let stderr =
                        if out.stderr.trim_ascii().is_empty() { out.stdout.clone() } else { out.stderr.clone() };
                    super::command::failed(shown, &std::process::Output { stderr, ..out.clone() }, Some(&self.path))
                };
                (said, if out.status.success() { Ok(()) } else { Err(failed()) })
            }
            Err(e) => (String::new(), Err(e)),
        };
        mark.end(&result);
        if result.is_err() {
            self.sweep();
        }
        (said, result)
    }

    /// Removes the temporary index of a stash that a killed `git merge` was making: nobody uses it, and its name says
    /// whose it was.
    pub fn sweep(&self) {
        for e in std::fs::read_dir(&self.admin).into_iter().flatten().filter_map(std::result::Result::ok) {
            let name = e.file_name();
            let of = name.to_str().and_then(|n| n.strip_prefix("index.stash."));
            let pid = of.and_then(|n| n.split('.').next()).and_then(|n| n.parse().ok());
            if pid.is_some_and(|pid| process::identify(pid).is_none()) {
                let _ = std::fs::remove_file(e.path());
            }
        }
    }

    /// Brings `tip` in. What git and its hooks said on standard error, and whether it came to its end.
    pub fn merge(&self, repo: &Repo, how: How<'_>, tip: &Oid) -> (String, Result<()>) {
        let file = |p: &Path| p.to_string_lossy().into_owned();
        match how {
            How::Merge(message) => {
                let file = file(message);
                // The options of the branch (`branch.<name>.mergeOptions`) must not make something else of it.
                let args =
                    ["merge", "--no-ff", "--no-squash", "--commit", "--no-autostash", "--no-edit", "-F", &file, &tip.0];
                self.change(repo, self.call(repo, &args), "merge")
            }
            How::Forward => {
                let args = ["merge", "--ff-only", "--no-squash", "--no-autostash", &tip.0];
                self.change(repo, self.call(repo, &args), "merge --ff-only")
            }
            How::Squash(message) => {
                let args = ["merge", "--ff", "--squash", "--no-autostash", &tip.0];
                let (said, merged) = self.change(repo, self.call(repo, &args), "merge --squash");
                if merged.is_err() {
                    return (said, merged);
                }
                let file = file(message);
                let args = ["commit", "--quiet", "--no-edit", "-F", &file];
                let (more, committed) = self.change(repo, self.call(repo, &args), "commit");
                (said + &more, committed)
            }
        }
    }

    /// Whether anything is staged.
    pub fn has_staged(&self, repo: &Repo) -> Result<bool> {
        Ok(!self.neutral(repo, &["diff-index", "--cached", "--quiet", "--ignore-submodules", "HEAD", "--"]).yes_no()?)
    }

    /// The commit that is checked out.
    pub fn head(&self, repo: &Repo) -> Result<Oid> {
        let text = self.neutral(repo, &["rev-parse", "--verify", "HEAD"]).text()?;
        Oid::parse(&text).ok_or_else(|| Error::Object(format!("'{text}' is no commit")))
    }

    /// The operation that is in the middle of something.
    pub fn operation(&self) -> Option<String> {
        worktree::operation(&self.admin)
    }

    /// What is not committed there.
    pub fn dirty(&self, repo: &Repo, objects: &Objects, head: &Oid) -> Result<BTreeSet<Vec<u8>>> {
        let place = status::Place { worktree: &self.path, admin: &self.admin, head: Some(head) };
        Ok(status::changes(repo, objects, &place)?.all().cloned().collect())
    }

    /// Files that git does not know, ignored ones too, at places where `changes` puts something else. git overwrites the
    /// ignored ones without a word.
    pub fn in_the_way(&self, objects: &Objects, changes: &ChangeSet) -> Vec<Vec<u8>> {
        let file = |p: &[u8]| self.path.join(OsStr::from_bytes(p));
        let mut out = Vec::new();
        for (path, delta) in &changes.files {
            let (None, Some(new)) = (&delta.old, &delta.new) else { continue };
            let parents = Path::new(OsStr::from_bytes(path)).ancestors().skip(1).filter(|a| !a.as_os_str().is_empty());
            let above = parents
                .map(|a| a.as_os_str().as_bytes().to_vec())
                .find(|a| !changes.files.contains_key(a) && file(a).symlink_metadata().is_ok_and(|m| !m.is_dir()));
            if let Some(above) = above {
                out.push(above);
                continue;
            }
            match file(path).symlink_metadata() {
                Ok(m) if m.is_dir() => {
                    // Of the files below, git takes away those it knows.
                    let known = |p: &[u8]| changes.files.get(p).is_some_and(|d| d.old.is_some());
                    out.extend(below(&self.path, path).into_iter().find(|p| !known(p)));
                }
                Ok(_) if !objects.is_blob_of_file(&new.id, &file(path)) => out.push(path.clone()),
                _ => {}
            }
        }
        out.sort();
        out.dedup();
        out
    }

    /// Puts back what a merge that `changes` something left there without coming to its end. `keep`: what was dirty before.
    /// `insist`: it was begun by this very command, so that whatever is staged is the merge's; else only what is exactly
    /// the merge's is touched, and anything else is an error. What a hook (or somebody, meanwhile) made of the merge's
    /// files goes back too, and is kept in the commit that comes out.
    pub fn back(
        &self,
        repo: &Repo,
        objects: &Objects,
        old: &Oid,
        changes: &ChangeSet,
        keep: &BTreeSet<Vec<u8>>,
        insist: bool,
    ) -> Result<Option<Oid>> {
        let squash = self.admin.join("SQUASH_MSG");
        let mut aside = None;
        match self.index(repo, changes)? {
            Index::Before => {}
            index if insist => {
                aside = self.put_aside(repo, old, changes, index == Index::Other)?;
                // What is staged beside the merge stays; where that cannot be told apart, git decides.
                if self.index_back(repo, changes).is_err() {
                    let reset = self.neutral(repo, &["reset", "--quiet", "--merge", &old.0]);
                    self.change(repo, reset, "reset --merge").1?;
                }
                let _ = std::fs::remove_file(&squash);
            }
            Index::After => {
                let changed = self.not_as_staged(repo, changes)?;
                if !changed.is_empty() {
                    let shown: Vec<String> = changed.iter().map(|p| format!("'{}'", safe_path(p))).collect();
                    return Err(Error::Damaged {
                        what: format!("the merge in '{}'", crate::model::text::shown_path(&self.path)),
                        why: format!(
                            "changed there since: {}; 'git commit' keeps it, 'git restore' gives it up",
                            shown.join(", ")
                        ),
                    });
                }
                self.index_back(repo, changes)?;
                let _ = std::fs::remove_file(&squash);
            }
            Index::Other => {
                return Err(Error::Damaged {
                    what: format!("the merge in '{}'", crate::model::text::shown_path(&self.path)),
                    why: "what is staged there is not what the merge staged; 'git reset --merge' gives both up".into(),
                });
            }
        }
        if self.admin.join("MERGE_HEAD").exists() {
            self.change(repo, self.neutral(repo, &["merge", "--quit"]), "merge --quit").1?;
        }
        self.files_back(repo, objects, changes, keep)?;
        Ok(aside)
    }

    /// Takes those of `paths` out of the index whose files are as they are staged. Where git gives a merge up by itself it
    /// puts back what was not committed, staged, from a stash of its own.
    pub fn unstage(&self, repo: &Repo, paths: &BTreeSet<Vec<u8>>) -> Result<()> {
        let names = |command: &[&str]| {
            let args = [command, &["--name-only", "-z", "--ignore-submodules", "--no-ext-diff"]].concat();
            let set = |out: Vec<u8>| out.split(|b| *b == 0).map(<[u8]>::to_vec).collect::<BTreeSet<_>>();
            self.neutral(repo, &args).run().map(set)
        };
        if paths.is_empty() {
            return Ok(());
        }
        let (staged, differ) = (names(&["diff-index", "--cached", "HEAD"])?, names(&["diff-files"])?);
        let list: Vec<&[u8]> =
            paths.intersection(&staged).filter(|p| !differ.contains(*p)).map(Vec::as_slice).collect();
        if list.is_empty() {
            return Ok(());
        }
        let args = ["--literal-pathspecs", "reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul"];
        self.change(repo, self.neutral(repo, &args).input(list.join(&0)), "reset").1
    }

    /// Those of `changes` whose file is not as it is staged.
    fn not_as_staged(&self, repo: &Repo, changes: &ChangeSet) -> Result<Vec<Vec<u8>>> {
        self.neutral(repo, &["update-index", "-q", "--refresh"]).output()?;
        let out =
            self.neutral(repo, &["diff-files", "--name-only", "-z", "--ignore-submodules", "--no-ext-diff"]).run()?;
        let mut all: Vec<Vec<u8>> =
            out.split(|b| *b == 0).filter(|p| changes.files.contains_key(*p)).map(<[u8]>::to_vec).collect();
        all.dedup();
        Ok(all)
    }

    /// A commit of the files of `changes` as they are, and those files as they are staged; nothing where they are already
    /// and `staged` does not say that what is staged is to be kept as well.
    fn put_aside(&self, repo: &Repo, old: &Oid, changes: &ChangeSet, staged: bool) -> Result<Option<Oid>> {
        let changed = self.not_as_staged(repo, changes)?;
        if changed.is_empty() && !staged {
            return Ok(None);
        }
        let copy = files::temporary_beside(&repo.agents_dir().join("index"));
        let index = self.admin.join("index");
        std::fs::copy(&index, &copy).map_err(because("copy", &index))?;
        let on_copy = |args: &[&str]| self.neutral(repo, args).env("GIT_INDEX_FILE", &copy);
        let list: Vec<u8> = changed.iter().flat_map(|p| p.iter().copied().chain([0])).collect();
        let commit = (|| {
            on_copy(&["update-index", "--add", "--remove", "-z", "--stdin"]).input(list.clone()).run()?;
            let tree = on_copy(&["write-tree"]).text()?;
            let mut call =
                self.neutral(repo, &["commit-tree", "-p", &old.0, "-m", "What was there when it did not land", &tree]);
            for (name, value) in [("NAME", "git-agents"), ("EMAIL", "git-agents@localhost")] {
                call = call.env(&format!("GIT_AUTHOR_{name}"), value).env(&format!("GIT_COMMITTER_{name}"), value);
            }
            let id = call.text()?;
            Oid::parse(&id).ok_or_else(|| Error::Object(format!("'{id}' is no commit")))
        })();
        let _ = std::fs::remove_file(&copy);
        let commit = commit?;
        let reference =
            format!("refs/agents/removed/{}-landing-{}", clock::compact().to_lowercase(), clock::random_hex(4));
        refs::update_ours(repo, &reference, &commit, None)?;
        refs::sync(repo, &reference)?;
        let call = self.neutral(repo, &["checkout-index", "--force", "-u", "-z", "--stdin"]).input(list);
        // One that is not resolved is in the way of that, and not of git's own reset.
        let _ = self.change(repo, call, "checkout-index");
        Ok(Some(commit))
    }

    /// How the index has the paths of `changes`.
    fn index(&self, repo: &Repo, changes: &ChangeSet) -> Result<Index> {
        let out = self.neutral(repo, &["ls-files", "--stage", "-z"]).run()?;
        let mut found: BTreeMap<&[u8], Entry> = BTreeMap::new();
        for line in out.split(|b| *b == 0).filter(|l| !l.is_empty()) {
            let Some(tab) = line.iter().position(|b| *b == b'\t') else { continue };
            let meta = String::from_utf8_lossy(&line[..tab]).into_owned();
            let [mode, id, stage] = meta.split(' ').collect::<Vec<_>>()[..] else { continue };
            if stage != "0" {
                return Ok(Index::Other);
            }
            if changes.files.contains_key(&line[tab + 1..]) {
                let mode = u16::from_str_radix(mode, 8).unwrap_or(0);
                found.insert(&line[tab + 1..], Entry { mode, id: Oid(id.to_owned()) });
            }
        }
        let is = |side: fn(&Delta) -> &Option<Entry>| {
            changes.files.iter().all(|(path, delta)| found.get(path.as_slice()) == side(delta).as_ref())
        };
        Ok(match (is(|d| &d.old), is(|d| &d.new)) {
            (true, _) => Index::Before,
            (false, true) => Index::After,
            (false, false) => Index::Other,
        })
    }

    /// The index and its files from after the changes to before them; what else is staged stays.
    fn index_back(&self, repo: &Repo, changes: &ChangeSet) -> Result<()> {
        let copy = files::temporary_beside(&repo.agents_dir().join("index"));
        let index = self.admin.join("index");
        std::fs::copy(&index, &copy).map_err(because("copy", &index))?;
        let on_copy = |args: &[&str]| self.neutral(repo, args).env("GIT_INDEX_FILE", &copy);
        let trees = (|| {
            let now = on_copy(&["write-tree"]).text()?;
            let mut lines = Vec::new();
            for (path, delta) in &changes.files {
                let (mode, id) = match &delta.old {
                    Some(e) => (format!("{:06o}", e.mode), e.id.0.clone()),
                    None => ("0".to_owned(), "0".repeat(repo.hex_len())),
                };
                lines.extend_from_slice(format!("{mode} {id}\t").as_bytes());
                lines.extend_from_slice(path);
                lines.push(0);
            }
            on_copy(&["update-index", "-z", "--index-info"]).input(lines).run()?;
            Ok::<_, Error>((now, on_copy(&["write-tree"]).text()?))
        })();
        let _ = std::fs::remove_file(&copy);
        let (now, before) = trees?;
        // git may have just written these files, at the time it wrote the index.
        self.neutral(repo, &["update-index", "-q", "--refresh"]).output()?;
        self.change(repo, self.neutral(repo, &["read-tree", "-m", "-u", &now, &before]), "read-tree").1
    }

    /// Files that a killed git had begun to write, where the index still has what was before.
    pub fn files_back(
        &self,
        repo: &Repo,
        objects: &Objects,
        changes: &ChangeSet,
        keep: &BTreeSet<Vec<u8>>,
    ) -> Result<()> {
        let out =
            self.neutral(repo, &["diff-files", "--name-only", "-z", "--ignore-submodules", "--no-ext-diff"]).run()?;
        let differs: BTreeSet<&[u8]> = out.split(|b| *b == 0).collect();
        let mut again = Vec::new();
        for (path, delta) in changes.files.iter().filter(|(p, _)| !keep.contains(*p)) {
            let file = self.path.join(OsStr::from_bytes(path));
            if !self.is_begun(repo, objects, &file, path, delta.new.as_ref())? {
                continue;
            }
            match &delta.old {
                Some(_) if differs.contains(path.as_slice()) => {
                    again.extend_from_slice(path);
                    again.push(0);
                }
                Some(_) => {}
                // One that is not there leaves nothing: directories may be the user's own.
                None if file.symlink_metadata().is_err() => {}
                None => {
                    let _ = std::fs::remove_file(&file);
                    // As git leaves it: directories that are empty go.
                    let mut dir = file.parent();
                    while let Some(d) = dir.filter(|d| *d != self.path && std::fs::remove_dir(d).is_ok()) {
                        dir = d.parent();
                    }
                }
            }
        }
        if again.is_empty() {
            return Ok(());
        }
        let call = self.neutral(repo, &["checkout-index", "--force", "-u", "-z", "--stdin"]).input(again);
        self.change(repo, call, "checkout-index").1
    }

    /// Whether the file is the new one, the beginning of it, or not there though it was to be.
    fn is_begun(&self, repo: &Repo, objects: &Objects, file: &Path, path: &[u8], new: Option<&Entry>) -> Result<bool> {
        let Ok(meta) = file.symlink_metadata() else { return Ok(true) };
        let Some(new) = new.filter(|_| !meta.is_dir()) else { return Ok(false) };
        if objects.is_blob_of_file(&new.id, file) {
            return Ok(true);
        }
        if !meta.is_file() {
            return Ok(false);
        }
        let there = std::fs::read(file).map_err(because("read", file))?;
        let whole = objects.blob(&new.id)?.unwrap_or_default();
        if whole.starts_with(&there) {
            return Ok(true);
        }
        // As a checkout converts it.
        let mut call = self.neutral(repo, &["hash-object", "--path"]);
        call.arg(OsStr::from_bytes(path)).arg(file);
        Ok(call.text().is_ok_and(|id| id == new.id.0))
    }
}

/// How an index has the paths of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Index {
    Before,
    After,
    Other,
}

/// The files below the directory `dir` of the tree at `top`.
fn below(top: &Path, dir: &[u8]) -> Vec<Vec<u8>> {
    let (mut out, mut todo) = (Vec::new(), vec![dir.to_vec()]);
    while let Some(dir) = todo.pop() {
        let entries = std::fs::read_dir(top.join(OsStr::from_bytes(&dir))).into_iter().flatten();
        for e in entries.filter_map(std::result::Result::ok) {
            let path = [dir.as_slice(), b"/", e.file_name().as_bytes()].concat();
            let is_dir = e.file_type().is_ok_and(|t| t.is_dir());
            if is_dir { todo.push(path) } else { out.push(path) }
        }
    }
    out.sort();
    out
}

/// Moves a branch that no worktree has checked out forward to `new`, by git itself, which refuses one that somebody has.
pub fn forward_unchecked_out(repo: &Repo, branch: &str, new: &Oid) -> Result<()> {
    let spec = format!("{new}:{branch}");
    let args = [
        "-c",
        "protocol.version=2",
        "fetch",
        "--quiet",
        "--no-tags",
        // With a commit's id for a source it would take the branch itself for stale.
        "--no-prune",
        "--no-prune-tags",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--no-recurse-submodules",
        ".",
        &spec,
    ];
    let mark = Mark::of_ref(repo, branch);
    let result = Call::user_visible(&repo.common_dir, args).env("GIT_DIR", &repo.common_dir).run();
    mark.end(&result);
    result.map(drop)
}
