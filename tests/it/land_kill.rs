//! Landing killed before each of its changes, and each git that it starts: the base has the work, or the checkout is as it
//! was; uncommitted files in it never change.

use crate::kill::{Case, Lab, remove_temporary_objects, sweep, sweep_gits};
use crate::land::{agent, two_sides};
use crate::support::kill::Point;
use crate::support::{Env, Repo};
use std::path::PathBuf;

fn again(lab: &Lab<'_>, args: &[&str], what: &str) {
    let out = lab.repo.agents(args);
    assert!(out.status == 0 || (out.status == 128 && out.stderr.contains("no agent named 'k'")), "{what}: {out}");
    lab.repo.repair();
}

/// What there is in the end, without times and ids.
fn landed(repo: &Repo<'_>) -> String {
    let tree = repo.git(&["rev-parse", "refs/heads/main^{tree}"]);
    let shape = repo.git(&["log", "-1", "--format=%s %p", "refs/heads/main"]);
    let notes = repo.git(&["log", "-1", "--notes=agents", "--format=%N", "refs/heads/main"]);
    let events = crate::kill::events(repo).iter().filter(|e| e.contains("\"kind\":\"landed\"")).count();
    let agents = repo.agents(&["status", "--names"]).ok().stdout;
    let landing: Vec<PathBuf> = crate::support::wait::files(&repo.join(".git/agents/landing"), &|_| true);
    let left: Vec<&PathBuf> = landing.iter().filter(|f| !f.ends_with("lock")).collect();
    format!("{tree} {shape}\n{notes}\n{events} events\n{agents}\n{}\n{left:?}", repo.git(&["status", "--porcelain"]))
}

pub const CASES: &[Case] = &[
    Case {
        name: "land",
        args: &["land", "k"],
        prepare: two_sides,
        again: |lab, what| again(lab, &["land", "k"], what),
        same: landed,
    },
    Case {
        name: "land --squash",
        args: &["land", "--squash", "k"],
        prepare: two_sides,
        again: |lab, what| again(lab, &["land", "--squash", "k"], what),
        same: landed,
    },
    Case {
        name: "land --ff-only",
        args: &["land", "--ff-only", "k"],
        prepare: |r| drop(agent(r, "k", "src/b.txt", "one\n")),
        again: |lab, what| again(lab, &["land", "--ff-only", "k"], what),
        same: landed,
    },
    Case {
        name: "land elsewhere",
        args: &["land", "k"],
        prepare: |r| {
            two_sides(r);
            r.git(&["branch", "elsewhere"]);
            r.git(&["symbolic-ref", "HEAD", "refs/heads/elsewhere"]);
        },
        again: |lab, what| again(lab, &["land", "k"], what),
        same: landed,
    },
    Case {
        name: "land --rebase",
        args: &["land", "--rebase", "--test", "true", "k"],
        prepare: two_sides,
        again: |lab, what| again(lab, &["land", "--rebase", "--test", "true", "k"], what),
        same: landed,
    },
    Case {
        name: "land --rebase, not passed",
        args: NOT_PASSED,
        prepare: two_sides,
        again: |lab, what| {
            let out = lab.repo.agents(NOT_PASSED).code(1);
            assert!(out.stderr.contains("does not pass 'false'"), "{what}: {out}");
        },
        same: |repo| {
            let at = repo.worktree("k");
            let stands = format!("{} {}", at.tip("HEAD"), at.git(&["status", "--porcelain=v2", "--branch"]));
            format!("{}\n{stands}\n{}", landed(repo), repo.git(&["config", "--get-regexp", "^agent[.]k[.]"]))
        },
    },
];

const NOT_PASSED: &[&str] = &["land", "--rebase", "--test", "false", "k"];

pub fn case(name: &str) -> &'static Case {
    CASES.iter().find(|c| c.name == name).unwrap()
}

#[test]
fn a_killed_landing_was_half() {
    assert!(sweep(case("land"), 47, 61) > 1);
}

#[test]
fn a_killed_squash_left_its_files_staged() {
    assert!(sweep(case("land --squash"), 53, 67) > 1);
}

#[test]
fn a_killed_fast_forward_was_half() {
    assert!(sweep(case("land --ff-only"), 17, 61) > 1);
}

#[test]
fn a_killed_landing_that_rebases_first_was_half() {
    assert!(sweep(case("land --rebase"), 29, 541) > 1);
}

#[test]
fn a_killed_test_of_a_rebase_left_the_branch_rebased() {
    assert!(sweep(case("land --rebase, not passed"), 19, 331) > 1);
}

#[test]
fn a_killed_landing_elsewhere_left_a_worktree() {
    assert!(sweep(case("land elsewhere"), 23, 89) > 1);
}

/// The changes of the git that merges, in the checkout itself.
#[test]
fn a_killed_merge_left_a_file_deleted_and_another_half_written() {
    let env = Env::new();
    let lab = Lab::new(&env, two_sides);
    let target = lab.target(&["land", "k"]);
    let children = target.git_children();
    // It alone makes directories and takes files away; which call of git that is varies with versions.
    let of = |points: &[Point], call: &str| points.iter().filter(|p| p.call == call).count();
    let (j, points) = children.iter().enumerate().max_by_key(|(_, p)| of(p, "unlink").min(of(p, "mkdir"))).unwrap();
    let mut torn = 0;
    for point in
        points.iter().filter(|p| p.call == "mkdir").chain(points.iter().filter(|p| p.call == "write").step_by(5))
    {
        lab.reset();
        let before = lab.repo.git(&["status", "--porcelain"]);
        let fault = target.kill_child_before(j + 1, point);
        if fault.hit && fault.out.stderr.contains("'k' did not land") {
            torn += 1;
            remove_temporary_objects(&lab.repo);
            let now = lab.repo.git(&["status", "--porcelain"]);
            assert_eq!(now, before, "killed before {point}: {}", fault.out);
        }
    }
    assert!(torn > 2, "it was no merge that was killed");
}

#[test]
#[ignore = "nightly"]
fn nightly_every_kill_point_of_land() {
    for c in CASES {
        let begun = std::time::Instant::now();
        eprintln!("{}: {} kill points, 0 violations ({} s)", c.name, sweep(c, 0, 1), begun.elapsed().as_secs());
    }
}

#[test]
fn a_killed_git_left_the_checkout_half_merged() {
    // Beside the exact bytes of the checkout nothing of it may be left, whatever git was about to do.
    for (name, first, step) in [
        ("land", 31, 173),
        ("land --squash", 41, 181),
        ("land --ff-only", 11, 61),
        ("land --rebase, not passed", 59, 601),
    ] {
        let (hits, _) = sweep_gits(case(name), first, step);
        assert!(hits > 0, "{name}: {hits}");
    }
}

#[test]
#[ignore = "nightly"]
fn nightly_every_kill_point_of_every_git_of_land() {
    for c in CASES {
        let (points, calls) = sweep_gits(c, 0, 1);
        eprintln!("{}: {points} kill points in {calls} calls of git, 0 violations", c.name);
    }
}
