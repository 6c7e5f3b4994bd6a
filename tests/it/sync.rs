//! `sync`: a branch goes on its base as that is now, or stays exactly where it is.

use crate::kill::{content, events};
use crate::support::{Env, Out, Repo};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

/// An agent with one commit that writes `file`.
pub fn with_commit<'e>(repo: &Repo<'e>, name: &str, file: &str, text: &str) -> Repo<'e> {
    let at = repo.agent(name);
    at.write(file, text);
    at.commit(&format!("Work of {name}"));
    at
}

/// The base moves.
fn base_moves(repo: &Repo<'_>, file: &str, text: &str) -> String {
    repo.write(file, text);
    repo.commit("The base moves")
}

/// What must be the same when an agent is kept: its branch, its files, git's own notes of its worktree, its fork.
fn standing(at: &Repo<'_>, name: &str) -> String {
    let fork = at.git(&["config", &format!("agent.{name}.fork")]);
    let status = at.git(&["status", "--porcelain=v2", "--branch", "--ignored"]);
    let log = at.git(&["reflog", "--format=%H %gs"]);
    format!("{fork}\n{status}\n{log}\n{:?}", content(at.path()))
}

#[track_caller]
fn is_kept(repo: &Repo<'_>, at: &Repo<'_>, name: &str, args: &[&str], words: &[&str]) -> Out {
    let before = standing(at, name);
    let out = repo.agents(&[&["sync", name, "--json"], args].concat()).code(1);
    let result = out.json()["results"][0].clone();
    assert_eq!(result["outcome"], "kept", "{out}");
    for w in words {
        assert!(result["reason"].as_str().unwrap().contains(w), "'{w}' is not said\n{out}");
    }
    assert_eq!(standing(at, name), before, "it was touched");
    assert!(repo.status_of(name)["findings"].as_array().unwrap().is_empty());
    out
}

/// The way back, as it was printed.
#[track_caller]
fn undo(repo: &Repo<'_>, out: &Out) {
    let undo = out.stderr.lines().find_map(|l| l.strip_prefix("undo: ")).unwrap();
    let mut command = repo.env.command("sh", repo.path());
    command.args(["-c", undo]);
    crate::support::env::run(command, b"").ok();
}

#[test]
fn a_branch_that_was_behind_goes_on_the_base_and_can_go_back() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = with_commit(&repo, "one", "made.txt", "made\n");
    at.write("ignored/mine", "ignored\n");
    let old = at.tip("HEAD");
    let base = base_moves(&repo, "src/b.txt", "other\n");
    let tried = repo.agents(&["sync", "one", "--dry-run"]).ok();
    assert!(tried.stderr.contains("'one' would be rebased on 'main'") && !tried.stderr.contains("undo"), "{tried}");
    assert_eq!((at.tip("HEAD"), repo.status_of("one")["behind"].as_u64()), (old.clone(), Some(1)));
    let out = repo.agents(&["sync", "one"]).ok();
    assert!(out.stderr.contains("'one' rebased on 'main'") && out.stderr.contains("1 commit"), "{out}");
    assert!(out.stdout.is_empty(), "{out}");
    assert_eq!((at.tip("HEAD~1"), at.git(&["status", "--porcelain"])), (base.clone(), String::new()));
    assert_eq!(
        (at.read("src/b.txt"), at.read("made.txt"), at.read("ignored/mine")),
        ("other\n".into(), "made\n".into(), "ignored\n".into())
    );
    let a = repo.status_of("one");
    assert_eq!((&a["branch_state"], &a["ahead"], &a["behind"]), (&"ahead".into(), &1.into(), &0.into()), "{a}");
    assert_eq!(repo.git(&["config", "agent.one.fork"]), base);
    assert!(!repo.git(&["config", "--get-regexp", "agent.one"]).contains("doing"));
    let events = events(&repo);
    assert_eq!(
        events.iter().filter(|e| e.contains("\"kind\":\"synced\"") && e.contains(&old)).count(),
        1,
        "{events:?}"
    );
    let again = repo.agents(&["sync", "one"]).ok();
    assert!(again.stderr.contains("is on 'main' as it is now"), "{again}");
    undo(&repo, &out);
    assert_eq!(at.tip("HEAD"), old);
    assert_eq!(repo.status_of("one")["ahead"], 1);
    repo.agents(&["sync", "one"]).ok();
    assert_eq!((at.tip("HEAD~1"), at.read("made.txt")), (base, "made\n".into()));
}

#[test]
fn a_rebase_that_stops_where_a_merge_is_clean_left_the_worktree_in_the_middle() {
    let env = Env::new();
    let repo = env.repo("x");
    // There and back again: as a whole it changes nothing near the base's line.
    let at = with_commit(&repo, "one", "src/b.txt", "one\nTWO\nthree\n");
    at.write("src/b.txt", "one\ntwo\nthree\n");
    at.write("made.txt", "x\n");
    at.commit("And back");
    base_moves(&repo, "src/b.txt", "one\n2\nthree\n");
    repo.git(&["merge-tree", "--write-tree", "main", "one"]);
    let out = is_kept(&repo, &at, "one", &[], &["conflicts with 'main' in src/b.txt", "'Work of one'"]);
    assert!(out.stderr.contains("rebase main' does it by hand") || out.json()["results"][0]["undo"].is_null(), "{out}");
}

