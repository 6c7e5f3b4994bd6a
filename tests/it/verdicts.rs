//! Whether a branch passes, beside the commit it started from: asked once of each, in a place where nobody works.

use crate::support::{Env, Repo, repo_invariants};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
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
const CARGO: &str =
    "if test -s failing; then sed 's/.*/test & ... FAILED/' failing; exit 101; fi; echo 'test all ... ok'";

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

/// A test that waits until the file `open` is there, and a run that is in the middle of it.
fn in_the_middle(env: &Env, repo: &Repo<'_>) -> (PathBuf, String) {
    let gate = env.root().join("open");
    let test = counted(env, &format!("while ! test -e '{}'; do sleep 0.02; done", gate.display()));
    repo.start(&[("one", "WRITE: mark: one\nCOMMIT: c")], &["--test", &test]);
    env.until("the test runs", || !runs(env).is_empty());
    assert_eq!(repo.state("one"), "verifying");
    (gate, test)
}

#[test]
fn a_kill_in_the_middle_of_the_tests_costs_the_tests_and_not_the_work() {
    let env = Env::new();
    let repo = env.repo("x");
    let (gate, _) = in_the_middle(&env, &repo);
    assert_eq!(repo.status_of("one")["tests"]["state"], "running");
    let tip = repo.git(&["rev-parse", "agents/one"]);
    let (supervisor, assistant) = repo.pids("one");
    assert_eq!(assistant, None);
    kill(Pid::from_raw(supervisor), Signal::SIGKILL).unwrap();
    repo.becomes("one", "dead");
    assert_eq!(repo.reported("one")["verdict"], "failed");
    std::fs::write(&gate, "").unwrap();
    repo.agents(&["retry", "one"]).ok();
    assert_eq!(repo.settles("one"), "succeeded");
    assert_eq!(runs(&env), ["one", "one", "base"]);
    let status = repo.status_of("one");
    assert_eq!((&status["run"]["attempt"], &status["tip"]), (&json!(1), &json!(tip)));
    assert_eq!((&repo.reported("one")["verdict"], &tests(&repo, "one")["now"]), (&json!("ready"), &json!("pass")));
    nothing_is_left(&repo);
}

#[test]
fn stop_ends_what_the_tests_of_a_killed_supervisor_left() {
    let env = Env::new();
    let repo = env.repo("x");
    let (gate, _) = in_the_middle(&env, &repo);
    kill(Pid::from_raw(repo.pids("one").0), Signal::SIGKILL).unwrap();
    repo.becomes("one", "dead");
    repo.agents(&["stop", "one"]).ok();
    assert_eq!((env.processes(), repo.state("one").as_str()), (vec![], "stopped"));
    nothing_is_left(&repo);
    std::fs::write(&gate, "").unwrap();
    repo.agents(&["retry", "one"]).ok();
    assert_eq!((repo.settles("one").as_str(), runs(&env).len()), ("succeeded", 3));
}

#[test]
fn stop_ends_the_tests_with_all_they_started_and_retry_runs_only_them() {
    let env = Env::new();
    let repo = env.repo("x");
    let (gate, _) = in_the_middle(&env, &repo);
    repo.agents(&["stop", "one"]).ok();
    assert_eq!(repo.settles("one"), "stopped");
    assert_eq!(repo.reason("one"), "while its tests ran; 'git agents retry' runs only them");
    assert_eq!(env.processes(), []);
    nothing_is_left(&repo);
    std::fs::write(&gate, "").unwrap();
    repo.agents(&["retry", "one"]).ok();
    assert_eq!(repo.settles("one"), "succeeded");
    assert_eq!(
        (runs(&env), &repo.status_of("one")["run"]["attempt"]),
        (vec!["one".into(), "one".into(), "base".into()], &json!(1))
    );
}

#[test]
fn a_message_is_not_kept_waiting_by_tests_of_what_it_changes() {
    let env = Env::new();
    let repo = env.repo("x");
    let (gate, _) = in_the_middle(&env, &repo);
    repo.agents(&["send", "one", "WRITE: mark: two\nCOMMIT: d"]).ok();
    env.until("the new tip is tested", || runs(&env).len() == 2);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(repo.settles("one"), "succeeded");
    assert_eq!(runs(&env), ["one", "two", "base"]);
    let tree = repo.git(&["rev-parse", "agents/one^{tree}"]);
    assert_eq!(tests(&repo, "one")["tree"], tree);
    nothing_is_left(&repo);
}

