//! `hooks`: beside what others have there, gone again without a trace, never in the way of the user's own git.

use crate::support::env::run;
use crate::support::{Env, Out, Repo};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub const EVENTS: [&str; 3] = ["post-merge", "post-checkout", "post-rewrite"];

/// Every file below `dir` with its bytes and mode.
pub fn files(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32)> {
    let mut out = BTreeMap::new();
    for e in std::fs::read_dir(dir).into_iter().flatten().map(Result::unwrap) {
        let mode = e.path().symlink_metadata().unwrap().permissions().mode();
        if e.file_type().unwrap().is_dir() {
            out.extend(files(&e.path()));
        } else {
            out.insert(e.path(), (std::fs::read(e.path()).unwrap_or_default(), mode));
        }
    }
    out
}

fn standing(out: &Out, event: &str) -> String {
    let line = out.stdout.lines().find(|l| l.starts_with(event)).unwrap_or_default();
    line[event.len()..].trim().to_owned()
}

fn all_fire(repo: &Repo<'_>) {
    let out = repo.agents(&["hooks", "status"]).ok();
    assert!(EVENTS.iter().all(|e| standing(&out, e) == "fires"), "{out}");
}

/// The same where what others have there has to run along.
pub fn all_fire_forced(repo: &Repo<'_>) {
    let out = repo.agents(&["hooks", "status", "--force"]).ok();
    assert!(EVENTS.iter().all(|e| standing(&out, e) == "fires"), "{out}");
}

/// A landed agent: committed, merged without any hook, its base not looked at since.
pub fn commit_in(repo: &Repo<'_>, name: &str, file: &str, text: &str) -> PathBuf {
    let place = repo.agent(name);
    place.write(file, text);
    place.commit(name);
    place.path().to_owned()
}

fn names(repo: &Repo<'_>) -> String {
    repo.agents(&["status", "--names"]).ok().stdout
}

#[test]
fn installed_twice_is_once_and_uninstalled_is_as_before() {
    let env = Env::new();
    let repo = env.repo("x");
    let hooks = repo.join(".git/hooks");
    let before = files(&hooks);
    let missing = repo.agents(&["hooks", "status"]).code(1);
    assert_eq!(standing(&missing, "post-merge"), "not installed");
    repo.agents(&["hooks", "install", "--dry-run"]).ok();
    assert_eq!(files(&hooks), before);
    let out = repo.agents(&["hooks", "install"]).ok();
    assert!(out.stderr.contains("undo: git agents hooks uninstall"), "{out}");
    let once = files(&hooks);
    assert_eq!(once.len(), before.len() + 3);
    let again = repo.agents(&["hooks", "install"]).ok();
    assert!(files(&hooks) == once && !again.stderr.contains("undo:"), "{again}");
    all_fire(&repo);
    repo.agents(&["hooks", "uninstall"]).ok();
    repo.agents(&["hooks", "uninstall"]).ok();
    assert_eq!(files(&hooks), before);
}

#[test]
fn what_could_not_be_written_was_to_be_undone() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "core.hooksPath", "/proc/no-place-for-hooks"]);
    let out = repo.agents(&["hooks", "install"]).code(128);
    assert!(!out.stderr.contains("undo:"), "{out}");
    assert!(repo.agents(&["hooks", "install", "--json"]).json()["results"][0]["undo"].is_null());
}

#[test]
fn a_hook_somebody_wrote_stays_runs_and_gets_its_bytes_back() {
    let env = Env::new();
    let repo = env.repo("x");
    let hooks = repo.join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    env.script_at(&hooks.join("post-merge"), "#!/bin/sh -eu\necho ran \"$@\" >>ran.secret\nexit 0");
    env.script_at(&hooks.join("post-rewrite"), "#!/usr/bin/env python3\nprint('x')\n");
    let before = files(&hooks);
    let out = repo.agents(&["hooks", "install"]).code(128);
    assert!(out.stderr.contains("--yes") && files(&hooks) == before, "{out}");
    let out = repo.agents(&["hooks", "install", "--yes"]).code(1);
    assert!(out.stderr.contains("not written for a shell"), "{out}");
    assert!(out.stdout.contains("git-agents hook post-rewrite \"$@\""), "{out}");
    let status = repo.agents(&["hooks", "status"]).code(1);
    assert_eq!(standing(&status, "post-merge"), "fires");
    assert!(!repo.join("ran.secret").exists(), "asking whether ours fires ran theirs");
    repo.git(&["switch", "--quiet", "-c", "side"]);
    repo.write("side.txt", "x");
    repo.commit("side");
    repo.git(&["switch", "--quiet", "main"]);
    repo.git(&["merge", "--quiet", "side"]);
    assert_eq!(repo.read("ran.secret"), "ran 0\n");
    repo.agents(&["hooks", "uninstall"]).ok();
    assert_eq!(files(&hooks), before);
}

