//! Where and with what git it is called: what cannot work is refused in git's words, and nothing is changed.

use crate::support::{Env, Out, Repo, assert_same_tree, env::run, tree_state};

/// Commands that need a repository, each in a form that would do something.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["new", "feature"],
    &["run", "-a", "scripted", "WRITE: a.txt: a"],
    &["run", "--dry-run", "-a", "scripted", "WRITE: a.txt: a"],
    &["adopt", "theirs"],
    &["status"],
    &["show", "x"],
    &["logs"],
    &["attach", "x"],
    &["send", "x", "hello"],
    &["wait"],
    &["stop", "--all"],
    &["retry", "--failed"],
    &["path", "x"],
    &["exec", "x", "--", "true"],
    &["report"],
    &["rm", "x"],
    &["restore", "--last"],
    &["trust"],
    &["undo"],
];

#[test]
fn outside_a_repository_every_command_says_what_git_says() {
    let env = Env::new();
    let outside = env.home().join("empty");
    std::fs::create_dir(&outside).unwrap();
    for args in COMMANDS {
        let out = run(env.agents_command(&outside, args), b"").code(128);
        assert!(out.stdout.is_empty() && out.stderr.starts_with("error: not a git repository"), "{out}");
    }
    assert!(tree_state(&outside).is_empty());
    // What needs none works.
    for args in [&["-h"][..], &["shell-init", "bash"], &["--json-schema", "status"], &["--version"]] {
        run(env.agents_command(&outside, args), b"").ok();
    }
}

#[test]
fn a_repository_that_git_calls_unsafe_is_refused_and_left_alone() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["branch", "theirs"]);
    let before = tree_state(&repo.join(".git"));
    for args in COMMANDS {
        let mut command = env.agents_command(repo.path(), args);
        command.env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
        let out = run(command, b"").code(128);
        assert!(out.stdout.is_empty() && out.stderr.contains("detected dubious ownership"), "{out}");
        assert!(out.stderr.contains("safe.directory"), "git's own advice is left out: {out}");
    }
    assert_same_tree(&before, &tree_state(&repo.join(".git")));
}

#[test]
fn without_a_commit_there_is_nothing_to_start_from() {
    let env = Env::new();
    let path = env.root().join("code/unborn");
    std::fs::create_dir(&path).unwrap();
    let repo = Repo::at(&env, &path);
    repo.git(&["init", "-q"]);
    for args in [
        &["new", "feature"][..],
        &["run", "-a", "scripted", "WRITE: a: a"],
        &["run", "--dry-run", "-a", "scripted", "x"],
    ] {
        let out = repo.agents(args).code(128);
        assert!(out.stderr.contains("no commit yet"), "{out}");
    }
    assert_eq!(repo.agents(&["status"]).ok().stdout, "no agents\n");
    assert!(!repo.join(".git/agents/run").exists() && repo.git(&["for-each-ref"]).is_empty());
    assert!(!env.root().join("code/unborn.agents").exists());
}

#[test]
fn a_directory_that_is_gone_is_said() {
    let env = Env::new();
    let repo = env.repo("x");
    let gone = env.root().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let mut sh = env.command("sh", &gone);
    sh.args(["-c", "rmdir ../gone; exec \"$0\" status", env!("CARGO_BIN_EXE_git-agents")]);
    let out = run(sh, b"").code(128);
    assert!(out.stdout.is_empty() && out.stderr.contains("does not exist any more"), "{out}");
    for dir in ["/no/such/place", "README.md"] {
        let out = repo.agents(&["-C", dir, "status"]).code(128);
        assert!(out.stderr.contains("cannot change to '") && out.stderr.contains(dir), "{out}");
    }
}

/// A machine whose `git` is something else; our program is called by its path.
fn with_git(env: &Env, script: Option<&str>, args: &[&str]) -> Out {
    let bin = env.root().join("other-git");
    std::fs::create_dir_all(&bin).unwrap();
    if let Some(text) = script {
        env.script_at(&bin.join("git"), text);
    }
    let mut command = env.command(env!("CARGO_BIN_EXE_git-agents"), &env.root().join("code/x"));
    command.args(args).env("PATH", &bin);
    run(command, b"")
}