#[test]
fn tests_give_back_the_slot_of_the_run_and_wait_for_one_of_their_own() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.parallel", "1");
    repo.set("agents.tests", "1");
    let (busy, gate) = (env.root().join("busy"), env.root().join("open"));
    let (busy, gate) = (busy.display(), gate.display());
    // Two at once would be seen.
    let test = counted(
        &env,
        &format!("mkdir '{busy}' || exit 9; while ! test -e '{gate}'; do sleep 0.02; done; rmdir '{busy}'"),
    );
    let task = |n: &str| format!("WRITE: mark: {n}\nCOMMIT: c");
    let (a, b, c) = (task("a"), task("b"), task("c"));
    repo.start(&[("a", &a), ("b", &b), ("c", &c)], &["--test", &test]);
    for name in ["a", "b", "c"] {
        repo.reaches(name, "verifying");
    }
    env.until("one tests, two wait", || {
        let states: Vec<String> = ["a", "b", "c"].map(|n| repo.status_of(n)["tests"]["state"].to_string()).into();
        states.iter().filter(|s| *s == "\"queued\"").count() == 2
    });
    assert_eq!(runs(&env).len(), 1);
    std::fs::write(env.root().join("open"), "").unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(repo.settles(name), "succeeded");
        assert_eq!(tests(&repo, name)["now"], "pass", "{}", tests(&repo, name));
    }
    let mut ran = runs(&env);
    ran.sort();
    assert_eq!(ran, ["a", "b", "base", "c"]);
    nothing_is_left(&repo);
}

#[test]
fn a_test_that_passes_when_asked_again_is_flaky_and_keeps_nobody_from_landing() {
    let env = Env::new();
    let repo = env.repo("x");
    let once = |what: &str| {
        let seen = env.root().join(format!("seen-{what}"));
        format!("if test -e mark && ! test -e '{0}'; then touch '{0}';", seen.display())
    };
    let named = counted(&env, &format!("{} echo 'test a::shaky ... FAILED'; exit 101; fi", once("named")));
    repo.run(&[("named", "WRITE: mark: named\nCOMMIT: c")], &["-q", "--test", &named]).ok();
    assert_eq!(runs(&env), ["named", "named", "base"]);
    let a = repo.reported("named");
    assert_eq!(
        (&a["verdict"], &a["tests"]["now"], &a["tests"]["flaky"]),
        (&json!("ready"), &json!("flaky"), &json!(["a::shaky"]))
    );
    assert_eq!(repo.status_of("named")["tests"]["verdict"], "flaky");
    let bare = counted(&env, &format!("{} exit 1; fi", once("bare")));
    let out = repo.run(&[("bare", "WRITE: mark: bare\nCOMMIT: c")], &["--test", &bare]).ok();
    assert!(out.stdout.contains("flaky: failed once, passed when asked again"), "{out}");
    assert_eq!(tests(&repo, "bare")["method"], "exit-code");
    // What is known of a tree counts for the merged result too.
    let merged = repo.agents(&["report", "--merged", "--json"]).ok().json()["merged"]["tests"].clone();
    assert_eq!((&merged["passed"], &merged["reused"]), (&json!(true), &json!(true)));
}

