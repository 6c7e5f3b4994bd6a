//! `adopt`: what exists is taken under management where and as it is.

use crate::create::refused_without_a_trace;
use crate::support::{Env, Repo, assert_same_tree, repo_invariants, tree_state};
use serde_json::Value;
use std::path::Path;

#[test]
fn a_path_that_is_not_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let env = Env::new();
    let repo = env.repo("x");
    let odd = env.root().join("code").join(std::ffi::OsStr::from_bytes(b"caf\xe9/odd"));
    let mut command = env.command("git", repo.path());
    command.args(["worktree", "add", "--quiet", "-b", "odd"]).arg(&odd);
    crate::support::env::run(command, b"").ok();
    repo.agents(&["adopt", "odd"]).ok();
    std::fs::write(odd.join("f.txt"), "x\n").unwrap();
    let a = repo.status()["agents"][0].clone();
    assert!(a["worktree"]["bytes"].is_string() && a["dirty"]["untracked"] == 1, "{a}");
    let tree = tree_state(&odd);
    repo.agents(&["rm", "--force", "odd"]).ok();
    assert!(!odd.exists());
    repo.agents(&["restore", "odd"]).ok();
    assert_same_tree(&tree, &tree_state(&odd));
    repo_invariants(&repo);
}

#[test]
fn a_worktree_a_branch_a_remote_branch_and_a_request() {
    let env = Env::new();
    let origin = env.repo("origin");
    origin.git(&["switch", "--quiet", "-c", "theirs"]);
    origin.write("theirs.txt", "theirs\n");
    let theirs = origin.commit("Theirs");
    origin.git(&["update-ref", "refs/pull/1/head", &theirs]);
    origin.git(&["update-ref", "refs/merge-requests/7/head", &theirs]);
    origin.git(&["switch", "--quiet", "main"]);
    origin.git(&["clone", "--quiet", ".", "../x"]);
    let repo = Repo::at(&env, env.root().join("code/x"));
    repo.git(&["branch", "mine", "HEAD~1"]);
    repo.git(&["worktree", "add", "--quiet", "-b", "there", "../there"]);
    for (what, name, branch, tip) in [
        ("../there", "there", "there", repo.tip("there")),
        ("mine", "mine", "mine", repo.tip("mine")),
        ("origin/theirs", "theirs", "theirs", theirs.clone()),
        ("pr/1", "pr/1", "pr/1", theirs.clone()),
        ("mr/7", "mr/7", "mr/7", theirs.clone()),
    ] {
        let out = repo.agents(&["adopt", what, "--json"]).ok();
        assert_eq!(out.json()["results"][0]["name"], name);
        let all = repo.status();
        let a = all["agents"].as_array().unwrap().iter().find(|a| a["name"] == name).unwrap().clone();
        assert_eq!((&a["branch"], &a["origin"], &a["tip"]), (&branch.into(), &"adopt".into(), &tip.clone().into()));
        assert_eq!((&a["base"], &a["locked"], &a["findings"]), (&"main".into(), &Value::Null, &serde_json::json!([])));
        let at = Repo::at(&env, a["worktree"].as_str().unwrap());
        assert_eq!((at.tip("HEAD"), at.git(&["status", "--porcelain"])), (tip.clone(), String::new()));
        assert!(!repo.has(&format!("{branch}@{{upstream}}")), "no tracking is written");
        refused_without_a_trace(&repo, &["adopt", branch], &["managed already"]);
        repo.agents(&["rm", "-D", name]).ok();
        assert_eq!(repo.tip(&format!("refs/heads/{branch}")), tip, "what was adopted stays");
        assert!(at.path().exists());
    }
    repo_invariants(&repo);
}

#[test]
fn what_cannot_be_adopted_is_said() {
    let env = Env::new();
    let repo = env.repo("x");
    for (what, words) in [
        (".", "main checkout"),
        ("main", "checked out in the main checkout"),
        ("nothing", "neither a worktree nor a branch"),
        ("pr/1", "no remote"),
        ("..", "neither a worktree nor a branch"),
        ("../x/src", "not a worktree of this repository"),
        ("--nested", ""),
    ] {
        let out = repo.agents(&["adopt", what]);
        assert!((128..=129).contains(&out.status) && out.stderr.contains(words), "{out}");
    }
    repo.git(&["worktree", "add", "--quiet", "--detach", "../loose"]);
    refused_without_a_trace(&repo, &["adopt", "../loose"], &["no branch checked out", "switch -c"]);
    assert_eq!(repo.status()["agents"], serde_json::json!([]));
}

#[test]
fn a_branch_that_is_checked_out_elsewhere_is_adopted_where_it_is() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["worktree", "add", "--quiet", "-b", "b", "../w1"]);
    let w1 = Repo::at(&env, env.root().join("code/w1"));
    w1.write("mine.txt", "mine\n");
    let before = tree_state(w1.path());
    repo.agents(&["adopt", "b"]).ok();
    let a = repo.status()["agents"][0].clone();
    assert_eq!(a["worktree"].as_str().map(Path::new), Some(w1.path()));
    assert_same_tree(&before, &tree_state(w1.path()));
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 2);
}
