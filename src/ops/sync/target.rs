//! What an agent is to sit on: where its base is now; for one that was begun on top of another, where that is now.

use super::{Kept, Options};
use crate::git::merge::{self, Merge};
use crate::git::refs;
use crate::model::agent::{AgentId, Oid};
use crate::model::event::Kind;
use crate::model::task::short_ref;
use crate::ops::inventory::{Agent, Inventory};
use crate::ops::{Context, Result, base, landed};

/// Where to.
#[derive(Debug)]
pub(super) struct Target {
    /// The commit.
    pub(super) onto: Oid,
    /// Its name, for people and for git.
    pub(super) on: String,
    /// What was decided that the user did not say.
    pub(super) note: Option<String>,
}

/// Where `a` is to sit, or why that is not decided here.
pub(super) fn of(
    ctx: &Context,
    inv: &Inventory,
    a: &Agent,
    options: &Options,
) -> Result<std::result::Result<Target, Kept>> {
    let (name, onto) = (&a.reg.name, options.onto.as_ref());
    let base = match of_base(ctx, inv, a, onto)? {
        Ok(base) => base,
        Err(kept) => return Ok(Err(kept)),
    };
    let mut open: Vec<&Agent> = Vec::new();
    for id in &a.task.after {
        match inv.agents.iter().find(|p| p.reg.id == *id) {
            Some(p) if is_noted(inv, id) || landed::all(ctx, inv, &[p])?.iter().any(|l| l.commit().is_some()) => {}
            Some(p) => open.push(p),
            // Whoever names a base has decided.
            None if options.base.is_some() => {}
            None if has_landed(ctx, inv, a, id, &base.onto)? => {}
            None => {
                let parent = ctx.state.task(id).map_or_else(|_| id.short().to_owned(), |t| t.name.0);
                let why = format!("'{name}' comes after '{parent}', which was removed before it landed");
                return Ok(Err(Kept::new(why, format!("git agents restore {parent}"))));
            }
        }
    }
    let parent = match open.as_slice() {
        [] => return Ok(Ok(base)),
        [parent] => *parent,
        many => {
            let names: Vec<String> = many.iter().map(|p| format!("'{}'", p.reg.name)).collect();
            let why = format!("'{name}' comes after {}, of which more than one has not landed", names.join(" and "));
            return Ok(Err(Kept::new(why, "land all but one of them first")));
        }
    };
    let (other, typed) = (&parent.reg.name, parent.reg.name.typed());
    if onto.is_some() || options.base.is_some() {
        let why = format!("'{name}' comes after '{other}', which has not landed");
        return Ok(Err(Kept::new(why, format!("land '{other}' first"))));
    }
    let Some(tip) = &parent.tip else {
        let why = format!("the branch of '{other}', which '{name}' comes after, is gone");
        return Ok(Err(Kept::new(why, format!("git agents show {typed}"))));
    };
    if parent.run.is_alive()? {
        let why = format!("'{other}', which '{name}' comes after, is running");
        return Ok(Err(Kept::new(why, format!("'git agents wait {typed}', then try again"))));
    }
    // What landed meanwhile is below it only when the parent has it too.
    if a.task.after.len() > 1 && !ctx.state.objects.is_ancestor(&base.onto, tip)? {
        let why = format!("'{other}', which '{name}' comes after, is behind '{}'", base.on);
        return Ok(Err(Kept::new(why, format!("git agents sync {typed}"))));
    }
    Ok(Ok(Target { onto: tip.clone(), on: short_ref(&parent.reg.branch).to_owned(), note: None }))
}

/// What gives an agent whose base is gone another one.
pub(in crate::ops) fn another(a: &Agent) -> String {
    format!("'git agents sync --onto BASE {}' gives it another base", a.reg.name.typed())
}

fn of_base(ctx: &Context, inv: &Inventory, a: &Agent, onto: Option<&Oid>) -> Result<std::result::Result<Target, Kept>> {
    let on = short_ref(&a.reg.base).to_owned();
    if let Some(onto) = onto {
        return Ok(Ok(Target { onto: onto.clone(), on, note: None }));
    }
    let Some(tip) = inv.base_tip(a).or(refs::resolve_commit(ctx.repo(), &a.reg.base)?) else {
        let why = format!("'{on}', the base of '{}', is gone", a.reg.name);
        return Ok(Err(Kept::new(why, another(a))));
    };
    if a.reg.base.starts_with("refs/heads/")
        && let Some((upstream, ahead)) = base::upstream_ahead(ctx, &a.reg.base, &tip)?
    {
        let upstream = short_ref(&upstream).to_owned();
        let note = format!("'{on}' is behind '{upstream}'; '{}' goes on the latter", a.reg.name);
        return Ok(Ok(Target { onto: ahead, on: upstream, note: Some(note) }));
    }
    Ok(Ok(Target { onto: tip, on, note: None }))
}

/// Whether the work of a parent that is no longer there is in the base: it was said, or what `a` was begun on adds nothing.
fn has_landed(ctx: &Context, inv: &Inventory, a: &Agent, parent: &AgentId, base: &Oid) -> Result<bool> {
    if is_noted(inv, parent) || ctx.state.objects.is_ancestor(&a.reg.fork, base)? {
        return Ok(true);
    }
    let merged = merge::once(ctx.repo(), Some(base), &[(base.clone(), a.reg.fork.clone())])?;
    let tree = ctx.state.objects.commit(base)?.map(|c| c.tree);
    Ok(matches!((merged.first(), tree), (Some(Merge::Clean(m)), Some(tree)) if *m == tree))
}

fn is_noted(inv: &Inventory, id: &AgentId) -> bool {
    inv.journal.get(id).is_some_and(|j| j.last(&Kind::Landed).is_some())
}
