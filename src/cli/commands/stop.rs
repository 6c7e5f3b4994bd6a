//! `git agents stop`.

use super::{Outcome, chosen, finish};
use crate::cli::Session;
use crate::cli::error::CliError;
use crate::model::agent::RunState;
use crate::ops::inventory::Inventory;
use crate::ops::select::Match;

/// End runs: the whole process group, gently first; what was done stays
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which agent
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// All that run or wait
    #[arg(long)]
    all: bool,
    /// Those of batch N
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// Only those that wait
    #[arg(long)]
    waiting: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    let everyone = args.all || (args.waiting && args.agents.is_empty() && args.batch.is_none());
    let mut names = chosen(&ctx, &inv, &args.agents, args.batch, everyone, Match::Whole)?;
    if names.is_empty() && !everyone {
        return Err(CliError::Usage("name which, or --all, or --batch N".into()));
    }
    if everyone || args.batch.is_some() || args.waiting {
        let wanted = |st: RunState| {
            if args.waiting { st == RunState::Waiting } else { st.is_live() || matches!(st, RunState::Dead) }
        };
        names.retain(|n| inv.find(n).and_then(|a| a.state()).is_some_and(wanted));
    }
    let mut results = Vec::new();
    for name in names {
        let ended = super::rm::end_first(&ctx, &name)?;
        let now = Inventory::read(&ctx)?;
        let state = now.find(&name).and_then(|a| a.state());
        let before = inv.find(&name).and_then(|a| a.state());
        let (outcome, reason) = match (before, state) {
            (_, Some(st)) if st.is_live() => ("failed", Some(format!("'{name}' did not end"))),
            (Some(b), _) if b.is_live() || b == RunState::Dead => ("done", None),
            // A creation that was cut short.
            (None, None) if ended => ("done", None),
            _ => ("kept", Some(format!("'{name}' is not running"))),
        };
        if outcome == "done" {
            s.ui.say(&format!("'{name}' is stopped"));
        }
        let undo = (outcome == "done" && state.is_some())
            .then(|| format!("git agents retry {}", crate::model::text::shell_word(&name)));
        results.push(Outcome { name, outcome, reason, undo });
    }
    finish(s, args.json, results, &[])
}
