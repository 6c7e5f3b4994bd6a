//! The merged result: what merges clean may still break together, and nobody sees the place where that was found out.

use crate::kill::{Case, sweep};
use crate::support::{Before, Env, Repo, env::Background, repo_invariants};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Three agents that touch nothing in common.
const THREE: &[(&str, &str)] = &[
    ("first", "WRITE: a.txt: a\nCOMMIT: a"),
    ("second", "WRITE: b.txt: b\nCOMMIT: b"),
    ("third", "WRITE: c.txt: c\nCOMMIT: c"),
];

/// Where a test command counts its runs.
fn counter(env: &Env) -> PathBuf {
    env.root().join("runs")
}

fn runs(env: &Env) -> usize {
    std::fs::read_to_string(counter(env)).unwrap_or_default().lines().count()
}

/// A command that counts and then is `script`.
fn counted(env: &Env, script: &str) -> String {
    format!("echo run >>'{}'; {script}", counter(env).display())
}

fn merged(repo: &Repo<'_>, test: &str, code: i32) -> Value {
    repo.agents(&["report", "--merged", "--json", "--test", test]).code(code).json()["merged"].clone()
}

/// Nothing of a test's worktree is left: not in git's lists, not in ours, not on the disk.
#[track_caller]
fn nothing_is_left(repo: &Repo<'_>) {
    repo_invariants(repo);
    let listed = repo.git(&["worktree", "list", "--porcelain"]);
    assert!(!listed.contains("merged-"), "{listed}");
    assert_eq!(repo.status()["unmanaged"], json!([]));
    let names = |dir: PathBuf| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    };
    let beside = names(repo.env.root().join("code/x.agents"));
    assert!(!beside.iter().any(|n| n.starts_with("merged-")), "{beside:?}");
    let agents = repo.common_dir().join("agents");
    assert_eq!(names(agents.join("scratch")), [""; 0]);
    assert!(!names(agents.join("sterile")).iter().any(|n| n.starts_with("undone-")));
}

#[test]
fn two_branches_that_merge_clean_and_break_together_name_the_second() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(THREE, &["-q"]).ok();
    let before = Before::of(&repo);
    let test =
        counted(&env, "test -e src/a.txt || exit 9; if test -e a.txt && test -e c.txt; then echo both; exit 3; fi");
    let m = merged(&repo, &test, 1);
    assert_eq!((&m["landed"], &m["left_out"]), (&json!(["first", "second", "third"]), &json!([])));
    let t = &m["tests"];
    assert_eq!(
        (&t["passed"], &t["breaks_after"], &t["exit_code"]),
        (&json!(false), &json!("third"), &json!(3)),
        "{m:#}"
    );
    assert_eq!((&t["base_passed"], &t["reused"]), (&json!(true), &json!(false)));
    assert!(std::fs::read_to_string(t["log"].as_str().unwrap()).unwrap().contains("\nboth\n"));
    // All, none, one, two.
    assert_eq!(runs(&env), 4);
    before.still_holds(&repo);
    nothing_is_left(&repo);
    // Known by now, and so is each tree on the way.
    let text = repo.agents(&["report", "--merged", "--test", &test]).code(1).stdout;
    for words in [
        "merged on main: first, second, third (tree ",
        "merges clean, breaks '",
        "after 'third': it exited with 3",
        "| both",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert_eq!(runs(&env), 4);
    // The tree is what git's own merges make.
    for branch in ["first", "second", "third"] {
        repo.git(&["merge", "-q", "--no-edit", &format!("agents/{branch}")]);
    }
    assert_eq!(m["tree"], repo.git(&["rev-parse", "HEAD^{tree}"]));
    // What has landed is the base now: the same tree, and no run.
    assert_eq!(merged(&repo, &test, 1)["tests"]["base_passed"], false);
    assert_eq!(runs(&env), 4);
}

#[test]
fn what_passes_passes_and_another_command_is_asked_anew() {
    let env = Env::new();
    let repo = env.repo("x");
    let test = counted(
        &env,
        "test -e a.txt && test -e b.txt && test -e c.txt && git diff --quiet HEAD && test $(git rev-list --parents -1 HEAD | wc -w) = 5",
    );
    // At the end of a run, which notes the command with the tasks.
    let out = repo.run(THREE, &["-q", "--merged", "--test", &test]).ok();
    assert!(out.stdout.contains("merges clean, passes 'echo run"), "{out}");
    // The base and each tip fail alone, and are asked twice.
    let ran = runs(&env);
    assert_eq!(ran, 4 * 2 + 1);
    let again = repo.agents(&["report", "--merged", "--json"]).ok().json()["merged"]["tests"].clone();
    assert_eq!((&again["passed"], &again["reused"], &again["command"]), (&json!(true), &json!(true), &json!(test)));
    assert_eq!(runs(&env), ran);
    let other = merged(&repo, &format!("{test}; true"), 0);
    assert_eq!((&other["tests"]["reused"], runs(&env)), (&json!(false), ran + 1));
    // Without the note it is tested again.
    repo.git(&["notes", "--ref=agents-tests", "remove", other["tree"].as_str().unwrap()]);
    merged(&repo, &test, 0);
    assert_eq!(runs(&env), ran + 2);
    nothing_is_left(&repo);
    let plain = repo.agents(&["report", "--json"]).ok().json();
    assert_eq!(plain["merged"], Value::Null);
}

