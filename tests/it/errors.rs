//! The system says no: an error at each change a command makes, too few descriptors, a file system that cannot be written,
//! and a power cut right after a command has answered.
//!
//! Each command under a fault ends with an error that says what and where, or does what it was asked; nothing is lost, and
//! the same command again succeeds.

use crate::kill::{CASES, Case, Lab, case, remove_temporary_objects};
use crate::support::env::run;
use crate::support::kill::Point;
use crate::support::kill::Target;
use crate::support::{Before, Env, Out, Repo, repo_invariants};
use std::path::Path;

/// An agent `k` that its base has left behind, with uncommitted work.
fn behind(repo: &Repo<'_>) {
    let at = crate::sync::with_commit(repo, "k", "made.txt", "made\n");
    at.write("src/a.txt", format!("first line\n{}", at.read("src/a.txt")));
    at.commit("Changed");
    for (path, text) in WORK {
        at.write(path, text);
    }
    repo.write("new/dir/on-base.txt", "x\n".repeat(5000));
    repo.write("src/b.txt", "other\n");
    repo.git(&["add", "new", "src"]);
    repo.git(&["commit", "--quiet", "-m", "The base moves"]);
}

const WORK: [(&str, &str); 2] = [("made.txt", "made, and more\r\n"), ("untracked/deep.txt", "untracked\n")];

/// `sync` again: on the base, and what was not committed where it was.
#[track_caller]
fn synced(lab: &Lab<'_>, args: &[&str], what: &str) {
    let out = lab.repo.agents(args);
    assert_eq!(out.status, 0, "{what}: {out}");
    let at = lab.repo.worktree("k");
    assert_eq!(
        (at.tip("HEAD~2"), at.git(&["symbolic-ref", "HEAD"])),
        (lab.repo.tip("main"), "refs/heads/k".into()),
        "{what}"
    );
    for (path, text) in WORK.iter().filter(|_| args.contains(&"--carry")) {
        assert_eq!(at.read(path), *text, "{what}");
    }
}

const SYNCS: &[Case] = &[
    Case {
        name: "sync",
        args: &["sync", "k"],
        prepare: |repo| {
            behind(repo);
            let at = repo.worktree("k");
            at.git(&["checkout", "--quiet", "made.txt"]);
            std::fs::remove_dir_all(at.join("untracked")).unwrap();
        },
        again: |lab, what| synced(lab, &["sync", "k"], what),
        same: |_| String::new(),
    },
    Case {
        name: "sync --carry",
        args: &["sync", "--carry", "k"],
        prepare: behind,
        again: |lab, what| synced(lab, &["sync", "--carry", "k"], what),
        same: |_| String::new(),
    },
];

fn all_cases() -> impl Iterator<Item = &'static Case> {
    CASES.iter().chain(SYNCS).chain(crate::land_kill::CASES)
}

/// Whether `out` is an end that a person understands: done, or an error. A message that could itself not be written is
/// excused.
#[track_caller]
fn clear_end(out: &Out, point: &Point, what: &str) {
    let excused = point.call.starts_with("write") && out.stderr.is_empty();
    assert!([0, 1, 128, 129].contains(&out.status), "{what}: {out}");
    let says = out.stderr.lines().any(|l| l.starts_with("error: ") && l.len() > 12);
    assert!(out.status == 0 || says || excused, "{what}: no error is said\n{out}");
    assert!(!out.stderr.contains("panicked"), "{what}: {out}");
}

/// Every `step`-th change of a command from `first`, refused with `errno`; how many.
fn sweep(case: &Case, errno: &str, first: usize, step: usize) -> usize {
    let env = Env::new();
    let lab = Lab::of(&env, case);
    let points: Vec<Point> = lab.target(case.args).points();
    // Starting a process fails in ways of its own, and a signal is no file.
    let can = |p: &&Point| {
        !p.call.contains("fork") && !p.call.contains("clone") && !p.call.contains("kill") && !p.call.contains("signal")
    };
    let (mut tried, mut wrong) = (0, Vec::new());
    for point in points.iter().filter(can).skip(first).step_by(step) {
        lab.reset();
        let what = format!("{}, {errno} at {point}", case.name);
        let fault = lab.target(case.args).fail_at(point, errno);
        if !fault.hit {
            continue;
        }
        tried += 1;
        // Every one is tried, and all that went wrong is said together.
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            clear_end(&fault.out, point, &what);
            // What is not on the disk was not acknowledged: it is an error, or said of what is done. Private git dirs are
            // expendable.
            let private = ["/agents/sterile", "/.git/agents>", "</dev/shm/"].iter().any(|p| fault.refused.contains(p));
            let words = [&fault.out.stdout, &fault.out.stderr];
            let said = fault.out.status != 0 || words.iter().any(|w| w.contains("Input/output error"));
            let noticed = !point.call.contains("sync") || private || said;
            assert!(noticed || errno != "EIO", "{what}: not noticed: {}", fault.refused);
            remove_temporary_objects(&lab.repo);
            lab.after_kill(&what);
            (case.again)(&lab, &what);
            lab.after_repair(&what);
        }));
        if let Err(e) = seen {
            wrong.push(format!("{what}: {}\n{}", e.downcast_ref::<String>().map_or("", String::as_str), fault.out));
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    tried
}

