//! `git agents rm`.

use super::{Outcome, chosen, finish};
use crate::cli::Session;
use crate::cli::error::CliError;
use crate::config::Flags;
use crate::model::agent::RunState;
use crate::model::text::{shell_word, shown_path};
use crate::ops::inventory::Inventory;
use crate::ops::remove::{self, Options, Tree};
use crate::ops::retry;
use crate::ops::safe::Allowed;
use crate::ops::select::Match;
use std::time::{Duration, Instant};

/// Remove environments: into the trash, from where 'restore' brings them back
#[derive(Debug, clap::Args)]
#[command(after_help = "The branch goes too when it has landed or has no commit of its own, and nothing is left over.")]
pub struct Args {
    /// Which agent
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Delete the branch too, whatever is on it (its tip is kept under refs/agents/removed)
    #[arg(short = 'D')]
    delete_branch: bool,
    /// End a running one first
    #[arg(long)]
    stop: bool,
    /// Also one in the middle of a rebase or merge; with an adopted one, take its worktree too
    #[arg(long)]
    force: bool,
    /// Those that failed, stalled, timed out or were stopped
    #[arg(long)]
    failed: bool,
    /// Those of batch N
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// Say what would happen
    #[arg(long)]
    dry_run: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    let mut names = chosen(&ctx, &inv, &args.agents, args.batch, false, Match::Whole)?;
    if args.failed {
        use RunState::{Dead, Failed, Interrupted, OverBudget, Skipped, Stalled, Stopped, TimedOut};
        let bad = [Failed, Stalled, TimedOut, OverBudget, Skipped, Stopped, Dead, Interrupted];
        if args.batch.is_some() || !args.agents.is_empty() {
            names.retain(|n| inv.find(n).and_then(|a| a.state()).is_some_and(|st| bad.contains(&st)));
        } else {
            names = inv
                .agents
                .iter()
                .filter(|a| a.state().is_some_and(|st| bad.contains(&st)))
                .map(|a| a.reg.name.0.clone())
                .collect();
        }
    } else if names.is_empty() {
        return Err(CliError::Usage("name what shall be removed, or --failed, or --batch N".into()));
    }
    let loaded = ctx.settings(&Flags::default());
    let (throw_away, max_file) = match &loaded {
        Ok(l) => {
            // Only what is approved counts as no work.
            let approved =
                crate::ops::plan::approved(&ctx, &l.project).map(|p| p.throw_away().to_vec()).unwrap_or_default();
            ([l.settings.throw_away.clone(), approved].concat(), l.settings.capture_max_file)
        }
        // A broken project file must not keep anybody from tidying up.
        Err(_) => (Vec::new(), 50 << 20),
    };
    let options = Options {
        allowed: Allowed { delete_branch: args.delete_branch, force: args.force },
        throw_away,
        capture_max_file: max_file,
        dry_run: args.dry_run,
        ..Options::default()
    };
    let mut results = Vec::new();
    let mut hints = Vec::new();
    for name in names {
        if args.stop && !args.dry_run {
            end_first(&ctx, &name)?;
        }
        results.push(one(s, &ctx, &name, &options, &mut hints)?);
    }
    hints.dedup();
    finish(s, args.json, results, &hints)
}

fn one(
    s: &Session,
    ctx: &crate::ops::Context,
    name: &str,
    options: &Options,
    hints: &mut Vec<String>,
) -> Result<Outcome, CliError> {
    let would = if options.dry_run { "would be " } else { "" };
    let failed = |why: String| Outcome { name: name.to_owned(), outcome: "failed", reason: Some(why), undo: None };
    let done = |undo: Option<String>| Outcome { name: name.to_owned(), outcome: "done", reason: None, undo };
    Ok(match remove::remove(ctx, name, options) {
        Err(e) => {
            hints.extend(e.hint());
            failed(e.words())
        }
        Ok(remove::Outcome::Refused { why, hint }) => {
            hints.push(hint);
            Outcome { name: name.to_owned(), outcome: "refused", reason: Some(why), undo: None }
        }
        Ok(remove::Outcome::Kept { reasons }) => {
            Outcome { name: name.to_owned(), outcome: "kept", reason: Some(reasons.join("; ")), undo: None }
        }
        Ok(remove::Outcome::Undone) => {
            s.ui.say(&format!(
                "'{name}' was never finished; what there was of it {}",
                if options.dry_run { "would go" } else { "is gone" }
            ));
            done(None)
        }
        Ok(remove::Outcome::Released) => {
            s.ui.say(&format!("'{name}' {would}no longer managed; its worktree and branch stay"));
            done(None)
        }
        Ok(remove::Outcome::Removed { branch_deleted, because, visitors, standing_in, stale_lock, tree, pending }) => {
            if stale_lock {
                s.ui.say(&format!("'{name}' {would}released from the lock of a run that is gone"));
            }
            let branch = if branch_deleted { "with its branch" } else { "its branch stays" };
            let why = if because.is_empty() { String::new() } else { format!(" ({})", because.join("; ")) };
            s.ui.say(&match &tree {
                Tree::Moved => format!("'{name}' {would}moved to the trash, {branch}{why}"),
                Tree::Missing => format!("'{name}' {would}removed (its directory was gone already), {branch}{why}"),
                Tree::Stands(path) => format!(
                    "'{name}' {would}no longer managed, {branch}{why}; git's entry of its worktree was gone, its files \
                     stand at '{}'",
                    shown_path(path)
                ),
            });
            if let (Tree::Stands(path), false) = (&tree, options.dry_run) {
                s.ui.hint(&format!(
                    "'git agents restore {}' makes them a worktree again, 'rm -r {}' deletes them",
                    shell_word(name),
                    shell_word(&path.to_string_lossy())
                ));
            }
            if let Some(why) = pending {
                s.ui.warn(&remove::not_noted(&why));
            }
            for v in visitors {
                s.ui.warn(&format!("still working in its directory: {v}"));
            }
            if standing_in && !options.dry_run {
                let main = ctx.repo().main_worktree.clone().unwrap_or_else(|| ctx.repo().common_dir.clone());
                s.ui.hint(&format!("you are in it: cd {}", shell_word(&main.to_string_lossy())));
            }
            done((!options.dry_run).then(|| format!("git agents restore {}", shell_word(name))))
        }
    })
}

/// Ends the run of `name` and waits for it; whether there was anything to end.
pub fn end_first(ctx: &crate::ops::Context, name: &str) -> Result<bool, CliError> {
    let inv = Inventory::read(ctx)?;
    let Some(a) = inv.find(name) else { return Ok(false) };
    if !retry::stop(ctx, a)? {
        return Ok(false);
    }
    let deadline = Instant::now() + Duration::from_secs(40);
    while a.run.is_alive()? && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(true)
}
