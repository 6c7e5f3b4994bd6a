//! Setting a project up: one page, one question, nothing overwritten, nothing of the project run.

use crate::support::{Env, Repo, terminal, tree_state};

/// A project of npm with a versioned manifest, ignored files and a compose file.
fn shop(env: &Env) -> Repo<'_> {
    let repo = env.repo("shop");
    repo.write(".gitignore", ".env\nnode_modules\n");
    repo.write("package.json", "{\"scripts\": {\"test\": \"vitest\"}}");
    repo.write("package-lock.json", "{}");
    repo.write("compose.yaml", "services:\n  db:\n    ports:\n      - 5432:5432\n");
    repo.commit("a shop");
    repo.write(".env", "PORT=1\n");
    repo
}

#[test]
fn what_was_confirmed_is_written_approved_and_not_done_twice() {
    let env = Env::new();
    let repo = shop(&env);
    // Nothing of the project is asked what it is.
    env.script("npm", "#!/bin/sh\ntouch \"$HOME/ran\"\n");
    let before = tree_state(repo.path());
    let asked = repo.agents(&["init"]).code(128);
    assert!(asked.stdout.contains("run = [\"npm ci\"]") && asked.stderr.contains("init --yes"), "{asked}");
    assert_eq!(repo.agents(&["init", "--dry-run"]).ok().stdout, asked.stdout);
    assert_eq!(tree_state(repo.path()), before, "looking wrote something");
    assert!(asked.stdout.lines().count() <= 24, "not one page: {asked}");
    assert!(asked.stdout.contains("compose.yaml") && asked.stdout.contains("post-merge"), "{asked}");

    let done = repo.agents(&["init", "--yes"]).ok();
    assert!(done.stderr.contains("approved") && !done.stderr.contains("hint: 'git agents trust'"), "{done}");
    let text = repo.read(".git-agents.toml");
    for line in ["copy = [\".env\"]", "run = [\"npm ci\"]", "command = \"npm test\""] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!env.home().join("ran").exists());
    repo.agents(&["trust", "--show"]).ok();
    assert!(repo.join(".git/hooks/post-merge").exists());

    let after = tree_state(repo.path());
    let again = repo.agents(&["init"]).ok();
    assert!(again.stderr.contains("nothing to do"), "{again}");
    assert_eq!(tree_state(repo.path()), after, "a second time changed something");
    // And it is what a new worktree is made with.
    let place = repo.agent("feature");
    assert_eq!(place.read(".env"), "PORT=1\n");
    assert!(env.home().join("ran").exists());
}

#[test]
fn a_file_that_is_there_stays_and_what_it_could_say_is_said() {
    let env = Env::new();
    let repo = shop(&env);
    let own = "# mine\n[test]\ncommand = 'make check'\n";
    repo.write(".git-agents.toml", own);
    let out = repo.agents(&["init", "--yes", "--no-hooks"]).ok();
    assert!(out.stdout.contains("stays as it is") && out.stdout.contains("run = [\"npm ci\"]"), "{out}");
    assert!(!out.stdout.contains("npm test"), "it says how to test: {out}");
    assert!(out.stderr.contains("git agents trust"), "nobody confirmed what it runs: {out}");
    assert_eq!(repo.read(".git-agents.toml"), own);
    assert!(!repo.join(".git/hooks/post-merge").exists());
    repo.agents(&["trust", "--show"]).code(1);
    // A file with mistakes is named, not replaced.
    repo.write(".git-agents.toml", "[tset]\n");
    let out = repo.agents(&["init", "--yes"]).code(128);
    assert!(out.stderr.contains("tset"), "{out}");
    assert_eq!(repo.read(".git-agents.toml"), "[tset]\n");
}