#[test]
fn a_hook_that_was_switched_off_is_not_switched_on() {
    let env = Env::new();
    let repo = env.repo("x");
    let hook = repo.join(".git/hooks/post-merge");
    repo.write(".git/hooks/post-merge", "#!/bin/sh\nexit 1\n");
    let out = repo.agents(&["hooks", "install", "--yes", "--force"]).code(1);
    assert!(out.stderr.contains("not executable"), "{out}");
    assert_eq!(std::fs::metadata(&hook).unwrap().permissions().mode() & 0o111, 0);
    assert_eq!(repo.read(".git/hooks/post-merge"), "#!/bin/sh\nexit 1\n");
}

/// As husky 9.1.7 sets it up.
fn husky9(env: &Env, repo: &Repo<'_>) {
    repo.git(&["config", "core.hooksPath", ".husky/_"]);
    repo.write(".husky/_/.gitignore", "*");
    let runner = "#!/usr/bin/env sh\nn=$(basename \"$0\")\ns=$(dirname \"$(dirname \"$0\")\")/$n\n[ ! -f \"$s\" ] && exit 0\nsh -e \"$s\" \"$@\"\n";
    repo.write(".husky/_/h", runner);
    for e in EVENTS {
        env.script_at(&repo.join(format!(".husky/_/{e}")), "#!/usr/bin/env sh\n. \"$(dirname \"$0\")/h\"");
    }
}

