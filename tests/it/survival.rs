//! What a run survives: the death of whoever looks on, of its supervisor, of everything at once; and that nothing is
//! left behind, lost, started twice or signalled by mistake.

use crate::support::env::Background;
use crate::support::kill::shares;
use crate::support::{Before, Env, Repo, repo_invariants};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt as _;
use std::time::{Duration, Instant};

fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// Two that work until they may end, and one that waits.
const THREE: [(&str, &str); 3] = [
    ("a", "WRITE: a: a\nSAY: hello\nWAITFILE: ../go\nWRITE: b: b"),
    ("b", "WRITE: a: a\nWAITFILE: ../go"),
    ("c", "WRITE: c: c"),
];

fn let_go(repo: &Repo<'_>) {
    repo.write("../x.agents/go", "");
}

#[test]
fn a_killed_run_leaves_its_agents_at_work_and_its_queue_in_order() {
    let env = Env::new();
    let repo = env.repo("x");
    let before = Before::of(&repo);
    let mut run = repo.run_beside(&THREE, &["-j", "2"]);
    repo.reaches("a", "running");
    repo.reaches("b", "running");
    repo.reaches("c", "waiting");
    killpg(Pid::from_raw(run.pid()), Signal::SIGKILL).unwrap();
    assert_eq!(env.until("run is gone", || run.child.try_wait().unwrap()).code(), None);
    let look = repo.spawn(&["wait"]);
    assert_eq!([repo.state("a"), repo.state("c")], ["running", "waiting"]);
    let_go(&repo);
    look.finish(&env).ok();
    for name in ["a", "b", "c"] {
        assert_eq!(repo.reported(name)["verdict"], "ready", "{name}");
    }
    before.still_holds(&repo);
}

#[test]
fn a_supervisor_that_had_ended_was_defunct_until_run_ended() {
    let env = Env::new();
    let repo = env.repo("x");
    let mut run = repo.run_beside(&[("a", "WAITFILE: ../a.go\nWRITE: a: a"), ("b", "WAITFILE: ../go")], &["-j", "2"]);
    repo.reaches("a", "running");
    repo.reaches("b", "running");
    let (pid, _) = repo.pids("a");
    repo.write("../x.agents/a.go", "");
    // One that is defunct can be signalled still.
    env.until("nothing is left of the first", || kill(Pid::from_raw(pid), None).is_err());
    assert!(run.child.try_wait().unwrap().is_none() && repo.state("b") == "running");
    let_go(&repo);
    run.finish(&env);
}

#[test]
fn what_a_person_had_ignored_ended_the_looking_on() {
    let env = Env::new();
    let repo = env.repo("x");
    // As nohup does, and a shell that puts a command of a script in the background.
    let ignoring = |args: &str| {
        let mut sh = env.command("sh", repo.path());
        // Without git in between: its own handlers take the place of what was ignored.
        sh.args(["-c", &format!("trap '' HUP INT QUIT; exec git-agents {args}")]).process_group(0);
        Background::start(&env, sh)
    };
    let run = ignoring("run -a scripted 'WAITFILE: ../go'");
    env.until("it looks on", || run.stderr().contains("running"));
    let name = repo.agents(&["status", "--names"]).ok().stdout.trim_end().to_owned();
    let logs = ignoring("logs -f");
    let watch = ignoring("status --watch --json");
    let wait = ignoring("wait");
    env.until("all look on", || !watch.stdout().is_empty() && wait.stderr().contains("running"));
    for sent in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        for looker in [&run, &logs, &watch, &wait] {
            killpg(Pid::from_raw(looker.pid()), sent).unwrap();
        }
    }
    assert_eq!(repo.state(&name), "running");
    let_go(&repo);
    // Nothing was changed: that is no success, and no end by a signal.
    run.finish(&env).code(1);
    wait.finish(&env).code(1);
    logs.finish(&env).ok();
    let mut watch = watch;
    assert!(watch.child.try_wait().unwrap().is_none());
    killpg(Pid::from_raw(watch.pid()), Signal::SIGTERM).unwrap();
    watch.finish(&env);
}