#[test]
fn an_older_git_is_refused_with_the_least_version_and_the_reason() {
    let env = Env::new();
    let repo = env.repo("x");
    let before = tree_state(&repo.join(".git"));
    for version in ["2.30.2", "2.38.5", "1.9.1.windows.1"] {
        let script = format!("#!/bin/sh\necho git version {version}\n");
        let out = with_git(&env, Some(&script), &["run", "-a", "scripted", "WRITE: a: a"]).code(128);
        assert!(out.stderr.contains(&format!("git {version} is too old; 2.39 or later is needed")), "{out}");
        assert!(out.stderr.contains("merge-tree"), "no reason: {out}");
    }
    assert_same_tree(&before, &tree_state(&repo.join(".git")));
}

#[test]
fn a_missing_git_is_named() {
    let env = Env::new();
    env.repo("x");
    let out = with_git(&env, None, &["status"]).code(128);
    assert!(out.stderr.starts_with("error: could not run git\n") && out.stderr.contains("hint: install git"), "{out}");
}

#[test]
fn inside_an_agent_no_more_of_its_kind_are_started() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["branch", "theirs"]);
    let inside = |args: &[&str]| {
        let mut command = env.agents_command(repo.path(), args);
        command.env("AGENTS_NAME", "me");
        run(command, b"")
    };
    for args in [&["new", "feature"][..], &["run", "-a", "scripted", "WRITE: a: a"], &["adopt", "theirs"]] {
        let out = inside(args).code(128);
        assert!(out.stderr.contains("inside an agent") && out.stderr.contains("--nested"), "{out}");
    }
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "");
    inside(&["status"]).ok();
    inside(&["new", "feature", "--nested"]).ok();
    // A real one is told so as well.
    let task = "RUN: git agents new other && exit 9 || true\nWRITE: a.txt: a";
    repo.agents(&["run", "-q", "-a", "scripted", task]).ok();
    assert!(!repo.has("other"));
}

#[test]
fn a_command_started_by_a_hook_means_the_directory_it_is_in() {
    let env = Env::new();
    let (repo, other) = (env.repo("x"), env.repo("other"));
    other.agents(&["new", "-q", "there"]).ok();
    repo.agents(&["new", "-q", "here"]).ok();
    let hook = repo.join(".git/hooks/post-commit");
    env.script_at(&hook, "#!/bin/sh\ngit agents status --names >\"$HOME/seen\" 2>&1\n");
    repo.commit("something");
    assert_eq!(std::fs::read_to_string(env.home().join("seen")).unwrap(), "here\n");
    // A hook's variables do not reach into what it starts somewhere else.
    env.script_at(&hook, "#!/bin/sh\ngit agents run -q -a scripted 'WRITE: a.txt: a' >\"$HOME/seen\" 2>&1\n");
    repo.commit("something else");
    let seen = std::fs::read_to_string(env.home().join("seen")).unwrap();
    assert!(seen.contains("1 of 1 agent ready"), "{seen}");
    crate::support::invariants::usable(&repo);
}

#[test]
fn it_works_from_a_subdirectory_a_worktree_and_the_git_directory_alike() {
    let env = Env::new();
    let repo = env.repo("a b");
    repo.agents(&["new", "-q", "feature"]).ok();
    let place = env.root().join("code/a b.agents/feature");
    let names = |dir: &std::path::Path| repo.agents_in(dir, &["status", "--names"]).ok().stdout;
    for dir in [repo.path().to_owned(), repo.join("src"), repo.join(".git"), place.clone(), place.join("src")] {
        assert_eq!(names(&dir), "feature\n", "{}", dir.display());
    }
    // The new one stands beside the main checkout, wherever it was asked for.
    let out = repo.agents_in(&place.join("src"), &["new", "another"]).ok();
    assert_eq!(out.stdout, format!("{}\n", env.root().join("code/a b.agents/another").display()));
}
