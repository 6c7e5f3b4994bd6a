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
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools");
    let bins = ["npm/node_modules/.bin", "nightly/node_modules/.bin", "aider/bin"].map(|d| target.join(d));
    let find = |name: &str| bins.iter().map(|b| b.join(name)).find(|p| p.exists());
    let tools: Vec<(Option<PathBuf>, &str)> = names.iter().map(|n| (find(n), *n)).collect();
    if let Some((_, name)) = tools.iter().find(|(t, _)| t.is_none()) {
        let what = format!("'{name}' is not in '{}': tests/run and tests/nightly install it", target.display());
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{what}");
        eprintln!("left out: {what}");
        return None;
    }
    // The sandbox of codex refuses a home in the directory for temporary files.
    let env = Env::with_home(Path::new(env!("CARGO_TARGET_TMPDIR")));
    for (tool, name) in tools {
        std::os::unix::fs::symlink(tool.unwrap(), env.root().join("bin").join(name)).unwrap();
    }
    for (path, text) in SET_UP {
        let path = env.home().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.replace("@MODEL@", url)).unwrap();
    }
    Some(env)
}

/// What each finds in its home: nothing but the model server is asked for anything.
const SET_UP: &[(&str, &str)] = &[
    (
        ".codex/config.toml",
        "model = 'test'\nmodel_provider = 'test'\n[analytics]\nenabled = false\n[model_providers.test]\nname = 'test'\n\
         base_url = '@MODEL@/v1'\nwire_api = 'responses'\nrequest_max_retries = 0\nstream_max_retries = 0\n",
    ),
    (
        ".gemini/settings.json",
        r#"{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},
            "telemetry":{"enabled":false},"general":{"disableAutoUpdate":true},"model":{"name":"gemini-2.5-flash"}}"#,
    ),
    (".gemini/.env", "GEMINI_API_KEY=test\nGOOGLE_GEMINI_BASE_URL=@MODEL@\n"),
    (
        ".qwen/settings.json",
        r#"{"security":{"auth":{"selectedType":"openai"}},"model":{"name":"test"},"privacy":{"usageStatisticsEnabled":false},
            "telemetry":{"enabled":false},"general":{"disableAutoUpdate":true}}"#,
    ),
    (".qwen/.env", "OPENAI_API_KEY=test\nOPENAI_BASE_URL=@MODEL@/v1\nOPENAI_MODEL=test\n"),
    (
        ".config/opencode/opencode.json",
        r#"{"autoupdate":false,"share":"disabled","model":"test/test","small_model":"test/test","provider":{"test":
            {"npm":"@ai-sdk/openai-compatible","name":"test","options":{"baseURL":"@MODEL@/v1","apiKey":"test"},
             "models":{"test":{"name":"Test","tool_call":true,"limit":{"context":100000,"output":8000}}}}}}"#,
    ),
    (
        ".claude/settings.json",
        r#"{"env":{"ANTHROPIC_BASE_URL":"@MODEL@","CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC":"1","DISABLE_AUTOUPDATER":"1"},
            "apiKeyHelper":"echo test"}"#,
    ),
    (
        ".aider.conf.yml",
        "model: openai/test\nweak-model: openai/test\nopenai-api-base: @MODEL@/v1\nopenai-api-key: test\nedit-format: whole\n\
         map-tokens: 0\nanalytics: false\nshow-model-warnings: false\n",
    ),
];

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
    // It is told in whole minutes, and held to the end of the last.
    assert!((7000..=7260).contains(&left), "{hold}");
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

