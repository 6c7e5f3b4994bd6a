//! `sync` killed before each of its changes, and each of its gits: the old side or the new one, nothing between, and no
//! uncommitted file lost.

use crate::kill::{content, copy, events, fingerprint, remove_temporary_objects};
use crate::support::invariants::usable;
use crate::support::kill::{Fault, Point, Target, shares};
use crate::support::{Before, Env, Repo};
use crate::sync::with_commit;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

/// A repository with `k` behind its base, put back to the same bytes as often as wanted.
struct Lab<'e> {
    repo: Repo<'e>,
    at: Repo<'e>,
    args: &'static [&'static str],
    before: Before,
    /// Uncommitted files of `k`.
    work: BTreeMap<&'static str, Vec<u8>>,
    expected: String,
}

const PLAIN: &[&str] = &["sync", "k"];
const CARRY: &[&str] = &["sync", "--carry", "k"];

impl<'e> Lab<'e> {
    fn new(env: &'e Env, args: &'static [&'static str]) -> Lab<'e> {
        let repo = env.repo("x");
        repo.git(&["config", "core.logAllRefUpdates", "true"]);
        let at = with_commit(&repo, "k", "made.txt", "made\n");
        at.write("src/a.txt", format!("first line\n{}", at.read("src/a.txt")));
        at.write("deep/er/new.txt", "for a while\n");
        at.commit("Changes, and a file that goes again");
        at.git(&["rm", "--quiet", "deep/er/new.txt"]);
        at.commit("Gone again");
        at.write("ignored/cache.bin", [0, 1, 2, 255]);
        repo.write("new/dir/on-base.txt", "x\n".repeat(40_000));
        repo.write("src/b.txt", "other\n");
        repo.git(&["rm", "--quiet", "README.md"]);
        repo.commit("The base moves");
        let mut work = BTreeMap::new();
        if args == CARRY {
            at.write("made.txt", "made, staged\n");
            at.write("staged.txt", "staged\n");
            at.git(&["add", "--all"]);
            for (path, text) in
                [("made.txt", "made, and more\r\n"), ("untracked/deep.txt", "untracked\n"), ("staged.txt", "staged\n")]
            {
                at.write(path, text);
                work.insert(path, text.as_bytes().to_vec());
            }
            std::fs::set_permissions(at.join("made.txt"), PermissionsExt::from_mode(0o600)).unwrap();
        }
        copy(&env.root().join("code"), &env.root().join("template"));
        let mut lab = Lab { before: Before::of(&repo), repo, at, args, work, expected: String::new() };
        lab.repo.agents(args).ok();
        lab.expected = lab.state();
        assert!(lab.at.git(&["log", "--format=%s", "main.."]).lines().count() == 3, "{}", lab.expected);
        lab
    }

    fn reset(&self) {
        let root = self.repo.env.root();
        std::fs::remove_dir_all(root.join("code")).unwrap();
        copy(&root.join("template"), &root.join("code"));
    }

    fn target(&self) -> Target<'e> {
        // So that the same kill makes the same commits.
        Target::agents(&self.repo, self.args).with("GIT_COMMITTER_DATE", "2025-01-01T13:00:00Z")
    }

    /// All that is on disk, but for names by chance: what a kill left that another one has left before was checked then.
    fn bytes(&self) -> String {
        let named = |text: &str| {
            let plain = |c: char| if c.is_ascii_hexdigit() { '#' } else { c };
            text.split("refs/agents/removed/")
                .enumerate()
                .map(|(n, part)| {
                    let end = if n == 0 { 0 } else { part.find([' ', '\n', '"']).unwrap_or(part.len()) };
                    part[..end].chars().map(plain).collect::<String>() + &part[end..]
                })
                .collect::<String>()
        };
        let config = named(&self.repo.read(".git/config"));
        let mut tree = fingerprint(self.repo.env);
        tree.remove(b"x/.git/config".as_slice());
        let tree = tree.into_iter().map(|(path, what)| {
            let path = String::from_utf8_lossy(&path).into_owned();
            let by_chance = path.contains("/agents/") || path.contains(".tmp-");
            let path = if by_chance {
                path.chars().map(|c| if c.is_ascii_hexdigit() { '#' } else { c }).collect()
            } else {
                path
            };
            format!("{path} {what:?}")
        });
        config + &tree.collect::<Vec<_>>().join("\n")
    }

    /// What counts, without ids and times.
    fn state(&self) -> String {
        let at = &self.at;
        let log = at.git(&["log", "--format=%T %an %ae %s", "main..HEAD"]);
        let status = at.git(&["status", "--porcelain=v2", "--ignored"]);
        let fork = self.repo.git(&["config", "agent.k.fork"]) == self.repo.tip("main");
        let head = at.git(&["symbolic-ref", "HEAD"]);
        let a = self.repo.status_of("k");
        let said = [&a["branch_state"], &a["behind"], &a["operation"], &a["locked"], &a["findings"]];
        let synced = events(&self.repo).iter().filter(|e| e.contains("\"kind\":\"synced\"")).count();
        format!("{log}\n{status}\nfork {fork} on {head} {said:?} {synced} events\n{:?}", content(at.path()))
    }

    #[track_caller]
    fn check(&self, what: &str) {
        let repo = &self.repo;
        repo.env.until("what the killed one had started is done", || repo.env.processes().is_empty());
        usable(repo);
        let status = repo.agents(&["status", "--json"]).ok();
        assert!(status.json()["agents"].is_array(), "{what}: {status}");
        for (path, bytes) in &self.work {
            let here = std::fs::read(self.at.join(path)).is_ok_and(|b| b == *bytes);
            let kept = || {
                let refs = repo.git(&["for-each-ref", "--format=%(refname)", "refs/agents/removed"]);
                refs.lines().any(|r| {
                    let shown = repo.try_git(&["cat-file", "blob", &format!("{r}:{path}")]);
                    shown.status == 0 && shown.stdout.as_bytes() == *bytes
                })
            };
            assert!(here || kept(), "{what}: the uncommitted '{path}' is nowhere");
        }
        // The next command of any kind brings it to one side: the old one or the new one, nothing between.
        repo.repair();
        let dirty = self.at.git(&["status", "--porcelain"]);
        let (count, whole) = (dirty.lines().count(), repo.status_of("k")["operation"].is_null());
        assert!(count == self.work.len() && whole, "{what}: left in the middle\n{dirty}");
        let out = repo.agents(self.args);
        assert_eq!(out.status, 0, "{what}: {out}");
        let now = self.state();
        assert!(
            now == self.expected,
            "{what}: ended differently\n--- as it should be\n{}\n--- as it is\n{now}",
            self.expected
        );
        self.before.still_holds(repo);
        let before = fingerprint(repo.env);
        let out = repo.agents(self.args).ok();
        crate::support::assert_same_tree(&before, &fingerprint(repo.env));
        assert!(out.stderr.contains("is on 'main' as it is now"), "{what}: {out}");
    }

    /// Kills the command itself before each `step`-th of its changes, from `first`; how often.
    fn sweep(&self, first: usize, step: usize) -> usize {
        self.reset();
        let points = self.target().points();
        eprintln!("{} points of its own", points.len());
        let chosen = points.iter().skip(first).step_by(step);
        self.hits(chosen.map(|p| (p.to_string(), Box::new(|| self.target().kill_before(p)) as Box<dyn Fn() -> Fault>)))
    }

    /// Kills each git that it starts before each `step`-th of that git's changes.
    fn sweep_gits(&self, first: usize, step: usize) -> usize {
        self.reset();
        let children = self.target().git_children();
        let all: Vec<(usize, &Point)> =
            children.iter().enumerate().flat_map(|(j, c)| c.iter().map(move |p| (j + 1, p))).collect();
        eprintln!("{} points in its gits", all.len());
        let chosen = all.iter().skip(first).step_by(step);
        self.hits(chosen.map(|(j, p)| {
            (
                format!("its git {j} before {p}"),
                Box::new(|| self.target().kill_child_before(*j, p)) as Box<dyn Fn() -> Fault>,
            )
        }))
    }

    fn hits<'k>(&self, kills: impl Iterator<Item = (String, Box<dyn Fn() -> Fault + 'k>)>) -> usize {
        let (mut hits, mut missed, mut seen) = (0, 0, std::collections::HashSet::new());
        for (what, kill) in kills {
            self.reset();
            if kill().hit {
                hits += 1;
                let env = self.repo.env;
                env.until("what the killed one had started is done", || env.processes().is_empty());
                remove_temporary_objects(&self.repo);
                if seen.insert(self.bytes()) {
                    self.check(&format!("{} killed: {what}", self.args.join(" ")));
                }
            } else {
                missed += 1;
            }
        }
        eprintln!("{hits} kills, {} different states", seen.len());
        assert!(missed * 5 <= hits, "{missed} of {} points were not hit", hits + missed);
        hits
    }
}

