//! Whether work is in its base, over many made-up histories whose truth is known by how they are made.
//!
//! A history is a sequence of edits on lines that do not touch each other, so that what a merge gives is known without
//! asking git. The commits are real, written by one `fast-import`; the agents are one real agent in many places.

use crate::restore::Random;
use crate::support::{Env, Repo};
use git_agents::model::agent::Oid;
use git_agents::ops::Context;
use git_agents::ops::inventory::{Agent, Inventory};
use git_agents::ops::landed::{self, Landing};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// Commits, made one after the other.
struct Forge {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Ids in the order of their marks: what is not finished yet is known by its mark alone.
    made: Vec<String>,
}

type Files = BTreeMap<String, Vec<String>>;

impl Forge {
    fn new(repo: &Repo<'_>) -> Forge {
        let mut command = repo.env.command("git", repo.path());
        command.args(["fast-import", "--quiet", "--force", "--date-format=now"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Forge { child, stdin, stdout, made: Vec::new() }
    }

    fn commit(&mut self, parents: &[&str], files: &Files, message: &str) -> String {
        let mark = |id: &str| self.made.iter().position(|m| m == id).unwrap() + 1;
        let next = self.made.len() + 1;
        let mut text = format!(
            "reset refs/heads/forge\n\ncommit refs/heads/forge\nmark :{}\ncommitter F <f@localhost> now\ndata {}\n{message}\n",
            next,
            message.len()
        );
        for (i, p) in parents.iter().enumerate() {
            text += &format!("{} :{}\n", if i == 0 { "from" } else { "merge" }, mark(p));
        }
        text += "deleteall\n";
        for (name, lines) in files {
            let content = lines.concat();
            text += &format!("M 100644 inline {name}\ndata {}\n{content}\n", content.len());
        }
        text += &format!("\nget-mark :{next}\n");
        self.stdin.write_all(text.as_bytes()).unwrap();
        self.stdin.flush().unwrap();
        let mut id = String::new();
        self.stdout.read_line(&mut id).unwrap();
        self.made.push(id.trim().to_owned());
        id.trim().to_owned()
    }

    fn end(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}

/// One change that meets no other.
#[derive(Debug, Clone)]
enum Edit {
    Line(&'static str, usize, String),
    Add(String),
    Delete(&'static str),
    Rename(&'static str, String),
}

impl Edit {
    fn apply(&self, files: &mut Files) {
        match self {
            Edit::Line(f, n, text) => {
                let now = files.iter_mut().find(|(name, _)| name.as_str() == *f || name.starts_with(&format!("{f}-")));
                if let Some((_, lines)) = now {
                    lines[*n] = format!("{text}\n");
                }
            }
            Edit::Add(f) => drop(files.insert(f.clone(), (0..8).map(|i| format!("{f} {i}\n")).collect())),
            Edit::Delete(f) => drop(files.remove(*f)),
            Edit::Rename(f, to) => {
                if let Some(lines) = files.remove(*f) {
                    files.insert(to.clone(), lines);
                }
            }
        }
    }
}

fn with(files: &Files, edits: &[Edit]) -> Files {
    let mut files = files.clone();
    edits.iter().for_each(|e| e.apply(&mut files));
    files
}

fn root_files() -> Files {
    let file = |name: &str| (name.to_owned(), (0..60).map(|i| format!("{name} line {i}\n")).collect());
    ["a.txt", "b.txt", "c.txt", "gone.txt"].map(file).into()
}

/// What is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    Landed,
    Open,
    TakenBack,
}

struct History {
    fork: String,
    tip: String,
    /// Where the base stood in the end, and before that.
    base: String,
    earlier: [String; 2],
    truth: Truth,
    what: String,
}

/// The base's own line while it is made.
struct Line<'f> {
    forge: &'f mut Forge,
    tip: String,
    files: Files,
}

impl Line<'_> {
    fn commit(&mut self, edits: &[Edit], message: &str) -> String {
        self.files = with(&self.files, edits);
        self.tip = self.forge.commit(&[&self.tip], &self.files, message);
        self.tip.clone()
    }
}

/// Own edits stand on lines 10 to 29, those of others on 40 to 55: further apart than any context.
fn own_edits(random: &mut Random, n: usize) -> Vec<Vec<Edit>> {
    (0..n)
        .map(|i| {
            let mut edits = vec![Edit::Line(["a.txt", "b.txt"][random.below(2)], 10 + 6 * i, format!("own {i}"))];
            match random.below(4) {
                0 => edits.push(Edit::Add(format!("own-{i}.txt"))),
                1 if i == 0 => edits.push(Edit::Delete("gone.txt")),
                _ => {}
            }
            edits
        })
        .collect()
}

fn others(random: &mut Random, line: &mut Line<'_>, most: usize, what: &str) {
    for i in 0..random.below(most + 1) {
        let file = ["a.txt", "b.txt", "c.txt"][random.below(3)];
        let text = format!("{what} {i} {}", random.below(1000));
        line.commit(&[Edit::Line(file, 40 + random.below(15), text)], what);
    }
}

fn history(random: &mut Random, forge: &mut Forge, root: &str) -> History {
    let n = 1 + random.below(3);
    let own = own_edits(random, n);
    let flat: Vec<Edit> = own.concat();
    let mut branch = Line { forge, tip: root.to_owned(), files: root_files() };
    let own_commits: Vec<String> = own.iter().map(|e| branch.commit(e, "own")).collect();
    let (mut tip, at_tip) = (branch.tip.clone(), branch.files.clone());
    let mut base = Line { forge: branch.forge, tip: root.to_owned(), files: root_files() };
    let how = [
        "nothing",
        "merge",
        "ff",
        "squash",
        "rebase",
        "split",
        "side",
        "with more", // in the base
        "partly",
        "more after",
        "white space",
        "edited", // not in the base
    ][random.below(12)];
    if how != "ff" {
        others(random, &mut base, 3, "before");
    }
    let before = base.tip.clone();
    let mut truth = Truth::Landed;
    // Those of which each alone, reverted, takes the work back; a merge is reverted as a whole.
    let mut parts: Vec<(String, Vec<Edit>)> = Vec::new();
    match how {
        "merge" => {
            base.files = with(&base.files, &flat);
            base.tip = base.forge.commit(&[&base.tip, &tip], &base.files, "Merge");
            parts = vec![(base.tip.clone(), flat.clone())];
        }
        "ff" => {
            (base.tip, base.files) = (tip.clone(), at_tip);
            parts = own_commits.into_iter().zip(own.clone()).collect();
        }
        "squash" => parts = vec![(base.commit(&flat, "squashed"), flat.clone())],
        "rebase" => {
            for e in &own {
                parts.push((base.commit(e, "own"), e.clone()));
            }
        }
        "split" => {
            let middle = flat.len() / 2;
            base.commit(&flat[..middle], "one half");
            others(random, &mut base, 1, "between");
            base.commit(&flat[middle..], "the other half");
        }
        "side" => {
            let (from, files) = (base.tip.clone(), with(&base.files, &flat));
            let squashed = base.forge.commit(&[&from], &files, "squashed on the side");
            others(random, &mut base, 2, "meanwhile");
            base.files = with(&base.files, &flat);
            base.tip = base.forge.commit(&[&base.tip, &squashed], &base.files, "Merge of the side");
            parts = vec![(squashed, flat.clone())];
        }
        "with more" => {
            let more = [flat.clone(), vec![Edit::Line("c.txt", 5, "more".into())]].concat();
            parts = vec![(base.commit(&more, "squashed with more"), more)];
        }
        "partly" => {
            truth = Truth::Open;
            if let [first, _, ..] = own.as_slice() {
                base.commit(first, "the first of it");
            }
        }
        "more after" => {
            truth = Truth::Open;
            base.commit(&flat, "squashed");
            let files = with(&at_tip, &[Edit::Line("c.txt", 20, "after".into())]);
            tip = base.forge.commit(&[&tip], &files, "and more");
        }
        "white space" => {
            truth = Truth::Open;
            let white = |e: &Edit| match e {
                Edit::Line(f, n, text) => Edit::Line(f, *n, format!("    {text}")),
                other => other.clone(),
            };
            base.commit(&flat.iter().map(white).collect::<Vec<_>>(), "the same but for white space");
        }
        "edited" => {
            truth = Truth::Open;
            let mut edits = flat.clone();
            if let Some(Edit::Line(file, n, _)) = flat.first() {
                edits.push(Edit::Line(file, *n, "a reviewer's".into()));
            }
            base.commit(&edits, "squashed and edited");
        }
        _ => truth = Truth::Open,
    }
    let landed = base.tip.clone();
    others(random, &mut base, 3, "after");
    let mut what = format!("{n} commits, {how}");
    if truth == Truth::Landed {
        match random.below(6) {
            0 if !parts.is_empty() => {
                // git's own words, on one part of it.
                let (id, edits) = parts[random.below(parts.len())].clone();
                let back = undone(&base.files, &edits);
                base.files = back;
                base.tip = base.forge.commit(
                    &[&base.tip],
                    &base.files,
                    &format!("Revert \"own\"\n\nThis reverts commit {id}.\n"),
                );
                what += ", reverted";
                truth = Truth::TakenBack;
                if random.below(2) == 0 {
                    let message = format!("Revert \"Revert\"\n\nThis reverts commit {}.\n", base.tip);
                    base.commit(&edits, &message);
                    what += ", and that too";
                    truth = Truth::Landed;
                }
            }
            1 => {
                // By hand, without a word.
                base.files = undone(&base.files, &flat);
                base.tip = base.forge.commit(&[&base.tip], &base.files, "back out");
                what += ", taken back without a word";
                truth = Truth::TakenBack;
            }
            2 => {
                base.commit(
                    &[Edit::Line("a.txt", 10, "later".into()), Edit::Line("b.txt", 10, "later".into())],
                    "over it",
                );
                what += ", changed again";
            }
            3 => {
                base.commit(
                    &[Edit::Rename("a.txt", "a.txt-moved".into()), Edit::Rename("own-0.txt", "o.txt".into())],
                    "mv",
                );
                what += ", renamed";
            }
            _ => {}
        }
        others(random, &mut base, 2, "at last");
    }
    History { fork: root.to_owned(), tip, base: base.tip, earlier: [before, landed], truth, what }
}

/// What there was before `edits`.
fn undone(files: &Files, edits: &[Edit]) -> Files {
    let root = root_files();
    let mut out = files.clone();
    for e in edits {
        match e {
            Edit::Line(f, n, _) => {
                if let Some(lines) = out.get_mut(*f) {
                    lines[*n] = root[*f][*n].clone();
                }
            }
            Edit::Add(f) => drop(out.remove(f)),
            Edit::Delete(f) => drop(out.insert((*f).to_owned(), root[*f].clone())),
            Edit::Rename(..) => {}
        }
    }
    out
}

/// Judges `count` histories, from `seed` on; how many there were of each truth.
pub fn histories(seed: u64, count: usize) -> [usize; 3] {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    at.commit("own");
    let mut forge = Forge::new(&repo);
    let root = forge.commit(&[], &root_files(), "root");
    let mut random = Random::new(seed);
    let made: Vec<History> = (0..count).map(|_| history(&mut random, &mut forge, &root)).collect();
    forge.end();
    let ctx = Context::open(repo.path()).unwrap();
    let mut inv = Inventory::read(&ctx).unwrap();
    let agents: Vec<Agent> = made
        .iter()
        .enumerate()
        .map(|(i, h)| {
            let mut a = inv.agents[0].clone();
            a.reg.base = format!("refs/heads/base-{i}");
            (a.reg.fork, a.task.base_commit) = (Oid(h.fork.clone()), Oid(h.fork.clone()));
            (a.reg.ahead, a.tip) = (Some(Oid(h.tip.clone())), Some(Oid(h.tip.clone())));
            inv.refs.insert(a.reg.base.clone(), Oid(h.base.clone()));
            a
        })
        .collect();
    let agents: Vec<&Agent> = agents.iter().collect();
    // What is known of a base that has moved on since must not be in the way.
    for i in 0..2 {
        for (a, h) in agents.iter().zip(&made) {
            inv.refs.insert(a.reg.base.clone(), Oid(h.earlier[i].clone()));
        }
        landed::all(&ctx, &inv, &agents).unwrap();
    }
    for (a, h) in agents.iter().zip(&made) {
        inv.refs.insert(a.reg.base.clone(), Oid(h.base.clone()));
    }
    let found = landed::all(&ctx, &inv, &agents).unwrap();
    assert_eq!(found, landed::all(&ctx, &inv, &agents).unwrap(), "what is kept on disk says something else");
    let mut counts = [0; 3];
    let mut wrong = Vec::new();
    for (h, landing) in made.iter().zip(&found) {
        let said = match landing {
            Landing::In { .. } => Truth::Landed,
            Landing::TakenBack { .. } => Truth::TakenBack,
            Landing::Open => Truth::Open,
        };
        counts[h.truth as usize] += 1;
        if said != h.truth {
            wrong.push(format!("{}: {:?}, said to be {landing:?} (tip {}, base {})", h.what, h.truth, h.tip, h.base));
        }
    }
    if !wrong.is_empty() && std::env::var_os("KEEP_HISTORIES").is_some() {
        let _ = std::process::Command::new("cp").arg("-a").arg(repo.path()).arg("/tmp/histories").status();
    }
    assert!(wrong.is_empty(), "seed {seed}: {} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
    counts
}

#[test]
fn only_fast_forwards_and_merge_commits_were_recognised() {
    let counts = histories(1, 100);
    assert!(counts.iter().all(|n| *n > 10), "{counts:?}");
}

#[test]
fn work_that_was_never_in_the_base_was_said_to_be() {
    histories(2, 100);
}

#[test]
#[ignore = "nightly"]
fn nightly_thousands_of_histories() {
    let mut sum = [0; 3];
    for seed in 100..110 {
        for (s, n) in sum.iter_mut().zip(histories(seed, 400)) {
            *s += n;
        }
    }
    let [landed, open, back] = sum;
    eprintln!("{landed} landed, {open} open, {back} taken back: 0 false, 0 missed");
}
