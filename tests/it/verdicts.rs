//! Whether a branch passes, beside the commit it started from: asked once of each, in a place where nobody works.

use crate::support::{Env, Repo, repo_invariants};
use serde_json::{Value, json};
use std::path::PathBuf;

fn counter(env: &Env) -> PathBuf {
    env.root().join("runs")
}

/// What was tested: a line a run, the files that mattered.
fn runs(env: &Env) -> Vec<String> {
    std::fs::read_to_string(counter(env)).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// A command that notes each run (`base` where `mark` is no file of the tree) and then is `script`.
fn counted(env: &Env, script: &str) -> String {
    format!("echo $(cat mark 2>/dev/null || echo base) >>'{}'; {script}", counter(env).display())
}

/// `test NAME ... FAILED` for each line of the file `failing`, as cargo says it.
const CARGO: &str = "if test -s failing; then sed 's/.*/test & ... FAILED/' failing; exit 101; fi; echo 'test all ... ok'";

/// What is asked of all that ended: nothing of a test lies about.
#[track_caller]
fn nothing_is_left(repo: &Repo<'_>) {
    repo_invariants(repo);
    assert_eq!(repo.status()["unmanaged"], json!([]));
    let scratch = repo.common_dir().join("agents/scratch");
    assert_eq!(std::fs::read_dir(scratch).map_or(0, Iterator::count), 0);
}

fn tests(repo: &Repo<'_>, name: &str) -> Value {
    repo.reported(name)["tests"].clone()
}

#[test]
fn what_was_broken_before_is_no_reason_and_what_is_broken_now_has_a_name() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("failing", "old::a\nold::b\n");
    repo.git(&["add", "failing"]);
    repo.git(&["commit", "-qm", "broken"]);
    let test = counted(&env, CARGO);
    let tasks = [
        ("worse", "WRITE: mark: worse\nWRITE: failing: old::b\\nnew::c\\nnew::d\nCOMMIT: c"),
        ("better", "WRITE: mark: better\nWRITE: failing: old::a\nCOMMIT: b"),
        ("same", "WRITE: mark: same\nCOMMIT: s"),
    ];
    let out = repo.run(&tasks, &["--test", &test]).ok();
    // The base once, and each of them twice: a failure is asked again.
    let mut ran = runs(&env);
    ran.sort();
    assert_eq!(ran, ["base", "base", "better", "better", "same", "same", "worse", "worse"]);
    let worse = repo.reported("worse");
    assert_eq!(worse["verdict"], "look");
    assert_eq!(worse["reasons"], json!(["breaks 2 tests: new::c, new::d"]));
    let t = &worse["tests"];
    assert_eq!(
        [&t["now"], &t["baseline"], &t["method"], &t["newly_failing"], &t["still_failing"], &t["fixed"], &t["flaky"]],
        [&json!("fail"), &json!("fail"), &json!("names"), &json!(["new::c", "new::d"]), &json!(["old::b"]), &json!(["old::a"]), &json!([])],
    );
    assert_eq!(t["command"], test);
    let tree = repo.git(&["rev-parse", "agents/worse^{tree}"]);
    assert_eq!(t["tree"], tree);
    assert!(repo.git(&["notes", "--ref=agents-tests", "show", &tree]).contains("new::c"));
    let better = repo.reported("better");
    assert_eq!((&better["verdict"], &better["reasons"]), (&json!("ready"), &json!([])));
    assert_eq!((&better["tests"]["fixed"], &better["tests"]["newly_failing"]), (&json!(["old::b"]), &json!([])));
    let same = repo.reported("same");
    assert_eq!((&same["verdict"], &same["tests"]["now"]), (&json!("ready"), &json!("fail")));
    for words in ["tests: 2 newly failing (", ", by name): new::c, new::d; 1 still failing: old::b; 1 fixed: old::a\n"] {
        assert!(out.stdout.contains(words), "{words}\n{out}");
    }
    let s = repo.status_of("worse");
    assert_eq!(s["tests"], json!({ "state": "done", "verdict": "fail", "newly_failing": 2, "tree": tree }));
    assert_eq!(s["run"]["state"], "succeeded");
    let status = repo.agents(&["status"]).ok().stdout;
    assert!(status.contains("worse: tests: 2 newly failing; 'git agents logs --test worse'\n"), "{status}");
    assert!(status.contains("same: tests: fail, as on its base;"), "{status}");
    let log = repo.agents(&["logs", "--test", "worse"]).ok().stdout;
    assert!(log.contains("== its tip, ") && log.contains("test new::c ... FAILED\n"), "{log}");
    nothing_is_left(&repo);
}

#[test]
fn where_nothing_is_named_the_exit_code_counts_and_that_is_said() {
    let env = Env::new();
    let repo = env.repo("x");
    let test = counted(&env, "test ! -e broken || exit 3");
    let tasks =
        [("bad", "WRITE: mark: bad\nWRITE: broken: x\nCOMMIT: c"), ("good", "WRITE: mark: good\nCOMMIT: b")];
    let out = repo.run(&tasks, &["--test", &test]).ok();
    let bad = repo.reported("bad");
    assert_eq!(bad["verdict"], "look");
    assert!(bad["reasons"][0].as_str().unwrap().ends_with("': it exited with 3"), "{bad}");
    assert_eq!((&bad["tests"]["method"], &bad["tests"]["baseline"]), (&json!("exit-code"), &json!("pass")));
    assert_eq!(repo.status_of("bad")["tests"]["newly_failing"], 1);
    assert!(out.stdout.contains("   tests: fail, and pass on its base ("), "{out}");
    let good = repo.reported("good");
    assert_eq!((&good["verdict"], &good["tests"]["now"]), (&json!("ready"), &json!("pass")));
    // Two at the same base: it was tested once.
    assert_eq!(runs(&env).iter().filter(|r| *r == "base").count(), 1);
    nothing_is_left(&repo);
}
