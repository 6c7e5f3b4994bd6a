//! Registrations that cannot be read: what is wrong with them, and how they are written anew from what else tells of
//! their agent: the task object, the token in the worktree, the branch, the journal. What is still sound is kept.

use super::{Context, Error, Result, identity};
use crate::git::state::{Held, Registration};
use crate::git::{refs, worktree};
use crate::model::agent::{AgentId, Name, Oid};
use crate::model::event::Kind;
use crate::model::task::Task;
use crate::model::text::{safe_line, shell_word};
use crate::runtime::files;
use std::collections::BTreeSet;

/// What is wrong with the registration of `name`, in words.
pub fn damage(ctx: &Context, name: &str) -> Result<String> {
    let values = ctx.state.registration_values(name)?;
    let get = |k: &str| values.iter().rev().find(|(key, _)| key == k).map(|(_, v)| v.as_str());
    let good = |key: &str, v: &str| match key {
        "id" | "fork" => Oid::parse(v).is_some(),
        "branch" => v.starts_with("refs/heads/"),
        _ => true,
    };
    let wrong = ["id", "branch", "base", "fork"].into_iter().filter_map(|key| match get(key) {
        None => Some(format!("'{key}' is missing")),
        Some(v) if !good(key, v) => Some(format!("'{key}' is '{}'", safe_line(v.as_bytes()))),
        Some(_) => None,
    });
    let mut wrong: Vec<String> = wrong.collect();
    let all = ctx.state.registrations()?.0;
    if let Some(reg) = all.iter().find(|r| r.name.0 == name)
        && let Some(owner) = identity::owner_of_named(ctx, reg, &all)
    {
        wrong.push(format!("'worktree' names that of '{}'", owner.name));
    }
    Ok(wrong.join(", "))
}

/// The refusal of every command that is given a name whose registration is damaged.
pub fn refusal(ctx: &Context, name: &str) -> Error {
    let why = damage(ctx, name).map(|w| format!(": {w}")).unwrap_or_default();
    Error::refused(
        format!("the registration of '{}' is damaged{why}", safe_line(name.as_bytes())),
        format!("git agents adopt {}", shell_word(name)),
    )
}

/// Writes the registration of `name` anew.
pub fn rebuild(ctx: &Context, held: &Held, name: &str) -> Result<Registration> {
    let values = ctx.state.registration_values(name)?;
    let get = |k: &str| values.iter().rev().find(|(key, _)| key == k).map(|(_, v)| v.clone());
    let registered = ctx.state.registrations()?.0.into_iter();
    let others: BTreeSet<AgentId> = registered.filter(|r| r.name.0 != name).map(|r| r.id).collect();
    let entries = worktree::list(ctx.repo())?;
    let token = |e: &worktree::Entry| {
        let bytes = files::read_limited(&e.admin.join("agents-token"), 256).ok()??;
        Some(AgentId(Oid::parse(String::from_utf8_lossy(&bytes).trim())?.0))
    };
    let task = |id: AgentId| {
        let found = ctx.state.task(&id).ok().filter(|t| t.name.0 == name && !others.contains(&id));
        found.map(|t| (id, t))
    };
    // What was registered, then whose worktree says so, then the newest task of that name.
    let known = get("id").and_then(|i| task(AgentId(Oid::parse(&i)?.0)));
    let known = known.or_else(|| {
        let named = entries.iter().filter(|e| get("worktree").as_deref() == Some(e.id.as_str()));
        named.chain(&entries).filter_map(&token).find_map(&task)
    });
    let known = match known {
        Some(k) => Some(k),
        None => newest(ctx, name, &others)?,
    };
    let Some((id, task)) = known else {
        let section = shell_word(&format!("agent.{name}")).into_owned();
        return Err(Error::refused(
            format!("the registration of '{name}' is damaged, and nothing else tells of that agent"),
            format!("'git config --remove-section {section}' takes it away; branches and worktrees stay as they are"),
        ));
    };
    let entry = entries.iter().find(|e| token(e).as_ref() == Some(&id));
    let journal = ctx.state.journal_of(&id)?;
    let renamed = journal.last(&Kind::Renamed).and_then(|e| e.text("to")).map(str::to_owned);
    let rebased = journal.all(&Kind::Synced).filter_map(|e| e.text("base")).last().map(str::to_owned);
    let head = entry.and_then(|e| match &e.head {
        worktree::Head::Branch(b) => Some(b.clone()),
        _ => None,
    });
    let there = |b: &String| b.starts_with("refs/heads/") && refs::read(ctx.repo(), b).is_ok_and(|r| r.is_some());
    let branches = [get("branch"), renamed, Some(task.branch.clone()), head];
    let branch = branches.into_iter().flatten().find(there).unwrap_or_else(|| task.branch.clone());
    let own = journal.last(&Kind::Commit).is_some();
    let has = |o: &Oid| ctx.state.objects.has(o);
    let reg = Registration {
        name: Name(name.to_owned()),
        base: get("base").or(rebased).unwrap_or_else(|| task.base.clone()),
        fork: get("fork").and_then(|f| Oid::parse(&f)).filter(has).unwrap_or_else(|| task.base_commit.clone()),
        ahead: match get("ahead").and_then(|a| Oid::parse(&a)).filter(has) {
            None if own => refs::read(ctx.repo(), &branch)?,
            known => known,
        },
        worktree: entry.map(|e| e.id.clone()),
        doing: get("doing"),
        path: get("path").map(std::path::PathBuf::from),
        branch,
        id,
    };
    ctx.state.register(held, &reg)?;
    Ok(reg)
}

/// The newest task called `name` that nobody is registered for and that was not removed.
fn newest(ctx: &Context, name: &str, others: &BTreeSet<AgentId>) -> Result<Option<(AgentId, Task)>> {
    let journal = ctx.state.journal()?;
    let is_removed = |id: &AgentId| {
        let last = |k: &Kind| journal.get(id).and_then(|j| j.last(k)).map(|e| e.at.clone());
        last(&Kind::Removed) > last(&Kind::Restored)
    };
    let tasks = ctx.state.tasks()?.into_iter();
    let named = tasks.filter(|(id, t)| t.name.0 == name && !others.contains(id) && !is_removed(id));
    Ok(named.max_by(|a, b| a.1.created.cmp(&b.1.created)))
}
