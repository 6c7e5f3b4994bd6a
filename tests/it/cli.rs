//! The command line as a contract: help, usage, names, exit codes.

use crate::support::env::{Background, run};
use crate::support::{Env, Out, Repo, terminal};

/// Every command of the first help page.
fn commands(env: &Env) -> Vec<String> {
    let help = env.repo("help").agents(&["-h"]).ok().stdout;
    let listed = help.lines().filter(|l| l.starts_with("           ") || l.split("  ").next().is_some_and(is_heading));
    // Two that belong together share a line: `stop, retry end runs; …`.
    let names = |l: &str| -> Vec<String> {
        let mut out = Vec::new();
        for word in l.get(11..).unwrap_or_default().split_whitespace() {
            out.push(word.trim_end_matches(',').to_owned());
            if !word.ends_with(',') {
                break;
            }
        }
        out
    };
    listed.flat_map(names).collect()
}

fn is_heading(word: &str) -> bool {
    ["start", "meanwhile", "its place", "decide", "tidy up", "set up"].contains(&word)
}

#[test]
fn the_first_page_of_help_fits_a_screen_and_lists_what_there_is() {
    let env = Env::new();
    let commands = commands(&env);
    let repo = Repo::at(&env, env.root().join("code/help"));
    let help = repo.agents(&["-h"]).ok();
    assert!(help.stdout.lines().count() <= 24, "{help}");
    assert!(help.stdout.lines().all(|l| l.chars().count() <= 80), "{help}");
    assert!(help.stderr.is_empty());
    let known = "init demo new adopt run status show logs attach send wait stop retry overlap path exec report diff sync land push rm restore clean history doctor hooks skills trust manual shell-init";
    assert_eq!(commands.join(" "), known);
}

#[test]
fn help_of_a_command_in_full_was_the_short_one() {
    let env = Env::new();
    let repo = env.repo("x");
    for (args, page) in [
        (&["run", "--help"][..], "GIT-AGENTS-RUN(1)"),
        (&["-C", "..", "rm", "-D", "--help"], "GIT-AGENTS-RM(1)"),
        (&["land", "--help", "--nonsense"], "GIT-AGENTS-LAND(1)"),
        (&["merge", "--help"], "GIT-AGENTS-LAND(1)"),
        (&["hooks", "install", "--help"], "GIT-AGENTS-HOOKS(1)"),
        (&["check", "--help"], "GIT-AGENTS-CHECK(1)"),
    ] {
        let out = repo.agents(args).ok();
        assert!(out.stdout.starts_with(page) && out.stdout.contains("\nEXAMPLES\n"), "{args:?}: {out}");
        assert!(out.stdout.lines().all(|l| l.chars().count() <= 80 && !l.contains('\u{8}')), "{out}");
    }
    assert_eq!(repo.agents(&["run", "--help"]).ok().stdout, repo.agents(&["manual", "run"]).ok().stdout);
    let short = repo.agents(&["run", "-h"]).ok();
    assert!(short.stdout.contains("Usage: git agents run") && !short.stdout.contains("EXAMPLES"), "{short}");
    // git itself answers for the whole; whoever calls the program sees the page too.
    let mut program = env.command("git-agents", repo.path());
    program.arg("--help");
    assert!(run(program, b"").ok().stdout.starts_with("GIT-AGENTS(1)"));
    // No page of their own; what another program is to be asked stays with it.
    assert!(repo.agents(&["undo", "--help"]).ok().stdout.contains("Usage: git agents undo"));
    repo.agents(&["new", "-q", "one"]).ok();
    let ls = repo.agents(&["exec", "one", "--", "git", "version", "--help"]);
    assert!(!ls.stdout.contains("GIT-AGENTS"), "{ls}");
}

#[test]
fn help_in_full_is_read_with_man_on_a_terminal_and_without_man_too() {
    let env = Env::new();
    let repo = env.repo("x");
    let shown = || terminal::agents(&env, repo.path(), &["rm", "--help"], &[("GIT_PAGER", "my-pager")]).ok().stdout;
    env.script("my-pager", "#!/bin/sh\necho paged\ncat\n");
    env.script("man", "#!/bin/sh\necho by man; head -1 \"$1\"\n");
    assert_eq!(shown(), "by man\r\n.\\\" Made by git agents.\r\n");
    env.script("man", "#!/bin/sh\nexit 1\n");
    assert!(shown().starts_with("paged\r\nGIT-AGENTS-RM(1)\r\n"));
    assert_eq!(std::fs::read_dir(env.root().join("tmp")).unwrap().count(), 0, "a page was left behind");
}

