//! What must hold in a repository after every fault, whatever was killed.
//!
//! The rest needs the test's own knowledge: that no acknowledged event is missing, that the same command run again ends
//! in the same state, that a third run changes nothing.

use super::repo::Repo;
use super::tree::{Tree, assert_same_tree, tree_state};
use super::wait::files;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Fails unless the repository is whole: every object there, every worktree usable, nothing half-written left.
///
/// Right after a kill something of ours may be half-written; this holds after the next command of ours.
#[track_caller]
pub fn repo_invariants(repo: &Repo<'_>) {
    usable(repo);
    let common = repo.common_dir();
    let left: Vec<PathBuf> = files(&common, &|_| false).into_iter().filter(|f| is_leftover(f)).collect();
    assert!(left.is_empty(), "left behind: {left:#?}");
}

/// The part of [`repo_invariants`] that holds at any moment, right after a kill too.
#[track_caller]
pub fn usable(repo: &Repo<'_>) {
    let fsck = repo.try_git(&["fsck", "--full", "--strict", "--no-dangling", "--no-progress"]).ok();
    // A warning ends with 0 as well.
    assert!(fsck.stdout.is_empty() && fsck.stderr.is_empty(), "{fsck}");
    repo.git(&["for-each-ref"]);
    // Walks from every reference, ours included, to the last blob.
    repo.git(&["rev-list", "--all", "--objects", "--quiet"]);
    for worktree in worktrees(repo) {
        Repo::at(repo.env, worktree).git(&["status", "--porcelain"]);
    }
}

/// The worktrees that git knows and whose directory is there; the main one first.
pub fn worktrees(repo: &Repo<'_>) -> Vec<PathBuf> {
    let list = repo.try_git(&["worktree", "list", "--porcelain", "-z"]).ok();
    let records = list.stdout.split("\0\0").filter(|r| !r.is_empty());
    let used = records.filter(|r| !r.split('\0').any(|l| l == "bare" || l.starts_with("prunable")));
    let paths = used.filter_map(|r| r.split('\0').find_map(|l| l.strip_prefix("worktree "))).map(PathBuf::from);
    // A locked one is never called prunable.
    paths.filter(|p| p.is_dir()).collect()
}

/// A lock or a temporary file of git's or of ours. The names in `refs` and `logs` cannot end so.
fn is_leftover(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    // What was taken away is kept as it was, and the slots are locks that stay.
    let kept = file.components().any(|c| c.as_os_str() == "trash" || c.as_os_str() == "slots");
    !kept && (name.ends_with(".lock") || name.starts_with(".tmp-") || name.starts_with("tmp_"))
}

/// What a fault must not change.
#[derive(Debug, Clone)]
pub struct Before {
    bare: String,
    hooks: Option<Tree>,
    /// Everything but our own sections.
    config: BTreeSet<String>,
    commits: BTreeSet<String>,
}

impl Before {
    pub fn of(repo: &Repo<'_>) -> Before {
        let hooks = repo.common_dir().join("hooks");
        Before {
            bare: repo.git(&["config", "--local", "--get", "core.bare"]),
            hooks: hooks.is_dir().then(|| tree_state(&hooks)),
            config: config(repo),
            commits: commits(repo),
        }
    }

    /// Fails unless all of it is as before, no commit is lost, and the [`repo_invariants`] hold.
    #[track_caller]
    pub fn still_holds(&self, repo: &Repo<'_>) {
        repo_invariants(repo);
        let now = Before::of(repo);
        assert_eq!(self.bare, now.bare, "core.bare");
        assert_eq!(self.config, now.config, "settings that are not ours");
        match (&self.hooks, &now.hooks) {
            (Some(before), Some(after)) => assert_same_tree(before, after),
            (before, after) => assert_eq!(before.is_some(), after.is_some(), "the directory of hooks"),
        }
        let kept = all_commits(repo);
        let lost: Vec<&String> = self.commits.difference(&kept).collect();
        assert!(lost.is_empty(), "no longer reachable: {lost:?}");
    }
}

fn config(repo: &Repo<'_>) -> BTreeSet<String> {
    let all = repo.git(&["config", "--local", "--list", "-z"]);
    let foreign = all.split('\0').filter(|l| !l.starts_with("agent.") && !l.starts_with("agents."));
    foreign.map(str::to_owned).collect()
}

/// What the user's references and the worktrees reach; our own captures and notes come and go.
fn commits(repo: &Repo<'_>) -> BTreeSet<String> {
    let heads = heads(repo);
    let mut args = vec!["rev-list", "--exclude=refs/agents/*", "--exclude=refs/notes/*", "--all"];
    args.extend(heads.iter().map(String::as_str));
    repo.git(&args).lines().map(str::to_owned).collect()
}

/// The same with everything that we keep.
fn all_commits(repo: &Repo<'_>) -> BTreeSet<String> {
    let heads = heads(repo);
    let mut args = vec!["rev-list", "--all"];
    args.extend(heads.iter().map(String::as_str));
    repo.git(&args).lines().map(str::to_owned).collect()
}

fn heads(repo: &Repo<'_>) -> Vec<String> {
    let worktrees = worktrees(repo).into_iter().map(|w| Repo::at(repo.env, w));
    worktrees.filter(|w| w.has("HEAD^{commit}")).map(|w| w.tip("HEAD")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::Env;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Whether the check fails, with its message.
    fn fails(check: impl FnOnce()) -> String {
        let failed = catch_unwind(AssertUnwindSafe(check)).expect_err("the check saw nothing");
        failed.downcast::<String>().map(|s| *s).unwrap_or_default()
    }

    #[test]
    fn a_healthy_repository_passes_and_every_damage_is_seen() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.git(&["worktree", "add", "--quiet", "-b", "side", "../side"]);
        let side = Repo::at(&env, env.root().join("code/side"));
        side.write("new.txt", "new\n");
        side.commit("On the side");
        let before = Before::of(&repo);
        before.still_holds(&repo);

        let lock = repo.join(".git/refs/heads/main.lock");
        std::fs::write(&lock, "").unwrap();
        assert!(fails(|| before.still_holds(&repo)).contains("main.lock"));
        std::fs::remove_file(&lock).unwrap();

        repo.git(&["config", "pull.rebase", "true"]);
        assert!(fails(|| before.still_holds(&repo)).contains("not ours"));
        repo.git(&["config", "--unset", "pull.rebase"]);

        let hook = repo.join(".git/hooks/post-merge");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, "").unwrap();
        fails(|| before.still_holds(&repo));
        std::fs::remove_file(&hook).unwrap();

        side.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
        assert!(fails(|| before.still_holds(&repo)).contains("no longer reachable"));
        side.git(&["reset", "--quiet", "--hard", "HEAD@{1}"]);
        before.still_holds(&repo);

        let blob = repo.git(&["rev-parse", "HEAD:src/b.txt"]);
        std::fs::remove_file(repo.join(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]))).unwrap();
        assert!(fails(|| repo_invariants(&repo)).contains(&blob));
    }
}