#[test]
fn files_of_other_tools_are_not_touched_and_their_own_lines_are_printed() {
    type Setup = fn(&Env, &Repo<'_>);
    let setups: [(&str, &str, &str, Setup); 5] = [
        ("husky9", ".husky/post-merge", "git-agents hook post-merge \"$@\" || :", husky9),
        ("husky4", "package.json", "git-agents hook post-merge $HUSKY_GIT_PARAMS || :", |env, repo| {
            let text = "#!/bin/sh\n# husky\n\n# Hook created by Husky v4.3.8\n\n. \"$(dirname \"$0\")/husky.sh\"\n";
            EVENTS.iter().for_each(|e| env.script_at(&repo.join(format!(".git/hooks/{e}")), text));
        }),
        ("lefthook", "lefthook.yml", "run: 'git-agents hook post-merge {0} || :'", |env, repo| {
            repo.write("lefthook.yml", "pre-commit:\n");
            let text =
                "#!/bin/sh\nif [ \"$LEFTHOOK\" = \"0\" ]; then exit 0; fi\ncall_lefthook run \"post-merge\" \"$@\"\n";
            env.script_at(&repo.join(".git/hooks/post-merge"), text);
        }),
        ("pre-commit", ".pre-commit-config.yaml", "stages: [post-merge]", |env, repo| {
            let text = "#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\nexec pre-commit\n";
            EVENTS.iter().for_each(|e| env.script_at(&repo.join(format!(".git/hooks/{e}")), text));
        }),
        ("git-lfs", "post-merge", "git-agents hook post-merge \"$@\" || :", |env, repo| {
            let text = "#!/bin/sh\ncommand -v git-lfs >/dev/null 2>&1 || exit 2\ngit lfs post-merge \"$@\"\n";
            EVENTS.iter().for_each(|e| env.script_at(&repo.join(format!(".git/hooks/{e}")), text));
        }),
    ];
    for (name, place, line, setup) in setups {
        let env = Env::new();
        let repo = env.repo(name);
        std::fs::create_dir_all(repo.join(".git/hooks")).unwrap();
        setup(&env, &repo);
        let all = || (files(&repo.join(".git/hooks")), files(&repo.join(".husky")), repo.read(".git/config"));
        let before = all();
        let out = repo.agents(&["hooks", "install", "--yes"]).code(1);
        assert!(out.stdout.contains(place) && out.stdout.contains(line), "{name}: {out}");
        assert!(all() == before, "{name}: something was written");
        repo.agents(&["hooks", "status"]).code(1);
        repo.agents(&["hooks", "install", "--yes", "--force"]);
        assert!(all() != before, "{name}: asked for, and not written");
        repo.agents(&["hooks", "uninstall"]).ok();
        // What did not exist before `--force` was ours and is gone again.
        assert!(all() == before, "{name}: not as it was");
    }
}

#[test]
fn husky_s_own_line_fires() {
    let env = Env::new();
    let repo = env.repo("x");
    husky9(&env, &repo);
    for e in EVENTS {
        repo.write(format!(".husky/{e}"), format!("git-agents hook {e} \"$@\" || :\n"));
    }
    let out = repo.agents(&["hooks", "status"]).code(1);
    assert!(standing(&out, "post-merge").starts_with("not tried"), "{out}");
    let out = repo.agents(&["hooks", "status", "--force"]).ok();
    assert_eq!(standing(&out, "post-merge"), "fires", "{out}");
    // Where `.husky/_` is missing, no hook runs at all.
    repo.git(&["worktree", "add", "--quiet", "../linked"]);
    let out = repo.agents(&["hooks", "status", "--force"]).code(1);
    assert!(standing(&out, "post-merge").contains("main worktree alone"), "{out}");
}

#[test]
fn a_hooks_path_that_is_not_ours_to_write_is_said() {
    let env = Env::new();
    for (name, words) in
        [("relative", "relative"), ("tracked", "versioned"), ("linked", "link"), ("global", "global configuration")]
    {
        let repo = env.repo(name);
        let outside = env.root().join(format!("hooks-{name}"));
        std::fs::create_dir_all(&outside).unwrap();
        match name {
            "relative" => drop(repo.git(&["config", "core.hooksPath", ".githooks"])),
            "tracked" => {
                repo.write(".githooks/pre-commit", "#!/bin/sh\n");
                repo.commit("hooks");
                repo.git(&["config", "core.hooksPath", repo.join(".githooks").to_str().unwrap()]);
            }
            "linked" => {
                std::fs::create_dir_all(repo.join("hooks")).unwrap();
                let _ = std::fs::rename(repo.join(".git/hooks"), repo.join(".git/hooks.old"));
                std::os::unix::fs::symlink("../hooks", repo.join(".git/hooks")).unwrap();
            }
            _ => drop(repo.git(&["config", "--global", "core.hooksPath", outside.to_str().unwrap()])),
        }
        let out = repo.agents(&["hooks", "install", "--yes", "--force"]).code(1);
        assert!(out.stderr.contains(words), "{name}: {out}");
        for dir in [repo.join(".githooks"), repo.join("hooks"), outside] {
            assert!(!dir.join("post-merge").exists(), "{name}: {}", dir.display());
        }
    }
}

#[test]
fn an_absolute_path_a_bare_layout_and_a_linked_worktree_have_hooks_that_fire() {
    let env = Env::new();
    let repo = env.repo("absolute");
    let outside = env.root().join("my-hooks");
    repo.git(&["config", "core.hooksPath", outside.to_str().unwrap()]);
    repo.git(&["worktree", "add", "--quiet", "../linked"]);
    Repo::at(&env, repo.join("../linked")).agents(&["hooks", "install"]).ok();
    assert!(outside.join("post-merge").exists());
    all_fire(&repo);
    let proj = env.root().join("code/proj");
    repo.git(&["clone", "--quiet", "--bare", ".", proj.join(".bare").to_str().unwrap()]);
    let bare = Repo::at(&env, proj.join(".bare"));
    bare.git(&["worktree", "add", "--quiet", "../main", "main"]);
    let main = Repo::at(&env, proj.join("main"));
    main.agents(&["hooks", "install"]).ok();
    all_fire(&main);
}

#[test]
fn what_was_merged_goes_by_itself_and_the_next_command_says_so() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["hooks", "install"]).ok();
    let landed = commit_in(&repo, "landed", "landed.txt", "x");
    let dirty = commit_in(&repo, "dirty", "dirty.txt", "x");
    std::fs::write(dirty.join("left.txt"), "work").unwrap();
    let fresh = repo.agent("fresh");
    let behind = commit_in(&repo, "behind", "landed.txt", "y");
    repo.git(&["merge", "--quiet", "landed"]);
    env.until("the landed one is gone", || !landed.exists());
    // What waits by then is said by this one's hook.
    let mut said = repo.try_git(&["merge", "--quiet", "dirty"]).ok().stderr;
    env.until("all of it is said", || {
        said += &repo.agents(&["status"]).ok().stderr;
        said.contains("undo: git agents restore landed") && said.contains("would conflict with it now ('behind')")
    });
    assert!(dirty.join("left.txt").exists() && fresh.path().exists() && behind.exists());
    assert!(names(&repo).contains("dirty") && !names(&repo).contains("landed"));
    repo.agents(&["restore", "landed"]).ok();
    assert!(landed.join("landed.txt").exists());
}