#[test]
fn each_command_explains_each_of_its_flags() {
    let env = Env::new();
    for command in commands(&env) {
        let repo = Repo::at(&env, env.root().join("code/help"));
        let help = repo.agents(&[command.as_str(), "-h"]).ok();
        assert!(help.stderr.is_empty(), "{help}");
        assert!(help.stdout.contains(&format!("Usage: git agents {command}")), "{help}");
        assert!(help.stdout.lines().next().is_some_and(|l| l.split_whitespace().count() > 3), "says nothing: {help}");
        let mut lines = help.stdout.lines().peekable();
        while let Some(line) = lines.next() {
            let flag = line.trim_start();
            let is_argument = line.starts_with("  ") && flag.starts_with(['[', '<']);
            if !is_argument && !flag.starts_with('-') {
                continue;
            }
            // "  -j <N>   at most", or the explanation on the next line.
            let beside = flag.split_once("  ").map_or("", |(_, text)| text.trim());
            let below = lines.peek().filter(|l| l.starts_with("          ")).map_or("", |l| l.trim());
            assert!(beside.len().max(below.len()) > 5, "'{command}' does not explain '{flag}'\n{help}");
        }
    }
}

#[test]
fn wrong_usage_is_129_with_a_suggestion_and_nothing_on_standard_output() {
    let env = Env::new();
    let repo = env.repo("x");
    for (args, words) in [
        (vec!["statsu"], "'status'"),
        (vec!["reprot"], "'report'"),
        (vec!["status", "--jsno"], "'--json'"),
        (vec!["new"], "<NAME>"),
        (vec!["new", "a", "b"], "'b'"),
        (vec!["run", "-j", "0", "x"], "0"),
        (vec!["run", "--permission", "root", "x"], "root"),
        (vec!["run", "--time", "soon", "x"], "soon"),
        (vec!["run", "--until", "soon", "x"], "soon"),
        (vec!["run", "--cost", "-1", "x"], "-1"),
        (vec!["run", "a", "-f", "b"], "one of them"),
        (vec!["run"], "no task"),
        (vec!["rm"], "--failed"),
        (vec!["stop"], "--all"),
        (vec!["retry"], "--failed"),
        (vec!["send", "x"], "-F"),
        (vec!["status", "--state", "sleeping"], "'sleeping'"),
        (vec!["status", "--json", "--porcelain"], "--porcelain"),
        (vec!["exec", "--all"], "'--all'"),
        (vec!["restore"], "--last"),
        (vec!["shell-init", "tcsh"], "bash"),
        (vec!["wait", "--timeout", "never"], "never"),
        (vec!["--json-schema", "path"], "'path'"),
        (vec!["--color", "sometimes"], "always"),
        (vec!["trust", "--yes", "--show"], "--show"),
        (vec!["sta"], "'status'"),
    ] {
        let out = repo.agents(&args).code(129);
        assert!(out.stdout.is_empty(), "{out}");
        assert!(out.stderr.starts_with("error: ") && out.stderr.contains(words), "wanted {words}\n{out}");
        assert!(!out.stderr.contains("--help"), "'git agents --help' is git's: {out}");
    }
    assert!(!repo.join(".git/agents").exists(), "a typing error left something behind");
}

#[test]
fn the_words_of_other_tools_lead_to_ours() {
    let env = Env::new();
    let repo = env.repo("x");
    for (alias, ours) in [
        ("add", "new"),
        ("create", "new"),
        ("list", "status"),
        ("ls", "status"),
        ("ps", "status"),
        ("remove", "rm"),
        ("delete", "rm"),
        ("merge", "land"),
        ("kill", "stop"),
        ("resume", "attach"),
        ("enter", "attach"),
    ] {
        let usage = |word: &str| repo.agents(&[word, "-h"]).ok().stdout;
        assert_eq!(usage(alias), usage(ours), "{alias}");
    }
    repo.agents(&["add", "feature"]).ok();
    assert_eq!(repo.agents(&["ls", "--names"]).ok().stdout, "feature\n");
    repo.agents(&["delete", "feature"]).ok();
    assert_eq!(repo.agents(&["ps", "--names"]).ok().stdout, "");
    repo.agents(&["undo"]).ok();
    assert_eq!(repo.agents(&["list", "--names"]).ok().stdout, "feature\n");
    for word in ["cd", "switch"] {
        let out = repo.agents(&[word, "feature"]).code(128);
        assert!(out.stdout.is_empty() && out.stderr.contains("shell-init"), "{out}");
    }
    // None of them is in the way on the first page.
    let help = repo.agents(&["-h"]).ok().stdout;
    assert!(!help.contains("undo") && !help.contains("supervise"), "{help}");
}

