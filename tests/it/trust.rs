//! Nothing of a repository runs before it is approved, and nothing else than what was approved.

use crate::support::{Env, Repo, env::run, terminal};
use std::path::PathBuf;

/// Where a command of the repository leaves its mark.
fn marks(env: &Env) -> PathBuf {
    let dir = env.root().join("marks");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// The marks that are there, which are taken away.
fn take_marks(env: &Env) -> Vec<String> {
    let names = std::fs::read_dir(marks(env)).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.iter().for_each(|n| std::fs::remove_file(marks(env).join(n)).unwrap());
    names.sort();
    names
}

/// A clone of what somebody else wrote: a file of ours that wants to run things, and all that git can be made to run
/// by what is in a tree.
fn stranger<'e>(env: &'e Env, name: &str) -> Repo<'e> {
    let origin = env.repo("origin");
    let mark = |what: &str| format!("touch '{}/{what}'", marks(env).display());
    let toml = format!(
        "[worktree]\nsubmodules = 'recursive'\ncopy = ['.env*']\n[setup]\nrun = [\"{}\", ['sh', './scripts/setup.sh']]\n\
         [assistants.theirs]\ncommand = \"{}\"\n[assistants.scripted]\nenv = {{ BASH_ENV = \"$({})\" }}\n\
         [cleanup]\nthrow-away = ['*.log']\n",
        mark("setup"),
        mark("assistant"),
        mark("env"),
    );
    origin.write(".git-agents.toml", toml);
    origin.write("scripts/setup.sh", mark("script"));
    origin.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    origin.write(
        ".gitmodules",
        format!("[submodule \"s\"]\n\tpath = s\n\turl = ext::sh -c {}\n\tupdate = !{}\n", mark("url"), mark("update")),
    );
    origin.write(".gitconfig", format!("[core]\n\tfsmonitor = {}\n", mark("gitconfig")));
    for hook in ["post-checkout", "pre-commit", "post-merge"] {
        origin.write(format!(".githooks/{hook}"), format!("#!/bin/sh\n{}\n", mark("hook")));
    }
    origin.write(".worktreeinclude", "*.secret\n");
    origin.commit("theirs");
    let tip = origin.tip("HEAD");
    origin.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{tip},s")]);
    origin.git(&["commit", "-q", "-m", "a submodule"]);
    let path = env.root().join("code").join(name);
    origin.git(&["clone", "-q", ".", path.to_str().unwrap()]);
    Repo::at(env, path)
}

#[test]
fn nothing_of_a_fresh_clone_runs_whatever_is_called() {
    let env = Env::new();
    let repo = stranger(&env, "x");
    repo.git(&["branch", "side"]);
    repo.write(".env", "SECRET=1\n");
    let out = repo.agents(&["new", "feature"]).code(128);
    assert!(out.stderr.contains("have not approved"), "{out}");
    repo.agents(&["new", "-q", "--no-setup", "feature"]).ok();
    repo.agents(&["new", "-q", "--no-setup", "other"]).ok();
    assert_eq!(take_marks(&env), [""; 0]);
    let refused = [
        &["new", "more"][..],
        &["run", "-a", "scripted", "WRITE: a.txt: a"],
        &["run", "-a", "theirs", "x"],
        &["run", "--dry-run", "-a", "theirs", "x"],
        &["adopt", "side"],
        &["send", "feature", "x"],
        &["retry", "feature"],
        &["attach", "feature"],
        &["attach", "--yes", "-a", "theirs", "feature"],
        &["new", "--attach", "theirs", "more"],
        &["trust"],
    ];
    let shown = [
        &[][..],
        &["status", "--json"],
        &["show", "feature"],
        &["logs", "feature"],
        &["path", "feature"],
        &["exec", "feature", "--", "git", "status"],
        &["report", "--all"],
        &["stop", "--all"],
        &["wait", "feature"],
        &["restore", "--list"],
        &["trust", "--show"],
        &["rm", "--dry-run", "feature"],
        &["rm", "feature"],
        &["restore", "feature"],
        &["undo"],
        &["rm", "-D", "feature"],
        &["restore", "--last"],
        &["shell-init", "bash"],
        &["-h"],
    ];
    for args in refused {
        let out = repo.agents(args).code(128);
        assert!(out.stdout.is_empty(), "{out}");
        // With a terminal a person is asked, and says nothing: nothing is done.
        let out = terminal::agents(&env, repo.path(), args, &[]);
        assert!(out.status == 128 || out.status == 1, "{out}");
    }
    for args in shown {
        repo.agents(args);
        terminal::agents(&env, repo.path(), args, &[("GIT_PAGER", "cat")]);
    }
    assert_eq!(take_marks(&env), [""; 0]);
    let names = repo.agents(&["status", "--names"]).ok().stdout;
    assert_eq!(names.lines().collect::<Vec<_>>(), ["other", "feature"]);
    // The same from within an agent's place, and told to be elsewhere.
    let there = env.root().join("code/x.agents/other");
    for args in
        [&["status"][..], &["report", "--all"], &["new", "more"], &["run", "-a", "theirs", "x"], &["trust", "--show"]]
    {
        repo.agents_in(&there, args);
        repo.agents_in(env.root(), &[&["-C", "code/x"], args].concat());
    }
    assert_eq!(take_marks(&env), [""; 0]);
}