#[test]
fn ctrl_c_ends_the_looking_on_and_nothing_else() {
    let env = Env::new();
    let repo = env.repo("x");
    for (sent, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let name = format!("{sent}").to_lowercase();
        let script = format!("WRITE: a: a\nWAITFILE: ../{name}.go");
        // A terminal signals the foreground group: `git` and `git-agents` alike.
        let run = repo.run_beside(&[(&name, &script)], &[]);
        repo.reaches(&name, "running");
        env.until("it looks on", || run.stderr().contains("running"));
        let assistant = repo.pids(&name).1.unwrap();
        killpg(Pid::from_raw(run.pid()), sent).unwrap();
        let out = run.finish(&env).code(code);
        assert!(out.stderr.contains("1 agent keep") && out.stderr.contains("git agents wait"), "{out}");
        assert_eq!((repo.state(&name).as_str(), repo.pids(&name).1), ("running", Some(assistant)));
        repo.write(format!("../x.agents/{name}.go"), "");
        repo.agents(&["wait", &name]).ok();
    }
}

#[test]
fn a_signal_while_agents_are_handed_over_leaves_none_half_started() {
    let env = Env::new();
    let repo = env.repo("x");
    let tasks: Vec<(String, String)> = (1..=6).map(|n| (format!("t{n}"), format!("WRITE: f{n}: x"))).collect();
    let tasks: Vec<(&str, &str)> = tasks.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let run = repo.run_beside(&tasks, &[]);
    env.until("the first is handed over", || {
        let dir = repo.join(".git/agents/run");
        std::fs::read_dir(dir).is_ok_and(|d| d.count() > 0)
    });
    let child = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.pid())).unwrap_or_default();
    // `git` passes a signal on to nobody; a terminal would send it to both.
    for pid in child.split_ascii_whitespace() {
        signal(pid.parse().unwrap(), Signal::SIGINT);
    }
    let out = run.finish(&env);
    for (name, _) in tasks {
        env.until(&format!("'{name}' succeeds"), || repo.state(name) == "succeeded");
    }
    assert!([0, 130].contains(&out.status), "{out}");
}

#[test]
fn a_closed_terminal_takes_nobody_along() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("../tasks.md", crate::support::agents::list(&THREE[..1]));
    let socket = env.root().join("tmux");
    let tmux = |args: &[&str]| {
        let mut command = env.command("tmux", repo.path());
        command.arg("-S").arg(&socket).arg("-f/dev/null").args(args);
        crate::support::env::run(command, b"")
    };
    tmux(&["new-session", "-d", "-x", "100", "-y", "30", "git agents run -a scripted -f ../tasks.md"]).ok();
    repo.reaches("a", "running");
    env.until("it is shown", || tmux(&["capture-pane", "-p"]).stdout.contains("running"));
    tmux(&["kill-server"]).ok();
    env.until("run has ended", || !env.processes().iter().any(|(_, line)| line.contains("agents run")));
    assert_eq!(repo.state("a"), "running");
    let_go(&repo);
    repo.agents(&["wait"]).ok();
    assert_eq!(repo.reported("a")["verdict"], "ready");
}

#[test]
fn a_supervisor_and_its_assistant_killed_together_leave_the_slot_and_the_work() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&THREE, &["-j", "1"]);
    repo.env.until("it has written", || repo.worktree("a").join("a").exists());
    let (supervisor, assistant) = repo.pids("a");
    signal(supervisor, Signal::SIGKILL);
    signal(assistant.unwrap(), Signal::SIGKILL);
    repo.reaches("b", "running");
    assert_eq!(repo.state("a"), "dead");
    let_go(&repo);
    repo.reaches("c", "succeeded");
    repo.agents(&["wait"]).code(1);
    assert_eq!(repo.worktree("a").read("a"), "a\n");
    repo.agents(&["retry", "a"]).ok();
    repo.agents(&["wait"]).ok();
    assert_eq!(repo.status_of("a")["run"]["attempt"], 2);
}

#[test]
fn a_supervisor_ended_by_a_foreign_term_ends_its_assistant_and_can_be_resumed() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&THREE[..1], &[]);
    repo.env.until("it has written", || repo.worktree("a").join("a").exists());
    signal(repo.pids("a").0, Signal::SIGTERM);
    repo.env.until("it is dead", || repo.state("a") == "dead");
    assert!(env.processes().is_empty(), "{:?}", env.processes());
    let_go(&repo);
    repo.agents(&["retry", "--interrupted"]).ok();
    repo.reaches("a", "succeeded");
}

