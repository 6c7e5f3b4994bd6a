//! Every state a run can be in: how it comes about, and that `status`, `show`, the report and the exit codes of `run`
//! and `wait` agree on it.

use crate::support::{Env, Repo};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What all the ways to ask say about one settled agent.
#[track_caller]
fn all_say(repo: &Repo<'_>, name: &str, state: &str, reason: &str, verdict: &str) {
    let run = repo.status_of(name)["run"].clone();
    assert_eq!(run["state"], state, "{run}");
    let told = run["reason"].as_str().unwrap_or("");
    assert!(if reason.is_empty() { told.is_empty() } else { told.contains(reason) }, "{told} / {reason}");
    assert_eq!((run["pid"].is_null(), run["ended"].is_null()), (true, false), "{run}");
    let show = repo.agents(&["show", name]).ok().stdout;
    assert!(show.lines().any(|l| l.starts_with("state ") && l.contains(state)), "{show}");
    let report = repo.reported(name);
    assert_eq!((&report["state"], &report["verdict"]), (&state.into(), &verdict.into()), "{report}");
    if state != "succeeded" {
        assert!(report["reasons"][0].as_str().unwrap().starts_with(state), "{report}");
    }
    repo.agents(&["wait", name]).code(i32::from(state != "succeeded"));
}

#[test]
fn one_list_with_every_end_an_assistant_can_come_to_by_itself() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.retries", "0");
    let out = repo.run(
        &[
            ("good", "WRITE: a.txt: a\nCOMMIT: Add a"),
            ("idle", "SAY: all is well"),
            ("code", "EXIT: 3"),
            ("killed", "RUN: kill -9 $PPID"),
            ("gave-up", "WRITE: b.txt: b\nFAIL: too hard"),
            ("child after=code", "WRITE: c.txt: c"),
            ("grandchild after=child", "WRITE: d.txt: d"),
        ],
        &[],
    );
    let out = out.code(1);
    assert!(out.stdout.contains("good"), "{out}");
    all_say(&repo, "good", "succeeded", "", "ready");
    all_say(&repo, "idle", "unchanged", "changed nothing", "nothing");
    all_say(&repo, "code", "failed", "exited with 3", "failed");
    all_say(&repo, "killed", "failed", "signal 9", "failed");
    all_say(&repo, "gave-up", "failed", "did not succeed", "failed");
    all_say(&repo, "child", "skipped", "'code' is failed", "skipped");
    all_say(&repo, "grandchild", "skipped", "'child' is skipped", "skipped");
    assert_eq!(repo.status_of("code")["run"]["exit_code"], 3);
    assert_eq!(repo.status_of("idle")["run"]["exit_code"], 0);
    // Its work is there all the same.
    assert_eq!(repo.worktree("gave-up").read("b.txt"), "b\n");
    repo.agents(&["wait"]).code(1);
    repo.agents(&["wait", "good"]).code(0);
}

#[test]
fn a_run_in_which_nothing_was_done_is_no_success() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "SAY: done!")], &[]).code(1);
    repo.run(&[("b", "WRITE: b: b"), ("c", "WRITE: c: c")], &[]).code(0);
    repo.agents(&["wait"]).code(0);
}

#[test]
fn a_missing_program_is_told_before_anything_starts() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.custom(&["no-such-program", "--do"]);
    let out = repo.agents(&["run", "-a", "mine", "A task"]).code(128);
    assert!(out.stderr.contains("'no-such-program'"), "{out}");
    assert!(repo.agents(&["status", "--json"]).ok().json()["agents"].as_array().unwrap().is_empty());
    assert_eq!(repo.git(&["for-each-ref", "refs/agents", "refs/heads/agents"]), "");
}

#[test]
fn a_failed_setup_is_told_by_its_command_and_its_log() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".git-agents.toml", "[setup]\nrun = [\"echo to the log; exit 4\"]\n");
    repo.commit("Set-up");
    repo.agents(&["trust", "--yes"]).ok();
    repo.run(&[("a", "WRITE: a: a")], &[]).code(1);
    all_say(&repo, "a", "failed", "setup: 'echo to the log; exit 4' exited with 4", "failed");
    assert!(repo.agents(&["logs", "--setup", "a"]).ok().stdout.contains("to the log"));
    assert!(!repo.run_dir("a").join("output.log").exists(), "the assistant was started all the same");
    // Mended and approved anew, the same agent goes on.
    repo.write(".git-agents.toml", "[setup]\nrun = [\"pwd >where; env >environment\"]\n");
    repo.agents(&["trust", "--yes"]).ok();
    repo.agents(&["retry", "a"]).ok();
    repo.agents(&["wait", "a"]).ok();
    let place = repo.worktree("a");
    assert_eq!(place.read("where").trim_end(), place.path().to_str().unwrap());
    assert!(place.read("environment").contains(&format!("AGENTS_WORKTREE={}\n", place.path().display())));
}

