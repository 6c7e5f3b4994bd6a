//! What an assistant is given: its variables, its descriptors, its place, its prompt; and what is committed for it.

use crate::support::hostile::{NAMES, TEXTS, assert_no_canary};
use crate::support::{Env, Repo};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;

/// `env -0` of an assistant as it was written to `file`.
fn variables(repo: &Repo<'_>, file: &str) -> BTreeMap<String, String> {
    let text = repo.read(file);
    let pairs = text.split('\0').filter_map(|l| l.split_once('='));
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

#[test]
fn a_run_started_by_a_hook_gives_nothing_of_gits_on() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.custom(&["/bin/sh", "-c", "env -0 >env; ls -l /proc/self/fd >fds; cat >stdin; id -g >/dev/null; ps -o pid=,pgid= -p $$ >group; umask >mask; command -v git >which"]);
    // As a hook or an alias has them, and a descriptor that somebody forgot to close.
    let mut command = env.command("bash", repo.path());
    command.args(["-c", "umask 027; exec 7</etc/hostname 9>../leak; exec git agents run -a mine Task"]);
    for (k, v) in [
        ("GIT_DIR", repo.join(".git").to_str().unwrap()),
        ("GIT_WORK_TREE", repo.path().to_str().unwrap()),
        ("GIT_INDEX_FILE", "/nowhere/index"),
        ("GIT_OBJECT_DIRECTORY", repo.join(".git/objects").to_str().unwrap()),
        ("GIT_PREFIX", "src/"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "alias.x"),
        ("GIT_CONFIG_VALUE_0", "y"),
        ("MINE", "yes"),
    ] {
        command.env(k, v);
    }
    crate::support::env::run(command, b"not for the assistant").ok();
    let place = repo.worktree("task");
    let got = variables(&place, "env");
    for k in got.keys() {
        let gits = k.starts_with("GIT_")
            && !["GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_TERMINAL_PROMPT", "GIT_PAGER", "GIT_ASKPASS"]
                .contains(&k.as_str());
        // Signing is off by environment, in git's own counted form.
        let signing = k.starts_with("GIT_CONFIG_");
        assert!(!gits || signing, "{k}={}", got[k]);
    }
    assert_eq!((got["GIT_CONFIG_KEY_0"].as_str(), got["GIT_CONFIG_VALUE_0"].as_str()), ("commit.gpgSign", "false"));
    let exec_path = repo.git(&["--exec-path"]);
    assert!(!std::env::split_paths(&got["PATH"]).any(|p| p.to_str() == Some(exec_path.as_str())), "{}", got["PATH"]);
    assert_eq!(place.read("which").trim_end(), env.git_program().to_str().unwrap());
    for (k, v) in [
        ("MINE", "yes"),
        ("AGENTS_NAME", "task"),
        ("AGENTS_BRANCH", "agents/task"),
        ("AGENTS_BASE", "main"),
        ("AGENTS_WORKTREE", place.path().to_str().unwrap()),
        ("AGENTS_BATCH", "1"),
        ("AGENTS_PERMISSION", "edit"),
        ("HOST", "127.0.0.1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("SSH_ASKPASS_REQUIRE", "never"),
    ] {
        assert_eq!(got.get(k).map(String::as_str), Some(v), "{k}");
    }
    assert_eq!(got["AGENTS_ID"], repo.status_of("task")["id"].as_str().unwrap());
    assert_eq!(
        std::fs::read_to_string(&got["AGENTS_PROMPT_FILE"]).unwrap(),
        std::fs::read_to_string(repo.run_dir("task").join("prompt.md")).unwrap()
    );
    assert_eq!(place.read("stdin"), "");
    // `ls` has its directory open beside the three.
    let fds = place.read("fds");
    assert_eq!(fds.lines().filter(|l| l.contains("->")).count(), 4, "{fds}");
    let group: Vec<String> = place.read("group").split_whitespace().map(str::to_owned).collect();
    assert_eq!(group[0], group[1], "the leader of its own group");
    assert_eq!(place.read("mask").trim_end(), "0027", "the user's own");
}

#[test]
fn only_allowed_variables_reach_an_assistant_that_is_given_a_list() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "--global", "agents.envAllow", "PLAIN TOKEN_* AGENTS_TEST_ENV"]);
    repo.custom(&["/bin/sh", "-c", "env -0 >env"]);
    let mut command = env.agents_command(repo.path(), &["run", "-a", "mine", "Task"]);
    for (k, v) in [("PLAIN", "1"), ("TOKEN_A", "2"), ("SECRET", "3"), ("MY_TOKEN_A", "4"), ("GIT_DIR", "/x")] {
        command.env(k, v);
    }
    command.env_remove("GIT_DIR");
    crate::support::env::run(command, b"").ok();
    let got = variables(&repo.worktree("task"), "env");
    assert_eq!((got["PLAIN"].as_str(), got["TOKEN_A"].as_str(), got["AGENTS_NAME"].as_str()), ("1", "2", "task"));
    for k in ["SECRET", "MY_TOKEN_A", "XDG_STATE_HOME"] {
        assert!(!got.contains_key(k), "{k}");
    }
    assert!(got.contains_key("HOME") && got.contains_key("PATH"));
}