#[test]
fn the_list_is_worked_off_in_its_order() {
    let env = Env::new();
    let repo = env.repo("x");
    for (j, parallel) in [(Some("1"), "4"), (None, "1"), (Some("3"), "1")] {
        let names: Vec<String> = (1..=4).map(|n| format!("t{n}-{}-{parallel}", j.unwrap_or("x"))).collect();
        let script = "RUN: echo $AGENTS_NAME >>../order";
        let tasks: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), script)).collect();
        repo.set("agents.parallel", parallel);
        repo.run(&tasks, &j.map_or(vec![], |j| vec!["-j", j])).code(1);
        let order = repo.read("../x.agents/order");
        assert_eq!(order.lines().collect::<Vec<_>>(), names);
        std::fs::remove_file(repo.join("../x.agents/order")).unwrap();
    }
}

#[test]
fn another_number_of_slots_counts_for_those_who_wait() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.parallel", "1");
    repo.start(&THREE, &[]);
    repo.reaches("a", "running");
    repo.reaches("b", "waiting");
    repo.reaches("c", "waiting");
    repo.set("agents.parallel", "2");
    repo.reaches("b", "running");
    assert_eq!(repo.state("c"), "waiting");
    let_go(&repo);
    repo.agents(&["wait"]).ok();
}

#[test]
fn a_killed_waiter_does_not_keep_those_behind_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&THREE, &["-j", "1"]);
    repo.reaches("a", "running");
    repo.reaches("c", "waiting");
    signal(repo.pids("b").0, Signal::SIGKILL);
    let_go(&repo);
    repo.reaches("c", "succeeded");
    assert_eq!(repo.state("b"), "dead");
    repo.agents(&["retry", "b"]).ok();
    repo.reaches("b", "succeeded");
}

#[test]
fn one_of_many_retries_at_once_starts_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.retries", "0");
    repo.run(&[("a", "RUN: echo x >>../starts; test $(wc -l <../starts) != 1\nWAITFILE: ../go")], &[]).code(1);
    let all: Vec<_> = (0..6).map(|_| repo.spawn(&["retry", "--fresh", "a"])).collect();
    let ends: Vec<_> = all.into_iter().map(|r| r.finish(&env)).collect();
    assert_eq!(ends.iter().filter(|o| o.status == 0).count(), 1, "{ends:#?}");
    for lost in ends.iter().filter(|o| o.status != 0) {
        assert!(lost.status == 128 && lost.stderr.contains("'a' is running"), "{lost}");
    }
    let_go(&repo);
    repo.settles("a");
    assert_eq!(repo.read("../x.agents/starts").lines().count(), 2);
}

#[test]
fn looking_at_an_agent_is_never_taken_for_running_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "SAY: x")], &[]).code(1);
    let lock = std::fs::File::open(repo.run_dir("a").join("lock")).unwrap();
    // What `status` does for an instant, for as long as one may be unlucky.
    lock.lock_shared().unwrap();
    let retry = repo.spawn(&["retry", "a"]);
    let asked = Instant::now();
    env.until("a while", || asked.elapsed() > Duration::from_millis(100));
    drop(lock);
    retry.finish(&env).ok();
    repo.settles("a");
}

#[test]
fn a_recycled_process_number_is_never_signalled() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    let mut innocent = env.command("sleep", repo.path()).arg("500").process_group(0).spawn().unwrap();
    let pid = innocent.id().cast_signed();
    for command in ["stop", "retry", "rm"] {
        repo.start(&[(command, "SLEEP: 300")], &[]);
        repo.reaches(command, "running");
        let (supervisor, assistant) = repo.pids(command);
        signal(supervisor, Signal::SIGKILL);
        signal(assistant.unwrap(), Signal::SIGKILL);
        repo.env.until("it is dead", || repo.state(command) == "dead");
        // The numbers belong to somebody else now, with the old start times.
        let path = repo.run_dir(command).join("pid.json");
        let mut address = repo.record(command, "pid.json");
        address["supervisor"]["pid"] = pid.into();
        address["assistant"]["pid"] = pid.into();
        std::fs::write(path, address.to_string()).unwrap();
        repo.agents(&[command, command]).ok();
        assert!(innocent.try_wait().unwrap().is_none(), "'{command}' ended a process of somebody else");
    }
    repo.agents(&["stop", "--all"]).ok();
    assert!(innocent.try_wait().unwrap().is_none());
    // While the run lives too: the order reaches it all the same.
    repo.start(&[("live", "SLEEP: 300")], &[]);
    repo.reaches("live", "running");
    let mut address = repo.record("live", "pid.json");
    address["supervisor"]["pid"] = pid.into();
    std::fs::write(repo.run_dir("live").join("pid.json"), address.to_string()).unwrap();
    repo.agents(&["stop", "live"]).ok();
    assert_eq!(repo.state("live"), "stopped");
    assert!(innocent.try_wait().unwrap().is_none());
    innocent.kill().unwrap();
    innocent.wait().unwrap();
}

