//! What a batch did, for a person to decide from. Every figure is read from git and the records, none from a claim.

mod answer;
mod contents;
mod facts;

pub use answer::*;
pub(super) use contents::Contents;
pub(super) use facts::since;

use super::answer::JsonPath;
use super::inventory::{Agent, Inventory};
use super::merged::{Chain, Landed, LeftOut};
use super::typed::Typed;
use super::{Context, Result, overlap};
use crate::model::agent::{Name, Oid, RunState};
use crate::model::overlap::{LAST, Level, Side, SideKind, Step};
use crate::model::task::short_ref;
use crate::model::units::count;
use facts::{facts, is_unreadable, one, work};

/// The report over `agents`.
pub fn report(ctx: &Context, inv: &Inventory, agents: &[&Agent], batch: Option<u64>) -> Result<Report> {
    Ok(with_chains(ctx, inv, agents, batch)?.0)
}

/// What is to be said about one, without comparing it: for words that others will read, so what cannot be read is an error.
pub(super) fn of(ctx: &Context, inv: &Inventory, a: &Agent) -> Result<AgentReport> {
    let work = work(ctx, inv, a)?;
    Ok(facts(ctx, inv, a, &Typed::read(ctx)?, work, Vec::new()))
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
            _ if answers[members[i]].breaks => LAST,
            Verdict::Look => 2,
            _ => LAST + 1,
        };
        let steps = round.order(&base, &sides, &pairs, &rank);
        chains.push(chain(base_name, &base, &sides, &steps));
        for step in steps {
            let names = |of: Vec<usize>| of.into_iter().map(|i| Name(sides[i].name.clone())).collect();
            order.push(OrderAnswer {
                name: Name(sides[step.side].name.clone()),
                conflicts_with_landed: names(step.conflicts_with_landed),
                instead_of: names(step.instead_of),
                not_yet: (rank(step.side) >= LAST).then(|| not_yet(&answers[members[step.side]])),
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

/// Why it does not land before the others, whatever it meets.
fn not_yet(a: &AgentReport) -> String {
    let said = |t: &TestsReport| match t.newly_failing.len() {
        0 => "breaks the tests".to_owned(),
        n => format!("breaks {}", count(n, "test")),
    };
    match (a.state, &a.tests) {
        (Some(state), Some(t)) if a.breaks && state == RunState::Succeeded => said(t),
        (Some(state), _) => state.word().to_owned(),
        (None, tests) => tests.as_ref().map(said).unwrap_or_default(),
    }
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
