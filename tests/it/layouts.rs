//! Repositories of every form and in every place: bare, submodules, other formats, odd paths, other people's tools.

use crate::create::{place, refused_without_a_trace};
use crate::support::{Before, Env, Repo, assert_same_tree, repo_invariants, tree_state};
use std::path::Path;

/// Everything that can happen to an environment, in a repository of any form.
pub fn whole_life(repo: &Repo<'_>) {
    let before = Before::of(repo);
    let at = repo.agent("feat/life");
    assert_eq!((at.git(&["status", "--porcelain"]), at.tip("HEAD")), (String::new(), repo.tip("main")));
    at.write("made.txt", "made\n");
    let tip = at.commit("Made");
    at.write("src/a.txt", "staged\n");
    at.git(&["add", "src/a.txt"]);
    at.write("src/a.txt", "and edited\n");
    at.write("left.txt", "left\n");
    at.write("ignored/cache", "ignored\n");
    at.git(&["update-ref", "refs/worktree/mine", "HEAD~1"]);
    let a = repo.status()["agents"][0].clone();
    assert_eq!((&a["branch_state"], &a["ahead"], &a["tip"]), (&"ahead".into(), &1.into(), &tip.clone().into()), "{a}");
    assert_eq!(a["dirty"], serde_json::json!({"modified": 1, "untracked": 1, "conflicted": 0}));
    let (tree, said) = (tree_state(at.path()), at.git(&["status", "--porcelain=v2", "--ignored"]));
    let out = repo.agents(&["rm", "feat/life"]).ok();
    assert!(out.stderr.contains("its branch stays"), "{out}");
    repo.agents(&["restore", "feat/life"]).ok();
    repo.agents(&["rm", "-D", "feat/life"]).ok();
    assert!(!repo.has("refs/heads/feat/life"));
    repo.git(&["pack-refs", "--all"]);
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["gc", "--quiet", "--prune=now"]);
    repo.agents(&["restore", "--last"]).ok();
    assert_same_tree(&tree, &tree_state(at.path()));
    assert_eq!(at.git(&["status", "--porcelain=v2", "--ignored"]), said);
    assert_eq!((at.tip("HEAD"), at.tip("refs/worktree/mine")), (tip.clone(), repo.tip("main")));
    at.git(&["reset", "--quiet", "--hard"]);
    at.git(&["clean", "-qfdx"]);
    repo.git(&["merge", "--quiet", "--no-edit", "feat/life"]);
    assert_eq!(repo.status()["agents"][0]["branch_state"], "landed");
    let out = repo.agents(&["rm", "feat/life"]).ok();
    assert!(out.stderr.contains("with its branch"), "{out}");
    // Someone's branch, and a task.
    repo.git(&["branch", "mine", "HEAD~1"]);
    repo.agents(&["adopt", "mine"]).ok();
    repo.agents(&["rm", "mine"]).ok();
    assert!(repo.has("refs/heads/mine"));
    repo.agents(&["run", "-a", "scripted", "WRITE: f.txt: x\nCOMMIT: Ran"]).ok();
    let a = repo.status()["agents"][0].clone();
    assert_eq!((&a["run"]["state"], &a["ahead"]), (&"succeeded".into(), &1.into()), "{a}");
    repo.agents(&["rm", a["name"].as_str().unwrap()]).ok();
    before.still_holds(repo);
}

#[test]
fn spaces_quotes_and_umlauts_in_the_path_of_the_project() {
    let env = Env::new();
    let repo = env.repo("my project, \"ünï\" $(touch pwned) 'q'");
    let at = repo.agent("k");
    at.write("a b\nc.txt", "x\n");
    let a = repo.status()["agents"][0].clone();
    assert_eq!(a["worktree"].as_str().map(Path::new), Some(at.path()));
    assert_eq!(a["dirty"]["untracked"], 1);
    let tree = tree_state(at.path());
    repo.agents(&["rm", "k"]).ok();
    repo.agents(&["restore", "k"]).ok();
    assert_same_tree(&tree, &tree_state(at.path()));
    crate::support::hostile::assert_no_canary(&env, "a project's path");
}