#[test]
fn who_runs_has_landed_or_is_in_the_middle_of_something_is_kept() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&[("busy", "WRITE: f: x\nCOMMIT: f\nWAITFILE: ../go")], &[]);
    repo.reaches("busy", "running");
    let busy = repo.worktree("busy");
    env.until("its commit", || busy.git(&["log", "-1", "--format=%s"]) == "f");
    let stopped = with_commit(&repo, "stopped", "src/b.txt", "mine\n");
    let landed = with_commit(&repo, "landed", "landed.txt", "x\n");
    let locked = with_commit(&repo, "locked", "locked.txt", "x\n");
    repo.git(&["worktree", "lock", "--reason", "mine", locked.path().to_str().unwrap()]);
    let other = with_commit(&repo, "other", "other.txt", "x\n");
    other.git(&["switch", "--quiet", "-c", "elsewhere"]);
    repo.git(&["merge", "--quiet", "--no-ff", "landed"]);
    base_moves(&repo, "src/b.txt", "theirs\n");
    let before = busy.tip("HEAD");
    let out = repo.agents(&["sync", "busy"]).code(1);
    assert!(out.stderr.contains("error: 'busy' is running") && out.stderr.contains("git agents wait busy"), "{out}");
    assert_eq!(busy.tip("HEAD"), before);
    stopped.try_git(&["rebase", "main"]).code(1);
    is_kept(&repo, &stopped, "stopped", &["--carry"], &["in the middle of a rebase"]);
    is_kept(&repo, &landed, "landed", &[], &["has landed"]);
    is_kept(&repo, &locked, "locked", &[], &["is locked (mine)"]);
    let out = repo.agents(&["sync", "other"]).code(1);
    assert!(out.stderr.contains("has 'elsewhere' checked out"), "{out}");
    std::fs::write(env.root().join("code/x.agents/go"), "").unwrap();
    repo.settles("busy");
    repo.agents(&["sync", "busy"]).ok();
    assert_eq!(busy.tip("HEAD~1"), repo.tip("main"));
}

#[test]
pub fn uncommitted_work_was_lost_in_the_stash() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "rebase.autoStash", "true"]);
    let at = with_commit(&repo, "one", "made.txt", "made\n");
    base_moves(&repo, "src/b.txt", "other\n");
    base_moves(&repo, "new/on-base.txt", "new\n");
    at.write("src/a.txt", "changed\r\n");
    at.git(&["add", "src/a.txt"]);
    at.write("src/a.txt", "changed twice\r\n");
    at.write("staged-new", "new\n");
    at.git(&["add", "staged-new"]);
    at.git(&["rm", "--quiet", "README.md"]);
    at.write("made.txt", "made more\n");
    std::fs::set_permissions(at.join("made.txt"), PermissionsExt::from_mode(0o600)).unwrap();
    at.write("untracked/deep.txt", [0, 255]);
    std::fs::set_permissions(at.join("untracked/deep.txt"), PermissionsExt::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink("nowhere", at.join("link")).unwrap();
    is_kept(&repo, &at, "one", &[], &["has uncommitted work", "src/a.txt", "untracked/deep.txt", "README.md"]);
    let old = at.tip("HEAD");
    let (mut files, status) = (content(at.path()), at.git(&["status", "--porcelain=v2", "--ignored"]));
    let tried = repo.agents(&["sync", "one", "--carry", "--dry-run"]).ok();
    assert!(tried.stderr.contains("uncommitted work in 6 files"), "{tried}");
    let out = repo.agents(&["sync", "one", "--carry"]).ok();
    assert_eq!(at.tip("HEAD~1"), repo.tip("main"), "{out}");
    let mut after = content(at.path());
    for moved in ["src/b.txt", "new", "new/on-base.txt"] {
        files.remove(moved.as_bytes());
        assert!(after.remove(moved.as_bytes()).is_some(), "{moved}");
    }
    crate::support::assert_same_tree(&files, &after);
    assert_eq!(at.git(&["status", "--porcelain=v2", "--ignored"]), status);
    assert!(!repo.has("refs/stash"));
    // The way back takes the work along once more.
    undo(&repo, &out);
    assert_eq!((at.tip("HEAD"), at.git(&["status", "--porcelain=v2", "--ignored"])), (old, status));
    after = content(at.path());
    assert!(after.remove(b"src/b.txt".as_slice()).is_some());
    crate::support::assert_same_tree(&files, &after);
}

#[test]
fn uncommitted_work_would_have_taken_back_what_the_base_changed() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = with_commit(&repo, "one", "made.txt", "made\n");
    base_moves(&repo, "src/b.txt", "other\n");
    base_moves(&repo, "dir/file", "x\n");
    at.write("src/b.txt", "one\ntwo\nthree\nfour\n");
    is_kept(&repo, &at, "one", &["--carry"], &["in files that would change: src/b.txt"]);
    at.git(&["checkout", "--quiet", "src/b.txt"]);
    // Not the same path, and in its way all the same.
    at.write("dir", "a file\n");
    is_kept(&repo, &at, "one", &["--carry"], &["would change: dir"]);
    std::fs::remove_file(at.join("dir")).unwrap();
    at.git(&["update-index", "--assume-unchanged", "src/a.txt"]);
    at.write("src/a.txt", "hidden\n");
    at.write("seen.txt", "seen\n");
    is_kept(&repo, &at, "one", &["--carry"], &["told not to see: src/a.txt"]);
}