#[test]
fn everything_an_assistant_started_ends_with_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    let tasks = [
        // A wrapper with children in the background, whose own death comes first.
        ("wrapper", "RUN: sleep 700 & sleep 700 & touch ready; sleep 700"),
        ("deaf", "IGNORETERM:\nRUN: touch ready; while :; do sleep 700; done"),
        ("forks", "FORK: 700\nRUN: (setsid sh -c 'setsid sleep 700 & setsid sleep 700 &' &) ; touch ready\nSLEEP: 700"),
        ("nameless", "RUN: env -i /usr/bin/setsid /bin/sleep 700 & touch ready\nSLEEP: 700"),
    ];
    repo.start(&tasks, &[]);
    for (name, _) in &tasks {
        repo.env.until(name, || repo.worktree(name).join("ready").exists());
    }
    let nameless = env.until("the one without an environment", || sleeps().into_iter().find(|p| !of(&env, *p)));
    repo.agents(&["stop", "--all"]).ok();
    for (name, _) in &tasks {
        assert_eq!(repo.state(name), "stopped");
        assert!(repo.reported(name)["flags"].as_array().unwrap().is_empty(), "{}", repo.reported(name));
    }
    assert!(env.processes().is_empty(), "{:?}", env.processes());
    assert!(!sleeps().contains(&nameless));
}

/// All living `sleep 700`.
fn sleeps() -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is = |p: &i32| std::fs::read(format!("/proc/{p}/cmdline")).is_ok_and(|c| c.ends_with(b"sleep\x00700\x00"));
    pids.filter(is).collect()
}

fn of(env: &Env, pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|e| e.split(|b| *b == 0).any(|e| e == env.marker().as_bytes()))
}

#[test]
fn what_is_left_in_the_background_at_the_end_is_ended_and_a_success_stays_one() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    let begun = Instant::now();
    repo.run(&[("a", "RUN: sleep 800 & echo a >a\nFORK: 800\nCOMMIT: a")], &[]).ok();
    assert!(env.processes().is_empty(), "{:?}", env.processes());
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(repo.reported("a")["verdict"], "ready");
}

#[test]
fn a_zombie_is_dead() {
    let env = Env::new();
    let repo = env.repo("x");
    // Its child ends at once and is not waited for: a zombie for as long as the assistant lives, and nothing to wait for.
    repo.custom(&[
        "/usr/bin/env",
        "python3",
        "-c",
        "import os,time\nif os.fork()==0: os._exit(0)\ntime.sleep(0.3)\nopen('a','w').write('a')\n",
    ]);
    let begun = Instant::now();
    repo.agents(&["run", "-a", "mine", "Task"]).ok();
    assert!(begun.elapsed() < Duration::from_secs(10));
    // A supervisor that nobody reaps is as dead as any: the lock says so, not its number.
    repo.start(&[("z", "SLEEP: 300")], &[]);
    repo.reaches("z", "running");
    signal(repo.pids("z").0, Signal::SIGKILL);
    repo.env.until("it is dead", || repo.state("z") == "dead");
    repo.agents(&["stop", "z"]).ok();
}

#[test]
fn a_supervisor_that_is_frozen_is_not_dead() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&THREE[..1], &[]);
    repo.reaches("a", "running");
    let (supervisor, _) = repo.pids("a");
    signal(supervisor, Signal::SIGSTOP);
    assert_eq!(repo.state("a"), "running");
    repo.agents(&["retry", "a"]).code(128);
    repo.agents(&["rm", "a"]).code(128);
    signal(supervisor, Signal::SIGCONT);
    let_go(&repo);
    repo.agents(&["wait"]).ok();
}

#[test]
fn the_slot_is_free_while_an_orphan_of_a_killed_supervisor_lives() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&THREE, &["-j", "1"]);
    repo.reaches("a", "running");
    let (supervisor, assistant) = repo.pids("a");
    signal(supervisor, Signal::SIGKILL);
    repo.reaches("b", "running");
    signal(assistant.unwrap(), Signal::SIGCONT);
    assert_eq!(repo.state("a"), "dead");
    repo.agents(&["stop", "--all"]).ok();
}

