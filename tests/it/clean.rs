//! `clean`: only what is safe goes by itself, each thing that stays says why, and whatever goes comes back.

use crate::kill::{self, Case};
use crate::remove::{agent_with_commit, everything, names};
use crate::restore::{self, Random};
use crate::support::{Before, Env, Out, Repo, assert_same_tree, repo_invariants, tree_state};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

/// What `clean --json` says.
fn clean(repo: &Repo<'_>, flags: &[&str]) -> Value {
    repo.agents(&[&["clean", "--json"], flags].concat()).ok().json()
}

/// The reasons that keep `name`.
#[track_caller]
fn kept(answer: &Value, name: &str) -> String {
    let all = answer["kept"].as_array().unwrap();
    let one = all.iter().find(|k| k["name"] == name).unwrap_or_else(|| panic!("'{name}' is not kept: {answer:#}"));
    one["reasons"].to_string()
}

fn removed(answer: &Value) -> Vec<&str> {
    answer["removed"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect()
}

/// A landed agent with nothing left over.
fn landed<'e>(repo: &Repo<'e>, name: &str) -> Repo<'e> {
    let at = agent_with_commit(repo, name);
    repo.git(&["merge", "--quiet", "--no-edit", name]);
    at
}

/// Nothing has happened there for `hours`.
fn quiet(at: &Repo<'_>, hours: u64) {
    let then = SystemTime::now() - Duration::from_secs(hours * 3600);
    let admin = PathBuf::from(at.git(&["rev-parse", "--absolute-git-dir"]));
    for file in [admin.join("HEAD"), admin.join("index"), admin.join("logs/HEAD"), at.path().to_owned()] {
        if let Ok(f) = std::fs::File::open(&file) {
            f.set_modified(then).unwrap();
        }
    }
}

#[test]
fn what_had_landed_went_and_everything_else_says_why_it_stays() {
    let env = Env::new();
    let repo = env.repo("x");
    let gone = landed(&repo, "gone");
    let dirty = landed(&repo, "dirty");
    dirty.write("report/x.md", "draft\n");
    agent_with_commit(&repo, "open");
    repo.agent("fresh");
    let synced = repo.agent("synced");
    synced.git(&["merge", "--quiet", "--ff-only", "main"]);
    let before = everything(&env);
    let would = clean(&repo, &["--dry-run"]);
    assert_same_tree(&before, &everything(&env));
    assert_eq!(removed(&would), ["gone"]);
    assert_eq!(would["removed"][0]["undo"], Value::Null);
    let out = repo.agents(&["clean"]).ok();
    assert!(
        out.stdout.contains("'gone' moved to the trash (landed as ") && out.stdout.contains("compared with 'main'"),
        "{out}"
    );
    assert!(out.stderr.contains("undo: git agents restore gone"), "{out}");
    assert!(!gone.path().exists() && !repo.has("refs/heads/gone"));
    let now = clean(&repo, &[]);
    assert!(removed(&now).is_empty(), "{now:#}");
    assert!(kept(&now, "dirty").contains("report/x.md"));
    assert!(kept(&now, "open").contains("it is not landed"));
    assert!(
        kept(&now, "fresh").contains("no commit of its own") && kept(&now, "synced").contains("no commit of its own")
    );
    assert_eq!(now["kept"][0]["zombie"], "landed", "{now:#}");
    assert_eq!(now["remote_checked"], Value::Null);
    repo.agents(&["restore", "gone"]).ok();
    assert!(gone.join("gone.txt").exists());
    repo_invariants(&repo);
}

/// A place, what is done to it, and the word that must be among its reasons.
type Spoiler = (&'static str, fn(&Repo<'_>), &'static str);

