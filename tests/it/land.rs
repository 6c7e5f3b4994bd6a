//! Landing: what comes into the base, how, and what stays as it was where it does not.

use crate::kill::content;
use crate::support::{Env, Out, Repo, repo_invariants};
use serde_json::{Value, json};

/// An agent with one commit that writes `file`.
pub fn agent<'e>(repo: &Repo<'e>, name: &str, file: &str, text: &str) -> Repo<'e> {
    let place = repo.agent(name);
    place.write(file, text);
    place.commit(&format!("Write {file}"));
    place
}

fn results(out: &Out) -> Vec<(String, String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let all = out.json()["results"].as_array().unwrap().clone();
    all.iter().map(|r| (text(&r["name"]), text(&r["outcome"]), text(&r["reason"]))).collect()
}

/// The checkout's status as git tells it, files of ours left out.
fn status(repo: &Repo<'_>) -> String {
    repo.git(&["status", "--porcelain=v2", "--branch", "--untracked-files=all"])
}

/// Nothing of a landing is left: no operation, no note of ours, the agent as it was.
#[track_caller]
fn untouched(repo: &Repo<'_>, before: &str, main: &str) {
    assert_eq!(status(repo), before);
    assert_eq!(repo.tip("refs/heads/main"), main);
    assert!(!repo.join(".git/agents/landing/intent.json").exists());
    for a in repo.status()["agents"].as_array().unwrap() {
        assert_eq!(a["findings"], json!([]), "{a}");
    }
    repo_invariants(repo);
}

#[test]
fn a_branch_lands_with_a_message_a_note_an_event_and_its_environment_goes() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("export", "WRITE: a.txt: a\nCOMMIT: Add a\nWRITE: b.txt: b\nCOMMIT: Add b")], &["-q"]).ok();
    repo.write("README.md", "# Edited here\n");
    repo.write("mine.txt", "untracked\n");
    let (old, tip) = (repo.tip("HEAD"), repo.tip("agents/export"));
    let out = repo.agents(&["land", "export"]).ok();
    assert!(out.stdout.is_empty(), "{out}");
    assert!(out.stderr.contains("'export' landed in 'main' (merge, "), "{out}");
    assert!(out.stderr.contains("its environment is in the trash"), "{out}");
    let undo = out.stderr.lines().find_map(|l| l.strip_prefix("undo: ")).unwrap().to_owned();
    assert_eq!(repo.git(&["rev-list", "--parents", "-1", "HEAD"]), format!("{} {old} {tip}", repo.tip("HEAD")));
    let message = repo.git(&["log", "-1", "--format=%B"]);
    for words in [
        "Merge export: Do export",
        "* Add a\n* Add b",
        "2 commits, 2 files +2 -0",
        "Agent: export",
        "Assistant: scripted",
        "Task: ",
    ] {
        assert!(message.contains(words), "{words}\n{message}");
    }
    assert_eq!(repo.git(&["log", "-1", "--format=%(trailers:key=Agent,valueonly)"]).trim(), "export");
    let note = repo.git(&["log", "-1", "--notes=agents", "--format=%N"]);
    assert!(
        note.contains("export: Do export [scripted, succeeded, 2 commits, 2 files +2 -0; landed in main by merge]"),
        "{note}"
    );
    let event = crate::kill::events(&repo).into_iter().find(|e| e.contains("\"kind\":\"landed\"")).unwrap();
    let event: Value = serde_json::from_str(&event).unwrap();
    assert_eq!(
        (&event["commit"], &event["tip"], &event["style"]),
        (&json!(repo.tip("HEAD")), &json!(tip), &json!("merge"))
    );
    // Work of the checkout's own is as it was.
    assert_eq!((repo.read("README.md"), repo.read("mine.txt")), ("# Edited here\n".into(), "untracked\n".into()));
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "");
    assert!(!repo.has("refs/heads/agents/export"));
    repo_invariants(&repo);
    // And back again.
    let mut sh = env.command("sh", repo.path());
    sh.args(["-c", &undo]);
    crate::support::env::run(sh, b"").ok();
    assert_eq!((repo.tip("HEAD"), repo.tip("agents/export")), (old, tip));
    assert_eq!(repo.read("README.md"), "# Edited here\n");
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "export\n");
}

#[test]
fn each_style_makes_what_git_would() {
    let env = Env::new();
    for (style, parents, subject) in [
        ("--merge", 2, "Merge k: Second"),
        ("--squash", 1, "Second"),
        ("--ff-only", 1, "Third"),
        ("--rebase", 1, "Third"),
    ] {
        let repo = env.repo(&style[2..]);
        let k = repo.agent("k");
        for (file, subject) in [("a.txt", "Second"), ("b.txt", "Third")] {
            k.write(file, "text\n");
            k.commit(subject);
        }
        if style != "--ff-only" {
            repo.write("base.txt", "moved\n");
            repo.commit("Moved");
        }
        let old = repo.tip("HEAD");
        repo.write("untracked.txt", "mine\n");
        let out = repo.agents(&["land", style, "k"]).ok();
        let line = repo.git(&["rev-list", "--parents", "-1", "HEAD"]);
        assert_eq!(line.split(' ').count() - 1, parents, "{style}: {out}");
        assert_eq!(repo.git(&["log", "-1", "--format=%s"]), subject, "{style}");
        assert!(repo.join("a.txt").exists() && repo.join("b.txt").exists() && repo.join("untracked.txt").exists());
        let count = repo.git(&["rev-list", "--count", "--first-parent", &format!("{old}..HEAD")]);
        assert_eq!(count, if style.ends_with("ge") || style == "--squash" { "1" } else { "2" }, "{style}");
        assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "", "{style}: {out}");
        assert_eq!(repo.git(&["status", "--porcelain"]), "?? untracked.txt");
        repo_invariants(&repo);
    }
}