#[test]
fn a_newline_in_the_path_of_the_project_is_refused_clearly() {
    let env = Env::new();
    let repo = env.repo("two\nlines");
    refused_without_a_trace(&repo, &["new", "k"], &["plain text", "worktree.dir"]);
    // Elsewhere it works, and readers do too.
    repo.git(&["config", "agents.worktreeDir", &format!("{}/{{{{ slug }}}}", env.root().join("tmp").display())]);
    let at = repo.agent("k");
    at.write("f", "x\n");
    assert_eq!(repo.status()["agents"][0]["dirty"]["untracked"], 1);
    repo.agents(&["rm", "k"]).ok();
    repo.agents(&["restore", "k"]).ok();
    assert_eq!(at.git(&["status", "--porcelain"]), "?? f");
}

#[test]
fn submodule_folders_were_empty_and_nobody_said_so() {
    let env = Env::new();
    let lib = env.repo("lib");
    let repo = env.repo("x");
    let url = lib.path().display().to_string();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"]);
    repo.commit("A submodule");
    let out = repo.agents(&["new", "k"]).ok();
    assert!(out.stderr.contains("submodule") && out.stderr.contains("git submodule update --init"), "{out}");
    let at = Repo::at(&env, place(&out));
    at.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"]);
    at.write("lib/inner.txt", "inner\n");
    let tree = tree_state(at.path());
    repo.agents(&["rm", "-D", "k"]).ok();
    repo.agents(&["restore", "k"]).ok();
    assert_same_tree(&tree, &tree_state(at.path()));
    assert_eq!(Repo::at(&env, at.join("lib")).git(&["status", "--porcelain"]), "?? inner.txt");
    // The main checkout's own is untouched.
    assert_eq!(Repo::at(&env, repo.join("lib")).git(&["status", "--porcelain"]), "");
}

#[test]
fn commits_in_a_submodule_were_seen_by_nobody() {
    let env = Env::new();
    let lib = env.repo("lib");
    let repo = env.repo("x");
    let url = lib.path().display().to_string();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"]);
    repo.commit("A submodule");
    let at = repo.agent("k");
    at.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"]);
    let modified = || repo.status_of("k")["dirty"]["modified"].clone();
    assert_eq!(modified(), 0);
    let inner = Repo::at(&env, at.join("lib"));
    inner.write("inner.txt", "inner\n");
    let made = inner.commit("In the submodule");
    assert_eq!(modified(), 1, "what it has checked out is not what the index says");
    // Detached, on a branch, packed: the same answer.
    inner.git(&["switch", "--quiet", "-c", "mine"]);
    assert_eq!(modified(), 1);
    inner.git(&["pack-refs", "--all"]);
    assert_eq!(modified(), 1);
    // Recorded above, it is clean; its own repository still holds what no other one has.
    at.git(&["commit", "--quiet", "-am", "Take it"]);
    assert_eq!(modified(), 0);
    repo.git(&["merge", "--quiet", "--ff-only", "k"]);
    let out = repo.agents(&["rm", "--dry-run", "k"]).ok();
    let both = format!("{}{}", out.stdout, out.stderr);
    assert!(both.contains("lib (a submodule with a repository of its own)"), "{out}");
    repo.agents(&["rm", "k"]).ok();
    assert!(repo.has("k"), "work was left over, so the branch stays");
    repo.agents(&["restore", "k"]).ok();
    assert_eq!(Repo::at(&env, at.join("lib")).tip("mine"), made);
}

#[test]
fn inside_a_submodule_the_main_worktree_was_its_git_directory() {
    let env = Env::new();
    let lib = env.repo("lib");
    let repo = env.repo("x");
    let url = lib.path().display().to_string();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"]);
    repo.commit("A submodule");
    let inside = Repo::at(&env, repo.join("lib"));
    let before = tree_state(&repo.join(".git/modules/lib/hooks"));
    let at = inside.agent("k");
    assert_eq!(at.path(), repo.path().with_file_name("lib.agents").join("k"));
    assert_eq!(at.git(&["branch", "--show-current"]), "k");
    let json = inside.status();
    assert_eq!(json["checkouts"][0]["worktree"].as_str().map(Path::new), Some(inside.path()));
    // The superproject has no agent.
    assert_eq!(repo.status()["agents"], serde_json::json!([]));
    inside.agents(&["rm", "k"]).ok();
    assert!(inside.join(".git").exists() && repo.join(".git/modules/lib/HEAD").exists());
    assert_same_tree(&before, &tree_state(&repo.join(".git/modules/lib/hooks")));
    repo_invariants(&inside);
}