#[test]
fn a_base_that_is_broken_already_is_no_branchs_fault() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(THREE, &["-q"]).ok();
    let test = counted(&env, "exit 7");
    let t = merged(&repo, &test, 1)["tests"].clone();
    assert_eq!((&t["passed"], &t["base_passed"], &t["breaks_after"]), (&json!(false), &json!(false), &Value::Null));
    assert_eq!(runs(&env), 2);
    let text = repo.agents(&["report", "--merged", "--test", &test]).code(1).stdout;
    assert!(text.contains("fails on 'main' alone already: it exited with 7"), "{text}");
}

#[test]
fn what_a_branch_breaks_has_a_name_also_where_the_base_is_broken_already() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(THREE, &["-q"]).ok();
    let said = "printf 'test old ... FAILED\\n'; test -e b.txt && printf 'test a::new ... FAILED\\n'; exit 101";
    let test = counted(&env, said);
    let t = merged(&repo, &test, 1)["tests"].clone();
    assert_eq!((&t["passed"], &t["base_passed"], &t["breaks_after"]), (&json!(false), &json!(false), &json!("second")));
    assert_eq!(t["newly_failing"], json!(["a::new"]));
    let ran = runs(&env);
    // The names are noted with the verdict.
    let text = repo.agents(&["report", "--merged", "--test", &test]).code(1).stdout;
    assert!(text.contains("breaks more of '") && text.contains("after 'second'; it fails on 'main' too"), "{text}");
    assert!(text.contains("newly failing: a::new"), "{text}");
    assert_eq!(runs(&env), ran);
}

#[test]
fn a_branch_that_conflicts_is_left_out_and_named() {
    let env = Env::new();
    let repo = env.repo("x");
    let tasks = [
        ("one", "REPLACE: src/a.txt: line 5 => one\nCOMMIT: one"),
        ("two", "REPLACE: src/a.txt: line 5 => two\nCOMMIT: two"),
        ("three", "WRITE: c.txt: c\nCOMMIT: c"),
    ];
    repo.run(&tasks, &["-q"]).ok();
    let m = merged(&repo, "test -e c.txt", 0);
    assert_eq!(m["landed"].as_array().unwrap().len(), 2, "{m:#}");
    let (left, stays) = (&m["left_out"][0], if m["left_out"][0]["name"] == "one" { "two" } else { "one" });
    assert_eq!(
        (&left["paths"], &left["reason"]),
        (&json!(["src/a.txt"]), &json!(format!("it conflicts with '{stays}'")))
    );
    let text = repo.agents(&["report", "--merged"]).ok();
    assert!(text.stdout.contains("in src/a.txt\n") && !text.stdout.contains("passes '"), "{text}");
    assert!(text.stderr.contains("hint: no test command"), "{text}");
}

