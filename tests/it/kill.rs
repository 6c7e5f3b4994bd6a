//! Commands that change state, killed before each of their changes: nothing is lost, nothing stays half done.
//!
//! After every kill, in this order: the repository is usable as it stands, `status --json` answers, everything that was
//! there before is still somewhere; the same command (or the obvious next one) succeeds and ends as if nothing had
//! happened; a third run changes not a byte.

use crate::support::invariants::usable;
use crate::support::kill::{Target, shares};
use crate::support::tree::{Tree, tree_state};
use crate::support::wait::files;
use crate::support::{Before, Env, Out, Repo};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A repository that is put back to the same bytes as often as wanted.
pub struct Lab<'e> {
    pub repo: Repo<'e>,
    template: PathBuf,
    before: Before,
    held: Held,
}

impl<'e> Lab<'e> {
    pub fn new(env: &'e Env, prepare: impl Fn(&Repo<'e>)) -> Lab<'e> {
        let repo = env.repo("x");
        repo.git(&["config", "core.logAllRefUpdates", "true"]);
        repo.write("ignored/mine.txt", "ignored in the main checkout\n");
        repo.write("README.md", "# Edited in the main checkout\n");
        prepare(&repo);
        let lab = Lab { before: Before::of(&repo), held: Held::of(&repo), template: env.root().join("template"), repo };
        copy(&lab.repo.env.root().join("code"), &lab.template);
        lab
    }

    /// For a case: some are there to change files.
    pub fn of(env: &'e Env, case: &Case) -> Lab<'e> {
        let mut lab = Lab::new(env, case.prepare);
        if ["expire", "land --rebase", "sync", "sync --carry"].contains(&case.name) {
            lab.held.trees.clear();
        }
        lab
    }

    pub fn reset(&self) {
        let code = self.repo.env.root().join("code");
        std::fs::remove_dir_all(&code).unwrap();
        copy(&self.template, &code);
    }

    pub fn target(&self, args: &[&str]) -> Target<'e> {
        Target::agents(&self.repo, args)
    }

    /// What holds right after a kill, whatever it was.
    #[track_caller]
    pub fn after_kill(&self, what: &str) {
        self.repo.env.until("what the killed one had started is done", || self.repo.env.processes().is_empty());
        usable(&self.repo);
        let status = self.repo.agents(&["status", "--json"]).ok();
        assert!(status.json()["agents"].is_array(), "{what}: {status}");
        self.held.still_there(&self.repo, what);
    }

    /// What holds once the next command is through.
    #[track_caller]
    pub fn after_repair(&self, what: &str) {
        // What the second run was refused for it may have found without the lock; this one takes it.
        self.repo.repair();
        self.before.still_holds(&self.repo);
        self.held.still_there(&self.repo, what);
        let left: Vec<PathBuf> =
            files(&self.repo.common_dir(), &|_| false).into_iter().filter(|f| is_ours(f)).collect();
        assert!(left.is_empty(), "{what}: left behind: {left:#?}");
    }

    /// Runs `args` a third time: not a byte changes.
    #[track_caller]
    fn changes_nothing(&self, args: &[&str], what: &str) {
        let before = fingerprint(self.repo.env);
        let out = self.repo.agents(args);
        let after = fingerprint(self.repo.env);
        let changed: BTreeSet<&Vec<u8>> =
            before.keys().chain(after.keys()).filter(|k| before.get(*k) != after.get(*k)).collect();
        let shown: Vec<String> = changed.iter().map(|k| String::from_utf8_lossy(k).into_owned()).collect();
        assert!(shown.is_empty(), "{what}: a third run changed {shown:#?}\n{out}");
    }
}

pub fn copy(from: &Path, to: &Path) {
    let out = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(out.success());
}

/// Temporary files of ours and what git writes when it is left alone.
fn is_ours(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name == "config.new"
        || name.starts_with("ref.new-")
        || name.starts_with(".tmp")
        || name.starts_with("tmp_")
        || name.starts_with("fast_import_crash")
}