#[test]
fn a_landed_one_that_somebody_still_needs_was_swept_away() {
    let env = Env::new();
    let repo = env.repo("x");
    let spoilers: [Spoiler; 9] = [
        (
            "staged",
            |at| {
                at.write("src/a.txt", "x");
                at.git(&["add", "-A"]);
            },
            "src/a.txt",
        ),
        (
            "hidden",
            |at| {
                at.git(&["update-index", "--assume-unchanged", "src/b.txt"]);
                at.write("src/b.txt", "y");
            },
            "src/b.txt",
        ),
        (
            "unseen",
            |at| {
                at.git(&["config", "status.showUntrackedFiles", "no"]);
                at.write("new.txt", "y");
            },
            "new.txt",
        ),
        (
            "stash",
            |at| {
                at.write("src/b.txt", "y");
                at.git(&["stash", "--quiet"]);
            },
            "stash@{0}",
        ),
        (
            "locked",
            |at| drop(at.git(&["worktree", "lock", "--reason", "back in May", at.path().to_str().unwrap()])),
            "back in May",
        ),
        ("bisect", |at| drop(at.git(&["bisect", "start", "HEAD", "HEAD~2"])), "bisect"),
        ("elsewhere", |at| drop(at.git(&["switch", "--quiet", "-c", "other"])), "'other' checked out"),
        (
            "nested",
            |at| {
                at.git(&["init", "--quiet", "ignored/deep/repo"]);
            },
            "ignored/deep/repo",
        ),
        ("moved", |at| std::fs::rename(at.path(), at.path().with_file_name("moved-away")).unwrap(), "moved"),
    ];
    for (name, spoil, _) in &spoilers {
        spoil(&landed(&repo, name));
    }
    landed(&repo, "gone");
    let answer = clean(&repo, &[]);
    assert_eq!(removed(&answer), ["gone"], "{answer:#}");
    for (name, _, word) in &spoilers {
        assert!(kept(&answer, name).contains(word), "{name}: {answer:#}");
    }
    let adopted = repo.git(&["worktree", "add", "--quiet", "-b", "theirs", "../theirs"]);
    let at = Repo::at(&env, env.root().join("code/theirs"));
    repo.agents(&["adopt", "theirs"]).ok();
    at.write("t.txt", "t");
    at.commit("theirs");
    repo.git(&["merge", "--quiet", "--no-edit", "theirs"]);
    assert!(kept(&clean(&repo, &[]), "theirs").contains("adopted"), "{adopted}");
}

#[test]
fn a_tree_in_which_somebody_stood_or_had_a_file_open_was_moved_away() {
    let env = Env::new();
    let repo = env.repo("x");
    let (stood, open) = (landed(&repo, "stood"), landed(&repo, "open"));
    open.write("ignored/log", "x");
    let sleep = |dir: &std::path::Path, input: Option<std::fs::File>| {
        let mut c = env.command("sleep", dir);
        c.arg("60").stdin(input.map_or(std::process::Stdio::null(), Into::into)).spawn().unwrap()
    };
    let mut one = sleep(stood.path(), None);
    let mut two = sleep(env.root(), Some(std::fs::File::open(open.join("ignored/log")).unwrap()));
    let answer = clean(&repo, &[]);
    for name in ["stood", "open"] {
        assert!(kept(&answer, name).contains("sleep 60"), "{answer:#}");
    }
    for c in [&mut one, &mut two] {
        c.kill().unwrap();
        c.wait().unwrap();
    }
    assert_eq!(removed(&clean(&repo, &[])).len(), 2);
}

#[test]
fn the_tree_that_one_stood_in_was_taken_from_under_ones_feet() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = landed(&repo, "k");
    let answer = at.agents(&["clean", "--json"]).ok().json();
    assert!(kept(&answer, "k").contains("you are in it"), "{answer:#}");
    at.agents_in(&at.join("src"), &["clean"]).ok();
    assert!(at.path().exists());
}

#[test]
fn a_file_that_came_while_the_rest_was_written_down_went_along() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = landed(&repo, "k");
    // The capture is being written: after the judgement, before the move.
    let real = env.git_program();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *fast-import*) echo late >'{}' ;; esac\nexec '{}' \"$@\"\n",
        at.join("late.txt").display(),
        real.display()
    );
    env.script("git", &script);
    // Not as an extension of git, which would put its own programs in front.
    let mut command = env.command("git-agents", repo.path());
    command.args(["clean", "--json"]);
    let answer = crate::support::env::run(command, b"").ok().json();
    assert!(kept(&answer, "k").contains("late.txt"), "{answer:#}");
    std::fs::remove_file(env.root().join("bin/git")).unwrap();
    assert!(at.path().exists() && repo.git(&["for-each-ref", "refs/agents/removed"]).is_empty());
    assert_eq!(repo.status_of("k")["findings"], serde_json::json!([]));
    std::fs::remove_file(at.join("late.txt")).unwrap();
    assert_eq!(removed(&clean(&repo, &[])), ["k"]);
    repo_invariants(&repo);
}

