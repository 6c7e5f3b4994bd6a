//! What depends on git's version. `tests/run` runs this module once on the git of `PATH` and once more on the other one.

use crate::support::{Env, repo_invariants};
use std::process::Command;

#[test]
fn the_git_that_was_asked_for_is_the_one_that_is_used() {
    let env = Env::new();
    let asked = std::env::var_os("GIT_AGENTS_TEST_GIT").unwrap_or_else(|| "git".into());
    let out = Command::new(asked).arg("--version").output().unwrap();
    let repo = env.repo("x");
    assert_eq!(repo.git(&["--version"]), String::from_utf8(out.stdout).unwrap().trim_end());
    // A child of git's finds the same one, and ours beside it.
    assert_eq!(repo.git(&["-c", "alias.v=!git --version", "v"]), repo.git(&["--version"]));
    assert_eq!(repo.git(&["-c", "alias.w=!command -v git-agents", "w"]), env!("CARGO_BIN_EXE_git-agents"));
    repo_invariants(&repo);
}

#[test]
fn a_whole_life() {
    let env = Env::new();
    let repo = env.repo("x");
    crate::layouts::whole_life(&repo);
}

#[test]
fn killed_in_the_middle() {
    for name in ["new", "rm -D", "restore", "adopt"] {
        assert!(crate::kill::sweep(crate::kill::case(name), 7, 53) > 1);
    }
}

#[test]
fn random_worktrees_come_back() {
    crate::restore::random_states(500, 8);
}

#[test]
fn synced_as_with_the_other_one() {
    crate::sync::settings_of_the_user_made_a_rebase_something_else();
    crate::sync::uncommitted_work_was_lost_in_the_stash();
    crate::sync::who_was_begun_on_top_of_another_one_follows_it();
    crate::sync_kill::sample();
}