/// A few of each, for another git.
pub fn sample() {
    let env = Env::new();
    assert!(Lab::new(&env, CARRY).sweep_gits(90, 170) > 0);
}

#[test]
fn a_killed_sync_left_a_rebase_in_the_middle() {
    let env = Env::new();
    assert!(Lab::new(&env, PLAIN).sweep(5, 150) > 1);
}

#[test]
fn a_killed_rebase_left_files_of_nobody() {
    let env = Env::new();
    assert!(Lab::new(&env, PLAIN).sweep_gits(70, 211) > 0);
}

#[test]
fn a_killed_sync_lost_the_work_it_carried() {
    let env = Env::new();
    assert!(Lab::new(&env, CARRY).sweep(20, 230) > 1);
}

#[test]
#[ignore = "nightly"]
fn nightly_every_kill_point_of_sync() {
    let env = Env::new();
    let hits = Lab::new(&env, PLAIN).sweep(0, 1);
    eprintln!("sync: {hits} kill points, 0 violations");
}

#[test]
#[ignore = "nightly"]
fn nightly_every_kill_point_of_sync_with_work() {
    let env = Env::new();
    let hits = Lab::new(&env, CARRY).sweep(0, 1);
    eprintln!("sync --carry: {hits} kill points, 0 violations");
}