#[test]
fn a_copy_of_the_repository_cleaned_the_originals_trees() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = landed(&repo, "k");
    let copy = Repo::at(&env, env.root().join("code/copy"));
    assert!(std::process::Command::new("cp").arg("-a").arg(repo.path()).arg(copy.path()).status().unwrap().success());
    let answer = clean(&copy, &[]);
    assert!(removed(&answer).is_empty() && kept(&answer, "k").contains("belongs to"), "{answer:#}");
    assert!(at.path().exists());
    assert_eq!(removed(&clean(&repo, &[])), ["k"]);
}

#[test]
fn what_landed_on_its_own_base_was_compared_with_main() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["branch", "develop"]);
    for name in ["one", "two"] {
        repo.agents(&["new", name, "--base", "develop"]).ok();
        let at = Repo::at(&env, repo.path().with_file_name("x.agents").join(name));
        at.write(format!("{name}.txt"), "x");
        at.commit(name);
    }
    repo.git(&["worktree", "add", "--quiet", "../develop", "develop"]);
    let develop = Repo::at(&env, env.root().join("code/develop"));
    develop.git(&["merge", "--quiet", "--no-edit", "one"]);
    // On main it is something else's merge.
    repo.git(&["merge", "--quiet", "--no-edit", "two"]);
    let answer = clean(&repo, &[]);
    assert_eq!(removed(&answer), ["one"], "{answer:#}");
    assert!(kept(&answer, "two").contains("not landed"));
    assert!(develop.path().exists(), "a worktree made by hand");
}

#[test]
fn finished_without_committing_was_taken_for_nothing_done() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "agents.uncommitted", "keep"]);
    repo.agents(&["run", "-a", "scripted", "WRITE: draft.txt: draft"]);
    let name = names(&repo).remove(0);
    let answer = clean(&repo, &[]);
    assert!(kept(&answer, &name).contains("draft.txt"), "{answer:#}");
    assert_eq!(names(&repo), [name]);
}

#[test]
fn what_was_touched_a_moment_ago_waits_and_without_a_branch_only_what_nothing_else_has_is_kept() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "agents.cleanMinAge", "1h"]);
    let one = landed(&repo, "one");
    assert!(kept(&clean(&repo, &[]), "one").contains("touched"));
    repo.git(&["config", "--unset", "agents.cleanMinAge"]);
    let lone = agent_with_commit(&repo, "lone");
    for name in ["one", "lone"] {
        repo.git(&["update-ref", "-d", &format!("refs/heads/{name}")]);
    }
    let answer = clean(&repo, &[]);
    assert!(kept(&answer, "one").contains("touched") && kept(&answer, "lone").contains("nothing else has 1 commit"));
    assert_eq!(answer["kept"][0]["zombie"], "branch-gone");
    let (status, shown) = (repo.status(), repo.agents(&["status"]).ok());
    assert_eq!(status["agents"][0]["zombie"], "branch-gone");
    assert!(shown.stdout.contains("its branch is gone"), "{shown}");
    // A day later. The journal's events are what is left of today.
    quiet(&one, 30);
    quiet(&lone, 30);
    repo.git(&["update-ref", "-d", "refs/notes/agents-journal"]);
    let answer = clean(&repo, &["--dry-run"]);
    assert_eq!(removed(&answer), ["one"], "{answer:#}");
}

#[test]
fn every_entry_missing_at_once_was_taken_for_work_that_is_done() {
    let env = Env::new();
    let repo = env.repo("x");
    landed(&repo, "one");
    landed(&repo, "two");
    std::fs::rename(env.root().join("code/x.agents"), env.root().join("code/elsewhere")).unwrap();
    let out = repo.agents(&["clean"]).ok();
    assert!(out.stderr.contains("worktree repair") && out.stdout.contains("as all are"), "{out}");
    assert_eq!(names(&repo).len(), 2);
    assert!(repo.has("refs/heads/one") && repo.has("refs/heads/two"));
}

