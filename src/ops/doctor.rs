//! What is wrong in the set-up and in the state: said, mended where that is safe, else the command that does it.
//!
//! Each finding comes from the module that knows; nothing is judged here a second time.

use super::hooks::{self, Standing};
use super::inventory::{Inventory, status};
use super::{Context, Result, assistant, moved, plan, rebuild, remove, repair};
use crate::config::{Approval, Flags};
use crate::git::worktree;
use crate::model::agent::RunState;
use crate::model::text::{safe_line, shell_word, shown_path};
use crate::runtime::{files, resolver};
use schemars::JsonSchema;
use serde::Serialize;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something does not work, or work is in danger.
    Problem,
    /// Worth knowing.
    Note,
}

/// One thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: `git`, `set-up`, `state`, or an agent's name.
    pub about: String,
    /// In words.
    pub what: String,
    /// The command that mends it.
    pub mend: Option<String>,
}

/// What `doctor` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// Of this format.
    pub version: u32,
    /// What is wrong now, problems first.
    pub findings: Vec<Finding>,
    /// What `--fix` has mended.
    pub mended: Vec<Finding>,
}

/// Looks; with `fix` mends first what the next command that takes the repository's lock would, and ends what dead runs
/// left.
pub fn diagnose(ctx: &Context, fix: bool) -> Result<Diagnosis> {
    let before = findings(ctx)?;
    if !fix {
        return Ok(Diagnosis { version: 1, findings: before, mended: Vec::new() });
    }
    let held = ctx.state.lock()?;
    // What stays stuck is found again below.
    let _ = repair::repair(ctx, &held)?;
    drop(held);
    let inv = Inventory::read(ctx)?;
    for a in inv.agents.iter().filter(|a| a.state() == Some(RunState::Dead)) {
        a.run.end_left_over(std::time::Duration::from_secs(10));
        let _held = ctx.state.lock()?;
        super::identity::unlock_worktree(ctx, &a.reg)?;
    }
    let after = findings(ctx)?;
    let mended = before.into_iter().filter(|f| !after.contains(f)).collect();
    Ok(Diagnosis { version: 1, findings: after, mended })
}

/// Everything that is found, problems first.
pub fn findings(ctx: &Context) -> Result<Vec<Finding>> {
    let inv = Inventory::read(ctx)?;
    let mut out = Vec::new();
    repository(ctx, &mut out)?;
    set_up(ctx, &mut out);
    agents(ctx, &inv, &mut out)?;
    trash(ctx, &mut out);
    hooks(ctx, &mut out)?;
    out.sort_by_key(|f| f.severity);
    Ok(out)
}

fn found(severity: Severity, about: &str, what: impl Into<String>, mend: Option<String>) -> Finding {
    Finding { severity, about: safe_line(about.as_bytes()), what: what.into(), mend }
}

