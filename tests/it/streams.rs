//! Standard output is the answer and nothing else; what reaches a terminal is safe; JSON keeps its shape.

use crate::support::hostile::is_unsafe_on_a_terminal;
use crate::support::{Env, Out, Repo, env::run, terminal};
use serde_json::Value;

/// One agent that has done something and one that asks nothing of anybody.
fn with_agents(repo: &Repo<'_>) {
    repo.agents(&["run", "-q", "-a", "scripted", "WRITE: a.txt: a\nSAY: it is done"]).ok();
    repo.agents(&["new", "-q", "feature"]).ok();
}

#[test]
fn json_is_one_object_alone_on_standard_output() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["branch", "theirs"]);
    with_agents(&repo);
    for args in [
        &["status", "--json"][..],
        &["show", "1", "--json"],
        &["report", "--json"],
        &["report", "--format", "json"],
        &["new", "more", "--json"],
        &["adopt", "theirs", "--json"],
        &["rm", "theirs", "--json", "--dry-run"],
        &["rm", "theirs", "--json"],
        &["stop", "1", "--json"],
        &["retry", "1", "--json"],
        &["send", "1", "--json", "SAY: x"],
        &["rm", "more", "feature", "--json"],
        &["restore", "--list", "--json"],
        &["restore", "more", "--json"],
        &["restore", "--last", "--json"],
        &["run", "--dry-run", "--json", "-a", "scripted", "SAY: x"],
    ] {
        let out = repo.agents(args);
        assert!(out.status <= 1, "{out}");
        out.json();
        assert_eq!(out.stdout.lines().count(), 1, "{out}");
        repo.agents(&["wait", "-q"]);
    }
    for (args, kinds) in [
        (
            &["run", "--json", "-a", "scripted", "WRITE: b.txt: b"][..],
            &["agent", "state", "activity", "end", "settled"][..],
        ),
        (&["wait", "--json"], &["agent", "end", "settled"]),
        (&["run", "-d", "--json", "-a", "scripted", "SAY: x"], &["agent"]),
    ] {
        let lines = repo.agents(args).json_lines();
        let seen: Vec<&str> = lines.iter().map(|l| l["kind"].as_str().unwrap()).collect();
        assert!(kinds.iter().all(|k| seen.contains(k)), "{args:?} printed {seen:?}");
        assert!(seen.starts_with(&["agent"]), "{seen:?}");
        // A state comes before what is done in it, the end after it.
        let at = |what: &str| lines.iter().position(|l| l["state"] == what || l["kind"] == what);
        if let (Some(running), Some(activity), Some(end)) = (at("running"), at("activity"), at("end")) {
            assert!(running < activity && activity < end, "{lines:?}");
        }
    }
    // An error is no answer.
    for args in [&["status", "--json", "nobody"][..], &["show", "--json"], &["report", "--json", "--batch", "99"]] {
        let out = repo.agents(args).code(128);
        assert!(out.stdout.is_empty() && out.stderr.starts_with("error: "), "{out}");
    }
    let out = repo.agents(&["rm", "nobody", "--json"]).code(128);
    assert!(out.stdout.is_empty(), "{out}");
}

#[test]
fn narration_is_on_standard_error_and_can_be_silenced() {
    let env = Env::new();
    let repo = env.repo("x");
    let out = repo.agents(&["new", "feature"]).ok();
    let place = env.root().join("code/x.agents/feature");
    assert_eq!(out.stdout, format!("{}\n", place.display()));
    assert_eq!(out.stderr, "undo: git agents rm feature\n");
    let out = repo.agents(&["rm", "feature"]).ok();
    assert!(out.stdout.is_empty(), "{out}");
    assert!(out.stderr.contains("trash") && out.stderr.ends_with("undo: git agents restore feature\n"), "{out}");
    let out = repo.agents(&["-q", "restore", "feature"]).ok();
    assert!(out.stdout.is_empty() && out.stderr.is_empty(), "{out}");
    let out = repo.agents(&["run", "-q", "-a", "scripted", "WRITE: a.txt: a"]).ok();
    assert!(out.stderr.is_empty() && out.stdout.starts_with("batch 1: 1 of 1 agent ready\n"), "{out}");
    // Errors are no narration.
    assert!(repo.agents(&["-q", "path", "nobody"]).code(128).stderr.contains("nobody"));
    let out = repo.agents(&["-v", "status"]).ok();
    assert!(out.stderr.contains("git") && out.stderr.contains("rev-parse"), "{out}");
    assert!(!out.stdout.contains("rev-parse"));
    let out = repo.agents(&["-C", "..", "-C", "x", "status"]);
    assert!(out.status == 129 || out.status == 0, "{out}");
    let elsewhere = env.root().to_owned();
    let out = repo.agents_in(&elsewhere, &["-C", "code/x", "path", "feature"]).ok();
    assert_eq!(out.stdout, format!("{}\n", place.display()));
    let out = repo.agents_in(&elsewhere, &["path", "feature", "-C", repo.path().to_str().unwrap()]).ok();
    assert_eq!(out.stdout, format!("{}\n", place.display()));
}

