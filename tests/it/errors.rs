//! The system says no: an error at each change a command makes, too few descriptors, a file system that cannot be written,
//! and a power cut right after a command has answered.
//!
//! Each command under a fault ends with an error that says what and where, or does what it was asked; nothing is lost, and
//! the same command again succeeds.

use crate::kill::{CASES, Case, Lab, case, remove_temporary_objects};
use crate::support::env::run;
use crate::support::kill::Point;
use crate::support::{Env, Out};

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
    let lab = Lab::new(&env, case.prepare);
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
            // What is not on the disk was not acknowledged. Private git dirs are expendable.
            let private = fault.refused.contains("/agents/sterile") || fault.refused.contains("/.git/agents>");
            let noticed = !point.call.contains("sync") || private || fault.out.status != 0;
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
    let env = Env::new();
    let lab = Lab::new(&env, case.prepare);
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
        if !fault.hit {
            continue;
        }
        tried += 1;
        clear_end(&fault.out, point, &what);
        remove_temporary_objects(&lab.repo);
        lab.after_kill(&what);
        (case.again)(&lab, &what);
        lab.after_repair(&what);
    }
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
#[ignore = "nightly"]
fn nightly_an_error_at_every_change_of_every_command() {
    for c in CASES {
        // The others show the same paths through our program, so that some of them will do.
        for (errno, step) in [("EIO", 1), ("ENOSPC", 3), ("EMFILE", 5)] {
            eprintln!("{}: {errno} at {} changes, 0 violations", c.name, sweep(c, errno, 0, step));
        }
    }
}

#[test]
#[ignore = "nightly"]
fn nightly_an_error_at_every_change_of_every_git() {
    for c in CASES {
        for errno in ["EIO", "ENOSPC"] {
            eprintln!("{}: {errno} at {} changes of its gits, 0 violations", c.name, sweep_gits(c, errno, 1));
        }
    }
}

/// With every limit of open files from 3 to `most`: an error or success, and afterwards as if nothing had been.
fn few_descriptors(case: &Case, most: usize, step: usize) -> (usize, usize) {
    let env = Env::new();
    let lab = Lab::new(&env, case.prepare);
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
    for c in CASES {
        let (failed, done) = few_descriptors(c, 40, 1);
        eprintln!("{}: {failed} limits of descriptors that stopped it, {done} that did not, 0 violations", c.name);
    }
}