#[test]
fn limits_end_an_attempt_and_keep_its_work() {
    let env = Env::new();
    let repo = env.repo("x");
    for (key, value) in [("agents.retries", "0"), ("agents.stopGrace", "1s")] {
        repo.set(key, value);
    }
    repo.start(&[("slow", "WRITE: s.txt: half\nSAY: on it\nSLEEP: 100")], &["--time", "1s"]);
    repo.start(&[("quiet", "WRITE: q.txt: half\nSLEEP: 100")], &["--stall", "1s"]);
    repo.start(&[("dear", "WRITE: d.txt: half\nUSAGE: 2.5 1000\nSLEEP: 100")], &["--cost", "2"]);
    for (name, state, reason) in [
        ("slow", "timed-out", "longer than 1s"),
        ("quiet", "stalled", "no progress for 1s"),
        ("dear", "over-budget", "2.00 USD"),
    ] {
        repo.reaches(name, state);
        all_say(&repo, name, state, reason, "failed");
        assert_eq!(repo.worktree(name).read(format!("{}.txt", &name[..1])), "half\n");
    }
    for name in ["slow", "quiet"] {
        let kept = repo.git(&[
            "for-each-ref",
            "--format=%(refname)",
            &format!("refs/agents/auto/{}/", repo.status_of(name)["id"].as_str().unwrap()),
        ]);
        assert_eq!(kept.lines().count(), 1, "{name}");
        assert_eq!(repo.git(&["show", &format!("{kept}:{}.txt", &name[..1])]), "half");
    }
    let dear = repo.status_of("dear")["run"].clone();
    assert_eq!((&dear["cost_usd"], &dear["tokens"]), (&2.5.into(), &1000.into()));
    let refused = repo.agents(&["retry", "dear"]).code(128);
    assert!(refused.stderr.contains("has cost 2.50 of 2.00 USD") && refused.stderr.contains("--cost"), "{refused}");
    repo.agents(&["retry", "--cost", "20", "dear"]).ok();
    repo.env.until("it goes on", || repo.status_of("dear")["run"]["cost_usd"] == 5.0);
    assert_eq!(repo.status_of("dear")["run"]["limits"]["cost_usd"], 20.0);
    repo.agents(&["stop", "dear"]).ok();
}

#[test]
fn quiet_work_is_not_taken_for_a_stall() {
    let env = Env::new();
    let repo = env.repo("x");
    // Each works for longer than the limit without a word: with the processor, with files, in a child.
    let writes = "RUN: for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i >>w.txt; sleep 0.2; done";
    repo.start(
        &[
            ("spins", "SPIN: 2.4\nWRITE: s: s"),
            ("writes", writes),
            ("child", "RUN: t=$(($(date +%s)+3)); while [ $(date +%s) -lt $t ]; do :; done; echo c >c"),
        ],
        &["--stall", "1s"],
    );
    for name in ["spins", "writes", "child"] {
        repo.reaches(name, "succeeded");
        assert_eq!(repo.status_of(name)["run"]["attempt"], 1, "{name} was started again");
    }
}

#[test]
fn reconnecting_for_ever_is_a_stall() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.retries", "0");
    repo.set("agents.stopGrace", "1s");
    repo.custom(&["/bin/sh", "-c", "while :; do echo Reconnecting...; sleep 0.3; done"]);
    repo.agents(&["run", "-d", "-a", "mine", "--stall", "1s", "Task"]).ok();
    repo.reaches("task", "stalled");
}