/// Everything below `code`, but for the notes that a lock's holder leaves in it, and what is expendable.
pub fn fingerprint(env: &Env) -> Tree {
    let mut tree = tree_state(&env.root().join("code"));
    let cached = |path: &[u8]| path.windows(13).any(|w| w == b"/agents/cache");
    tree.retain(|path, _| !path.ends_with(b"/agents/lock") && !cached(path));
    tree
}

/// What must not be lost: file contents of agents' places with their modes, and events that were acknowledged.
struct Held {
    trees: Vec<Tree>,
    events: BTreeSet<String>,
}

impl Held {
    fn of(repo: &Repo<'_>) -> Held {
        Held { trees: places(repo).into_values().map(|p| content(&p)).collect(), events: events(repo) }
    }

    #[track_caller]
    fn still_there(&self, repo: &Repo<'_>, what: &str) {
        let now: Vec<Tree> = places(repo).into_values().map(|p| content(&p)).collect();
        for tree in &self.trees {
            assert!(now.contains(tree), "{what}: the files of a place are no longer anywhere as they were");
        }
        let events = events(repo);
        let lost: Vec<&String> = self.events.difference(&events).collect();
        assert!(lost.is_empty(), "{what}: acknowledged events are gone: {lost:?}");
    }
}

/// A place's files; the link to its git directory is not one of them.
pub fn content(place: &Path) -> Tree {
    let mut tree = tree_state(place);
    tree.remove(b".git".as_slice());
    tree
}

/// Directories of agents, worktrees and what lies in the trash.
pub fn places(repo: &Repo<'_>) -> BTreeMap<String, PathBuf> {
    let dirs = |top: PathBuf, below: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(top).into_iter().flatten().filter_map(Result::ok);
        entries.map(|e| e.path().join(below)).filter(|p| p.is_dir()).collect()
    };
    let mut found = dirs(repo.path().with_file_name("x.agents"), "");
    found.extend(dirs(repo.join(".git/agents/trash"), "tree"));
    found.into_iter().map(|p| (p.display().to_string(), p)).collect()
}

/// Every event in the journal, by its line.
pub fn events(repo: &Repo<'_>) -> BTreeSet<String> {
    // Nothing where there is no journal yet.
    let list = repo.try_git(&["notes", "--ref=agents-journal", "list"]).ok().stdout;
    let notes: String = list.lines().filter_map(|l| l.split(' ').next()).map(|b| format!("{b}\n")).collect();
    let mut command = repo.env.command("git", repo.path());
    command.args(["cat-file", "--batch"]);
    let out = crate::support::env::run(command, notes.as_bytes()).ok();
    out.stdout.lines().filter(|l| l.starts_with('{')).map(str::to_owned).collect()
}

/// The state that counts, without ids, times and random names.
fn summary(repo: &Repo<'_>) -> String {
    let mut out = repo.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads"]) + "\n";
    let config = repo.git(&["config", "--local", "--list"]);
    let mut keys: Vec<&str> = config.lines().filter(|l| l.starts_with("agent.") && !l.contains(".id=")).collect();
    keys.sort_unstable();
    out += &keys.join("\n");
    let status = repo.status();
    for a in status["agents"].as_array().unwrap() {
        let path = a["worktree"].as_str().unwrap();
        let at = Repo::at(repo.env, path);
        out += &format!("\n{} {} {} {:?}", a["name"], path, a["zombie"], content(Path::new(path)));
        out += &format!("\n{}", at.git(&["status", "--porcelain=v2", "--branch", "--ignored"]));
        out += &format!("\nlocked {} doing {}", a["locked"], a["findings"]);
    }
    let mut trash: Vec<String> = entries(repo)
        .iter()
        .map(|(dir, e)| {
            let tree = dir.join("tree");
            let kept = if tree.is_dir() { format!("{:?}", content(&tree)) } else { "no tree".into() };
            format!("{} {} {} {} {kept}", e["name"], e["tip"], e["branch_deleted"], e["complete"])
        })
        .collect();
    trash.sort();
    out + "\ntrash: " + &trash.join("\n")
}

