//! `new`: all or nothing, in every layout, whatever stands in the way.

use crate::support::tree::Tree;
use crate::support::{Before, Env, Out, Repo, repo_invariants, tree_state};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn place(out: &Out) -> PathBuf {
    PathBuf::from(out.stdout.strip_suffix('\n').unwrap())
}

#[track_caller]
fn agent<'e>(repo: &Repo<'e>, name: &str) -> Repo<'e> {
    let out = repo.agents(&["new", name]).ok();
    Repo::at(repo.env, place(&out))
}

fn status(repo: &Repo<'_>) -> Value {
    repo.agents(&["status", "--json"]).ok().json()
}

/// Everything below `code` that is not ours alone, and what git knows.
fn world(repo: &Repo<'_>) -> (Tree, String, String, Value) {
    let mut tree = tree_state(&repo.env.root().join("code"));
    tree.retain(|p, _| {
        let s = String::from_utf8_lossy(p).into_owned();
        !s.contains("/.git/objects")
            && !s.contains("/.git/agents")
            && !s.ends_with(".agents")
            && !s.ends_with("/.git/worktrees")
            && !s.contains("/.git/refs/agents")
            && !s.contains("/.git/refs/notes")
            && !s.contains("/.git/logs/refs/agents")
    });
    let refs = repo.git(&["for-each-ref", "refs/heads", "refs/remotes", "refs/tags"]);
    (tree, refs, repo.git(&["worktree", "list", "--porcelain"]), status(repo)["agents"].clone())
}

/// `args` is refused with these words, and nothing is left of it.
#[track_caller]
fn refused_without_a_trace(repo: &Repo<'_>, args: &[&str], words: &[&str]) -> Out {
    let before = world(repo);
    let out = repo.agents(args);
    assert_eq!(out.status, 128, "{out}");
    for w in words {
        assert!(out.stderr.contains(w), "'{w}' is not said\n{out}");
    }
    assert_eq!(out.stdout, "", "{out}");
    let after = world(repo);
    assert_eq!(before.1, after.1, "references\n{out}");
    assert_eq!(before.2, after.2, "worktrees\n{out}");
    assert_eq!(before.3, after.3, "agents\n{out}");
    crate::support::assert_same_tree(&before.0, &after.0);
    out
}

#[test]
fn one_line_of_output_is_the_directory_and_nothing_else_changed() {
    let env = Env::new();
    let repo = env.repo("x");
    let before = Before::of(&repo);
    let out = repo.agents(&["new", "feat/payments"]).ok();
    assert_eq!(out.stdout.lines().count(), 1);
    let at = Repo::at(&env, place(&out));
    assert_eq!(at.git(&["branch", "--show-current"]), "feat/payments");
    assert_eq!(at.git(&["status", "--porcelain", "--ignored"]), "");
    assert_eq!(at.tip("HEAD"), repo.tip("main"));
    assert!(out.stderr.contains("undo: git agents rm feat/payments"), "{out}");
    // No tracking, no per-worktree configuration, no lock left.
    assert!(!repo.has("feat/payments@{upstream}"));
    assert_eq!(repo.try_git(&["config", "extensions.worktreeConfig"]).status, 1);
    assert_eq!(status(&repo)["agents"][0]["locked"], Value::Null);
    before.still_holds(&repo);
}

#[test]
fn the_directory_existed() {
    let env = Env::new();
    let repo = env.repo("x");
    let target = env.root().join("code/x.agents/wt");
    std::fs::create_dir_all(&target).unwrap();
    refused_without_a_trace(&repo, &["new", "wt"], &["an empty directory"]);
    std::fs::write(target.join("f"), "foreign\n").unwrap();
    refused_without_a_trace(&repo, &["new", "wt"], &["files of someone else"]);
    std::fs::write(target.join(".git"), "gitdir: /nowhere\n").unwrap();
    refused_without_a_trace(&repo, &["new", "wt"], &["an old worktree"]);
    std::fs::remove_dir_all(&target).unwrap();
    std::os::unix::fs::symlink("nowhere", &target).unwrap();
    refused_without_a_trace(&repo, &["new", "wt"], &["a file"]);
}