/// The repository itself.
fn repository(ctx: &Context, out: &mut Vec<Finding>) -> Result<()> {
    let repo = ctx.repo();
    if let Some(why) = ctx.state.lock_trouble() {
        out.push(found(Severity::Problem, "state", format!("{why}; nothing is removed automatically here"), None));
    }
    let config = crate::git::config_file::read(&repo.common_dir)?;
    let in_tree = repo.common_dir.file_name().is_some_and(|n| n == ".git")
        && repo.common_dir.parent().is_some_and(|p| p.join(".git").is_dir() && p.join(".git/index").exists());
    match super::executable::changed(ctx) {
        Ok(changed) if changed.is_empty() => {}
        Ok(changed) => {
            let mend = "look at them, then 'git agents doctor --accept'".to_owned();
            out.push(found(Severity::Problem, "git", super::executable::words(&changed), Some(mend)));
        }
        Err(e) => {
            let what = format!("not checked whether what git runs or trusts changed: {}", e.words());
            out.push(found(Severity::Problem, "git", what, e.hint()));
        }
    }
    if in_tree && config.flag("core", None, "bare") {
        let what = "core.bare is set though there is a checkout: git refuses to work in it";
        out.push(found(Severity::Problem, "git", what, Some("git config core.bare false".into())));
    }
    // A lock of nobody who lives: git waits for it for ever.
    for name in ["index.lock", "config.lock", "packed-refs.lock", "HEAD.lock", "shallow.lock"] {
        let lock = repo.common_dir.join(name);
        if let Ok(meta) = lock.symlink_metadata()
            && !crate::runtime::process::is_open_anywhere(&lock)
        {
            let age = meta.modified().ok().and_then(|m| m.elapsed().ok()).map_or(0, |d| d.as_secs());
            if age >= 60 {
                let shown = shown_path(&lock);
                let what = format!("'{shown}' stands for {}", crate::model::units::format_duration(age));
                let mend = format!("rm {}", shell_word(&lock.to_string_lossy()));
                out.push(found(
                    Severity::Problem,
                    "git",
                    what,
                    Some(format!("make sure that no git runs, then '{mend}'")),
                ));
            }
        }
    }
    Ok(())
}

/// Settings, approvals, programs, disk.
fn set_up(ctx: &Context, out: &mut Vec<Finding>) {
    let loaded = match ctx.settings(&Flags::default()) {
        Ok(l) => l,
        Err(e) => {
            out.push(found(Severity::Problem, "set-up", e.words(), e.hint()));
            return;
        }
    };
    for w in &loaded.warnings {
        out.push(found(Severity::Note, "set-up", w.message.clone(), Some(w.hint.clone())));
    }
    match plan::approval(ctx, &loaded.project) {
        Ok(Approval::Approved(approved)) => {
            let named = loaded.settings.assistant.as_deref().unwrap_or_default();
            let allowed = loaded.settings.env_allow.as_ref();
            for name in named.split(',').map(|n| n.split('*').next().unwrap_or(n).trim()).filter(|n| !n.is_empty()) {
                let checked = plan::resolve_adapter(&approved, name).and_then(|a| assistant::check(&a, ctx, allowed));
                if let Err(e) = checked {
                    out.push(found(Severity::Problem, "set-up", e.words(), e.hint()));
                }
            }
        }
        Ok(_) => {
            let what = "what '.git-agents.toml' runs is not approved as it is now";
            out.push(found(Severity::Note, "set-up", what, Some("git agents trust".into())));
        }
        Err(e) => out.push(found(Severity::Problem, "set-up", e.words(), e.hint())),
    }
    if let Some(why) = resolver::trouble(std::time::Duration::from_secs(1)) {
        let what = format!("'{}' {why}; browsers find apps under such names, other programs do not", resolver::NAME);
        let mend = "install libnss-myhostname, or run systemd-resolved; 127.0.0.1 with the port works as it is";
        out.push(found(Severity::Note, "set-up", what, Some(mend.to_owned())));
    }
    let place = ctx.repo().main_worktree.as_ref().unwrap_or(&ctx.repo().common_dir);
    if let Some(free) = files::free_space(place)
        && free < loaded.settings.min_free
    {
        let (free, min) =
            (crate::model::units::format_size(free), crate::model::units::format_size(loaded.settings.min_free));
        let what = format!("{free} of disk are free and agents.minFree is {min}: no agent starts");
        out.push(found(Severity::Problem, "set-up", what, None));
    }
}

