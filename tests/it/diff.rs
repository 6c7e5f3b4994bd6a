//! `diff`: what one changed as it is now, shown by the user's own git, with no trace of the looking.

use crate::support::{Env, Repo, tree_state};

#[test]
fn work_that_is_not_committed_is_in_it_and_what_the_base_did_is_not() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "agents.uncommitted", "keep"]);
    let task =
        "REPLACE: src/a.txt: line 7 => seven\nCOMMIT: one\nREPLACE: src/a.txt: line 50 => fifty\nWRITE: new.txt: new";
    repo.run(&[("mine", task)], &["-q"]).code(0);
    repo.write("src/b.txt", "the base goes on\n");
    repo.commit("base");
    let place = repo.worktree("mine");
    let admin = repo.common_dir().join("worktrees/mine");
    let before = (tree_state(&admin), tree_state(&repo.common_dir().join("objects")));
    let out = repo.agents(&["diff", "mine"]).ok();
    for words in ["-line 7\n+seven\n", "-line 50\n+fifty\n", "+++ b/new.txt\n"] {
        assert!(out.stdout.contains(words), "{words}\n{out}");
    }
    assert!(!out.stdout.contains("the base goes on") && out.stderr.is_empty(), "{out}");
    // Options and paths are git's; so is its exit code.
    let out = repo.agents(&["diff", "mi", "--", "--numstat", "--", "src"]).ok();
    assert_eq!(out.stdout, "2\t2\tsrc/a.txt\n");
    assert_eq!(repo.agents(&["diff", "mine", "--", "--exit-code", "--quiet"]).status, 1);
    assert_eq!(repo.agents(&["diff", "mine", "--", "--exit-code", "README.md"]).status, 0);
    repo.agents(&["diff", "mine", "--", "--no-such"]).code(129);
    // From inside, of itself; paths are from there.
    let inside = Repo::at(&env, place.join("src"));
    assert_eq!(inside.agents(&["diff", "--", "--name-only", "a.txt"]).ok().stdout, "src/a.txt\n");
    assert_eq!((tree_state(&admin), tree_state(&repo.common_dir().join("objects"))), before);
    assert_eq!(place.git(&["status", "--porcelain"]), " M src/a.txt\n?? new.txt");
    // The report names it.
    assert_eq!(repo.reported("mine")["commands"]["look"], "git agents diff mine");
}

#[test]
fn two_are_compared_with_each_other_as_they_are() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "agents.uncommitted", "keep"]);
    repo.run(
        &[("one", "WRITE: a.txt: one\nCOMMIT: a"), ("two", "WRITE: a.txt: two\nCOMMIT: a\nWRITE: b.txt: b")],
        &["-q"],
    );
    let out = repo.agents(&["diff", "one", "two", "--", "--name-status"]).ok();
    assert_eq!(out.stdout, "M\ta.txt\nA\tb.txt\n");
    let out = repo.agents(&["diff", "two", "one", "--", "a.txt"]).ok();
    assert!(out.stdout.contains("-two\n+one\n"), "{out}");
    assert!(repo.agents(&["diff", "one", "on"]).code(129).stderr.contains("the same agent"));
    assert!(repo.agents(&["diff", "one", "three"]).code(128).stderr.contains("no agent named 'three'"));
    assert_eq!(repo.agents(&["diff", "one", "two", "one"]).status, 129);
    // What has landed keeps what it brought.
    let before = repo.agents(&["diff", "one"]).ok().stdout;
    repo.git(&["merge", "-q", "--no-edit", "agents/one"]);
    assert_eq!(repo.agents(&["diff", "one"]).ok().stdout, before);
}

#[test]
fn it_is_shown_as_the_users_own_git_shows_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("mine", "WRITE: a.txt: a\nCOMMIT: a")], &["-q"]).ok();
    repo.git(&["config", "--global", "color.ui", "always"]);
    repo.git(&["config", "--global", "diff.mnemonicPrefix", "false"]);
    repo.git(&["config", "--global", "diff.noprefix", "true"]);
    let ours = repo.agents(&["diff", "mine"]).ok().stdout;
    let gits = repo.git(&["diff", "main...agents/mine"]) + "\n";
    assert_eq!(ours, gits);
    assert!(ours.contains("\u{1b}[") && ours.contains("+++ a.txt"), "{ours}");
    let mut command = env.agents_command(repo.path(), &["diff", "mine"]);
    command.env("GIT_EXTERNAL_DIFF", "echo external");
    let out = crate::support::env::run(command, b"").ok();
    assert!(out.stdout.starts_with("external a.txt "), "{out}");
}