#[test]
fn what_a_batch_may_cost_and_until_when_it_may_start() {
    let env = Env::new();
    let repo = env.repo("x");
    let dear = "USAGE: 3 10\nWRITE: f: f";
    repo.run(&[("a", dear), ("b", dear), ("c", dear)], &["--total-cost", "5", "-j", "1"]).code(1);
    assert_eq!([repo.state("a"), repo.state("b")], ["succeeded", "succeeded"]);
    all_say(&repo, "c", "over-budget", "the batch has cost 6.00 of 5.00 USD", "failed");
    // A person who says how much more is listened to.
    repo.agents(&["retry", "--cost", "9", "c"]).ok();
    repo.reaches("c", "succeeded");

    repo.run(&[("late", "WRITE: l: l")], &["--until", "2020-01-01T00:00:00Z"]).code(1);
    all_say(&repo, "late", "over-budget", "no start after 20", "failed");
    let said = repo.agents(&["status"]).ok().stdout;
    assert!(said.contains("it was never started; 'git agents retry late' goes on"), "{said}");
    repo.agents(&["retry", "late"]).ok();
    repo.reaches("late", "succeeded");
}

#[test]
fn the_time_to_start_can_pass_in_the_queue() {
    let env = Env::new();
    let repo = env.repo("x");
    let first = "WRITE: a: a\nWAITFILE: ../../go";
    repo.start(&[("first", first), ("second", "WRITE: b: b")], &["-j", "1", "--until", "1s"]);
    repo.reaches("first", "running");
    repo.reaches("second", "waiting");
    let until = repo.agents(&["show", "--json", "second"]).ok().json();
    let created = until["agents"][0]["created"].as_str().unwrap().to_owned();
    repo.env.until("the time is up", || {
        let created: jiff::Timestamp = created.parse().unwrap();
        jiff::Timestamp::now() > created + std::time::Duration::from_millis(1500)
    });
    repo.write("../go", "");
    repo.reaches("second", "over-budget");
    repo.reaches("first", "succeeded");
}

#[test]
fn a_stopped_run_is_stopped_and_goes_on_when_told_so() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    repo.start(&[("a", "WRITE: a: a\nSAY: waiting\nWAITFILE: ../go"), ("b", "SLEEP: 100")], &["-j", "1"]);
    repo.reaches("a", "running");
    repo.reaches("b", "waiting");
    repo.env.until("it has written", || repo.worktree("a").join("a").exists());
    let out = repo.agents(&["stop", "--json", "--waiting"]).ok().json();
    assert_eq!((out["results"][0]["name"].as_str(), out["results"].as_array().unwrap().len()), (Some("b"), 1), "{out}");
    all_say(&repo, "b", "stopped", "", "nothing");
    repo.agents(&["stop", "--all"]).ok();
    all_say(&repo, "a", "stopped", "", "look");
    // Nothing to stop any more.
    repo.agents(&["stop", "a"]).code(1);
    repo.agents(&["stop", "--all"]).ok();
    repo.write("../x.agents/go", "");
    repo.agents(&["retry", "a"]).ok();
    repo.reaches("a", "succeeded");
    assert_eq!(repo.status_of("a")["run"]["attempt"], 2);
}

#[test]
fn a_skipped_child_is_revived_by_its_parents_retry() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.retries", "0");
    let parent = "WRITE: p: p\nCOMMIT: p\nRUN: test -e ../mended";
    let list =
        [("parent", parent), ("child after=parent", "RUN: cat p >c"), ("grandchild after=child", "RUN: cat c >g")];
    repo.run(&list, &[]).code(1);
    assert_eq!([repo.state("parent"), repo.state("child"), repo.state("grandchild")], ["failed", "skipped", "skipped"]);
    repo.write("../x.agents/mended", "");
    repo.agents(&["retry", "parent"]).ok();
    repo.env.until("all succeed", || ["parent", "child", "grandchild"].iter().all(|n| repo.state(n) == "succeeded"));
    assert_eq!(repo.worktree("grandchild").read("g"), "p\n");
    repo.agents(&["wait"]).ok();
}