#[test]
fn the_style_that_is_set_counts_and_a_typing_error_in_it_is_named() {
    let env = Env::new();
    let repo = env.repo("x");
    agent(&repo, "k", "a.txt", "a\n");
    repo.set("agents.landStyle", "squish");
    let out = repo.agents(&["land", "k"]).code(128);
    assert!(out.stderr.contains("'squish'") && out.stderr.contains("'ff-only'"), "{out}");
    repo.set("agents.landStyle", "squash");
    repo.agents(&["land", "-m", "One", "-m", "Two", "k"]).ok();
    assert_eq!(repo.git(&["log", "-1", "--format=%P%n%B"]), format!("{}\nOne\n\nTwo", repo.tip("HEAD~1")));
    for args in [&["land", "--ff-only", "-m", "x", "k"][..], &["land", "--merge", "--squash", "k"], &["land"]] {
        repo.agents(args).code(129);
    }
}

#[test]
fn a_conflict_is_kept_with_its_paths_and_nothing_was_touched() {
    let env = Env::new();
    let repo = env.repo("x");
    let k = repo.agent("k");
    k.write("src/b.txt", "one\nTWO\nthree\n");
    k.commit("Mine");
    repo.write("src/b.txt", "one\n2\nthree\n");
    repo.commit("Yours");
    repo.write("README.md", "# Dirty\n");
    let (before, main) = (status(&repo), repo.tip("HEAD"));
    for style in ["--merge", "--squash", "--rebase"] {
        let out = repo.agents(&["land", style, "--json", "k"]).code(1);
        let all = results(&out);
        assert!(all[0].1 == "kept" && all[0].2.contains("src/b.txt"), "{style}: {out}");
        untouched(&repo, &before, &main);
    }
    let out = repo.agents(&["land", "--ff-only", "k"]).code(1);
    assert!(out.stderr.contains("diverged") && out.stderr.contains("git agents sync k"), "{out}");
    untouched(&repo, &before, &main);
}

#[test]
fn a_dirty_checkout_is_refused_exactly_where_git_refuses() {
    let env = Env::new();
    let repo = env.repo("x");
    let k = repo.agent("k");
    k.write("src/b.txt", "one\ntwo\n3\n");
    k.write("new.txt", "theirs\n");
    k.commit("Work");
    repo.write("base.txt", "moved\n");
    repo.commit("Moved");
    let main = repo.tip("HEAD");
    let cases: &[(&str, &dyn Fn())] = &[
        ("modified", &|| repo.write("src/b.txt", "ONE\ntwo\nthree\n")),
        ("untracked", &|| repo.write("new.txt", "mine\n")),
        ("staged elsewhere", &|| {
            repo.write("README.md", "# Staged\n");
            repo.git(&["add", "README.md"]);
        }),
        ("an untracked file for a directory", &|| repo.write("src/b.txt", "x")),
    ];
    for (what, dirty) in cases {
        dirty();
        let before = status(&repo);
        let bytes = content(repo.path());
        for style in ["--merge", "--squash"] {
            let out = repo.agents(&["land", style, "k"]);
            assert_eq!(out.status, 1, "{what}: {out}");
            assert!(out.stderr.contains("'k' does not land"), "{what}: {out}");
            untouched(&repo, &before, &main);
            let now = content(repo.path());
            for (path, node) in bytes.iter().filter(|(p, _)| !p.starts_with(b".git")) {
                assert_eq!(now.get(path), Some(node), "{what}");
            }
            // Git says the same.
            let git = repo.try_git(&["merge", "--no-edit", "k"]);
            assert_ne!(git.status, 0, "{what}: {git}");
        }
        let dry = repo.agents(&["land", "--dry-run", "k"]).code(1);
        assert!(dry.stderr.contains("'k' "), "{dry}");
        repo.git(&["reset", "--hard", "--quiet"]);
        let _ = std::fs::remove_file(repo.join("new.txt"));
    }
    repo.agents(&["land", "k"]).ok();
}