fn colored(out: &Out) -> bool {
    out.stdout.contains('\u{1b}')
}

#[test]
fn colour_is_where_it_is_wanted_and_nowhere_else() {
    let env = Env::new();
    let repo = env.repo("x");
    with_agents(&repo);
    let piped = |args: &[&str], vars: &[(&str, &str)]| {
        let mut command = env.agents_command(repo.path(), args);
        command.env("TERM", "xterm").envs(vars.iter().copied());
        colored(&run(command, b"").ok())
    };
    assert!(!piped(&["status"], &[]), "a pipe is no terminal");
    assert!(piped(&["status", "--color", "always"], &[]));
    assert!(piped(&["status", "--color", "always"], &[("NO_COLOR", "1")]), "a flag is stronger");
    assert!(piped(&["status"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!piped(&["status"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!piped(&["status"], &[("CLICOLOR_FORCE", "0")]));
    assert!(!piped(&["status", "--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!piped(&["status", "--json", "--color", "always"], &[]), "JSON has no colour");
    let shown = |args: &[&str], vars: &[(&str, &str)]| colored(&terminal::agents(&env, repo.path(), args, vars).ok());
    assert!(shown(&["status"], &[]));
    assert!(!shown(&["status"], &[("NO_COLOR", "1")]));
    assert!(!shown(&["status"], &[("TERM", "dumb")]));
    assert!(!shown(&["status", "--color", "never"], &[]));
    repo.git(&["config", "color.ui", "never"]);
    assert!(!shown(&["status"], &[]), "color.ui");
    repo.git(&["config", "color.agents", "auto"]);
    assert!(shown(&["status"], &[]), "color.agents is stronger than color.ui");
    repo.git(&["config", "color.agents", "false"]);
    assert!(!shown(&["status"], &[]), "color.agents");
    assert!(shown(&["status", "--color", "always"], &[]));
}

#[test]
fn git_is_not_asked_for_colours_where_none_are_shown() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["new", "feature"]).ok();
    let asked = |args: &[&str]| repo.agents(args).ok().stderr.contains("colorbool");
    assert!(!asked(&["-v", "status"]));
    let out = terminal::agents(&env, repo.path(), &["-v", "path", "feature"], &[]).ok();
    assert!(!out.stdout.contains("colorbool"), "{out}");
    let out = terminal::agents(&env, repo.path(), &["-v", "status"], &[]).ok();
    assert_eq!(out.stdout.matches("colorbool").count(), 1, "{out}");
}

#[test]
fn a_pager_is_for_long_answers_on_a_terminal() {
    let env = Env::new();
    let repo = env.repo("x");
    for i in 0..5 {
        repo.agents(&["new", "-q", &format!("feature-{i}")]).ok();
    }
    env.script("my-pager", "#!/bin/sh\necho paged >>\"$HOME/paged\"\ncat\n");
    let paged = || std::fs::remove_file(env.home().join("paged")).is_ok();
    let with_pager = |lines: &str, args: &[&str], vars: &[(&str, &str)]| {
        let pager = [("GIT_PAGER", "my-pager"), ("LINES", lines)];
        let out = terminal::agents(&env, repo.path(), args, &[&pager, vars].concat());
        assert!(out.ok().stdout.contains("feature-4"));
        paged()
    };
    assert!(with_pager("4", &["status"], &[]));
    assert!(!with_pager("50", &["status"], &[]), "it fits");
    assert!(!with_pager("4", &["status"], &[("GIT_PAGER_IN_USE", "1")]), "git pages already");
    assert!(!with_pager("4", &["status", "--json"], &[]));
    let mut command = env.agents_command(repo.path(), &["status"]);
    command.env("GIT_PAGER", "my-pager").env("LINES", "4");
    run(command, b"").ok();
    assert!(!paged(), "a pipe is not paged");
    repo.git(&["config", "--global", "core.pager", "my-pager"]);
    let out = terminal::agents(&env, repo.path(), &["status"], &[("LINES", "4")]);
    assert!(out.ok().stdout.contains("feature-4") && paged(), "git's own setting counts");
}

#[test]
fn an_answer_that_could_not_be_written_was_a_success() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let env = Env::new();
    let repo = env.repo("x");
    with_agents(&repo);
    let name = repo.agents(&["status", "--names", "--batch", "1"]).ok().stdout.trim_end().to_owned();
    let all = [
        "status",
        "status --json",
        "status --porcelain",
        "status --names",
        "report",
        "report --json",
        "logs",
        "logs --raw",
        "show NAME",
        "show --prompt NAME",
        "show --json NAME",
        "path NAME",
        "run --dry-run -a scripted x",
        "run --dry-run --json -a scripted x",
        "run -q -a scripted SAY:x",
        "run -d --json -a scripted SAY:x",
        "wait --json",
        "stop --json NAME",
        "send --json NAME x",
        "retry --json NAME",
        "new one",
        "new --json two",
        "adopt --json side",
        "restore --list",
        "rm --json one",
        "rm --json --dry-run two",
        "overlap",
        "overlap --json",
        "check --json x",
        "history",
        "history --json",
        "land --dry-run --json NAME",
        "sync --dry-run --json NAME",
        "clean --dry-run",
        "clean --json",
        "doctor",
        "doctor --json",
        "hooks status",
        "skills status --for claude",
        "init --dry-run",
        "manual",
        "manual run",
        "run --help",
        "shell-init bash",
        "completions zsh",
        "--json-schema status",
        "--version",
        "-h",
        "status -h",
    ];
    repo.git(&["branch", "side"]);
    let shell = |args: &str, to: &str| {
        let mut sh = env.command("sh", repo.path());
        sh.args(["-c", &format!("git agents {args} {to}")]);
        run(sh, b"")
    };
    repo.write("wants.toml", "[setup]\nrun = [\"true\"]\n");
    let wants = "-C . trust --show";
    for args in all.iter().chain([&wants]).map(|a| a.replace("NAME", &name)) {
        if args == wants {
            std::fs::rename(repo.join("wants.toml"), repo.join(".git-agents.toml")).unwrap();
        }
        let out = shell(&args, ">/dev/full");
        let answers = !out.stderr.is_empty() || out.status != 0;
        assert!(answers, "'{args}' said nothing at all: {out}");
        assert_eq!(out.status, 128, "{args}: {out}");
        assert!(out.stderr.contains("could not write to standard output: No space left"), "{args}: {out}");
    }
    assert!(
        repo.has("two") && !repo.agents(&["show", "one"]).stdout.contains("one"),
        "what was asked for was done all the same"
    );
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let env = Env::new();
    let repo = env.repo("x");
    with_agents(&repo);
    for args in [
        "status",
        "status --json",
        "report",
        "logs",
        "-h",
        "status -h",
        "shell-init bash",
        "--json-schema status",
        "path feature",
    ] {
        let mut sh = env.command("sh", repo.path());
        sh.args(["-c", &format!("( git agents {args}; echo $? >../code ) | true; cat ../code")]);
        let out = run(sh, b"");
        assert!(out.stderr.is_empty(), "{args}: {out}");
        let code = out.stdout.trim();
        assert!(code == "0" || code == "141", "{args}: {out}");
    }
    // Closed for certain.
    for args in
        ["status", "status --json", "status --porcelain", "report", "logs", "logs --raw", "path feature", "--version"]
    {
        let mut sh = env.command("sh", repo.path());
        sh.args(["-c", &format!("rm -f p; mkfifo p; exec 4<>p; exec 5>p; exec 4<&-; git agents {args} >&5; echo $?")]);
        let out = run(sh, b"");
        assert!(out.stderr.is_empty() && out.stdout == "141\n", "{out}");
    }
    let mut sh = env.command("sh", repo.path());
    sh.args(["-c", "git agents status >&- 2>&-"]);
    run(sh, b"").ok();
}

#[test]
fn names_and_words_of_others_do_nothing_to_a_terminal() {
    let env = Env::new();
    let repo = env.repo("x");
    let odd = ["$(touch${IFS}pwned)", "a\u{202e}txt.exe", "it's", "a;touch${IFS}pwned", "日本語", "`touch${IFS}pwned`"];
    let mut taken = 0;
    for (i, name) in odd.iter().enumerate() {
        repo.git(&["update-ref", &format!("refs/heads/{name}"), "HEAD"]);
        let dir = format!("../wt\u{1b}[31m{i}\u{7}");
        repo.git(&["worktree", "add", "-q", &dir, name]);
        let adopted = repo.agents(&["adopt", &format!("refs/heads/{name}")]);
        if adopted.status == 0 {
            taken += 1;
            // The command to take it back means the same branch to a shell.
            let undo = adopted.stderr.lines().find_map(|l| l.strip_prefix("undo: ")).unwrap().to_owned();
            let mut sh = env.command("sh", repo.path());
            sh.args(["-c", &undo]);
            run(sh, b"").ok();
            repo.agents(&["adopt", &format!("refs/heads/{name}")]).ok();
        } else {
            assert!(!is_unsafe_on_a_terminal(&adopted.stderr), "{adopted}");
        }
    }
    assert!(taken >= 4, "{taken}");
    let task = "SAY: \\e[2Jgone \\e]0;title\\a\\x9b31m\nPRINT: \\e[8mhidden\nRUN: printf 'x\\033[2J' >'f\u{7}'; git add -A; git commit -qm 'subject\u{1b}[31m'\nFAIL: \\e[2Jno";
    std::fs::write(repo.join("../task"), task).unwrap();
    let out = repo.agents(&["run", "-q", "-a", "scripted", "--retries", "0", "-F", "../task"]);
    assert!(!is_unsafe_on_a_terminal(&out.stdout) && !is_unsafe_on_a_terminal(&out.stderr), "{out}");
    for args in [
        &["status"][..],
        &["report"],
        &["report", "--all"],
        &["logs"],
        &["logs", "--raw"],
        &["show", "it's"],
        &["show", "1"],
        &["logs", "--supervisor"],
        &["path", "it's"],
        &["path", "nobody\u{1b}[2J"],
        &["restore", "--list"],
        &["sta\u{1b}[2Jtus"],
    ] {
        let out = terminal::agents(&env, repo.path(), args, &[("NO_COLOR", "1"), ("GIT_PAGER", "cat")]);
        let text = out.stdout.replace("\r\n", "\n");
        assert!(!is_unsafe_on_a_terminal(&text), "{args:?}: {text:?}");
    }
    crate::support::hostile::assert_no_canary(&env, "branches and tasks");
}

/// Every property of `old` is in `new`, with the same type: scripts rely on it.
fn only_grew(old: &Value, new: &Value, at: &str) {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                if key == "description" || key == "required" {
                    continue;
                }
                let there = b.get(key).unwrap_or_else(|| panic!("{at}/{key} is gone"));
                only_grew(value, there, &format!("{at}/{key}"));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            // Kinds of an enum may be added; none may go.
            for value in a {
                assert!(b.contains(value) || a.len() == b.len(), "{at}: {value} is gone");
            }
            if a.len() == b.len() {
                a.iter().zip(b).for_each(|(x, y)| only_grew(x, y, at));
            }
        }
        _ => assert_eq!(old, new, "{at} changed"),
    }
}

#[test]
fn the_shape_of_json_answers_only_grows() {
    let env = Env::new();
    let repo = env.repo("x");
    for (command, golden) in [
        ("status", include_str!("schemas/status.json")),
        ("report", include_str!("schemas/report.json")),
        ("overlap", include_str!("schemas/overlap.json")),
        ("check", include_str!("schemas/check.json")),
        ("clean", include_str!("schemas/clean.json")),
        ("history", include_str!("schemas/history.json")),
    ] {
        let now: Value = serde_json::from_str(&repo.agents(&["--json-schema", command]).ok().stdout).unwrap();
        only_grew(&serde_json::from_str(golden).unwrap(), &now, command);
    }
    // It is printed anywhere, for every command that has one.
    for command in ["show", "new", "rm", "stop", "retry", "send", "restore", "adopt"] {
        let out = repo.agents_in(env.root(), &["--json-schema", command]).ok();
        assert!(serde_json::from_str::<Value>(&out.stdout).unwrap()["properties"]["version"].is_object(), "{out}");
    }
}

#[track_caller]
fn has(value: &Value, fields: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    for field in fields.split_whitespace() {
        assert!(object.contains_key(field), "'{field}' is missing in {value:#}");
    }
}

#[test]
fn status_and_report_have_every_documented_field() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["run", "-q", "-a", "scripted", "WRITE: a.txt: a\nCOMMIT: a", "WRITE: a.txt: b\nCOMMIT: b"]).ok();
    repo.git(&["worktree", "add", "-q", "-b", "mine", "../mine"]);
    let status = repo.agents(&["status", "--json"]).ok().json();
    has(&status, "version repository base agents checkouts unmanaged batches holds");
    assert_eq!(status["base"], "main");
    let agent = &status["agents"][0];
    has(
        agent,
        "name id branch slug title origin batch number group after worktree isolation assistant model permission base \
         base_commit tip created run branch_state ahead behind landed_as upstream dirty operation locked tests ports url \
         direct_url serving databases env_files logs overlap zombie disk findings",
    );
    has(
        &agent["run"],
        "state attempt attempts_left pid started ended exit_code reason question resume_at denied session last_output \
         cost_usd tokens limits",
    );
    has(&agent["run"]["limits"], "time_s stall_s cost_usd");
    has(&agent["dirty"], "modified untracked conflicted");
    has(&agent["tests"], "state verdict newly_failing tree");
    has(&agent["logs"], "transcript raw setup test app");
    has(&status["checkouts"][0], "worktree branch dirty overlap");
    has(&status["unmanaged"][0], "worktree branch");
    has(&status["batches"][0], "batch started list settled cost_usd cost_unknown");
    assert_eq!((agent["branch_state"].as_str(), agent["ahead"].as_u64()), (Some("ahead"), Some(1)));
    assert_eq!(agent["tip"], repo.tip(agent["branch"].as_str().unwrap()));
    let time = agent["created"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
    let report = repo.agents(&["report", "--json"]).ok().json();
    has(&report, "version batch base agents order merged land push");
    let agent = &report["agents"][0];
    has(
        agent,
        "name title verdict reasons claim commits files tests_added tests_removed tests_skipped tests flags url conflicts \
         cost_usd duration_s attempts commands",
    );
    has(&agent["conflicts"], "with_base with_agents");
    has(&agent["conflicts"]["with_agents"][0], "agent level paths unknown");
    has(&agent["commands"], "look take push drop");
    has(&agent["files"][0], "path added removed");
    has(&report["order"][0], "name conflicts_with_landed");
}

#[test]
fn porcelain_lines_are_stable_and_a_path_never_breaks_one() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["worktree", "add", "-q", "-b", "one", "../a b\nc"]);
    repo.agents(&["adopt", "one"]).ok();
    repo.agents(&["new", "-q", "two"]).ok();
    let out = repo.agents(&["status", "--porcelain"]).ok();
    let rows: Vec<Vec<&str>> = out.stdout.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!(rows.len(), 2, "{out}");
    assert!(rows.iter().all(|r| r.len() == 7), "{out}");
    let root = env.root().join("code");
    assert_eq!(rows[0][..6], ["one", "-", "fresh", "0", "0", "0"]);
    assert_eq!(rows[0][6], format!("\"{}/a b\\nc\"", root.display()));
    let out = repo.agents(&["status", "--porcelain", "-z"]).ok();
    let rows: Vec<&str> = out.stdout.split_terminator('\0').collect();
    assert_eq!(rows[0].split('\t').next_back().unwrap(), format!("{}/a b\nc", root.display()));
    assert_eq!(repo.agents(&["status", "--names", "-z"]).ok().stdout, "one\0two\0");
    assert_eq!(repo.agents(&["path", "one"]).ok().stdout, format!("{}/a b\nc\n", root.display()));
}

#[test]
fn a_newline_in_a_path_made_lines_of_its_own() {
    let env = Env::new();
    std::fs::create_dir(env.root().join("code/a\nerror: b")).unwrap();
    let repo = env.repo("a\nerror: b/x");
    repo.git(&["worktree", "add", "-q", "-b", "side", "../y"]);
    for args in [
        "init --dry-run",
        "init --yes",
        "hooks status",
        "hooks uninstall",
        "skills install --project --for claude,codex",
        "skills status --project --for claude,codex",
        "skills uninstall --project --for claude,codex",
        "manual --install man",
        "manual --uninstall man",
        "doctor",
        "run -f nothing",
        "adopt side",
        "rm --force side",
        "restore --list",
        "restore side",
        "clean",
        "status",
    ] {
        let out = repo.agents(&args.split(' ').collect::<Vec<_>>());
        let mut lines = out.stdout.lines().chain(out.stderr.lines());
        assert!(!lines.any(|l| l.starts_with("error: b")), "{args}: {out}");
        assert!(out.status < 2 || args == "run -f nothing", "{args}: {out}");
    }
}
