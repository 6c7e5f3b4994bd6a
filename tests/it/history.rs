//! `history`: every agent there ever was, and what became of it.

use crate::support::env::run;
use crate::support::{Env, Repo};
use serde_json::{Value, json};

fn history(repo: &Repo<'_>) -> Vec<Value> {
    repo.agents(&["history", "--json"]).ok().json()["agents"].as_array().unwrap().clone()
}

fn names(all: &[Value]) -> Vec<&str> {
    all.iter().map(|a| a["name"].as_str().unwrap()).collect()
}

#[test]
fn what_is_gone_is_still_told_of() {
    let env = Env::new();
    let repo = env.repo("x");
    assert!(repo.agents(&["history"]).ok().stderr.contains("no agent yet"));
    assert_eq!(history(&repo), [Value::Null; 0]);
    let task = |n: &str| format!("WRITE: {n}.txt: x\nCOMMIT: {n}\nUSAGE: 0.5 1000");
    let (a, b, c) = (task("a"), task("b"), task("c"));
    let tasks =
        [("landed", a.as_str()), ("merged", &b), ("dropped", &c), ("failed", "FAIL: no"), ("back", "SAY: nothing")];
    repo.run(&tasks, &["-q", "--retries", "0"]).code(1);
    repo.agents(&["land", "-q", "landed"]).ok();
    repo.git(&["merge", "-q", "--no-edit", "agents/merged"]);
    repo.agents(&["clean", "-q"]).ok();
    repo.agents(&["rm", "-q", "-D", "dropped"]).ok();
    repo.agents(&["rm", "-q", "back"]).ok();
    repo.agents(&["restore", "-q", "back"]).ok();
    repo.agents(&["new", "-q", "feature"]).ok();
    let all = history(&repo);
    assert_eq!(names(&all), ["feature", "back", "failed", "dropped", "merged", "landed"]);
    let of = |name: &str| all.iter().find(|a| a["name"] == name).unwrap();
    for (name, state, became) in [
        ("feature", Value::Null, "here"),
        ("back", json!("unchanged"), "here"),
        ("failed", json!("failed"), "here"),
        ("dropped", json!("succeeded"), "removed"),
        ("merged", json!("succeeded"), "removed"),
        ("landed", json!("succeeded"), "removed"),
    ] {
        let it = of(name);
        assert_eq!((&it["state"], &it["became"]), (&state, &json!(became)), "{it:#}");
        assert_eq!(it["removed"].is_string(), became == "removed");
    }
    assert_eq!(of("landed")["landed"]["commit"], repo.tip("main~1"));
    assert_eq!(of("merged")["landed"], json!({ "base": "main", "commit": null, "at": null }));
    assert!(of("dropped")["landed"].is_null() && of("back")["restored"].is_string());
    assert_eq!((&of("landed")["cost_usd"], &of("landed")["commits"]), (&json!(0.5), &json!(1)));
    let text = repo.agents(&["history"]).ok().stdout;
    let line =
        |name: &str| text.lines().find(|l| l.contains(&format!("  {name}  "))).unwrap_or_else(|| panic!("{text}"));
    assert!(line("landed ").contains("  scripted   succeeded  landed in main as "), "{text}");
    assert!(line("merged ").contains("landed in main, removed 20"), "{text}");
    assert!(line("dropped").contains("  removed 20") && line("back   ").contains("  restored  "), "{text}");
    assert!(line("feature").contains("  -          -          here  "), "{text}");
    // The folder of runs may go: the history is in git.
    std::fs::remove_dir_all(repo.common_dir().join("agents/run")).unwrap();
    assert_eq!(names(&history(&repo)), names(&all));
    let again = history(&repo);
    assert_eq!(again.iter().find(|a| a["name"] == "dropped").unwrap(), of("dropped"));
}

#[test]
fn people_are_told_the_time_of_their_own_clock_and_programs_that_of_utc() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "SAY: one\nWRITE: a: a")], &["-q"]).ok();
    let out = |zone: &str, args: &[&str]| {
        let mut command = env.agents_command(repo.path(), args);
        command.env("TZ", zone);
        run(command, b"").ok().stdout
    };
    let utc = repo.status_of("a")["run"]["started"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    // Half a day and 34 minutes ahead, where none of it can be mistaken.
    let zone = "XXX-12:34";
    let wall = (utc + jiff::SignedDuration::from_mins(12 * 60 + 34)).strftime("%Y-%m-%d %H:%M:%S").to_string();
    assert!(out(zone, &["show", "a"]).contains(&format!("started     {wall}\n")));
    let minutes =
        |text: &str| text.split(' ').find_map(|w| w.get(..5).filter(|w| w.as_bytes()[2] == b':')).map(str::to_owned);
    let at = |args: &[&str]| minutes(out(zone, args).lines().last().unwrap()).unwrap();
    for args in [&["logs", "a"][..], &["history"]] {
        let (here, utc) = (at(args), minutes(out("UTC0", args).lines().last().unwrap()).unwrap());
        let minute = |t: &str| t[..2].parse::<i32>().unwrap() * 60 + t[3..].parse::<i32>().unwrap();
        assert_eq!((minute(&here) - minute(&utc)).rem_euclid(1440), 754, "{args:?}: {here} {utc}");
    }
    assert_eq!(out(zone, &["history", "--json"]), out("UTC0", &["history", "--json"]));
}