#[test]
fn a_branch_stood_where_a_folder_was_needed() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["branch", "feat"]);
    repo.git(&["branch", "release/1"]);
    repo.git(&["update-ref", "refs/remotes/origin/topic", "HEAD"]);
    repo.git(&["update-ref", "refs/remotes/origin/deep/one", "HEAD"]);
    for (name, in_the_way) in
        [("feat/x", "feat"), ("release", "release/1"), ("topic/x", "topic"), ("deep", "deep/one"), ("topic", "topic")]
    {
        let out = refused_without_a_trace(&repo, &["new", name], &[in_the_way, "a free name would be"]);
        let free = out.stderr.split("a free name would be '").nth(1).unwrap().split('\'').next().unwrap();
        repo.agents(&["new", free]).ok();
        repo.agents(&["rm", free]).ok();
    }
}

#[test]
fn last_months_branch_was_checked_out_in_silence() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent(&repo, "t");
    at.write("old.txt", "last month\n");
    let old = at.commit("Last month");
    repo.agents(&["rm", "t"]).ok();
    repo.write("new.txt", "since then\n");
    repo.commit("Main advanced");
    let out = refused_without_a_trace(&repo, &["new", "t"], &["branch named 't' exists already"]);
    assert!(out.stderr.contains("git agents adopt t") && out.stderr.contains("'t-2'"), "{out}");
    assert_eq!(repo.tip("refs/heads/t"), old);
}

#[test]
fn names_that_differ_in_nothing_a_directory_can_tell() {
    let env = Env::new();
    let repo = env.repo("x");
    agent(&repo, "Feat");
    refused_without_a_trace(&repo, &["new", "feat"], &["exists already"]);
    // The same directory for both would be a clash, so each fold has a mark of its own.
    let (a, b) = (agent(&repo, "a/b"), agent(&repo, "a-b"));
    assert_ne!(a.path(), b.path());
}

#[test]
fn branches_that_shadow_what_git_means() {
    let env = Env::new();
    let repo = env.repo("x");
    let old = repo.tip("HEAD~1");
    for odd in ["refs/heads/HEAD", "refs/heads/refs/heads/main", "refs/heads/refs/heads/gone", "refs/tags/main"] {
        repo.git(&["update-ref", odd, &old]);
    }
    for name in ["HEAD", "refs/heads/main", "-x", "@"] {
        refused_without_a_trace(&repo, &["new", "--", name], &[]);
    }
    let at = agent(&repo, "k");
    assert_eq!(at.tip("HEAD"), repo.tip("refs/heads/main"), "not the tag, not the odd branch");
    let a = status(&repo)["agents"][0].clone();
    assert_eq!((a["base"].as_str(), a["behind"].as_u64()), (Some("main"), Some(0)), "{a}");
    at.write("f", "x\n");
    at.commit("Mine");
    repo.git(&["tag", "k", "main"]);
    let out = repo.agents(&["rm", "k"]).ok();
    assert!(out.stderr.contains("not landed"), "a tag of its name is no landing\n{out}");
    // A branch that is gone is not found under a longer name.
    let gone = agent(&repo, "gone");
    gone.git(&["switch", "--quiet", "--detach"]);
    repo.git(&["update-ref", "-d", "refs/heads/gone"]);
    let zombie = status(&repo)["agents"][0]["zombie"].clone();
    assert_eq!(zombie, "branch-gone");
    repo.agents(&["rm", "gone"]).ok();
    assert!(repo.has("refs/heads/refs/heads/gone"));
}

#[test]
fn a_name_that_git_takes_and_a_folder_does_not() {
    let env = Env::new();
    let repo = env.repo("x");
    let long = format!("f/{}", "a".repeat(250));
    // Whatever a branch may be called, its folder is short.
    let out = repo.agents(&["new", &long]);
    if out.status == 0 {
        assert!(place(&out).file_name().unwrap().len() < 100);
        repo.agents(&["rm", &long]).ok();
        repo.agents(&["restore", &long]).ok();
    } else {
        assert_eq!(out.status, 128, "{out}");
    }
    refused_without_a_trace(&repo, &["new", &"y".repeat(300)], &[]);
    // A repository so deep that the place would be too long for anyone.
    let deep: PathBuf = std::iter::repeat_n("d".repeat(100), 9).collect();
    repo.git(&["config", "agents.worktreeDir", &format!("../{}/{{{{ slug }}}}{}", deep.display(), "/e".repeat(1400))]);
    refused_without_a_trace(&repo, &["new", "k"], &["too long"]);
}