#[test]
fn what_somebody_restored_was_taken_away_at_once_again() {
    let env = Env::new();
    let repo = env.repo("x");
    let landed = commit_in(&repo, "landed", "landed.txt", "x");
    repo.git(&["merge", "--quiet", "--no-ff", "-m", "In", "landed"]);
    let work = || {
        let mut worker = env.command("git-agents", repo.path());
        worker.args(["hook-worker", ".git"]);
        crate::support::env::run(worker, b"").ok();
    };
    work();
    assert!(!landed.exists());
    repo.agents(&["restore", "landed"]).ok();
    work();
    assert!(landed.join("landed.txt").exists());
    // With something new, or asked for, it goes as any other.
    let tried = repo.agents(&["clean", "--dry-run"]).ok();
    assert!(tried.to_string().contains("'landed' would be moved"), "{tried}");
    std::fs::write(landed.join("more.txt"), "more").unwrap();
    let at = Repo::at(&env, landed.clone());
    at.commit("More");
    repo.git(&["merge", "--quiet", "--no-ff", "-m", "In", "landed"]);
    work();
    assert!(!landed.exists());
}

#[test]
fn a_base_that_moved_without_a_hook_is_said_once_by_the_next_command_that_writes() {
    let env = Env::new();
    let repo = env.repo("x");
    commit_in(&repo, "one", "src/b.txt", "other\n");
    commit_in(&repo, "two", "new.txt", "x");
    repo.write("src/b.txt", "mine\n");
    repo.commit("base moves");
    assert!(!repo.agents(&["status"]).ok().stderr.contains("moved"), "who only reads does not look");
    let out = repo.agents(&["new", "three"]).ok();
    assert!(out.stderr.contains("'main' moved: 2 agents are behind, 1 would conflict with it now ('one')"), "{out}");
    assert_eq!(out.stdout.lines().count(), 1, "{out}");
    assert!(!repo.agents(&["new", "four"]).ok().stderr.contains("moved"));
    repo.write("c.txt", "x");
    repo.commit("again");
    repo.git(&["config", "agents.remind", "false"]);
    assert!(!repo.agents(&["new", "five"]).ok().stderr.contains("moved"));
    repo.git(&["config", "agents.remind", "true"]);
    assert!(repo.agents(&["rm", "five"]).ok().stderr.contains("'main' moved: 4 agents"), "said as soon as it may be");
}

#[test]
fn a_landing_with_hooks_says_once_who_is_behind() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["hooks", "install", "-q"]).ok();
    for name in ["one", "two", "three"] {
        commit_in(&repo, name, &format!("{name}.txt"), "x");
    }
    for (name, behind) in [("one", "2 agents are"), ("two", "1 agent is")] {
        let out = repo.agents(&["land", name]).ok();
        assert_eq!(out.stderr.matches(&format!("'main' moved: {behind} behind")).count(), 1, "{out}");
        env.until("the worker is done", || env.processes().is_empty());
        let next = repo.agents(&["status"]).ok();
        assert!(!next.stderr.contains("moved"), "{next}");
    }
}