#[test]
fn an_ignored_file_in_the_way_is_not_overwritten_without_a_word() {
    let env = Env::new();
    let repo = env.repo("x");
    let k = repo.agent("k");
    k.write("key.secret", "theirs\n");
    k.git(&["add", "--force", "key.secret"]);
    k.commit("A key");
    repo.write("key.secret", "mine, and nowhere else\n");
    let (before, main) = (status(&repo), repo.tip("HEAD"));
    for style in ["--merge", "--squash", "--ff-only"] {
        let out = repo.agents(&["land", style, "k"]).code(1);
        assert!(out.stderr.contains("in its way: key.secret"), "{out}");
        untouched(&repo, &before, &main);
        assert_eq!(repo.read("key.secret"), "mine, and nowhere else\n");
    }
}

#[test]
fn hooks_run_as_git_runs_them_and_one_that_says_no_leaves_nothing() {
    let env = Env::new();
    let repo = env.repo("x");
    let seen = env.root().join("seen");
    let hook = |name: &str, script: &str| {
        let text = format!("#!/bin/sh\necho {name} >>'{}'\n{script}\n", seen.display());
        env.script_at(&repo.join(".git/hooks").join(name), &text);
    };
    let names =
        || std::fs::read_to_string(&seen).unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    agent(&repo, "k", "src/b.txt", "one\n");
    agent(&repo, "l", "l.txt", "l\n");
    repo.write("README.md", "# Dirty\n");
    repo.write("mine.txt", "untracked\n");
    let (before, main) = (status(&repo), repo.tip("HEAD"));
    for (style, first) in [("--merge", "pre-merge-commit"), ("--squash", "pre-commit")] {
        for (name, script) in
            [(first, "echo not today >&2; exit 1"), ("commit-msg", "git add -A; echo no such words >&2; exit 1")]
        {
            hook(name, script);
            let out = repo.agents(&["land", style, "k"]).code(128);
            let words = script.split("echo ").nth(1).unwrap().split(" >&2").next().unwrap();
            assert!(out.stderr.contains(words) && out.stderr.contains("'k' did not land"), "{out}");
            assert!(names().contains(&name.to_owned()));
            if name != "commit-msg" {
                untouched(&repo, &before, &main);
            }
            assert_eq!(
                (repo.tip("HEAD"), repo.read("README.md"), repo.read("mine.txt")),
                (main.clone(), "# Dirty\n".into(), "untracked\n".into())
            );
            repo.git(&["reset", "--quiet"]);
            std::fs::remove_file(repo.join(".git/hooks").join(name)).unwrap();
        }
    }
    let _ = std::fs::remove_file(&seen);
    for name in ["pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-merge"] {
        hook(name, "echo heard >&2");
    }
    let out = repo.agents(&["land", "k"]).ok();
    assert_eq!(names(), ["pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-merge"]);
    assert!(out.stderr.contains("heard"), "what a hook says is said: {out}");
    // One on the server's side of nothing: the base that nobody has checked out.
    repo.git(&["switch", "--quiet", "--detach"]);
    std::fs::remove_file(&seen).unwrap();
    repo.agents(&["land", "l"]).ok();
    assert_eq!(names(), ["pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-merge"]);
}

#[test]
fn a_base_that_nobody_has_checked_out_moves_safely() {
    let env = Env::new();
    let repo = env.repo("x");
    for name in ["merge", "squash", "ff-only"] {
        agent(&repo, name, &format!("{name}.txt"), "text\n");
    }
    repo.git(&["switch", "--quiet", "-c", "elsewhere"]);
    repo.write("README.md", "# Dirty\n");
    let before = status(&repo);
    for name in ["ff-only", "merge", "squash"] {
        let old = repo.tip("refs/heads/main");
        let out = repo.agents(&["land", &format!("--{name}"), name]).ok();
        assert!(out.stderr.contains("undo: git update-ref refs/heads/main "), "{out}");
        assert_eq!(repo.git(&["rev-parse", "main^"]), old);
        assert!(repo.has(&format!("main:{name}.txt")));
        assert_eq!(status(&repo), before);
        repo_invariants(&repo);
        assert_eq!(repo.status()["unmanaged"], json!([]));
    }
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "");
    let places = std::fs::read_dir(env.root().join("code/x.agents")).unwrap().count();
    assert_eq!(places, 0, "a worktree was left");
}

#[test]
fn it_lands_where_the_base_is_checked_out_whoever_asks_from_where() {
    let env = Env::new();
    let repo = env.repo("x");
    let release = Repo::at(&env, env.root().join("code/release"));
    repo.git(&["worktree", "add", "--quiet", "-b", "release/2", release.path().to_str().unwrap()]);
    let out = repo.agents(&["new", "k", "--base", "release/2"]).ok();
    let k = Repo::at(&env, out.stdout.trim_end());
    k.write("k.txt", "k\n");
    k.commit("K");
    let main = repo.tip("main");
    release.write("README.md", "# Dirty\n");
    // From inside its own place, too.
    repo.agents_in(k.path(), &["land", "@"]).ok();
    assert!(release.join("k.txt").exists() && !repo.join("k.txt").exists());
    assert_eq!((release.read("README.md").as_str(), repo.tip("main")), ("# Dirty\n", main));
    assert_eq!(release.git(&["status", "--porcelain"]), " M README.md");
}

