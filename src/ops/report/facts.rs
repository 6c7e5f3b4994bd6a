//! What is to be said about one agent, whoever else there is.

use super::STOPPED;
use super::answer::{AgentReport, Commands, CommitAnswer, Conflicts, FileAnswer, TestsCount, Verdict};
use super::contents::{self, Contents};
use crate::git::status::{self, Place};
use crate::git::worktree;
use crate::model::agent::{Oid, RunState};
use crate::model::event::Kind;
use crate::model::task::short_ref;
use crate::ops::answer::JsonPath;
use crate::ops::inventory::{Agent, Inventory, own_commits};
use crate::ops::typed::Typed;
use crate::ops::{Context, Error, Result, overlap};

const UNREADABLE: &str = "its commits cannot be told";

pub(super) fn is_unreadable(a: &AgentReport) -> bool {
    a.reasons.iter().any(|r| r.starts_with(UNREADABLE))
}

/// What is to be said about one agent. What cannot be read is a reason to look, never an end of the report.
pub(super) fn one(ctx: &Context, inv: &Inventory, a: &Agent, typed: &Typed) -> AgentReport {
    let mut reasons = Vec::new();
    let work = work(ctx, inv, a).unwrap_or_else(|e| {
        reasons.push(format!("{UNREADABLE}: {e}"));
        Work::default()
    });
    facts(ctx, inv, a, typed, work, reasons)
}

/// What a branch brings.
#[derive(Default)]
pub(super) struct Work {
    /// Oldest first.
    commits: Vec<CommitAnswer>,
    /// The files they change.
    files: Vec<FileAnswer>,
    /// What is in these.
    contents: Contents,
}

/// Its commits, and what they change.
pub(super) fn work(ctx: &Context, inv: &Inventory, a: &Agent) -> Result<Work> {
    let own = own_commits(ctx, inv, a)?;
    // Landed work is no longer beyond the base: the journal has noted which commits were its own.
    let own = if own.is_empty() { noted_commits(inv, a) } else { own };
    let mut out = Work::default();
    for id in own.iter().rev() {
        if let Some(c) = ctx.state.objects.commit(id)? {
            out.commits.push(CommitAnswer { id: c.id, subject: crate::model::text::one_line(&c.subject, 200) });
        }
    }
    if let Some(tip) = a.tip.as_ref().filter(|_| !out.commits.is_empty()) {
        let from = since(ctx, inv, a, tip)?;
        out.files = numstat(ctx, &from, tip)?;
        out.contents = contents::read(ctx, &from, tip)?;
    }
    Ok(out)
}

/// What its work is compared with: where it started, or where the base was when it was merged in last.
pub(in crate::ops) fn since(ctx: &Context, inv: &Inventory, a: &Agent, tip: &Oid) -> Result<Oid> {
    let objects = &ctx.state.objects;
    let start = crate::ops::inventory::start_commit(inv.journal.get(&a.reg.id)).unwrap_or_else(|| a.reg.fork.clone());
    let Some(base) = inv.base_tip(a) else { return Ok(start) };
    match objects.merge_bases(&base, tip)?.into_iter().next() {
        None => Err(Error::Refused { what: overlap::no_common(ctx), hint: None }),
        Some(met) if met == *tip => Ok(start),
        Some(met) if objects.is_ancestor(&start, &met)? || !objects.is_ancestor(&start, tip)? => Ok(met),
        Some(_) => Ok(start),
    }
}

