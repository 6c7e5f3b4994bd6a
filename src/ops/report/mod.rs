//! What a batch did, for a person to decide from. Every figure is read from git and the records, none from a claim.

use super::answer::JsonPath;
use super::inventory::{Agent, Inventory, own_commits};
use super::merged::{Chain, Landed, LeftOut, Merged};
use super::typed::Typed;
use super::{Context, Error, Result, overlap};
use crate::git::status::{self, Place};
use crate::git::worktree;
use crate::model::agent::{Name, Oid, RunState};
use crate::model::event::Kind;
use crate::model::overlap::{Level, Side, SideKind, Step};
use crate::model::task::short_ref;
use schemars::JsonSchema;
use serde::Serialize;

/// What a person should do about an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Succeeded, nothing newly failing, merges clean with the base now, nothing left over, no flag.
    Ready,
    /// Something wants a person's eye; the reasons say what.
    Look,
    /// It did not succeed.
    Failed,
    /// It changed nothing.
    Nothing,
    /// Its parent failed.
    Skipped,
}

impl Verdict {
    /// The public word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ready => "ready",
            Verdict::Look => "look",
            Verdict::Failed => "failed",
            Verdict::Nothing => "nothing",
            Verdict::Skipped => "skipped",
        }
    }
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct FileAnswer {
    pub path: JsonPath,
    /// `null` for a binary file.
    pub added: Option<usize>,
    pub removed: Option<usize>,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct CommitAnswer {
    pub id: Oid,
    pub subject: String,
}

/// Something about a branch that a person should know.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct Flag {
    pub kind: &'static str,
    pub text: String,
}

/// Where landing would stop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Conflicts {
    /// The base: conflicted paths, empty where it merges clean, `null` where it could not be told.
    pub with_base: Option<Vec<JsonPath>>,
    /// Other agents of the report.
    pub with_agents: Vec<WithAgent>,
}

/// One other agent it meets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct WithAgent {
    pub agent: Name,
    /// `null` where it could not be told; `unknown` says why.
    pub level: Option<Level>,
    pub paths: Vec<JsonPath>,
    pub unknown: Option<String>,
}

/// What to type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct Commands {
    pub look: String,
    pub take: Option<String>,
    pub push: Option<String>,
    pub drop: String,
}

/// Tests that a branch adds, removes or skips, read from the files it changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TestsCount {
    /// Test files.
    pub files: usize,
    /// Test cases.
    pub cases: usize,
    /// Their names, as the language writes them, in the order of paths.
    pub names: Vec<String>,
}

/// What the test command says of a branch, beside its base commit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TestsReport {
    /// The command, for people.
    pub command: String,
    /// On the base commit: `pass`, `fail` or `unknown`.
    pub baseline: &'static str,
    /// On the tip: `pass`, `fail`, `flaky` or `unknown`.
    pub now: &'static str,
    /// Fail on the tip and not on the base commit.
    pub newly_failing: Vec<String>,
    /// Fail on both.
    pub still_failing: Vec<String>,
    /// Failed on the base commit and not on the tip.
    pub fixed: Vec<String>,
    /// Failed on the tip, and passed when they were asked once more.
    pub flaky: Vec<String>,
    /// Of the tip, which the verdict is noted on.
    pub tree: Option<Oid>,
    /// `names` where the output names tests, else `exit-code`.
    pub method: &'static str,
    /// Why it did not pass, or is unknown.
    pub reason: Option<String>,
    /// What was printed, as long as that is kept.
    pub log: Option<JsonPath>,
    /// How long setup and tests took on the tip.
    pub duration_s: u64,
}

/// One agent in the report.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct AgentReport {
    pub name: Name,
    pub title: String,
    pub number: Option<u32>,
    pub group: Option<String>,
    pub branch: String,
    pub base: String,
    pub tip: Option<Oid>,
    pub assistant: Option<String>,
    pub state: Option<RunState>,
    pub verdict: Verdict,
    pub reasons: Vec<String>,
    pub claim: Option<String>,
    pub commits: Vec<CommitAnswer>,
    pub files: Vec<FileAnswer>,
    pub left_over: Vec<JsonPath>,
    pub tests_added: Option<TestsCount>,
    pub tests_removed: Option<TestsCount>,
    pub tests_skipped: Option<TestsCount>,
    /// `null` where there is no test command, or it has not been run.
    pub tests: Option<TestsReport>,
    pub flags: Vec<Flag>,
    pub url: Option<serde_json::Value>,
    pub conflicts: Conflicts,
    pub cost_usd: Option<f64>,
    pub tokens: Option<u64>,
    pub duration_s: Option<u64>,
    pub attempts: u32,
    pub worktree: Option<JsonPath>,
    pub commands: Commands,
}