/// An assistant that a person talks to, told to use a skill for two tasks.
fn told_to_use(env: &Env, repo: &Repo<'_>, call: &[&str], prompt: &str) -> crate::support::Out {
    // Where people have them: the shell of gemini hides this file.
    let settings = "[agents]\nassistant = scripted\n[user]\nname = A Tester\nemail = tester@example.org\n";
    std::fs::write(env.home().join(".gitconfig"), settings).unwrap();
    // A shell that codex starts for commands is one of a log-in, with a path of its own.
    let path = format!("PATH='{}'\n", env.path().to_str().unwrap());
    std::fs::write(env.home().join(".bash_profile"), path).unwrap();
    repo.agents(&["skills", "install", "--for", call[0]]).ok();
    let list = "1. WRITE: a.txt: a\n   COMMIT: a\n2. WRITE: b.txt: b\n   COMMIT: b\n";
    let mut command = env.command(call[0], repo.path());
    command.args(&call[1..]).arg(format!("{prompt}\nSKILL: parallel\nSAY: reported\n\n{list}"));
    let out = crate::support::env::run(command, b"").ok();
    let status = repo.agents(&["status", "--json"]).ok().json();
    let agents = status["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 2, "{out}");
    assert!(agents.iter().all(|a| a["run"]["state"] == "succeeded" && a["ahead"] == 1), "{status}");
    out
}

#[test]
fn codex_finds_the_skill_and_follows_it() {
    let model = Model::start();
    let Some(env) = machine(&["codex"], &model.url()) else { return };
    let repo = env.repo("x");
    let call = ["codex", "exec", "--json", "--dangerously-bypass-approvals-and-sandbox"];
    let out = told_to_use(&env, &repo, &call, "$parallel");
    // What it was shown is the report.
    assert!(out.stdout.contains("2 of 2 agents ready") && out.stdout.contains("reported"), "{out}");
}

#[test]
fn gemini_finds_the_skill_and_follows_it_and_so_does_its_command() {
    let model = Model::start();
    let Some(env) = machine(&["gemini"], &model.url()) else { return };
    let repo = env.repo("x");
    let call = ["gemini", "--approval-mode", "yolo", "--skip-trust", "-o", "stream-json", "-p"];
    let out = told_to_use(&env, &repo, &call, "Use the skill 'parallel' for this.");
    assert!(out.stdout.contains("2 of 2 agents ready") && out.stdout.contains("reported"), "{out}");
    // Typed as a command, all of it is in the prompt; gemini makes one line of the words behind it.
    let mut command = env.command("gemini", repo.path());
    command.args(&call[1..]).arg("/parallel SAY: found");
    let out = crate::support::env::run(command, b"").ok();
    assert!(out.stdout.contains(r#""content":"found""#), "{out}");
    let told = model.conversation("SAY: found").join("\n");
    assert!(told.contains("git agents run -d -f -") && told.contains("git agents wait --timeout"), "{told}");
}

/// Runs tasks with assistants that take their provider from the environment.
fn run_with(repo: &Repo<'_>, env: &Env, assistant: &str, url: &str, tasks: &[(&str, &str)]) -> crate::support::Out {
    repo.write("../tasks.md", agents::list(tasks));
    // With its retry: of two that start for the first time in a home, opencode lets one fail.
    let args = ["run", "-a", assistant, "-f", "../tasks.md"];
    let mut command = env.agents_command(repo.path(), &args);
    command.env("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1")).env("COPILOT_MODEL", "test");
    command.env("COPILOT_OFFLINE", "true").env("OPENCODE_DISABLE_MODELS_FETCH", "1");
    command.env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1").env("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1");
    command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    crate::support::env::run(command, b"")
}

/// Edits and commits, then goes on in its session; one that does nothing has not succeeded.
fn works(name: &str, resumes: bool) {
    let model = Model::start();
    let Some(env) = machine(&[name], &model.url()) else { return };
    let repo = env.repo("x");
    let out = run_with(&repo, &env, name, &model.url(), &[("a", COMMIT), ("idle", "SAY: I did it all")]);
    assert_eq!((repo.state("a").as_str(), repo.state("idle").as_str()), ("succeeded", "unchanged"), "{out}");
    let worktree = repo.worktree("a");
    assert_eq!(worktree.git(&["log", "-1", "--format=%s %an"]), "Hello A Tester");
    assert_eq!(repo.reported("a")["claim"], "hello says hello");
    let before = repo.status_of("a")["run"].clone();
    assert!(before["session"].is_string(), "{before}");
    if resumes {
        let message = "RUN: echo again >again && git add again && git commit -qm Again";
        let mut command = env.agents_command(repo.path(), &["send", "--wait", "a", message]);
        command.env("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", model.url())).env("COPILOT_MODEL", "test");
        command.env("COPILOT_OFFLINE", "true");
        crate::support::env::run(command, b"").ok();
        assert_eq!(worktree.git(&["log", "-1", "--format=%s"]), "Again");
        assert_eq!(repo.status_of("a")["run"]["session"], before["session"]);
        assert!(model.conversation("echo again").iter().any(|t| t.contains("Hello")), "one conversation");
    }
}

#[test]
#[ignore = "nightly"]
fn nightly_claude_works() {
    works("claude", true);
    let model = Model::start();
    let Some(env) = machine(&["claude"], &model.url()) else { return };
    let (repo, outside) = (env.repo("x"), env.home().join("outside"));
    let write = format!("CALL: Write {{\"file_path\":\"{}\",\"content\":\"x\"}}", outside.display());
    let tasks = [("refused", write.as_str()), ("asks", "SAY: NEEDS-INPUT: red or blue?")];
    run(&repo, "claude", &tasks, &["--cost", "1"]).code(1);
    let refused = repo.status_of("refused")["run"].clone();
    assert_eq!((&refused["state"], &refused["denied"]), (&"unchanged".into(), &1.into()), "{refused}");
    assert!(!outside.exists() && refused["cost_usd"].as_f64() > Some(0.0));
    assert_eq!(repo.status_of("asks")["run"]["question"], "red or blue?");
}

#[test]
#[ignore = "nightly"]
fn nightly_copilot_works() {
    works("copilot", true);
}

#[test]
#[ignore = "nightly"]
fn nightly_opencode_works() {
    works("opencode", true);
}

#[test]
#[ignore = "nightly"]
fn nightly_qwen_works() {
    works("qwen", true);
}

#[test]
#[ignore = "nightly"]
fn nightly_aider_edits_and_commits_by_itself() {
    let model = Model::start();
    let Some(env) = machine(&["aider"], &model.url()) else { return };
    let repo = env.repo("x");
    let out =
        run_with(&repo, &env, "aider", &model.url(), &[("a", "FILE: hello: hello"), ("idle", "SAY: I did it all")]);
    assert_eq!((repo.state("a").as_str(), repo.state("idle").as_str()), ("succeeded", "unchanged"), "{out}");
    assert_eq!(repo.worktree("a").git(&["show", "HEAD:hello"]), "hello");
    assert!(!repo.worktree("a").git(&["ls-files"]).contains(".aider"), "what it leaves behind is not work");
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
fn a_session_that_is_gone_is_not_resumed_for_ever() {
    let env = Env::new();
    let repo = env.repo("x");
    let script = r#"#!/bin/sh
case "$*" in
*help*) echo '--json --skip-git-repo-check -c --dangerously-bypass-approvals-and-sandbox --model' ;;
*resume*) echo 'Error: no rollout found for thread id'; exit 1 ;;
*) cat >../seen
   echo '{"type":"thread.started","thread_id":"new"}'
   mktemp file.XXXXXX
   echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}' ;;