#[test]
fn the_local_file_lies_over_the_versioned_one_and_approves_nothing_that_was_not_shown() {
    let env = Env::new();
    let repo = shop(&env);
    repo.write(".git-agents.toml", "[setup]\nrun = ['echo theirs']\n");
    repo.commit("theirs");
    let out = repo.agents(&["init", "--yes", "--local", "--no-hooks"]).ok();
    assert!(!out.stdout.contains("npm ci") && out.stdout.contains("npm test"), "{out}");
    let overlay = repo.read(".git/agents/config.toml");
    assert!(overlay.contains("npm test") && !overlay.contains("[setup]"), "{overlay}");
    assert_eq!(repo.git(&["status", "--short"]), "");
    assert!(out.stderr.contains("git agents trust"), "{out}");
    repo.agents(&["trust", "--show"]).code(1);
}

#[test]
fn a_person_who_says_no_gets_nothing() {
    let env = Env::new();
    let repo = shop(&env);
    let before = tree_state(repo.path());
    // The terminal's input is at its end: no answer is no.
    let out = terminal::agents(&env, repo.path(), &["init"], &[]);
    assert!(out.status == 1 && out.stdout.contains("do all of this? [y/N]"), "{out}");
    assert_eq!(tree_state(repo.path()), before);
}

#[test]
fn hostile_files_are_not_followed_and_an_agent_does_not_set_up() {
    let env = Env::new();
    let repo = env.repo("x");
    std::os::unix::fs::symlink("/dev/zero", repo.join("package.json")).unwrap();
    nix::unistd::mkfifo(&repo.join("pyproject.toml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    repo.write("Gemfile", vec![b'x'; 4 << 20]);
    repo.write("Cargo.toml", "\u{1b}[31m");
    let out = repo.agents(&["init", "--dry-run"]).ok();
    assert!(out.stdout.contains("npm, cargo, bundler") && !out.stdout.contains('\u{1b}'), "{out}");
    std::os::unix::fs::symlink("/etc/passwd", repo.join(".git-agents.toml")).unwrap();
    assert!(repo.agents(&["init", "--yes"]).code(128).stderr.contains("regular file"));
    let mut inside = env.agents_command(repo.path(), &["init", "--yes"]);
    inside.env("AGENTS_NAME", "x");
    crate::support::env::run(inside, b"").code(128);
    let bare = env.root().join("bare.git");
    repo.git(&["init", "-q", "--bare", bare.to_str().unwrap()]);
    assert!(repo.agents_in(&bare, &["init"]).code(128).stderr.contains("bare repository"));
}

#[test]
fn a_hook_manager_keeps_its_hooks_and_the_notes_are_shown_when_asked_for() {
    let env = Env::new();
    let repo = shop(&env);
    repo.write(".husky/pre-commit", "true\n");
    repo.git(&["config", "core.hooksPath", ".husky/_"]);
    let out = repo.agents(&["init", "--yes", "--notes"]).ok();
    assert!(out.stdout.contains("husky keeps the hooks") && out.stdout.contains("noticed"), "{out}");
    assert!(!repo.join(".husky/_").exists());
    assert_eq!(repo.git(&["config", "notes.displayRef"]), "refs/notes/agents");
    repo.agents(&["init", "--yes", "--notes"]).ok();
    assert_eq!(repo.git(&["config", "--get-all", "notes.displayRef"]), "refs/notes/agents");
}

#[test]
fn the_assistants_in_use_here_get_their_skills_and_none_without_being_asked() {
    let env = Env::new();
    let repo = shop(&env);
    std::fs::create_dir(env.home().join(".claude")).unwrap();
    env.script("claude", "#!/bin/sh\n");
    repo.agents(&["init", "--dry-run"]).ok();
    repo.agents(&["init", "--yes", "--no-skills", "--no-hooks"]).ok();
    assert_eq!(std::fs::read_dir(env.home().join(".claude")).unwrap().count(), 0);
    let out = repo.agents(&["init", "--yes"]).ok();
    assert!(out.stdout.contains("skills") && out.stdout.contains(".claude/skills"), "{out}");
    repo.agents(&["skills", "status"]).ok();
    assert!(repo.agents(&["init"]).ok().stderr.contains("nothing to do"));
}