#[test]
fn junit_files_name_tests_and_those_that_were_there_before_do_not() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("reports/old.xml", "<testcase classname='old' name='was'><failure/></testcase>");
    repo.write(".gitignore", "reports/new*\n");
    repo.git(&["add", "-f", "."]);
    repo.git(&["commit", "-qm", "a report is committed"]);
    let hostile = "<!DOCTYPE x [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><t><testcase classname=\"a.B\" name=\"&e; \u{1b}[31mred\u{202e}\"><failure>x</failure></testcase>";
    std::fs::write(env.root().join("hostile.xml"), hostile).unwrap();
    let secret = env.root().join("secret.xml");
    std::fs::write(&secret, "<testcase name='secret'><failure/></testcase>").unwrap();
    repo.write(
        ".git-agents.toml",
        format!(
            "[test]\ncommand = \"\"\"if ls | grep -q ^ma; then cp '{}' reports/new.xml; ln -s '{}' reports/new-link.xml; mkfifo reports/new-pipe.xml; echo 'test by::output ... FAILED'; exit 1; fi\"\"\"\njunit = 'reports/**/*.xml'\n",
            env.root().join("hostile.xml").display(),
            secret.display()
        ),
    );
    repo.agents(&["trust", "--yes"]).ok();
    let out = repo.run(&[("one", "WRITE: mark: one\nCOMMIT: c")], &[]).ok();
    let t = tests(&repo, "one");
    assert_eq!(t["newly_failing"], json!(["a.B &e; \u{1b}[31mred\u{202e}"]), "{t}");
    assert!(!out.stdout.contains(['\u{1b}', '\u{202e}']), "{out}");
    nothing_is_left(&repo);
}

#[test]
fn what_a_test_leaves_is_not_in_anybodys_way() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("one", "WRITE: mark: one\nCOMMIT: c")], &["-q", "--test", "mkdir -p out && echo x >out/left.txt"]).ok();
    let one = repo.reported("one");
    assert_eq!((&one["verdict"], &one["left_over"]), (&json!("ready"), &json!([])));
    assert_eq!(one["tests"]["left_behind"], json!(["out/left.txt"]));
    nothing_is_left(&repo);
}

#[test]
fn a_command_that_never_ends_is_ended_and_a_setup_that_fails_is_said() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".git-agents.toml", "[test]\ncommand = 'ls | grep -q ^ma && sleep 1000; true'\ntimeout = '1s'\n");
    repo.agents(&["trust", "--yes"]).ok();
    repo.run(&[("one", "WRITE: mark: one\nCOMMIT: c")], &["-q"]).ok();
    let one = repo.reported("one");
    assert_eq!((&one["verdict"], &one["tests"]["now"]), (&json!("look"), &json!("fail")));
    assert!(one["reasons"][0].as_str().unwrap().contains("a test may take 1s"), "{one}");
    // The journal travels: nothing of this machine is in it.
    let tree = repo.git(&["rev-parse", "refs/notes/agents-journal^{tree}"]);
    let journal = repo.git(&["grep", "-h", "tested", &tree]);
    assert!(journal.contains("a test may take") && !journal.contains(env.root().to_str().unwrap()), "{journal}");
    let shown = repo.agents(&["show", "one"]).ok().stdout;
    assert!(
        shown.contains("\ntest        ls | grep") && shown.contains("\ntests       fail, 1 newly failing\n"),
        "{shown}"
    );
    let plan = repo.run(&[("two", "WRITE: mark: two")], &["--dry-run"]).ok().stdout;
    assert!(plan.contains("tested by: ls | grep -q ^ma && sleep 1000; true\n"), "{plan}");
    nothing_is_left(&repo);
}