#[test]
fn a_question_ends_the_run_and_frees_its_slot_but_not_the_session() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.questionGrace", "1s");
    repo.set("agents.stopGrace", "1s");
    let ends_at_once = r#"PRINT: {"activity":{"kind":"needs-input","question":"Which colour?"}}"#;
    let out = repo.run(
        &[
            ("waits", "SESSION: s-1\nWRITE: w: w\nASK: Red or blue?"),
            ("ends", &format!("SESSION: s-2\n{ends_at_once}\nRUN: kill -9 $PPID")),
            ("next", "WRITE: n: n"),
        ],
        &["-j", "1"],
    );
    // Settled all the same, though not well.
    out.code(1);
    for (name, question, session) in [("waits", "Red or blue?", "s-1"), ("ends", "Which colour?", "s-2")] {
        let run = repo.status_of(name)["run"].clone();
        assert_eq!((&run["state"], &run["question"]), (&"needs-input".into(), &question.into()), "{run}");
        assert_eq!(run["session"], session);
        assert!(run["pid"].is_null() && !repo.record(name, "exit.json").is_null());
        assert_eq!(repo.reported(name)["verdict"], "look");
        assert!(repo.agents(&["show", name]).ok().stdout.contains(question));
    }
    assert_eq!(repo.state("next"), "succeeded");
    assert!(env.processes().is_empty(), "{:?}", env.processes());
    repo.agents(&["send", "--wait", "waits", "WRITE: answer: red"]).ok();
    assert_eq!(repo.worktree("waits").read("answer"), "red\n");
    assert_eq!(repo.worktree("waits").read("w"), "w\n");
}

#[test]
fn an_answer_that_comes_while_it_asks_goes_on_at_once() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    repo.start(&[("a", "SESSION: s\nASK: Which?")], &[]);
    repo.env.until("it asks", || repo.status_of("a")["run"]["question"] == "Which?");
    assert_eq!(repo.state("a"), "running", "it has a minute");
    repo.agents(&["send", "a", "WRITE: answer: this"]).ok();
    repo.reaches("a", "succeeded");
    assert_eq!(repo.status_of("a")["run"]["attempt"], 1);
}

#[test]
fn a_killed_supervisor_is_seen_at_once_and_what_it_left_is_ended() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    let script = "WRITE: a: a\nFORK: 1000\nWAITFILE: ../go\nWRITE: b: b";
    for name in ["stopped", "retried", "removed"] {
        repo.start(&[(name, script)], &[]);
        repo.env.until("it has forked", || repo.worktree(name).join("a").exists() && sleepers(&env, name).len() == 1);
        let (supervisor, assistant) = repo.pids(name);
        kill(Pid::from_raw(supervisor), Signal::SIGKILL).unwrap();
        repo.env.until("it is dead", || repo.state(name) == "dead");
        let run = repo.status_of(name)["run"].clone();
        assert!(run["pid"].is_null() && run["reason"].as_str().unwrap().contains("killed"), "{run}");
        assert_eq!(repo.reported(name)["verdict"], "failed");
        repo.agents(&["wait", name]).code(1);
        // Nobody has ended anything yet.
        assert!(alive(assistant.unwrap()) && sleepers(&env, name).len() == 1);
        match name {
            "stopped" => {
                repo.agents(&["stop", name]).ok();
                assert_eq!(repo.state(name), "stopped");
            }
            "retried" => {
                repo.agents(&["retry", name]).ok();
                repo.reaches(name, "running");
                assert_ne!(repo.pids(name).1, assistant);
                repo.agents(&["stop", name]).ok();
            }
            _ => {
                let said = repo.status_of(name)["findings"].to_string();
                assert!(said.contains("2 processes of its run still work"), "{said}");
                let out = repo.agents(&["rm", name]).code(128);
                assert!(out.stderr.contains("are alive") && out.stderr.contains("rm --stop removed"), "{out}");
                assert!(alive(assistant.unwrap()) && repo.worktree(name).join("a").exists(), "{out}");
                repo.agents(&["rm", "--stop", name]).ok();
                repo.agents(&["status", name]).code(128);
            }
        }
        assert!(!alive(assistant.unwrap()), "{name}");
        assert!(sleepers(&env, name).is_empty(), "{name}: {:?}", env.processes());
    }
    assert!(env.processes().is_empty());
}

fn sleepers(env: &Env, agent: &str) -> Vec<i32> {
    let of = |pid: i32| {
        let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        bytes.split(|b| *b == 0).any(|e| e == format!("AGENTS_NAME={agent}").as_bytes())
    };
    env.processes().into_iter().filter(|(pid, line)| line == "sleep 1000" && of(*pid)).map(|(pid, _)| pid).collect()
}

fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|s| s.trim_start().starts_with(['R', 'S', 'D', 'T']))
}

