//! What a person waits for, beside what they would otherwise run: both in turn in one run, ratios of medians.
//!
//! `cargo bench` prints all; `cargo bench -- status` only those whose name holds the word. Nothing here passes or fails.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program for people who measure"
)]

use git_agents::git::state::event;
use git_agents::model::event::Kind;
use git_agents::ops::Context;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join(".gitconfig"),
            "[user]\nname=B\nemail=b@localhost\n[init]\ndefaultBranch=main\n",
        )
        .unwrap();
        Place { dir }
    }

    fn command(&self, program: &str, cwd: &Path) -> Command {
        let mut c = Command::new(program);
        let bin = Path::new(env!("CARGO_BIN_EXE_git-agents")).parent().unwrap();
        let path = std::env::join_paths(
            std::iter::once(bin.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        )
        .unwrap();
        c.current_dir(cwd)
            .env("PATH", path)
            .env("HOME", self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C");
        c.env("XDG_STATE_HOME", self.dir.path().join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        c
    }

    fn run(&self, cwd: &Path, argv: &[&str]) {
        let status = self.command(argv[0], cwd).args(&argv[1..]).status().unwrap();
        assert!(status.success(), "{argv:?}");
    }

    /// A repository of `files` files in directories of 20.
    fn repo(&self, name: &str, files: usize) -> PathBuf {
        let dir = self.dir.path().join(name);
        for i in 0..files {
            let p = dir.join(format!("src/m{:03}/f{i:05}.txt", i / 20));
            std::fs::create_dir_all(p.parent().unwrap()).unwrap();
            std::fs::write(p, format!("file {i}\n").repeat(20)).unwrap();
        }
        self.run(&dir, &["git", "init", "-q", "."]);
        self.run(&dir, &["git", "add", "-A"]);
        self.run(&dir, &["git", "commit", "-qm", "base"]);
        dir
    }
}

fn timed(f: impl FnOnce()) -> Duration {
    let t = Instant::now();
    f();
    t.elapsed()
}

fn median(mut v: Vec<Duration>) -> Duration {
    v.sort();
    v[v.len() / 2]
}

/// Runs both in turn and prints the medians and their ratio.
fn compare(
    what: &str,
    goal: &str,
    rounds: usize,
    mut ours: impl FnMut(usize) -> Duration,
    mut theirs: impl FnMut(usize) -> Duration,
) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for i in 0..rounds {
        a.push(ours(i));
        b.push(theirs(i));
    }
    let (a, b) = (median(a[rounds.min(2) - 1..].to_vec()), median(b[rounds.min(2) - 1..].to_vec()));
    println!(
        "{what}: {:.1} ms against {:.1} ms, ratio {:.2} ({goal})",
        ms(a),
        ms(b),
        a.as_secs_f64() / b.as_secs_f64()
    );
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1000.0
}

fn start_up(p: &Place) {
    let here = p.dir.path();
    let ours = |_| timed(|| p.run(here, &[env!("CARGO_BIN_EXE_git-agents"), "--version"]));
    let theirs = |_| timed(|| p.run(here, &["git", "--version"]));
    compare("start-up, `git-agents --version` against `git --version`", "at most 1.3", 60, ours, theirs);
}

fn status(p: &Place) {
    let repo = p.repo("status", 1500);
    let trees: Vec<PathBuf> = (0..30)
        .map(|i| {
            p.run(&repo, &["git", "agents", "-q", "new", &format!("a{i}")]);
            let tree = p.dir.path().join(format!("status.agents/a{i}"));
            std::fs::write(tree.join("src/m001/f00020.txt"), "changed\n").unwrap();
            std::fs::write(tree.join("new.txt"), "new\n").unwrap();
            tree
        })
        .collect();
    let ours = |_| timed(|| p.run(&repo, &["git-agents", "status", "--json"]));
    let theirs = |_| {
        timed(|| {
            for t in &trees {
                p.run(t, &["git", "status", "--porcelain"]);
            }
        })
    };
    compare("status of 30 worktrees of 1,500 files against 30 `git status` in turn", "at most 0.20", 15, ours, theirs);
    let bare = |_| timed(|| bare_stats(&trees));
    compare(
        "status of 30 worktrees of 1,500 files against one bare stat a file, on all cores",
        "at most 1.5",
        15,
        ours,
        bare,
    );
}

/// A repository that has been worked in for long: many agents, each with a long story.
fn crowd(p: &Place) {
    const AGENTS: usize = 500;
    const EVENTS: usize = 100_000;
    let repo = p.repo("crowd", 300);
    let names: Vec<String> = (0..AGENTS).map(|i| format!("a{i}")).collect();
    for some in names.chunks(4) {
        let all: Vec<_> =
            some.iter().map(|n| p.command("git-agents", &repo).args(["-q", "new", n]).spawn().unwrap()).collect();
        all.into_iter().for_each(|mut c| assert!(c.wait().unwrap().success()));
    }
    let ctx = Context::open(&repo).unwrap();
    let (registrations, _) = ctx.state.registrations().unwrap();
    let events: Vec<_> = registrations
        .iter()
        .flat_map(|r| {
            let one = |i: usize| {
                let (kind, more) = match i % 3 {
                    0 => (Kind::Attempt, json!({ "attempt": i, "start": r.fork, "assistant": "codex" })),
                    1 => (Kind::Commit, json!({ "commit": r.fork, "attempt": i })),
                    _ => (Kind::Exited, json!({ "attempt": i, "state": "failed", "exit_code": 1 })),
                };
                event(&r.id, kind, more)
            };
            (0..EVENTS / AGENTS).map(one)
        })
        .collect();
    let held = ctx.state.lock().unwrap();
    ctx.state.append(&held, &events).unwrap();
    drop(held);
    let trees: Vec<PathBuf> = names.iter().map(|n| p.dir.path().join(format!("crowd.agents/{n}"))).collect();
    let ours = |_| timed(|| p.run(&repo, &["git-agents", "status", "--json"]));
    let bare = |_| timed(|| bare_stats(&trees));
    let what = "status of 500 worktrees of 300 files with 100,000 events against one bare stat a file, on all cores";
    compare(what, "at most 2", 5, ours, bare);
    let by_git = |_| {
        timed(|| {
            for some in trees.chunks(2) {
                let all: Vec<_> =
                    some.iter().map(|t| p.command("git", t).args(["status", "--porcelain"]).spawn().unwrap()).collect();
                all.into_iter().for_each(|mut c| assert!(c.wait().unwrap().success()));
            }
        })
    };
    compare("the same against `git status` in each, two at a time", "at most 2", 3, ours, by_git);
}

/// What nobody who looks at files can do without: each directory read, each entry's metadata.
fn bare_stats(trees: &[PathBuf]) {
    fn walk(dir: &Path) {
        for e in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if e.metadata().unwrap().is_dir() {
                walk(&e.path());
            }
        }
    }
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|s| {
        for part in trees.chunks(trees.len().div_ceil(cores)) {
            s.spawn(|| part.iter().for_each(|t| walk(t)));
        }
    });
}

