//! Real codex and gemini against a model server on loopback, and what is said of an assistant that cannot work.
//!
//! They come from `target/tools`, where `tests/run` installs them. Without them their tests fail in CI (`CI=true`), and
//! are left out elsewhere, which is said.

use crate::support::env::Env;
use crate::support::model::Model;
use crate::support::{Repo, agents};
use std::path::{Path, PathBuf};

/// A machine with these assistants, set up for the model; `None` where one is not installed.
fn machine(names: &[&str], url: &str) -> Option<Env> {
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/node_modules/.bin");
    let tools: Vec<(PathBuf, &&str)> = names.iter().map(|n| (bin.join(n), n)).collect();
    if let Some((missing, _)) = tools.iter().find(|(t, _)| !t.exists()) {
        let what = format!("'{}' is not there: tests/run installs it", missing.display());
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{what}");
        eprintln!("left out: {what}");
        return None;
    }
    // Its sandbox refuses a home in the directory for temporary files.
    let env = Env::with_home(Path::new(env!("CARGO_TARGET_TMPDIR")));
    for (tool, name) in tools {
        std::os::unix::fs::symlink(tool, env.root().join("bin").join(name)).unwrap();
    }
    let file = |path: &str, text: String| {
        let path = env.home().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    file(
        ".codex/config.toml",
        format!(
            "model = 'test'\nmodel_provider = 'test'\n[analytics]\nenabled = false\n[model_providers.test]\nname = 'test'\n\
             base_url = '{url}/v1'\nwire_api = 'responses'\nrequest_max_retries = 0\nstream_max_retries = 0\n"
        ),
    );
    file(
        ".gemini/settings.json",
        r#"{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},
            "telemetry":{"enabled":false},"general":{"disableAutoUpdate":true},"model":{"name":"gemini-2.5-flash"}}"#
            .to_owned(),
    );
    file(".gemini/.env", format!("GEMINI_API_KEY=test\nGOOGLE_GEMINI_BASE_URL={url}\n"));
    Some(env)
}

fn run(repo: &Repo<'_>, assistant: &str, tasks: &[(&str, &str)], args: &[&str]) -> crate::support::Out {
    repo.write("../tasks.md", agents::list(tasks));
    repo.agents(&[&["run", "-a", assistant, "-f", "../tasks.md"], args].concat())
}

const COMMIT: &str = "RUN: printf 'hello\\n' >hello && git add hello && git commit -qm Hello\nSAY: hello says hello";

#[test]
fn codex_and_gemini_do_the_same_task_side_by_side_and_commit() {
    let model = Model::start();
    let Some(env) = machine(&["codex", "gemini"], &model.url()) else { return };
    let repo = env.repo("x");
    run(&repo, "codex,gemini", &[("a", COMMIT)], &[]).ok();
    for name in ["a-codex", "a-gemini"] {
        let worktree = repo.worktree(name);
        assert_eq!(worktree.read("hello"), "hello\n");
        assert_eq!(worktree.git(&["log", "-1", "--format=%s %an <%ae>"]), "Hello A Tester <tester@example.org>");
        let status = repo.status_of(name);
        assert_eq!((&status["group"], &status["ahead"]), (&"a".into(), &1.into()), "{status}");
        assert!(status["run"]["tokens"].as_u64() > Some(0) && status["run"]["session"].is_string(), "{status}");
        assert_eq!(repo.reported(name)["claim"], "hello says hello");
    }
    // Rivals meet, and nobody is warned of it.
    assert_eq!(repo.agents(&["overlap", "--json"]).ok().json()["pairs"], serde_json::json!([]));
}

#[test]
fn codex_asks_is_answered_and_goes_on_in_its_session() {
    let model = Model::start();
    let Some(env) = machine(&["codex"], &model.url()) else { return };
    let repo = env.repo("x");
    run(&repo, "codex", &[("a", "SAY: NEEDS-INPUT: red or blue?")], &[]).code(1);
    let before = repo.status_of("a")["run"].clone();
    assert_eq!((&before["state"], &before["question"]), (&"needs-input".into(), &"red or blue?".into()), "{before}");
    repo.agents(&["send", "--wait", "a", "RUN: echo red >colour && git add . && git commit -qm Red"]).ok();
    let after = repo.status_of("a")["run"].clone();
    assert_eq!((&after["state"], &after["session"]), (&"succeeded".into(), &before["session"]), "{after}");
    assert!(model.conversation("echo red").iter().any(|t| t.contains("red or blue")), "one conversation");
    assert_eq!(after["tokens"], 330, "three answers of 110, the first of them told twice");
}

