//! When a base has moved: what has landed goes, if that was asked for, and what fell behind is said, once for each tip.
//!
//! Called by the hook's worker and by every command that writes, because `reset`, `fetch` and `pull --rebase` call no
//! hook. What the worker has to say waits in a file for the next command. All files here are expendable: without them a
//! line is said once more.

use super::inventory::{Agent, Inventory, head_commit};
use super::overlap::{Look, Round};
use super::{Context, Result, clean, executable, landed, sync};
use crate::config::Flags;
use crate::git::status::Place;
use crate::git::worktree::Link;
use crate::model::agent::Oid;
use crate::model::hook_file::{Event, Found};
use crate::model::overlap::{Level, SideKind};
use crate::model::task::short_ref;
use crate::runtime::{files, lock::Lock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Brings those who are behind on the base, and says why not.
const NEXT: &str = "git agents sync --all";
/// Lines that wait at most.
const WAITING: usize = 20;

/// Whether the repository has an agent, as cheaply as that can be told: one file is read, no git is started.
pub fn has_agents(common_dir: &Path) -> bool {
    let text = std::fs::read(common_dir.join("config")).unwrap_or_default();
    text.split(|b| *b == b'\n').any(|l| l.trim_ascii_start().starts_with(b"[agent \""))
}

/// Whether our hooks stand in the repository's own folder: then whoever uses it wants what has landed to go by itself.
pub fn has_hooks(common_dir: &Path) -> bool {
    let text = std::fs::read(common_dir.join("hooks").join(Event::Merge.word())).unwrap_or_default();
    matches!(Found::of(Event::Merge, &text), Found::Ours | Found::Block | Found::OldBlock)
}

fn folder(common_dir: &Path) -> PathBuf {
    common_dir.join("agents").join("run")
}

/// The bases' tips that were looked at last.
fn seen(ctx: &Context) -> BTreeMap<String, Oid> {
    let bytes = files::read_limited(&folder(&ctx.repo().common_dir).join("bases.json"), 1 << 20).ok().flatten();
    bytes.and_then(|b| serde_json::from_slice(&b).ok()).unwrap_or_default()
}

/// Whether a base is not where it was at the last look.
pub fn has_moved(ctx: &Context) -> bool {
    let seen = seen(ctx);
    tips(ctx).iter().any(|(base, now)| now.as_ref() != seen.get(base))
}

/// Where the bases are now.
fn tips(ctx: &Context) -> BTreeMap<String, Option<Oid>> {
    let all = ctx.state.registrations().map(|(all, _)| all).unwrap_or_default();
    let tip = |base: String| Some((base.clone(), crate::git::refs::read(ctx.repo(), &base).ok()?));
    all.into_iter().filter_map(|r| tip(r.base)).collect()
}

/// One line for each base that has moved since the last look and left somebody behind. Looks at no tip twice.
pub fn remind(ctx: &Context, limit: Duration) -> Result<Vec<String>> {
    if !ctx.settings(&Flags::default()).map_or(true, |l| l.settings.remind) {
        return Ok(Vec::new());
    }
    if !has_moved(ctx) {
        return Ok(Vec::new());
    }
    let seen = seen(ctx);
    let inv = Inventory::read(ctx)?;
    let mut bases: BTreeMap<String, (Oid, Vec<&Agent>)> = BTreeMap::new();
    for a in &inv.agents {
        if let Some(tip) = inv.refs.get(&a.reg.base) {
            bases.entry(a.reg.base.clone()).or_insert_with(|| (tip.clone(), Vec::new())).1.push(a);
        }
    }
    let now: BTreeMap<String, Oid> = bases.iter().map(|(name, (tip, _))| (name.clone(), tip.clone())).collect();
    if now == seen {
        return Ok(Vec::new());
    }
    bases.retain(|name, (tip, _)| seen.get(name) != Some(tip));
    let mut lines = Vec::new();
    for (name, (tip, agents)) in &bases {
        let landed = landed::all(ctx, &inv, agents)?;
        let is_behind = |a: &&Agent| {
            a.tip.as_ref().is_some_and(|t| t != tip && ctx.state.objects.is_ancestor(tip, t).is_ok_and(|in_it| !in_it))
        };
        let open = agents.iter().copied().zip(landed).filter(|(_, landed)| landed.commit().is_none()).map(|(a, _)| a);
        let behind: Vec<&Agent> = open.filter(is_behind).collect();
        if !behind.is_empty() {
            lines.push(line(short_ref(name), &behind, would_conflict(ctx, &inv, tip, &behind, limit)));
        }
    }
    // Said before it is recorded: a line twice is better than none.
    ctx.state.ensure_dirs()?;
    let text = serde_json::to_vec(&now).unwrap_or_default();
    files::write_atomic(&folder(&ctx.repo().common_dir).join("bases.json"), &text)?;
    Ok(lines)
}

/// The names of those that would conflict, and how many are unknown; `None` where nothing could be compared.
fn would_conflict(
    ctx: &Context,
    inv: &Inventory,
    base: &Oid,
    agents: &[&Agent],
    limit: Duration,
) -> Option<(Vec<String>, usize)> {
    let round = Round::begin_within(ctx, limit).ok()?;
    let head = |a: &&Agent| head_commit(inv, &a.entry.as_ref()?.head).1;
    let heads: Vec<Option<Oid>> = agents.iter().map(head).collect();
    let look = |(a, head): (&&Agent, &'_ Option<Oid>)| {
        let entry = a.entry.as_ref().filter(|e| e.link() == Link::Good);
        (a.reg.name.0.clone(), a.tip.clone(), entry.cloned(), head.clone())
    };
    let found: Vec<_> = agents.iter().zip(&heads).map(look).collect();
    let looks: Vec<Look<'_>> = found
        .iter()
        .map(|(name, tip, entry, head)| Look {
            name: name.clone(),
            kind: SideKind::Agent,
            group: None,
            after: Vec::new(),
            tip: tip.clone(),
            place: entry.as_ref().map(|e| Place { worktree: &e.path, admin: &e.admin, head: head.as_ref() }),
        })
        .collect();
    let sides = round.sides(&looks);
    let pairs = round.with_base(base, &sides);
    let names = pairs.iter().filter(|p| p.level == Some(Level::Conflict)).map(|p| sides[p.a].name.clone()).collect();
    Some((names, pairs.iter().filter(|p| p.level.is_none()).count()))
}

fn line(base: &str, behind: &[&Agent], conflicts: Option<(Vec<String>, usize)>) -> String {
    let some = |n: usize| if n == 1 { "1 agent is".to_owned() } else { format!("{n} agents are") };
    let mut out = format!("'{base}' moved: {} behind", some(behind.len()));
    if let Some((names, unknown)) = conflicts {
        out += &match names.len() {
            0 if unknown == 0 => ", none would conflict with it now".to_owned(),
            0 => String::new(),
            n => {
                let shown = names.iter().take(3).map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
                format!(", {n} would conflict with it now ({shown}{})", if n > 3 { ", …" } else { "" })
            }
        };
        if unknown > 0 {
            out += &format!(", {unknown} could not be compared");
        }
    }
    format!("{out}; {NEXT}")
}

/// Rebases whoever is idle on the base as it is now, where that was asked for once and for all. A line for each.
fn follow(ctx: &Context) -> Result<Vec<String>> {
    let loaded = ctx.settings(&Flags::default())?;
    if !loaded.settings.auto_sync || ctx.state.lock_trouble().is_some() {
        return Ok(Vec::new());
    }
    let approved = super::plan::approved(ctx, &loaded.project).map(|p| p.throw_away().to_vec()).unwrap_or_default();
    let options = sync::Options {
        unasked: true,
        throw_away: [loaded.settings.throw_away, approved].concat(),
        capture_max_file: loaded.settings.capture_max_file,
        ..sync::Options::default()
    };
    let inv = Inventory::read(ctx)?;
    let names = sync::order(&inv, inv.agents.iter().map(|a| a.reg.name.0.clone()).collect());
    let mut lines = Vec::new();
    for name in names {
        match sync::sync(ctx, &name, &options) {
            Ok(sync::Outcome::Synced(s)) => {
                let undo = s.undo.map(|u| format!("; undo: {u}")).unwrap_or_default();
                lines.push(format!("'{name}' was rebased on '{}' by itself{undo}", s.on));
            }
            Ok(sync::Outcome::Failed(kept)) => lines.push(kept.why),
            Ok(_) => {}
            Err(e) => tracing::debug!(name, error = %e, "not synced"),
        }
    }
    Ok(lines)
}

/// Keeps lines for the next command to show.
fn leave(common_dir: &Path, lines: &[String]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let path = folder(common_dir).join("notices");
    let before = files::read_limited(&path, 1 << 16)?.unwrap_or_default();
    let before = String::from_utf8_lossy(&before).into_owned();
    let mut all: Vec<&str> = before.lines().chain(lines.iter().map(String::as_str)).collect();
    all.drain(..all.len().saturating_sub(WAITING));
    Ok(files::write_atomic(&path, (all.join("\n") + "\n").as_bytes())?)
}

/// Takes the lines that wait; each is given to one caller alone.
pub fn waiting(common_dir: &Path) -> Vec<String> {
    let path = folder(common_dir).join("notices");
    let mine = files::temporary_beside(&path);
    if std::fs::rename(&path, &mine).is_err() {
        return Vec::new();
    }
    let text = files::read_limited(&mine, 1 << 16).ok().flatten().unwrap_or_default();
    let _ = std::fs::remove_file(&mine);
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

/// The hook's worker: one at a time in a repository. Who finds it busy leaves a mark, and it looks once more.
pub fn work(ctx: &Context) -> Result<()> {
    ctx.state.ensure_dirs()?;
    let dir = folder(&ctx.repo().common_dir);
    let mark = dir.join("look-again");
    files::write_atomic(&mark, b"")?;
    while mark.exists() {
        let Some(lock) = Lock::try_take(&dir.join("worker.lock"))? else { return Ok(()) };
        while std::fs::remove_file(&mark).is_ok() {
            let before = tips(ctx);
            let changed = executable::changed(ctx)?;
            let mut lines = Vec::new();
            if changed.is_empty() {
                let done = clean::pass(ctx, &clean::How { by_itself: true, ..clean::How::default() });
                lines = done.map(|d| d.lines()).unwrap_or_default();
                lines.extend(follow(ctx).unwrap_or_default());
            } else {
                // Nothing is done in the user's name by a git that does something else than he knows.
                let words = executable::words(&changed);
                lines.push(format!("warning: {words}; nothing is tidied up before 'git agents doctor --accept'"));
            }
            if tips(ctx).iter().all(|(base, now)| before.get(base) == Some(now)) {
                lines.extend(remind(ctx, Duration::from_secs(30)).unwrap_or_default());
            } else {
                // Whom to remind is known once they have been followed.
                files::write_atomic(&mark, b"")?;
            }
            leave(&ctx.repo().common_dir, &lines)?;
        }
        lock.remove();
    }
    Ok(())
}