#[test]
fn after_a_reboot_nothing_is_signalled_and_retry_goes_on() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&[("a", "SESSION: s-1\nWRITE: a: a\nWAITFILE: ../go")], &[]);
    repo.env.until("it works", || repo.worktree("a").join("a").exists());
    let (supervisor, assistant) = repo.pids("a");
    kill(Pid::from_raw(supervisor), Signal::SIGKILL).unwrap();
    repo.env.until("it is dead", || repo.state("a") == "dead");
    // The records say another boot, as they would after a restart.
    let dir = repo.run_dir("a");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for file in ["state.json", "pid.json"] {
        let text = std::fs::read_to_string(dir.join(file)).unwrap();
        let changed = text.replace(boot.trim(), "00000000-0000-0000-0000-000000000000");
        assert_ne!(text, changed);
        std::fs::write(dir.join(file), changed).unwrap();
    }
    assert_eq!(repo.state("a"), "interrupted");
    assert!(repo.reason("a").contains("restarted"));
    repo.agents(&["retry", "--failed"]).ok();
    assert_eq!(repo.state("a"), "interrupted", "a restart is no failure");
    // Processes of before cannot exist: whoever has their numbers now is left alone.
    repo.write("../x.agents/go", "");
    let still = alive(assistant.unwrap());
    repo.agents(&["retry", "--interrupted"]).ok();
    assert!(still);
    repo.reaches("a", "succeeded");
    assert_eq!(repo.status_of("a")["run"]["session"], "s-1");
}

#[test]
fn waiting_says_for_what() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(
        &[("runs", "WAITFILE: ../go"), ("slot", "WRITE: a: a"), ("later after=runs", "WRITE: b: b")],
        &["-j", "1"],
    );
    repo.reaches("runs", "running");
    repo.reaches("slot", "waiting");
    assert_eq!(repo.reason("slot"), "for a slot");
    repo.reaches("later", "waiting");
    assert_eq!(repo.reason("later"), "after 'runs'");
    repo.set("agents.minFree", "900TiB");
    repo.start(&[("room", "WRITE: r: r")], &[]);
    repo.reaches("room", "waiting");
    assert_eq!(repo.reason("room"), "less than 900 TiB of disk space is free");
    let out = repo.agents(&["wait", "--timeout", "1s", "--json", "room"]).code(124);
    let last = out.json_lines().pop().unwrap();
    assert_eq!((&last["kind"], &last["timed_out"]), (&"settled".into(), &true.into()));
    // Nobody behind it has to wait for room that it wants.
    repo.write("../x.agents/go", "");
    for name in ["runs", "slot", "later"] {
        repo.settles(name);
    }
    repo.agents(&["stop", "room"]).ok();
}

#[test]
fn a_rate_limit_holds_its_assistant_and_nobody_else() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.custom(&["/bin/sh", "-c", "echo m >mine.txt"]);
    let limited = "RUN: test -e ../once || touch ../once ../limit\nRUN: if [ -e ../limit ]; then rm ../limit; \
                   printf '{\"activity\":{\"kind\":\"rate-limit\",\"resume_at\":\"%s\"}}\\n' $(date -u -d '+5 sec' +%FT%TZ); sleep 9; fi\nWRITE: l: l";
    repo.start(&[("limited", limited), ("same", "WRITE: s: s")], &["-j", "1"]);
    repo.reaches("limited", "waiting");
    let run = repo.status_of("limited")["run"].clone();
    let until = run["reason"].as_str().unwrap().strip_prefix("scripted is held: rate limit until ").unwrap();
    assert!(until.len() == 19 && !until.contains('T'), "as a person reads it: {until}");
    assert!(!run["resume_at"].is_null());
    repo.reaches("same", "waiting");
    let status = repo.agents(&["status", "--json"]).ok().json();
    assert_eq!(
        (&status["holds"][0]["assistant"], &status["holds"][0]["reason"]),
        (&"scripted".into(), &"rate limit".into())
    );
    repo.env.until("both are counted", || repo.agents(&["status", "--json"]).ok().json()["holds"][0]["waiting"] == 2);
    // Another assistant goes on meanwhile.
    repo.agents(&["run", "-a", "mine", "Other"]).ok();
    assert!(["waiting", "preparing"].contains(&repo.state("limited").as_str()));
    // Afterwards, in the order of the list, and the attempt was not counted.
    repo.reaches("same", "succeeded");
    assert_eq!(repo.state("limited"), "succeeded");
    let (first, second) = (repo.status_of("limited")["run"].clone(), repo.status_of("same")["run"].clone());
    assert_eq!((&first["attempt"], &first["attempts_left"]), (&1.into(), &1.into()));
    assert!(first["ended"].as_str() < second["ended"].as_str(), "{first} {second}");
    assert!(repo.agents(&["status", "--json"]).ok().json()["holds"].as_array().unwrap().is_empty());
}

