//! Repositories and trees that were moved, copied or made read-only: nothing of anyone else's is acted on.

use crate::state::agents;
use crate::support::env::run;
use crate::support::{Env, Out, Repo, assert_same_tree, repo_invariants, tree_state};
use serde_json::Value;
use std::path::Path;

fn clone_tree(env: &Env, from: &Path, to: &Path) {
    let mut command = env.command("cp", env.root());
    command.arg("-a").arg(from).arg(to);
    run(command, b"").ok();
}

#[test]
fn a_copy_acted_on_the_trees_of_the_original() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    at.write("f.txt", "x\n");
    at.commit("Work");
    at.write("left.txt", "x\n");
    let other = repo.agent("gone");
    repo.agents(&["rm", "gone"]).ok();
    let copy = Repo::at(&env, env.root().join("code/copy"));
    clone_tree(&env, repo.path(), copy.path());
    let before = tree_state(&env.root().join("code"));
    let unchanged = |what: &str| {
        let mut now = tree_state(&env.root().join("code"));
        let mut was = before.clone();
        for t in [&mut now, &mut was] {
            t.retain(|p, _| !p.starts_with(b"copy/.git") && !p.starts_with(b"copy.agents"));
        }
        eprintln!("{what}");
        assert_same_tree(&was, &now);
    };
    copy.agents(&["status", "--json"]).ok();
    unchanged("status");
    for args in [&["rm", "-D", "--force", "k"][..], &["stop", "k"], &["retry", "k"], &["restore", "no-such"]] {
        let out = copy.agents(args);
        assert!(args[0] != "rm" || out.status == 128, "{out}");
        unchanged(&args.join(" "));
    }
    // Its own agents are its own.
    let mine = copy.agent("mine");
    assert!(mine.path().starts_with(env.root().join("code/copy.agents")), "{}", mine.path().display());
    copy.agents(&["rm", "mine"]).ok();
    // What lies in the copied trash is a copy too: it comes back beside the copy or not at all.
    let out = copy.agents(&["restore", "gone"]);
    assert!(out.status == 128 || !other.path().exists(), "{out}");
    unchanged("restore");
    assert_eq!(at.git(&["status", "--porcelain"]), "?? left.txt");
    repo.agents(&["rm", "k"]).ok();
}

#[test]
fn a_tree_moved_by_hand_looked_dead() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    at.write("f.txt", "x\n");
    let moved = Repo::at(&env, at.path().with_file_name("k2"));
    std::fs::rename(at.path(), moved.path()).unwrap();
    let out = repo.agents(&["status"]).ok();
    assert!(out.stdout.contains("it was moved") && out.stdout.contains("worktree repair"), "{out}");
    repo.repair();
    assert_eq!(moved.git(&["status", "--porcelain"]), "?? f.txt");
    moved.git(&["worktree", "repair"]);
    let a = agents(&repo)["k"].clone();
    assert_eq!((&a["zombie"], a["worktree"].as_str().map(Path::new)), (&Value::Null, Some(moved.path())));
    repo.agents(&["rm", "k"]).ok();
    repo.agents(&["restore", "k"]).ok();
    assert_eq!(moved.read("f.txt"), "x\n");
}

#[test]
fn a_tree_moved_by_hand_was_removed_as_missing() {
    let env = Env::new();
    let repo = env.repo("x");
    for (name, now) in [("near", "../x.agents/elsewhere"), ("far", "../mine")] {
        let at = repo.agent(name);
        at.write("f.txt", "x\n");
        let moved = Repo::at(&env, repo.path().with_file_name("x").join(now));
        std::fs::rename(at.path(), moved.path()).unwrap();
        let before = tree_state(moved.path());
        for args in [vec!["rm", name], vec!["rm", "-D", "--force", name]] {
            let out = repo.agents(&args).code(128);
            let place = moved.path().canonicalize().unwrap();
            assert!(
                out.stderr.contains("was moved") && out.stderr.contains(&format!("'{}'", place.display())),
                "{out}"
            );
            assert!(out.stderr.contains(&format!("worktree repair {}", place.display())), "{out}");
        }
        assert_same_tree(&before, &tree_state(moved.path()));
        moved.git(&["worktree", "repair"]);
        repo.agents(&["rm", name]).ok();
        assert!(!moved.path().exists());
    }
}