#[test]
fn a_base_that_runs_into_the_limit_was_tested_for_each_agent() {
    let env = Env::new();
    let repo = env.repo("x");
    let test =
        format!("echo $(ls | grep ^ma || echo base) >>'{}'; ls | grep -q ^ma || sleep 1000", counter(&env).display());
    repo.write(".git-agents.toml", format!("[test]\ncommand = \"\"\"{test}\"\"\"\ntimeout = '1s'\n"));
    repo.agents(&["trust", "--yes"]).ok();
    let run = |names: [&str; 3], bases: usize| {
        let tasks = names.map(|n| (n, format!("WRITE: ma-{n}: x\nCOMMIT: c")));
        let tasks: Vec<(&str, &str)> = tasks.iter().map(|(n, t)| (*n, t.as_str())).collect();
        repo.run(&tasks, &["-q"]).ok();
        let ran = runs(&env);
        assert_eq!((ran.iter().filter(|r| *r == "base").count(), ran.len()), (bases, 4 * bases), "{ran:?}");
    };
    run(["a", "b", "c"], 1);
    for name in ["a", "b", "c"] {
        let t = tests(&repo, name);
        assert_eq!((&t["now"], &t["baseline"]), (&json!("pass"), &json!("fail")), "{t}");
        let log = repo.agents(&["logs", "--test", name]).ok().stdout;
        assert!(log.contains("== its base, "), "{log}");
    }
    let logs: String = ["a", "b", "c"].map(|n| repo.agents(&["logs", "--test", n]).ok().stdout).concat();
    assert_eq!(logs.matches("a test may take 1s").count(), 2, "{logs}");
    // Whoever begins later looks again: the machine may have been busy.
    run(["d", "e", "f"], 2);
    nothing_is_left(&repo);
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
        [
            &json!("fail"),
            &json!("fail"),
            &json!("names"),
            &json!(["new::c", "new::d"]),
            &json!(["old::b"]),
            &json!(["old::a"]),
            &json!([])
        ],
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
    for words in ["tests: 2 newly failing (", ", by name): new::c, new::d; 1 still failing: old::b; 1 fixed: old::a\n"]
    {
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
fn a_test_command_of_blanks_would_pass_whatever_is_there() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("one", "WRITE: f: x\nCOMMIT: c")], &[]).ok();
    for call in [
        &["run", "-a", "scripted", "--test", " ", "two"][..],
        &["report", "--merged", "--test", " "],
        &["land", "one", "--test", "\t"],
    ] {
        let out = repo.agents(call).code(129);
        assert!(out.stderr.contains("the command is empty"), "{out}");
    }
}

#[test]
fn what_is_missing_of_names_that_were_cut_is_neither_fixed_nor_flaky_and_counts_are_true() {
    let env = Env::new();
    let repo = env.repo("x");
    let names = |n: usize| (0..n).map(|i| format!("t{i:04}\n")).collect::<String>();
    repo.write("failing", names(1100));
    repo.git(&["add", "failing"]);
    repo.git(&["commit", "-qm", "broken"]);
    repo.run(&[("more", "REPLACE: failing: t0000 => a\\nt0000\nCOMMIT: c")], &["--test", CARGO]).ok();
    let t = tests(&repo, "more");
    assert_eq!([&t["method"], &t["fixed"], &t["newly_failing"]], [&json!("exit-code"), &json!([]), &json!([])], "{t}");

    let repo = env.repo("y");
    std::fs::write(env.root().join("names"), names(300)).unwrap();
    let many = format!("RUN: cp '{}' failing\nCOMMIT: c", env.root().join("names").display());
    repo.run(&[("many", &many)], &["--test", CARGO]).ok();
    assert_eq!(tests(&repo, "many")["newly_failing"].as_array().unwrap().len(), 300);

    // A runner that dies while it writes its file.
    let whole = "<testcase name='a'><failure/></testcase><testcase name='b'><failure/></testcase>";
    let dies = "if test -e mark; then head -c 50 xml; else cat xml; fi >r.xml; exit 1";
    repo.write("xml", whole);
    repo.write(".gitignore", "r.xml");
    repo.write(".git-agents.toml", format!("[test]\ncommand = \"{dies}\"\njunit = 'r.xml'\n"));
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "junit"]);
    repo.agents(&["trust", "--yes"]).ok();
    repo.run(&[("dies", "WRITE: mark: x\nCOMMIT: c")], &[]).code(0);
    assert_eq!(tests(&repo, "dies")["fixed"], json!([]), "{}", tests(&repo, "dies"));

    // Both runs in one log are more than is kept of it.
    let wordy = "if test -e mark; then echo 'test early ... FAILED'; yes | head -c 5000000; echo 'test late ... FAILED'; exit 1; fi";
    repo.run(&[("wordy", "WRITE: mark: x\nCOMMIT: c")], &["--test", wordy]).ok();
    let t = tests(&repo, "wordy");
    assert_eq!([&t["newly_failing"], &t["flaky"]], [&json!(["early", "late"]), &json!([])], "{t}");
    nothing_is_left(&repo);
}