#[test]
fn a_bare_layout_and_its_trees() {
    let env = Env::new();
    let source = env.repo("source");
    let project = env.root().join("code/proj");
    std::fs::create_dir_all(&project).unwrap();
    source.git(&["clone", "--quiet", "--bare", ".", project.join(".bare").to_str().unwrap()]);
    std::fs::write(project.join(".git"), "gitdir: ./.bare\n").unwrap();
    let repo = Repo::at(&env, &project);
    repo.git(&["worktree", "add", "--quiet", "main-tree", "main"]);
    let main = Repo::at(&env, project.join("main-tree"));
    for from in [&repo, &main] {
        let at = from.agent("k");
        assert_eq!(at.git(&["status", "--porcelain"]), "");
        assert_eq!(at.tip("HEAD"), main.tip("HEAD"));
        assert_eq!(from.status()["agents"][0]["worktree"].as_str().map(Path::new), Some(at.path()));
        at.write("f", "x\n");
        from.agents(&["rm", "-D", "k"]).ok();
        from.agents(&["restore", "k"]).ok();
        assert_eq!(at.read("f"), "x\n");
        from.agents(&["rm", "-D", "k"]).ok();
    }
    assert_eq!(main.git(&["status", "--porcelain"]), "");
    assert_eq!(repo.git(&["config", "core.bare"]), "true");
    assert_eq!(main.try_git(&["config", "extensions.worktreeConfig"]).status, 1);
    repo_invariants(&main);
}

#[test]
fn from_a_hook_the_callers_git_dir_was_passed_on() {
    let env = Env::new();
    let repo = env.repo("x");
    env.script_at(
        &repo.join(".git/hooks/post-commit"),
        "#!/bin/sh\ngit agents new from-hook >agent-path 2>agent-words\n",
    );
    let bare = repo.git(&["config", "core.bare"]);
    repo.write("f.txt", "x\n");
    repo.commit("Fires the hook");
    std::fs::remove_file(repo.join(".git/hooks/post-commit")).unwrap();
    let at = Repo::at(&env, repo.read("agent-path").trim_end());
    assert_eq!(at.git(&["branch", "--show-current"]), "from-hook");
    assert_eq!(at.git(&["status", "--porcelain"]), "");
    assert_eq!(repo.git(&["status", "--porcelain"]), "?? agent-path\n?? agent-words");
    assert_eq!(repo.git(&["config", "core.bare"]), bare);
    // And with everything that git ever exports.
    let mut command = env.agents_command(repo.path(), &["new", "exported"]);
    command
        .env("GIT_DIR", ".git")
        .env("GIT_WORK_TREE", ".")
        .env("GIT_INDEX_FILE", repo.join(".git/index.mine"))
        .env("GIT_OBJECT_DIRECTORY", repo.join(".git/objects"))
        .env("GIT_PREFIX", "src/")
        .env("GIT_NAMESPACE", "elsewhere");
    let out = crate::support::env::run(command, b"").ok();
    let at = Repo::at(&env, place(&out));
    assert_eq!(at.git(&["status", "--porcelain"]), "");
    assert!(repo.has("refs/heads/exported") && !repo.join(".git/index.mine").exists());
}

