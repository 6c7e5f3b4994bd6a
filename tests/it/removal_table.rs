//! `rm`: the table of removal, row by row.

use crate::remove::{agent_with_commit, everything, names, only_tree, refused};
use crate::support::tree::Tree;
use crate::support::{Before, Env, Repo, assert_same_tree, repo_invariants, tree_state};
use std::path::PathBuf;

#[test]
fn a_landed_one_goes_with_its_branch_however_it_landed() {
    let env = Env::new();
    let repo = env.repo("x");
    for (name, how) in [("ff", "--ff-only"), ("merged", "--no-ff")] {
        let at = agent_with_commit(&repo, name);
        repo.git(&["merge", "--quiet", "--no-edit", how, name]);
        let out = repo.agents(&["rm", name]).ok();
        assert!(out.stderr.contains("with its branch") && out.stderr.contains("undo: git agents restore"), "{out}");
        assert!(!repo.has(&format!("refs/heads/{name}")) && !at.path().exists());
        // Its file came with the merge.
        assert!(repo.join(format!("{name}.txt")).exists());
    }
    repo_invariants(&repo);
}

#[test]
fn a_fresh_one_goes_with_its_branch() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("fresh");
    let results = repo.agents(&["rm", "fresh", "--json"]).ok().json();
    assert_eq!(results["results"][0]["outcome"], "done");
    assert_eq!(results["results"][0]["undo"], "git agents restore fresh");
    assert!(!repo.has("refs/heads/fresh") && !at.path().exists() && names(&repo).is_empty());
}

#[test]
fn one_that_has_not_landed_keeps_its_branch_and_says_so() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "work");
    let tip = at.tip("HEAD");
    let out = repo.agents(&["rm", "work"]).ok();
    assert!(out.stderr.contains("its branch stays") && out.stderr.contains("not landed"), "{out}");
    assert_eq!(repo.tip("refs/heads/work"), tip);
    assert!(!at.path().exists());
}

#[test]
fn files_left_over_keep_the_branch_and_are_named() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "left");
    repo.git(&["merge", "--quiet", "left"]);
    at.write("report/x.md", "draft\n");
    let out = repo.agents(&["rm", "left"]).ok();
    assert!(out.stderr.contains("its branch stays") && out.stderr.contains("report/x.md"), "{out}");
    assert!(repo.has("refs/heads/left"));
}

#[test]
fn capital_d_takes_the_branch_and_keeps_its_tip() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "gone");
    let tip = at.tip("HEAD");
    let before = Before::of(&repo);
    repo.agents(&["rm", "-D", "gone"]).ok();
    assert!(!repo.has("refs/heads/gone"));
    before.still_holds(&repo);
    let kept = repo.git(&["for-each-ref", "--format=%(refname)", "--contains", &tip]);
    assert!(kept.starts_with("refs/agents/removed/"), "{kept}");
}

#[test]
fn a_running_one_is_refused_until_it_is_stopped() {
    let env = Env::new();
    let repo = env.repo("x");
    let go = env.root().join("go");
    let task = format!("WRITE: half.txt: half\nWAITFILE: {}", go.display());
    repo.agents(&["run", "-d", "-a", "scripted", &task]).ok();
    let name = names(&repo).remove(0);
    let path = PathBuf::from(repo.status()["agents"][0]["worktree"].as_str().unwrap());
    env.until("it has begun", || path.join("half.txt").exists());
    for flags in [&[][..], &["-D"], &["--force"]] {
        let args = [&["rm", name.as_str()], flags].concat();
        refused(repo.agents(&args), &["is running", "--stop"]);
    }
    assert!(path.join("half.txt").exists());
    repo.agents(&["rm", "--stop", &name]).ok();
    assert!(!path.exists() && only_tree(&repo).join("half.txt").exists());
    env.until("nothing runs", || env.processes().is_empty());
}

#[test]
fn a_lock_is_a_wish_that_no_flag_passes() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "locked");
    repo.git(&["merge", "--quiet", "locked"]);
    repo.git(&["worktree", "lock", "--reason", "back in May", at.path().to_str().unwrap()]);
    let before = everything(&env);
    for flags in [&[][..], &["-D"], &["--force"], &["--stop"], &["-D", "--force", "--stop"]] {
        let out = refused(repo.agents(&[&["rm", "locked"], flags].concat()), &["locked", "back in May"]);
        assert!(out.stderr.contains("git worktree unlock"), "{out}");
    }
    assert_same_tree(&before, &everything(&env));
    repo.git(&["worktree", "unlock", at.path().to_str().unwrap()]);
    repo.agents(&["rm", "locked"]).ok();
}