#[test]
fn where_nothing_is_named_the_exit_code_counts_and_that_is_said() {
    let env = Env::new();
    let repo = env.repo("x");
    let test = counted(&env, "test ! -e broken || exit 3");
    let tasks = [("bad", "WRITE: mark: bad\nWRITE: broken: x\nCOMMIT: c"), ("good", "WRITE: mark: good\nCOMMIT: b")];
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

#[test]
fn the_real_cargo_names_what_broke() {
    let env = Env::new();
    let repo = env.repo("x");
    let home = |name: &str, below: &str| {
        let set = std::env::var_os(name).map(PathBuf::from);
        set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(below))).unwrap_or_default()
    };
    // The test's own HOME has no toolchain.
    let test = format!(
        "RUSTUP_HOME='{}' CARGO_HOME='{}' cargo test --offline --lib",
        home("RUSTUP_HOME", ".rustup").display(),
        home("CARGO_HOME", ".cargo").display()
    );
    repo.write("Cargo.toml", "[package]\nname = \"sum\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    repo.write(".gitignore", "target\nCargo.lock\n");
    let lib = |right: u32| {
        format!(
            "pub fn two() -> u32 {{ {right} }}\n#[cfg(test)]\nmod tests {{ #[test] fn is_two() {{ assert_eq!(super::two(), 2) }} \
             #[test] fn holds() {{}} }}\n"
        )
    };
    repo.write("src/lib.rs", lib(2));
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "a crate"]);
    let task = "REPLACE: src/lib.rs: u32 { 2 } => u32 { 3 }\nCOMMIT: c";
    repo.run(&[("one", task)], &["-q", "--test", &test]).ok();
    let t = tests(&repo, "one");
    assert_eq!((&t["newly_failing"], &t["baseline"]), (&json!(["tests::is_two"]), &json!("pass")), "{t:#}");
}

#[test]
fn the_real_pytest_writes_the_file_that_its_own_command_names() {
    let env = Env::new();
    let there = std::process::Command::new("python3").args(["-c", "import pytest"]).output();
    if !there.is_ok_and(|o| o.status.success()) {
        return;
    }
    let repo = env.repo("x");
    repo.write("test_it.py", "import two\ndef test_old(): assert False\ndef test_two(): assert two.two() == 2\n");
    repo.write("two.py", "def two(): return 2\n");
    repo.write(
        ".git-agents.toml",
        "[test]\ncommand = 'python3 -m pytest -q -p no:cacheprovider --junitxml=out/junit.xml'\njunit = 'out/*.xml'\n",
    );
    repo.write(".gitignore", "__pycache__\nout\n");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "a module"]);
    repo.agents(&["trust", "--yes"]).ok();
    repo.run(&[("one", "REPLACE: two.py: 2 => 3\nCOMMIT: c")], &["-q"]).ok();
    let t = tests(&repo, "one");
    assert_eq!(t["newly_failing"], json!(["test_it test_two"]), "{t:#}");
    assert_eq!((&t["still_failing"], &t["left_behind"]), (&json!(["test_it test_old"]), &json!([])));
}

#[test]
fn tests_wait_for_room_on_the_disk_and_a_person_is_told() {
    let env = Env::new();
    let repo = env.repo("x");
    let (gate, test) = in_the_middle(&env, &repo);
    repo.agents(&["stop", "one"]).ok();
    repo.settles("one");
    std::fs::write(&gate, "").unwrap();
    repo.set("agents.minFree", "1000TiB");
    repo.agents(&["retry", "one"]).ok();
    env.until("it waits", || repo.status_of("one")["tests"]["state"] == "queued");
    assert_eq!(repo.reason("one"), "waits for room: less than 1000 TiB of disk space is free");
    let out = repo.agents(&["report", "--merged", "--json", "--test", "true"]).code(128);
    assert!(out.stderr.contains("no test is started: less than 1000 TiB of disk space is free"), "{out}");
    repo.agents(&["stop", "one"]).ok();
    assert_eq!((repo.settles("one").as_str(), runs(&env).len()), ("stopped", 1), "{test}");
    nothing_is_left(&repo);
}

