//! What is said of a run that went wrong is what happened, and leads on: the thing that is gone, the command that brings
//! it back; and nothing that was said before is lost over it.

use crate::support::env::run;
use crate::support::{Env, Repo, repo_invariants};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;

/// Seen by `status` and by `show`.
#[track_caller]
fn said(repo: &Repo<'_>, name: &str) -> String {
    let (status, show) = (repo.agents(&["status", name]).ok().stdout, repo.agents(&["show", name]).ok().stdout);
    // The prompt follows, and may say anything.
    format!("{status}\n{}", show.split("\n\n").next().unwrap_or_default())
}

#[test]
fn an_answered_question_was_asked_again_and_again() {
    let env = Env::new();
    let repo = env.repo("x");
    let question = |name: &str| repo.status_of(name)["run"]["question"].clone();
    repo.start(
        &[("a", "SESSION: s\nASK: which colour?"), ("b", "ASK: which size?\nSAY: I take the large one\nWRITE: f: x")],
        &[],
    );
    env.until("it asks", || question("a") == "which colour?");
    repo.agents(&["send", "a", "WAITFILE: ../go\nWRITE: f: red"]).ok();
    assert_eq!(question("a"), serde_json::Value::Null, "the answer is on its way");
    env.until("it goes on", || repo.state("a") == "running" && repo.record("a", "state.json")["question"].is_null());
    assert!(!said(&repo, "a").contains("which colour"), "{}", said(&repo, "a"));
    repo.write("../x.agents/go", "");
    repo.reaches("a", "succeeded");
    assert!(!said(&repo, "a").contains("which colour"), "{}", said(&repo, "a"));
}

#[test]
fn the_question_of_a_settled_one_stayed_after_its_answer() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.questionGrace", "0");
    repo.start(&[("a", "SESSION: s\nASK: which colour?"), ("b", "SESSION: s\nASK: which size?")], &[]);
    repo.reaches("a", "needs-input");
    repo.reaches("b", "needs-input");
    assert!(said(&repo, "a").contains("asks: which colour?"), "{}", said(&repo, "a"));
    repo.agents(&["send", "a", "WAITFILE: ../go\nWRITE: f: red"]).ok();
    assert!(!said(&repo, "a").contains("which colour"), "{}", said(&repo, "a"));
    env.script("my-shell", "#!/bin/sh\nwhile ! test -e ../go; do sleep 0.02; done\necho large >f\n");
    let mut sit = env.agents_command(repo.path(), &["attach", "b"]);
    sit.env("SHELL", "my-shell");
    let sit = crate::support::env::Background::start(&env, sit);
    repo.becomes("b", "attached");
    assert!(!said(&repo, "b").contains("which size"), "{}", said(&repo, "b"));
    repo.write("../x.agents/go", "");
    sit.finish(&env).ok();
    repo.reaches("a", "succeeded");
    for name in ["a", "b"] {
        assert!(!said(&repo, name).contains("which"), "{}", said(&repo, name));
    }
}

#[test]
fn logs_of_a_deleted_folder_were_an_empty_answer() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "SAY: hello\nWRITE: f: x\nCOMMIT: made")], &[]).ok();
    repo.agent("k");
    let tip = repo.tip("agents/a");
    std::fs::remove_dir_all(repo.common_dir().join("agents/run")).unwrap();
    let out = repo.agents(&["logs", "a"]).ok();
    assert!(out.stderr.contains("the logs of 'a' are gone") && out.stderr.contains("agents/run"), "{out}");
    assert!(out.stderr.contains("journal"), "{out}");
    for words in ["created", "attempt 1 began", &format!("commit {}", &tip[..12]), "succeeded"] {
        assert!(out.stdout.contains(words), "{words}: {out}");
    }
    let raw = repo.agents(&["logs", "--raw", "a"]).ok();
    assert!(raw.stderr.contains("are gone") && raw.stderr.contains("git agents logs a"), "{raw}");
    let plain = repo.agents(&["logs", "k"]).ok();
    assert!(plain.stderr.contains("no assistant was started"), "{plain}");
    // It goes on as if nothing had been.
    repo.agents(&["retry", "a"]).ok();
    repo.settles("a");
}

