//! What every command that takes the repository's lock does first: brings what a kill left to one side or the other.

use super::record::{RunDir, to_event};
use super::remove::{self, entries};
use super::{Context, Error, Result, restore, sync, unfinished};
use crate::git::state::{Held, Registration, event};
use crate::git::{refs, sterile, worktree};
use crate::model::agent::Name;
use crate::model::event::{Event, Kind};
use crate::runtime::files;
use serde_json::json;

/// What could not be repaired now: agents, and why.
#[derive(Debug, Default)]
#[must_use]
pub struct Stuck(Vec<(Name, Error)>);

impl Stuck {
    /// An error where `name` is one of them: nothing new is begun on top of half a step.
    pub fn check(self, name: &str) -> Result<()> {
        match self.0.into_iter().find(|(n, _)| n.0 == name) {
            None => Ok(()),
            Some((_, e)) => Err(Error::Refused {
                what: format!("what was begun with '{name}' cannot be brought to its end: {e}"),
                hint: e.hint(),
            }),
        }
    }
}

/// Repairs; whatever cannot be repaired stays as it is, shows in `status`, and is in no other agent's way.
pub fn repair(ctx: &Context, held: &Held) -> Result<Stuck> {
    let mut stuck = Stuck::default();
    for r in ctx.state.registrations()?.0 {
        let done = match r.doing.as_deref() {
            Some("remove") => finish_removal(ctx, held, &r),
            Some("restore") => finish_restoring(ctx, held, &r),
            Some(super::land::intent::DOING) => super::land::intent::heal(ctx, held, &r),
            _ if sync::is_under_way(&r) => sync::finish_cut_short(ctx, held, &r),
            _ => Ok(()),
        };
        if let Err(e) = done {
            tracing::warn!(name = %r.name, error = %e, "not repaired");
            stuck.0.push((r.name.clone(), e));
        }
    }
    let (registrations, _) = ctx.state.registrations()?;
    let branches = refs::list(ctx.repo(), &["refs/heads/"])?;
    let journal = ctx.state.journal()?;
    let mut missing: Vec<Event> = Vec::new();
    for r in &registrations {
        // The exit record is written before the event; the machine may have died in between.
        let run = RunDir::of(&ctx.state, &r.id);
        if let Some(exit) = run.exit()
            && let Some(id) = &exit.event
            && !journal.get(&r.id).is_some_and(|j| j.events.iter().any(|e| e.id == *id))
        {
            missing.push(to_event(&r.id, &exit, json!({})));
        }
        // Registered, but the journal is gone or never heard of it.
        if journal.get(&r.id).is_none() {
            missing.push(event(
                &r.id,
                Kind::Created,
                json!({ "name": r.name, "branch": r.branch, "base": r.base, "base_commit": r.fork }),
            ));
        }
        // `git branch -m` in its worktree.
        if r.doing.is_none()
            && !branches.contains_key(&r.branch)
            && let Some(entry) = super::identity::entry_of(ctx, r)?
            && let worktree::Head::Branch(now) = &entry.head
            && *now != r.branch
            && branches.contains_key(now)
        {
            missing.push(event(&r.id, Kind::Renamed, json!({ "from": r.branch, "to": now })));
            let mut renamed = r.clone();
            renamed.branch.clone_from(now);
            ctx.state.register(held, &renamed)?;
        }
    }
    if !missing.is_empty() {
        ctx.state.append(held, &missing)?;
    }
    super::scratch::heal(ctx, held);
    sterile::heal(ctx.repo());
    heal_temporaries(ctx);
    drop_empty_trash(ctx);
    Ok(stuck)
}

/// Temporary files that killed writers left in our folders.
fn heal_temporaries(ctx: &Context) {
    let agents = ctx.repo().agents_dir();
    for top in [agents.join("run"), ctx.repo().common_dir.join("worktrees")] {
        for e in std::fs::read_dir(top).into_iter().flatten().filter_map(std::result::Result::ok) {
            files::heal(&e.path());
        }
    }
    super::trash::folders(ctx).iter().for_each(|dir| files::heal(dir));
    for dir in ["slots", "cache", "run", "landing"] {
        files::heal(&agents.join(dir));
    }
}

/// Repairs only where a removal, its taking back or a sync was cut short: for commands that look at names and places before they
/// take the lock for good.
pub fn if_needed(ctx: &Context) -> Result<()> {
    let cut_short = |r: &Registration| {
        matches!(r.doing.as_deref(), Some("remove" | "restore" | super::land::intent::DOING)) || sync::is_under_way(r)
    };
    if ctx.state.registrations()?.0.iter().any(cut_short) {
        let held = ctx.state.lock()?;
        let _ = repair(ctx, &held)?;
    }
    Ok(())
}

fn finish_restoring(ctx: &Context, held: &Held, r: &Registration) -> Result<()> {
    if let Some((dir, entry)) = entries(ctx).into_iter().rev().find(|(_, e)| e.id == r.id) {
        unfinished::heal_locks(ctx, r)?;
        return restore::finish(ctx, held, r.clone(), &dir, &entry);
    }
    Ok(ctx.state.register(held, &Registration { doing: None, path: None, ..r.clone() })?)
}

fn finish_removal(ctx: &Context, held: &Held, r: &Registration) -> Result<()> {
    let found = entries(ctx).into_iter().rev().find(|(_, e)| e.id == r.id && !e.complete);
    if let Some((dir, mut entry)) = found {
        let tree_moved = entry.stands
            || entry.missing
            || entry.tree_in(&dir).symlink_metadata().is_ok()
            || entry.path.as_ref().is_none_or(|p| p.symlink_metadata().is_err());
        if tree_moved {
            unfinished::heal_locks(ctx, r)?;
            return remove::finish(ctx, held, r, &dir, &mut entry).map(drop);
        }
        remove::drop_entry(&dir)?;
    } else if let Some((dir, mut entry)) = entries(ctx).into_iter().rev().find(|(_, e)| e.id == r.id && e.complete) {
        // Everything but the event and the registration was done.
        if super::identity::entry_of(ctx, r)?.is_none() {
            return remove::finish(ctx, held, r, &dir, &mut entry).map(drop);
        }
    }
    let mut back = r.clone();
    back.doing = None;
    ctx.state.register(held, &back)?;
    if let Some(e) = super::identity::entry_of(ctx, r)? {
        worktree::unlock(&e, |reason| {
            super::identity::parse_lock_reason(reason).is_some_and(|(id, owner)| id == r.id && !owner.is_alive())
        })?;
    }
    Ok(())
}

/// A folder of the trash without an entry is what a kill left of making one; one that cannot go is in nobody's way.
fn drop_empty_trash(ctx: &Context) {
    for dir in super::trash::folders(ctx) {
        if !dir.join("entry.json").exists()
            && let Err(error) = remove::drop_entry(&dir)
        {
            tracing::debug!(%error, "it stays in the trash");
        }
    }
}