#[test]
fn what_was_approved_runs_and_every_change_asks_again() {
    let env = Env::new();
    let repo = env.repo("x");
    let mark = |what: &str| format!("touch '{}/{what}'", marks(&env).display());
    repo.write("scripts/setup.sh", mark("script"));
    let toml = |command: &str| {
        repo.write(".git-agents.toml", format!("[setup]\nrun = [\"{command}\", ['sh', 'scripts/setup.sh']]\n"));
        repo.commit("settings");
    };
    toml(&mark("one"));
    let approved = |name: &str, marks: &[&str]| {
        repo.agents(&["new", "-q", name]).ok();
        assert_eq!(take_marks(&env), marks);
    };
    let refused = |words: &str| {
        let out = repo.agents(&["new", "never"]).code(128);
        assert!(out.stderr.contains(words) && out.stderr.contains("git agents trust"), "wanted {words}\n{out}");
        assert_eq!(take_marks(&env), [""; 0]);
        let show = repo.agents(&["trust", "--show"]).code(1);
        assert!(show.stdout.contains("setup.run[0]") && show.stderr.contains("not approved"), "{show}");
    };
    refused("have not approved");
    // Nobody is here to be asked.
    assert!(repo.agents(&["trust"]).code(128).stderr.contains("--yes"));
    refused("have not approved");
    let out = repo.agents(&["trust", "--yes"]).ok();
    assert!(
        out.stderr.contains("scripts/setup.sh sha256:") && out.stderr.contains("undo: git agents trust --revoke"),
        "{out}"
    );
    approved("first", &["one", "script"]);
    let show = repo.agents(&["trust", "--show"]).ok();
    assert!(show.stdout.contains("scripts/setup.sh") && show.stderr.contains("approved"), "{show}");
    assert!(repo.agents(&["trust"]).ok().stderr.contains("nothing to approve"));
    // Another command: only what is different is shown.
    toml(&mark("two"));
    refused("changed what it runs");
    let out = repo.agents(&["new", "never"]).code(128);
    assert!(out.stderr.contains("-setup.run[0]") && out.stderr.contains("+setup.run[0]"), "{out}");
    toml(&mark("one"));
    approved("second", &["one", "script"]);
    // The same command, another script.
    repo.write("scripts/setup.sh", mark("evil"));
    repo.commit("scripts");
    refused("changed what it runs");
    repo.agents(&["trust", "--yes"]).ok();
    approved("third", &["evil", "one"]);
    // A base whose script is another one than that which was approved.
    let out = repo.agents(&["new", "--base", "main~1", "older"]).code(128);
    assert!(out.stderr.contains("not as approved"), "{out}");
    assert_eq!(take_marks(&env), [""; 0]);
    repo.agents(&["rm", "-q", "older"]).ok();
    // What was approved for this repository says nothing about a copy.
    let copy = env.root().join("code/copy");
    let mut cp = env.command("cp", env.root());
    cp.args(["-a"]).arg(repo.path()).arg(&copy);
    run(cp, b"").ok();
    std::fs::remove_dir_all(copy.join(".git/agents")).unwrap();
    assert!(repo.agents_in(&copy, &["new", "never"]).code(128).stderr.contains("have not approved"));
    repo.agents(&["trust", "--revoke"]).ok();
    refused("have not approved");
    repo.agents(&["new", "-q", "--no-setup", "fourth"]).ok();
    assert_eq!(take_marks(&env), [""; 0]);
    // On a terminal a person may say yes.
    let mut command = env.command("script", repo.path());
    command.args(["-q", "-e", "-c", "git agents trust", "/dev/null"]).env("TERM", "xterm");
    run(command, b"y\n").ok();
    approved("fifth", &["evil", "one"]);
}