#[test]
fn spaces_quotes_and_umlauts_in_the_path_of_the_project() {
    let env = Env::new();
    let repo = env.repo("my project, \"ünï\" $(touch pwned) 'q'");
    let at = agent(&repo, "k");
    at.write("a b\nc.txt", "x\n");
    let a = status(&repo)["agents"][0].clone();
    assert_eq!(a["worktree"].as_str().map(Path::new), Some(at.path()));
    assert_eq!(a["dirty"]["untracked"], 1);
    let tree = tree_state(at.path());
    repo.agents(&["rm", "k"]).ok();
    repo.agents(&["restore", "k"]).ok();
    crate::support::assert_same_tree(&tree, &tree_state(at.path()));
    crate::support::hostile::assert_no_canary(&env, "a project's path");
}

#[test]
fn a_newline_in_the_path_of_the_project_is_refused_clearly() {
    let env = Env::new();
    let repo = env.repo("two\nlines");
    refused_without_a_trace(&repo, &["new", "k"], &["plain text", "worktree.dir"]);
    // Elsewhere it works, and readers do too.
    repo.git(&["config", "agents.worktreeDir", &format!("{}/{{{{ slug }}}}", env.root().join("tmp").display())]);
    let at = agent(&repo, "k");
    at.write("f", "x\n");
    assert_eq!(status(&repo)["agents"][0]["dirty"]["untracked"], 1);
    repo.agents(&["rm", "k"]).ok();
    repo.agents(&["restore", "k"]).ok();
    assert_eq!(at.git(&["status", "--porcelain"]), "?? f");
}

#[test]
fn a_failing_hook_was_taken_for_a_failed_creation() {
    let env = Env::new();
    let repo = env.repo("x");
    let log = env.root().join("hook.log");
    env.script_at(
        &repo.join(".git/hooks/post-checkout"),
        &format!(
            "#!/bin/sh\necho \"$@\" >>{0}\npwd >>{0}\ngit rev-parse --show-toplevel >>{0}\nexit 3\n",
            log.display()
        ),
    );
    let out = repo.agents(&["new", "k"]).ok();
    assert!(out.stderr.contains("post-checkout") && out.stderr.contains('3'), "{out}");
    let at = Repo::at(&env, place(&out));
    assert_eq!(
        (at.git(&["branch", "--show-current"]).as_str(), at.git(&["status", "--porcelain"]).as_str()),
        ("k", "")
    );
    // Called once, in the new tree, as `worktree add` calls it: zeros, the new tip, and 1.
    let (tip, top) = (repo.tip("main"), at.path().display());
    assert_eq!(std::fs::read_to_string(log).unwrap(), format!("{} {tip} 1\n{top}\n{top}\n", "0".repeat(40)));
    assert_eq!(status(&repo)["agents"][0]["findings"], serde_json::json!([]));
}

#[test]
fn a_missing_filter_left_its_branch_behind() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "filter.x.smudge", "no-such-tool"]);
    repo.git(&["config", "filter.x.required", "true"]);
    repo.write(".gitattributes", "*.md text\n*.bin filter=x\n");
    repo.write("a.bin", "stored\n");
    repo.git(&["-c", "filter.x.clean=cat", "add", "-A"]);
    repo.git(&["-c", "filter.x.clean=cat", "commit", "--quiet", "-m", "A filter"]);
    refused_without_a_trace(&repo, &["new", "k"], &["could not check out", "*.bin filter=x"]);
    assert!(!env.root().join("code/x.agents/k").exists() && !repo.has("refs/heads/k"));
    // A branch that was there before stays there.
    repo.git(&["branch", "mine"]);
    refused_without_a_trace(&repo, &["adopt", "mine"], &["could not check out", "*.bin filter=x"]);
    assert!(repo.has("refs/heads/mine"));
    // One of a run stands, says why, and goes on as soon as the tool is there.
    let out = repo.agents(&["run", "-a", "scripted", "--json", "WRITE: f.txt: x\nCOMMIT: x"]).code(1);
    assert!(out.stdout.contains("could not check out"), "{out}");
    let name = status(&repo)["agents"][0]["name"].as_str().unwrap().to_owned();
    assert!(!env.root().join("code/x.agents").join(&name).exists());
    env.script("no-such-tool", "#!/bin/sh\nexec cat\n");
    repo.git(&["config", "filter.x.clean", "cat"]);
    repo.agents(&["retry", &name]).ok();
    repo.agents(&["wait", &name]).ok();
    assert_eq!(status(&repo)["agents"][0]["run"]["state"], "succeeded");
    repo.agents(&["rm", &name]).ok();
    repo_invariants(&repo);
}