esac
"#;
    env.script("codex", script);
    std::fs::create_dir(env.home().join(".codex")).unwrap();
    std::fs::write(env.home().join(".codex/auth.json"), "{}").unwrap();
    repo.agents(&["run", "-a", "codex", "Do the thing"]).ok();
    assert_eq!(repo.status_of("do-the-thing")["run"]["session"], "new");
    repo.write("../x.agents/seen", "");
    let out = repo.agents(&["send", "--wait", "do-the-thing", "and the other"]).ok();
    assert!(out.stderr.contains("tries again: codex exited with 1: Error: no rollout found"), "{out}");
    let seen = repo.read("../x.agents/seen");
    assert!(seen.contains("Do the thing"), "a new session has to be told all: {seen}");
    assert!(seen.contains("and the other"), "and what was sent is not lost: {seen}");
}

#[test]
fn a_help_is_read_once_for_each_file() {
    let env = Env::new();
    let repo = env.repo("x");
    let flags = "-p --output-format --skip-trust -o --approval-mode --allowed-tools --model --session-id --resume";
    let count = env.root().join("count");
    let text = |more: &str| format!("#!/bin/sh\necho x >>{}\necho '{flags} {more}'\n", count.display());
    let asked = || std::fs::read_to_string(&count).unwrap().lines().count();
    env.script("gemini", &text(""));
    repo.agents(&["run", "-a", "gemini", "--dry-run", "do it"]).code(128);
    repo.write(".env", "GEMINI_API_KEY=it looks here too\n");
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