/// A server, a colleague's clone and ours, with agents `merge`, `squash` and `rebase`, pushed.
fn with_server(env: &Env) -> (Repo<'_>, Repo<'_>) {
    let first = env.repo("first");
    let url = env.root().join("code/server.git");
    first.git(&["clone", "--quiet", "--bare", ".", url.to_str().unwrap()]);
    first.git(&["clone", "--quiet", url.to_str().unwrap(), "../x"]);
    let repo = Repo::at(env, env.root().join("code/x"));
    for name in ["merge", "squash", "rebase"] {
        let at = agent_with_commit(&repo, name);
        at.write(format!("{name}-2.txt"), "2\n");
        at.commit("second");
        at.git(&["push", "--quiet", "-u", "origin", name]);
    }
    repo.git(&["clone", "--quiet", url.to_str().unwrap(), "../colleague"]);
    (repo, Repo::at(env, env.root().join("code/colleague")))
}

/// What a server's three buttons do; and the branches are deleted there.
fn press_the_buttons(colleague: &Repo<'_>) {
    colleague.git(&["merge", "--quiet", "--no-ff", "-m", "Merge (#1)", "origin/merge"]);
    colleague.git(&["merge", "--quiet", "--squash", "origin/squash"]);
    colleague.commit("squash (#2)");
    colleague.git(&["cherry-pick", "origin/main..origin/rebase"]);
    colleague.write("more.txt", "the base goes on\n");
    colleague.commit("more");
    colleague.git(&["push", "--quiet", "origin", "HEAD:main", ":merge", ":squash", ":rebase"]);
}

#[test]
fn what_landed_on_a_server_stayed_for_ever_because_nobody_fetched() {
    let env = Env::new();
    let (repo, colleague) = with_server(&env);
    press_the_buttons(&colleague);
    let out = repo.agents(&["clean", "--dry-run"]).ok();
    assert!(out.stdout.contains("'--fetch' asks them"), "not checked is not the same as nothing found: {out}");
    assert_eq!(names(&repo).len(), 3);
    let answer = clean(&repo, &["--fetch", "--dry-run"]);
    assert_eq!(removed(&answer).len(), 3, "the local main has not moved: {answer:#}");
    assert_eq!(answer["bases"][0]["name"], "origin/main");
    assert!(answer["remote_checked"].is_string());
    let status = repo.status();
    assert!(status["agents"].as_array().unwrap().iter().all(|a| a["zombie"] == "landed" && a["landed_as"].is_string()));
    repo.agents(&["clean"]).ok();
    assert!(names(&repo).is_empty());
}

#[test]
fn however_the_base_came_to_hold_it_it_is_seen() {
    for how in [
        &["pull --quiet --ff-only"][..],
        &["pull --quiet --rebase"],
        &["fetch --quiet", "reset --quiet --hard origin/main"],
        &["fetch --quiet --prune"],
    ] {
        let env = Env::new();
        let (repo, colleague) = with_server(&env);
        press_the_buttons(&colleague);
        if how[0].contains("rebase") {
            repo.write("mine.txt", "mine\n");
            repo.commit("mine");
        }
        for command in how {
            repo.git(&command.split(' ').collect::<Vec<_>>());
        }
        let answer = clean(&repo, &[]);
        assert_eq!(removed(&answer).len(), 3, "{how:?}: {answer:#}");
    }
}

#[test]
fn a_branch_whose_upstream_is_gone_was_taken_for_landed() {
    let env = Env::new();
    let (repo, colleague) = with_server(&env);
    colleague.git(&["push", "--quiet", "origin", ":merge", ":squash", ":rebase"]);
    let answer = clean(&repo, &["--fetch"]);
    assert!(removed(&answer).is_empty() && kept(&answer, "merge").contains("not landed"), "{answer:#}");
    assert_eq!(repo.status()["agents"][0]["zombie"], "upstream-gone");
    assert_eq!(repo.status()["agents"][0]["upstream"], "origin/merge");
    // A local branch that it was told to follow is no remote.
    let child = agent_with_commit(&repo, "child");
    repo.git(&["branch", "parent"]);
    child.git(&["branch", "--quiet", "--set-upstream-to=parent"]);
    repo.git(&["branch", "-D", "parent"]);
    assert_eq!(repo.status_of("child")["zombie"], Value::Null);
}