/// Each agent, as `status` sees it.
fn agents(ctx: &Context, inv: &Inventory, out: &mut Vec<Finding>) -> Result<()> {
    for name in &inv.damaged {
        let e = rebuild::refusal(ctx, name);
        out.push(found(Severity::Problem, name, e.to_string(), e.hint()));
    }
    let stale: Vec<_> = inv.agents.iter().filter_map(|a| moved::stale(ctx, a)).collect();
    if !stale.is_empty() {
        let what = "worktrees were moved, or their repository was, and git does not find them";
        out.push(found(Severity::Problem, "git", what, Some(moved::command(ctx, &stale))));
    }
    let answer = status(ctx, inv, &|_| true, None)?;
    for a in &answer.agents {
        let name = a.name.typed();
        for f in &a.findings {
            // A link where the tree was is somebody's: 'rm' refuses as long as it is there.
            let entry = inv.find(&a.name.0).and_then(|a| a.entry.as_ref());
            let link = entry.filter(|e| e.path.symlink_metadata().is_ok_and(|m| m.is_symlink()));
            let mend = match link {
                Some(e) => Some(format!("rm {}", shell_word(&e.path.to_string_lossy()))),
                None => a.zombie.map(|_| format!("git agents rm {name}")),
            };
            out.push(found(Severity::Problem, &a.name.0, f.clone(), mend));
        }
        if let Some(z) = a.zombie {
            let what = format!("it has no reason to exist any more: {}", z.word());
            out.push(found(Severity::Note, &a.name.0, what, Some(format!("git agents rm {name}"))));
        }
        if a.run.state == Some(RunState::Dead) {
            let what = a.run.reason.clone().unwrap_or_else(|| "its supervisor is gone".into());
            out.push(found(Severity::Problem, &a.name.0, what, Some(format!("git agents retry {name}"))));
        }
        if let Some(reason) = &a.locked
            && !a.run.state.is_some_and(RunState::is_live)
        {
            let ours = super::identity::parse_lock_reason(reason);
            if ours.is_some_and(|(_, owner)| !owner.is_alive()) {
                let what = "its worktree is locked by a run that is gone";
                out.push(found(Severity::Problem, &a.name.0, what, Some(format!("git agents stop {name}"))));
            }
        }
    }
    // A folder of a run that nobody is registered for holds nothing that the journal does not.
    for e in &inv.worktrees {
        let orphan = files::read_limited(&e.admin.join("agents-token"), 256).ok().flatten().is_some()
            && !inv.agents.iter().any(|a| a.entry.as_ref().is_some_and(|x| x.id == e.id));
        if orphan && inv.damaged.is_empty() && e.link() == worktree::Link::Good {
            let what = format!("'{}' carries the mark of an agent that is not registered", shown_path(&e.path));
            let mend = format!("git agents adopt {}", shell_word(&e.path.to_string_lossy()));
            out.push(found(Severity::Problem, "state", what, Some(mend)));
        }
    }
    Ok(())
}

/// The hooks, where somebody installed them: by an event that means nothing to anybody.
fn hooks(ctx: &Context, out: &mut Vec<Finding>) -> Result<()> {
    let survey = hooks::survey(ctx)?;
    if !survey.files.iter().any(|f| f.found.is_in_place()) {
        return Ok(());
    }
    let install = Some("git agents hooks install".to_owned());
    for (file, standing) in survey.files.iter().zip(hooks::standings(ctx, &survey, false)?) {
        let about = format!("hook {}", file.event.word());
        let (severity, what, mend) = match standing {
            Standing::Silent(why) => (Severity::Problem, format!("it does not fire: {why}"), None),
            Standing::Missing => {
                (Severity::Problem, "it is not there, though others of ours are".to_owned(), install.clone())
            }
            Standing::MainOnly => (Severity::Note, "it fires in the main worktree alone".to_owned(), None),
            Standing::Fires | Standing::Untried(_) => continue,
        };
        out.push(found(severity, &about, what, mend));
    }
    Ok(())
}

fn trash(ctx: &Context, out: &mut Vec<Finding>) {
    for (dir, entry) in remove::entries(ctx) {
        if let Some(why) = &entry.damaged {
            let what = format!("the description of '{}' is damaged: {why}", shown_path(&dir));
            let mend = Some(format!("git agents restore {}", shell_word(&entry.name)));
            out.push(found(Severity::Note, &entry.name, what, mend));
        }
    }
}
