//! Who meets whom, against git asked pair by pair: both in turn in one run, ratios of medians.
//!
//! `cargo bench --bench overlap` prints all; a word after `--` only those whose name holds it. Nothing here passes or
//! fails.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program for people who measure"
)]

use git_agents::git::status::Place;
use git_agents::git::{refs, worktree};
use git_agents::model::agent::Oid;
use git_agents::model::overlap::SideKind;
use git_agents::ops::Context;
use git_agents::ops::overlap::{Look, Round};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A small generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
    }
}

fn git(dir: &Path, args: &[&str]) -> Command {
    let mut c = Command::new("git");
    c.current_dir(dir).args(args).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    c.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    c
}

fn run(dir: &Path, args: &[&str]) {
    assert!(git(dir, args).status().unwrap().success(), "{args:?}");
}

fn text(lines: &[String]) -> String {
    lines.join("\n") + "\n"
}

/// `files` files in directories of 20, `branches` branches of twelve operations each, one in ten of them on one of
/// eight files that all like.
fn repo(dir: &Path, files: usize, branches: usize) -> PathBuf {
    let path = dir.join(format!("{files}-{branches}"));
    std::fs::create_dir(&path).unwrap();
    run(&path, &["init", "-q", "-b", "main"]);
    let mut r = Random(7);
    let name = |i: usize| format!("src/m{:03}/f{i:05}.txt", i / 20);
    let content: Vec<Vec<String>> =
        (0..files).map(|i| (0..20 + r.below(80)).map(|n| format!("{i} {n} {}", r.below(1000))).collect()).collect();
    let mut s = String::from("reset refs/heads/main\n");
    let file = |s: &mut String, path: &str, text: &str| {
        write!(s, "M 100644 inline {path}\ndata {}\n{text}\n", text.len()).unwrap()
    };
    let who = "committer B <b@localhost> 1700000000 +0000\ndata 1\nx\n";
    write!(s, "commit refs/heads/main\nmark :1\n{who}").unwrap();
    (0..files).for_each(|i| file(&mut s, &name(i), &text(&content[i])));
    for b in 0..branches {
        write!(s, "\ncommit refs/heads/b{b:03}\n{who}from :1\n").unwrap();
        for op in 0..12 {
            let hot = r.below(10) == 0;
            let i = if hot { r.below(8) * (files / 8) } else { (r.below(files / branches) * branches + b) % files };
            let mut lines = content[i].clone();
            let at = if hot { r.below(6) } else { r.below(lines.len()) };
            lines[at] = format!("changed by {b}");
            match r.below(12) {
                0 => file(&mut s, &format!("src/m{:03}/new-{b}-{op}.txt", i / 20), &text(&lines)),
                1 if !hot => writeln!(s, "D {}", name(i)).unwrap(),
                2 if !hot => {
                    writeln!(s, "D {}", name(i)).unwrap();
                    file(&mut s, &format!("src/m{:03}/moved-{b}-{op}.txt", i / 20), &text(&lines));
                }
                _ => file(&mut s, &name(i), &text(&lines)),
            }
        }
    }
    let mut import = git(&path, &["fast-import", "--quiet", "--force", "--date-format=raw"]);
    let mut child = import.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(s.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    run(&path, &["reset", "-q", "--hard", "main"]);
    run(&path, &["repack", "-adq"]);
    path
}

/// A worktree for each branch, with an edit, a new file and now and then an edit that meets another's.
fn worktrees(repo: &Path, branches: usize) -> Vec<PathBuf> {
    let mut r = Random(11);
    let place = |b: usize| {
        let path = repo.with_extension(format!("w{b}"));
        run(repo, &["worktree", "add", "-q", path.to_str().unwrap(), &format!("b{b:03}")]);
        std::fs::write(path.join(format!("src/m000/untracked-{b}.txt")), "new\n").unwrap();
        let file = path.join(format!("src/m{:03}/f{:05}.txt", 1 + r.below(3), 20 + 20 * r.below(3)));
        if file.exists() {
            std::fs::write(file, format!("all of it by {b}\n")).unwrap();
        }
        run(&path, &["status"]);
        path
    };
    (0..branches).map(place).collect()
}

/// Name, tip, worktree with its admin directory.
type Member = (String, Oid, Option<(PathBuf, PathBuf)>);

struct Crowd {
    ctx: Context,
    base: Oid,
    sides: Vec<Member>,
}

impl Crowd {
    fn of(repo: &Path) -> Crowd {
        let ctx = Context::open(repo).unwrap();
        let all = refs::list(ctx.repo(), &["refs/heads/"]).unwrap();
        let entries = worktree::list(ctx.repo()).unwrap();
        let sides = all
            .iter()
            .filter(|(n, _)| n.starts_with("refs/heads/b"))
            .map(|(n, id)| {
                let entry = entries.iter().find(|e| e.head == worktree::Head::Branch(n.clone()));
                (n.clone(), id.clone(), entry.map(|e| (e.path.clone(), e.admin.clone())))
            })
            .collect();
        Crowd { base: all["refs/heads/main"].clone(), ctx, sides }
    }

    fn looks(&self) -> Vec<Look<'_>> {
        self.sides
            .iter()
            .map(|(name, tip, place)| Look {
                name: name.clone(),
                kind: SideKind::Agent,
                group: None,
                after: Vec::new(),
                tip: Some(tip.clone()),
                place: place.as_ref().map(|(w, a)| Place { worktree: w, admin: a, head: Some(tip) }),
            })
            .collect()
    }

    /// One round, as a command would: everything is found anew; how many pairs conflict.
    fn judge(&self) -> usize {
        self.conflicts(&self.looks()).len()
    }

    /// The pairs that conflict, by position.
    fn conflicts(&self, looks: &[Look<'_>]) -> BTreeSet<(usize, usize)> {
        let ctx = Context::open(&self.ctx.cwd).unwrap();
        let round = Round::begin(&ctx).unwrap();
        let sides = round.sides(looks);
        let found = round.verdicts(&self.base, &sides);
        found.pairs.iter().filter(|p| p.conflicts()).map(|p| (p.a.min(p.b), p.a.max(p.b))).collect()
    }

    fn pairs(&self) -> Vec<(String, String)> {
        let n = self.sides.len();
        let all = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        all.map(|(a, b)| (self.sides[a].1.0.clone(), self.sides[b].1.0.clone())).collect()
    }
}

fn timed<T>(f: impl FnOnce() -> T) -> (Duration, T) {
    let t = Instant::now();
    let found = f();
    (t.elapsed(), found)
}

fn median(rounds: usize, mut f: impl FnMut() -> Duration) -> f64 {
    let mut all: Vec<Duration> = (0..rounds).map(|_| f()).collect();
    all.sort();
    all[rounds / 2].as_secs_f64() * 1000.0
}

/// Merges of `pairs` by git, new objects in a directory of their own: one process a pair, or one for all.
fn by_git(repo: &Path, pairs: &[(String, String)], one_process: bool) -> Duration {
    let dir = tempfile::tempdir_in(repo.parent().unwrap()).unwrap();
    let at_home = |args: &[&str]| {
        let mut c = git(repo, args);
        c.env("GIT_OBJECT_DIRECTORY", dir.path());
        c.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", repo.join(".git/objects"));
        c
    };
    timed(|| {
        if one_process {
            let mut child = at_home(&["merge-tree", "--write-tree", "--stdin"]).stdin(Stdio::piped()).spawn().unwrap();
            let input: String = pairs.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait().unwrap();
        } else {
            for (a, b) in pairs {
                at_home(&["merge-tree", "--write-tree", a, b]).status().unwrap();
            }
        }
    })
    .0
}

fn many(dir: &Path) {
    let (small, large) = (Crowd::of(&repo(dir, 1500, 10)), Crowd::of(&repo(dir, 1500, 100)));
    let path = dir.join("1500-100");
    let few = median(5, || timed(|| small.judge()).0);
    let (_, conflicts) = timed(|| large.judge());
    let ours = median(3, || timed(|| large.judge()).0);
    let pairs = large.pairs();
    // One in ten, for nobody waits a minute for a figure; each costs the same.
    let tenth: Vec<(String, String)> = pairs.iter().step_by(10).cloned().collect();
    let each = by_git(&path, &tenth, false).as_secs_f64() * 10_000.0;
    let batch = by_git(&path, &pairs, true).as_secs_f64() * 1000.0;
    println!("100 branches of 1,500 files, {} pairs, {conflicts} conflicts: {ours:.0} ms", pairs.len());
    println!(
        "  one `git merge-tree` a pair: {each:.0} ms (from one in ten), {:.1} times as long (at least 25)",
        each / ours
    );
    println!("  one `git merge-tree --stdin` for all: {batch:.0} ms, {:.1} times as long (at least 10)", batch / ours);
    println!("  from 10 to 100 branches: {few:.1} ms to {ours:.0} ms, factor {:.1} (at most 25)", ours / few);
}

fn live(dir: &Path) {
    let path = repo(dir, 1500, 30);
    let trees = worktrees(&path, 30);
    std::fs::create_dir(path.join(".git/agents")).unwrap();
    let crowd = Crowd::of(&path);
    let forget = || drop(std::fs::remove_dir_all(path.join(".git/agents/cache")));
    let mut conflicts = 0;
    let first = median(5, || {
        forget();
        timed(|| conflicts = crowd.judge()).0
    });
    let again = median(7, || timed(|| crowd.judge()).0);
    let stats = median(7, || {
        timed(|| {
            let mut all: Vec<_> = trees.iter().map(|t| git(t, &["status", "--porcelain"])).collect();
            for two in all.chunks_mut(2) {
                let started: Vec<_> = two.iter_mut().map(|c| c.spawn().unwrap()).collect();
                started.into_iter().for_each(|mut c| assert!(c.wait().is_ok()));
            }
        })
        .0
    });
    // Somebody who watches knows which worktree it was.
    let round = Round::begin(&crowd.ctx).unwrap();
    let looks = crowd.looks();
    let mut sides = round.sides(&looks);
    round.verdicts(&crowd.base, &sides);
    let mut n = 0;
    let saved = median(9, || {
        n += 1;
        std::fs::write(trees[4].join("src/m002/f00041.txt"), format!("saved {n}\n")).unwrap();
        timed(|| {
            sides[4] = round.sides(&looks[4..5]).remove(0);
            round.verdicts(&crowd.base, &sides)
        })
        .0
    });
    println!("30 worktrees of 1,500 files with uncommitted work, {conflicts} conflicts: {first:.0} ms");
    println!(
        "  nothing changed: {again:.1} ms; `git status` in each, two at a time: {stats:.1} ms, ratio {:.2} (at most 1.5)",
        again / stats
    );
    println!("  one file saved: {saved:.1} ms, ratio {:.2} to the first (at most 0.1)", saved / first);
}

/// The commit that `git add -A` and `git commit` would make in a worktree, made without touching it.
fn snapshot(tree: &Path, tip: &Oid) -> Oid {
    let scratch = tempfile::tempdir().unwrap();
    let ask = |args: &[&str]| {
        let mut c = git(tree, &["-c", "user.name=B", "-c", "user.email=b@localhost"]);
        c.args(args).env("GIT_INDEX_FILE", scratch.path().join("index")).stdout(Stdio::piped());
        let out = c.output();
        String::from_utf8(out.unwrap().stdout).unwrap().trim().to_owned()
    };
    ask(&["read-tree", &tip.0]);
    ask(&["add", "-A"]);
    let made = ask(&["write-tree"]);
    Oid::parse(&ask(&["commit-tree", "-p", &tip.0, "-m", "x", &made])).unwrap()
}

/// The pairs of commits on which a merge by git stops.
fn truth(repo: &Path, commits: &[Oid]) -> BTreeSet<(usize, usize)> {
    let n = commits.len();
    let all = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    let stops = |(a, b): &(usize, usize)| {
        git(repo, &["merge-tree", "--write-tree", &commits[*a].0, &commits[*b].0]).status().unwrap().code() == Some(1)
    };
    all.filter(stops).collect()
}

/// Against `clash status --json`, where it is on the `PATH`. It compares commits alone.
fn clash(dir: &Path) {
    let path = repo(dir, 1500, 30);
    let ask = || Command::new("clash").args(["status", "--json"]).current_dir(&path).stderr(Stdio::null()).output();
    if ask().is_err() {
        println!("clash is not here: tests/nightly installs it");
        return;
    }
    let trees = worktrees(&path, 30);
    std::fs::create_dir(path.join(".git/agents")).unwrap();
    let crowd = Crowd::of(&path);
    let tips: Vec<Oid> = crowd.sides.iter().map(|(_, tip, _)| tip.clone()).collect();
    let full = crowd.looks();
    let committed: Vec<Look<'_>> = crowd.looks().into_iter().map(|l| Look { place: None, ..l }).collect();
    let cold = |looks: &[Look<'_>]| {
        drop(std::fs::remove_dir_all(path.join(".git/agents/cache")));
        crowd.conflicts(looks)
    };
    // In turn, so that what else the machine does hits both.
    let (mut ours, mut whole, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let mut said = Vec::new();
    for _ in 0..3 {
        ours.push(timed(|| cold(&committed)).0);
        whole.push(timed(|| cold(&full)).0);
        let (time, out) = timed(|| ask().unwrap());
        theirs.push(time);
        said = out.stdout;
    }
    let middle = |mut all: Vec<Duration>| {
        all.sort();
        all[1].as_secs_f64() * 1000.0
    };
    let (ours, whole, theirs) = (middle(ours), middle(whole), middle(theirs));
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    let at = |id: &serde_json::Value| {
        let tree = said["worktrees"].as_array().unwrap().iter().find(|w| w["id"] == *id)?;
        tree["branch"].as_str().unwrap().strip_prefix('b').and_then(|n| n.parse::<usize>().ok())
    };
    let flagged: BTreeSet<(usize, usize)> = said["conflicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| Some((at(&c["wt1_id"])?, at(&c["wt2_id"])?)))
        .map(|(a, b)| (a.min(b), a.max(b)))
        .collect();
    let snapshots: Vec<Oid> = trees.iter().zip(&tips).map(|(t, tip)| snapshot(t, tip)).collect();
    let (of_tips, of_work) = (truth(&path, &tips), truth(&path, &snapshots));
    let against = |found: &BTreeSet<(usize, usize)>, truth: &BTreeSet<(usize, usize)>| {
        format!(
            "{} right, {} false, {} missed",
            found.intersection(truth).count(),
            found.difference(truth).count(),
            truth.difference(found).count()
        )
    };
    println!("30 worktrees of 1,500 files with uncommitted work, against clash 0.2.0:");
    println!(
        "  commits alone: {ours:.0} ms, clash {theirs:.0} ms, {:.1} times as long (at least 10); uncommitted work too: {whole:.0} ms",
        theirs / ours
    );
    println!("  commits: we {}; clash {}", against(&cold(&committed), &of_tips), against(&flagged, &of_tips));
    println!("  work as it is: we {}; clash {}", against(&cold(&full), &of_work), against(&flagged, &of_work));
}

fn large(dir: &Path) {
    let path = repo(dir, 50_000, 30);
    let crowd = Crowd::of(&path);
    run(&path, &["status"]);
    let mut conflicts = 0;
    let ours = median(3, || timed(|| conflicts = crowd.judge()).0);
    let status = median(5, || timed(|| run(&path, &["status", "--porcelain"])).0);
    println!(
        "30 branches of 50,000 files, {conflicts} conflicts: {ours:.0} ms; one `git status`: {status:.0} ms, ratio {:.2} (at most 2)",
        ours / status
    );
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    // On a disk, as repositories are.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    type Bench = fn(&Path);
    let all: [(&str, Bench); 4] = [("many", many), ("live", live), ("large", large), ("clash", clash)];
    for (name, f) in all {
        let dir = tempfile::tempdir_in(dir.path()).unwrap();
        if wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str())) {
            f(dir.path());
        }
    }
}