#[test]
fn a_child_of_a_parent_that_landed_and_went_was_compared_with_nothing() {
    let env = Env::new();
    let repo = env.repo("x");
    agent_with_commit(&repo, "parent");
    repo.agents(&["new", "child", "--base", "parent"]).ok();
    let child = Repo::at(&env, repo.path().with_file_name("x.agents").join("child"));
    child.write("child.txt", "c\n");
    child.commit("child");
    repo.git(&["merge", "--quiet", "--no-edit", "parent"]);
    assert_eq!(removed(&clean(&repo, &[])), ["parent"]);
    let answer = clean(&repo, &[]);
    assert!(kept(&answer, "child").contains("not landed"), "{answer:#}");
    assert_eq!((&answer["bases"][0]["name"], &answer["bases"][0]["instead_of"]), (&"main".into(), &"parent".into()));
    assert!(
        repo.status_of("child")["findings"]
            .to_string()
            .contains("its base 'parent' is gone; it is compared with 'main'")
    );
    repo.git(&["merge", "--quiet", "--no-edit", "child"]);
    assert_eq!(removed(&clean(&repo, &[])), ["child"]);
}

#[test]
fn somebodys_fork_was_believed_to_be_the_base() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "k");
    let tip = at.tip("HEAD");
    // Their main has it; ours and origin's have not.
    for (name, id) in
        [("refs/remotes/me/main", tip.as_str()), ("refs/tags/main", &tip), ("refs/heads/origin/main", &tip)]
    {
        repo.git(&["update-ref", name, id]);
    }
    repo.write("other.txt", "x");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "--quiet", "-m", "other"]);
    assert!(kept(&clean(&repo, &[]), "k").contains("not landed"));
}

#[test]
fn a_merge_driver_of_the_repositorys_said_that_it_had_landed() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".gitattributes", "* merge=ours\n");
    repo.commit("attributes");
    repo.git(&["config", "merge.ours.driver", "true"]);
    let at = repo.agent("k");
    at.write("src/b.txt", "one\nmine\nthree\n");
    at.commit("mine");
    repo.write("src/b.txt", "one\ntheirs\nthree\n");
    repo.commit("theirs");
    assert!(kept(&clean(&repo, &[]), "k").contains("not landed"));
}

#[test]
fn the_same_but_for_white_space_was_called_landed() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    at.write("f.py", "if x:\n    a()\n    b()\n");
    at.commit("k");
    repo.write("f.py", "if x:\n    a()\nb()\n");
    repo.commit("not k");
    assert!(kept(&clean(&repo, &[]), "k").contains("not landed"));
}

#[test]
fn only_what_tools_make_again_was_emptied() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".gitignore", "node_modules/\ntarget/\nignored/\n.venv/\n");
    repo.commit("ignore");
    let at = repo.agent("k");
    for file in
        ["node_modules/a/x.js", "sub/node_modules/y.js", "target/mine.txt", "ignored/node_modules/z", "venv/pyvenv.cfg"]
    {
        at.write(file, "x".repeat(5000));
    }
    at.write("sub/tracked.txt", "t");
    at.write(".venv/pyvenv.cfg", "");
    std::os::unix::fs::symlink("../../first", at.join("sub/target")).unwrap();
    at.commit("sub");
    std::os::unix::fs::symlink(at.join("ignored"), at.join("node_modules/link")).unwrap();
    let would = clean(&repo, &["--caches", "--dry-run"]);
    assert_eq!(would["caches"].as_array().unwrap().len(), 3, "{would:#}");
    assert!(at.join("node_modules/a/x.js").exists());
    let done = clean(&repo, &["--caches"]);
    assert!(
        done["caches"].to_string().contains("sub/node_modules")
            && done["caches"].as_array().unwrap().iter().any(|c| c["bytes"].as_u64() > Some(0))
    );
    for gone in ["node_modules", "sub/node_modules", ".venv"] {
        assert!(!at.join(gone).exists(), "{gone}");
    }
    // No tool's mark, ignored with more, tracked, a link.
    for stays in ["target/mine.txt", "ignored/node_modules/z", "venv/pyvenv.cfg"] {
        assert!(at.join(stays).exists(), "{stays}");
    }
    assert_eq!(at.git(&["status", "--porcelain"]), "");
    repo.agents(&["clean", "--caches", "--fetch"]).code(129);
}