/// A file system of its own with 16 MB, seen by nobody else and gone with the shell that made it: `script` runs in it.
/// `None` where this machine lets nobody do that.
fn on_a_small_disk(env: &Env, script: &str) -> Option<crate::support::Out> {
    let dir = env.root().join("disk");
    std::fs::create_dir_all(&dir).unwrap();
    let start = format!(
        "set -e\nmount -t tmpfs -o size=16m,mode=700 tmpfs {0} 2>/dev/null || exit 77\ncd {0}\n\
         full() {{ cat /dev/zero >fill 2>/dev/null || true; }}\n\
         settled() {{ i=0; while git agents status --porcelain | grep -q -e '\trunning\t' -e '\tpreparing\t' -e '\twaiting\t'; do \
         i=$((i+1)); test $i -lt 600; sleep 0.05; done; }}\n\
         git init -q x && cd x && git config agents.minFree 0 && echo x >f && git add f && git commit -qm x\n{script}",
        dir.display()
    );
    let mut command = env.command("unshare", env.root());
    let who = if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" };
    command.args([who, "sh", "-c", &start]);
    let out = run(command, b"");
    (out.status != 77).then(|| out.ok())
}

#[test]
fn a_disk_that_filled_up_during_a_run_was_called_a_killed_supervisor() {
    let env = Env::new();
    // Its own attempt fails for want of room; and the same with everything done before the disk is full.
    std::fs::write(
        env.root().join("tasks.md"),
        "1. Fill it {name=a}\n   - WRITE: kept: 1\n   - COMMIT: kept\n   - WAITFILE: ../../../full\n   - RUN: echo more >more && git add more && git commit -q --allow-empty -m more\n\
         2. Be done before {name=b}\n   - WRITE: kept: 1\n   - COMMIT: kept\n   - SAY: done\n   - WAITFILE: ../../../full\n",
    )
    .unwrap();
    let done = on_a_small_disk(
        &env,
        "git agents run -q -d -a scripted --retries 0 -f ../../tasks.md\n\
         while ! git rev-parse -q --verify agents/a^ >/dev/null || ! git rev-parse -q --verify agents/b^ >/dev/null; do sleep 0.05; done\n\
         cd ..; full; cd x; touch ../../full; settled\n\
         echo '<full>'; git agents status\n\
         rm ../fill; echo '<room>'; git agents status; git agents logs a; git agents retry a; settled; git agents status\n\
         git log --format=%s agents/a; git agents report --json; git fsck --strict; git notes --ref agents-journal list | while read n o; do git cat-file blob $n; done",
    );
    let Some(out) = done else { return };
    let (before, after) = out.stdout.split_once("<room>").unwrap();
    let line = |text: &str, name: &str| {
        let found = text.lines().find(|l| l.starts_with(&format!("{name}:")));
        found.map(str::to_owned).unwrap_or_default()
    };
    assert!(
        line(before, "a").contains("the disk is full") && line(before, "a").contains("git agents retry a"),
        "{out}"
    );
    assert!(before.contains("succeeded") && !before.contains("killed"), "{out}");
    assert!(after.contains("\nmore\n"), "retry went on: {out}");
    // The journal has what was acknowledged: both attempts, both ends of the first round, the retry.
    for words in ["\"attempt\":1", "\"attempt\":2", "the disk is full"] {
        assert!(after.contains(words), "{words}: {out}");
    }
    let kinds = after.matches("\"kind\":\"exited\"").count();
    assert_eq!(kinds, 3, "{out}");
}

#[test]
fn a_start_on_a_full_disk_looked_like_a_death_at_work() {
    let env = Env::new();
    let done = on_a_small_disk(
        &env,
        "git agents run -q -a scripted 'WRITE: one: 1'\ncd ..; full; cd x\n\
         git agents retry write-one-1 2>&1 || true\ngit agents send write-one-1 'WRITE: two: 2' 2>&1 || true\n\
         git agents run -q -d -a scripted 'WRITE: two: 2' 2>&1 || true\n\
         echo '<full>'; git agents status; rm ../fill; echo '<room>'; git agents retry write-one-1; settled; git agents status",
    );
    let Some(out) = done else { return };
    let (said, rest) = out.stdout.split_once("<full>").unwrap();
    assert!(said.contains("No space left on device"), "{out}");
    assert!(!rest.contains("killed"), "{out}");
}