/// The same for the gits that it starts.
fn sweep_gits(case: &Case, errno: &str, step: usize) -> usize {
    let mut wrong = Vec::new();
    let env = Env::new();
    let lab = Lab::of(&env, case);
    let target = lab.target(case.args);
    let children = target.git_children();
    let all: Vec<(usize, &Point)> =
        children.iter().enumerate().flat_map(|(j, ps)| ps.iter().map(move |p| (j, p))).collect();
    let mut tried = 0;
    for (j, point) in all.into_iter().step_by(step) {
        // A lock that git itself cannot remove it leaves, and says it is done: that one is named to whoever meets it.
        if ["fork", "clone", "kill", "signal", "unlink"].iter().any(|c| point.call.contains(c)) {
            continue;
        }
        lab.reset();
        let what = format!("{}, {errno} in its git {} at {point}", case.name, j + 1);
        let fault = target.fail_child_at(j + 1, point, errno);
        // Into a pipe no write fails like that, and git does not look.
        if !fault.hit || fault.refused.contains("write(1,") {
            continue;
        }
        tried += 1;
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            clear_end(&fault.out, point, &what);
            remove_temporary_objects(&lab.repo);
            lab.after_kill(&what);
            (case.again)(&lab, &what);
            lab.after_repair(&what);
        }));
        if let Err(e) = seen {
            wrong.push(format!("{what}: {}\n{}", e.downcast_ref::<String>().map_or("", String::as_str), fault.out));
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    tried
}

#[test]
fn a_disk_error_in_the_middle_of_new_left_half_an_agent() {
    assert!(sweep(case("new"), "EIO", 2, 23) > 3);
}

#[test]
fn a_full_disk_in_the_middle_of_rm_lost_files() {
    assert!(sweep(case("rm -D"), "ENOSPC", 5, 29) > 3);
}

#[test]
fn a_disk_error_in_the_middle_of_restore_lost_what_it_gave_back() {
    assert!(sweep(case("restore"), "EIO", 8, 23) > 2);
}

#[test]
fn a_full_disk_in_the_middle_of_sync_lost_the_work_it_carried() {
    assert!(sweep(&SYNCS[1], "ENOSPC", 11, 397) > 0);
    assert!(sweep_gits(&SYNCS[1], "ENOSPC", 71) > 0);
}

#[test]
fn a_file_that_may_not_be_written_left_a_sync_half() {
    assert!(sweep(&SYNCS[0], "EACCES", 19, 331) > 0);
}

#[test]
fn a_full_disk_in_the_middle_of_land_left_half_a_merge() {
    assert!(sweep(crate::land_kill::case("land"), "ENOSPC", 7, 397) > 0);
    assert!(sweep_gits(crate::land_kill::case("land"), "ENOSPC", 71) > 0);
}

#[test]
fn a_disk_error_in_the_middle_of_clean_lost_files() {
    assert!(sweep(case("clean"), "EACCES", 3, 331) > 0);
}

/// What `case` says where the last write of its own of which `words` are said fails.
fn said_at_the_end(lab: &Lab<'_>, case: &Case, words: &str) -> Option<Out> {
    let target = lab.target(case.args);
    let syncs: Vec<Point> = target.points().into_iter().filter(|p| p.call == "fsync").collect();
    syncs.iter().rev().take(16).find_map(|point| {
        lab.reset();
        let out = target.fail_at(point, "EIO").out;
        out.stderr.contains(words).then_some(out)
    })
}