#[test]
fn the_whole_project_was_moved() {
    let env = Env::new();
    let repo = env.repo("x");
    let (one, two) = (repo.agent("one"), repo.agent("two"));
    one.write("f.txt", "x\n");
    let code = env.root().join("code");
    let moved_code = env.root().join("moved");
    std::fs::rename(&code, &moved_code).unwrap();
    let moved = Repo::at(&env, moved_code.join("x"));
    let trees = tree_state(&moved_code.join("x.agents"));
    let all = agents(&moved);
    assert!(all.values().all(|a| a["zombie"] == "missing" || a["zombie"] == Value::Null));
    moved.repair();
    assert_same_tree(&trees, &tree_state(&moved_code.join("x.agents")));
    assert_eq!(agents(&moved).len(), 2);
    moved.git(&[
        "worktree",
        "repair",
        moved_code.join("x.agents/one").to_str().unwrap(),
        moved_code.join("x.agents/two").to_str().unwrap(),
    ]);
    let all = agents(&moved);
    assert!(all.values().all(|a| a["zombie"] == Value::Null), "{all:#?}");
    assert_eq!(all["one"]["dirty"]["untracked"], 1);
    moved.agents(&["rm", "one", "two"]).ok();
    assert!(!one.path().exists() && !two.path().exists());
    repo_invariants(&moved);
}

#[test]
fn the_main_checkout_alone_was_moved() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    at.write("f.txt", "x\n");
    let moved = Repo::at(&env, env.root().join("code/elsewhere"));
    std::fs::rename(repo.path(), moved.path()).unwrap();
    let tree = tree_state(at.path());
    // The tree points to where the repository was: broken, said, and never removed.
    let a = agents(&moved)["k"].clone();
    assert!(a["zombie"] != Value::Null || a["findings"] != serde_json::json!([]), "{a}");
    moved.agents(&["rm", "-D", "--force", "k"]).code(128);
    assert_same_tree(&tree, &tree_state(at.path()));
    moved.git(&["worktree", "repair"]);
    assert_eq!(agents(&moved)["k"]["findings"], serde_json::json!([]));
    moved.agents(&["rm", "k"]).ok();
}

/// What a reader may do and a writer may not.
fn read_only(env: &Env, repo: &Repo<'_>, wrap: &dyn Fn(&[&str]) -> Out) {
    let before = tree_state(&env.root().join("code"));
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["show", "k"],
        &["path", "k"],
        &["restore", "--list"],
        &["logs", "done"],
        &["report", "--json"],
    ] {
        let out = wrap(args);
        assert!(out.status <= 1, "{out}");
    }
    for args in [
        &["new", "y"][..],
        &["rm", "k"],
        &["restore", "--last"],
        &["adopt", "b"],
        &["run", "-d", "-a", "scripted", "WRITE: f: x"],
        &["retry", "done"],
    ] {
        let out = wrap(args);
        assert_eq!(out.status, 128, "{out}");
        assert!(out.stderr.to_lowercase().contains("read-only") || out.stderr.contains("Permission denied"), "{out}");
    }
    assert_same_tree(&before, &tree_state(&env.root().join("code")));
    assert!(repo.has("refs/heads/k"));
}

#[test]
fn a_read_only_repository_could_not_even_be_looked_at() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["branch", "b"]);
    repo.agent("k").write("f.txt", "x\n");
    repo.agent("gone");
    repo.agents(&["rm", "gone"]).ok();
    repo.agents(&["run", "-a", "scripted", "1. WRITE: f: x {name=done}"]);
    let task = agents(&repo).into_keys().find(|n| n != "k").unwrap();
    let code = env.root().join("code");
    let code = code.to_str().unwrap();
    let mount = format!("mount --bind {code} {code} && mount -o remount,ro,bind {code} && exec \"$@\"");
    let wrapped = |args: &[&str]| {
        let args: Vec<&str> = args.iter().map(|a| if *a == "done" { task.as_str() } else { a }).collect();
        let mut command = env.command("unshare", repo.path());
        command.args(["--mount", "sh", "-c", &mount, "sh", "git", "agents"]).args(&args);
        // The working directory has to be found anew, on the new mount.
        command.current_dir(env.root());
        let mut all = vec!["-C".to_owned(), repo.path().display().to_string()];
        all.extend(args.iter().map(|a| (*a).to_owned()));
        let mut command = env.command("unshare", env.root());
        command.args(["--mount", "sh", "-c", &mount, "sh", "git", "agents"]).args(&all);
        run(command, b"")
    };
    if wrapped(&["status"]).status != 0 {
        eprintln!("no mount namespaces here: not tried");
        return;
    }
    read_only(&env, &repo, &wrapped);
}