#[test]
fn a_fresh_branch_looked_landed_once_it_was_synced() {
    let env = Env::new();
    let repo = env.repo("x");
    let fresh = repo.agent("fresh");
    for n in 0..2 {
        let base = base_moves(&repo, "moved.txt", &n.to_string());
        repo.agents(&["sync", "fresh"]).ok();
        assert_eq!(fresh.tip("HEAD"), base);
        let a = repo.status_of("fresh");
        assert_eq!(
            (&a["branch_state"], &a["landed_as"], &a["zombie"]),
            (&"fresh".into(), &Value::Null, &Value::Null),
            "{a}"
        );
    }
    base_moves(&repo, "moved.txt", "again");
    let mut worker = env.command("git-agents", repo.path());
    worker.args(["hook-worker", ".git"]);
    crate::support::env::run(worker, b"").ok();
    assert!(fresh.path().exists() && repo.status_of("fresh")["branch_state"] == "fresh");
    // And one with work of its own that was synced before it landed has landed.
    let one = with_commit(&repo, "one", "one.txt", "x\n");
    base_moves(&repo, "moved.txt", "once more");
    repo.agents(&["sync", "one"]).ok();
    assert_eq!(repo.status_of("one")["branch_state"], "ahead");
    repo.git(&["merge", "--quiet", "--ff-only", "one"]);
    assert_eq!(repo.status_of("one")["branch_state"], "landed");
    assert!(one.path().exists());
}

#[test]
fn a_rebase_that_failed_left_a_detached_head() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = with_commit(&repo, "one", "a.txt", "a\n");
    at.write("b.txt", "b\n");
    at.commit("More");
    base_moves(&repo, "c.txt", "c\n");
    let (tip, files) = (at.tip("HEAD"), content(at.path()));
    // Refused before it begins; stopped in the middle, by a file that nobody could foresee.
    let hook = |name: &str, text: &str| env.script_at(&repo.join(format!(".git/hooks/{name}")), text);
    hook("pre-rebase", "#!/bin/sh\necho not today >&2\nexit 1\n");
    let fails = |words: &str| {
        let out = repo.agents(&["sync", "one", "--json"]).code(128);
        let result = out.json()["results"][0].clone();
        assert_eq!(result["outcome"], "failed", "{out}");
        assert!(result["reason"].as_str().unwrap().contains(words), "{out}");
        assert_eq!((at.tip("HEAD"), at.git(&["symbolic-ref", "HEAD"])), (tip.clone(), "refs/heads/one".into()));
        assert!(!repo.git(&["config", "--get-regexp", "agent.one"]).contains("doing"));
        crate::support::repo_invariants(&repo);
    };
    fails("not today");
    assert_eq!(content(at.path()), files);
    std::fs::remove_file(repo.join(".git/hooks/pre-rebase")).unwrap();
    hook("post-checkout", "#!/bin/sh\n[ -e c.txt ] && echo hooked >b.txt\nexit 0\n");
    fails("b.txt");
    // The hook's file met one of the branch: the branch's is back, the hook's own run is not undone.
    assert_eq!((at.git(&["status", "--porcelain"]), at.read("b.txt")), (String::new(), "b\n".into()));
    std::fs::remove_file(repo.join(".git/hooks/post-checkout")).unwrap();
    repo.agents(&["sync", "one"]).ok();
    assert_eq!(at.tip("HEAD~2"), repo.tip("main"));
}

#[test]
pub fn settings_of_the_user_made_a_rebase_something_else() {
    let env = Env::new();
    let repo = env.repo("x");
    for (key, value) in [
        ("rebase.autoSquash", "true"),
        ("rebase.updateRefs", "true"),
        ("rebase.backend", "apply"),
        ("rebase.rebaseMerges", "true"),
        ("rebase.forkPoint", "true"),
        ("commit.gpgSign", "true"),
        ("gpg.program", "false"),
        ("core.editor", "false"),
        ("sequence.editor", "false"),
        ("submodule.recurse", "true"),
        ("rerere.enabled", "true"),
    ] {
        repo.git(&["config", key, value]);
    }
    let at = repo.agent("one");
    let commit = |file: &str, message: &str| {
        at.write(file, "x\n");
        at.git(&["add", "--all"]);
        at.git(&["commit", "--quiet", "--no-gpg-sign", "-m", message]);
    };
    commit("a.txt", "A");
    at.git(&["branch", "middle"]);
    let middle = at.tip("middle");
    at.git(&["branch", "side", "HEAD~1"]);
    commit("b.txt", "fixup! A");
    at.git(&["merge", "--quiet", "--no-gpg-sign", "--no-ff", "-m", "Merge", "side"]);
    at.git(&["commit", "--quiet", "--no-gpg-sign", "--allow-empty", "-m", "Empty"]);
    repo.write("base.txt", "x\n");
    repo.git(&["add", "--all"]);
    repo.git(&["commit", "--quiet", "--no-gpg-sign", "-m", "The base moves"]);
    repo.agents(&["sync", "one"]).ok();
    assert_eq!(at.git(&["log", "--format=%s", "main.."]), "Empty\nfixup! A\nA");
    assert_eq!((at.tip("main"), at.tip("middle")), (at.tip("HEAD~3"), middle), "another branch was moved");
}