#[test]
fn a_rate_limit_that_is_over_already_is_no_endless_loop() {
    let env = Env::new();
    let repo = env.repo("x");
    let limited = r#"RUN: echo x >>../count; printf '{"activity":{"kind":"rate-limit","resume_at":"2020-01-01T00:00:00Z"}}\n'; sleep 9"#;
    repo.start(&[("a", limited)], &[]);
    repo.reaches("a", "waiting");
    let count = || std::fs::read_to_string(repo.join("../x.agents/count")).unwrap_or_default().lines().count();
    repo.env.until("it was asked a second time", || count() == 2);
    repo.reaches("a", "waiting");
    let until: jiff::Timestamp = repo.status_of("a")["run"]["resume_at"].as_str().unwrap().parse().unwrap();
    assert!(until > jiff::Timestamp::now() + std::time::Duration::from_millis(500), "{until}");
    repo.agents(&["stop", "a"]).ok();
}

#[test]
fn three_equal_failures_at_the_start_hold_the_assistant_until_a_person_lifts_that() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.retries", "0");
    repo.custom(&["/bin/sh", "-c", "test -e ../../logged-in || { echo not logged in >&2; exit 7; }; echo x >x.txt"]);
    let args = ["run", "-d", "-j", "1", "-a", "mine", "One", "Two", "Three", "Four", "Five"];
    repo.agents(&args).ok();
    for name in ["one", "two", "three"] {
        repo.reaches(name, "failed");
    }
    repo.reaches("four", "waiting");
    repo.reaches("five", "waiting");
    let reason = repo.reason("four");
    assert_eq!(reason, "mine is held: three starts in a row failed: mine exited with 7");
    // Others are not.
    repo.run(&[("free", "WRITE: f: f")], &[]).ok();
    repo.write("../logged-in", "");
    let out = repo.agents(&["retry", "--held"]).ok();
    assert!(out.stderr.contains("the hold on mine is lifted"), "{out}");
    repo.reaches("four", "succeeded");
    repo.reaches("five", "succeeded");
    repo.agents(&["retry", "--failed"]).ok();
    for name in ["one", "two", "three"] {
        repo.reaches(name, "succeeded");
    }
}

#[test]
fn a_failed_attempt_is_repeated_with_its_work_kept() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.retries", "2");
    repo.start(&[("a", "RUN: echo x >>tries; test $(wc -l <tries) = 3")], &[]);
    repo.reaches("a", "succeeded");
    let run = repo.status_of("a")["run"].clone();
    assert_eq!((&run["attempt"], &run["attempts_left"]), (&3.into(), &0.into()), "{run}");
    let id = repo.status_of("a")["id"].as_str().unwrap().to_owned();
    let kept = repo.git(&["for-each-ref", "--format=%(refname)", &format!("refs/agents/auto/{id}/")]);
    let shown: Vec<String> = kept.lines().map(|r| repo.git(&["show", &format!("{r}:tries")])).collect();
    assert_eq!(shown, ["x", "x\nx"]);
    let journal = repo.git(&["notes", "--ref=agents-journal", "show", &id]);
    assert_eq!(journal.lines().filter(|l| l.contains("\"attempt\"") && l.contains("\"kind\":\"attempt\"")).count(), 3);
}

#[test]
fn captures_come_while_it_works_and_five_are_kept() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.captureInterval", "1s");
    repo.start(&[("a", "WRITE: a: one\nSAY: working\nWAITFILE: ../go\nEXIT: 3")], &["--retries", "6"]);
    let id = repo.status_of("a")["id"].as_str().unwrap().to_owned();
    let list = || repo.git(&["for-each-ref", "--format=%(refname)", &format!("refs/agents/auto/{id}/")]);
    repo.env.until("it is captured", || !list().is_empty());
    assert_eq!(repo.state("a"), "running");
    assert_eq!(repo.git(&["show", &format!("{}:a", list())]), "one");
    // The worktree itself, its index and its branch are as the assistant left them.
    assert_eq!(repo.worktree("a").git(&["status", "--porcelain"]), "?? a");
    repo.agents(&["stop", "a"]).ok();
}