#[test]
fn codex_is_held_to_its_worktree_and_one_that_did_nothing_has_not_succeeded() {
    let model = Model::start();
    let Some(env) = machine(&["codex"], &model.url()) else { return };
    let repo = env.repo("x");
    // Beside the home, which the sandbox protects, and not in the directory for temporary files, which it does not.
    let outside = env.home().join("outside");
    let script =
        format!("RUN: echo x >{}; true\nRUN: echo in >in && git add in && git commit -qm In", outside.display());
    let out = run(&repo, "codex", &[("in", &script), ("idle", "SAY: I did it all"), ("refused", "STATUS: 401")], &[]);
    out.code(1);
    assert_eq!(repo.state("in"), "succeeded");
    assert_eq!(repo.worktree("in").git(&["log", "-1", "--format=%s"]), "In");
    assert!(!outside.exists());
    assert_eq!(repo.state("idle"), "unchanged");
    assert_eq!(repo.state("refused"), "failed");
    assert!(repo.reason("refused").contains("401 Unauthorized"), "{}", repo.reason("refused"));
}

#[test]
fn a_limit_of_codex_holds_it_until_the_time_it_told() {
    let model = Model::start();
    let Some(env) = machine(&["codex"], &model.url()) else { return };
    let repo = env.repo("x");
    run(&repo, "codex", &[("a", "STATUS: 429 7200")], &["-d"]).ok();
    let hold = env.until("it is held", || {
        let status = repo.agents(&["status", "--json"]).ok().json();
        status["holds"].get(0).cloned()
    });
    assert_eq!((&hold["assistant"], &hold["reason"]), (&"codex".into(), &"rate limit".into()));
    let until: jiff::Timestamp = hold["until"].as_str().unwrap().parse().unwrap();
    let left = until.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((7000..=7200).contains(&left), "{hold}");
    repo.agents(&["stop", "--all"]).ok();
    assert_eq!(repo.status_of("a")["run"]["attempt"], 0, "not counted");
}

#[test]
fn codex_without_network_stalls_though_it_prints_for_ever() {
    // A port that nobody listens on.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let Some(env) = machine(&["codex"], &format!("http://{closed}")) else { return };
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    run(&repo, "codex", &[("a", "SAY: never")], &["--stall", "2s", "--retries", "0"]).code(1);
    assert_eq!(repo.state("a"), "stalled");
    let log = repo.agents(&["logs", "a"]).ok().stdout;
    assert!(log.contains("Reconnecting"), "{log}");
    assert!(env.processes().is_empty(), "{:?}", env.processes());
}

#[test]
fn a_killed_codex_resumes_its_session() {
    let model = Model::start();
    let Some(env) = machine(&["codex"], &model.url()) else { return };
    let repo = env.repo("x");
    repo.set("agents.stopGrace", "1s");
    let script = "RUN: echo 1 >one; test -e ../go || sleep 1000\nRUN: echo 2 >two && git add . && git commit -qm Both";
    run(&repo, "codex", &[("a", script)], &["-d"]).ok();
    env.until("it works", || repo.worktree("a").join("one").exists());
    let session = repo.record("a", "state.json")["session"].clone();
    let supervisor = repo.pids("a").0;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(supervisor), nix::sys::signal::Signal::SIGKILL).unwrap();
    repo.becomes("a", "dead");
    repo.write("../x.agents/go", "");
    repo.agents(&["retry", "--interrupted"]).ok();
    repo.agents(&["wait", "a"]).ok();
    assert_eq!(repo.worktree("a").git(&["log", "-1", "--format=%s"]), "Both");
    let run = repo.status_of("a")["run"].clone();
    assert_eq!(run["session"], session, "{run}");
    assert!(model.conversation("Go on with the task").iter().any(|t| t.contains("echo 1 >one")));
}

#[test]
fn gemini_is_refused_asks_and_meets_its_limit() {
    let model = Model::start();
    let Some(env) = machine(&["gemini"], &model.url()) else { return };
    let repo = env.repo("x");
    let outside = env.home().join("outside");
    let write = format!("CALL: write_file {{\"file_path\":\"{}\",\"content\":\"x\"}}", outside.display());
    let tasks = [("refused", write.as_str()), ("asks", "SAY: NEEDS-INPUT: red or blue?"), ("error", "STATUS: 401")];
    run(&repo, "gemini", &tasks, &["--retries", "0"]).code(1);
    let refused = repo.status_of("refused")["run"].clone();
    assert_eq!((&refused["state"], &refused["denied"]), (&"unchanged".into(), &1.into()), "{refused}");
    assert!(!outside.exists());
    assert_eq!(repo.status_of("asks")["run"]["question"], "red or blue?");
    assert_eq!(repo.state("error"), "failed");
    assert!(repo.reason("error").contains("refused as asked"), "{}", repo.reason("error"));

    repo.agents(&["send", "--wait", "asks", "RUN: echo red >red && git add . && git commit -qm Red"]).ok();
    assert_eq!(repo.worktree("asks").read("red"), "red\n");
    run(&repo, "gemini", &[("limit", "STATUS: 429 60")], &["-d"]).ok();
    env.until("it is held", || repo.agents(&["status", "--json"]).ok().json()["holds"][0]["reason"] == "rate limit");
    repo.agents(&["stop", "--all"]).ok();
}