#[test]
fn nothing_waits_for_a_person_who_is_not_there() {
    let env = Env::new();
    let repo = env.repo("x");
    for (key, value) in [
        ("commit.gpgSign", "true"),
        ("tag.gpgSign", "true"),
        ("gpg.program", "/bin/cat"),
        ("core.editor", "cat >/dev/null; sleep 60"),
        ("sequence.editor", "sleep 60"),
        ("core.pager", "sleep 60"),
    ] {
        repo.set(key, value);
    }
    let script = "WRITE: a: a\nRUN: git add a && git commit -m one && git commit --amend && git tag -a -m t t1\n\
                  RUN: git rebase -i HEAD~1\nRUN: git log\nRUN: ! git push http://user@127.0.0.1:1/x HEAD\n\
                  RUN: ! git ls-remote ssh://127.0.0.1:1/x\nRUN: ! cat /dev/tty\nWRITE: b: left over";
    let begun = std::time::Instant::now();
    repo.run(&[("a", script)], &[]).ok();
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    let commits = repo.git(&["log", "--format=%s", "main..agents/a"]);
    assert_eq!(commits, "Do a\none");
    assert!(!repo.git(&["cat-file", "-p", "agents/a"]).contains("gpgsig"));
}

#[test]
fn what_is_left_is_committed_with_the_name_of_who_did_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "--global", "agents.throwAway", "*.log"]);
    repo.write("../t.md", "1. #12 is no comment {name=a}\n   WRITE: new: n\n   APPEND: README.md: more\n   DELETE: src/b.txt\n   WRITE: noise.log: x\n");
    repo.agents(&["run", "-a", "scripted", "-f", "../t.md"]).code(0);
    let message = repo.git(&["log", "-1", "--format=%an <%ae>%n%B", "agents/a"]);
    assert_eq!(message, "A Tester <tester@example.org>\n#12 is no comment\n\nAssisted-by: a (scripted)");
    assert_eq!(repo.git(&["show", "--format=", "--name-status", "agents/a"]), "M\tREADME.md\nA\tnew\nD\tsrc/b.txt");
    assert_eq!(repo.worktree("a").git(&["status", "--porcelain"]), "?? noise.log");
    // Only noise is nothing.
    repo.run(&[("b", "WRITE: noise.log: x")], &[]).code(1);
    assert_eq!(repo.state("b"), "unchanged");
}

#[test]
fn finished_without_committing_is_kept_and_told_when_the_user_wants_it_so() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.uncommitted", "keep");
    repo.run(&[("a", "WRITE: new: n")], &[]).ok();
    assert_eq!(repo.worktree("a").git(&["status", "--porcelain"]), "?? new");
    assert_eq!(repo.git(&["rev-parse", "agents/a"]), repo.git(&["rev-parse", "main"]));
    let report = repo.reported("a");
    assert_eq!((&report["verdict"], &report["left_over"][0]), (&"look".into(), &"new".into()), "{report}");
}

fn hook(repo: &Repo<'_>, name: &str, text: &str) {
    let path = repo.join(".git/hooks").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    repo.env.script_at(&path, text);
}

#[test]
fn a_refusing_hook_has_the_last_word_and_the_next_prompt_its_words() {
    let env = Env::new();
    let repo = env.repo("x");
    hook(&repo, "pre-commit", "#!/bin/sh\ngrep -q good a || { echo 'lint: a is not good' >&2; exit 1; }\n");
    repo.run(&[("a", "SESSION: s\nWRITE: a: bad")], &[]).code(1);
    let run = repo.status_of("a")["run"].clone();
    assert_eq!((&run["state"], &run["attempt"]), (&"failed".into(), &1.into()), "{run}");
    assert!(run["reason"].as_str().unwrap().contains("lint: a is not good"), "{run}");
    assert_eq!(repo.worktree("a").read("a"), "bad\n");
    assert_eq!(repo.git(&["rev-parse", "agents/a"]), repo.git(&["rev-parse", "main"]), "past the hook");
    repo.agents(&["retry", "a"]).ok();
    // The session is resumed with the hook's words; this one does nothing about them.
    assert_eq!(repo.settles("a"), "failed");
    let prompt = std::fs::read_to_string(repo.run_dir("a").join("prompt.md")).unwrap();
    assert!(prompt.contains("lint: a is not good") && prompt.contains("not committed"), "{prompt}");
    repo.agents(&["send", "--wait", "a", "WRITE: a: good"]).ok();
    assert_eq!(repo.git(&["show", "agents/a:a"]), "good");
}