/// One step of the landing order.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct OrderAnswer {
    pub name: Name,
    pub conflicts_with_landed: Vec<Name>,
    /// Its rivals, of which it is the one to land.
    pub instead_of: Vec<Name>,
}

/// `report --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct Report {
    pub version: u32,
    pub batch: Option<u64>,
    pub base: Option<String>,
    pub agents: Vec<AgentReport>,
    pub order: Vec<OrderAnswer>,
    pub merged: Option<Merged>,
    pub land: Option<String>,
    pub push: Option<String>,
}

/// The report over `agents`.
pub fn report(ctx: &Context, inv: &Inventory, agents: &[&Agent], batch: Option<u64>) -> Result<Report> {
    Ok(with_chains(ctx, inv, agents, batch)?.0)
}

/// What is to be said about one, without comparing it: for words that others will read, so what cannot be read is an error.
pub(super) fn of(ctx: &Context, inv: &Inventory, a: &Agent) -> Result<AgentReport> {
    let (commits, files) = work(ctx, inv, a)?;
    Ok(facts(ctx, inv, a, &Typed::read(ctx)?, commits, files, Vec::new()))
}

/// The same, with what would land on each base, and the round that knows its trees.
pub(super) fn with_chains<'c>(
    ctx: &'c Context,
    inv: &Inventory,
    agents: &[&Agent],
    batch: Option<u64>,
) -> Result<(Report, overlap::Round<'c>, Vec<Chain>)> {
    let typed = Typed::read(ctx)?;
    let mut answers = super::inventory::in_parallel(agents, |a| Ok(one(ctx, inv, a, &typed)))?;
    // Pairs are judged within one base: what lands elsewhere does not meet here.
    let round = overlap::Round::begin(ctx)?;
    let mut order = Vec::new();
    let mut chains = Vec::new();
    let mut bases: Vec<String> = agents.iter().map(|a| a.reg.base.clone()).collect();
    bases.sort();
    bases.dedup();
    for base_name in &bases {
        let members: Vec<usize> = (0..agents.len())
            .filter(|i| {
                let has_work = !answers[*i].commits.is_empty() || is_unreadable(&answers[*i]);
                agents[*i].reg.base == *base_name && agents[*i].tip.is_some() && has_work
            })
            .collect();
        let Some(base) = members.first().and_then(|i| inv.base_tip(agents[*i])) else {
            for i in members {
                answers[i].reasons.push(format!("its base '{}' is gone", short_ref(base_name)));
            }
            continue;
        };
        let side = |i: &usize| {
            let a = agents[*i];
            Some(Side::at(&a.reg.name.0, SideKind::Agent, a.task.group.clone(), a.tip.clone()?))
        };
        let sides: Vec<Side> = members.iter().filter_map(side).collect();
        for (i, pair) in members.iter().zip(round.with_base(&base, &sides)) {
            let c = &mut answers[*i];
            if let Some(why) = &pair.unknown {
                c.reasons.push(format!("whether it merges with '{}' is unknown: {why}", short_ref(base_name)));
            } else if pair.conflicts() {
                c.reasons.push(format!("conflicts with '{}' in {}", short_ref(base_name), list(&pair.paths())));
                c.conflicts.with_base = Some(pair.paths().into_iter().map(JsonPath::from).collect());
            } else {
                c.conflicts.with_base = Some(Vec::new());
            }
        }
        let pairs = round.verdicts(&base, &sides).pairs;
        for p in pairs.iter().filter(|p| p.level != Some(Level::None)) {
            for (me, other) in [(p.a, p.b), (p.b, p.a)] {
                let name = Name(sides[other].name.clone());
                answers[members[me]].conflicts.with_agents.push(WithAgent {
                    agent: name,
                    level: p.level,
                    paths: p.paths().into_iter().map(JsonPath::from).collect(),
                    unknown: p.unknown.clone(),
                });
            }
        }
        for i in &members {
            judge(&mut answers[*i]);
        }
        let landed =
            |side: &Side| side.commit.as_ref().is_ok_and(|c| ctx.state.objects.is_ancestor(c, &base).unwrap_or(false));
        let rank = |i: usize| match answers[members[i]].verdict {
            _ if landed(&sides[i]) => 0,
            Verdict::Ready => 1,
            Verdict::Look => 2,
            _ => 3,
        };
        let steps = round.order(&base, &sides, &pairs, &rank);
        chains.push(chain(base_name, &base, &sides, &steps));
        for step in steps {
            let names = |of: Vec<usize>| of.into_iter().map(|i| Name(sides[i].name.clone())).collect();
            order.push(OrderAnswer {
                name: Name(sides[step.side].name.clone()),
                conflicts_with_landed: names(step.conflicts_with_landed),
                instead_of: names(step.instead_of),
            });
        }
    }
    for a in &mut answers {
        judge(a);
    }
    let (land, push) = if bases.len() == 1 { all_ready(&answers, &order, &typed) } else { (None, None) };
    let report = Report {
        version: 1,
        batch,
        base: bases.first().map(|b| short_ref(b).to_owned()),
        agents: answers,
        order,
        merged: None,
        land,
        push,
    };
    Ok((report, round, chains))
}