#[test]
fn only_its_own_commits_go_along() {
    let env = Env::new();
    let repo = env.repo("x");
    // The base was written anew below it.
    repo.git(&["switch", "--quiet", "-c", "moving"]);
    repo.write("src/b.txt", "of the base\n");
    repo.commit("Old way");
    repo.agents(&["new", "one", "--base", "moving"]).ok();
    let at = repo.worktree("one");
    at.write("made.txt", "x\n");
    at.commit("Mine");
    repo.git(&["reset", "--quiet", "--hard", "main"]);
    repo.write("src/b.txt", "another way\n");
    let base = repo.commit("New way");
    repo.agents(&["sync", "one"]).ok();
    assert_eq!((at.tip("HEAD~1"), at.read("src/b.txt")), (base, "another way\n".into()));
    // Part of it was picked over and changed since; it took the base in by itself.
    at.write("picked.txt", "picked\n");
    let picked = at.commit("Picked");
    repo.git(&["cherry-pick", &picked]);
    repo.write("picked.txt", "picked and changed\n");
    repo.commit("Changed");
    at.write("last.txt", "x\n");
    at.commit("Last");
    repo.agents(&["sync", "one"]).ok();
    assert_eq!(
        (at.git(&["log", "--format=%s", "moving.."]), at.read("picked.txt")),
        ("Last\nMine".into(), "picked and changed\n".into())
    );
    repo.write("more.txt", "x\n");
    repo.commit("More");
    at.git(&["merge", "--quiet", "--no-edit", "moving"]);
    let tip = at.tip("HEAD");
    let out = repo.agents(&["sync", "one"]).ok();
    assert_eq!((at.tip("HEAD"), repo.git(&["config", "agent.one.fork"])), (tip, repo.tip("moving")), "{out}");
    // All of it is there already, as one commit.
    repo.git(&["merge", "--quiet", "--squash", "one"]);
    repo.commit("Squashed");
    repo.write("last.txt", "changed since\n");
    repo.commit("Changed since");
    let out = repo.agents(&["sync", "one"]);
    assert!(out.status == 1 && at.git(&["status", "--porcelain"]).is_empty(), "{out}");
}

#[test]
pub fn who_was_begun_on_top_of_another_one_follows_it() {
    let env = Env::new();
    let repo = env.repo("x");
    let script = |f: &str| format!("WRITE: {f}: x\nCOMMIT: {f}");
    repo.run(&[("below", &script("below.txt")), ("above after=below", &script("above.txt"))], &[]).ok();
    let (below, above) = (repo.worktree("below"), repo.worktree("above"));
    base_moves(&repo, "base.txt", "1");
    // Alone it stays on its parent, which has not moved.
    let out = repo.agents(&["sync", "above"]).ok();
    assert!(out.stderr.contains("is on 'agents/below' as it is now"), "{out}");
    let out = repo.agents(&["sync", "--all"]).ok();
    assert_eq!((below.tip("HEAD~1"), above.tip("HEAD~1")), (repo.tip("main"), below.tip("HEAD")), "{out}");
    assert_eq!(repo.git(&["config", "agent.above.fork"]), below.tip("HEAD"));
    let a = repo.status_of("above");
    assert_eq!((&a["ahead"], &a["branch_state"]), (&1.into(), &"ahead".into()), "{a}");
    // Squashed and changed since: none of the parent's commits is on the base, and none goes along.
    repo.git(&["merge", "--quiet", "--squash", "agents/below"]);
    repo.commit("Below, squashed");
    assert_eq!(repo.status_of("below")["branch_state"], "landed");
    let out = repo.agents(&["sync", "--all", "--json"]).ok();
    assert!(out.stdout.contains("'below' has landed"), "{out}");
    assert_eq!((above.tip("HEAD~1"), above.git(&["log", "-1", "--format=%s"])), (repo.tip("main"), "above.txt".into()));
    assert_eq!(repo.git(&["config", "agent.above.fork"]), repo.tip("main"));
    repo.agents(&["rm", "below"]).ok();
    base_moves(&repo, "base.txt", "2");
    repo.agents(&["sync", "above"]).ok();
    assert_eq!(above.tip("HEAD~1"), repo.tip("main"));
    assert_eq!(repo.git(&["log", "--notes=agents", "-1", "--format=%N", "agents/above"]).lines().count(), 1);
}

#[test]
fn a_parent_that_went_away_with_its_work_keeps_its_child() {
    let env = Env::new();
    let repo = env.repo("x");
    let script = |f: &str| format!("WRITE: {f}: x\nCOMMIT: {f}");
    let tasks = [("a", script("a.txt")), ("b", script("b.txt")), ("c after=a,b", script("c.txt"))];
    let tasks: Vec<(&str, &str)> = tasks.iter().map(|(n, s)| (*n, s.as_str())).collect();
    repo.run(&tasks, &[]).ok();
    let c = repo.worktree("c");
    base_moves(&repo, "base.txt", "1");
    is_kept(&repo, &c, "c", &[], &["comes after 'a' and 'b'", "more than one has not landed"]);
    repo.git(&["merge", "--quiet", "--no-ff", "agents/a"]);
    is_kept(&repo, &c, "c", &[], &["'b', which 'c' comes after, is behind 'main'"]);
    repo.agents(&["sync", "--all"]).ok();
    assert_eq!((c.tip("HEAD~1"), c.read("a.txt"), c.read("b.txt")), (repo.tip("agents/b"), "x\n".into(), "x\n".into()));
    repo.agents(&["rm", "-D", "b"]).ok();
    base_moves(&repo, "base.txt", "2");
    is_kept(&repo, &c, "c", &[], &["'c' comes after 'b', which was removed before it landed"]);
    repo.agents(&["restore", "b"]).ok();
    repo.agents(&["sync", "--all"]).ok();
    assert_eq!(c.tip("HEAD~2"), repo.tip("main"));
}