#[test]
fn the_disk_was_full() {
    let env = Env::new();
    let repo = env.repo("x");
    let big: Vec<u8> = (0..900_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    repo.write("big.bin", big);
    repo.commit("Big");
    agent(&repo, "old");
    let before = world(&repo);
    let mut command = env.command("prlimit", repo.path());
    command.args(["--fsize=100000", "git", "agents", "new", "k"]);
    let out = crate::support::env::run(command, b"").code(128);
    assert!(out.stderr.contains("could not check out"), "{out}");
    let after = world(&repo);
    assert_eq!((before.1, before.2, before.3), (after.1, after.2, after.3));
    crate::support::assert_same_tree(&before.0, &after.0);
    agent(&repo, "k");
    repo_invariants(&repo);
}

#[test]
fn set_up_ran_in_the_main_checkout_after_a_creation_that_failed() {
    let env = Env::new();
    let repo = env.repo("x");
    let log = env.root().join("log");
    repo.write(
        ".git-agents.toml",
        format!("[setup]\nrun = [\"pwd >>{0}; env | grep ^AGENTS_ >>{0}; exit 4\"]\n", log.display()),
    );
    repo.commit("Set-up");
    repo.agents(&["trust", "--yes"]).ok();
    std::fs::create_dir_all(env.root().join("code/x.agents/k/foreign")).unwrap();
    repo.agents(&["new", "k"]).code(128);
    assert!(!log.exists(), "it ran although there was nothing to set up");
    std::fs::remove_dir_all(env.root().join("code/x.agents/k")).unwrap();
    let out = repo.agents(&["new", "k"]).code(128);
    assert!(out.stderr.contains("setup") && out.stderr.contains('4'), "{out}");
    let at = env.root().join("code/x.agents/k");
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.starts_with(&format!("{}\n", at.display())), "{said}");
    assert!(said.contains(&format!("AGENTS_WORKTREE={}\n", at.display())), "{said}");
    // Its failure leaves the tree.
    assert_eq!(Repo::at(&env, &at).git(&["status", "--porcelain"]), "");
    assert_eq!(status(&repo)["agents"][0]["name"], "k");
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
    crate::support::assert_same_tree(&tree, &tree_state(at.path()));
    assert_eq!(Repo::at(&env, at.join("lib")).git(&["status", "--porcelain"]), "?? inner.txt");
    // The main checkout's own is untouched.
    assert_eq!(Repo::at(&env, repo.join("lib")).git(&["status", "--porcelain"]), "");
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
    let at = agent(&inside, "k");
    assert!(at.path().starts_with(repo.path()), "{}", at.path().display());
    assert_eq!(at.git(&["branch", "--show-current"]), "k");
    let json = status(&inside);
    assert_eq!(json["checkouts"][0]["worktree"].as_str().map(Path::new), Some(inside.path()));
    // The superproject has no agent.
    assert_eq!(status(&repo)["agents"], serde_json::json!([]));
    inside.agents(&["rm", "k"]).ok();
    assert!(inside.join(".git").exists() && repo.join(".git/modules/lib/HEAD").exists());
    crate::support::assert_same_tree(&before, &tree_state(&repo.join(".git/modules/lib/hooks")));
    repo_invariants(&inside);
}

#[test]
fn no_commit_yet() {
    let env = Env::new();
    let path = env.root().join("code/empty");
    std::fs::create_dir_all(&path).unwrap();
    let repo = Repo::at(&env, path);
    repo.git(&["init", "--quiet"]);
    refused_without_a_trace(&repo, &["new", "k"], &["no commit yet"]);
    repo.agents(&["run", "-a", "scripted", "WRITE: f: x"]).code(128);
    assert_eq!(repo.git(&["for-each-ref"]), "");
}