#[test]
fn a_disk_error_after_the_move_was_not_said_by_clean() {
    let env = Env::new();
    let lab = Lab::of(&env, case("clean"));
    let out = said_at_the_end(&lab, case("clean"), "'l': not all of it is noted yet: could not sync").unwrap();
    assert!(out.status == 0 && out.stdout.contains("'l' moved to the trash"), "{out}");
    lab.repo.repair();
    assert_eq!(lab.repo.status()["agents"].as_array().unwrap().len(), 1);
}

#[test]
fn a_disk_error_after_the_move_was_not_said_by_land() {
    let env = Env::new();
    let land = crate::land_kill::case("land");
    let lab = Lab::of(&env, land);
    let out = said_at_the_end(&lab, land, "'k': not all of it is noted yet: could not sync").unwrap();
    assert!(out.status == 0 && out.stderr.contains("'k' landed in 'main'"), "{out}");
    lab.repo.repair();
    assert_eq!(lab.repo.status()["agents"], serde_json::json!([]));
}

#[test]
fn a_branch_that_may_not_be_on_the_disk_was_said_to_be_rebased() {
    let env = Env::new();
    let lab = Lab::of(&env, &SYNCS[0]);
    let out = said_at_the_end(&lab, &SYNCS[0], ".git/refs/heads': Input/output error").unwrap();
    assert_eq!(out.status, 128, "{out}");
    synced(&lab, SYNCS[0].args, "again");
}

#[test]
#[ignore = "nightly"]
fn nightly_an_error_at_every_change_of_every_command() {
    for c in all_cases() {
        // The others show the same paths through our program, so that some of them will do.
        for (errno, step) in [("EIO", 1), ("ENOSPC", 3), ("EMFILE", 5), ("EACCES", 7)] {
            eprintln!("{}: {errno} at {} changes, 0 violations", c.name, sweep(c, errno, 0, step));
        }
    }
}

#[test]
#[ignore = "nightly"]
fn nightly_an_error_at_every_change_of_every_git() {
    for c in all_cases() {
        for errno in ["EIO", "ENOSPC"] {
            eprintln!("{}: {errno} at {} changes of its gits, 0 violations", c.name, sweep_gits(c, errno, 1));
        }
    }
}

/// With every limit of open files from 3 to `most`: an error or success, and afterwards as if nothing had been.
fn few_descriptors(case: &Case, most: usize, step: usize) -> (usize, usize) {
    let env = Env::new();
    let lab = Lab::of(&env, case);
    let (mut failed, mut done) = (0, 0);
    for n in (4..=most).step_by(step) {
        lab.reset();
        let mut sh = env.command("sh", lab.repo.path());
        sh.args(["-c", &format!("ulimit -n {n}; exec \"$0\" \"$@\"")])
            .arg(env!("CARGO_BIN_EXE_git-agents"))
            .args(case.args);
        let out = run(sh, b"");
        let what = format!("{} with {n} descriptors", case.name);
        // Below what the loader needs nothing of ours has begun.
        if out.status == 127 && out.stderr.contains("shared libraries") {
            continue;
        }
        clear_end(&out, &Point { call: "openat".into(), nth: n }, &what);
        *(if out.status == 0 { &mut done } else { &mut failed }) += 1;
        remove_temporary_objects(&lab.repo);
        lab.after_kill(&what);
        (case.again)(&lab, &what);
        lab.after_repair(&what);
    }
    (failed, done)
}

#[test]
fn too_few_descriptors_left_half_an_agent() {
    let (failed, _) = few_descriptors(case("new"), 20, 4);
    assert!(failed > 0);
    few_descriptors(case("rm"), 20, 5);
}

#[test]
#[ignore = "nightly"]
fn nightly_every_limit_of_descriptors() {
    for c in all_cases() {
        let (failed, done) = few_descriptors(c, 40, 1);
        eprintln!("{}: {failed} limits of descriptors that stopped it, {done} that did not, 0 violations", c.name);
    }
}