/// `git-agents hook ARGS` as git would call it.
fn hook(repo: &Repo<'_>, dir: &Path, args: &[&str], more: &[(&str, &str)]) -> Out {
    let mut command = repo.env.command("git-agents", dir);
    command.arg("hook").args(args).envs(more.iter().copied());
    run(command, b"").ok()
}

#[test]
fn a_hook_never_fails_never_speaks_and_does_nothing_where_nothing_moved() {
    let env = Env::new();
    let repo = env.repo("x");
    let place = commit_in(&repo, "landed", "landed.txt", "x");
    repo.git(&["merge", "--quiet", "landed"]);
    let zero = "0".repeat(40);
    let tip = repo.tip("HEAD");
    let worker = repo.join(".git/agents/run/worker.lock");
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);
    let quiet: [Case<'_>; 9] = [
        (&[], &[]),
        (&["no-such-event"], &[]),
        (&["post-merge", "1"], &[]),
        (&["post-merge"], &[]),
        (&["post-checkout", &tip, &tip, "0"], &[]),
        (&["post-checkout", &zero, &tip, "1"], &[]),
        (&["post-merge", "0"], &[("AGENTS_NAME", "landed")]),
        (&["post-merge", "0"], &[("GIT_AGENTS_INNER", "1")]),
        (&["post-merge", "0"], &[("GIT_DIR", "/nowhere")]),
    ];
    for (args, more) in quiet {
        let out = hook(&repo, repo.path(), args, more);
        assert!(out.stdout.is_empty() && out.stderr.is_empty(), "{args:?}: {out}");
    }
    for dir in [&place, env.root()] {
        hook(&repo, dir, &["post-merge", "0"], &[]);
    }
    for (file, event) in
        [("rebase-merge", "post-merge"), ("MERGE_HEAD", "post-checkout"), ("BISECT_LOG", "post-rewrite")]
    {
        repo.write(format!(".git/{file}"), "");
        let args: &[&str] = match event {
            "post-merge" => &["post-merge", "0"],
            "post-checkout" => &["post-checkout", &tip, &tip, "1"],
            _ => &["post-rewrite", "rebase"],
        };
        hook(&repo, repo.path(), args, &[]);
        std::fs::remove_file(repo.join(format!(".git/{file}"))).unwrap();
    }
    assert!(place.exists() && !worker.exists(), "a worker was started");
    hook(&repo, repo.path(), &["post-merge", "0"], &[]);
    env.until("it is gone", || !place.exists());
}

#[test]
fn a_missing_binary_and_closed_streams_do_not_fail_the_users_command() {
    let env = Env::new();
    let repo = env.repo("x");
    commit_in(&repo, "a", "a.txt", "x");
    repo.agents(&["hooks", "install"]).ok();
    // Everything that is on PATH but our binary.
    let bin = env.root().join("only");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env.git_program(), bin.join("git")).unwrap();
    let mut command = env.command("git", repo.path());
    command.args(["checkout", "--quiet", "-b", "other"]).env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let out = run(command, b"").ok();
    assert!(out.stderr.is_empty(), "{out}");
    let mut command = env.command("sh", repo.path());
    command.args(["-c", "git checkout --quiet main 2>&- >&- <&-"]);
    run(command, b"").ok();
    // Whoever reads to the end of the command's output is not kept waiting by the worker.
    let mut command = env.command("sh", repo.path());
    command.args(["-c", "git checkout --quiet other 2>&1 | cat; git checkout main 2>&1 | cat"]);
    run(command, b"").ok();
}