#[test]
fn one_that_left_its_branch_was_a_success_with_nothing_on_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "RUN: git switch -q -c other\nWRITE: f: x\nCOMMIT: made\nSAY: done")], &[]).code(1);
    assert_eq!(repo.state("a"), "failed");
    assert_eq!(repo.reason("a"), "it left its branch: 'other' is checked out");
    assert_eq!(repo.reported("a")["verdict"], "failed");
    // Its work is where it was put.
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "other"]), "made");
    // Commits on no branch at all, and what would be committed there.
    repo.run(
        &[
            ("c", "RUN: git switch -q --detach\nWRITE: g: x\nCOMMIT: lost"),
            ("d", "RUN: git switch -q --detach\nWRITE: g: x"),
        ],
        &[],
    )
    .code(1);
    for name in ["c", "d"] {
        let at = repo.worktree(name).git(&["rev-parse", "HEAD"]);
        assert_eq!(repo.reason(name), format!("it left its branch: '{}' is checked out", &at[..10]));
    }
    assert_eq!(repo.worktree("d").git(&["status", "--porcelain"]), "?? g");
    repo.run(&[("e", "WRITE: h: x\nCOMMIT: made\nRUN: git switch -q --detach")], &[]).ok();
    // A branch that was renamed is still its own.
    repo.run(&[("b", "RUN: git branch -m renamed\nWRITE: f: x\nCOMMIT: made")], &[]).ok();
    assert_eq!(repo.state("b"), "succeeded");
}

#[test]
fn a_disk_of_which_nothing_must_be_free_was_no_value() {
    let env = Env::new();
    let repo = env.repo("x");
    for value in ["0", "0B"] {
        repo.set("agents.minFree", value);
        repo.agents(&["run", "-q", "-a", "scripted", &format!("WRITE: f{value}: x")]).ok();
    }
    repo.set("agents.minFree", "5");
    let out = repo.agents(&["run", "-q", "-a", "scripted", "x"]).code(128);
    assert!(out.stderr.contains("'5' is not a size"), "{out}");
}

#[test]
fn a_copied_repository_ended_the_live_agents_of_the_original() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&[("k", "WRITE: a: a\nSLEEP: 500")], &[]);
    repo.reaches("k", "running");
    let (supervisor, assistant) = repo.pids("k");
    let copy = repo.join("../y");
    let mut cp = env.command("cp", repo.path());
    cp.args(["-a", "."]).arg(&copy);
    crate::support::env::run(cp, b"").ok();
    let copy = Repo::at(&env, copy);
    let original = repo.common_dir();
    for args in [&["stop", "k"][..], &["rm", "--stop", "k"], &["rm", "k"], &["retry", "k"], &["attach", "k"]] {
        let out = copy.agents(args);
        assert_ne!(out.status, 0, "{out}");
        let says = format!("this repository is a copy; 'k' runs in '{}'", original.display());
        assert!(out.stderr.contains(&says), "{out}");
    }
    copy.agents(&["stop", "--all"]);
    copy.agents(&["send", "--now", "k", "and more"]);
    copy.agents(&["doctor", "--fix"]);
    assert!(copy.reason("k").contains("this repository is a copy"), "{}", copy.reason("k"));
    assert!(alive(supervisor) && alive(assistant.unwrap()));
    assert_eq!(repo.state("k"), "running");
    assert!(repo.worktree("k").join("a").exists());
    repo.agents(&["stop", "k"]).ok();
    assert!(!alive(assistant.unwrap()));
}

#[test]
fn a_branch_that_its_assistant_deleted_took_its_commits_along() {
    let env = Env::new();
    let repo = env.repo("x");
    let script = "WRITE: a.txt: a\nCOMMIT: a\nRUN: git update-ref -d refs/heads/agents/a\nWRITE: b.txt: b";
    repo.run(&[("a", script)], &["--retries", "0"]).code(1);
    let reason = repo.reason("a");
    let back =
        reason.strip_prefix("it deleted its branch 'agents/a'; '").and_then(|r| r.strip_suffix("' makes it anew"));
    let back: Vec<&str> = back.unwrap_or_else(|| panic!("{reason}")).split(' ').skip(1).collect();
    repo.git(&back);
    assert_eq!(repo.git(&["show", "agents/a:a.txt"]), "a");
    assert_eq!(repo.worktree("a").read("b.txt"), "b\n");
    assert_eq!(repo.worktree("a").git(&["status", "--porcelain"]), "?? b.txt");
}