#[test]
fn the_shell_function_goes_there_and_passes_the_rest_on() {
    let env = Env::new();
    let repo = env.repo("a repo");
    repo.agents(&["new", "feature"]).ok();
    let there = repo.agents(&["path", "feature"]).ok().stdout;
    for shell in ["bash", "zsh", "fish"] {
        let text = repo.agents(&["shell-init", shell]).ok().stdout;
        if !std::env::split_paths(env.path()).any(|d| d.join(shell).is_file()) {
            continue;
        }
        let file = env.root().join(format!("init.{shell}"));
        std::fs::write(&file, text).unwrap();
        let script = format!(
            ". '{}'\nagents cd feature\npwd\nagents cd\npwd\nagents cd -\npwd\nagents cd nowhere\npwd\nagents status --names\n",
            file.display()
        );
        let mut command = env.command(shell, repo.path());
        command.args(["-c", &script]);
        let out = crate::support::env::run(command, b"");
        let home = format!("{}\n", repo.path().display());
        // `cd -` may say where it goes.
        let said: Vec<&str> = out.stdout.lines().collect();
        assert_eq!(format!("{}\n{}\n", said[0], said[1]), format!("{there}{home}"), "{shell}: {out}");
        assert_eq!(&said[said.len() - 3..], [there.trim_end(), there.trim_end(), "feature"], "{shell}: {out}");
    }
}

#[test]
fn an_agent_is_meant_by_name_branch_number_or_the_directory() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["new", "feature/one"]).ok();
    repo.agents(&["new", "feature/two"]).ok();
    repo.agents(&["run", "-q", "-a", "scripted", "SAY: first", "WRITE: b.txt: x"]).code(1);
    repo.agents(&["run", "-q", "-a", "scripted", "SAY: old", "WRITE: c.txt: x"]).code(1);
    let path = |word: &str| repo.agents(&["path", word]);
    let name = |out: Out| out.ok().stdout.trim_end().rsplit('/').next().unwrap().to_owned();
    assert!(name(path("feature/one")).starts_with("feature-one"));
    assert!(name(path("refs/heads/feature/one")).starts_with("feature-one"));
    // Beginnings, for who only reads.
    assert!(name(path("feature/o")).starts_with("feature-one"));
    let two = path("feature").code(128);
    assert!(two.stderr.contains("'feature/one'") || two.stderr.contains("feature/one, feature/two"), "{two}");
    // Numbers are those of the last batch.
    assert_eq!(name(path("2")), "write-c-txt-x");
    assert_eq!(name(path("agents/write-b-txt-x")), "write-b-txt-x");
    assert!(path("3").code(128).stderr.contains("no task 3"));
    // Here.
    let there = env.root().join("code/x.agents").join(name(path("feature/two")));
    assert_eq!(repo.agents_in(&there, &["path", "@"]).ok().stdout, format!("{}\n", there.display()));
    assert_eq!(repo.agents_in(&there, &["path"]).ok().stdout, format!("{}\n", there.display()));
    assert!(path("@").code(128).stderr.contains("this is none"));
    // Who is unknown is told the nearest.
    let out = repo.agents(&["path", "faeture/one"]).code(128);
    assert!(out.stderr.contains("did you mean 'feature/one'?"), "{out}");
    // What moves something takes no beginning.
    for command in ["rm", "stop", "retry", "attach", "exec"] {
        let out = repo.agents(&[command, "feature/o"]).code(128);
        assert!(out.stderr.contains("no agent named 'feature/o'"), "{out}");
    }
    let out = repo.agents(&["rm", "feature/o", "nobody"]).code(128);
    assert!(out.stderr.contains("feature/o") && out.stderr.contains("nobody"), "not all at once: {out}");
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout.lines().count(), 6);
    repo.agents(&["rm", "2"]).ok();
    assert!(!repo.agents(&["status", "--names"]).ok().stdout.contains("write-c-txt-x"));
}

