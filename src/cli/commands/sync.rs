//! `git agents sync`.

use super::{Outcome, chosen, finish};
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::ops::inventory::Inventory;
use crate::ops::select::Match;
use crate::ops::sync::{self, Options, Synced};
use crate::ops::{Context, base, plan};

/// Rebase agents on their base as it is now, after a trial that touches nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "Kept where they are: agents that run, conflict, have landed, or have uncommitted work.")]
pub struct Args {
    /// Which agents; without any, the one of this directory
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// All of them, each after those it was begun on top of
    #[arg(long, conflicts_with = "agents")]
    all: bool,
    /// Rebase on BASE, which is their base from then on
    #[arg(long, value_name = "BASE", conflicts_with = "all")]
    onto: Option<String>,
    /// Take uncommitted work along, byte for byte
    #[arg(long)]
    carry: bool,
    /// Fetch first
    #[arg(long)]
    fetch: bool,
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
    let here = ["@".to_owned()];
    let words = match (args.agents.as_slice(), args.all) {
        ([], false) if ctx.here()?.is_some() => here.as_slice(),
        ([], false) => return Err(CliError::Usage("name what shall be synced, or --all".into())),
        (words, _) => words,
    };
    let inv = Inventory::read(&ctx)?;
    let names = chosen(&ctx, &inv, words, None, args.all, Match::Whole)?;
    let names = sync::order(&inv, names);
    if args.fetch {
        super::new::fetch(s, &ctx)?;
    }
    let loaded = super::loaded(s, &ctx, &crate::config::Flags::default())?;
    let approved = plan::approved(&ctx, &loaded.project).map(|p| p.throw_away().to_vec()).unwrap_or_default();
    let base = args.onto.as_deref().map(|rev| base::resolve(&ctx, Some(rev))).transpose()?.map(|b| b.name);
    let itself = |n: &&String| inv.find(n).is_some_and(|a| Some(&a.reg.branch) == base.as_ref());
    if let Some(name) = names.iter().find(itself) {
        return Err(CliError::refused(format!("'{name}' cannot be its own base"), "name another branch"));
    }
    let options = Options {
        onto: None,
        base,
        carry: args.carry,
        dry_run: args.dry_run,
        unasked: false,
        throw_away: [loaded.settings.throw_away, approved].concat(),
        capture_max_file: loaded.settings.capture_max_file,
    };
    let mut results = Vec::new();
    let mut hints = Vec::new();
    for name in &names {
        results.push(one(s, &ctx, name, &options, &mut hints));
    }
    let mut seen = std::collections::HashSet::new();
    hints.retain(|h| seen.insert(h.clone()));
    if args.all && !args.json {
        // Only what was asked for by name can have been kept from anybody.
        let kept: Vec<Outcome> = results.extract_if(.., |r| r.outcome == "kept").collect();
        kept.iter().filter_map(|r| r.reason.as_ref()).for_each(|why| s.ui.say(&format!("kept: {why}")));
    }
    let code = finish(s, args.json, results, &hints)?;
    Ok(if args.all && code == code::NO { code::DONE } else { code })
}

fn one(s: &Session, ctx: &Context, name: &str, options: &Options, hints: &mut Vec<String>) -> Outcome {
    let outcome = |outcome, reason: Option<String>, undo: Option<String>| Outcome {
        name: name.to_owned(),
        outcome,
        reason,
        undo,
    };
    match sync::sync(ctx, name, options) {
        Ok(sync::Outcome::Synced(synced)) => {
            s.ui.say(&line(name, &synced));
            synced.notes.iter().for_each(|n| s.ui.say(n));
            outcome("done", None, synced.undo)
        }
        Ok(sync::Outcome::Standing { on, undo }) => {
            s.ui.say(&format!("'{name}' is on '{on}' as it is now"));
            outcome("done", None, undo)
        }
        Ok(sync::Outcome::Kept(kept)) => {
            hints.extend(kept.hint);
            outcome("kept", Some(kept.why), None)
        }
        Ok(sync::Outcome::Failed(kept)) => {
            hints.extend(kept.hint);
            outcome("failed", Some(kept.why), None)
        }
        Err(e) => {
            hints.extend(e.hint());
            outcome("failed", Some(e.words()), None)
        }
    }
}

fn line(name: &str, synced: &Synced) -> String {
    let would = if synced.to.is_none() { "would be " } else { "" };
    let commits = crate::model::units::count(synced.commits, "commit");
    let carried = match synced.carried {
        0 => String::new(),
        n => format!(", with the uncommitted work in {}", crate::model::units::count(n, "file")),
    };
    format!("'{name}' {would}rebased on '{}' at {}: {commits}{carried}", synced.on, synced.onto.short())
}