#[test]
fn whoever_runs_or_is_half_done_does_not_land() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.start(&[("busy", "WRITE: a.txt: a\nCOMMIT: A\nWAITFILE: /go-on")], &[]);
    repo.reaches("busy", "running");
    env.until("it has committed", || repo.git(&["rev-list", "--count", "main..agents/busy"]) == "1");
    repo.agent("fresh");
    let half = agent(&repo, "half", "h.txt", "h\n");
    half.git(&["bisect", "start"]);
    let good = agent(&repo, "good", "g.txt", "g\n");
    let (before, main) = (status(&repo), repo.tip("HEAD"));
    for (name, words) in
        [("busy", "'busy' is running"), ("fresh", "no commit of its own"), ("half", "in the middle of a bisect")]
    {
        let out = repo.agents(&["land", name]).code(1);
        assert!(out.stderr.contains(words), "{out}");
        assert_eq!((status(&repo), repo.tip("HEAD")), (before.clone(), main.clone()));
    }
    // A merge of one's own in the base's checkout.
    repo.git(&["branch", "side", "HEAD~1"]);
    repo.git(&["merge", "--no-ff", "--no-commit", "half"]);
    let out = repo.agents(&["land", "good"]).code(1);
    assert!(out.stderr.contains("in the middle of a merge"), "{out}");
    assert!(repo.join(".git/MERGE_HEAD").exists() && good.join("g.txt").exists());
    repo.git(&["merge", "--abort"]);
    // Inside an agent nobody decides.
    let mut inside = env.agents_command(repo.path(), &["land", "good"]);
    inside.env("AGENTS_NAME", "busy");
    let out = crate::support::env::run(inside, b"").code(128);
    assert!(out.stderr.contains("inside an agent"), "{out}");
    repo.agents(&["stop", "busy"]).ok();
}

#[test]
fn several_land_in_the_best_order_and_the_first_that_does_not_go_ends_it() {
    let env = Env::new();
    let repo = env.repo("x");
    // 'wide' meets both others.
    let wide = repo.agent("wide");
    wide.write("src/b.txt", "1\ntwo\n3\n");
    wide.commit("Wide");
    agent(&repo, "left", "src/b.txt", "one!\ntwo\nthree\n");
    agent(&repo, "free", "free.txt", "f\n");
    let out = repo.agents(&["land", "--json", "wide", "left", "free"]).code(1);
    let all = results(&out);
    let of = |name: &str| all.iter().find(|r| r.0 == name).cloned().unwrap();
    assert_eq!(of("free").1, "done", "{out}");
    let outcomes: Vec<&str> = all.iter().map(|r| r.1.as_str()).collect();
    assert_eq!(outcomes, ["done", "done", "kept"], "{out}");
    assert!(all[2].2.contains("conflicts with") && all[2].2.contains("src/b.txt"), "{out}");
    assert_eq!(repo.git(&["rev-list", "--count", "--merges", "HEAD"]), "2");
    // A hook that says no at the second: the first stays, the third is not tried.
    for name in ["one", "two", "three"] {
        agent(&repo, name, &format!("{name}.txt"), "x\n");
    }
    let text = "#!/bin/sh\n! git diff --cached --name-only HEAD | grep -q two\n";
    env.script_at(&repo.join(".git/hooks/pre-merge-commit"), text);
    let out = repo.agents(&["land", "--json", "one", "two", "three"]).code(128);
    let all = results(&out);
    let outcomes: Vec<(&str, &str)> = all.iter().map(|r| (r.0.as_str(), r.1.as_str())).collect();
    assert_eq!(outcomes, [("one", "done"), ("two", "failed"), ("three", "kept")], "{out}");
    assert!(all[2].2.contains("was not tried: 'two' did not land"), "{out}");
    assert!(repo.join("one.txt").exists() && !repo.join("two.txt").exists() && !repo.join("three.txt").exists());
    repo_invariants(&repo);
}

#[test]
fn what_was_begun_on_top_of_another_lands_after_it() {
    let env = Env::new();
    let repo = env.repo("x");
    let tasks = [("first", "WRITE: a.txt: a\nCOMMIT: A"), ("second after=1", "WRITE: b.txt: b\nCOMMIT: B")];
    repo.run(&tasks, &["-q"]).ok();
    repo.agents(&["land", "second", "first"]).ok();
    let subjects = repo.git(&["log", "--first-parent", "-2", "--format=%s"]);
    assert_eq!(subjects, "Merge second: Do second\nMerge first: Do first");
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "");
}

#[test]
fn only_what_passes_lands() {
    let env = Env::new();
    let repo = env.repo("x");
    agent(&repo, "a", "a.txt", "a\n");
    agent(&repo, "b", "b.txt", "b\n");
    // Each alone passes; both together do not.
    let test = "test -e src/a.txt && ! { test -e a.txt && test -e b.txt; }";
    let out = repo.agents(&["land", "--json", "--test", test, "a", "b"]).code(1);
    let all = results(&out);
    assert_eq!((all[0].1.as_str(), all[1].1.as_str()), ("done", "kept"), "{out}");
    assert!(all[1].2.contains("'b' on 'main' does not pass"), "{out}");
    assert!(repo.join("a.txt").exists() && !repo.join("b.txt").exists());
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    repo.agents(&["land", "--squash", "--test", "test -e a.txt && test -e b.txt", "b"]).ok();
    repo_invariants(&repo);
}