/// The facts, with nothing compared yet.
pub(super) fn facts(
    ctx: &Context,
    inv: &Inventory,
    a: &Agent,
    typed: &Typed,
    work: Work,
    mut reasons: Vec<String>,
) -> AgentReport {
    let Work { commits, files, contents } = work;
    if let Some(reason) = a.record.as_ref().and_then(|r| r.reason.clone()) {
        reasons.push(match a.state() {
            Some(RunState::Succeeded) | None => reason,
            Some(RunState::Stopped) => format!("{STOPPED}: {reason}"),
            Some(state) => format!("{state}: {reason}"),
        });
    }
    let mut left_over = Vec::new();
    match &a.entry {
        Some(e) if e.link() == worktree::Link::Good => {
            let head = match &e.head {
                worktree::Head::Branch(b) => inv.refs.get(b).cloned(),
                worktree::Head::Detached(id) => Some(id.clone()),
                worktree::Head::Unknown => None,
            };
            match status::changes(
                ctx.repo(),
                &ctx.state.objects,
                &Place { worktree: &e.path, admin: &e.admin, head: head.as_ref() },
            ) {
                Ok(c) => left_over = c.all().map(|p| JsonPath::from(p.as_slice())).collect(),
                Err(err) => reasons.push(format!("its uncommitted files cannot be read: {err}")),
            }
            if !left_over.is_empty() {
                let shown: Vec<String> = left_over.iter().take(3).map(JsonPath::shown).collect();
                let more =
                    if left_over.len() > 3 { format!(" and {} more", left_over.len() - 3) } else { String::new() };
                reasons.push(format!("not committed: {}{more}", shown.join(", ")));
            }
            if let Some(op) = e.operation() {
                reasons.push(format!("in the middle of a {op}"));
            }
        }
        _ if a.reg.doing.is_none() => reasons.push("its worktree is missing".into()),
        _ => {}
    }
    let tested = crate::ops::tested::report(ctx, inv, a);
    reasons.extend(tested.reason);
    let flags = crate::ops::flags::of(ctx, a, &files, &contents);
    let tests = |count: Option<TestsCount>| count.filter(|_| !commits.is_empty());
    let record = a.record.as_ref();
    let name = &a.reg.name;
    AgentReport {
        name: name.clone(),
        title: a.task.title.clone(),
        number: a.task.number,
        group: a.task.group.clone(),
        branch: short_ref(&a.reg.branch).to_owned(),
        base: short_ref(&a.reg.base).to_owned(),
        tip: a.tip.clone(),
        assistant: a.assistant().map(str::to_owned),
        state: a.state(),
        verdict: Verdict::Look,
        reasons,
        claim: record.and_then(|r| r.claim.as_deref()).map(|c| crate::model::text::safe_text(c.as_bytes())),
        tests_added: tests(contents.added),
        tests_removed: tests(contents.removed),
        tests_skipped: tests(contents.skipped),
        commits,
        files,
        left_over,
        tests: tested.tests,
        earlier_tests: tested.earlier,
        breaks: tested.breaks,
        flags,
        url: None,
        conflicts: Conflicts::default(),
        cost_usd: record.and_then(|r| r.cost_usd),
        tokens: record.and_then(|r| r.tokens),
        duration_s: record
            .and_then(|r| crate::runtime::clock::seconds_between(r.started.as_deref()?, r.ended.as_deref()?)),
        attempts: record.map_or(0, |r| r.attempt),
        worktree: a.path().map(JsonPath::from),
        commands: Commands {
            look: format!("git agents diff {}", name.typed()),
            take: Some(format!("git agents land {}", name.typed())),
            push: typed.remote().map(|_| format!("git agents push {}", name.typed())),
            drop: format!("git agents rm -D {}", name.typed()),
        },
    }
}

/// The commits the journal noted as its own, newest first.
fn noted_commits(inv: &Inventory, a: &Agent) -> Vec<Oid> {
    let Some(j) = inv.journal.get(&a.reg.id) else { return Vec::new() };
    let mut out: Vec<Oid> = j.all(&Kind::Commit).filter_map(|e| Oid::parse(e.text("commit")?)).collect();
    out.reverse();
    out
}

/// Lines added and removed, file by file, by git itself with nothing of the repository's running.
fn numstat(ctx: &Context, from: &Oid, to: &Oid) -> Result<Vec<FileAnswer>> {
    let args = ["diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", &from.0, &to.0];
    let out = ctx.repo().call(args).run()?;
    let mut files = Vec::new();
    for line in out.split(|b| *b == 0).filter(|l| !l.is_empty()) {
        let mut parts = line.splitn(3, |b| *b == b'\t');
        let number = |f: Option<&[u8]>| f.and_then(|f| std::str::from_utf8(f).ok()).and_then(|s| s.parse().ok());
        let (added, removed, path) = (number(parts.next()), number(parts.next()), parts.next().unwrap_or_default());
        files.push(FileAnswer { path: path.into(), added, removed });
    }
    Ok(files)
}