#[test]
fn fetched_work_of_others_was_not_taken_for_the_base() {
    let env = Env::new();
    let origin = env.repo("origin");
    let code = env.root().join("code");
    Repo::at(&env, &code).git(&["clone", "--quiet", "origin", "x"]);
    let repo = Repo::at(&env, code.join("x"));
    let at = with_commit(&repo, "one", "made.txt", "made\n");
    let base = base_moves(&origin, "theirs.txt", "x\n");
    let out = repo.agents(&["sync", "one"]).ok();
    assert!(out.stderr.contains("is on 'main' as it is now"), "{out}");
    let out = repo.agents(&["sync", "one", "--fetch"]).ok();
    assert!(out.stderr.contains("'main' is behind 'origin/main'"), "{out}");
    assert_eq!((at.tip("HEAD~1"), repo.status_of("one")["ahead"].as_u64()), (base, Some(1)));
    // Published, and rebased since: said.
    at.git(&["push", "--quiet", "origin", "one"]);
    base_moves(&origin, "theirs.txt", "y\n");
    let out = repo.agents(&["sync", "one", "--fetch"]).ok();
    assert!(out.stderr.contains("'origin/one' has the old commits; 'git push --force-with-lease'"), "{out}");
    // Nothing to compare with: said, and kept.
    Repo::at(&env, &code).git(&[
        "clone",
        "--quiet",
        "--depth",
        "1",
        "--no-single-branch",
        &format!("file://{}", origin.path().display()),
        "s",
    ]);
    let shallow = Repo::at(&env, code.join("s"));
    let orphan = shallow.agent("orphan");
    orphan.git(&["checkout", "--quiet", "--orphan", "tmp"]);
    let other = orphan.commit("Begins anew");
    orphan.git(&["switch", "--quiet", "orphan"]);
    orphan.git(&["reset", "--quiet", "--hard", &other]);
    base_moves(&shallow, "theirs.txt", "z\n");
    is_kept(&shallow, &orphan, "orphan", &[], &["could not be told", "shallow"]);
}

#[test]
fn the_worker_keeps_idle_agents_on_the_base_and_says_so() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["hooks", "install"]).ok();
    repo.set("agents.autoSync", "true");
    let idle = with_commit(&repo, "idle", "idle.txt", "x\n");
    let fresh = repo.agent("fresh");
    let conflict = with_commit(&repo, "conflict", "src/b.txt", "mine\n");
    let dirty = with_commit(&repo, "dirty", "dirty.txt", "x\n");
    dirty.write("left.txt", "work\n");
    repo.git(&["branch", "theirs", "HEAD"]);
    repo.agents(&["adopt", "theirs"]).ok();
    let theirs = repo.worktree("theirs");
    theirs.write("theirs.txt", "x\n");
    theirs.commit("Theirs");
    repo.start(&[("busy", "WRITE: f: x\nCOMMIT: f\nWAITFILE: ../go")], &[]);
    repo.reaches("busy", "running");
    let busy = repo.worktree("busy");
    env.until("its commit", || busy.git(&["log", "-1", "--format=%s"]) == "f");
    let kept: Vec<(&Repo<'_>, String)> = [&conflict, &dirty, &theirs, &busy].map(|r| (r, r.tip("HEAD"))).into();
    repo.git(&["switch", "--quiet", "-c", "side"]);
    repo.write("src/b.txt", "of the base\n");
    repo.commit("Side");
    repo.git(&["switch", "--quiet", "main"]);
    repo.git(&["merge", "--quiet", "side"]);
    let mut said = String::new();
    env.until("all of it is said", || {
        said += &repo.agents(&["status"]).ok().stderr;
        said.contains("'idle' was rebased on 'main' by itself; undo: git -C") && said.contains("'main' moved:")
    });
    assert!(said.contains("4 agents are behind") && said.contains("; git agents sync --all"), "{said}");
    assert_eq!((idle.tip("HEAD~1"), fresh.tip("HEAD")), (repo.tip("main"), repo.tip("main")));
    for (at, tip) in kept {
        assert_eq!(at.tip("HEAD"), tip, "{} was touched", at.path().display());
    }
    assert_eq!(repo.status_of("fresh")["branch_state"], "fresh");
    std::fs::write(env.root().join("code/x.agents/go"), "").unwrap();
    repo.settles("busy");
    // A person who stands there is in nobody's way, and nobody is in theirs.
    let mut shell = env.command("sh", idle.path());
    shell.args(["-c", "read x"]).stdin(std::process::Stdio::piped());
    let mut person = shell.spawn().unwrap();
    let before = idle.tip("HEAD");
    base_moves(&repo, "more.txt", "x\n");
    let mut worker = env.command("git-agents", repo.path());
    worker.args(["hook-worker", ".git"]);
    crate::support::env::run(worker, b"").ok();
    assert_eq!((idle.tip("HEAD"), busy.tip("HEAD~1")), (before, repo.tip("main")));
    drop(person.stdin.take());
    person.wait().unwrap();
    repo.agents(&["sync", "idle"]).ok();
}

#[test]
fn usage_and_order_are_checked_before_anything_is_touched() {
    let env = Env::new();
    let repo = env.repo("x");
    let one = with_commit(&repo, "one", "one.txt", "x\n");
    with_commit(&repo, "two", "src/b.txt", "mine\n");
    base_moves(&repo, "src/b.txt", "theirs\n");
    let tip = one.tip("HEAD");
    repo.agents(&["sync"]).code(129);
    repo.agents(&["sync", "--all", "one"]).code(129);
    repo.agents(&["sync", "one", "nobody"]).code(128);
    repo.agents(&["sync", "on"]).code(128);
    assert_eq!(one.tip("HEAD"), tip);
    // What nobody asked for by name and stays is no failure; what was, is a no.
    let out = repo.agents(&["sync", "--all", "--json"]).ok();
    let outcomes: Vec<Value> = out.json()["results"].as_array().unwrap().iter().map(|r| r["outcome"].clone()).collect();
    assert_eq!(outcomes, ["done", "kept"], "{out}");
    let out = repo.agents(&["sync", "--all"]).ok();
    assert!(out.stderr.contains("kept: 'two' conflicts with 'main'") && !out.stderr.contains("error:"), "{out}");
    let out = repo.agents(&["sync", "two"]).code(1);
    assert!(out.stderr.contains("error: 'two' conflicts with 'main'"), "{out}");
    // The agent of this directory; the alias.
    base_moves(&repo, "more.txt", "x\n");
    let out = repo.agents_in(&one.join("src"), &["rebase"]).ok();
    assert!(out.stderr.contains("'one' rebased"), "{out}");
}

