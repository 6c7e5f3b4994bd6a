//! The JSON lines of `run` and `wait`: every one versioned and of a known kind, the last one says that all are settled.

use crate::support::Env;
use serde_json::Value;

const STATES: [&str; 7] = ["preparing", "waiting", "running", "succeeded", "unchanged", "failed", "needs-input"];

#[track_caller]
fn check(lines: &[Value], agents: &[&str]) {
    let kinds: Vec<&str> = lines.iter().map(|l| l["kind"].as_str().unwrap()).collect();
    assert!(kinds.iter().all(|k| ["agent", "state", "activity", "end", "settled"].contains(k)), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|k| **k == "settled").count(), 1);
    assert_eq!(*kinds.last().unwrap(), "settled");
    for name in agents {
        let own: Vec<&Value> = lines.iter().filter(|l| l["name"] == **name).collect();
        assert_eq!(own[0]["kind"], "agent", "introduced first: {own:?}");
        assert_eq!(own.iter().filter(|l| l["kind"] == "end").count(), 1, "{own:?}");
        for l in own.iter().filter(|l| l["kind"] == "state" || l["kind"] == "end") {
            assert!(STATES.contains(&l["state"].as_str().unwrap()), "{l}");
        }
        for l in own.iter().filter(|l| l["kind"] == "activity") {
            assert!(l["activity"]["kind"].is_string() && l["at"].as_str().unwrap().ends_with('Z'), "{l}");
        }
    }
    let last = lines.last().unwrap();
    let settled: Vec<&str> = last["agents"].as_array().unwrap().iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(settled, agents);
}

#[test]
fn run_and_wait_tell_the_same_story_line_by_line() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.retries", "0");
    let out = repo.run(
        &[("a", "SAY: hello\nWRITE: a: a"), ("b", "EXIT: 3"), ("c", "SAY: \\e[2Jhi")],
        &["--json", "-o", "../report.json"],
    );
    let lines = out.code(1).json_lines();
    check(&lines, &["a", "b", "c"]);
    let end = |name: &str| lines.iter().find(|l| l["kind"] == "end" && l["name"] == name).unwrap().clone();
    assert_eq!((&end("a")["state"], &end("b")["exit_code"]), (&"succeeded".into(), &3.into()));
    let said = |l: &&Value| l["name"] == "a" && l["activity"]["text"] == "hello";
    assert_eq!(lines.iter().filter(said).count(), 1);
    let report: Value = serde_json::from_str(&repo.read("../report.json")).unwrap();
    assert_eq!((&report["version"], report["agents"].as_array().unwrap().len()), (&1.into(), 3));

    let again = repo.agents(&["wait", "--json"]).code(1).json_lines();
    check(&again, &["a", "b", "c"]);
    assert_eq!(again.last().unwrap()["timed_out"], false);
    assert_eq!(again.last(), lines.last(), "the same end, whoever looks on");
}

#[test]
fn wait_for_any_and_for_so_long() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&[("quick", "WRITE: q: q"), ("slow", "WRITE: s: s\nWAITFILE: ../go")], &[]);
    let any = repo.agents(&["wait", "--any", "--json"]).code(1).json_lines();
    let last = any.last().unwrap();
    assert_eq!(last["agents"][0]["state"], "succeeded", "{last}");
    let late = repo.agents(&["wait", "--timeout", "1s"]).code(124);
    assert!(late.stderr.contains("time is up"), "{late}");
    assert_eq!(repo.state("slow"), "running");
    repo.write("../x.agents/go", "");
    repo.agents(&["wait", "--timeout", "1m"]).ok();
}

#[test]
fn a_detached_run_says_who_was_accepted() {
    let env = Env::new();
    let repo = env.repo("x");
    let lines = repo.run(&[("a", "WRITE: a: a"), ("b", "EXIT: 3")], &["-d", "--json"]).ok().json_lines();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|l| l["kind"] == "agent" && l["accepted"] == true && l["batch"] == 1), "{lines:?}");
    repo.agents(&["stop", "--all"]);
}
