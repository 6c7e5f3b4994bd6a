//! Going on with an agent: messages, sitting down in its place, running it again, what comes after what; and what people
//! find in the notes.

use crate::support::env::Background;
use crate::support::{Env, Repo};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn a_message_to_a_settled_agent_resumes_its_session() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "SESSION: s-42\nWRITE: one: 1")], &[]).ok();
    repo.agents(&["send", "a"]).code(129);
    repo.agents(&["send", "a", " "]).code(129);
    repo.agents(&["send", "nobody", "x"]).code(128);
    repo.agents(&["send", "--wait", "a", "Now the other.\nRUN: printf %s \"$AGENTS_SESSION\" >two"]).ok();
    assert_eq!(repo.worktree("a").read("two"), "s-42");
    let run = repo.status_of("a")["run"].clone();
    assert_eq!((&run["session"], &run["attempt"]), (&"s-42".into(), &2.into()), "{run}");
    let prompt = std::fs::read_to_string(repo.run_dir("a").join("prompt.md")).unwrap();
    assert!(prompt.starts_with("Now the other.") && !prompt.contains("WRITE: one"), "only the message: {prompt}");
    // From a file, and from an editor.
    repo.write("../m.md", "WRITE: three: 3\n");
    repo.agents(&["send", "--wait", "-F", "../m.md", "a"]).ok();
    env.script("my-editor", "#!/bin/sh\necho 'WRITE: four: 4' >\"$1\"\n");
    let mut command = env.agents_command(repo.path(), &["send", "--wait", "--json", "-e", "a"]);
    command.env("GIT_EDITOR", "my-editor");
    let lines = crate::support::env::run(command, b"").ok().json_lines();
    assert_eq!(lines.last().unwrap()["kind"], "settled");
    assert_eq!([repo.worktree("a").read("three"), repo.worktree("a").read("four")], ["3\n", "4\n"]);
}

#[test]
fn an_assistant_without_sessions_gets_the_task_and_the_message() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.custom(&["/bin/sh", "-c", "cat \"$AGENTS_PROMPT_FILE\" >../seen; mktemp new.XXXXXX"]);
    repo.agents(&["run", "-a", "mine", "Do the first thing"]).ok();
    repo.agents(&["send", "--wait", "do-the-first-thing", "and the second"]).ok();
    let seen = repo.read("../x.agents/seen");
    assert!(seen.starts_with("Do the first thing\n\nand the second"), "{seen}");
}

#[test]
fn a_message_to_a_running_agent_comes_at_its_end_or_at_once() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    repo.start(
        &[
            ("a", "SESSION: s\nWRITE: one: 1\nWAITFILE: ../go\nWRITE: two: 2"),
            ("b", "SESSION: s\nWRITE: one: 1\nSLEEP: 600"),
        ],
        &[],
    );
    for name in ["a", "b"] {
        repo.env.until("it works", || repo.worktree(name).join("one").exists());
    }
    let out = repo.agents(&["send", "a", "RUN: cat one two >three"]).ok();
    assert!(out.stderr.contains("at the end of this attempt"), "{out}");
    repo.agents(&["send", "--now", "b", "WRITE: two: now"]).ok();
    repo.reaches("b", "succeeded");
    assert_eq!(repo.worktree("b").read("two"), "now\n");
    assert_eq!(repo.state("a"), "running");
    repo.write("../x.agents/go", "");
    repo.reaches("a", "succeeded");
    assert_eq!(repo.worktree("a").read("three"), "1\n2\n");
    assert_eq!([repo.status_of("a")["run"]["attempt"].clone(), repo.status_of("b")["run"]["attempt"].clone()], [1, 1]);
}

#[test]
fn a_message_to_one_that_waits_joins_its_task() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&[("a", "WAITFILE: ../go\nWRITE: a: a"), ("b", "WRITE: one: 1")], &["-j", "1"]);
    repo.reaches("b", "waiting");
    let out = repo.agents(&["send", "--now", "b", "WRITE: two: 2"]).ok();
    assert!(!out.stderr.contains("end of this attempt"), "{out}");
    repo.write("../x.agents/go", "");
    repo.reaches("b", "succeeded");
    let run = repo.status_of("b")["run"].clone();
    assert_eq!(run["attempt"], 1);
    assert_eq!([repo.worktree("b").read("one"), repo.worktree("b").read("two")], ["1\n", "2\n"]);
}