/// `run` with one task, its supervisor, its gits and its assistant refused the `nth` of `calls` each. Whatever came of it
/// is known, what is there stays, and `rm` and another `run` work.
fn refused_run(calls: &str, errno: &str, numbers: impl Iterator<Item = usize>) -> (usize, usize) {
    let (mut tried, mut failed, mut wrong) = (0, 0, Vec::new());
    let task = "1. Make it {name=k}\n   - WRITE: a.txt: a\n   - COMMIT: A\n   - WRITE: left.txt: left\n";
    for n in numbers {
        let env = Env::new();
        let repo = env.repo("x");
        let list = env.root().join("list.md");
        std::fs::write(&list, task).unwrap();
        let before = Before::of(&repo);
        let what = format!("run, {errno} at {calls} {n} of each process");
        let list = list.to_str().unwrap();
        let args = ["run", "-q", "-a", "scripted", "-f", list];
        let fault = Target::agents(&repo, &args).refuse(calls, errno, Some(n));
        if !fault.hit {
            break;
        }
        tried += 1;
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // 1 is an answer, and the reason is in the agent's state.
            if fault.out.status != 1 {
                clear_end(&fault.out, &Point { call: calls.into(), nth: n }, &what);
            }
            env.until("nothing runs any more", || env.processes().is_empty());
            remove_temporary_objects(&repo);
            for args in [&["status", "--json"][..], &["report", "--json"], &["logs"]] {
                let out = repo.agents(args);
                assert!(out.status <= 1 || out.status == 128 && out.stderr.starts_with("error: "), "{out}");
            }
            let agents = repo.status()["agents"].as_array().unwrap().clone();
            for a in &agents {
                let state = a["run"]["state"].as_str().unwrap_or("none");
                let live = ["running", "attached", "verifying", "preparing"].contains(&state);
                assert!(!live, "nothing runs, and its state is {state}: {a}");
                assert!(state != "failed" || a["run"]["reason"].is_string(), "it failed, and no reason is told: {a}");
                let name = a["name"].as_str().unwrap();
                repo.agents(&["stop", name]);
                repo.agents(&["rm", "--force", "-D", name]).ok();
            }
            repo.agents(&["run", "-q", "-a", "scripted", "-f", list, "--again"]).ok();
            assert!(repo.status()["agents"][0]["ahead"].as_u64() >= Some(1));
            repo.repair();
            for lock in ["HEAD.lock", "index.lock", "packed-refs.lock"] {
                assert!(!repo.join(".git").join(lock).exists(), "{lock}");
            }
            before.still_holds(&repo);
        }));

        failed += usize::from(fault.out.status != 0);
        if let Err(e) = seen {
            wrong.push(format!("{what}: {}\n{}", e.downcast_ref::<String>().map_or("", String::as_str), fault.out));
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    (tried, failed)
}

#[test]
fn a_disk_error_during_a_run_left_an_agent_nobody_could_remove() {
    let (tried, failed) = refused_run("rename", "EIO", 1..4);
    assert!(tried > 0 && failed > 0);
    refused_run("fsync", "EIO", (2..8).step_by(5));
}

#[test]
#[ignore = "nightly"]
fn nightly_errors_during_a_run() {
    for (calls, errno) in
        [("rename", "EIO"), ("fsync", "EIO"), ("mkdir", "ENOSPC"), ("linkat", "EIO"), ("write", "ENOSPC")]
    {
        let (tried, failed) = refused_run(calls, errno, 1..13);
        eprintln!("run: {errno} at {calls} 1 to {tried} of each process, {failed} of them stopped it, 0 violations");
    }
}

/// What a file system lacks, as every call of it is refused: a refusal that says so and leaves nothing, or it works.
#[test]
fn a_file_system_without_locks_or_links_is_refused_clearly() {
    for (calls, errno, works) in [
        // vfat, exFAT: no hard links.
        ("link,linkat", "EPERM", false),
        // NFS without its lock service.
        ("flock", "ENOLCK", false),
        // No flag of renameat2, on ZFS and some network file systems.
        ("renameat2", "EINVAL", true),
    ] {
        let env = Env::new();
        let repo = env.repo("x");
        let before = Before::of(&repo);
        let fault = Target::agents(&repo, &["new", "k"]).refuse(calls, errno, None);
        let out = fault.out;
        assert!(fault.hit || works, "{calls}: {out}");
        if works {
            assert_eq!(out.status, 0, "{calls}: {out}");
            let out = Target::agents(&repo, &["rm", "k"]).refuse(calls, errno, None).out;
            assert_eq!(out.status, 0, "{calls}: {out}");
            let out = Target::agents(&repo, &["restore", "k"]).refuse(calls, errno, None).out;
            assert_eq!(out.status, 0, "{calls}: {out}");
        } else {
            assert_eq!(out.status, 128, "{calls}: {out}");
            assert!(out.stderr.contains("lock") && out.stderr.contains("file system"), "{calls}: {out}");
            assert!(!repo.has("refs/heads/k") && !Path::new(&env.root().join("code/x.agents/k")).exists());
            assert_eq!(repo.status()["agents"], serde_json::json!([]));
        }
        before.still_holds(&repo);
        repo_invariants(&repo);
    }
}
