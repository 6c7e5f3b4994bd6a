//! Captures of an agent's worktree while it works: at intervals, and before what may be the end of it.

use super::{Agent, say};
use crate::git::{capture, refs, worktree};
use crate::model::agent::Oid;
use crate::ops::{Result, identity};
use crate::runtime::clock;
use serde_json::json;

/// So many are kept of one agent.
const KEPT: usize = 5;

/// A capture of the worktree as it is, among the last five.
pub fn take(agent: &Agent, why: &str) {
    if let Err(e) = try_take(agent, why) {
        say(&format!("warning: no capture: {e}"));
    }
}

fn try_take(agent: &Agent, why: &str) -> Result<()> {
    let Some(entry) = identity::entry_of(&agent.ctx, &agent.reg)? else { return Ok(()) };
    if entry.link() != worktree::Link::Good {
        return Ok(());
    }
    let prefix = format!("refs/agents/auto/{}/", agent.reg.id);
    let there = refs::list(agent.ctx.repo(), &[&prefix])?;
    let number = |name: &str| name.rsplit('/').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let next = there.keys().map(|n| number(n)).max().unwrap_or(0) + 1;
    let head = match &entry.head {
        worktree::Head::Branch(b) => refs::read(agent.ctx.repo(), b)?,
        worktree::Head::Detached(id) => Some(id.clone()),
        worktree::Head::Unknown => None,
    };
    let reference = format!("{prefix}{next}");
    let about = json!({ "agent": agent.reg.id, "name": agent.reg.name, "branch": agent.reg.branch, "why": why, "at": clock::now() });
    let options = capture::Options { reference: &reference, about, max_file: agent.plan.capture_max_file, also: &[] };
    capture::take(agent.ctx.repo(), &agent.ctx.state.objects, &entry, head.as_ref(), &options)?;
    let mut old: Vec<(u64, &String, &Oid)> = there.iter().map(|(n, id)| (number(n), n, id)).collect();
    old.sort();
    let surplus = (old.len() + 1).saturating_sub(KEPT);
    for (_, name, id) in old.into_iter().take(surplus) {
        refs::delete(agent.ctx.repo(), name, id)?;
    }
    Ok(())
}