#[test]
fn what_an_assistant_writes_into_its_worktree_is_approved_by_nobody() {
    let env = Env::new();
    let repo = env.repo("x");
    let mark = |what: &str| format!("touch '{}/{what}'", marks(&env).display());
    repo.write("bin/assistant", format!("#!/bin/sh\n{}\necho work >>work.txt\n", mark("approved")));
    run(
        {
            let mut c = env.command("chmod", repo.path());
            c.args(["+x", "bin/assistant"]);
            c
        },
        b"",
    )
    .ok();
    repo.write(
        ".git-agents.toml",
        format!(
            "[setup]\nrun = [\"{}\"]\n[assistants.theirs]\ncommand = ['./bin/assistant', '{{{{ prompt_file }}}}']\n",
            mark("setup")
        ),
    );
    repo.commit("settings");
    repo.agents(&["trust", "--yes"]).ok();
    repo.agents(&["run", "-q", "-a", "theirs", "first"]).ok();
    assert_eq!(take_marks(&env), ["approved", "setup"]);
    // On its branch the assistant changes the file, the settings and its own program.
    let place = Repo::at(&env, env.root().join("code/x.agents/first"));
    place.write(".git-agents.toml", format!("[setup]\nrun = [\"{}\"]\n", mark("evil-setup")));
    place.write("bin/assistant", format!("#!/bin/sh\n{}\n", mark("evil")));
    place.commit("evil");
    repo.agents(&["retry", "-q", "first"]).ok();
    repo.agents(&["wait", "-q", "first"]).code(1);
    let shown = repo.agents(&["show", "first"]).ok();
    assert!(shown.stdout.contains("'bin/assistant' is not as approved"), "{shown}");
    assert_eq!(take_marks(&env), [""; 0]);
    // Asked from within its worktree, the user's own checkout counts.
    repo.agents_in(place.path(), &["new", "-q", "second"]).ok();
    assert_eq!(take_marks(&env), ["setup"]);
    assert!(repo.agents_in(place.path(), &["trust", "--show"]).ok().stdout.contains("/setup'"));
    // A new one on top of that branch: its program is another one.
    repo.agents(&["run", "-q", "--base", "agents/first", "-a", "theirs", "--retries", "0", "third"]).code(1);
    assert_eq!(take_marks(&env), ["setup"]);
}

/// What a rogue assistant may write where git looks for programs; `DIR` is where the marks go. Only what git itself runs
/// before it starts us is left out: `pager.agents`.
const VECTORS: &[(&str, &str)] = &[
    ("core.fsmonitor", "touch DIR/fsmonitor"),
    ("core.hooksPath", "DIR/../hooks"),
    ("core.pager", "touch DIR/pager"),
    ("core.editor", "touch DIR/editor"),
    ("core.sshCommand", "touch DIR/ssh"),
    ("core.gitProxy", "touch DIR/proxy"),
    ("core.askPass", "DIR/../hooks/askpass"),
    ("core.alternateRefsCommand", "touch DIR/alternate-refs"),
    ("credential.helper", "!touch DIR/credential"),
    ("diff.external", "touch DIR/diff-external"),
    ("diff.evil.command", "touch DIR/diff-command"),
    ("diff.evil.textconv", "touch DIR/textconv"),
    ("merge.evil.driver", "touch DIR/merge-driver"),
    ("merge.default", "evil"),
    ("filter.evil.clean", "touch DIR/clean; cat"),
    ("filter.evil.smudge", "touch DIR/smudge; cat"),
    ("filter.evil.process", "touch DIR/process"),
    ("gpg.program", "DIR/../hooks/gpg"),
    ("commit.gpgSign", "true"),
    ("tag.gpgSign", "true"),
    ("sequence.editor", "touch DIR/sequence"),
    ("interactive.diffFilter", "touch DIR/diff-filter"),
    ("alias.rev-parse", "!touch DIR/alias"),
    ("alias.status", "!touch DIR/alias"),
    ("trailer.x.command", "touch DIR/trailer"),
    ("uploadpack.packObjectsHook", "touch DIR/pack-objects"),
    ("protocol.ext.allow", "always"),
    ("remote.origin.url", "ext::touch DIR/remote"),
    ("remote.origin.promisor", "true"),
    ("remote.origin.partialCloneFilter", "blob:none"),
    ("extensions.partialClone", "origin"),
    ("submodule.recurse", "true"),
    ("agents.notify", "touch DIR/notify"),
    ("agents.permission", "full"),
    ("maintenance.auto", "true"),
    ("gc.auto", "1"),
];