#[test]
fn no_message_is_lost_between_the_end_of_a_run_and_the_next() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "SESSION: s\nRUN: echo start >>log")], &[]).ok();
    // Each comes at a moment of its own in the life of the one before.
    for n in 0..12 {
        repo.agents(&["send", "a", &format!("RUN: echo {n} >>log")]).ok();
        let path = repo.run_dir("a").join("exit.json");
        if n % 3 != 0 {
            let at = std::time::Instant::now();
            let pause = std::time::Duration::from_millis(25 * (n % 7));
            env.until("a moment", || at.elapsed() >= pause || path.exists());
        }
    }
    let expected: Vec<String> =
        std::iter::once("start".to_owned()).chain((0..12).map(|n: i32| n.to_string())).collect();
    repo.settles("a");
    let read = || repo.worktree("a").read("log").lines().map(str::to_owned).collect::<Vec<_>>();
    env.until("all have arrived", || read().len() >= 13);
    assert_eq!(read(), expected);
    repo.settles("a");
}

#[test]
fn a_person_sits_down_commits_and_is_judged_like_a_run() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "WRITE: one: 1\nEXIT: 4"), ("b", "SAY: x"), ("c", "SAY: x")], &["--retries", "0"]).code(1);
    env.script(
        "my-shell",
        "#!/bin/sh\ntest -t 0 || exit 9\nenv -0 >../env\ntouch ../sits\nwhile ! test -e ../leave; do sleep 0.02; done\n\
         test $AGENTS_NAME = c && exit 5\ntest $AGENTS_NAME = b && exit 0\ngit add -A && git commit -qm 'By hand'\n",
    );
    let attach = |name: &str| {
        // `script` itself starts its command by SHELL, so it is set later.
        let line = format!("SHELL={}/bin/my-shell exec git agents attach {name}", env.root().display());
        let mut command = env.command("script", repo.path());
        command.args(["-q", "-e", "-c", &line, "/dev/null"]).env("TERM", "xterm");
        Background::start(&env, command)
    };
    {
        let sitting = attach("a");
        env.until("somebody sits there", || repo.join("../x.agents/sits").exists());
        assert_eq!(repo.state("a"), "attached");
        assert!(repo.agents(&["send", "a", "hello"]).code(128).stderr.contains("a person sits"));
        assert!(repo.agents(&["retry", "a"]).code(128).stderr.contains("running"));
        repo.agents(&["rm", "a"]).code(128);
        repo.write("../x.agents/leave", "");
        sitting.finish(&env).ok();
    }
    assert_eq!(repo.state("a"), "succeeded");
    assert_eq!(repo.git(&["log", "--format=%s", "main..agents/a"]), "By hand");
    let env_of = repo.read("../x.agents/env");
    let has = |v: &str| env_of.split('\0').any(|l| l == v);
    assert!(has("AGENTS_NAME=a") && !env_of.contains("GIT_EDITOR=") && !env_of.contains("GIT_DIR="), "{env_of}");
    let id = repo.status_of("a")["id"].as_str().unwrap().to_owned();
    let kept = repo.git(&["for-each-ref", "--format=%(refname)", &format!("refs/agents/auto/{id}/")]);
    assert_eq!(repo.git(&["show", &format!("{}:one", kept.lines().last().unwrap())]), "1", "as it was before");
    attach("b").finish(&env).code(0);
    assert_eq!(repo.state("b"), "unchanged");
    attach("c").finish(&env).code(5);
    assert_eq!(repo.state("c"), "failed");
}

#[test]
fn who_only_looked_has_not_answered_the_question() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "WRITE: one: 1\nCOMMIT: one\nSAY: NEEDS-INPUT: red or blue?")], &[]).code(1);
    assert_eq!(repo.state("a"), "needs-input");
    let attach = |script: &str| {
        env.script("my-shell", &format!("#!/bin/sh\n{script}\n"));
        let mut command = env.agents_command(repo.path(), &["attach", "a"]);
        command.env("SHELL", env.root().join("bin/my-shell"));
        crate::support::env::run(command, b"")
    };
    for code in [0, 42] {
        attach(&format!("exit {code}")).code(code);
        let run = repo.status_of("a")["run"].clone();
        assert_eq!((&run["state"], &run["question"]), (&"needs-input".into(), &"red or blue?".into()), "{run}");
    }
    attach("echo red >colour").code(0);
    assert_eq!(repo.state("a"), "succeeded");
}

