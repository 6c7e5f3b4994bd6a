//! Publishing branches: what leaves the machine, where to, and what a forge is told.

use crate::support::env::run;
use crate::support::{Env, Out, Repo, repo_invariants};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A repository with an empty bare remote `origin`.
fn with_remote<'e>(env: &'e Env, name: &str) -> (Repo<'e>, Repo<'e>) {
    let repo = env.repo("x");
    let remote = add_remote(&repo, name);
    (repo, remote)
}

fn add_remote<'e>(repo: &Repo<'e>, name: &str) -> Repo<'e> {
    let path = repo.env.root().join(format!("{name}.git"));
    repo.git(&["init", "--quiet", "--bare", path.to_str().unwrap()]);
    repo.git(&["remote", "add", name, path.to_str().unwrap()]);
    Repo::at(repo.env, path)
}

fn refs(remote: &Repo<'_>) -> String {
    remote.git(&["for-each-ref", "--format=%(refname)"])
}

fn outcome(out: &Out) -> (String, String) {
    let r = out.json()["results"][0].clone();
    (r["outcome"].as_str().unwrap().to_owned(), r["reason"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn one_branch_is_published_with_its_upstream_and_nothing_of_ours() {
    let env = Env::new();
    let (repo, remote) = with_remote(&env, "origin");
    repo.run(&[("export", "WRITE: a.txt: a\nCOMMIT: A"), ("other", "WRITE: b.txt: b\nCOMMIT: B")], &["-q"]).ok();
    repo.git(&["tag", "agents/export", "HEAD~1"]);
    // A mirror's notes, other branches, tags: none of it was asked for.
    repo.set("push.default", "matching");
    repo.set("push.followTags", "true");
    repo.worktree("export").write("left.txt", "not committed\n");
    let dry = repo.agents(&["push", "--dry-run", "export"]).ok();
    assert!(dry.stderr.contains("'agents/export' would be pushed to 'origin'"), "{dry}");
    assert_eq!(refs(&remote), "");
    let out = repo.agents(&["push", "--json", "export"]).ok();
    assert_eq!(outcome(&out), ("done".into(), String::new()));
    assert!(out.stderr.contains("not committed and not pushed: left.txt"), "{out}");
    assert_eq!(refs(&remote), "refs/heads/agents/export");
    assert_eq!(remote.tip("refs/heads/agents/export"), repo.tip("refs/heads/agents/export"));
    assert_eq!(repo.status_of("export")["upstream"], "origin/agents/export");
    assert_eq!(repo.status_of("other")["upstream"], Value::Null);
    assert_eq!(repo.git(&["config", "branch.agents/export.merge"]), "refs/heads/agents/export");
    // Again: nothing to do is no error.
    repo.agents(&["push", "export"]).ok();
    repo_invariants(&repo);
}

#[test]
fn where_to_is_decided_as_git_does() {
    let env = Env::new();
    let (repo, one) = with_remote(&env, "one");
    let k = repo.agent("k");
    k.write("k.txt", "k\n");
    k.commit("K");
    repo.agents(&["push", "k"]).ok();
    assert_eq!(refs(&one), "refs/heads/k");
    let two = add_remote(&repo, "two");
    let l = repo.agent("l");
    l.write("l.txt", "l\n");
    l.commit("L");
    let out = repo.agents(&["push", "l"]).code(128);
    assert!(out.stderr.contains("several remotes: one, two") && out.stderr.contains("--remote"), "{out}");
    repo.agents(&["push", "--remote", "two", "l"]).ok();
    assert_eq!(refs(&two), "refs/heads/l");
    let out = repo.agents(&["push", "--remote", "--upload-pack=touch pwned", "l"]);
    assert!(out.status == 128 || out.status == 129, "{out}");
    repo.set("remote.pushDefault", "two");
    repo.agents(&["push", "k"]).ok();
    assert_eq!(refs(&two), "refs/heads/k\nrefs/heads/l");
    repo.set("branch.k.pushRemote", "one");
    repo.set("remote.pushDefault", "nowhere");
    k.commit("More");
    repo.agents(&["push", "k"]).ok();
    assert_eq!(one.tip("refs/heads/k"), repo.tip("refs/heads/k"));
    let alone = env.repo("alone");
    let a = alone.agent("a");
    a.write("a.txt", "a\n");
    a.commit("A");
    let out = alone.agents(&["push", "a"]).code(128);
    assert!(out.stderr.contains("no remote") && out.stderr.contains("git remote add"), "{out}");
}

#[test]
fn what_is_half_done_or_empty_stays_here() {
    let env = Env::new();
    let (repo, remote) = with_remote(&env, "origin");
    repo.agent("fresh");
    repo.start(&[("busy", "WRITE: a.txt: a\nCOMMIT: A\nWAITFILE: /go-on")], &[]);
    repo.reaches("busy", "running");
    for (name, words) in [("fresh", "no commit of its own"), ("busy", "is running")] {
        let out = repo.agents(&["push", name]).code(1);
        assert!(out.stderr.contains(words), "{out}");
    }
    assert_eq!(refs(&remote), "");
    let mut inside = env.agents_command(repo.path(), &["push", "fresh"]);
    inside.env("AGENTS_NAME", "busy");
    assert!(run(inside, b"").code(128).stderr.contains("inside an agent"));
    repo.agents(&["stop", "busy"]).ok();
}

#[test]
fn a_hook_that_says_no_and_a_branch_that_moved_there_are_told_in_gits_words() {
    let env = Env::new();
    let (repo, remote) = with_remote(&env, "origin");
    let k = repo.agent("k");
    k.write("k.txt", "k\n");
    k.commit("K");
    let hook = repo.join(".git/hooks/pre-push");
    env.script_at(&hook, "#!/bin/sh\necho \"not to $1\" >&2\nexit 1\n");
    let out = repo.agents(&["push", "--json", "k"]).code(128);
    let (what, why) = outcome(&out);
    assert!(what == "failed" && why.contains("not to origin"), "{out}");
    assert_eq!(refs(&remote), "");
    assert_eq!(repo.status_of("k")["upstream"], Value::Null);
    std::fs::remove_file(&hook).unwrap();
    repo.agents(&["push", "k"]).ok();
    // Rebased since: never by force, but the command that does it safely is said, and works.
    k.git(&["commit", "--quiet", "--amend", "-m", "K again"]);
    let there = remote.tip("refs/heads/k");
    let out = repo.agents(&["push", "k"]).code(128);
    assert!(out.stderr.contains("'k' was not pushed: ") && out.stderr.contains("force-with-lease=k:"), "{out}");
    assert_eq!(remote.tip("refs/heads/k"), there);
    let command = out.stderr.lines().find_map(|l| l.split_once("rebased: '")).unwrap().1.trim_end_matches('\'');
    let mut sh = env.command("sh", repo.path());
    sh.args(["-c", command]);
    run(sh, b"").ok();
    assert_eq!(remote.tip("refs/heads/k"), repo.tip("refs/heads/k"));
}

/// A stand-in for a program that opens requests: it keeps its arguments, its input and its variables.
fn stand_in(env: &Env, name: &str, then: &str) -> PathBuf {
    let to = env.root().join(format!("asked-{name}"));
    let at = to.display();
    let text = format!(
        "#!/bin/sh\nfor a in \"$@\"; do printf '%s\\n' \"$a\"; done >'{at}.args'\ncat >'{at}.body'\n\
         env | grep -E '^(AGENTS_|GIT_)' >'{at}.env'\n{then}\n"
    );
    env.script(name, &text);
    to
}

fn kept(to: &Path, what: &str) -> String {
    std::fs::read_to_string(format!("{}.{what}", to.display())).unwrap_or_default()
}

#[test]
fn a_request_is_opened_by_the_users_own_command_with_the_report_as_its_text() {
    let env = Env::new();
    let (repo, remote) = with_remote(&env, "origin");
    repo.run(&[("export", "WRITE: a.txt: a\nCOMMIT: Add `a`\nSAY: All done, I swear")], &["-q"]).ok();
    let asked = stand_in(&env, "ask", "echo https://example.org/1");
    repo.git(&[
        "config",
        "--global",
        "agents.prCommand",
        "ask \"$AGENTS_TITLE\" --from \"$AGENTS_BRANCH\" --to $AGENTS_BASE",
    ]);
    let dry = repo.agents(&["push", "--pr", "--dry-run", "export"]).ok();
    assert!(dry.stderr.contains("then would run: ask ") && refs(&remote).is_empty(), "{dry}");
    let out = repo.agents(&["push", "--pr", "export"]).ok();
    assert_eq!(out.stdout, "https://example.org/1\n");
    assert_eq!(refs(&remote), "refs/heads/agents/export");
    assert_eq!(kept(&asked, "args"), "Do export\n--from\nagents/export\n--to\nmain\n");
    let body = kept(&asked, "body");
    for words in [
        "> All done, I swear",
        "1 commit, 1 file +1 -0",
        "- `Add 'a'`",
        "- `a.txt` +1 -0",
        "Agent `export` by scripted, task ",
    ] {
        assert!(body.contains(words), "{words}\n{body}");
    }
    // Nothing of this machine.
    assert!(!body.contains(env.root().to_str().unwrap()), "{body}");
    let variables = kept(&asked, "env");
    assert!(variables.contains("AGENTS_REMOTE=origin") && !variables.contains("GIT_DIR="), "{variables}");
    let out = repo.agents(&["push", "--pr", "--json", "export"]).ok();
    assert!(out.stderr.contains("https://example.org/1"), "{out}");
}

#[test]
fn a_repository_cannot_say_what_opens_a_request() {
    let env = Env::new();
    let (repo, _) = with_remote(&env, "origin");
    let k = repo.agent("k");
    k.write("k.txt", "k\n");
    k.commit("K");
    let pwned = env.root().join("pwned");
    repo.set("agents.prCommand", &format!("touch '{}'", pwned.display()));
    let gh = stand_in(&env, "gh", "echo opened");
    let out = repo.agents(&["push", "--pr", "k"]).ok();
    assert!(!pwned.exists() && out.stderr.contains("agents.prCommand"), "{out}");
    assert_eq!(kept(&gh, "args").lines().take(2).collect::<Vec<_>>(), ["pr", "create"]);
}

#[test]
fn the_program_of_the_forge_is_found_by_the_remotes_address() {
    let env = Env::new();
    let (repo, remote) = with_remote(&env, "origin");
    let k = repo.agent("k");
    k.write("k.txt", "k\n");
    k.commit("A title; $(touch pwned)");
    let gh = stand_in(&env, "gh", "echo 'a pull request for branch \"k\" already exists' >&2; exit 1");
    let out = repo.agents(&["push", "--pr", "k"]).ok();
    assert!(out.stderr.contains("already exists"), "{out}");
    assert_eq!(
        kept(&gh, "args"),
        "pr\ncreate\n--head\nk\n--base\nmain\n--title\nA title; $(touch pwned)\n--body-file\n-\n"
    );
    assert!(kept(&gh, "body").contains("1 commit"));
    let glab = stand_in(&env, "glab", "echo broken >&2; exit 3");
    // An address that says what forge it is; what is pushed goes to the same place.
    let there = remote.path().to_str().unwrap().to_owned();
    repo.set(&format!("url.{there}.insteadOf"), "https://gitlab.example.org/x.git");
    repo.set("remote.origin.url", "https://gitlab.example.org/x.git");
    let out = repo.agents(&["push", "--pr", "--json", "k"]).code(128);
    let (what, why) = outcome(&out);
    assert!(what == "failed" && why.contains("'k' is pushed") && why.contains("exited with 3: broken"), "{out}");
    let args = kept(&glab, "args");
    assert!(args.starts_with("mr\ncreate\n--yes\n--source-branch\nk\n--target-branch\nmain\n"), "{args}");
    assert!(args.contains("--description\n1 commit, 1 file"), "{args}");
    assert!(!repo.join("pwned").exists());
    // Neither is there.
    for name in ["gh", "glab"] {
        std::fs::remove_file(env.root().join("bin").join(name)).unwrap();
    }
    let out = repo.agents(&["push", "--pr", "k"]).code(128);
    assert!(out.stderr.contains("agents.prCommand"), "{out}");
}

#[test]
fn the_report_names_the_commands_that_there_are() {
    let env = Env::new();
    let (repo, remote) = with_remote(&env, "upstream");
    let tasks = [("one", "WRITE: a.txt: a\nCOMMIT: A"), ("two", "WRITE: b.txt: b\nCOMMIT: B")];
    repo.run(&tasks, &["-q"]).ok();
    let report = repo.agents(&["report", "--json"]).ok().json();
    let commands = &report["agents"][0]["commands"];
    assert_eq!((&commands["take"], &commands["push"]), (&json!("git agents land one"), &json!("git agents push one")));
    assert_eq!(
        (&report["land"], &report["push"]),
        (&json!("git agents land one two"), &json!("git agents push one two"))
    );
    let sh = |line: &Value| {
        let mut sh = env.command("sh", repo.path());
        sh.args(["-c", line.as_str().unwrap()]);
        run(sh, b"").ok()
    };
    sh(&report["push"]);
    assert_eq!(refs(&remote), "refs/heads/agents/one\nrefs/heads/agents/two");
    sh(&report["land"]);
    assert!(repo.join("a.txt").exists() && repo.join("b.txt").exists());
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "");
}