#[test]
fn a_test_that_failed_left_the_branch_rebased() {
    let env = Env::new();
    let repo = env.repo("x");
    let k = agent(&repo, "k", "k.txt", "k\n");
    repo.write("base.txt", "moved\n");
    let main = repo.commit("Moved");
    let (before, at) = (status(&repo), (k.tip("HEAD"), status(&k), repo.git(&["config", "agent.k.fork"])));
    let stands = || {
        untouched(&repo, &before, &main);
        assert_eq!((k.tip("HEAD"), status(&k), repo.git(&["config", "agent.k.fork"])), at);
    };
    // It is the result that is tested: neither side has both.
    let out = repo.agents(&["land", "--rebase", "--test", "test -e k.txt && ! test -e base.txt", "k"]).code(1);
    assert!(out.stderr.contains("'k' on 'main' does not pass"), "{out}");
    stands();
    let out = repo.agents(&["land", "--rebase", "--test", "test -e k.txt && test -e base.txt", "k"]).ok();
    assert_eq!(out.stderr.matches("testing").count(), 1, "{out}");
    assert_eq!((repo.tip("HEAD~1"), repo.read("k.txt")), (main.clone(), "k\n".into()));
    repo_invariants(&repo);
}

#[test]
fn commits_are_signed_as_set() {
    let env = Env::new();
    let repo = env.repo("x");
    let gpg = env.script("sign", "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\nprintf -- '-----BEGIN PGP SIGNATURE-----\\nx\\n-----END PGP SIGNATURE-----\\n'\n");
    repo.git(&["config", "commit.gpgSign", "true"]);
    repo.git(&["config", "gpg.program", gpg.to_str().unwrap()]);
    for (style, name) in [("--merge", "m"), ("--squash", "s")] {
        agent(&repo, name, &format!("{name}.txt"), "x\n");
        repo.agents(&["land", style, name]).ok();
        let commit = repo.git(&["cat-file", "commit", "HEAD"]);
        assert!(commit.contains("gpgsig "), "{style}: {commit}");
    }
}

#[test]
fn options_of_the_users_do_not_make_something_else_of_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.set("branch.main.mergeOptions", "--squash --no-commit --autostash");
    repo.set("merge.ff", "only");
    repo.set("merge.autoStash", "true");
    repo.set("commit.cleanup", "strip");
    repo.set("fetch.prune", "true");
    agent(&repo, "k", "k.txt", "k\n");
    agent(&repo, "l", "l.txt", "l\n");
    agent(&repo, "m", "m.txt", "m\n");
    repo.write("README.md", "# Dirty\n");
    repo.agents(&["land", "k"]).ok();
    assert_eq!(repo.git(&["rev-list", "--parents", "-1", "HEAD"]).split(' ').count(), 3);
    repo.agents(&["land", "--squash", "l"]).ok();
    assert_eq!(repo.git(&["status", "--porcelain"]), " M README.md");
    assert_eq!(repo.git(&["stash", "list"]), "");
    repo.git(&["switch", "--quiet", "--detach"]);
    repo.agents(&["land", "m"]).ok();
    assert!(repo.has("main:m.txt"));
}

#[test]
fn a_tag_with_the_branchs_name_is_not_what_lands() {
    let env = Env::new();
    let repo = env.repo("x");
    agent(&repo, "k", "k.txt", "k\n");
    repo.git(&["tag", "k", "HEAD~1"]);
    repo.git(&["tag", "main", "HEAD~2"]);
    let tip = repo.tip("refs/heads/k");
    repo.agents(&["land", "k"]).ok();
    assert_eq!(repo.git(&["rev-parse", "HEAD^2"]), tip);
    repo.git(&["switch", "--quiet", "--detach"]);
    agent(&repo, "l", "l.txt", "l\n");
}

#[test]
fn work_that_was_landed_and_taken_back_is_no_success_of_the_second_landing() {
    let env = Env::new();
    let repo = env.repo("x");
    let k = agent(&repo, "k", "k.txt", "k\n");
    k.write("left.txt", "not committed\n");
    let out = repo.agents(&["land", "k"]).ok();
    assert!(out.stderr.contains("does not land: left.txt"), "{out}");
    assert!(out.stderr.contains("its environment stays (uncommitted files: left.txt)"), "{out}");
    let out = repo.agents(&["land", "k"]).ok();
    assert!(out.stderr.contains("had landed before"), "{out}");
    repo.git(&["revert", "--no-edit", "-m", "1", "HEAD"]);
    let out = repo.agents(&["land", "k"]).code(1);
    assert!(out.stderr.contains("was taken back"), "{out}");
    // More of it lands again.
    k.commit("Left over");
    repo.agents(&["land", "k"]).ok();
    assert!(repo.join("left.txt").exists());
}