#[test]
#[ignore = "nightly"]
fn nightly_every_kill_point_of_the_gits_of_sync() {
    for args in [PLAIN, CARRY] {
        let env = Env::new();
        let hits = Lab::new(&env, args).sweep_gits(0, 1);
        eprintln!("{}: {hits} kill points in its gits, 0 violations", args.join(" "));
    }
}

#[test]
#[ignore = "nightly"]
fn nightly_random_kills_of_sync() {
    let mut hits = 0;
    for (args, seed) in [(PLAIN, 3), (CARRY, 4)] {
        let env = Env::new();
        let lab = Lab::new(&env, args);
        lab.reset();
        let (full, _) = lab.target().timed();
        for share in shares(seed).take(100) {
            lab.reset();
            hits += usize::from(lab.target().random_kill(full, share).hit);
            remove_temporary_objects(&lab.repo);
            lab.check(&format!("{}, seed {seed}, after {share} of it", args.join(" ")));
        }
    }
    eprintln!("200 runs, {hits} killed in the middle, 0 violations");
}

#[test]
fn a_killed_reset_tore_a_file_that_nobody_had_changed() {
    let env = Env::new();
    let lab = Lab::new(&env, CARRY);
    lab.reset();
    let children = lab.target().git_children();
    // The only git of it that writes files of the worktree and unlinks them first, and no objects; before the rebase.
    let starts = |p: &&Point| p.call == "unlink" || p.call == "unlinkat";
    let writes_objects = |c: &&Vec<Point>| c.iter().any(|p| p.call == "link");
    let resets = |c: &Vec<Point>| !writes_objects(&c) && c.iter().filter(starts).count() > 2;
    let resets = children.iter().position(resets).unwrap() + 1;
    let kills = [Point { call: "write".into(), nth: 1 }, Point { call: "write".into(), nth: 2 }];
    let lab = &lab;
    let kills = kills.iter().map(|p| {
        let kill = move || lab.target().kill_child_before(resets, p);
        (format!("its git {resets} before {p}"), Box::new(kill) as Box<dyn Fn() -> Fault>)
    });
    assert_eq!(lab.hits(kills), 2);
    // The capture, which ends before anything is taken away.
    let captures = children.iter().position(|c| writes_objects(&c)).unwrap() + 1;
    let first = Point { call: "write".into(), nth: 1 };
    let kill = || lab.target().kill_child_before(captures, &first);
    let kill = (format!("its git {captures} before {first}"), Box::new(kill) as Box<dyn Fn() -> Fault>);
    assert_eq!(lab.hits(std::iter::once(kill)), 1);
}