#[test]
fn a_worktree_that_its_own_assistant_deleted_was_called_a_missing_git() {
    let env = Env::new();
    let repo = env.repo("x");
    let script = "WRITE: f: x\nCOMMIT: made\nRUN: cd .. && rm -rf \"$AGENTS_WORKTREE\"";
    repo.run(&[("a", script)], &[]).code(1);
    let reason = repo.reason("a");
    assert_eq!(repo.state("a"), "failed");
    assert!(reason.contains("the directory of 'a' is gone") && !reason.contains("could not run git"), "{reason}");
    assert!(reason.contains("'git agents rm a', then 'git agents restore a'"), "{reason}");
    let again = repo.agents(&["retry", "a"]).code(128);
    assert!(again.stderr.contains("is gone") && again.stderr.contains("git agents restore a"), "{again}");
    // What it says is true.
    repo.agents(&["rm", "a"]).ok();
    repo.agents(&["restore", "a"]).ok();
    assert_eq!(repo.worktree("a").read("f"), "x\n");
    repo_invariants(&repo);
}

#[test]
fn what_was_not_committed_in_a_deleted_worktree_is_where_it_says() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.captureInterval", "1s");
    let script = "WRITE: draft: of a week\nWAITFILE: ../go\nRUN: cd .. && rm -rf \"$AGENTS_WORKTREE\"";
    repo.start(&[("a", script)], &[]);
    env.until("it is captured", || !repo.git(&["for-each-ref", "refs/agents/auto"]).is_empty());
    repo.write("../x.agents/go", "");
    repo.reaches("a", "failed");
    let reason = repo.reason("a");
    let capture = reason.split('\'').find(|w| w.starts_with("refs/agents/auto/")).expect(&reason);
    assert_eq!(repo.git(&["show", &format!("{capture}:draft")]), "of a week");
}

#[test]
fn a_run_whose_folder_was_deleted_under_it_goes_on_and_is_alone() {
    let env = Env::new();
    let repo = env.repo("x");
    let agents = repo.common_dir().join("agents");
    repo.start(&[("a", "SAY: before\nRUN: rm -rf \"$(git rev-parse --git-common-dir)/agents\"; touch ../gone\nWAITFILE: ../go\nWRITE: f: x\nSAY: after")], &[]);
    repo.worktree("a");
    env.until("it is deleted", || repo.join("../x.agents/gone").exists());
    // At no moment a second one is let into its place.
    let out = repo.agents(&["retry", "a"]).code(128);
    assert!(out.stderr.contains("is running"), "{out}");
    let out = repo.agents(&["attach", "a"]).code(128);
    assert!(out.stderr.contains("is running"), "{out}");
    repo.becomes("a", "running");
    assert!(agents.join("run").exists());
    repo.write("../x.agents/go", "");
    repo.reaches("a", "succeeded");
    let out = repo.agents(&["logs", "a"]).ok();
    assert!(out.stdout.contains("after"), "{out}");
    repo_invariants(&repo);
}

#[test]
fn a_dead_run_whose_folder_is_gone_says_so_and_goes_on() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&[("a", "WRITE: one: 1\nWAITFILE: ../go\nWRITE: two: 2")], &[]);
    env.until("it works", || repo.worktree("a").join("one").exists());
    let (supervisor, assistant) = repo.pids("a");
    for pid in [Some(supervisor), assistant].into_iter().flatten() {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
    repo.becomes("a", "dead");
    std::fs::remove_dir_all(repo.common_dir().join("agents")).unwrap();
    let said = said(&repo, "a");
    assert!(said.contains("the folder of its run") && said.contains("was deleted"), "{said}");
    assert!(said.contains("'git agents retry' goes on"), "{said}");
    repo.write("../x.agents/go", "");
    repo.agents(&["retry", "a"]).ok();
    repo.reaches("a", "succeeded");
}