#[test]
fn what_a_rogue_assistant_configures_is_run_by_no_command_of_ours() {
    let env = Env::new();
    let repo = env.repo("x");
    let dir = marks(&env);
    repo.write(".gitattributes", "*.txt filter=evil diff=evil merge=evil\n");
    repo.commit("attributes that name what nobody has set up");
    repo.agents(&["run", "-q", "-a", "scripted", "WRITE: src/b.txt: x\nCOMMIT: b", "WRITE: src/b.txt: y\nCOMMIT: b"])
        .ok();
    let hooks = env.root().join("hooks");
    std::fs::create_dir(&hooks).unwrap();
    for hook in [
        "post-checkout",
        "post-commit",
        "pre-commit",
        "post-index-change",
        "reference-transaction",
        "post-rewrite",
        "pre-auto-gc",
        "askpass",
        "gpg",
        "fsmonitor-watchman",
    ] {
        let text = format!("#!/bin/sh\ntouch '{}'\n", dir.join(hook).display());
        env.script_at(&hooks.join(hook), &text);
        env.script_at(&repo.join(".git/hooks").join(hook), &text);
    }
    let place = Repo::at(&env, env.root().join("code/x.agents/write-src-b-txt-x"));
    for (key, value) in VECTORS {
        place.git(&["config", key, &value.replace("DIR", dir.to_str().unwrap())]);
    }
    std::fs::write(repo.join(".git/info/attributes"), "* filter=evil diff=evil merge=evil\n").unwrap();
    place.write("src/a.txt", "changed\n");
    place.write("new.txt", "new\n");
    // A repository inside, whose own configuration is as bad.
    place.git(&["init", "-q", "nested"]);
    place.git(&["-C", "nested", "config", "core.fsmonitor", &format!("touch {}/nested", dir.display())]);
    // git itself runs some of it, so the traps are set.
    repo.try_git(&["-C", place.path().to_str().unwrap(), "status"]);
    assert!(take_marks(&env).contains(&"fsmonitor".to_owned()));
    let none = |args: &[&str]| {
        repo.agents(args);
        assert_eq!(take_marks(&env), [""; 0], "{args:?}");
        terminal::agents(&env, repo.path(), args, &[("LINES", "3"), ("PAGER", "cat")]);
        assert_eq!(take_marks(&env), [""; 0], "{args:?} on a terminal");
    };
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["show", "1"],
        &["report"],
        &["report", "--json"],
        &["logs"],
        &["path", "1"],
        &["trust"],
        &["wait"],
        &["stop", "--all"],
        &["rm", "--dry-run", "1"],
        &["rm", "1"],
        &["restore", "--last"],
        &["rm", "-D", "2"],
        &["undo"],
        &["restore", "--list"],
    ] {
        none(args);
    }
    // What was judged is said to be unknown, not free.
    let report = repo.agents(&["report", "--json"]).ok().json();
    let level = &report["agents"][0]["conflicts"]["with_agents"][0];
    assert!(level["level"].is_null() && level["unknown"].as_str().unwrap().contains("evil"), "{report:#}");
    // A checkout is git's own matter, filters and the hook for it included; nothing else.
    let allowed = ["clean", "post-checkout", "process", "smudge"];
    for args in [&["new", "more"][..], &["adopt", "agents/write-src-b-txt-y"]] {
        repo.agents(args);
        let marks = take_marks(&env);
        assert!(marks.iter().all(|m| allowed.contains(&m.as_str())), "{args:?}: {marks:?}");
    }
    // Power is the user's to give: neither a notification nor more permission comes from there.
    let plan = repo.agents(&["run", "--dry-run", "--json", "-a", "scripted", "x"]).ok();
    assert_eq!(plan.json()["would_start"][0]["permission"], "edit");
    assert!(plan.stderr.contains("'agents.permission' in git's local configuration is ignored"), "{plan}");
    assert_eq!(take_marks(&env), [""; 0]);
}

