//! What has no reason to be there any more goes; of the rest it is said why it stays.
//!
//! One pass for the command, the hook's worker and `land`. It judges everybody from one reading, and each that may go is
//! judged once more under the repository's lock and again right before it is moved.

use super::answer::JsonPath;
use super::inventory::{Agent, Inventory, head_commit, in_parallel};
use super::landed::{self, Landing};
use super::safe::{self, Facts};
use super::{Context, Result, expire, moved, plan, remove, repair};
use crate::config::Flags;
use crate::git::status::Place;
use crate::git::worktree::Link;
use crate::model::agent::Zombie;
use crate::model::task::short_ref;
use crate::model::text::shell_word;
use crate::runtime::{clock, files, process};
use schemars::JsonSchema;
use serde::Serialize;

/// How to go about it.
#[derive(Debug, Clone, Default)]
pub struct How {
    /// Only say what would happen.
    pub dry_run: bool,
    /// Only these.
    pub only: Option<Vec<String>>,
    /// Everybody that stays is looked at too, to say why.
    pub explain: bool,
    /// Nobody asked: what somebody has restored stays.
    pub by_itself: bool,
}

/// `clean --json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cleaned {
    /// Of this format.
    pub version: u32,
    /// What is in the trash now.
    pub removed: Vec<Removed>,
    /// What stays.
    pub kept: Vec<Kept>,
    /// When a remote was asked last; `null` where none ever was.
    pub remote_checked: Option<String>,
    /// Whether there is a remote at all.
    pub has_remote: bool,
    /// What was compared with.
    pub bases: Vec<Base>,
    /// What `--caches` emptied.
    pub caches: Vec<Cache>,
    /// Why nothing could be judged, and the command that mends it.
    pub hint: Option<String>,
}

/// One that went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Removed {
    /// Its name.
    pub name: String,
    /// Why it had no reason to be there.
    pub reason: Zombie,
    /// The commit it landed as, and how that is known.
    pub landed: Option<String>,
    /// How to take it back; `null` where it would only be removed.
    pub undo: Option<String>,
    /// Why the last steps are left to the next command.
    pub pending: Option<String>,
}

impl Removed {
    /// What is to be said where its last steps are left to the next command.
    pub fn warning(&self) -> Option<String> {
        self.pending.as_ref().map(|why| format!("'{}': {}", self.name, remove::not_noted(why)))
    }
}

/// One that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// Why it has no reason to be there, where that is so.
    pub zombie: Option<Zombie>,
    /// Everything that keeps it.
    pub reasons: Vec<String>,
}

/// A reference that agents were compared with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Base {
    /// As people write it.
    pub name: String,
    /// Where it stands.
    pub tip: crate::model::agent::Oid,
    /// The base that is gone, where this one stands in for it.
    pub instead_of: Option<String>,
}

/// A directory that its tools make again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cache {
    /// Whose.
    pub name: String,
    /// Where it was.
    pub path: JsonPath,
    /// What it took.
    pub bytes: u64,
}

impl Cleaned {
    /// A line for each that went.
    pub fn lines(&self) -> Vec<String> {
        let line = |r: &Removed| {
            let undo = r.undo.as_ref().map(|u| format!("; undo: {u}")).unwrap_or_default();
            let pending = r.pending.as_ref().map(|why| format!("; {}", remove::not_noted(why))).unwrap_or_default();
            let why = match r.reason {
                Zombie::Landed => "has landed",
                _ => "has lost its branch",
            };
            format!("'{}' {why} and is in the trash{pending}{undo}", r.name)
        };
        self.removed.iter().map(line).collect()
    }
}