#[test]
fn one_that_waited_while_its_folder_was_deleted_had_its_turn_all_the_same() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(
        &[("a", "WAITFILE: ../go\nWRITE: f: x"), ("b after=a", "WRITE: g: x"), ("c", "WRITE: h: x")],
        &["-j", "1"],
    );
    repo.reaches("a", "running");
    repo.reaches("c", "waiting");
    // In one step: they make it anew while it is being deleted.
    std::fs::rename(repo.common_dir().join("agents"), env.root().join("gone")).unwrap();
    repo.becomes("a", "running");
    repo.write("../x.agents/go", "");
    for name in ["a", "b", "c"] {
        repo.becomes(name, "succeeded");
    }
    repo_invariants(&repo);
}

/// `new k`, killed as soon as `mark` exists.
fn killed_new(repo: &Repo<'_>, mark: &Path) {
    let new = repo.spawn(&["new", "k"]);
    repo.env.until("it is in the middle", || mark.exists());
    // git started our binary: that one has the lock.
    let ours = repo.env.processes().into_iter().filter(|(_, line)| line.contains("git-agents new"));
    for (pid, _) in ours {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    let _ = kill(Pid::from_raw(new.pid()), Signal::SIGKILL);
    new.finish(repo.env);
}

#[test]
fn a_killed_creation_blamed_a_supervisor_it_never_had() {
    let env = Env::new();
    let repo = env.repo("x");
    let mark = env.root().join("mark");
    env.script_at(
        &repo.join(".git/hooks/post-checkout"),
        &format!("#!/bin/sh\ntouch {}\nsleep 1000\n", mark.display()),
    );
    killed_new(&repo, &mark);
    let said = said(&repo, "k");
    assert!(said.contains("its creation was cut short; 'git agents rm k' takes it back"), "{said}");
    assert!(!said.contains("supervisor") && repo.status_of("k")["run"]["state"].is_null(), "{said}");
    repo.agents(&["rm", "k"]).ok();
    std::fs::remove_file(repo.join(".git/hooks/post-checkout")).unwrap();
    repo.agent("k");
}

#[test]
fn a_killed_setup_of_a_new_one_blamed_a_supervisor_it_never_had() {
    let env = Env::new();
    let repo = env.repo("x");
    let mark = env.root().join("mark");
    repo.write(".git-agents.toml", format!("[setup]\nrun = [\"echo far; touch {}; sleep 1000\"]\n", mark.display()));
    repo.commit("Setup");
    repo.agents(&["trust", "--yes"]).ok();
    killed_new(&repo, &mark);
    let text = said(&repo, "k");
    assert!(text.contains("its setup was cut short") && text.contains("git agents rm k"), "{text}");
    assert!(!text.contains("supervisor"), "{text}");
    // The commands it names do what they say.
    assert!(repo.agents(&["logs", "--setup", "k"]).ok().stdout.contains("far"));
    assert!(text.contains("'git agents stop k' releases it"), "{text}");
    repo.agents(&["stop", "k"]).ok();
    assert!(!said(&repo, "k").contains("cut short"), "{}", said(&repo, "k"));
    repo.agents(&["rm", "k"]).ok();
}

#[test]
fn a_setup_that_never_ends_held_its_slot_for_ever() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    repo.write(".git-agents.toml", "[setup]\nrun = [\"echo here\", \"sleep 1000\"]\n[limits]\nsetup = \"1s\"\n");
    repo.commit("Setup");
    repo.agents(&["trust", "--yes"]).ok();
    repo.run(&[("a", "WRITE: f: x")], &["--retries", "0"]).code(1);
    let reason = repo.reason("a");
    assert!(reason.starts_with("setup: 'sleep 1000' was ended: setup may take 1s ('agents.setupTime')"), "{reason}");
    assert!(reason.contains("setup.log"), "{reason}");
    assert!(env.processes().is_empty(), "{:?}", env.processes());
    let out = repo.agents(&["new", "k"]).code(128);
    assert!(out.stderr.contains("setup may take 1s") && out.stderr.contains("git agents logs --setup k"), "{out}");
    repo.set("agents.setupTime", "off");
    assert!(repo.agents(&["run", "--dry-run", "-a", "scripted", "x"]).status == 0);
}

