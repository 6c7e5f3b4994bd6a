//! `new`: all or nothing, in every layout, whatever stands in the way.

use crate::support::tree::Tree;
use crate::support::{Before, Env, Out, Repo, repo_invariants, tree_state};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub fn place(out: &Out) -> PathBuf {
    PathBuf::from(out.stdout.strip_suffix('\n').unwrap())
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
    (tree, refs, repo.git(&["worktree", "list", "--porcelain"]), repo.status()["agents"].clone())
}

/// `args` is refused with these words, and nothing is left of it.
#[track_caller]
pub fn refused_without_a_trace(repo: &Repo<'_>, args: &[&str], words: &[&str]) -> Out {
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
    assert_eq!(repo.status()["agents"][0]["locked"], Value::Null);
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
    let at = repo.agent("t");
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
    repo.agent("Feat");
    refused_without_a_trace(&repo, &["new", "feat"], &["exists already"]);
    // The same directory for both would be a clash, so each fold has a mark of its own.
    let (a, b) = (repo.agent("a/b"), repo.agent("a-b"));
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
    let at = repo.agent("k");
    assert_eq!(at.tip("HEAD"), repo.tip("refs/heads/main"), "not the tag, not the odd branch");
    let a = repo.status()["agents"][0].clone();
    assert_eq!((a["base"].as_str(), a["behind"].as_u64()), (Some("main"), Some(0)), "{a}");
    at.write("f", "x\n");
    at.commit("Mine");
    repo.git(&["tag", "k", "main"]);
    let out = repo.agents(&["rm", "k"]).ok();
    assert!(out.stderr.contains("not landed"), "a tag of its name is no landing\n{out}");
    // A branch that is gone is not found under a longer name.
    let gone = repo.agent("gone");
    gone.git(&["switch", "--quiet", "--detach"]);
    repo.git(&["update-ref", "-d", "refs/heads/gone"]);
    let zombie = repo.status()["agents"][0]["zombie"].clone();
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
    assert_eq!(repo.status()["agents"][0]["findings"], serde_json::json!([]));
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
    let name = repo.status()["agents"][0]["name"].as_str().unwrap().to_owned();
    assert!(!env.root().join("code/x.agents").join(&name).exists());
    env.script("no-such-tool", "#!/bin/sh\nexec cat\n");
    repo.git(&["config", "filter.x.clean", "cat"]);
    repo.agents(&["retry", &name]).ok();
    repo.agents(&["wait", &name]).ok();
    assert_eq!(repo.status()["agents"][0]["run"]["state"], "succeeded");
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
    repo.agent("old");
    let before = world(&repo);
    let mut command = env.command("prlimit", repo.path());
    command.args(["--fsize=100000", "git", "agents", "new", "k"]);
    let out = crate::support::env::run(command, b"").code(128);
    assert!(out.stderr.contains("could not check out"), "{out}");
    let after = world(&repo);
    assert_eq!((before.1, before.2, before.3), (after.1, after.2, after.3));
    crate::support::assert_same_tree(&before.0, &after.0);
    repo.agent("k");
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
    assert_eq!(repo.status()["agents"][0]["name"], "k");
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
    repo.agent("k");
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
fn files_that_git_ignores_come_along_and_are_no_work() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".gitignore", ".env\nignored/\n*.secret\n");
    repo.write(".git-agents.toml", "[worktree]\ncopy = [\".env*\"]\n");
    repo.commit("Ignore it");
    repo.write(".env", "KEY=1\n");
    std::fs::set_permissions(repo.join(".env"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let at = repo.agent("k");
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
fn what_was_staged_was_taken_along_unstaged() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("added \n file.txt", "added\n");
    repo.write("src/a.txt", "staged\n");
    repo.write("meant.txt", "meant\n");
    repo.write(":(odd)*.txt", "odd\n");
    repo.write("half.txt", "first\n");
    repo.git(&["add", "added \n file.txt", "src/a.txt", "half.txt"]);
    repo.git(&["--literal-pathspecs", "add", "-N", "meant.txt", ":(odd)*.txt"]);
    repo.git(&["rm", "-q", "--cached", "src/b.txt"]);
    repo.git(&["mv", "README.md", "READ.md"]);
    repo.git(&["update-index", "--chmod=+x", ".gitignore"]);
    repo.write("src/a.txt", "staged, then edited\n");
    repo.write("half.txt", "second\n");
    let state = |at: &Repo<'_>| {
        (at.git(&["status", "--porcelain=v2", "--no-renames"]), at.git(&["diff", "--cached"]), at.git(&["diff"]))
    };
    let before = (state(&repo), tree_state(repo.path()));
    let at = Repo::at(&env, place(&repo.agents(&["new", "k", "--with-changes"]).ok()));
    assert_eq!(state(&at), before.0);
    assert_eq!((state(&repo), tree_state(repo.path())), before);
    assert_eq!(at.read("half.txt"), "second\n");
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

#[test]
fn a_branch_was_called_like_one_of_a_remote() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["update-ref", "refs/remotes/origin/dev", "HEAD"]);
    repo.git(&["remote", "add", "fork", "/nowhere"]);
    for (name, remote) in [("origin/dev", "origin"), ("origin/new", "origin"), ("fork/x", "fork")] {
        let out = repo.agents(&["new", name]).code(128);
        assert!(out.stderr.contains(&format!("a branch of the remote '{remote}' is called")), "{out}");
        assert!(out.stderr.contains(&format!("a free name would be '{}-2'", name.replace('/', "-"))), "{out}");
        assert!(!repo.has(&format!("refs/heads/{name}")));
    }
    repo.agent("original/dev");
}

#[test]
fn a_full_disk_was_told_in_thirty_thousand_characters_or_not_at_all() {
    let env = Env::new();
    let repo = env.repo("x");
    let git = env.git_program();
    env.script(
        "git",
        &format!(
            "#!/bin/sh\ncase \" $* \" in *\" reset --hard \"*) for i in $(seq 2000); do\n\
             echo \"error: unable to write file src/$i: No space left on device\" >&2; done; exit 128;; esac\n\
             exec {} \"$@\"\n",
            git.display()
        ),
    );
    // Started by git, it would find git's own directory before this one.
    let mut new = env.command("git-agents", repo.path());
    new.args(["new", "k"]);
    let out = crate::support::env::run(new, b"").code(128);
    assert!(out.stderr.len() < 1000, "{} bytes", out.stderr.len());
    assert!(out.stderr.contains("the disk is full; unable to write file src/1: "), "{out}");
    assert!(out.stderr.contains("and 1997 more of such lines") && out.stderr.contains("free some space"), "{out}");
    assert!(!repo.has("refs/heads/k"));
}

#[test]
fn a_twin_in_other_letters_was_called_by_the_name_that_was_typed() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agent("feat/x");
    for name in ["FEAT/x", "feat/X"] {
        let out = repo.agents(&["new", name]).code(128);
        assert!(out.stderr.contains("an agent named 'feat/x' exists already, and some"), "{out}");
    }
}