#[test]
fn sitting_down_in_a_running_ones_place_needs_a_yes_and_keeps_its_work() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    repo.start(&[("a", "WRITE: half: done\nSLEEP: 600")], &[]);
    repo.env.until("it works", || repo.worktree("a").join("half").exists());
    let out = repo.agents(&["attach", "a"]).code(128);
    assert!(out.stderr.contains("'a' is running") && out.stderr.contains("--yes"), "{out}");
    assert_eq!(repo.state("a"), "running");
    env.script("my-shell", "#!/bin/sh\ncat half >whole; git add -A; git commit -qm Whole\n");
    let mut command = env.agents_command(repo.path(), &["attach", "--yes", "a"]);
    command.env("SHELL", env.root().join("bin/my-shell"));
    crate::support::env::run(command, b"").ok();
    assert_eq!(repo.state("a"), "succeeded");
    assert_eq!(repo.git(&["show", "agents/a:whole"]), "done");
    assert!(env.processes().is_empty(), "{:?}", env.processes());
}

#[test]
fn ctrl_c_in_an_attached_shell_is_for_what_runs_in_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "SAY: x")], &[]).code(1);
    let socket = env.root().join("tmux");
    let tmux = |args: &[&str]| {
        let mut command = env.command("tmux", repo.path());
        command.arg("-S").arg(&socket).arg("-f/dev/null").args(args).env("TERM", "xterm");
        crate::support::env::run(command, b"").ok().stdout
    };
    tmux(&["new-session", "-d", "-x", "100", "-y", "30", "git agents attach a; echo code=$?; cat"]);
    repo.becomes("a", "attached");
    tmux(&["send-keys", "touch ../before; sleep 600", "Enter"]);
    env.until("it sleeps", || env.processes().iter().any(|(_, l)| l == "sleep 600"));
    tmux(&["send-keys", "C-c"]);
    env.until("it is woken", || !env.processes().iter().any(|(_, l)| l == "sleep 600"));
    assert_eq!(repo.state("a"), "attached");
    tmux(&["send-keys", "echo x >by-hand; git add -A; git commit -qm Hand; exit", "Enter"]);
    env.until("the code is shown", || tmux(&["capture-pane", "-p"]).contains("code=0"));
    assert_eq!(repo.state("a"), "succeeded");
    // A closed terminal ends the sitting, and that is written down.
    tmux(&["respawn-pane", "-k", "git agents attach a"]);
    repo.becomes("a", "attached");
    // A shell that is still starting takes a closed terminal for the end of its input.
    tmux(&["send-keys", "touch ../ready; sleep 600", "Enter"]);
    env.until("the shell works", || env.processes().iter().any(|(_, l)| l == "sleep 600"));
    tmux(&["kill-server"]);
    assert_eq!(repo.settles("a"), "failed");
}

#[test]
fn a_retry_from_the_base_keeps_the_old_tip() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "SESSION: old\nRUN: test ! -e ../second || { echo new >new; exit 0; }\nRUN: test -e new || { echo o >old; git add old; git commit -qm Old; echo d >dirty; exit 3; }")], &["--retries", "0"]).code(1);
    let old = repo.tip("agents/a");
    repo.write("../x.agents/second", "");
    repo.agents(&["retry", "--fresh", "a"]).ok();
    repo.reaches("a", "succeeded");
    assert_eq!(repo.git(&["log", "--format=%s", "main..agents/a"]), "Do a");
    assert!(!repo.worktree("a").join("old").exists() && !repo.worktree("a").join("dirty").exists());
    let kept = repo.git(&["for-each-ref", "--format=%(refname)", "refs/agents/removed/"]);
    assert_eq!(repo.tip(&format!("{kept}^1")), old);
    assert_eq!(repo.git(&["show", &format!("{kept}:dirty")]), "d");
    let prompt = std::fs::read_to_string(repo.run_dir("a").join("prompt.md")).unwrap();
    assert!(prompt.starts_with("Do a\n"), "a new session gets the whole task: {prompt}");
}