#[test]
fn someone_elses_repository_is_refused_with_gits_own_words() {
    let env = Env::new();
    let repo = env.repo("x");
    agent(&repo, "k");
    let before = tree_state(&env.root().join("code"));
    for args in [&["status"][..], &["new", "y"], &["rm", "k"], &["restore", "--list"]] {
        let mut command = env.agents_command(repo.path(), args);
        command.env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
        let out = crate::support::env::run(command, b"").code(128);
        assert!(out.stderr.contains("dubious ownership") && out.stderr.contains("safe.directory"), "{out}");
    }
    crate::support::assert_same_tree(&before, &tree_state(&env.root().join("code")));
    assert!(!std::fs::read_to_string(env.home().join(".gitconfig")).unwrap().contains("safe"));
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
        let at = agent(from, "k");
        assert_eq!(at.git(&["status", "--porcelain"]), "");
        assert_eq!(at.tip("HEAD"), main.tip("HEAD"));
        assert_eq!(status(from)["agents"][0]["worktree"].as_str().map(Path::new), Some(at.path()));
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

#[test]
fn files_that_git_ignores_come_along_and_are_no_work() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".gitignore", ".env\nignored/\n*.secret\n");
    repo.write(".git-agents.toml", "[worktree]\ncopy = [\".env*\"]\n");
    repo.commit("Ignore it");
    repo.write(".env", "KEY=1\n");
    std::fs::set_permissions(repo.join(".env"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let at = agent(&repo, "k");
    assert_eq!(at.read(".env"), "KEY=1\n");
    assert_eq!(std::fs::metadata(at.join(".env")).unwrap().permissions().mode() & 0o777, 0o600);
    let out = repo.agents(&["rm", "k"]).ok();
    assert!(out.stderr.contains("with its branch"), "{out}");
    repo.agents(&["restore", "k"]).ok();
    assert_eq!(at.read(".env"), "KEY=1\n");
}

#[test]
fn changes_taken_along_stay_where_they_are_too() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("src/a.txt", "edited\n");
    std::fs::remove_file(repo.join("src/b.txt")).unwrap();
    repo.write("new file.txt", "new\n");
    let before = tree_state(repo.path());
    let at = Repo::at(&env, place(&repo.agents(&["new", "k", "--with-changes"]).ok()));
    assert_eq!(at.git(&["status", "--porcelain"]), " M src/a.txt\n D src/b.txt\n?? \"new file.txt\"");
    assert_eq!(at.read("src/a.txt"), "edited\n");
    crate::support::assert_same_tree(&before, &tree_state(repo.path()));
    refused_without_a_trace(&repo, &["new", "y", "--with-changes", "--base", "HEAD~1"], &["another commit"]);
}

#[test]
fn a_full_answer_in_json() {
    let env = Env::new();
    let repo = env.repo("x");
    let out = repo.agents(&["new", "k", "--json", "--task", "Add an export. Then more."]).ok();
    let a = out.json()["agents"][0].clone();
    assert_eq!(a["name"], "k");
    assert_eq!(a["title"], "Add an export.");
    assert_eq!((&a["origin"], &a["branch"], &a["base"]), (&"new".into(), &"k".into(), &"main".into()));
    assert_eq!((&a["branch_state"], &a["run"]["state"]), (&"fresh".into(), &Value::Null));
    assert!(Path::new(a["worktree"].as_str().unwrap()).is_dir());
}

mod adopt {
    use super::*;

    #[test]
    fn a_path_that_is_not_text() {
        use std::os::unix::ffi::OsStrExt as _;
        let env = Env::new();
        let repo = env.repo("x");
        let odd = env.root().join("code").join(std::ffi::OsStr::from_bytes(b"caf\xe9/odd"));
        let mut command = env.command("git", repo.path());
        command.args(["worktree", "add", "--quiet", "-b", "odd"]).arg(&odd);
        crate::support::env::run(command, b"").ok();
        repo.agents(&["adopt", "odd"]).ok();
        std::fs::write(odd.join("f.txt"), "x\n").unwrap();
        let a = status(&repo)["agents"][0].clone();
        assert!(a["worktree"]["bytes"].is_string() && a["dirty"]["untracked"] == 1, "{a}");
        let tree = tree_state(&odd);
        repo.agents(&["rm", "--force", "odd"]).ok();
        assert!(!odd.exists());
        repo.agents(&["restore", "odd"]).ok();
        crate::support::assert_same_tree(&tree, &tree_state(&odd));
        repo_invariants(&repo);
    }