#[test]
fn a_hook_that_never_ends_can_be_stopped() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    hook(&repo, "pre-commit", "#!/bin/sh\ntouch ../in-hook\nexec sleep 900\n");
    repo.start(&[("a", "WRITE: a: a")], &[]);
    repo.env.until("the hook runs", || repo.join("../x.agents/in-hook").exists());
    repo.agents(&["stop", "a"]).ok();
    assert_eq!(repo.state("a"), "stopped");
    assert!(env.processes().is_empty(), "{:?}", env.processes());
    assert_eq!(repo.worktree("a").read("a"), "a\n");
}

#[test]
fn a_prompt_reaches_the_assistant_byte_for_byte_and_runs_nothing() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "--global", "agents.throwAway", "seen-*"]);
    // One gets it as an argument, one in a file, one on standard input.
    let save = "printf %s \"$1\" >seen-argument; cat \"$AGENTS_PROMPT_FILE\" >seen-file; cat >seen-stdin";
    repo.write(
        ".git-agents.toml",
        format!(
            "[assistants.argument]\ncommand = ['/bin/sh', '-c', '{save}', 'sh']\n\
             [assistants.file]\ncommand = ['/bin/sh', '-c', 'cat \"$1\" >seen-argument', 'sh', '{{{{ prompt_file }}}}']\n\
             [assistants.shell]\ncommand = 'cat >seen-argument'\n"
        ),
    );
    repo.agents(&["trust", "--yes"]).ok();
    // What steers a terminal is no task at all, and is told so.
    let steers = |t: &str| t.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
    for text in TEXTS.iter().filter(|t| steers(t)) {
        let out = repo.agents(&["run", "-a", "argument", "--", text]).code(128);
        assert!(out.stderr.contains("control character"), "{out}");
    }
    let texts: Vec<&str> = TEXTS.iter().filter(|t| !steers(t)).copied().collect();
    let names: Vec<&str> = NAMES.iter().filter(|t| !steers(t) && !t.trim().is_empty()).take(6).copied().collect();
    for (n, (assistant, more)) in [("argument", &names[..]), ("file", &[]), ("shell", &[])].into_iter().enumerate() {
        let tasks = [&texts, more].concat();
        repo.agents(&[&["run", "-q", "-a", assistant, "--"], &tasks[..]].concat()).code(1);
        let status = repo.agents(&["status", "--json", "--batch", &(n + 1).to_string()]).ok().json();
        let agents = status["agents"].as_array().unwrap();
        assert_eq!(agents.len(), tasks.len());
        for a in agents {
            let text = tasks[a["number"].as_u64().unwrap() as usize - 1];
            let place = Repo::at(&env, a["worktree"].as_str().unwrap());
            let mut seen = std::fs::read(place.join("seen-argument")).unwrap();
            if assistant == "argument" && text.starts_with('-') {
                assert_eq!(seen.remove(0), b' ', "{text:?} could be an option");
            }
            // The task stands first, exactly.
            let shown = String::from_utf8_lossy(&seen).into_owned();
            assert!(seen.starts_with(text.trim_end().as_bytes()), "{assistant}: {text:?}: {shown:?}");
            let kept = repo.join(".git/agents/run").join(a["id"].as_str().unwrap()).join("prompt.md");
            assert_eq!(seen, std::fs::read(&kept).unwrap(), "{assistant}: {text:?}");
            if assistant == "argument" {
                assert_eq!(std::fs::read(place.join("seen-file")).unwrap(), seen);
                assert_eq!(place.read("seen-stdin"), "");
            }
        }
    }
    assert_no_canary(&env, "prompts");
}

#[test]
fn an_assistant_never_inherits_the_lock_of_its_agent() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&[("a", "FORK: 900\nRUN: touch ready; ls -l /proc/$$/fd >fds\nWAITFILE: ../go")], &[]);
    let place = repo.worktree("a");
    repo.env.until("it is there", || place.join("ready").exists());
    let (supervisor, assistant) = repo.pids("a");
    for pid in [supervisor, assistant.unwrap()] {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
    repo.env.until("its lock is free", || repo.state("a") == "dead");
    assert_eq!(env.processes().len(), 1, "the orphan lives: {:?}", env.processes());
    repo.agents(&["stop", "a"]).ok();
    assert!(env.processes().is_empty());
}

#[test]
fn a_process_that_could_not_be_ended_is_told() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "WRITE: a: a")], &[]).ok();
    // Only a process stuck in the kernel survives a kill, and none can be had in a test.
    let path = repo.run_dir("a").join("exit.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"survivors\":[]", "\"survivors\":[\"stuck (pid 7)\"]")).unwrap();
    let report = repo.reported("a");
    assert_eq!((&report["verdict"], &report["flags"][0]["kind"]), (&"look".into(), &"survivor".into()), "{report}");
    assert!(repo.agents(&["report"]).ok().stdout.contains("stuck (pid 7)"));
}