fn entries(repo: &Repo<'_>) -> Vec<(PathBuf, Value)> {
    let top = repo.join(".git/agents/trash");
    let dirs = std::fs::read_dir(top).into_iter().flatten().filter_map(Result::ok).map(|e| e.path());
    dirs.map(|d| {
        let text = std::fs::read(d.join("entry.json")).unwrap_or_else(|e| panic!("{}: {e}", d.display()));
        (d, serde_json::from_slice(&text).unwrap())
    })
    .collect()
}

/// An agent `k` with commits, staged, modified, untracked and ignored files.
fn agent_with_work(repo: &Repo<'_>) {
    repo.agents(&["new", "k"]).ok();
    let k = Repo::at(repo.env, repo.path().with_file_name("x.agents").join("k"));
    k.write("src/made.txt", "made here\n");
    k.commit("Made here");
    k.write("src/a.txt", "changed\n");
    k.git(&["add", "src/a.txt"]);
    k.write("src/a.txt", "changed twice\n");
    k.write("untracked/deep.txt", "untracked\n");
    k.write("ignored/cache.bin", [0, 1, 2, 255]);
    k.write("key.secret", "s3cret\n");
    std::fs::set_permissions(k.join("key.secret"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink("src/a.txt", k.join("link")).unwrap();
    std::fs::create_dir(k.join("empty")).unwrap();
    k.git(&["rm", "--quiet", "--cached", "src/b.txt"]);
}

/// The obvious next step after an interrupted `new k`: again, and where that says it exists, `rm` and again.
fn again_new(lab: &Lab<'_>, what: &str) {
    let out = lab.repo.agents(&["new", "k"]);
    if out.status == 128 {
        assert!(out.stderr.contains("exists already"), "{what}: {out}");
        lab.repo.agents(&["rm", "k"]).ok();
        let out = lab.repo.agents(&["new", "k"]);
        assert_eq!(out.status, 0, "{what}: {out}");
    } else {
        assert_eq!(out.status, 0, "{what}: {out}");
    }
}

/// The same command again; when the killed one had come to its end, it says so.
fn again(lab: &Lab<'_>, args: &[&str], done: &str, what: &str) -> Out {
    let out = lab.repo.agents(args);
    assert!(out.status == 0 || (out.status == 128 && out.stderr.contains(done)), "{what}: {out}");
    out
}

/// One command under the knife.
pub struct Case {
    pub name: &'static str,
    pub args: &'static [&'static str],
    pub prepare: fn(&Repo<'_>),
    pub again: fn(&Lab<'_>, &str),
    /// What to compare: `new` after `rm` leaves an entry in the trash that an undisturbed one does not.
    pub same: fn(&Repo<'_>) -> String,
}

pub const CASES: &[Case] = &[
    Case {
        name: "new",
        args: &["new", "k"],
        prepare: |_| {},
        again: again_new,
        same: |r| summary(r).split("\ntrash: ").next().unwrap().to_owned(),
    },
    Case {
        name: "rm",
        args: &["rm", "k"],
        prepare: agent_with_work,
        again: |lab, what| drop(again(lab, &["rm", "k"], "k", what)),
        same: summary,
    },
    Case {
        name: "rm -D",
        args: &["rm", "-D", "k"],
        prepare: agent_with_work,
        again: |lab, what| drop(again(lab, &["rm", "-D", "k"], "k", what)),
        same: summary,
    },
    Case {
        name: "restore",
        args: &["restore", "k"],
        prepare: |r| {
            agent_with_work(r);
            r.agents(&["rm", "-D", "k"]).ok();
        },
        again: |lab, what| drop(again(lab, &["restore", "k"], "no removed agent", what)),
        same: summary,
    },
    Case {
        name: "hook-worker",
        args: &["hook-worker", ".git"],
        prepare: |r| {
            let k = r.agent("k");
            k.write("ignored/cache.bin", [0, 1, 2, 255]);
            k.write("src/made.txt", "made here\n");
            k.commit("Made here");
            r.agent("behind");
            r.git(&["merge", "--quiet", "k"]);
        },
        again: |lab, _| drop(lab.target(&["hook-worker", ".git"]).run().ok()),
        same: summary,
    },
    Case {
        name: "clean",
        args: &["clean", "-q"],
        prepare: |r| {
            for name in ["k", "l"] {
                let at = r.agent(name);
                at.write("ignored/cache.bin", [0, 1, 2, 255]);
                at.write(format!("src/{name}.txt"), "made here\n");
                at.commit("Made here");
                r.git(&["merge", "--quiet", "--no-edit", name]);
            }
            r.agent("behind");
        },
        again: |lab, _| drop(lab.repo.agents(&["clean"]).ok()),
        same: summary,
    },
    Case {
        name: "expire",
        args: &["clean", "-q"],
        prepare: |r| {
            agent_with_work(r);
            r.agents(&["rm", "k"]).ok();
            crate::expire::backdate(r, 20);
            r.agents(&["clean"]).ok();
            crate::expire::a_day_passes(r);
        },
        again: |lab, _| drop(lab.repo.agents(&["clean"]).ok()),
        same: summary,
    },
    Case {
        name: "restore from a capture",
        args: &["restore", "k"],
        prepare: |r| {
            agent_with_work(r);
            r.agents(&["rm", "-D", "k"]).ok();
            crate::expire::to_the_capture(r);
        },
        again: |lab, what| drop(again(lab, &["restore", "k"], "no removed agent", what)),
        same: summary,
    },
    Case {
        name: "adopt",
        args: &["adopt", "there"],
        prepare: |r| drop(r.git(&["branch", "there", "HEAD~1"])),
        again: |lab, what| {
            let out = lab.repo.agents(&["adopt", "there"]);
            if out.status == 128 {
                assert!(out.stderr.contains("managed already"), "{what}: {out}");
                let status = lab.repo.status();
                if status["agents"][0]["findings"] != serde_json::json!([]) {
                    lab.repo.agents(&["rm", "there"]).ok();
                    lab.repo.agents(&["adopt", "there"]).ok();
                }
            } else {
                assert_eq!(out.status, 0, "{what}: {out}");
            }
        },
        same: summary,
    },
];

/// Kills the program itself before each `step`-th of its changes, from `first`; how often.
pub fn sweep(case: &Case, first: usize, step: usize) -> usize {
    let env = Env::new();
    let lab = Lab::of(&env, case);
    let target = lab.target(case.args);
    let points = target.points();
    let expected = (case.same)(&lab.repo);
    lab.after_repair(case.name);
    let chosen = points.iter().skip(first).step_by(step);
    let mut missed = 0;
    let hits = chosen.filter(|point| {
        lab.reset();
        let what = format!("{} killed before {point}", case.name);
        let fault = target.kill_before(point);
        if !fault.hit {
            // How many calls there are varies a little, with random names and ids.
            fault.out.ok();
            missed += 1;
            return false;
        }
        check(&lab, case, &what, &expected);
        true
    });
    let hits = hits.count();
    assert!(missed * 10 <= hits, "{missed} of {} points were not hit", hits + missed);
    hits
}

#[track_caller]
fn check(lab: &Lab<'_>, case: &Case, what: &str, expected: &str) {
    lab.after_kill(what);
    (case.again)(lab, what);
    let now = (case.same)(&lab.repo);
    assert!(now == expected, "{what}: ended differently\n--- as it should be\n{expected}\n--- as it is\n{now}");
    lab.after_repair(what);
    lab.changes_nothing(case.args, what);
}

pub fn case(name: &str) -> &'static Case {
    CASES.iter().find(|c| c.name == name).unwrap()
}

#[test]
fn a_killed_new_left_an_agent_nobody_could_remove() {
    assert!(sweep(case("new"), 0, 17) > 4);
}

#[test]
fn a_killed_rm_lost_files() {
    assert!(sweep(case("rm"), 3, 17) > 4);
}

#[test]
fn a_killed_rm_lost_the_branch_it_was_to_delete() {
    assert!(sweep(case("rm -D"), 6, 17) > 4);
}

#[test]
fn a_killed_restore_lost_what_it_was_to_give_back() {
    assert!(sweep(case("restore"), 9, 17) > 4);
}

#[test]
fn a_killed_hook_worker_left_half_a_removal() {
    assert!(sweep(case("hook-worker"), 1, 9) > 3);
}

#[test]
fn a_killed_adopt_left_a_worktree_nobody_knew() {
    assert!(sweep(case("adopt"), 12, 17) > 4);
}

#[test]
#[ignore = "nightly"]
fn nightly_every_kill_point_of_every_command() {
    // One of them alone, while somebody works on it: KILL_CASE=rm.
    let only = std::env::var("KILL_CASE").ok();
    for c in CASES.iter().filter(|c| only.as_ref().is_none_or(|o| o == c.name)) {
        let points = sweep(c, 0, 1);
        eprintln!("{}: {points} kill points, 0 violations", c.name);
    }
}

/// `stop` and `retry` of an agent that has settled, killed before each `step`-th change from `first`; how often.
fn sweep_settled(args: &[&str], first: usize, step: usize) -> usize {
    let env = Env::new();
    let lab = Lab::new(&env, |repo| {
        let list =
            "1. Make it {name=k}\n   - WRITE: made.txt: made\n   - COMMIT: Made\n   - WRITE: ignored/left.txt: left\n";
        repo.git(&["config", "agents.uncommitted", "keep"]);
        repo.agents_input(&["run", "-a", "scripted", "-f", "-"], list).ok();
    });
    let points = lab.target(args).points();
    let chosen = points.iter().skip(first).step_by(step);
    chosen
        .map(|point| {
            env.until("nothing runs", || env.processes().is_empty());
            lab.reset();
            let what = format!("{} killed before {point}", args.join(" "));
            assert!(lab.target(args).kill_before(point).hit, "{what}");
            lab.after_kill(&what);
            let out = lab.repo.agents(args);
            // 'stop' has nothing to stop.
            assert!(out.status == 0 || (args[0] == "stop" && out.status == 1), "{what}: {out}");
            env.until("nothing runs", || env.processes().is_empty());
            lab.after_repair(&what);
            let a = lab.repo.status()["agents"][0].clone();
            assert_eq!((&a["run"]["state"], &a["ahead"]), (&"succeeded".into(), &1.into()), "{what}: {a}");
            assert_eq!((&a["locked"], &a["findings"]), (&Value::Null, &serde_json::json!([])), "{what}");
            // Every end was noted once.
            let ends = events(&lab.repo).iter().filter(|e| e.contains("\"kind\":\"exited\"")).count();
            let attempts = usize::try_from(a["run"]["attempt"].as_u64().unwrap()).unwrap();
            assert!(ends <= attempts, "{what}: {ends} ends of {attempts} attempts");
        })
        .count()
}

#[test]
fn a_killed_retry_left_an_agent_that_could_not_go_on() {
    assert!(sweep_settled(&["retry", "k"], 4, 9) > 2);
    assert!(sweep_settled(&["stop", "k"], 0, 3) > 0);
}

#[test]
#[ignore = "nightly"]
fn nightly_every_kill_point_of_retry_and_stop() {
    for args in [&["retry", "k"], &["stop", "k"]] {
        eprintln!("{}: {} kill points, 0 violations", args[0], sweep_settled(args, 0, 1));
    }
}

/// Kills each git that the command starts before each of that git's changes.
#[test]
#[ignore = "nightly"]
fn nightly_every_kill_point_of_every_git() {
    for case in CASES {
        let (points, calls) = sweep_gits(case, 0, 1);
        eprintln!("{}: {points} kill points in {calls} calls of git, 0 violations", case.name);
    }
}

/// Kills the gits of a command before each `step`-th of their changes, from `first`; how often, and of how many gits.
pub fn sweep_gits(case: &Case, first: usize, step: usize) -> (usize, usize) {
    let env = Env::new();
    let lab = Lab::of(&env, case);
    let target = lab.target(case.args);
    let children = target.git_children();
    let expected = (case.same)(&lab.repo);
    let all = children.iter().enumerate().flat_map(|(j, points)| points.iter().map(move |p| (j + 1, p)));
    let mut hits = 0;
    for (j, point) in all.skip(first).step_by(step) {
        lab.reset();
        let what = format!("{}, its git {j} killed before {point}", case.name);
        let fault = target.kill_child_before(j, point);
        if !fault.hit {
            continue;
        }
        hits += 1;
        let stays = case.args.contains(&"-D") && fault.out.stderr.contains("its branch stays");
        remove_temporary_objects(&lab.repo);
        lab.after_kill(&what);
        (case.again)(&lab, &what);
        let now = (case.same)(&lab.repo);
        // A lock that git left on all references: the branch stays, that is said, and whose lock it is nobody knows.
        assert!(stays == lab.repo.has("refs/heads/k") || !case.args.contains(&"-D"), "{what}: {}", fault.out);
        assert!(
            stays || now == expected,
            "{what}: ended differently\n--- as it should be\n{expected}\n--- as it is\n{now}\n{}",
            fault.out
        );
        lab.after_repair(&what);
    }
    (hits, children.len())
}

/// What a killed git leaves among the objects: git's own `gc` takes it away.
pub fn remove_temporary_objects(repo: &Repo<'_>) {
    for tmp in files(&repo.join(".git/objects"), &|_| false) {
        if tmp.file_name().is_some_and(|n| n.to_string_lossy().starts_with("tmp_")) {
            let _ = std::fs::remove_file(tmp);
        }
    }
}

/// `count` kills of the whole group of `new`, `rm` and `restore` at random moments, in one repository after the other's
/// state: what was there stays somewhere, and the next command goes on.
fn random_kills(seed: u64, count: usize) -> usize {
    let env = Env::new();
    let repo = env.repo("x");
    let before = Before::of(&repo);
    let k = Repo::at(&env, env.root().join("code/x.agents/k"));
    let mut shares = shares(seed);
    let mut hits = 0;
    // What the place of `k` holds while there is one, or what lies in the trash.
    let mut work: Option<Tree> = None;
    let mut acknowledged = BTreeSet::new();
    let mut exists = false;
    for round in 0..count {
        let args: &[&str] = match (exists, &work) {
            (true, _) => &["rm", "-D", "--force", "k"],
            (false, Some(_)) => &["restore", "k"],
            (false, None) => &["new", "k"],
        };
        let what = format!("seed {seed}, round {round}: {}", args.join(" "));
        let full = std::time::Duration::from_millis(if args[0] == "new" { 120 } else { 90 });
        let fault = Target::agents(&repo, args).random_kill(full, shares.next().unwrap());
        hits += usize::from(fault.hit);
        env.until("nothing is left running", || env.processes().is_empty());
        remove_temporary_objects(&repo);
        let status = repo.agents(&["status", "--json"]);
        assert_eq!(status.status, 0, "{what}: {status}");
        if let Some(tree) = &work {
            assert!(places(&repo).values().any(|p| content(p) == *tree), "{what}: the files of 'k' are gone");
        }
        // The next command brings it to one side or the other.
        repo.repair();
        let now = events(&repo);
        assert!(acknowledged.is_subset(&now), "{what}: acknowledged events are gone");
        acknowledged = now;
        let agents = repo.status()["agents"].clone();
        exists = agents[0].is_object();
        match args[0] {
            "new" if exists && agents[0]["findings"] != serde_json::json!([]) => {
                let out = repo.agents(&["rm", "k"]);
                assert_eq!(out.status, 0, "{what}: {out}");
                let left = (k.path().exists(), repo.git(&["for-each-ref", "refs/heads"]));
                assert!(!left.0 && !repo.has("refs/heads/k"), "{what}\n{}\n{left:?}\n{out}", agents[0]);
                exists = false;
            }
            "new" if exists => {
                assert_eq!(k.git(&["status", "--porcelain"]), "", "{what}");
                k.write("src/made.txt", format!("round {round}\n"));
                k.commit("Work");
                k.write("left.txt", format!("round {round}\n"));
                k.write("ignored/left.bin", [1, 2, 3]);
                work = Some(content(k.path()));
            }
            "new" => {}
            // Removed, restored or as before: whole in every case.
            _ if exists => {
                assert_eq!(Some(content(k.path())), work, "{what}");
                assert_eq!(k.git(&["log", "-1", "--format=%s"]), "Work", "{what}");
            }
            _ => {
                let list = repo.agents(&["restore", "--list", "--json"]).ok().json();
                assert_eq!(list["removed"][0]["name"], "k", "{what}: {list}");
            }
        }
        if round % 10 == 9 || round + 1 == count {
            before.still_holds(&repo);
            // And begin anew with another one.
            if std::mem::take(&mut exists) {
                repo.agents(&["rm", "-D", "--force", "k"]).ok();
            }
            std::fs::remove_dir_all(repo.join(".git/agents/trash")).unwrap();
            work = None;
        }
    }
    hits
}

#[test]
fn random_kills_of_everything_at_once() {
    assert!(random_kills(1, 50) > 20);
}

#[test]
fn more_random_kills_of_everything_at_once() {
    assert!(random_kills(2, 50) > 20);
}

/// The same for what brings an agent to its end: `sync`, `land`, `clean`, `restore`, with a dirty checkout beside it.
fn random_kills_to_the_end(seed: u64, count: usize) -> usize {
    let env = Env::new();
    let repo = env.repo("x");
    let (mut shares, mut hits) = (shares(seed), 0);
    let mut acknowledged = BTreeSet::new();
    let dirty = "# Edited in the main checkout\n";
    repo.write("README.md", dirty);
    let mut before = Before::of(&repo);
    for round in 0..count {
        let what = format!("seed {seed}, round {round}");
        let name = format!("k{}", round / 5);
        let at = Repo::at(&env, env.root().join("code/x.agents").join(&name));
        let (made, kept) = (format!("made-{name}.txt"), format!("left-{name}.txt"));
        if round % 5 == 0 {
            repo.agents(&["new", &name]).ok();
            at.write(&made, "made\n");
            at.commit("Work");
            at.write(&kept, "not committed\n");
            repo.write("base.txt", &name);
            repo.git(&["add", "base.txt"]);
            repo.git(&["commit", "--quiet", "-m", "The base moves"]);
            before = Before::of(&repo);
        }
        let args: &[&str] = match round % 5 {
            0 => &["sync", "--carry", &name],
            1 => &["land", &name],
            2 => &["clean"],
            3 => &["rm", &name],
            _ => &["restore", &name],
        };
        let fault =
            Target::agents(&repo, args).random_kill(std::time::Duration::from_millis(250), shares.next().unwrap());
        hits += usize::from(fault.hit);
        env.until("nothing is left running", || env.processes().is_empty());
        remove_temporary_objects(&repo);
        let what = format!("{what}: {}", args.join(" "));
        repo.agents(&["status", "--json"]).ok();
        repo.repair();
        before.still_holds(&repo);
        let now = events(&repo);
        assert!(acknowledged.is_subset(&now), "{what}: acknowledged events are gone");
        acknowledged = now;
        assert_eq!(repo.git(&["status", "--porcelain"]), " M README.md", "{what}: the checkout is not as it was");
        assert_eq!(repo.read("README.md"), dirty, "{what}");
        // Whatever the killed one came to, the same again comes to its end.
        let out = repo.agents(args);
        let done = out.status == 0
            || out.stderr.contains("no agent named")
            || out.stderr.contains("no removed agent")
            || out.stderr.contains("has landed");
        assert!(done, "{what}, again: {out}");
        let there = |file: &str| places(&repo).values().any(|p| p.join(file).is_file());
        assert!(there(&kept), "{what}: '{kept}' is gone");
        match round % 5 {
            0 => assert_eq!(
                (at.tip("HEAD~1"), at.git(&["status", "--porcelain"])),
                (repo.tip("main"), format!("?? {kept}")),
                "{what}"
            ),
            1 => assert_eq!(repo.read(&made), "made\n", "{what}"),
            4 => {
                std::fs::remove_file(at.join(&kept)).unwrap();
                let out = repo.agents(&["clean"]).ok();
                assert!(!at.path().exists(), "{what}: {out}");
            }
            _ => {}
        }
    }
    hits
}

#[test]
fn random_kills_on_the_way_to_the_end() {
    assert!(random_kills_to_the_end(3, 10) > 3);
}

#[test]
#[ignore = "nightly"]
fn nightly_a_thousand_random_kills() {
    let hits: usize = (100..105).map(|seed| random_kills(seed, 100) + random_kills_to_the_end(seed, 100)).sum();
    eprintln!("1000 runs, {hits} killed in the middle, 0 violations");
}