    #[test]
    fn a_worktree_a_branch_a_remote_branch_and_a_request() {
        let env = Env::new();
        let origin = env.repo("origin");
        origin.git(&["switch", "--quiet", "-c", "theirs"]);
        origin.write("theirs.txt", "theirs\n");
        let theirs = origin.commit("Theirs");
        origin.git(&["update-ref", "refs/pull/1/head", &theirs]);
        origin.git(&["update-ref", "refs/merge-requests/7/head", &theirs]);
        origin.git(&["switch", "--quiet", "main"]);
        origin.git(&["clone", "--quiet", ".", "../x"]);
        let repo = Repo::at(&env, env.root().join("code/x"));
        repo.git(&["branch", "mine", "HEAD~1"]);
        repo.git(&["worktree", "add", "--quiet", "-b", "there", "../there"]);
        for (what, name, branch, tip) in [
            ("../there", "there", "there", repo.tip("there")),
            ("mine", "mine", "mine", repo.tip("mine")),
            ("origin/theirs", "theirs", "theirs", theirs.clone()),
            ("pr/1", "pr/1", "pr/1", theirs.clone()),
            ("mr/7", "mr/7", "mr/7", theirs.clone()),
        ] {
            let out = repo.agents(&["adopt", what, "--json"]).ok();
            assert_eq!(out.json()["results"][0]["name"], name);
            let all = status(&repo);
            let a = all["agents"].as_array().unwrap().iter().find(|a| a["name"] == name).unwrap().clone();
            assert_eq!((&a["branch"], &a["origin"], &a["tip"]), (&branch.into(), &"adopt".into(), &tip.clone().into()));
            assert_eq!(
                (&a["base"], &a["locked"], &a["findings"]),
                (&"main".into(), &Value::Null, &serde_json::json!([]))
            );
            let at = Repo::at(&env, a["worktree"].as_str().unwrap());
            assert_eq!((at.tip("HEAD"), at.git(&["status", "--porcelain"])), (tip.clone(), String::new()));
            assert!(!repo.has(&format!("{branch}@{{upstream}}")), "no tracking is written");
            refused_without_a_trace(&repo, &["adopt", branch], &["managed already"]);
            repo.agents(&["rm", "-D", name]).ok();
            assert_eq!(repo.tip(&format!("refs/heads/{branch}")), tip, "what was adopted stays");
            assert!(at.path().exists());
        }
        repo_invariants(&repo);
    }

    #[test]
    fn what_cannot_be_adopted_is_said() {
        let env = Env::new();
        let repo = env.repo("x");
        for (what, words) in [
            (".", "main checkout"),
            ("main", "checked out in the main checkout"),
            ("nothing", "neither a worktree nor a branch"),
            ("pr/1", "no remote"),
            ("..", "neither a worktree nor a branch"),
            ("../x/src", "not a worktree of this repository"),
            ("--nested", ""),
        ] {
            let out = repo.agents(&["adopt", what]);
            assert!((128..=129).contains(&out.status) && out.stderr.contains(words), "{out}");
        }
        repo.git(&["worktree", "add", "--quiet", "--detach", "../loose"]);
        refused_without_a_trace(&repo, &["adopt", "../loose"], &["no branch checked out", "switch -c"]);
        assert_eq!(status(&repo)["agents"], serde_json::json!([]));
    }

    #[test]
    fn a_branch_that_is_checked_out_elsewhere_is_adopted_where_it_is() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.git(&["worktree", "add", "--quiet", "-b", "b", "../w1"]);
        let w1 = Repo::at(&env, env.root().join("code/w1"));
        w1.write("mine.txt", "mine\n");
        let before = tree_state(w1.path());
        repo.agents(&["adopt", "b"]).ok();
        let a = status(&repo)["agents"][0].clone();
        assert_eq!(a["worktree"].as_str().map(Path::new), Some(w1.path()));
        crate::support::assert_same_tree(&before, &tree_state(w1.path()));
        assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 2);
    }
}

