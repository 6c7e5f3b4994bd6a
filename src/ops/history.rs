//! Every agent there ever was, from task objects and the journal. They say what became of one; they permit nothing.

use super::record::{self, RunDir, stand};
use super::{Context, Result};
use crate::git::refs;
use crate::model::agent::{AgentId, Name, Oid, Origin, RunState};
use crate::model::event::{Journal, Kind};
use crate::model::task::{Task, short_ref};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where an agent is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Became {
    /// Registered.
    Here,
    /// Removed, or given up when it had been adopted.
    Removed,
    /// Nobody knows: no registration, and no word of its removal.
    Gone,
}

/// Where its work landed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LandedIn {
    /// The branch.
    pub base: String,
    /// As which commit; `null` where somebody else brought it in: all its commits are on the base.
    pub commit: Option<Oid>,
    /// When; `null` likewise.
    pub at: Option<String>,
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of history fields")]
pub struct PastAgent {
    pub name: Name,
    pub id: AgentId,
    pub title: String,
    pub origin: Origin,
    pub batch: Option<u64>,
    pub number: Option<u32>,
    pub group: Option<String>,
    pub assistant: Option<String>,
    pub model: Option<String>,
    pub branch: String,
    pub base: String,
    pub created: String,
    /// How its run ended, or where it stands; `null` where no assistant was ever started.
    pub state: Option<RunState>,
    pub reason: Option<String>,
    pub attempts: u32,
    /// Commits of its own that were noted.
    pub commits: usize,
    pub cost_usd: Option<f64>,
    pub tokens: Option<u64>,
    pub tip: Option<Oid>,
    pub became: Became,
    pub landed: Option<LandedIn>,
    /// When it was removed; `null` where it is not.
    pub removed: Option<String>,
    /// When it was last brought back.
    pub restored: Option<String>,
}

/// `history --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct History {
    /// Of this format.
    pub version: u32,
    /// Newest first.
    pub agents: Vec<PastAgent>,
}

/// All of them, newest first.
pub fn history(ctx: &Context) -> Result<History> {
    let tasks = ctx.state.tasks()?;
    let (journals, nothing) = (ctx.state.journal()?, Journal::default());
    let registered: HashMap<AgentId, (Name, String)> =
        ctx.state.registrations()?.0.into_iter().map(|r| (r.id, (r.name, r.branch))).collect();
    let branches = refs::list(ctx.repo(), &["refs/heads/", "refs/remotes/"])?;
    let mut agents = Vec::with_capacity(tasks.len());
    for (id, task) in tasks {
        let journal = journals.get(&id).unwrap_or(&nothing);
        let here = registered.get(&id);
        let mut a = told(id, &task, journal);
        if let Some((name, branch)) = here {
            let run = RunDir::of(&ctx.state, &a.id);
            let now = stand(&run, || Some(journal), task.assistant.is_some())?;
            a.became = Became::Here;
            a.removed = None;
            a.name = name.clone();
            a.branch = short_ref(branch).to_owned();
            a.tip = branches.get(branch).cloned().or(a.tip);
            if let Some(r) = now {
                (a.state, a.reason, a.attempts) = (Some(r.state), r.reason, r.attempt);
                (a.cost_usd, a.tokens) = (r.cost_usd, r.tokens);
            }
        }
        agents.push((task.base, a));
    }
    landed(ctx, &branches, &mut agents)?;
    let mut agents: Vec<PastAgent> = agents.into_iter().map(|(_, a)| a).collect();
    agents.sort_by(|a, b| (&b.created, b.batch, b.number, &b.name.0).cmp(&(&a.created, a.batch, a.number, &a.name.0)));
    Ok(History { version: 1, agents })
}

/// What the journal tells of one.
fn told(id: AgentId, task: &Task, journal: &Journal) -> PastAgent {
    let end = journal.last(&Kind::Exited).and_then(record::from_event);
    let at = |kind: &Kind| journal.last(kind).map(|e| e.at.clone());
    let (removed, restored) = (at(&Kind::Removed), at(&Kind::Restored));
    let removed = removed.filter(|r| restored.as_ref().is_none_or(|back| back < r));
    let landed = journal.last(&Kind::Landed).map(|e| LandedIn {
        base: short_ref(e.text("base").unwrap_or(&task.base)).to_owned(),
        commit: e.text("commit").and_then(Oid::parse),
        at: Some(e.at.clone()),
    });
    let tip = [Kind::Removed, Kind::Exited].iter().find_map(|k| Oid::parse(journal.last(k)?.text("tip")?));
    PastAgent {
        name: task.name.clone(),
        id,
        title: task.title.clone(),
        origin: task.origin,
        batch: task.batch,
        number: task.number,
        group: task.group.clone(),
        assistant: end.as_ref().and_then(|e| e.assistant.clone()).or_else(|| task.assistant.clone()),
        model: task.model.clone(),
        branch: task.branch_short().to_owned(),
        base: task.base_short().to_owned(),
        created: task.created.clone(),
        state: end.as_ref().map(|e| e.state),
        reason: end.as_ref().and_then(|e| e.reason.clone()),
        attempts: end.as_ref().map_or(0, |e| e.attempt),
        commits: journal.all(&Kind::Commit).count(),
        cost_usd: end.as_ref().and_then(|e| e.cost_usd),
        tokens: end.as_ref().and_then(|e| e.tokens),
        tip,
        became: if removed.is_some() { Became::Removed } else { Became::Gone },
        landed,
        removed,
        restored,
    }
}

/// What nobody noted: a tip with work of its own that the base has by now, in one walk for each base.
fn landed(ctx: &Context, branches: &BTreeMap<String, Oid>, agents: &mut [(String, PastAgent)]) -> Result<()> {
    let objects = &ctx.state.objects;
    let open = |a: &PastAgent| a.landed.is_none() && a.commits > 0;
    let bases: BTreeSet<String> = agents.iter().filter(|(_, a)| open(a)).map(|(base, _)| base.clone()).collect();
    for base in bases {
        let Some(at) = branches.get(&base) else { continue };
        let there = |a: &PastAgent| a.tip.clone().filter(|t| objects.has(t));
        let tips: Vec<Oid> =
            agents.iter().filter(|(b, a)| *b == base && open(a)).filter_map(|(_, a)| there(a)).collect();
        let beyond: BTreeSet<Oid> = objects.unreachable(&tips, std::slice::from_ref(at))?.into_iter().collect();
        let known: BTreeSet<&Oid> = tips.iter().filter(|t| !beyond.contains(*t)).collect();
        for (_, a) in agents.iter_mut().filter(|(b, a)| *b == base && open(a)) {
            if a.tip.as_ref().is_some_and(|t| known.contains(t)) {
                a.landed = Some(LandedIn { base: short_ref(&base).to_owned(), commit: None, at: None });
            }
        }
    }
    Ok(())
}