#[test]
fn the_base_is_brought_forward_to_its_upstream_first() {
    let env = Env::new();
    let origin = env.repo("origin");
    origin.git(&["config", "receive.denyCurrentBranch", "ignore"]);
    let path = env.root().join("code/x");
    origin.git(&["clone", "--quiet", origin.path().to_str().unwrap(), path.to_str().unwrap()]);
    let repo = Repo::at(&env, path);
    agent(&repo, "k", "k.txt", "k\n");
    agent(&repo, "l", "l.txt", "l\n");
    origin.write("theirs.txt", "x\n");
    origin.commit("Theirs");
    repo.git(&["fetch", "--quiet"]);
    let out = repo.agents(&["land", "--dry-run", "k"]).ok();
    assert!(out.stderr.contains("'main' is behind 'origin/main'"), "{out}");
    repo.write("README.md", "# Dirty\n");
    repo.agents(&["land", "--fetch", "k"]).ok();
    assert_eq!(repo.git(&["rev-parse", "HEAD^1"]), origin.tip("HEAD"));
    assert!(repo.join("theirs.txt").exists() && repo.join("k.txt").exists());
    assert_eq!(repo.git(&["status", "--porcelain"]), " M README.md");
    repo_invariants(&repo);
}

#[test]
fn an_adopted_branch_lands_and_stays() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["branch", "theirs"]);
    repo.agents(&["adopt", "-q", "theirs"]).ok();
    let place = repo.worktree("theirs");
    place.write("t.txt", "t\n");
    place.commit("T");
    let out = repo.agents(&["land", "theirs"]).ok();
    assert!(out.stderr.contains("its environment stays (it was adopted)"), "{out}");
    assert!(place.join("t.txt").exists() && repo.has("refs/heads/theirs"));
}

#[test]
fn the_message_is_edited_before_anything_lands() {
    let env = Env::new();
    let repo = env.repo("x");
    agent(&repo, "k", "k.txt", "k\n");
    let editor = env.script("editor", "#!/bin/sh\ngrep -q '^Agent: k' \"$1\" || exit 1\necho 'By hand' >\"$1\"\n");
    let with = |editor: &str| {
        let mut command = env.agents_command(repo.path(), &["land", "--edit", "k"]);
        command.env("GIT_EDITOR", editor);
        crate::support::env::run(command, b"")
    };
    let main = repo.tip("HEAD");
    with("false").code(128);
    with("truncate -s 0").code(128);
    assert_eq!(repo.tip("HEAD"), main);
    with(editor.to_str().unwrap()).ok();
    assert_eq!(repo.git(&["log", "-1", "--format=%B"]).trim(), "By hand");
}

#[test]
fn two_landings_at_once_take_turns() {
    let env = Env::new();
    let repo = env.repo("x");
    for name in ["a", "b", "c"] {
        agent(&repo, name, &format!("{name}.txt"), "x\n");
    }
    let all: Vec<_> = ["a", "b", "c"].into_iter().map(|n| repo.spawn(&["land", n])).collect();
    for one in all {
        one.finish(&env).ok();
    }
    assert_eq!(repo.git(&["rev-list", "--count", "--merges", "--first-parent", "HEAD"]), "3");
    assert_eq!(
        (repo.git(&["status", "--porcelain"]).as_str(), repo.agents(&["status", "--names"]).ok().stdout.as_str()),
        ("", "")
    );
    repo_invariants(&repo);
}

#[test]
fn what_a_hook_leaves_running_holds_nobody_up() {
    let env = Env::new();
    let repo = env.repo("x");
    agent(&repo, "k", "k.txt", "k\n");
    env.script_at(&repo.join(".git/hooks/post-merge"), "#!/bin/sh\nsleep 1000 &\n");
    let begun = std::time::Instant::now();
    repo.agents(&["land", "k"]).ok();
    assert!(begun.elapsed().as_secs() < 20);
    // It is a success, and what the user starts is the user's.
    assert!(env.processes().iter().any(|(_, line)| line == "sleep 1000"));
}

/// A landing whose hook waits, in a process group of its own as a shell starts it.
fn waiting<'e>(repo: &Repo<'e>, style: &str, hook: &str) -> crate::support::env::Background {
    let begun = repo.env.root().join("begun");
    let _ = std::fs::remove_file(&begun);
    let script = format!("#!/bin/sh\ntouch '{}'\nsleep 1000\n", begun.display());
    repo.env.script_at(&repo.join(".git/hooks").join(hook), &script);
    let mut command = repo.env.command("git-agents", repo.path());
    command.args(["land", style, "k"]);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let land = crate::support::env::Background::start(repo.env, command);
    repo.env.until("the hook runs", || begun.exists());
    land
}