/// What lands of an order, and why the rest does not.
fn chain(base_name: &str, base: &Oid, sides: &[Side], steps: &[Step]) -> Chain {
    let name = |i: usize| Name(sides[i].name.clone());
    let mut out =
        Chain { base_name: base_name.to_owned(), base: base.clone(), landed: Vec::new(), left_out: Vec::new() };
    for step in steps {
        for rival in &step.instead_of {
            let reason = format!("'{}' is there in its place", name(step.side));
            out.left_out.push(LeftOut { name: name(*rival), paths: Vec::new(), reason });
        }
        if let (Some(tree), Ok(tip)) = (&step.tree, &sides[step.side].commit) {
            out.landed.push(Landed { name: name(step.side), tip: tip.clone(), tree: tree.clone() });
            continue;
        }
        let with: Vec<String> = step
            .conflicts_with_landed
            .iter()
            .map(|i| name(*i))
            .filter(|n| out.landed.iter().any(|l| l.name == *n))
            .map(|n| format!("'{n}'"))
            .collect();
        let reason = match &step.unknown {
            Some(why) => format!("whether it merges is unknown: {why}"),
            None if with.is_empty() => format!("it conflicts with '{}' and what is on it", short_ref(base_name)),
            None => format!("it conflicts with {}", with.join(", ")),
        };
        let paths = step.stops.iter().map(|p| JsonPath::from(p.as_slice())).collect();
        out.left_out.push(LeftOut { name: name(step.side), paths, reason });
    }
    out
}