#[test]
fn what_was_carried_stayed_away_when_somebody_went_on_after_a_kill() {
    use crate::support::kill::Target;
    let env = Env::new();
    let repo = env.repo("x");
    let at = with_commit(&repo, "one", "made.txt", "made\n");
    base_moves(&repo, "src/b.txt", "other\n");
    at.write("src/a.txt", "work\n");
    at.write("made.txt", "work too\n");
    crate::kill::copy(&env.root().join("code"), &env.root().join("template"));
    let (target, tip) = (Target::agents(&repo, &["sync", "--carry", "one"]), at.tip("HEAD"));
    let starts = |p: &&crate::support::kill::Point| p.call.starts_with("clone") || p.call.ends_with("fork");
    // Killed while the work is out of the way: right before the rebase begins.
    let found = target.points().iter().filter(starts).rev().any(|point| {
        std::fs::remove_dir_all(env.root().join("code")).unwrap();
        crate::kill::copy(&env.root().join("template"), &env.root().join("code"));
        assert!(target.kill_before(point).hit);
        env.until("nothing runs", || env.processes().is_empty());
        at.read("made.txt") == "made\n" && at.tip("HEAD") == tip
    });
    assert!(found, "never killed in between");
    // A person goes on, on the same file as well.
    at.write("made.txt", "of a person\n");
    at.write("more.txt", "of a person\n");
    at.commit("Of a person");
    repo.repair();
    assert_eq!((at.read("src/a.txt"), at.read("made.txt")), ("work\n".into(), "of a person\n".into()));
    assert_eq!(at.git(&["status", "--porcelain"]), " M src/a.txt");
    let kept = repo.git(&["for-each-ref", "--format=%(refname)", "refs/agents/removed"]);
    let made = format!("{}:made.txt", kept.lines().next().unwrap());
    assert_eq!(repo.git(&["cat-file", "blob", &made]), "work too");
}

#[test]
fn two_at_once_rebased_it_twice() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = with_commit(&repo, "one", "one.txt", "x\n");
    base_moves(&repo, "more.txt", "x\n");
    let both: Vec<_> = (0..4).map(|_| repo.spawn(&["sync", "one"])).collect();
    let out: Vec<Out> = both.into_iter().map(|b| b.finish(&env)).collect();
    assert!(out.iter().filter(|o| o.stderr.contains("'one' rebased")).count() == 1, "{out:?}");
    assert!(out.iter().all(|o| o.status <= 1), "{out:?}");
    assert_eq!((at.tip("HEAD~1"), at.git(&["status", "--porcelain"])), (repo.tip("main"), String::new()));
    crate::support::repo_invariants(&repo);
    assert_eq!(events(&repo).iter().filter(|e| e.contains("\"kind\":\"synced\"")).count(), 1);
}

#[test]
fn a_rebase_overwrote_ignored_files_without_a_word() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = with_commit(&repo, "one", "made.txt", "made\n");
    // One that came and went on the branch stands in the way of the step between.
    at.write("went.secret", "mine\n");
    at.git(&["add", "--force", "went.secret"]);
    at.commit("A key");
    at.git(&["rm", "--quiet", "--cached", "went.secret"]);
    at.commit("No key");
    base_moves(&repo, "other.txt", "x\n");
    for how in [&["sync", "one"][..], &["sync", "one", "--carry"], &["land", "--rebase", "one"]] {
        let out = repo.agents(how).code(1);
        assert!(out.stderr.contains("in the way of 'one': went.secret"), "{out}");
        assert_eq!(at.read("went.secret"), "mine\n");
    }
    std::fs::remove_file(at.join("went.secret")).unwrap();
    repo.agents(&["sync", "one"]).ok();
    at.write("came.secret", "mine, and nowhere else\n");
    repo.write("came.secret", "of the base\n");
    repo.git(&["add", "--force", "came.secret"]);
    repo.commit("The base has it now");
    is_kept(&repo, &at, "one", &[], &["in the way of 'one': came.secret"]);
    // What is the same already is in nobody's way.
    at.write("came.secret", "of the base\n");
    repo.agents(&["sync", "one"]).ok();
    assert_eq!(at.tip("HEAD~3"), repo.tip("main"));
}