#[test]
fn ctrl_c_and_a_kill_in_a_hook_leave_the_checkout_as_it_was() {
    use nix::sys::signal::{Signal, killpg};
    let env = Env::new();
    let repo = env.repo("x");
    two_sides(&repo);
    repo.write("README.md", "# Dirty\n");
    repo.write("mine.txt", "untracked\n");
    let (before, main) = (status(&repo), repo.tip("HEAD"));
    for (style, hook) in [("--merge", "pre-merge-commit"), ("--squash", "pre-commit")] {
        let land = waiting(&repo, style, hook);
        killpg(nix::unistd::Pid::from_raw(land.pid()), Signal::SIGINT).unwrap();
        land.finish(&env).code(130);
        env.until("the hook is gone", || env.processes().is_empty());
        untouched(&repo, &before, &main);
        // Nobody is left to take it back: the next command does.
        let land = waiting(&repo, style, hook);
        assert_ne!(status(&repo), before);
        let out = repo.agents(&["rm", "k"]).code(128);
        assert!(out.stderr.contains("land"), "a landing under way is left alone: {out}");
        killpg(nix::unistd::Pid::from_raw(land.pid()), Signal::SIGKILL).unwrap();
        land.finish(&env).code(137);
        env.until("the hook is gone", || env.processes().is_empty());
        assert!(repo.status_of("k")["findings"].to_string().contains("its landing was cut short"));
        repo.repair();
        untouched(&repo, &before, &main);
        std::fs::remove_file(repo.join(".git/hooks").join(hook)).unwrap();
    }
    // What a person has staged since then is theirs.
    let land = waiting(&repo, "--merge", "pre-merge-commit");
    killpg(nix::unistd::Pid::from_raw(land.pid()), Signal::SIGKILL).unwrap();
    land.finish(&env).code(137);
    env.until("the hook is gone", || env.processes().is_empty());
    repo.write("src/a.txt", "a person goes on with it\n");
    repo.git(&["add", "src/a.txt"]);
    let out = repo.agents(&["land", "k"]).code(128);
    assert!(out.stderr.contains("git reset --merge"), "{out}");
    assert_eq!(repo.read("src/a.txt"), "a person goes on with it\n");
    repo.git(&["reset", "--quiet", "--merge"]);
    std::fs::remove_file(repo.join(".git/hooks/pre-merge-commit")).unwrap();
    repo.agents(&["land", "k"]).ok();
}

/// A base and a branch that change files of every kind in each other's neighbourhood.
pub fn two_sides(repo: &Repo<'_>) {
    let k = repo.agent("k");
    k.write("src/a.txt", k.read("src/a.txt").replace("line 50\n", "line fifty\n"));
    k.write("new/deep/file.txt", "new\n".repeat(2000));
    std::fs::remove_file(k.join("src/b.txt")).unwrap();
    k.commit("Work");
    repo.write("src/a.txt", repo.read("src/a.txt").replace("line 5\n", "line five\n"));
    repo.git(&["add", "src/a.txt"]);
    repo.git(&["commit", "--quiet", "-m", "Moved"]);
}

#[test]
fn a_hook_that_formats_and_says_no_left_a_landing_that_nothing_ended() {
    let env = Env::new();
    let repo = env.repo("x");
    agent(&repo, "k", "src/b.txt", "one\n");
    repo.write("README.md", "# Dirty\n");
    let (before, main) = (status(&repo), repo.tip("HEAD"));
    for (style, hook) in [("--merge", "pre-merge-commit"), ("--squash", "pre-commit")] {
        for stage in ["", "git add src/b.txt"] {
            let path = repo.join(".git/hooks").join(hook);
            env.script_at(&path, &format!("#!/bin/sh\necho formatted >>src/b.txt\n{stage}\nexit 1\n"));
            let out = repo.agents(&["land", style, "k"]).code(128);
            assert!(out.stderr.contains("'k' did not land"), "{out}");
            untouched(&repo, &before, &main);
            let kept = out.stderr.split("is kept: git show ").nth(1).unwrap();
            let kept = kept.split_whitespace().next().unwrap();
            assert_eq!(repo.git(&["show", &format!("{kept}:src/b.txt")]), "one\nformatted");
            assert!(repo.git(&["for-each-ref", "--contains", kept]).contains("refs/agents/removed/"));
            std::fs::remove_file(path).unwrap();
        }
    }
    repo.agents(&["land", "k"]).ok();
    repo_invariants(&repo);
}

#[test]
fn what_somebody_staged_while_a_hook_ran_was_thrown_away() {
    let env = Env::new();
    let repo = env.repo("x");
    agent(&repo, "k", "src/b.txt", "one\n");
    let main = repo.tip("HEAD");
    for (style, hook) in [("--merge", "pre-merge-commit"), ("--squash", "pre-commit")] {
        let path = repo.join(".git/hooks").join(hook);
        let script = "echo mine >mine.txt\necho mine >README.md\necho formatted >src/b.txt\ngit add -A\nexit 1";
        env.script_at(&path, &format!("#!/bin/sh\n{script}\n"));
        repo.agents(&["land", style, "k"]).code(128);
        assert_eq!(repo.git(&["status", "--porcelain"]), "M  README.md\nA  mine.txt");
        assert_eq!((repo.read("mine.txt"), repo.tip("HEAD")), ("mine\n".into(), main.clone()));
        std::fs::remove_file(path).unwrap();
        repo.git(&["reset", "--quiet", "--hard"]);
    }
    repo.agents(&["land", "k"]).ok();
}