/// A program with this name, whose help is `help`, and which says `login` when it is asked for its log-in.
fn pretend(env: &Env, name: &str, help: &str, login: &str) {
    env.script(
        name,
        &format!(
            "#!/bin/sh\ncase \"$*\" in *help*) echo '{help}' ;; 'login status') {login} ;; *) echo started ;; esac\n"
        ),
    );
}

#[test]
fn an_assistant_that_cannot_work_is_refused_before_anything_starts() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.assistant", "codex");
    let refused = |what: &str, hint: &str| {
        let out = repo.agents(&["run", "do it"]).code(128);
        assert!(out.stderr.contains(what) && out.stderr.contains(hint), "{out}");
        assert!(out.stderr.contains("nothing was started"), "{out}");
        let found = repo.agents(&["doctor"]);
        assert!(found.stdout.contains(what), "{found}");
        assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "");
    };
    refused("the program 'codex' of assistant 'codex' is not there", "npm install -g @openai/codex");

    let flags = "--json --skip-git-repo-check -c --dangerously-bypass-approvals-and-sandbox";
    pretend(&env, "codex", flags, "echo Not logged in; exit 1");
    refused("'codex' does not know --model", "another version");

    let flags = format!("{flags} --model");
    pretend(&env, "codex", &flags, "echo Not logged in; exit 1");
    refused("'codex' is not logged in", "codex login");

    // A version that does not know the question, and one that is logged in.
    for login in ["echo error: unknown command; exit 1", "echo Logged in"] {
        pretend(&env, "codex", &flags, login);
        repo.agents(&["run", "--dry-run", "do it"]).ok();
    }
    // Or a sign of it.
    pretend(&env, "codex", &flags, "echo Not logged in; exit 1");
    let mut command = env.agents_command(repo.path(), &["run", "--dry-run", "do it"]);
    command.env("OPENAI_API_KEY", "x");
    crate::support::env::run(command, b"").ok();
    // Which must be one that it is given.
    repo.git(&["config", "--global", "agents.envAllow", "OTHER"]);
    let mut command = env.agents_command(repo.path(), &["run", "--dry-run", "do it"]);
    command.env("OPENAI_API_KEY", "x");
    crate::support::env::run(command, b"").code(128);
}

#[test]
fn a_help_is_read_once_for_each_file() {
    let env = Env::new();
    let repo = env.repo("x");
    let flags = "-p --output-format --skip-trust -o --approval-mode --allowed-tools --model --session-id --resume";
    let count = env.root().join("count");
    let text = |more: &str| format!("#!/bin/sh\necho x >>{}\necho '{flags} {more}'\n", count.display());
    let asked = || std::fs::read_to_string(&count).unwrap().lines().count();
    std::fs::create_dir(env.home().join(".gemini")).unwrap();
    std::fs::write(env.home().join(".gemini/.env"), "").unwrap();
    env.script("gemini", &text(""));
    for _ in 0..2 {
        repo.agents(&["run", "-a", "gemini*2", "--dry-run", "do it", "do that"]).ok();
    }
    assert_eq!(asked(), 1);
    env.script("gemini", &text("more"));
    repo.agents(&["run", "-a", "gemini", "--dry-run", "do it"]).ok();
    assert_eq!(asked(), 2);
}

#[test]
fn several_assistants_by_default_make_a_group_each() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("agents.assistant", "scripted*2");
    repo.agents(&["run", "Write it\nWRITE: a: a\nCOMMIT: A"]).ok();
    let status = repo.agents(&["status", "--json"]).ok().json();
    let agents = status["agents"].as_array().unwrap();
    let seen: Vec<_> = agents.iter().map(|a| (a["name"].as_str().unwrap(), a["group"].as_str().unwrap())).collect();
    assert_eq!(seen, [("write-it-1", "write-it"), ("write-it-2", "write-it")]);
    assert!(agents.iter().all(|a| a["assistant"] == "scripted"));
    assert_eq!(repo.agents(&["overlap", "--json"]).ok().json()["pairs"], serde_json::json!([]));
}