/// Many commands at once, of all kinds; how many ran.
fn crowd(rounds: usize, many: usize) -> usize {
    let mut ran = 0;
    for round in 0..rounds {
        let env = Env::new();
        let repo = env.repo("x");
        let before = Before::of(&repo);
        for i in 0..many {
            match i % 3 {
                0 => drop(landed(&repo, &format!("done-{i}"))),
                1 => {
                    landed(&repo, &format!("back-{i}"));
                    repo.agents(&["rm", &format!("back-{i}")]).ok();
                }
                _ => {}
            }
        }
        let started: Vec<(String, _)> = (0..many)
            .map(|i| {
                let args: Vec<String> = match i % 3 {
                    0 => vec!["clean".into()],
                    1 => vec!["restore".into(), format!("back-{i}")],
                    _ => vec!["new".into(), format!("new-{i}")],
                };
                let mut command = env.agents_command(repo.path(), &args);
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                (args.join(" "), command.spawn().unwrap())
            })
            .collect();
        for (what, child) in started {
            // One after the other under one lock: how long that takes is the machine's affair.
            let out = Out::new(&what, child.wait_with_output().unwrap());
            assert_eq!(out.status, 0, "round {round}, {what}: {out}");
            ran += 1;
        }
        env.until("all workers are done", || env.processes().is_empty());
        repo.agents(&["clean"]).ok();
        before.still_holds(&repo);
        let left: Vec<String> = names(&repo);
        for i in 0..many {
            match i % 3 {
                0 => assert!(!left.contains(&format!("done-{i}")), "{left:?}"),
                2 => assert!(left.contains(&format!("new-{i}")), "{left:?}"),
                _ => {}
            }
        }
    }
    ran
}

#[test]
fn two_cleaners_at_once_deleted_what_the_other_had_made() {
    crowd(2, 8);
}

#[test]
#[ignore = "nightly"]
fn nightly_fifty_at_once_again_and_again() {
    let ran = crowd(20, 50);
    eprintln!("{ran} commands, 50 at once: 0 failures");
}

/// Removes and gives back one worktree in another disorder each time.
pub fn round_trips(seed: u64, count: u64) {
    for first in (seed..seed + count).step_by(20) {
        restore::random_states(first, 20.min(seed + count - first));
    }
}

#[test]
#[ignore = "nightly"]
fn nightly_five_hundred_round_trips() {
    round_trips(5000, 500);
    eprintln!("500 round trips: bytes, modes, times and index equal, 0 differences");
}

#[test]
fn what_clean_took_came_back_different() {
    let env = Env::new();
    let repo = env.repo("x");
    let mut random = Random::new(7);
    let made: Vec<(Repo<'_>, _)> = (0..6)
        .map(|i| {
            let at = landed(&repo, &format!("k{i}"));
            for n in 0..random.below(4) {
                at.write(format!("ignored/deep/{n}.bin"), [0, 159, n as u8]);
            }
            std::fs::create_dir(at.join("empty")).unwrap();
            std::os::unix::fs::symlink("nowhere", at.join("ignored-link.secret")).unwrap();
            let state = (tree_state(at.path()), at.git(&["ls-files", "--stage"]));
            (at, state)
        })
        .collect();
    assert_eq!(removed(&clean(&repo, &[])).len(), 6);
    repo.git(&["gc", "--quiet", "--prune=now"]);
    for (i, (at, (tree, index))) in made.iter().enumerate() {
        repo.agents(&["restore", &format!("k{i}")]).ok();
        assert_same_tree(tree, &tree_state(at.path()));
        assert_eq!(*index, at.git(&["ls-files", "--stage"]));
    }
}

#[test]
fn a_killed_clean_left_half_a_removal() {
    assert!(kill::sweep(kill::case("clean"), 5, 17) > 3);
}

#[test]
fn a_killed_expiry_left_half_an_entry() {
    assert!(kill::sweep(kill::case("expire"), 2, 7) > 2);
}

#[test]
fn a_killed_restore_from_a_capture_lost_the_capture() {
    let cases: Vec<&Case> = vec![kill::case("restore from a capture")];
    assert!(kill::sweep(cases[0], 4, 23) > 3);
}