#[test]
fn what_was_reverted_and_did_not_come_again_with_the_second_landing_counted_as_landed() {
    let env = Env::new();
    let repo = env.repo("x");
    let state = |name: &str| repo.status_of(name)["branch_state"].as_str().unwrap().to_owned();
    // A merge and a fast-forward, of ours and by hand; what came later landed as a merge, or as one commit.
    for (name, first, second) in [
        ("ours", &["agents", "land"][..], "--merge"),
        ("hand", &["merge", "--quiet", "--no-ff", "--no-edit"], "--squash"),
        ("forward", &["agents", "land", "--ff-only"], "--squash"),
        ("hand-forward", &["merge", "--quiet", "--ff-only"], "--merge"),
    ] {
        let k = agent(&repo, name, &format!("{name}-1.txt"), "1\n");
        k.write("left.txt", "so that it stays\n");
        repo.git(&[first, &[name]].concat());
        assert_eq!(state(name), "landed");
        let mainline: &[&str] = if name.contains("forward") { &[] } else { &["-m", "1"] };
        repo.git(&[&["revert", "--no-edit"], mainline, &["HEAD"]].concat());
        let reverted = repo.tip("HEAD");
        k.write(format!("{name}-2.txt"), "2\n");
        k.git(&["add", &format!("{name}-2.txt")]);
        k.git(&["commit", "--quiet", "-m", "More"]);
        repo.agents(&["land", second, name]).ok();
        assert!(!repo.join(format!("{name}-1.txt")).exists() && repo.join(format!("{name}-2.txt")).exists());
        let a = repo.status_of(name);
        assert_ne!(a["branch_state"], "landed", "{a}");
        assert!(a["findings"][0].as_str().unwrap().contains(&format!("taken back by {}", &reverted[..7])), "{a}");
        std::fs::remove_file(k.join("left.txt")).unwrap();
        let cleaned = repo.agents(&["clean"]).ok();
        assert!(k.path().exists(), "{cleaned}");
        // The revert reverted brings it again; so does taking it in as it is.
        if name == "hand" {
            k.git(&["merge", "--quiet", "--no-edit", "main"]);
            k.write("hand-3.txt", "3\n");
            k.commit("Without it");
            repo.git(&["merge", "--quiet", "--no-ff", "--no-edit", "hand"]);
        } else {
            repo.git(&["revert", "--no-edit", &reverted]);
        }
        assert_eq!(state(name), "landed");
        repo.agents(&["clean"]).ok();
        assert!(!k.path().exists());
    }
}

#[test]
fn what_was_reverted_of_the_base_looked_like_the_work_of_a_branch_that_had_been_moved_up_to_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["new", "k"]).ok();
    repo.write("theirs.txt", "1\n");
    repo.commit("Theirs");
    let k = repo.worktree("k");
    k.git(&["merge", "--quiet", "--ff-only", "main"]);
    repo.git(&["revert", "--no-edit", "HEAD"]);
    k.write("mine.txt", "1\n");
    k.commit("Mine");
    repo.git(&["merge", "--quiet", "--no-edit", "k"]);
    assert!(repo.join("mine.txt").exists() && !repo.join("theirs.txt").exists());
    assert_eq!(repo.status_of("k")["branch_state"], "landed");
    repo.agents(&["clean"]).ok();
    assert!(!k.path().exists());
}

#[test]
fn a_base_that_is_checked_out_twice_looked_taken_back_in_one_of_them() {
    let env = Env::new();
    let repo = env.repo("x");
    agent(&repo, "k", "k.txt", "k\n");
    let second = env.root().join("second");
    repo.git(&["worktree", "add", "--quiet", "--force", second.to_str().unwrap(), "main"]);
    let (before, main) = (status(&repo), repo.tip("HEAD"));
    for style in ["--merge", "--squash", "--rebase", "--ff-only"] {
        let out = repo.agents(&["land", style, "k"]).code(1);
        assert!(out.stderr.contains("'main' is checked out twice"), "{out}");
        untouched(&repo, &before, &main);
    }
    repo.git(&["-C", second.to_str().unwrap(), "switch", "--quiet", "--detach"]);
    repo.agents(&["land", "k"]).ok();
}

#[test]
fn a_merge_that_git_gave_up_staged_what_was_not_committed() {
    let env = Env::new();
    let repo = env.repo("x");
    two_sides(&repo);
    repo.write("README.md", "not committed\n");
    let before = repo.git(&["status", "--porcelain"]);
    let in_the_way = repo.join(".git/AUTO_MERGE");
    for style in ["--squash", "--merge"] {
        let _ = std::fs::remove_file(&in_the_way);
        std::fs::create_dir_all(in_the_way.join("x")).unwrap();
        std::fs::write(in_the_way.join("x/y"), "").unwrap();
        let out = repo.agents(&["land", style, "k"]).code(128);
        assert!(out.stderr.contains("AUTO_MERGE"), "{out}");
        std::fs::remove_dir_all(&in_the_way).unwrap();
        assert_eq!(repo.git(&["status", "--porcelain"]), before, "{out}");
    }
    repo.agents(&["land", "k"]).ok();
}