#[test]
fn a_settings_file_that_is_not_plain_is_refused_with_all_its_mistakes() {
    let env = Env::new();
    let repo = env.repo("x");
    let refused = |text: &[u8], words: &[&str]| {
        repo.write(".git-agents.toml", text);
        let out = repo.agents(&["new", "never"]).code(128);
        assert!(words.iter().all(|w| out.stderr.contains(w)), "wanted {words:?}\n{out}");
        // Nobody is kept from looking and tidying up.
        repo.agents(&["status"]).ok();
    };
    refused(
        b"asistant = 'x'\n[limits]\nparalel = 2\n",
        &["did you mean 'assistant'?", "did you mean 'limits.parallel'?"],
    );
    refused(b"[setup]\nrun = 5\n", &["setup.run"]);
    refused(b"permission = 'full'\n", &["cannot be set in a file of the repository"]);
    refused(b"[ports]\nweb = 'PORT'\n", &["'ports' is not supported by this version"]);
    refused(b"not toml", &[".git-agents.toml:1"]);
    refused(b"a = '\xff'", &["UTF-8"]);
    refused(&[b"# ".as_slice(), &vec![b'x'; 70_000]].concat(), &["64"]);
    std::fs::remove_file(repo.join(".git-agents.toml")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", repo.join(".git-agents.toml")).unwrap();
    let out = repo.agents(&["new", "never"]).code(128);
    assert!(out.stderr.contains(".git-agents.toml") && !out.stderr.contains("root:"), "{out}");
    let out = repo.agents(&["rm", "nobody"]).code(128);
    assert!(out.stderr.contains("no agent named"), "{out}");
}

#[test]
fn a_file_that_the_assistant_writes_itself_kept_its_retry_from_starting() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.custom(&[
        "/bin/sh",
        "-c",
        "echo \"$AGENTS_NAME\" >>made.sh; git add made.sh; git commit -qm more; test -e ../go",
    ]);
    repo.agents(&["run", "-q", "-a", "mine", "--retries", "1", "Make it"]).code(1);
    assert_eq!(
        (repo.state("make-it"), repo.status_of("make-it")["run"]["attempt"].clone()),
        ("failed".into(), 2.into())
    );
    assert!(!repo.reason("make-it").contains("not as approved"), "{}", repo.reason("make-it"));
    repo.write("../x.agents/go", "");
    repo.agents(&["retry", "make-it"]).ok();
    repo.reaches("make-it", "succeeded");
    assert_eq!(repo.worktree("make-it").read("made.sh").lines().count(), 3);
}

#[test]
fn an_approval_was_asked_again_for_a_file_that_its_command_had_written() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("scripts/gen.sh", "echo made\n");
    repo.write(".git-agents.toml", "[setup]\nrun = ['sh scripts/gen.sh >made.txt', ['touch', 'other.txt']]\n");
    repo.commit("set up");
    repo.agents(&["trust", "--yes"]).ok();
    let first = repo.agent("first");
    first.commit("What the set-up made");
    repo.git(&["merge", "-q", "first"]);
    assert_eq!(repo.read("made.txt"), "made\n");
    repo.agent("second");
    repo.agents(&["trust", "--show"]).ok();
    // The script itself is another matter.
    repo.write("scripts/gen.sh", "echo evil\n");
    repo.commit("evil");
    assert!(repo.agents(&["new", "third"]).code(128).stderr.contains("changed what it runs"));
}