/// Kills all supervisors of a batch at random moments, again and again; what has to hold after each is asserted here.
fn random_kills(kills: usize, seed: u64) -> String {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    repo.set("agents.parallel", "3");
    let before = Before::of(&repo);
    let script =
        "FORK: 1000\nRUN: for i in $(seq 40); do echo line $i; echo $i >>w; done\nCOMMIT: work\nRUN: sleep 0.3";
    let names = ["a", "b", "c", "d", "e"];
    let mut share = shares(seed);
    let (mut left, mut orphans, mut dead, mut bytes, mut batch) = (kills, 0, 0, 0, 0);
    while left > 0 {
        batch += 1;
        let agents: Vec<String> = names.iter().map(|n| format!("{n}{batch}")).collect();
        let tasks: Vec<(&str, &str)> = agents.iter().map(|n| (n.as_str(), script)).collect();
        repo.start(&tasks, &[]);
        for _ in 0..3 {
            let pause = Duration::from_millis(700).mul_f64(share.next().unwrap());
            let at = Instant::now();
            env.until("the moment", || at.elapsed() >= pause);
            let logs: Vec<_> = agents.iter().map(|a| repo.run_dir(a).join("output.log")).collect();
            let seen: Vec<Vec<u8>> = logs.iter().map(|l| std::fs::read(l).unwrap_or_default()).collect();
            for agent in &agents {
                let (supervisor, _) = repo.pids(agent);
                let line = std::fs::read_to_string(format!("/proc/{supervisor}/cmdline")).unwrap_or_default();
                if left > 0 && line.contains("supervise") && kill(Pid::from_raw(supervisor), Signal::SIGKILL).is_ok() {
                    left -= 1;
                }
            }
            let mut ended: Vec<&str> = Vec::new();
            for agent in &agents {
                if repo.settles(agent) == "dead" {
                    dead += 1;
                    ended.push(agent);
                }
            }
            for (log, seen) in logs.iter().zip(&seen) {
                let now = std::fs::read(log).unwrap_or_default();
                assert!(now.starts_with(seen), "a log lost what was in it");
                bytes += now.len();
            }
            orphans += env.processes().len();
            // The next command ends what is left, and the slots are free: all go on at once.
            if !ended.is_empty() {
                repo.agents(&[&["retry"], &ended[..]].concat()).ok();
            }
            let sleepers = env.processes().into_iter().filter(|(_, l)| l == "sleep 1000").count();
            assert!(sleepers <= 3, "{sleepers} left over beside three slots: {:?}", env.processes());
        }
        for agent in &agents {
            assert_eq!(repo.settles(agent), "succeeded", "{agent}: {}", repo.reason(agent));
        }
        assert!(env.processes().is_empty(), "{:?}", env.processes());
        crate::support::repo_invariants(&repo);
    }
    before.still_holds(&repo);
    format!("{kills} kills: {dead} runs seen dead, {orphans} processes left and ended, {bytes} bytes of logs all kept")
}

#[test]
fn supervisors_killed_at_random_lose_nothing_and_leave_nobody() {
    println!("{}", random_kills(15, 1));
}

#[test]
#[ignore = "a minute"]
fn nightly_supervisors_killed_at_random() {
    println!("{}", random_kills(100, 2));
}

/// Thirty at once, again and again, looked at from all sides while their supervisors start and somebody else writes into
/// the same configuration: whoever was seen once is seen by every command until it is removed.
fn thirty_at_once(rounds: usize, agents: usize) {
    let env = Env::new();
    let repo = env.repo("x");
    let names: Vec<String> = (0..agents).map(|n| format!("a{n}")).collect();
    for round in 0..rounds {
        let tasks: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "WRITE: f: x")).collect();
        let run = repo.run_beside(&tasks, &["-j", "30"]);
        env.until("they are registered", || repo.agents(&["status", "--names"]).ok().stdout.lines().count() == agents);
        let mut foreign = env.command("sh", repo.path());
        foreign.args(["-c", "for n in 1 2 3 4 5 6 7 8 9; do git config foreign.n $n; done"]);
        let foreign = crate::support::env::Background::start(&env, foreign);
        for look in ["show", "path", "show"] {
            for name in &names {
                let out = repo.agents(&[look, name]);
                assert!(!out.stderr.contains("no agent named"), "round {round}: {out}");
            }
        }
        foreign.finish(&env);
        run.finish(&env).ok();
        repo.agents(&[vec!["rm", "-D"], names.iter().map(String::as_str).collect()].concat()).ok();
    }
    repo_invariants(&repo);
}

#[test]
fn one_of_many_that_started_at_once_was_unknown_for_a_moment() {
    thirty_at_once(1, 12);
}

#[test]
#[ignore = "nightly"]
fn nightly_thirty_at_once_again_and_again() {
    thirty_at_once(5, 30);
}