fn create(p: &Place) {
    let repo = p.repo("create", 1500);
    let ours = |round| {
        timed(|| {
            let all: Vec<_> = (0..10)
                .map(|i| p.command("git-agents", &repo).args(["-q", "new", &format!("r{round}-{i}")]).spawn().unwrap())
                .collect();
            for mut c in all {
                assert!(c.wait().unwrap().success());
            }
        })
    };
    let theirs = |round| {
        timed(|| {
            for i in 0..10 {
                let (branch, path) = (format!("g{round}-{i}"), p.dir.path().join(format!("plain/g{round}-{i}")));
                p.run(&repo, &["git", "worktree", "add", "-q", "-b", &branch, path.to_str().unwrap()]);
            }
        })
    };
    compare(
        "ten environments at once against ten `git worktree add` in turn, 1,500 files",
        "at most 1.2",
        5,
        ours,
        theirs,
    );
}

fn no_op(p: &Place) {
    let repo = p.repo("noop", 20);
    std::fs::write(repo.join(".git-agents.toml"), "[assistants.noop]\ncommand = [\"true\"]\n").unwrap();
    p.run(&repo, &["git", "add", "-A"]);
    p.run(&repo, &["git", "commit", "-qm", "config"]);
    p.run(&repo, &["git", "agents", "trust", "--yes"]);
    let list: String = (1..=30).map(|i| format!("{i}. task number {i}\n")).collect();
    std::fs::write(p.dir.path().join("list.md"), list).unwrap();
    let list = p.dir.path().join("list.md");
    let script = p.dir.path().join("one");
    std::fs::write(&script, // Parallel `worktree add` fails now and then in git itself; then the branch is there already.
        "#!/bin/sh\ngit worktree add -q -b \"x$1\" \"$2/x$1\" || until git worktree add -qf \"$2/x$1\" \"x$1\"; do :; done\ncd \"$2/x$1\"\ntrue\n")
        .unwrap();
    let ours = |_| {
        timed(|| {
            let mut c = p.command("git-agents", &repo);
            c.args(["-q", "run", "-a", "noop", "--again", "-f", list.to_str().unwrap()]);
            // A no-op changes nothing, so the answer is "no".
            assert_eq!(c.status().unwrap().code(), Some(1));
        })
    };
    p.run(&repo, &["chmod", "+x", script.to_str().unwrap()]);
    let theirs = |round: usize| {
        timed(|| {
            let to = p.dir.path().join("xargs");
            let line = format!(
                "seq {}00 {}29 | xargs -P 4 -I N {} N {}",
                round + 1,
                round + 1,
                script.display(),
                to.display()
            );
            let out = p.command("sh", &repo).args(["-c", &line]).stderr(Stdio::piped()).output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        })
    };
    compare(
        "30 no-op assistants in worktrees of their own against `xargs -P 4` doing the same",
        "at most 1.5",
        3,
        ours,
        theirs,
    );
}