/// Puts a git on the `PATH` that says that it is 2.54 and runs hooks from its configuration as that one is documented to:
/// there is none on the machines this was written on.
fn git_with_configured_hooks(env: &Env) {
    let git = env.git_program();
    let git = git.display();
    let script = format!(
        r#"#!/bin/sh
case " $* " in
*" --version "*) echo "git version 2.54.0"; exit ;;
*" hook run "*)
    event=${{*##*--ignore-missing }}; event=${{event%% *}}
    for name in $({git} config --get-regexp '^hook[.].*[.]event$' "^$event\$" | sed 's/^hook[.]//; s/[.]event .*//'); do
        [ "$({git} config "hook.$name.enabled")" = false ] && continue
        sh -c "$({git} config "hook.$name.command") \"\$@\"" sh || exit
    done ;;
esac
exec {git} "$@"
"#
    );
    env.script("git", &script);
}

#[test]
fn hooks_from_git_s_configuration_were_not_seen() {
    let env = Env::new();
    let repo = env.repo("x");
    for e in EVENTS {
        repo.git(&["config", &format!("hook.agents-{e}.command"), &format!("git-agents hook {e}")]);
        repo.git(&["config", &format!("hook.agents-{e}.event"), e]);
    }
    let version = repo.git(&["--version"]);
    let number: Vec<u32> = version.split([' ', '.']).filter_map(|p| p.parse().ok()).collect();
    if number < vec![2, 54] {
        let out = repo.agents(&["hooks", "status"]).code(1);
        assert_eq!(out.stdout.matches("does not run hooks from its configuration").count(), 3, "{out}");
        git_with_configured_hooks(&env);
    }
    // Not through git: the real one would put itself in front.
    let agents = |args: &[&str]| {
        let mut command = env.command("git-agents", repo.path());
        command.args(args);
        run(command, b"")
    };
    let out = agents(&["hooks", "status"]).ok();
    assert_eq!(out.stdout.matches("fires").count(), 3, "{out}");
    // A file beside it would be the second call.
    let out = agents(&["hooks", "install"]).ok();
    assert!(!out.stderr.contains("undo:") && !repo.join(".git/hooks/post-merge").exists(), "{out}");
    // Other people's commands do not run because somebody asks.
    repo.git(&["config", "hook.theirs.command", "touch theirs-ran;"]);
    repo.git(&["config", "hook.theirs.event", "post-merge"]);
    let out = agents(&["hooks", "status"]).code(1);
    assert_eq!((standing(&out, "post-checkout").as_str(), repo.join("theirs-ran").exists()), ("fires", false));
    assert!(standing(&out, "post-merge").starts_with("not tried"), "{out}");
    let out = agents(&["hooks", "status", "--force"]).ok();
    assert_eq!(out.stdout.matches("fires").count(), 3, "{out}");
    assert!(repo.join("theirs-ran").exists());
    repo.git(&["config", "hook.agents-post-merge.enabled", "false"]);
    agents(&["hooks", "install"]).ok();
    let out = agents(&["hooks", "status"]).code(1);
    assert!(standing(&out, "post-merge").contains("git's configuration names other commands"), "{out}");
}

/// Puts a git on the `PATH` that says that it is `version` and sets off three events in every call that could change
/// something; as that one is documented to, it runs what its configuration has for them and nobody switched off.
fn git_that_sets_off_events(env: &Env, version: &str) {
    let git = env.git_program();
    let git = git.display();
    let events_have_a_switch = if version < "2.55" { "false" } else { "true" };
    let script = format!(
        r#"#!/bin/sh
off() {{ [ "$({git} config --type=bool "hook.$1.enabled")" = false ]; }}
case " $* " in
*" --version "*) echo "git version {version}"; exit ;;
*" config "* | *" rev-parse "*) exec {git} "$@" ;;
*" hook run "*) events=${{*##*--ignore-missing }}; events=${{events%% *}} ;;
*) events="reference-transaction post-index-change post-checkout" ;;
esac
for event in $events; do
    {events_have_a_switch} && off "$event" && continue
    {git} config --get-regexp '^hook[.].*[.]event$' " ?$event\$" | sed 's/^hook[.]//; s/[.]event [^ ]*$//' |
        while IFS= read -r name; do
            off "$name" || sh -c "$({git} config "hook.$name.command") \"\$@\"" sh "$@" </dev/null
        done
done
exec {git} "$@"
"#
    );
    env.script("git", &script);
}