#[test]
fn a_rebase_that_could_not_check_out_left_half_of_it() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = with_commit(&repo, "one", "made.txt", "made\n");
    let carried = with_commit(&repo, "two", "two.txt", "two\n");
    carried.write("README.md", "# Not committed\n");
    carried.write("untracked.txt", "neither\n");
    let fails = || {
        for (at, args) in [(&at, &["sync", "one"][..]), (&carried, &["sync", "two", "--carry"])] {
            let before = (at.tip("HEAD"), at.git(&["status", "--porcelain"]), content(at.path()));
            let out = repo.agents(args).code(128);
            assert!(out.stderr.contains("could not be rebased"), "{out}");
            assert_eq!((at.tip("HEAD"), at.git(&["status", "--porcelain"]), content(at.path())), before, "{out}");
            crate::support::repo_invariants(&repo);
        }
    };
    // git dies in the middle of it.
    repo.git(&["config", "filter.breaks.clean", "cat"]);
    repo.git(&["config", "filter.breaks.smudge", "cat"]);
    repo.git(&["config", "filter.breaks.required", "true"]);
    repo.write("a-new.txt", "of the base\n");
    repo.write(".gitattributes", "*.dat filter=breaks\n");
    base_moves(&repo, "m.dat", "x\n");
    repo.git(&["config", "filter.breaks.smudge", "false"]);
    fails();
    repo.git(&["config", "filter.breaks.smudge", "cat"]);
    // It goes on to its end, and gives up then: a name that no disk takes.
    let blob = repo.git(&["rev-parse", "HEAD:a-new.txt"]);
    let name = "z".repeat(300);
    repo.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{name}")]);
    repo.git(&["commit", "--quiet", "-m", "No such name"]);
    fails();
    repo.git(&["rm", "--quiet", "--cached", &name]);
    repo.git(&["commit", "--quiet", "-m", "No more"]);
    repo.agents(&["sync", "one"]).ok();
    repo.agents(&["sync", "two", "--carry"]).ok();
    assert_eq!((at.read("m.dat"), carried.read("README.md")), ("x\n".into(), "# Not committed\n".into()));
}

#[test]
fn what_somebody_wrote_while_a_rebase_began_was_reset_away() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = with_commit(&repo, "one", "made.txt", "made\n");
    at.write("src/b.txt", "carried\n");
    base_moves(&repo, "c.txt", "c\n");
    let tip = at.tip("HEAD");
    env.script_at(
        &repo.join(".git/hooks/pre-rebase"),
        "#!/bin/sh\necho mine >README.md\necho mine >src/b.txt\nexit 0\n",
    );
    let out = repo.agents(&["sync", "one", "--carry"]).code(128);
    let kept = out.stderr.split("by then is in '").nth(1).unwrap().split('\'').next().unwrap();
    assert_eq!(repo.git(&["show", &format!("{kept}:README.md")]), "mine");
    assert_eq!(repo.git(&["show", &format!("{kept}:src/b.txt")]), "mine");
    assert_eq!((at.tip("HEAD"), at.read("src/b.txt")), (tip, "carried\n".into()));
}

#[test]
fn a_commit_in_the_middle_of_a_sync_left_the_tree_detached() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = with_commit(&repo, "one", "made.txt", "made\n");
    base_moves(&repo, "c.txt", "c\n");
    let hook = repo.join(".git/hooks/pre-rebase");
    for (n, args) in [&["sync", "one"][..], &["sync", "one", "--carry"]].into_iter().enumerate() {
        if n == 1 {
            at.write("src/b.txt", "carried\n");
            at.write("made.txt", "met by the commit\n");
        }
        let (name, more) = (format!("of-somebody-{n}"), if n == 1 { "echo theirs >made.txt;" } else { "" });
        env.script_at(
            &hook,
            &format!("#!/bin/sh\n{more} echo x >{name}; git add --all; git commit --quiet -m 'Of somebody'\n"),
        );
        let out = repo.agents(args).code(128);
        assert!(out.stderr.contains("somebody else moved it meanwhile"), "{out}");
        assert_eq!(at.git(&["symbolic-ref", "HEAD"]), "refs/heads/one", "{out}");
        assert_eq!((at.git(&["log", "-1", "--format=%s"]), at.read(&name)), ("Of somebody".into(), "x\n".into()));
        assert!(repo.status_of("one")["operation"].is_null());
        assert_eq!(at.git(&["status", "--porcelain"]), if n == 1 { " M src/b.txt" } else { "" });
        if n == 1 {
            assert_eq!((at.read("src/b.txt"), at.read("made.txt")), ("carried\n".into(), "theirs\n".into()));
            let kept = out.stderr.split("what there was is in '").nth(1).unwrap().split('\'').next().unwrap();
            assert_eq!(repo.git(&["show", &format!("{kept}:made.txt")]), "met by the commit");
        }
        crate::support::repo_invariants(&repo);
    }
    std::fs::remove_file(hook).unwrap();
    repo.agents(&["sync", "one", "--carry"]).ok();
    assert_eq!((at.tip("HEAD~3"), at.read("src/b.txt")), (repo.tip("main"), "carried\n".into()));
}