/// 30 agents, a third of them in files that the base changes with every commit, a third landed as squashes, and 300
/// commits of the base since.
fn clean(p: &Place) {
    let repo = p.repo("clean", 600);
    std::fs::write(repo.join("hot.txt"), (0..400).map(|i| format!("line {i}\n")).collect::<String>()).unwrap();
    p.run(&repo, &["git", "add", "-A"]);
    p.run(&repo, &["git", "commit", "-qm", "hot"]);
    let edit = |dir: &Path, line: usize, text: &str| {
        let now = std::fs::read_to_string(dir.join("hot.txt")).unwrap();
        let lines = now.lines().enumerate().map(|(i, l)| if i == line { text.to_owned() } else { l.to_owned() });
        std::fs::write(dir.join("hot.txt"), lines.map(|l| l + "\n").collect::<String>()).unwrap();
    };
    for i in 0..30 {
        p.run(&repo, &["git", "agents", "-q", "new", &format!("a{i}")]);
        let tree = p.dir.path().join(format!("clean.agents/a{i}"));
        match i % 3 {
            0 => edit(&tree, 10 * i + 5, "an agent's"),
            _ => std::fs::write(tree.join(format!("own-{i}.txt")), "own\n").unwrap(),
        }
        p.run(&tree, &["git", "add", "-A"]);
        p.run(&tree, &["git", "commit", "-qm", "own"]);
    }
    for i in 0..300 {
        if i % 30 == 1 {
            p.run(&repo, &["git", "merge", "-q", "--squash", &format!("a{}", 3 * (i / 30) + 1)]);
        }
        edit(&repo, 10 * (i % 30), &format!("the base's {i}"));
        p.run(&repo, &["git", "add", "-A"]);
        p.run(&repo, &["git", "commit", "-qm", "base"]);
    }
    let ids = |args: &[&str]| {
        let out = p.command("git", &repo).args(args).stdout(Stdio::piped()).output().unwrap();
        String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let base = ids(&["rev-list", "--first-parent", "-300", "main"]);
    let tips: Vec<String> = (0..30).flat_map(|i| ids(&["rev-parse", &format!("a{i}")])).collect();
    let pairs: String = tips.iter().flat_map(|t| base.iter().map(move |x| format!("{x} {t}\n"))).collect();
    let list = p.dir.path().join("pairs");
    std::fs::write(&list, pairs).unwrap();
    let ours = || timed(|| p.run(&repo, &["git-agents", "clean", "--dry-run", "--json"]));
    let cold = |_| {
        let _ = std::fs::remove_dir_all(repo.join(".git/agents/cache"));
        ours()
    };
    let theirs = |_| {
        timed(|| {
            let mut c = p.command("git", &repo);
            c.args(["merge-tree", "--write-tree", "--stdin"]).stdin(std::fs::File::open(&list).unwrap());
            assert!(c.status().unwrap().success());
        })
    };
    let what =
        "`clean --dry-run` over 30 agents, 300 commits of the base since, against one `git merge-tree --stdin` of all";
    compare(&format!("{what}, cold"), "at most 3", 3, cold, theirs);
    compare(&format!("{what}, warm"), "at most 0.1", 3, |_| ours(), theirs);
}

/// `git checkout` and `git merge` with our hooks against the same without any.
fn hooks(p: &Place) {
    let make = |name: &str| {
        let repo = p.repo(name, 1500);
        p.run(&repo, &["git", "checkout", "-qb", "topic"]);
        for i in 0..200 {
            std::fs::write(repo.join(format!("src/m{:03}/f{:05}.txt", i / 4, i * 5)), "topic\n").unwrap();
        }
        p.run(&repo, &["git", "commit", "-qam", "topic"]);
        p.run(&repo, &["git", "checkout", "-q", "main"]);
        p.run(&repo, &["git", "commit", "-q", "--allow-empty", "-m", "on"]);
        repo
    };
    let (with, without) = (make("hooked"), make("plain"));
    p.run(&with, &["git", "agents", "hooks", "install", "--yes"]);
    // Files as old as the index that lists them are read again by every git.
    std::thread::sleep(Duration::from_millis(1100));
    for repo in [&with, &without] {
        p.run(repo, &["git", "update-index", "-q", "--really-refresh"]);
        p.run(repo, &["git", "reset", "-q", "--hard"]);
    }
    let checkout = |repo: &Path| {
        let there = timed(|| p.run(repo, &["git", "checkout", "-q", "topic"]));
        there + timed(|| p.run(repo, &["git", "checkout", "-q", "main"]))
    };
    let merge = |repo: &Path| {
        let time = timed(|| p.run(repo, &["git", "merge", "-q", "--no-ff", "-m", "x", "topic"]));
        // Fires no hook.
        p.run(repo, &["git", "reset", "-q", "--hard", "HEAD~"]);
        time
    };
    for (agents, goal) in [(0, "at most 1.15"), (30, "at most 1.3")] {
        (0..agents).for_each(|i| p.run(&with, &["git", "agents", "-q", "new", &format!("a{i}")]));
        let what = |verb: &str| format!("`git {verb}` with our hooks and {agents} agents against none");
        compare(&what("checkout"), goal, 15, |_| checkout(&with), |_| checkout(&without));
        compare(&what("merge"), goal, 15, |_| merge(&with), |_| merge(&without));
    }
}

fn memory(p: &Place) {
    let repo = p.repo("memory", 20);
    p.run(&repo, &["git", "agents", "-q", "run", "-d", "-a", "scripted", "SLEEP: 60"]);
    let pid = loop {
        let out = p.command("git-agents", &repo).args(["status", "--json"]).stdout(Stdio::piped()).output().unwrap();
        let v: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        if v["agents"][0]["run"]["state"] == "running" {
            break v["agents"][0]["run"]["pid"].as_i64().unwrap();
        }
    };
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let kib = |key: &str| -> u64 {
        let line = text.lines().find(|l| l.starts_with(key)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    let private = kib("Private_Clean:") + kib("Private_Dirty:");
    println!(
        "a running supervisor: {:.1} MiB resident (at most 8), {:.1} MiB private of which {:.1} dirty (at most 2)",
        kib("Rss:") as f64 / 1024.0,
        private as f64 / 1024.0,
        kib("Private_Dirty:") as f64 / 1024.0
    );
    p.run(&repo, &["git", "agents", "-q", "stop", "--all"]);
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let place = Place::new();
    type Bench = fn(&Place);
    let all: [(&str, Bench); 8] = [
        ("start-up", start_up),
        ("status", status),
        ("create", create),
        ("no-op", no_op),
        ("clean", clean),
        ("hooks", hooks),
        ("memory", memory),
        ("crowd", crowd),
    ];
    for (name, f) in all {
        if wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str())) {
            f(&place);
        }
    }
}
