//! A clock that was ahead for a while: records with times that have not come yet.

use crate::support::tree::tree_state;
use crate::support::{Env, Repo, repo_invariants};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, SystemTime};

const LATER: &str = "2099-01-01T00:00:00Z";

/// Every time in the notes of the journal, in the records of runs, and of files in git's directories, as it would be had
/// the clock been decades ahead until now.
fn was_ahead(repo: &Repo<'_>) {
    for line in repo.git(&["notes", "--ref=agents-journal", "list"]).lines() {
        let (note, about) = line.split_once(' ').unwrap();
        let file = repo.env.root().join("note");
        std::fs::write(&file, later(&repo.git(&["cat-file", "blob", note]))).unwrap();
        repo.git(&["notes", "--ref=agents-journal", "add", "--force", "-F", file.to_str().unwrap(), about]);
    }
    let all = crate::support::wait::files(&repo.join(".git/agents"), &|_| false);
    let records = all.iter().filter(|f| f.extension().is_some_and(|e| e == "json"));
    for file in records {
        let text = std::fs::read_to_string(file).unwrap();
        std::fs::write(file, later(&text)).unwrap();
    }
    let of_git = crate::support::wait::files(&repo.join(".git/worktrees"), &|_| false);
    for file in of_git.iter().chain(&all) {
        touch(file);
    }
}

fn touch(file: &Path) {
    let then = SystemTime::now() + Duration::from_secs(70 * 365 * 24 * 3600);
    if let Ok(f) = std::fs::File::open(file) {
        f.set_modified(then).unwrap();
    }
}

/// `text` with every time of this century's beginning put off.
fn later(text: &str) -> String {
    let mut out = String::new();
    for (n, part) in text.split("\"20").enumerate() {
        let end = part.find('"').unwrap_or(part.len());
        let is_time = n > 0 && part[..end].ends_with('Z') && part[..end].contains('T');
        match (n, is_time) {
            (0, _) => out += part,
            (_, true) => out += &format!("\"{LATER}{}", &part[end..]),
            (_, false) => out += &format!("\"20{part}"),
        }
    }
    out
}

fn has_negative(v: &Value) -> bool {
    match v {
        Value::Array(all) => all.iter().any(has_negative),
        Value::Object(all) => all.values().any(has_negative),
        Value::Number(n) => n.as_f64().is_some_and(|n| n < 0.0),
        _ => false,
    }
}

#[test]
fn times_that_have_not_come_yet_stopped_or_removed_something() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(
        &[("done", "WRITE: a.txt: a\nCOMMIT: A"), ("left", "WRITE: b.txt: b\nCOMMIT: B\nWRITE: left.txt: x")],
        &[],
    )
    .ok();
    let (done, left) = (repo.worktree("done"), repo.worktree("left"));
    was_ahead(&repo);
    assert_eq!(repo.status_of("done")["run"]["ended"], LATER, "the set-up is as reported");
    let answers: [&[&str]; 6] = [
        &["status", "--json"],
        &["show", "done", "--json"],
        &["report", "--json"],
        &["clean", "--dry-run", "--json"],
        &["restore", "--list", "--json"],
        &["doctor", "--json"],
    ];
    for args in answers {
        let out = repo.agents(args).ok();
        assert!(!has_negative(&out.json()), "{out}");
    }
    for args in [&["status"][..], &["show", "done"], &["logs"], &["report"]] {
        let out = repo.agents(args).ok();
        assert!(!out.to_string().contains("-1 ") && !out.to_string().contains("panicked"), "{out}");
    }
    // What has landed goes, what is left over stays; where it has to have been quiet for a while, nobody can tell.
    repo.git(&["merge", "--quiet", "--no-edit", repo.status_of("done")["branch"].as_str().unwrap()]);
    repo.set("agents.cleanMinAge", "1h");
    repo.agents(&["clean"]).ok();
    assert!(done.path().exists());
    repo.git(&["config", "--unset", "agents.cleanMinAge"]);
    let tree = tree_state(left.path());
    repo.agents(&["clean"]).ok();
    assert!(!done.path().exists());
    crate::support::assert_same_tree(&tree, &tree_state(left.path()));
    // In the trash with such a time: it does not expire, and comes back.
    was_ahead(&repo);
    repo.agents(&["clean"]).ok();
    repo.agents(&["restore", "done"]).ok();
    assert!(done.join("a.txt").exists());
    // Damaged after all that: who was restored is no removed one.
    repo.git(&["config", "agent.done.fork", "nonsense"]);
    repo.git(&["config", "--unset", "agent.done.id"]);
    repo.agents(&["adopt", "done"]).ok();
    for args in [&["sync", "left", "--carry"][..], &["rm", "left"], &["restore", "left"], &["retry", "left"]] {
        repo.agents(args).ok();
    }
    repo.settles("left");
    repo_invariants(&repo);
}