#[test]
fn started_in_a_subdirectory_or_with_dash_c() {
    let env = Env::new();
    let repo = env.repo("x");
    let src = repo.join("src");
    let out = repo.agents_in(&src, &["new", "sub"]).ok();
    assert_eq!(place(&out), env.root().join("code/x.agents/sub"));
    let out = repo.agents_in(env.root(), &["-C", src.to_str().unwrap(), "new", "dash-c"]).ok();
    assert_eq!(place(&out), env.root().join("code/x.agents/dash-c"));
    // From an agent's place: beside it, from its own commit.
    let sub = Repo::at(&env, env.root().join("code/x.agents/sub"));
    sub.write("mine.txt", "x\n");
    sub.commit("Mine");
    let out = sub.agents(&["new", "stacked"]).ok();
    assert_eq!(Repo::at(&env, place(&out)).tip("HEAD"), sub.tip("HEAD"));
    assert_eq!(place(&out), env.root().join("code/x.agents/stacked"));
    refused_without_a_trace(&repo, &["new", "sub"], &["exists already"]);
}

#[test]
fn jj_manages_the_main_checkout() {
    let env = Env::new();
    let repo = env.repo("x");
    std::fs::create_dir(repo.join(".jj")).unwrap();
    let out = repo.agents(&["new", "k"]).ok();
    assert!(out.stderr.contains("jj"), "{out}");
    assert!(!place(&out).starts_with(repo.path()), "below the folder with .jj");
}

/// A repository like [`Env::repo`]'s in another format.
fn in_format<'e>(env: &'e Env, format: &str) -> Option<Repo<'e>> {
    let path = env.root().join("code/x");
    std::fs::create_dir_all(&path).unwrap();
    let repo = Repo::at(env, path);
    if repo.try_git(&["init", "--quiet", format]).status != 0 {
        eprintln!("{} does not know {format}: not tried", repo.git(&["--version"]));
        return None;
    }
    repo.write(".gitignore", "ignored/\n");
    repo.write("src/a.txt", "one\n");
    repo.commit("One");
    repo.write("src/b.txt", "two\n");
    repo.commit("Two");
    Some(repo)
}

#[test]
fn ids_were_taken_to_have_forty_digits() {
    let env = Env::new();
    let repo = in_format(&env, "--object-format=sha256").unwrap();
    whole_life(&repo);
    assert_eq!(repo.tip("main").len(), 64);
}

#[test]
fn references_were_looked_for_in_files() {
    let env = Env::new();
    if let Some(repo) = in_format(&env, "--ref-format=reftable") {
        whole_life(&repo);
    }
}

#[test]
fn an_extension_that_nobody_knows_is_refused_with_gits_own_words() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agent("k");
    repo.git(&["config", "core.repositoryFormatVersion", "1"]);
    repo.git(&["config", "extensions.fromTheFuture", "true"]);
    let before = tree_state(&env.root().join("code"));
    for args in [&["status"][..], &["rm", "k"], &["new", "y"]] {
        let out = repo.agents(args).code(128);
        assert!(out.stderr.to_lowercase().contains("fromthefuture"), "{out}");
    }
    assert_same_tree(&before, &tree_state(&env.root().join("code")));
}

#[test]
fn an_agent_of_a_submodule_was_made_in_the_checkout_of_its_superproject() {
    let env = Env::new();
    let (lib, middle, top) = (env.repo("lib"), env.repo("middle"), env.repo("top"));
    let add = |to: &Repo<'_>, from: &Repo<'_>, at: &str| {
        let url = from.path().display().to_string();
        to.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, at]);
        to.commit("A submodule");
    };
    add(&middle, &lib, "deep/lib");
    add(&top, &middle, "sub/middle");
    top.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive"]);
    for (inner, name) in [("sub/middle", "middle"), ("sub/middle/deep/lib", "lib")] {
        let inner = Repo::at(&env, top.join(inner));
        let out = inner.agents(&["new", "k"]).ok();
        assert_eq!(place(&out), top.join(format!("../{name}.agents/k")).canonicalize().unwrap(), "{out}");
        assert!(out.stderr.contains("is outside of its superproject"), "{out}");
        assert_eq!(top.git(&["status", "--porcelain"]), "");
        let at = Repo::at(&env, place(&out));
        at.write("a", "a");
        inner.agents(&["rm", "k"]).ok();
        inner.agents(&["restore", "k"]).ok();
        assert_eq!(at.read("a"), "a");
    }
}