/// What ran from git's configuration in one command, each with the arguments of its git.
fn ran_in(repo: &Repo<'_>, args: &[&str]) -> (Out, Vec<String>) {
    let ran = repo.env.root().join("ran");
    let _ = std::fs::remove_file(&ran);
    let mut command = repo.env.command("git-agents", repo.path());
    command.args(args);
    let out = run(command, b"");
    let lines = std::fs::read_to_string(&ran).unwrap_or_default();
    (out, lines.lines().map(str::to_owned).collect())
}

/// A hook in git's configuration that tells [`ran_in`].
fn watch(at: &Repo<'_>, scope: &[&str], name: &str) {
    let ran = at.env.root().join("ran");
    let set = |variable: &str, value: &str| {
        let key = format!("hook.{name}.{variable}");
        at.git(&[&["config"], scope, &["--add", &key, value]].concat());
    };
    set("command", &format!("echo >>'{}' {name:?}", ran.display()));
    for event in ["reference-transaction", "post-index-change", "post-checkout"] {
        set("event", event);
    }
}

#[test]
fn hooks_from_git_s_configuration_ran_in_calls_that_run_none() {
    let env = Env::new();
    let repo = env.repo("x");
    watch(&repo, &[], "it's a=b.c");
    watch(&repo, &["--global"], "of the user");
    let at = crate::sync::with_commit(&repo, "k", "src/a.txt", "of k\n");
    git_that_sets_off_events(&env, "2.54.0");
    let none = Vec::<String>::new();
    for args in [["rm", "k"], ["restore", "k"]] {
        let (out, lines) = ran_in(&repo, &args);
        assert_eq!((out.status, lines), (0, none.clone()), "{out}");
    }
    // The rebase is the user's, with all it sets off; the way back out of it is not.
    repo.write("src/b.txt", "of the base\n");
    repo.commit("The base moves");
    let (out, lines) = ran_in(&repo, &["sync", "k"]);
    assert!(out.status == 0 && !lines.is_empty() && lines.iter().all(|l| l.contains(" rebase ")), "{out}{lines:?}");
    assert_eq!(at.tip("HEAD~1"), repo.tip("main"));
}

#[test]
fn a_hook_from_git_s_configuration_ran_twice_in_a_new_worktree_and_in_a_fresh_one() {
    let env = Env::new();
    let repo = env.repo("x");
    watch(&repo, &[], "it's a=b.c");
    git_that_sets_off_events(&env, "2.54.0");
    let (out, lines) = ran_in(&repo, &["new", "k"]);
    assert!(out.status == 0 && lines.len() == 1 && lines[0].contains(" hook run "), "{out}{lines:?}");
    let list = env.root().join("list.md");
    let task = "1. Make it {name=t}\n   - WRITE: t.txt: t\n   - COMMIT: T\n   - WRITE: left.txt: left\n";
    std::fs::write(&list, task).unwrap();
    ran_in(&repo, &["run", "-q", "-a", "scripted", "-f", list.to_str().unwrap()]).0.ok();
    let (out, lines) = ran_in(&repo, &["retry", "-q", "--fresh", "t"]);
    // What the assistant does, and what is done in its stead.
    let theirs = |l: &String| [" add ", " commit "].iter().any(|sub| l.contains(sub));
    assert!(out.status == 0 && lines.iter().all(theirs), "{out}{lines:?}");
}

#[test]
fn a_hook_in_a_worktree_s_own_configuration_ran_in_calls_that_run_none() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "extensions.worktreeConfig", "true"]);
    let at = crate::sync::with_commit(&repo, "k", "src/a.txt", "of k\n");
    watch(&at, &["--worktree"], "planted");
    at.write("src/a.txt", "not committed\n");
    repo.write("src/b.txt", "of the base\n");
    repo.commit("The base moves");
    // 2.54 has no other switch than that of a name.
    git_that_sets_off_events(&env, "2.55.0");
    let (out, lines) = ran_in(&repo, &["sync", "--carry", "k"]);
    assert!(out.status == 0 && !lines.is_empty() && lines.iter().all(|l| l.contains(" rebase ")), "{out}{lines:?}");
    assert_eq!(at.read("src/a.txt"), "not committed\n");
}