/// Takes away what is safe to take away.
pub fn pass(ctx: &Context, how: &How) -> Result<Cleaned> {
    let mut out = begin(ctx);
    if let (false, Some(why)) = (how.dry_run, ctx.state.lock_trouble()) {
        out.hint = Some(format!("{why}; nothing is removed automatically here"));
        return Ok(out);
    }
    if !how.dry_run {
        repair::if_needed(ctx)?;
    }
    let inv = Inventory::read(ctx)?;
    let wanted = |a: &&Agent| how.only.as_ref().is_none_or(|names| names.contains(&a.reg.name.0));
    let agents: Vec<&Agent> = inv.agents.iter().filter(wanted).collect();
    if moved::all_missing(&inv) {
        let trees: Vec<_> = inv.agents.iter().filter_map(|a| moved::stale(ctx, a)).collect();
        out.hint = Some(match trees.is_empty() {
            true => "every worktree is missing: 'git worktree repair' takes the paths they were moved to".to_owned(),
            false => moved::command(ctx, &trees),
        });
        out.kept = agents.iter().map(|a| kept(a, None, vec!["its directory is missing, as all are".into()])).collect();
        return Ok(out);
    }
    let bases = landed::Bases::of(ctx, &inv);
    let landings = landed::all_with(ctx, &inv, &agents, &bases)?;
    for a in &agents {
        out.bases.extend(bases.compared(a).into_iter().map(|c| Base {
            name: short_ref(&c.reference).to_owned(),
            tip: c.tip,
            instead_of: c.instead_of,
        }));
    }
    out.bases.sort();
    out.bases.dedup();
    let open: Vec<(&Agent, Landing)> = agents
        .into_iter()
        .zip(landings)
        .filter(|(a, landing)| how.explain || landing.commit().is_some() || a.tip.is_none())
        .collect();
    if open.is_empty() {
        return Ok(out);
    }
    // A broken project file keeps everything: nobody knows then what counts as work.
    let loaded = ctx.settings(&Flags::default())?;
    let approved = plan::approved(ctx, &loaded.project).map(|p| p.throw_away().to_vec()).unwrap_or_default();
    let options = remove::Options {
        throw_away: [loaded.settings.throw_away.clone(), approved].concat(),
        capture_max_file: loaded.settings.capture_max_file,
        unasked: true,
        by_itself: how.by_itself,
        min_age: loaded.settings.clean_min_age_s,
        ..remove::Options::default()
    };
    let judged = in_parallel(&open, |(a, landing)| {
        let facts = safe::facts_unasked(ctx, &inv, a, &options.throw_away, Some(landing.clone()));
        Ok(facts.map_err(|e| e.words()))
    })?;
    for ((a, landing), facts) in open.iter().zip(judged) {
        let name = &a.reg.name.0;
        let (zombie, reasons) = match &facts {
            Ok(f) => (zombie(f), remove::kept(ctx, &inv, a, f, &options)),
            Err(why) => (None, vec![format!("it cannot be judged: {why}")]),
        };
        let reason = match (zombie, reasons.is_empty()) {
            (Some(reason), true) => reason,
            (zombie, _) => {
                out.kept.push(kept(a, zombie, reasons));
                continue;
            }
        };
        let landed = match landing {
            Landing::In { at, proof } => Some(format!("{at} ({})", proof.words())),
            _ => None,
        };
        let mut gone = Removed { name: name.clone(), reason, landed, undo: None, pending: None };
        if how.dry_run {
            out.removed.push(gone);
            continue;
        }
        // Another one that cleans may have been faster.
        let is_there = || ctx.state.registrations().map(|(all, _)| all.iter().any(|r| r.id == a.reg.id));
        if !is_there()? {
            continue;
        }
        match remove::remove(ctx, name, &options) {
            Ok(remove::Outcome::Removed { pending, .. }) => {
                gone.pending = pending;
                gone.undo = Some(format!("git agents restore {}", shell_word(name)));
                out.removed.push(gone);
            }
            Ok(remove::Outcome::Kept { reasons }) => out.kept.push(kept(a, Some(reason), reasons)),
            Ok(remove::Outcome::Refused { why, .. }) => out.kept.push(kept(a, Some(reason), vec![why])),
            Ok(remove::Outcome::Undone | remove::Outcome::Released) => {}
            Err(_) if !is_there()? => {}
            // Whatever it is, it is in nobody else's way.
            Err(e) => out.kept.push(kept(a, Some(reason), vec![e.words()])),
        }
    }
    Ok(out)
}

/// Empties what can be made again, in every environment that nobody works in; all worktrees stay.
pub fn caches(ctx: &Context, dry_run: bool) -> Result<Cleaned> {
    let mut out = begin(ctx);
    let _held = ctx.state.lock()?;
    let inv = Inventory::read(ctx)?;
    for a in &inv.agents {
        let busy = a.run.is_alive()? || a.state().is_some_and(|s| !s.is_final()) || a.reg.doing.is_some();
        let Some(entry) = a.entry.as_ref().filter(|e| !busy && e.link() == Link::Good) else { continue };
        let users: Vec<String> = process::users_of(&entry.path).iter().map(safe::shown).collect();
        if !users.is_empty() {
            let why = format!("somebody works in its directory: {}", users.join(", "));
            out.kept.push(kept(a, None, vec![why]));
            continue;
        }
        let commit = head_commit(&inv, &entry.head).1;
        let place = Place { worktree: &entry.path, admin: &entry.admin, head: commit.as_ref() };
        for path in expire::regenerable(ctx, &place)? {
            let bytes = files::size_of(&path);
            if !dry_run {
                expire::delete(ctx, &path)?;
            }
            out.caches.push(Cache { name: a.reg.name.0.clone(), path: path.as_path().into(), bytes });
        }
    }
    Ok(out)
}

fn begin(ctx: &Context) -> Cleaned {
    let has_remote =
        crate::git::config_file::read(&ctx.repo().common_dir).is_ok_and(|c| !c.subsections("remote").is_empty());
    Cleaned { version: 1, remote_checked: remote_checked(ctx), has_remote, ..Cleaned::default() }
}

fn kept(a: &Agent, zombie: Option<Zombie>, reasons: Vec<String>) -> Kept {
    Kept { name: a.reg.name.0.clone(), zombie, reasons }
}

/// Why it has no reason to be there, whether it may go or not.
fn zombie(f: &Facts) -> Option<Zombie> {
    safe::reason(f).or_else(|| (f.missing && f.stands.is_none()).then_some(Zombie::Missing))
}

/// When git fetched last, as far as it left word of that.
fn remote_checked(ctx: &Context) -> Option<String> {
    let common = &ctx.repo().common_dir;
    let each = std::fs::read_dir(common.join("worktrees")).into_iter().flatten().filter_map(std::result::Result::ok);
    let files = each.map(|e| e.path().join("FETCH_HEAD")).chain([common.join("FETCH_HEAD")]);
    let newest = files.filter_map(|f| f.metadata().ok()?.modified().ok()).max()?;
    Some(clock::stamp(newest.try_into().ok()?))
}