/// Everything that can happen to an environment, in a repository of any form.
pub fn whole_life(repo: &Repo<'_>) {
    let before = Before::of(repo);
    let at = agent(repo, "feat/life");
    assert_eq!((at.git(&["status", "--porcelain"]), at.tip("HEAD")), (String::new(), repo.tip("main")));
    at.write("made.txt", "made\n");
    let tip = at.commit("Made");
    at.write("src/a.txt", "staged\n");
    at.git(&["add", "src/a.txt"]);
    at.write("src/a.txt", "and edited\n");
    at.write("left.txt", "left\n");
    at.write("ignored/cache", "ignored\n");
    at.git(&["update-ref", "refs/worktree/mine", "HEAD~1"]);
    let a = status(repo)["agents"][0].clone();
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
    crate::support::assert_same_tree(&tree, &tree_state(at.path()));
    assert_eq!(at.git(&["status", "--porcelain=v2", "--ignored"]), said);
    assert_eq!((at.tip("HEAD"), at.tip("refs/worktree/mine")), (tip.clone(), repo.tip("main")));
    at.git(&["reset", "--quiet", "--hard"]);
    at.git(&["clean", "-qfdx"]);
    repo.git(&["merge", "--quiet", "--no-edit", "feat/life"]);
    assert_eq!(status(repo)["agents"][0]["branch_state"], "landed");
    let out = repo.agents(&["rm", "feat/life"]).ok();
    assert!(out.stderr.contains("with its branch"), "{out}");
    // Someone's branch, and a task.
    repo.git(&["branch", "mine", "HEAD~1"]);
    repo.agents(&["adopt", "mine"]).ok();
    repo.agents(&["rm", "mine"]).ok();
    assert!(repo.has("refs/heads/mine"));
    repo.agents(&["run", "-a", "scripted", "WRITE: f.txt: x\nCOMMIT: Ran"]).ok();
    let a = status(repo)["agents"][0].clone();
    assert_eq!((&a["run"]["state"], &a["ahead"]), (&"succeeded".into(), &1.into()), "{a}");
    repo.agents(&["rm", a["name"].as_str().unwrap()]).ok();
    before.still_holds(repo);
}

mod formats {
    use super::*;

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
        agent(&repo, "k");
        repo.git(&["config", "core.repositoryFormatVersion", "1"]);
        repo.git(&["config", "extensions.fromTheFuture", "true"]);
        let before = tree_state(&env.root().join("code"));
        for args in [&["status"][..], &["rm", "k"], &["new", "y"]] {
            let out = repo.agents(args).code(128);
            assert!(out.stderr.to_lowercase().contains("fromthefuture"), "{out}");
        }
        crate::support::assert_same_tree(&before, &tree_state(&env.root().join("code")));
    }
}

#[test]
fn names_that_somebody_hopes_will_be_run() {
    let env = Env::new();
    let repo = env.repo("x");
    for (i, name) in crate::support::hostile::names().into_iter().enumerate() {
        // Each third through everything: the rest is refused or made in the same way.
        let out = repo.agents(&["new", "--", name.as_str()]);
        assert!(
            !crate::support::hostile::is_unsafe_on_a_terminal(&out.stderr.replace('\r', "\u{1b}")),
            "{name:?}: {out}"
        );
        match out.status {
            0 => {
                assert!(place(&out).starts_with(env.root().join("code/x.agents")), "{name:?}: {out}");
                assert_eq!(
                    repo.git(&["for-each-ref", "--format=%(refname)", &format!("refs/heads/{name}")]),
                    format!("refs/heads/{name}")
                );
                repo.agents(&["rm", "--", name.as_str()]).ok();
                if i % 3 == 0 {
                    repo.agents(&["restore", "--", name.as_str()]).ok();
                    repo.agents(&["rm", "--", name.as_str()]).ok();
                }
            }
            128 => assert!(out.stderr.starts_with("error: "), "{name:?}: {out}"),
            other => panic!("{name:?}: {other} {out}"),
        }
    }
    crate::support::hostile::assert_no_canary(&env, "new, rm and restore");
    assert_eq!(repo.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]), "refs/heads/main");
    repo_invariants(&repo);
}
