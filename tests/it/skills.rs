//! The skills, the command files and the hooks that assistants are given, and that they go without a trace.

use crate::support::tree::tree_state;
use crate::support::{Env, Out, Repo, env};
use serde_json::{Value, json};
use std::path::Path;

/// The call with a home of its own, in which no assistant was ever used.
fn skills(repo: &Repo, args: &[&str]) -> Out {
    repo.agents(&[&["skills"], args].concat())
}

fn with(env: &Env, repo: &Repo, key: &str, value: &str) -> Out {
    let mut command = env.command(env!("CARGO_BIN_EXE_git-agents"), repo.path());
    command.args(["skills", "install"]);
    command.env(key, value);
    env::run(command, b"")
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn what_a_kill_left_in_the_middle_of_a_write_goes_with_the_next() {
    let env = Env::new();
    let repo = env.repo("x");
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    let left = format!(".tmp-{}-1-ab", gone.id());
    gone.wait().unwrap();
    let before = tree_state(env.home());
    skills(&repo, &["install", "--for", "claude"]).ok();
    write(&env.home().join(".claude/skills/parallel").join(&left), "half");
    skills(&repo, &["uninstall", "--for", "claude"]).ok();
    assert_eq!(tree_state(env.home()), before);

    repo.run(&[("a", "WRITE: f: x")], &[]).ok();
    let page = env.root().join("out");
    write(&page.join(&left), "half");
    repo.agents(&["report", "-o", &format!("{}/n.html", page.display())]).ok();
    assert!(page.join("n.html").exists() && !page.join(&left).exists());
    // The name that is said is the one that was asked for.
    let out = repo.agents(&["report", "-o", &format!("{}/no/n.html", page.display())]).code(128);
    assert!(out.stderr.contains("could not write") && out.stderr.contains("/no/n.html'"), "{out}");
}

#[test]
fn what_was_installed_goes_again_and_the_home_is_as_it_was() {
    let env = Env::new();
    let repo = env.repo("x");
    let home = env.home();
    let settings = "{\n\t\"model\": \"x\",\n\t\"hooks\": { \"Stop\": [{\"hooks\": []}] }\n}";
    write(&home.join(".claude/settings.json"), settings);
    write(&home.join(".agents/skills/mine/SKILL.md"), "mine");
    std::fs::create_dir_all(home.join(".gemini")).unwrap();
    let before = tree_state(home);
    let out = skills(&repo, &["install", "--worktree-hook", "--for", "claude,codex,gemini,opencode,amp"]).ok();
    assert!(out.stderr.contains("undo: git agents skills uninstall --for claude"), "{out}");
    for path in [
        ".agents/skills/parallel/SKILL.md",
        ".claude/skills/worktree/SKILL.md",
        ".config/agents/skills/parallel/SKILL.md",
        ".gemini/commands/parallel.toml",
        ".config/opencode/commands/worktree.md",
    ] {
        assert!(read(&home.join(path)).contains("git agents"), "{path}");
    }
    let now: Value = serde_json::from_str(&read(&home.join(".claude/settings.json"))).unwrap();
    assert_eq!(now["model"], "x");
    assert_eq!(now["hooks"]["Stop"][0]["hooks"], json!([]));
    let command = |event: &str| now["hooks"][event][0]["hooks"][0]["command"].as_str().unwrap_or_default().to_owned();
    assert!(command("PreToolUse").contains("git-agents check --hook claude"));
    assert!(command("WorktreeCreate").contains("git-agents new --hook claude"));

    let after = tree_state(home);
    let again = skills(&repo, &["install", "--worktree-hook", "--for", "claude,codex,gemini,opencode,amp"]).ok();
    assert!(again.stderr.contains("all is as it should be") && !again.stderr.contains("undo:"), "{again}");
    assert_eq!(tree_state(home), after);
    skills(&repo, &["status", "--for", "claude,codex,gemini,opencode,amp"]).ok();

    skills(&repo, &["uninstall"]).ok();
    assert_eq!(tree_state(home), before);
    assert!(skills(&repo, &["uninstall"]).ok().stderr.contains("all is as it should be"));
}

#[test]
fn settings_that_were_made_for_the_hook_go_with_it() {
    let env = Env::new();
    let repo = env.repo("x");
    let before = tree_state(env.home());
    skills(&repo, &["install", "--for", "claude"]).ok();
    assert!(env.home().join(".claude/settings.json").exists());
    skills(&repo, &["uninstall", "--for", "claude"]).ok();
    assert_eq!(tree_state(env.home()), before);
}

#[test]
fn what_somebody_wrote_is_left_alone_and_said() {
    let env = Env::new();
    let repo = env.repo("x");
    let theirs = env.home().join(".agents/skills/worktree/SKILL.md");
    write(&theirs, "---\nname: worktree\n---\ntheirs\n");
    let out = skills(&repo, &["install", "--for", "codex"]).code(1);
    assert!(out.stderr.contains("was left alone: it is not ours"), "{out}");
    assert!(read(&theirs).contains("theirs"));
    // Changed by a person: kept by uninstall as well.
    let ours = env.home().join(".agents/skills/parallel/SKILL.md");
    let changed = read(&ours) + "and always in Latin\n";
    write(&ours, &changed);
    let out = skills(&repo, &["uninstall", "--for", "codex", "--force", "--dry-run"]).ok();
    assert!(out.stderr.contains("would be deleted"), "{out}");
    let out = skills(&repo, &["uninstall"]).code(1);
    assert!(out.stderr.contains("was left alone: you changed it"), "{out}");
    assert_eq!(read(&ours), changed);
    let out = skills(&repo, &["install", "--for", "codex", "--force"]).ok();
    assert!(out.stderr.contains("SKILL.md.orig"), "{out}");
    assert_eq!(read(&env.home().join(".agents/skills/parallel/SKILL.md.orig")), changed);
    assert!(read(&env.home().join(".agents/skills/worktree/SKILL.md.orig")).contains("theirs"));
}

#[test]
fn what_others_read_too_stays_for_them() {
    let env = Env::new();
    let repo = env.repo("x");
    skills(&repo, &["install", "--for", "codex,gemini"]).ok();
    let out = skills(&repo, &["uninstall", "--for", "gemini"]).code(1);
    assert!(out.stderr.contains("others read it too"), "{out}");
    assert!(!env.home().join(".gemini").exists());
    assert!(env.home().join(".agents/skills/parallel/SKILL.md").exists());
}

#[test]
fn settings_that_are_no_json_are_not_touched() {
    let env = Env::new();
    let repo = env.repo("x");
    let path = env.home().join(".claude/settings.json");
    write(&path, "{ // mine\n}\n");
    let out = skills(&repo, &["install", "--for", "claude"]).code(128);
    assert!(
        out.stderr.contains("cannot be changed: it is not JSON") && out.stderr.contains("hooks.PreToolUse"),
        "{out}"
    );
    assert_eq!(read(&path), "{ // mine\n}\n");
    assert!(env.home().join(".claude/skills/parallel/SKILL.md").exists());
    skills(&repo, &["install", "--for", "claude", "--no-hook"]).ok();
}

#[test]
fn a_project_commits_them_and_a_link_in_it_leads_nowhere() {
    let env = Env::new();
    let repo = env.repo("x");
    skills(&repo, &["install", "--project"]).ok();
    let status = repo.git(&["status", "--porcelain", "-uall"]);
    for path in [".agents/skills/parallel/SKILL.md", ".claude/settings.json", ".gemini/commands/worktree.toml"] {
        assert!(status.contains(path), "{status}");
    }
    skills(&repo, &["uninstall", "--project"]).ok();
    assert_eq!(repo.git(&["status", "--porcelain", "-uall"]), "");
    assert!(!repo.path().join(".agents").exists() && !repo.path().join(".claude").exists());

    let outside = env.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, repo.path().join(".claude")).unwrap();
    let out = skills(&repo, &["install", "--project"]).code(128);
    assert!(out.stderr.contains("is a symbolic link"), "{out}");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn names_that_mean_nothing_and_an_empty_home_are_told() {
    let env = Env::new();
    let repo = env.repo("x");
    let out = skills(&repo, &["install", "--for", "claud"]).code(128);
    assert!(out.stderr.contains("'claud' is no assistant that reads skills"), "{out}");
    let out = skills(&repo, &["install", "--for", "aider"]).code(128);
    assert!(out.stderr.contains("'aider' reads no skills"), "{out}");
    let out = with(&env, &repo, "PATH", "/nowhere").code(128);
    assert!(out.stderr.contains("no assistant that reads skills was found here"), "{out}");
    let out = with(&env, &repo, "AGENTS_NAME", "a").code(128);
    assert!(out.stderr.contains("inside an agent"), "{out}");
    let out = skills(&repo, &["install", "--for", "copilot"]).ok();
    assert!(out.stderr.contains("copilot has a '/worktree' of its own"), "{out}");
}

#[test]
fn claude_gets_an_agent_where_it_asked_for_a_worktree() {
    let env = Env::new();
    let repo = env.repo("x");
    let ask = |payload: Value| {
        let out = repo.agents_input(&["new", "--hook", "claude"], payload.to_string()).ok();
        out.stdout.lines().last().unwrap_or_default().to_owned()
    };
    let cwd = repo.path().to_str().unwrap().to_owned();
    let path = ask(json!({"session_id": "s", "cwd": cwd, "hook_event_name": "WorktreeCreate", "name": "wt-hooked"}));
    assert!(Path::new(&path).join(".git").exists(), "{path}");
    assert_eq!(repo.agents(&["path", "wt-hooked"]).ok().stdout.trim(), path);
    // Asked again, it is the same one; older payloads name it otherwise, or not at all.
    assert_eq!(ask(json!({"cwd": cwd, "name": "wt-hooked"})), path);
    ask(json!({"cwd": cwd, "worktree_name": "b"}));
    ask(json!({"cwd": cwd, "worktree_path": "/somewhere/.claude/worktrees/c"}));
    ask(json!({"cwd": cwd}));
    ask(json!({"cwd": cwd, "name": "Fix the login!"}));
    let names: Vec<String> = repo.agents(&["status", "--json"]).ok().json()["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 5, "{names:?}");
    for name in ["b", "c", "fix-the-login"] {
        assert!(names.iter().any(|n| n == name), "{names:?}");
    }
    // Where none can be made, no path is answered.
    let out = repo.agents_input(&["new", "--hook", "claude"], json!({"cwd": "/", "name": "d"}).to_string());
    assert_eq!(out.code(128).stdout, "");
}