#[test]
fn what_a_person_did_in_an_agents_place_is_tested_like_a_run() {
    let env = Env::new();
    let repo = env.repo("x");
    let test = counted(&env, "test ! -e broken || exit 3");
    repo.run(&[("one", "WRITE: mark: one\nCOMMIT: c")], &["-q", "--test", &test]).ok();
    assert_eq!(repo.reported("one")["verdict"], "ready");
    // There is no interactive form of its assistant: a shell.
    repo.agents_input(&["attach", "one"], "echo x >broken; git add broken; git commit -qm broken\n").ok();
    assert_eq!(repo.settles("one"), "succeeded");
    let one = repo.reported("one");
    assert_eq!((&one["verdict"], &one["tests"]["now"]), (&json!("look"), &json!("fail")), "{one:#}");
    // Its base is known already.
    assert_eq!(runs(&env), ["one", "base", "one", "one"]);
}

#[test]
fn a_branch_that_moved_since_is_not_what_was_tested() {
    let env = Env::new();
    let repo = env.repo("x");
    let test = "test ! -e broken";
    repo.run(&[("one", "WRITE: broken: x\nCOMMIT: c")], &["-q", "--test", test]).ok();
    let tree = repo.worktree("one");
    tree.git(&["rm", "-q", "broken"]);
    tree.write("a.txt", "a");
    tree.git(&["add", "a.txt"]);
    tree.git(&["commit", "-qm", "mended by hand"]);
    let one = repo.reported("one");
    assert_eq!((&one["verdict"], &one["tests"]), (&json!("look"), &Value::Null));
    assert_eq!(one["reasons"], json!(["its tests failed before its last change, and were not run since"]));
    let none = Value::Null;
    let t = &repo.status_of("one")["tests"];
    assert_eq!((&t["state"], &t["verdict"], &t["newly_failing"]), (&json!("stale"), &none, &json!(0)), "{t}");
}

#[test]
fn a_tip_that_changed_after_its_tests_showed_none_at_all() {
    let env = Env::new();
    let repo = env.repo("x");
    let tasks = [("one", "WRITE: one: x\nCOMMIT: c"), ("two", "WRITE: two: x\nCOMMIT: c")];
    let out = repo.run(&tasks, &["--test", "test ! -e broken"]).ok();
    assert!(out.stdout.contains("tests: pass (test ! -e broken)\n"), "{out}");
    let tree = repo.git(&["rev-parse", "agents/one^{tree}"]);
    let one = repo.worktree("one");
    one.write("more", "x");
    one.git(&["add", "more"]);
    one.git(&["commit", "-qm", "more"]);
    repo.write("base.txt", "x");
    repo.git(&["add", "base.txt"]);
    repo.git(&["commit", "-qm", "the base moved"]);
    repo.agents(&["sync", "-q", "two"]).ok();
    let report = repo.agents(&["report"]).ok().stdout;
    let status = repo.agents(&["status"]).ok().stdout;
    for name in ["one", "two"] {
        let a = repo.reported(name);
        // What they said is not said of what is there now.
        assert_eq!(
            (&a["verdict"], &a["tests"], &a["earlier_tests"]["now"]),
            (&json!("ready"), &Value::Null, &json!("pass"))
        );
        assert_eq!(repo.status_of(name)["tests"]["state"], "stale");
        let words = format!("{name}: tests: of an earlier commit; 'git agents logs --test {name}'\n");
        assert!(status.contains(&words), "{words}\n{status}");
        let shown = repo.agents(&["show", name]).ok().stdout;
        assert!(shown.contains("\ntests       of an earlier commit\n"), "{shown}");
    }
    assert_eq!(repo.reported("one")["earlier_tests"]["tree"], tree);
    assert_eq!(report.matches("   tests: of an earlier commit: pass (test ! -e broken)\n").count(), 2, "{report}");
    for (format, words) in
        [("markdown", "- tests of an earlier commit: passes"), ("html", ">tests of an earlier commit: passes")]
    {
        let out = repo.agents(&["report", "--format", format]).ok().stdout;
        assert_eq!(out.matches(words).count(), 2, "{out}");
    }
}