#[test]
fn exit_codes_say_done_no_or_could_not() {
    let env = Env::new();
    let repo = env.repo("x");
    let code = |args: &[&str], code: i32| repo.agents(args).code(code);
    code(&["status"], 0);
    code(&["report"], 128);
    code(&["wait"], 128);
    code(&["logs"], 128);
    code(&["trust"], 0);
    code(&["trust", "--show"], 0);
    code(&["restore", "--list"], 0);
    code(&["restore", "--last"], 128);
    code(&["adopt", "nothing"], 128);
    // All succeeded, one did not, one did nothing.
    code(&["run", "-a", "scripted", "WRITE: a.txt: a"], 0);
    code(&["run", "-a", "scripted", "--retries", "0", "FAIL: no"], 1);
    code(&["wait"], 1);
    code(&["report"], 0);
    code(&["run", "-a", "scripted", "SAY: nothing"], 1);
    code(&["run", "-d", "-a", "scripted", "WAITFILE: ../go\nWRITE: b.txt: b"], 0);
    code(&["wait", "--timeout", "0s"], 124);
    code(&["status", "--state", "running,preparing"], 0);
    code(&["rm", "1"], 128);
    code(&["send", "1", "SAY: more"], 0);
    code(&["retry", "1"], 128);
    code(&["stop", "1"], 0);
    code(&["stop", "1"], 1);
    code(&["wait"], 1);
    code(&["exec", "1", "--", "sh", "-c", "exit 7"], 7);
    code(&["exec", "--all", "--", "sh", "-c", "exit 7"], 1);
    code(&["exec", "--all", "--", "true"], 0);
    code(&["exec", "1", "--", "no-such-program"], 128);
    code(&["show", "1"], 0);
    code(&["show"], 128);
    code(&["logs", "1"], 0);
    code(&["path", "1"], 0);
    code(&["rm", "1"], 0);
    // Not the first task of the batch before.
    assert!(code(&["rm", "1"], 128).stderr.contains("was removed"));
    code(&["restore", "--last"], 0);
    code(&["new", "feature"], 0);
    code(&["new", "feature"], 128);
    code(&["new", ".."], 128);
}

#[test]
fn an_end_by_ctrl_c_is_130_and_ends_nobody_else() {
    use nix::sys::signal::Signal;
    let env = Env::new();
    let repo = env.repo("x");
    let run = start(&repo, &["run", "-a", "scripted", "WAITFILE: ../go\nWRITE: a.txt: a"]);
    let running = || repo.agents(&["status", "--state", "running", "--names"]).stdout.lines().count() == 1;
    env.until("it runs", running);
    let wait = start(&repo, &["wait"]);
    let logs = start(&repo, &["logs", "-f"]);
    for (looker, signal, code) in
        [(run, Signal::SIGINT, 130), (logs, Signal::SIGINT, 130), (wait, Signal::SIGTERM, 143)]
    {
        env.until("it waits for signals", || waits_for_signals(looker.pid()));
        looker.signal(signal);
        let out = looker.finish(&env).code(code);
        assert!(!out.stderr.contains("error"), "{out}");
    }
    assert!(running(), "looking on no more ended the run");
    std::fs::write(env.root().join("code/x.agents/go"), "").unwrap();
    repo.agents(&["wait"]).ok();
}

/// Our program itself, without git in between, which would get the signals.
fn start(repo: &Repo<'_>, args: &[&str]) -> Background {
    let mut command = repo.env.command(env!("CARGO_BIN_EXE_git-agents"), repo.path());
    command.args(args);
    Background::start(repo.env, command)
}

/// Whether it has SIGINT blocked, to take it when it wants.
fn waits_for_signals(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let blocked = status.lines().find_map(|l| l.strip_prefix("SigBlk:")).unwrap_or("0");
    u64::from_str_radix(blocked.trim(), 16).unwrap_or(0) & 2 != 0
}

#[test]
fn ctrl_c_while_a_new_place_is_set_up_is_130_and_leaves_it_for_rm() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".git-agents.toml", "[setup]\nrun = ['touch ../started; sleep 1000']\n");
    repo.agents(&["trust", "--yes"]).ok();
    let new = start(&repo, &["new", "feature"]);
    env.until("the setup runs", || env.root().join("code/x.agents/started").exists());
    new.signal(nix::sys::signal::Signal::SIGINT);
    let out = new.finish(&env).code(130);
    assert!(out.stdout.is_empty(), "{out}");
    env.until("what it started has ended", || env.processes().is_empty());
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "feature\n");
    repo.agents(&["rm", "feature"]).ok();
    assert!(!repo.has("feature"));
}

#[test]
fn what_is_started_notices_that_it_is_asked_to_end() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".git-agents.toml", "[setup]\nrun = ['cp /proc/self/status ../setup']\n");
    repo.agents(&["trust", "--yes"]).ok();
    repo.agents(&["run", "-a", "scripted", "RUN: cp /proc/self/status ../run\nWRITE: a.txt: a"]).ok();
    repo.agents(&["exec", "1", "--", "cp", "/proc/self/status", "../exec"]).ok();
    for who in ["setup", "run", "exec"] {
        let status = std::fs::read_to_string(env.root().join("code/x.agents").join(who)).unwrap();
        let blocked = status.lines().find(|l| l.starts_with("SigBlk:")).unwrap();
        assert!(blocked.ends_with("\t0000000000000000"), "{who} was started with signals blocked: {blocked}");
    }
}