#[test]
fn a_retry_with_another_assistant_an_edited_prompt_and_by_state() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.retries", "0");
    repo.custom(&["/bin/sh", "-c", "cat \"$AGENTS_PROMPT_FILE\" >seen"]);
    repo.run(&[("a", "SESSION: s\nEXIT: 3"), ("b", "EXIT: 4"), ("good", "WRITE: g: g")], &[]).code(1);
    repo.agents(&["retry", "-a", "nobody", "a"]).code(128);
    repo.agents(&["retry", "-a", "mine", "a"]).ok();
    repo.reaches("a", "succeeded");
    let a = repo.status_of("a");
    assert_eq!((&a["assistant"], &a["run"]["session"]), (&"mine".into(), &serde_json::Value::Null));
    assert!(repo.git(&["log", "-1", "--format=%B", "agents/a"]).contains("Assisted-by: a (mine)"));
    assert!(repo.git(&["notes", "--ref=agents", "show", "agents/a"]).contains("[mine, succeeded]"));
    env.script("my-editor", "#!/bin/sh\necho 'WRITE: b: b' >\"$1\"\n");
    let mut command = env.agents_command(repo.path(), &["retry", "--edit", "--failed"]);
    command.env("GIT_EDITOR", "my-editor");
    let out = crate::support::env::run(command, b"").ok();
    assert!(out.stderr.contains("'b' goes on") && !out.stderr.contains("'good'"), "{out}");
    // Its own task says EXIT first, so it fails again; the message was in its prompt.
    assert_eq!(repo.settles("b"), "failed");
    let prompt = std::fs::read_to_string(repo.run_dir("b").join("prompt.md")).unwrap();
    assert!(prompt.contains("EXIT: 4") && prompt.contains("WRITE: b: b"), "{prompt}");
    repo.agents(&["retry"]).code(129);
    repo.agents(&["retry", "--batch", "9"]).code(128);
    assert_eq!(repo.agents(&["retry", "--failed", "--json"]).ok().json()["results"].as_array().unwrap().len(), 1);
    repo.settles("b");
}

#[test]
fn a_batch_is_stopped_as_a_whole_and_others_are_not() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    repo.start(&[("a", "SLEEP: 600"), ("b", "SLEEP: 600")], &[]);
    repo.start(&[("c", "SLEEP: 600")], &[]);
    for name in ["a", "b", "c"] {
        repo.reaches(name, "running");
    }
    let out = repo.agents(&["stop", "--json", "--batch", "1"]).ok().json();
    assert_eq!(out["results"].as_array().unwrap().len(), 2);
    assert_eq!([repo.state("a"), repo.state("b"), repo.state("c")], ["stopped", "stopped", "running"]);
    repo.agents(&["stop"]).code(129);
    repo.agents(&["rm", "--stop", "-D", "c"]).ok();
    assert!(env.processes().is_empty(), "{:?}", env.processes());
}

#[test]
fn a_child_starts_from_its_parents_and_from_the_merge_of_several() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(
        &[
            ("left", "WRITE: l: l"),
            ("right", "WRITE: r: r"),
            ("one after=left", "RUN: cat l >one"),
            ("both after=left,right", "RUN: cat l r >both"),
            ("clash", "WRITE: l: other"),
            ("torn after=left,clash", "WRITE: t: t"),
        ],
        &[],
    )
    .code(1);
    assert_eq!(repo.git(&["show", "agents/one:one"]), "l");
    assert_eq!(repo.git(&["show", "agents/both:both"]), "l\nr");
    assert_eq!(repo.state("torn"), "failed");
    assert!(repo.reason("torn").contains("'clash' does not merge with 'left': l"), "{}", repo.reason("torn"));
    // Only its own work is its own.
    assert_eq!((&repo.status_of("both")["ahead"], &repo.status_of("one")["ahead"]), (&1.into(), &1.into()));
    assert_eq!(repo.reported("both")["files"].as_array().unwrap().len(), 1);
    // What its parents left unfinished is not started at all.
    assert!(!repo.join("../x.agents/torn/t").exists());
}