#[test]
fn one_that_was_stopped_was_reported_as_a_failure() {
    let env = Env::new();
    let repo = env.repo("x");
    let tasks = [
        ("work", "WRITE: f: x\nCOMMIT: made\nSLEEP: 600"),
        ("none", "SAY: hello\nSLEEP: 600"),
        ("left", "WRITE: g: x\nSLEEP: 600"),
    ];
    repo.start(&tasks, &[]);
    env.until("it works", || repo.worktree("work").join("f").exists() && repo.worktree("left").join("g").exists());
    env.until("it is committed", || repo.git(&["rev-list", "--count", "main..agents/work"]) == "1");
    repo.reaches("none", "running");
    repo.agents(&["stop", "--all"]).ok();
    for (name, verdict) in [("work", "look"), ("left", "look"), ("none", "nothing")] {
        repo.reaches(name, "stopped");
        let reported = repo.reported(name);
        assert_eq!(reported["verdict"], verdict, "{reported:#}");
        assert_eq!(reported["reasons"][0], "stopped by you", "{reported:#}");
    }
    let text = repo.agents(&["report"]).ok().stdout;
    assert!(!text.contains("failed"), "{text}");
}

#[test]
fn one_of_a_kind_was_many() {
    let env = Env::new();
    let repo = env.repo("x");
    let look = repo.run_beside(&[("a", "DENY: rm -rf /\nSLEEP: 600")], &[]);
    repo.reaches("a", "running");
    let out = repo.agents(&["wait", "--timeout", "1s"]).code(124);
    assert!(out.stderr.contains("time is up; 1 agent keeps running"), "{out}");
    kill(Pid::from_raw(look.pid()), Signal::SIGINT).unwrap();
    let ours = env.processes().into_iter().find(|(_, line)| line.contains("git-agents run"));
    if let Some((pid, _)) = ours {
        let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
    }
    let out = look.finish(&env);
    assert!(out.stderr.contains("1 agent keeps running"), "{out}");
    assert_eq!(repo.reported("a")["flags"][0]["text"], "1 action was refused to the assistant");
}

#[test]
fn of_rivals_the_order_took_all() {
    let env = Env::new();
    let repo = env.repo("x");
    let list = "1. A {name=a assistant=scripted*3}\n   WRITE: a.txt: a\n2. B {name=b assistant=scripted}\n   WRITE: b.txt: b\n";
    repo.agents_input(&["run", "-q"], list).ok();
    let report = repo.agents(&["report", "--json"]).ok().json();
    let order = report["order"].as_array().unwrap();
    assert_eq!(order.len(), 2, "{order:#?}");
    let rivals = order.iter().find(|o| o["name"] != "b").unwrap();
    assert_eq!(rivals["instead_of"].as_array().unwrap().len(), 2, "{order:#?}");
    assert_eq!(report["land"].as_str().unwrap().split(' ').skip(3).count(), 2, "{report:#}");
    let text = repo.agents(&["report"]).ok().stdout;
    let name = rivals["name"].as_str().unwrap();
    assert!(text.contains(&format!("of rivals one lands: {name}, not ")), "{text}");
    // The one that lost its way is not the one to land; the one that has landed stays it.
    let second = rivals["instead_of"][0].as_str().unwrap();
    repo.worktree(name).write("more", "x");
    let report = repo.agents(&["report", "--json"]).ok().json();
    let chosen = report["order"].as_array().unwrap().iter().find(|o| o["name"] != "b").unwrap()["name"].clone();
    assert_eq!(chosen, second, "{report:#}");
    std::fs::remove_file(repo.worktree(name).join("more")).unwrap();
    let third = rivals["instead_of"][1].as_str().unwrap();
    repo.git(&["merge", "-q", "--no-edit", &format!("agents/{third}")]);
    let report = repo.agents(&["report", "--json"]).ok().json();
    let chosen = report["order"].as_array().unwrap().iter().find(|o| o["name"] != "b").unwrap()["name"].clone();
    assert_eq!(chosen, third, "{report:#}");
}