#[test]
fn what_breaks_tests_or_failed_was_to_land_before_the_others() {
    let env = Env::new();
    let repo = env.repo("x");
    let tasks = [
        ("bad", "WRITE: broken: x\nCOMMIT: c"),
        ("dead", "WRITE: dead: x\nCOMMIT: c\nFAIL: no"),
        ("one", "WRITE: both: 1\nCOMMIT: c"),
        ("two", "WRITE: both: 2\nCOMMIT: c"),
    ];
    let out = repo.run(&tasks, &["--retries", "0", "--test", "test ! -e broken"]).code(1);
    let words = "\nland in this order: one, two\n  two will stop on one\nnot as it is: bad (breaks the tests)\nnot as it is: dead (failed)\n";
    assert!(out.stdout.contains(words), "{out}");
    let report = repo.agents(&["report", "--json"]).ok().json();
    let order: Vec<(&str, &Value)> =
        report["order"].as_array().unwrap().iter().map(|o| (o["name"].as_str().unwrap(), &o["not_yet"])).collect();
    let (bad, dead) = (json!("breaks the tests"), json!("failed"));
    assert_eq!(order, [("one", &Value::Null), ("bad", &bad), ("dead", &dead), ("two", &Value::Null)]);
    let markdown = repo.agents(&["report", "--format", "markdown"]).ok().stdout;
    assert!(markdown.contains("2. `bad`: not as it is, breaks the tests\n"), "{markdown}");
    let html = repo.agents(&["report", "--format", "html"]).ok().stdout;
    assert!(html.contains(" not as it is: breaks the tests<"), "{html}");
}

#[test]
fn failing_tests_alone_are_enough_to_know_that_they_fail_and_not_that_all_passes() {
    let env = Env::new();
    let repo = env.repo("x");
    // `all` is both of its tests; with names it runs these.
    let script = r#"#!/bin/sh
echo "$* $(cat mark 2>/dev/null || echo base)" >>'RUNS'
if test "$1" = all; then set -- a b; else shift; fi
for t; do
  if grep -qx "$t" bad 2>/dev/null || { test "$t" = a && grep -qs shaky mark && ! test -e 'SHOOK'; }; then
    touch 'SHOOK'
    echo "test $t ... FAILED"
    failed=1
  else
    echo "test $t ... ok"
  fi
done
test -z "$failed" || exit 101
"#;
    let shook = env.root().join("shook").display().to_string();
    env.script("runner", &script.replace("RUNS", &counter(&env).display().to_string()).replace("SHOOK", &shook));
    repo.write(".git-agents.toml", "[test]\ncommand = 'runner all'\nagain = ['runner', 'only', '{{ tests }}']\n");
    repo.agents(&["trust", "--yes"]).ok();
    repo.run(&[("broken", "WRITE: mark: broken\nWRITE: bad: a\\nb\nCOMMIT: c")], &["-q"]).ok();
    assert_eq!(tests(&repo, "broken")["newly_failing"], json!(["a", "b"]));
    assert_eq!(runs(&env), ["all broken", "only a b broken", "all base"]);
    std::fs::remove_file(&shook).unwrap();
    repo.run(&[("shaky", "WRITE: mark: shaky\nCOMMIT: c")], &["-q"]).ok();
    let t = tests(&repo, "shaky");
    assert_eq!((&t["now"], &t["flaky"]), (&json!("flaky"), &json!(["a"])), "{t:#}");
    // That it passes alone settles nothing: all of it is asked.
    assert_eq!(runs(&env)[3..], ["all shaky", "only a shaky", "all shaky"]);
    nothing_is_left(&repo);
}

#[test]
fn a_run_whose_folder_was_deleted_in_the_middle_of_its_tests_is_alone_and_goes_on() {
    let env = Env::new();
    let repo = env.repo("x");
    let (gate, _) = in_the_middle(&env, &repo);
    let dir = repo.run_dir("one");
    std::fs::remove_dir_all(&dir).unwrap();
    env.until("its folder is there again", || dir.join("lock").exists() && repo.state("one") == "verifying");
    repo.agents(&["retry", "one"]).code(128);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(repo.settles("one"), "succeeded");
    assert_eq!((runs(&env).len(), &tests(&repo, "one")["now"]), (2, &json!("pass")));
    nothing_is_left(&repo);
}