#[test]
fn what_was_adopted_stays_where_it_is() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["worktree", "add", "--quiet", "-b", "mine", "../mine"]);
    let mine = Repo::at(&env, env.root().join("code/mine"));
    mine.write("work.txt", "mine\n");
    let before = everything(&env);
    repo.agents(&["adopt", "../mine"]).ok();
    let out = repo.agents(&["rm", "-D", "mine"]).ok();
    assert!(out.stderr.contains("its worktree and branch stay"), "{out}");
    assert!(names(&repo).is_empty() && repo.has("refs/heads/mine"));
    let after = tree_state(mine.path());
    let prefix = b"mine/".as_slice();
    let was: Tree = before.into_iter().filter_map(|(k, v)| Some((k.strip_prefix(prefix)?.to_vec(), v))).collect();
    assert_same_tree(&was, &after);
    assert_eq!(mine.git(&["status", "--porcelain"]), "?? work.txt");
    assert!(!repo.join(".git/worktrees/mine/agents-token").exists());

    // By force the tree goes too, to the trash; the branch is not ours.
    repo.agents(&["adopt", "../mine"]).ok();
    repo.agents(&["rm", "--force", "mine"]).ok();
    assert!(!mine.path().exists() && repo.has("refs/heads/mine"));
    repo.agents(&["restore", "mine"]).ok();
    assert_same_tree(&was, &tree_state(mine.path()));
}

#[test]
fn a_locked_worktree_of_someones_is_released_all_the_same() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["worktree", "add", "--quiet", "-b", "mine", "../mine"]);
    repo.git(&["worktree", "lock", "--reason", "mine", "../mine"]);
    repo.agents(&["adopt", "../mine"]).ok();
    refused(repo.agents(&["rm", "--force", "mine"]), &["locked"]);
    repo.agents(&["rm", "mine"]).ok();
    assert_eq!(std::fs::read_to_string(repo.join(".git/worktrees/mine/locked")).unwrap().trim_end(), "mine");
}

#[test]
fn a_dry_run_changes_not_a_byte() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agent("fresh");
    agent_with_commit(&repo, "work").write("new.txt", "new\n");
    repo.git(&["worktree", "add", "--quiet", "-b", "mine", "../mine"]);
    repo.agents(&["adopt", "mine"]).ok();
    let before = everything(&env);
    let out = repo.agents(&["rm", "--dry-run", "-D", "--force", "fresh", "work", "mine"]).ok();
    assert!(out.stderr.contains("'fresh' would be moved to the trash, with its branch"), "{out}");
    assert!(!out.stderr.contains("undo:"), "{out}");
    assert_same_tree(&before, &everything(&env));
}

#[test]
fn standing_in_it_is_no_obstacle() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("here");
    let out = at.agents(&["rm", "@"]).ok();
    assert!(out.stderr.contains(&format!("cd {}", repo.path().display())), "{out}");
    // The shell is in the trash now: still one clear line, or an answer, but no panic.
    let out = repo.agents_in(&only_tree(&repo), &["status"]);
    assert!(out.status == 128 && out.stderr.lines().count() <= 2 && !out.stderr.contains("panicked"), "{out}");
    repo.agents(&["restore", "here"]).ok();
    assert!(at.path().exists());
}

/// Puts `at` into the middle of each operation in turn.
fn begin(at: &Repo<'_>, operation: &str) {
    let clash = |text: &str| {
        at.write("src/b.txt", text);
        at.commit("Clash");
    };
    match operation {
        "bisect" => drop(at.git(&["bisect", "start", "HEAD", "HEAD~2"])),
        "am" => {
            clash("theirs\n");
            let patch = at.git(&["format-patch", "-1", "--stdout"]) + "\n";
            at.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
            clash("ours\n");
            std::fs::write(at.env.root().join("patch"), patch).unwrap();
            at.try_git(&["am", "--quiet", at.env.root().join("patch").to_str().unwrap()]).code(128);
        }
        _ => {
            at.git(&["switch", "--quiet", "-c", "theirs"]);
            clash("theirs\n");
            at.git(&["switch", "--quiet", "-"]);
            clash("ours\n");
            let out = match operation {
                "merge" => at.try_git(&["merge", "theirs"]),
                "cherry-pick" => at.try_git(&["cherry-pick", "theirs"]),
                "rebase" => at.try_git(&["rebase", "theirs"]),
                "revert" => {
                    at.write("src/b.txt", "later\n");
                    at.commit("Later");
                    at.try_git(&["revert", "--no-edit", "HEAD~1"])
                }
                other => panic!("{other}"),
            };
            out.code(1);
        }
    }
}

#[test]
fn only_a_rebase_was_looked_for() {
    let env = Env::new();
    let repo = env.repo("x");
    for operation in ["bisect", "am", "merge", "cherry-pick", "rebase", "revert"] {
        let at = repo.agent(operation);
        begin(&at, operation);
        let (tree, said) = (tree_state(at.path()), at.git(&["status"]));
        refused(repo.agents(&["rm", "-D", operation]), &[&format!("in the middle of a {operation}"), "--force"]);
        assert_same_tree(&tree, &tree_state(at.path()));
        repo.agents(&["rm", "--force", operation]).ok();
        assert!(!at.path().exists(), "{operation}");
        repo.git(&["reflog", "expire", "--expire=now", "--all"]);
        repo.git(&["gc", "--quiet", "--prune=now"]);
        repo.agents(&["restore", operation]).ok();
        assert_same_tree(&tree, &tree_state(at.path()));
        assert_eq!(at.git(&["status"]), said, "{operation}");
        repo.git(&["fsck", "--full", "--strict"]);
        if operation != "bisect" {
            at.git(&[operation, "--abort"]);
        }
        if repo.has("refs/heads/theirs") {
            repo.git(&["branch", "--quiet", "-D", "theirs"]);
        }
    }
}