fn list(paths: &[&[u8]]) -> String {
    let shown: Vec<String> = paths.iter().take(3).map(|p| crate::model::text::safe_path(p)).collect();
    let more = if paths.len() > 3 { format!(" and {} more", paths.len() - 3) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// The rule, in one place. The same answer however often it is asked.
fn judge(a: &mut AgentReport) {
    let is_empty = a.commits.is_empty() && a.left_over.is_empty() && !is_unreadable(a);
    a.verdict = match a.state {
        Some(RunState::Succeeded) if a.reasons.is_empty() && a.flags.is_empty() && a.conflicts.with_base.is_some() => {
            Verdict::Ready
        }
        Some(RunState::Unchanged) => Verdict::Nothing,
        Some(RunState::Skipped) => Verdict::Skipped,
        // A person's own wish is no failure.
        Some(RunState::Stopped) if is_empty => Verdict::Nothing,
        Some(RunState::Stopped) => Verdict::Look,
        Some(RunState::Succeeded) | None => Verdict::Look,
        Some(s) if s.is_final() => Verdict::Failed,
        Some(_) => Verdict::Look,
    };
    if let Some(s) = a.state.filter(|s| *s != RunState::Succeeded) {
        let already = a.reasons.iter().any(|r| r.starts_with(s.word()));
        if !already {
            let words = if s == RunState::Stopped { STOPPED } else { s.word() };
            a.reasons.insert(0, words.to_owned());
        }
    }
}

/// One line each for all that are ready and do not meet one that goes before, in the order of landing.
fn all_ready(answers: &[AgentReport], order: &[OrderAnswer], typed: &Typed) -> (Option<String>, Option<String>) {
    let mut taken: Vec<&Name> = Vec::new();
    let mut names = Vec::new();
    for o in order {
        let Some(i) = answers.iter().position(|a| a.name == o.name) else { continue };
        let doubt = |w: &WithAgent| w.level.is_none() && taken.contains(&&w.agent);
        let stops = o.conflicts_with_landed.iter().any(|n| taken.contains(&n));
        if answers[i].verdict == Verdict::Ready && !stops && !answers[i].conflicts.with_agents.iter().any(doubt) {
            taken.push(&o.name);
            names.push(o.name.typed());
        }
    }
    if names.is_empty() {
        return (None, None);
    }
    let names = names.join(" ");
    (Some(format!("git agents land {names}")), typed.remote().map(|_| format!("git agents push {names}")))
}

/// Why a stopped one is not done.
const STOPPED: &str = "stopped by you";

const UNREADABLE: &str = "its commits cannot be told";

fn is_unreadable(a: &AgentReport) -> bool {
    a.reasons.iter().any(|r| r.starts_with(UNREADABLE))
}

/// What is to be said about one agent. What cannot be read is a reason to look, never an end of the report.
fn one(ctx: &Context, inv: &Inventory, a: &Agent, typed: &Typed) -> AgentReport {
    let mut reasons = Vec::new();
    let (commits, files) = work(ctx, inv, a).unwrap_or_else(|e| {
        reasons.push(format!("{UNREADABLE}: {e}"));
        (Vec::new(), Vec::new())
    });
    facts(ctx, inv, a, typed, commits, files, reasons)
}

/// Its commits, oldest first, and the files they change.
fn work(ctx: &Context, inv: &Inventory, a: &Agent) -> Result<(Vec<CommitAnswer>, Vec<FileAnswer>)> {
    let own = own_commits(ctx, inv, a)?;
    // Landed work is no longer beyond the base: the journal has noted which commits were its own.
    let own = if own.is_empty() { noted_commits(inv, a) } else { own };
    let mut commits = Vec::new();
    for id in own.iter().rev() {
        if let Some(c) = ctx.state.objects.commit(id)? {
            commits.push(CommitAnswer { id: c.id, subject: crate::model::text::one_line(&c.subject, 200) });
        }
    }
    let files = match &a.tip {
        Some(tip) if !commits.is_empty() => numstat(ctx, &since(ctx, inv, a, tip)?, tip)?,
        _ => Vec::new(),
    };
    Ok((commits, files))
}

/// What its work is compared with: where it started, or where the base was when it was merged in last.
fn since(ctx: &Context, inv: &Inventory, a: &Agent, tip: &Oid) -> Result<Oid> {
    let objects = &ctx.state.objects;
    let start = super::inventory::start_commit(inv.journal.get(&a.reg.id)).unwrap_or_else(|| a.reg.fork.clone());
    let Some(base) = inv.base_tip(a) else { return Ok(start) };
    match objects.merge_bases(&base, tip)?.into_iter().next() {
        None => Err(Error::Refused { what: overlap::no_common(ctx), hint: None }),
        Some(met) if met == *tip => Ok(start),
        Some(met) if objects.is_ancestor(&start, &met)? || !objects.is_ancestor(&start, tip)? => Ok(met),
        Some(_) => Ok(start),
    }
}

fn facts(
    ctx: &Context,
    inv: &Inventory,
    a: &Agent,
    typed: &Typed,
    commits: Vec<CommitAnswer>,
    files: Vec<FileAnswer>,
    mut reasons: Vec<String>,
) -> AgentReport {
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
    let flags = super::flags::of(ctx, a, &files);
    let record = a.record.as_ref();
    let name = &a.reg.name;
    let branch = typed.rev(&a.reg.branch);
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
        commits,
        files,
        left_over,
        tests_added: None,
        tests_removed: None,
        tests_skipped: None,
        tests: None,
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
            look: format!("git diff {}...{branch}", typed.rev(&a.reg.base)),
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
