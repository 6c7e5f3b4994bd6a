//! `git rebase` in the worktree of an agent, and the ways back out of one.

use super::command::Call;
use super::locks::Mark;
use super::repo::Repo;
use super::worktree::Entry;
use super::{Result, refs};
use crate::model::agent::Oid;
use crate::runtime::files;
use std::fs::File;

/// A worktree with its own branch.
#[derive(Debug, Clone, Copy)]
pub struct Tree<'a> {
    /// The repository.
    pub repo: &'a Repo,
    /// The worktree.
    pub entry: &'a Entry,
    /// Full name of the branch that is checked out there.
    pub branch: &'a str,
}

/// What must neither run nor be asked for while we rebase, whatever is configured. The user's hooks run as git runs them.
const PLAIN: &[&str] = &[
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.fsync=committed",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "rerere.enabled=false",
    "-c",
    "rebase.stat=false",
    "-c",
    "rebase.rebaseMerges=false",
    "-c",
    "rebase.missingCommitsCheck=ignore",
];

impl Tree<'_> {
    fn call(&self, args: &[&str]) -> Call {
        let entry = self.entry;
        Call::user_visible(&entry.path, PLAIN.iter().chain(args))
            .env("GIT_DIR", &entry.admin)
            .env("GIT_COMMON_DIR", &self.repo.common_dir)
            .env("GIT_WORK_TREE", &entry.path)
            .env_remove("GIT_OPTIONAL_LOCKS")
            .env_remove("GIT_NO_LAZY_FETCH")
    }

    fn without_hooks(&self, args: &[&str]) -> Call {
        self.call(args).without_hooks(&self.repo.configured_hooks())
    }

    fn marked(&self, call: Call) -> Result<()> {
        let mark = Mark::of_worktree(self.repo, &self.entry.admin, self.branch);
        let result = call.run().map(drop);
        mark.end(&result);
        result
    }

    /// Puts what the branch has and `upstream` has not on `onto`. git holds `lock` for as long as it lives. When it fails,
    /// the worktree may be in the middle of it.
    pub fn rebase(&self, upstream: &Oid, onto: &Oid, lock: &File) -> Result<()> {
        let args = [
            "rebase",
            "--quiet",
            "--merge",
            "--empty=drop",
            "--no-autostash",
            "--no-autosquash",
            "--no-update-refs",
            "--no-fork-point",
            "--no-gpg-sign",
            "--no-rerere-autoupdate",
            "--onto",
            &onto.0,
            &upstream.0,
        ];
        self.marked(self.call(&args).holding(lock)?)?;
        refs::sync(self.repo, self.branch)
    }

    /// Back to where the branch was, as git does it.
    pub fn abort(&self) -> Result<()> {
        self.marked(self.without_hooks(&["rebase", "--abort"]))
    }

    /// git forgets that a rebase was under way; whatever of its notes there is goes.
    pub fn forget(&self) -> Result<()> {
        self.marked(self.without_hooks(&["rebase", "--quit"]))
    }

    /// The commit that the rebase under way puts the branch on, where git's notes say so.
    pub fn onto(&self) -> Option<Oid> {
        let text = files::read_limited(&self.entry.admin.join("rebase-merge/onto"), 1 << 12).ok()??;
        Oid::parse(String::from_utf8_lossy(&text).trim())
    }

    /// Index and files of `paths` as in `tip`.
    pub fn take(&self, tip: &Oid, paths: &[Vec<u8>]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let args =
            ["--literal-pathspecs", "checkout", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul", &tip.0];
        self.marked(self.without_hooks(&args).input(paths.join(&0)))
    }

    /// The branch checked out again, index and tracked files as it has them. It stays where it is, untracked files too.
    pub fn reset(&self) -> Result<()> {
        if super::worktree::head(self.repo, &self.entry.admin) != super::worktree::Head::Branch(self.branch.to_owned())
        {
            self.marked(self.without_hooks(&["symbolic-ref", "-m", "agents: back", "HEAD", self.branch]))?;
        }
        self.marked(self.without_hooks(&["reset", "--hard", "--quiet", "--no-recurse-submodules"]))
    }
}