#[test]
fn nothing_is_started_in_a_wrong_place() {
    let env = Env::new();
    let repo = env.repo("x");
    let names = ["gone", "linked", "switched", "detached", "moved"];
    let tasks: Vec<(&str, &str)> = names.iter().map(|n| (*n, "RUN: pwd >>../../ran; date +%N >>n")).collect();
    repo.run(&tasks, &[]).ok();
    std::fs::remove_file(repo.join("../ran")).unwrap();
    let place = |n: &str| repo.join("../x.agents").join(n);
    std::fs::remove_dir_all(place("gone")).unwrap();
    std::fs::rename(place("linked"), env.root().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(repo.path(), place("linked")).unwrap();
    Repo::at(&env, place("switched")).git(&["switch", "--quiet", "-c", "mine"]);
    Repo::at(&env, place("detached")).git(&["switch", "--quiet", "--detach"]);
    std::fs::rename(place("moved"), env.root().join("moved")).unwrap();
    let head = repo.tip("HEAD");
    for name in names {
        for command in ["retry", "attach"] {
            let out = repo.agents(&[command, name]).code(128);
            assert!(out.stderr.contains(&format!("'{name}'")), "{out}");
        }
        let out = repo.agents(&["send", name, "RUN: pwd >>../../ran"]).code(128);
        assert!(out.stderr.contains(&format!("'{name}'")), "{out}");
    }
    assert!(!repo.join("../ran").exists(), "{}", repo.read("../ran"));
    assert_eq!((repo.tip("HEAD"), repo.git(&["branch", "--show-current"])), (head, "main".into()));
    // Back in its place it goes on.
    Repo::at(&env, place("switched")).git(&["switch", "--quiet", "agents/switched"]);
    repo.agents(&["retry", "switched"]).ok();
    repo.settles("switched");
    assert_eq!(repo.read("../ran").trim(), place("switched").canonicalize().unwrap().to_str().unwrap());
}

#[test]
fn a_place_that_changes_while_it_waits_is_refused_too() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.retries", "1");
    // Between its two attempts, the assistant's own doing.
    repo.run(&[("a", "RUN: cd .. && mv a b && ln -s ../x a; exit 3")], &[]).code(1);
    assert_eq!(repo.state("a"), "failed");
    assert!(repo.reason("a").contains("'a'"), "{}", repo.reason("a"));
    assert_eq!(repo.status_of("a")["run"]["attempt"], 1);
}

#[test]
fn notes_for_people_tell_who_made_what_with_which_verdict() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(
        &[
            ("a", "SESSION: s\nWRITE: one: 1\nCOMMIT: One\nWRITE: two: 2\nCOMMIT: Two"),
            ("b", "WRITE: b: b\nCOMMIT: B\nEXIT: 3"),
        ],
        &["--retries", "0"],
    )
    .code(1);
    let log = |branch: &str| repo.git(&["log", "--notes=agents", "--format=%s|%N", &format!("main..{branch}")]);
    assert_eq!(log("agents/a"), "Two|a: Do a [scripted, succeeded]\n\nOne|a: Do a [scripted, succeeded]");
    assert_eq!(log("agents/b"), "B|b: Do b [scripted, failed]");
    // An amended commit is another one: it gets its line at the next end, and nothing is said twice.
    repo.worktree("a").git(&["commit", "--quiet", "--amend", "-m", "Two, amended"]);
    assert_eq!(log("agents/a").lines().next().unwrap(), "Two, amended|");
    repo.agents(&["send", "--wait", "a", "EXIT: 5"]).code(1);
    repo.settles("a");
    let after = log("agents/a");
    assert_eq!(after, "Two, amended|a: Do a [scripted, failed]\n\nOne|a: Do a [scripted, failed]");
    // The user's own notes are nobody's business.
    assert!(!repo.has("refs/notes/commits"));
}

#[test]
fn a_kill_between_reading_a_message_and_the_start_loses_no_message() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "SESSION: s\nWRITE: a: a")], &[]).ok();
    // It cannot start: the program is gone after the plan was made.
    repo.start(&[("busy", "WAITFILE: ../go")], &["-j", "1"]);
    repo.reaches("busy", "running");
    repo.set("agents.parallel", "1");
    repo.agents(&["send", "a", "WRITE: b: b"]).ok();
    repo.reaches("a", "waiting");
    kill(Pid::from_raw(repo.pids("a").0), Signal::SIGKILL).unwrap();
    repo.env.until("it is dead", || repo.state("a") == "dead");
    repo.write("../x.agents/go", "");
    repo.agents(&["retry", "a"]).ok();
    repo.reaches("a", "succeeded");
    assert_eq!(repo.worktree("a").read("b"), "b\n");
}