#[test]
fn a_test_of_the_project_runs_once_it_is_approved_with_its_setup() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("check.sh", "test -e ready && test -e a.txt && test \"$AGENTS_BASE\" = main\n");
    let toml = "[setup]\nrun = ['touch ready']\n[test]\ncommand = ['sh', 'check.sh']\ntimeout = '1m'\n";
    repo.write(".git-agents.toml", toml);
    repo.commit("How to test");
    for args in [
        &["report", "--merged", "--all"][..],
        &["report", "--merged", "--all", "--test", "true"],
        &["run", "--merged", "-a", "scripted", "x"],
    ] {
        let out = repo.agents(args).code(128);
        assert!(out.stderr.contains("not approved") && out.stderr.contains("git agents trust"), "{out}");
    }
    repo.agents(&["trust", "--yes"]).ok();
    repo.run(THREE, &["-q"]).ok();
    let m = repo.agents(&["report", "--merged", "--json"]).ok().json()["merged"].clone();
    assert_eq!((&m["tests"]["passed"], &m["tests"]["command"]), (&json!(true), &json!("sh check.sh")), "{m:#}");
    // A script that an assistant changed is not what was approved.
    repo.run(&[("sly", "WRITE: check.sh: exit 0\nCOMMIT: sly")], &["-q"]).ok();
    let m = repo.agents(&["report", "--merged", "--json"]).code(1).json()["merged"].clone();
    assert_eq!(m["tests"]["passed"], Value::Null);
    assert!(m["tests"]["reason"].as_str().unwrap().contains("'check.sh' is not as approved"), "{m:#}");
    // One's own word is.
    merged(&repo, "sh check.sh", 0);
    // What cannot be set up does not pass, and is not noted.
    repo.write(".git-agents.toml", toml.replace("touch ready", "test $(ls | wc -l) -lt 4 && touch ready"));
    repo.agents(&["trust", "--yes"]).ok();
    let m = repo.agents(&["report", "--merged", "--json", "--batch", "1", "--test", "true"]).code(1).json()["merged"]
        .clone();
    assert_eq!((&m["tests"]["breaks_after"], &m["tests"]["exit_code"]), (&json!("first"), &Value::Null), "{m:#}");
    assert!(m["tests"]["reason"].as_str().unwrap().starts_with("setup: '"), "{m:#}");
    nothing_is_left(&repo);
}

/// A report whose test waits, with something it started on its own.
fn waiting(repo: &Repo<'_>) -> Background {
    let started = counter(repo.env);
    let test = counted(repo.env, "setsid sleep 1000 & sleep 1000");
    // Without the git before it, which a kill would end alone.
    let mut command = repo.env.command("git-agents", repo.path());
    command.args(["report", "--merged", "--test", &test]);
    let report = Background::start(repo.env, command);
    repo.env.until("the test runs", || started.exists());
    repo.env.until("what it started runs", || {
        repo.env.processes().iter().filter(|(_, line)| line == "sleep 1000").count() == 2
    });
    report
}

#[test]
fn ctrl_c_ends_the_test_with_all_it_started_and_leaves_nothing() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(THREE, &["-q"]).ok();
    repo.set("agents.tests", "2");
    let before = Before::of(&repo);
    let report = waiting(&repo);
    // Nobody counts the place meanwhile, and another test has its own.
    assert_eq!(repo.status()["unmanaged"], json!([]));
    let names = repo.agents(&["overlap", "--json"]).ok().json()["agents"].clone();
    assert_eq!(names.as_array().unwrap().len(), 3, "{names:#}");
    merged(&repo, "test -e c.txt", 0);
    report.signal(Signal::SIGINT);
    let out = report.finish(&env).code(130);
    assert!(out.stdout.is_empty(), "{out}");
    assert_eq!(env.processes(), []);
    before.still_holds(&repo);
    nothing_is_left(&repo);
}

#[test]
fn a_kill_in_the_middle_of_a_test_leaves_nothing_after_the_next_command() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(THREE, &["-q"]).ok();
    let before = Before::of(&repo);
    let report = waiting(&repo);
    report.signal(Signal::SIGKILL);
    report.finish(&env).code(137);
    // It is in nobody's way, and shows nowhere.
    assert_eq!(repo.status()["unmanaged"], json!([]));
    repo.repair();
    assert_eq!(env.processes(), []);
    before.still_holds(&repo);
    nothing_is_left(&repo);
    merged(&repo, "test -e c.txt", 0);
}

const UNDER_THE_KNIFE: Case = Case {
    name: "report --merged",
    args: &["report", "--merged", "--all", "--test", "test -e a.txt"],
    prepare: |repo| {
        for (name, file) in [("a", "a.txt"), ("b", "src/b.txt")] {
            let place = repo.agent(name);
            place.write(file, "changed\n");
            place.commit(name);
        }
    },
    again: |lab, what| {
        let out = lab.repo.agents(UNDER_THE_KNIFE.args).ok();
        assert!(out.stdout.contains("merges clean, passes"), "{what}: {out}");
        // What is known already is told without the lock.
        lab.repo.repair();
    },
    same: |repo| {
        nothing_is_left(repo);
        let notes = repo.git(&["notes", "--ref=agents-tests", "list"]);
        notes.lines().map(|l| l.split(' ').next_back().unwrap().to_owned() + "\n").collect()
    },
};

#[test]
fn a_killed_test_of_the_merged_result_left_a_worktree_of_nobodys() {
    assert!(sweep(&UNDER_THE_KNIFE, 11, 37) > 3);
}

#[test]
#[ignore = "nightly"]
fn nightly_every_kill_point_of_the_merged_result() {
    eprintln!("report --merged: {} kill points, 0 violations", sweep(&UNDER_THE_KNIFE, 0, 1));
}