#[test]
fn an_agent_whose_base_was_deleted_had_no_way_to_another_one() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["branch", "dev"]);
    repo.agents(&["new", "one", "--base", "dev"]).ok();
    let at = repo.worktree("one");
    at.write("made.txt", "made\n");
    at.commit("Work");
    let (tip, fork) = (at.tip("HEAD"), repo.tip("dev"));
    let base = base_moves(&repo, "c.txt", "c\n");
    repo.git(&["branch", "-D", "dev"]);
    let words = "'dev' is gone; 'git agents sync --onto BASE one' gives it another base";
    assert!(repo.status_of("one")["findings"][0].as_str().unwrap().contains(words));
    assert!(repo.agents(&["doctor"]).code(1).stdout.contains(words));
    for args in [&["sync", "one"][..], &["land", "one"]] {
        let out = repo.agents(args).code(1);
        assert!(out.stderr.contains("sync --onto BASE one"), "{out}");
    }
    repo.agents(&["sync", "--onto", "nobody", "one"]).code(128);
    repo.agents(&["sync", "--onto", "one", "one"]).code(128);
    repo.agents(&["sync", "--onto", "main", "--all"]).code(129);
    assert!(
        repo.agents(&["sync", "--dry-run", "--onto", "main", "one"]).ok().stderr.contains("would be rebased on 'main'")
    );
    assert_eq!(repo.git(&["config", "agent.one.base"]), "refs/heads/dev");
    let out = repo.agents(&["sync", "--onto", "main", "one"]).ok();
    let is_on_main = || {
        assert_eq!(
            (at.tip("HEAD~1"), repo.git(&["config", "agent.one.base"])),
            (base.clone(), "refs/heads/main".into())
        );
        assert!(repo.status_of("one")["findings"].as_array().unwrap().is_empty());
        assert!(
            events(&repo)
                .iter()
                .any(|e| e.contains("\"kind\":\"synced\"") && e.contains("\"base\":\"refs/heads/main\""))
        );
    };
    is_on_main();
    undo(&repo, &out);
    assert_eq!((at.tip("HEAD"), repo.git(&["config", "agent.one.base"])), (tip.clone(), "refs/heads/dev".into()));
    // Where it sits there already, the base alone changes.
    repo.git(&["branch", "old", &fork]);
    let out = repo.agents(&["sync", "--onto", "old", "one"]).ok();
    assert_eq!((at.tip("HEAD"), repo.git(&["config", "agent.one.base"])), (tip.clone(), "refs/heads/old".into()));
    undo(&repo, &out);
    assert_eq!(repo.git(&["config", "agent.one.base"]), "refs/heads/dev");
    // Killed anywhere: the base changes with the branch.
    crate::kill::copy(&env.root().join("code"), &env.root().join("template"));
    let target = crate::support::kill::Target::agents(&repo, &["sync", "--onto", "main", "one"]);
    let points = target.points();
    is_on_main();
    for point in points.iter().skip(7).step_by(points.len() / 3) {
        std::fs::remove_dir_all(env.root().join("code")).unwrap();
        crate::kill::copy(&env.root().join("template"), &env.root().join("code"));
        target.kill_before(point);
        env.until("nothing runs", || env.processes().is_empty());
        repo.repair();
        let base = if at.tip("HEAD") == tip { "refs/heads/dev" } else { "refs/heads/main" };
        assert_eq!(repo.git(&["config", "agent.one.base"]), base, "killed before {point}");
        repo.agents(&["sync", "--onto", "main", "one"]).ok();
        is_on_main();
    }
    repo.agents(&["land", "one"]).ok();
}

#[test]
fn files_that_only_their_line_endings_make_different_were_refused_in_words_of_git() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("doc.md", "a\r\nb\r\n");
    repo.commit("CRLF stored");
    let at = with_commit(&repo, "one", "doc.md", "a\r\nb\r\nc\r\n");
    repo.write(".gitattributes", "*.md text eol=lf\n");
    repo.git(&["add", ".gitattributes"]);
    repo.git(&["commit", "--quiet", "-m", "And a rule against it"]);
    // Looked at anew, it is another file than the one that was checked out a moment ago.
    repo.write("doc.md", "a\r\nb\r\n");
    assert!(repo.git(&["status", "--porcelain"]).contains("M doc.md"), "the set-up is as reported");
    let (main, tip) = (repo.tip("HEAD"), at.tip("HEAD"));
    // Of a file as new as the index git looks at the content, whatever it remembers.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    let renew =
        |r: &Repo<'_>| std::fs::File::options().append(true).open(r.join("doc.md")).unwrap().set_modified(later);
    for args in [&["land", "one"][..], &["land", "--squash", "one"], &["sync", "one"], &["land", "--rebase", "one"]] {
        renew(&repo).and(renew(&at)).unwrap();
        let out = repo.agents(args).code(128);
        assert!(out.stderr.contains("git takes for changed what nobody changed: doc.md;"), "{out}");
        assert!(out.stderr.contains("hint: commit 'git add --renormalize .' on 'main' first"), "{out}");
        assert!(!out.stderr.contains("Your local changes") && !out.stderr.contains("Aborting"), "{out}");
        assert_eq!((repo.tip("HEAD"), repo.read("doc.md")), (main.clone(), "a\r\nb\r\n".into()));
        assert_eq!((at.tip("one"), at.read("doc.md")), (tip.clone(), "a\r\nb\r\nc\r\n".into()));
    }
}

#[test]
fn a_rebase_that_could_not_write_down_its_first_step_left_the_files_of_the_base() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = with_commit(&repo, "k", "made.txt", "made\n");
    repo.write("src/b.txt", "of the base\n");
    repo.write("new/dir/on-base.txt", "new\n");
    repo.git(&["add", "new", "src"]);
    repo.git(&["commit", "--quiet", "-m", "The base moves"]);
    let log = repo.join(".git/worktrees/k/logs/HEAD");
    for args in [&["sync", "k"][..], &["sync", "--carry", "k"]] {
        if args.len() == 3 {
            at.write("made.txt", "made, and more\n");
            at.write("left.txt", "not committed\n");
        }
        let before = (at.tip("HEAD"), at.git(&["status", "--porcelain"]));
        std::fs::rename(&log, log.with_extension("kept")).unwrap();
        std::fs::create_dir_all(log.join("x/y")).unwrap();
        std::fs::write(log.join("x/y/z"), "").unwrap();
        let out = repo.agents(args).code(128);
        assert!(out.stderr.contains("cannot update the ref 'HEAD'"), "{out}");
        assert_eq!((at.tip("HEAD"), at.git(&["status", "--porcelain"])), before, "{out}");
        std::fs::remove_dir_all(&log).unwrap();
        std::fs::rename(log.with_extension("kept"), &log).unwrap();
    }
    repo.agents(&["sync", "--carry", "k"]).ok();
    assert_eq!((at.tip("HEAD~1"), at.read("made.txt")), (repo.tip("main"), "made, and more\n".into()));
}
