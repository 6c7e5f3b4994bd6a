//! `git agents retry`.

use super::{Outcome, chosen, finish, loaded};
use crate::cli::Session;
use crate::cli::error::CliError;
use crate::config::Flags;
use crate::model::agent::RunState;
use crate::ops::inventory::Inventory;
use crate::ops::retry::{self, Retry};
use crate::ops::select::Match;
use crate::ops::{hold, plan};

/// Run the task again, keeping what is there; a session is resumed where the assistant can
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which agent
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// All that failed, stalled, timed out or died
    #[arg(long)]
    failed: bool,
    /// All that a restart of the machine interrupted
    #[arg(long)]
    interrupted: bool,
    /// Lift the holds on assistants, so that what waits for them goes on
    #[arg(long)]
    held: bool,
    /// Those of batch N
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// From the base again (everything there is kept under refs/agents/removed)
    #[arg(long)]
    fresh: bool,
    /// Write more for it in your editor first
    #[arg(long)]
    edit: bool,
    /// Another assistant
    #[arg(short = 'a', long, value_name = "A")]
    assistant: Option<String>,
    /// Another limit of cost, in US dollars
    #[arg(long, value_name = "USD", value_parser = crate::model::units::parse_cost)]
    cost: Option<f64>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context_to_start()?;
    let inv = Inventory::read(&ctx)?;
    if args.held {
        for h in hold::all(&ctx) {
            if args.assistant.as_deref().is_none_or(|w| w == h.assistant) {
                hold::lift(&ctx, &h.assistant)?;
                s.ui.say(&format!("the hold on {} is lifted", h.assistant));
            }
        }
    }
    let mut names = chosen(&ctx, &inv, &args.agents, args.batch, args.failed || args.interrupted, Match::Whole)?;
    use RunState::{Dead, Failed, Interrupted, Stalled, TimedOut};
    let wanted = |st: RunState| {
        (args.failed && matches!(st, Failed | Stalled | TimedOut | Dead))
            || (args.interrupted && matches!(st, Interrupted | Dead))
    };
    if args.failed || args.interrupted {
        names.retain(|n| inv.find(n).and_then(|a| a.state()).is_some_and(wanted));
    } else if args.batch.is_some() {
        names.retain(|n| {
            inv.find(n).and_then(|a| a.state()).is_some_and(|st| st.is_final() && st != RunState::Succeeded)
        });
    } else if names.is_empty() {
        if args.held {
            return finish(s, args.json, Vec::new(), &[]);
        }
        return Err(CliError::Usage("name which, or --failed, --interrupted, --held, or --batch N".into()));
    }
    let loaded = loaded(s, &ctx, &Flags::default())?;
    let approved = plan::approved(&ctx, &loaded.project)?;
    let message = if args.edit { Some(super::run::edit(&ctx, "")?).filter(|t| !t.trim().is_empty()) } else { None };
    let how = Retry { assistant: args.assistant.clone(), cost: args.cost, fresh: args.fresh, message };
    let mut results = Vec::new();
    let mut hints = Vec::new();
    for name in names {
        match retry::retry(&ctx, &loaded, &approved, &name, &how) {
            Ok(()) => {
                s.ui.say(&format!("'{name}' goes on"));
                results.push(Outcome {
                    undo: Some(format!("git agents stop {}", crate::model::text::shell_word(&name))),
                    name,
                    outcome: "done",
                    reason: None,
                });
            }
            Err(e) => {
                hints.extend(e.hint());
                results.push(Outcome { name, outcome: "failed", reason: Some(e.words()), undo: None });
            }
        }
    }
    finish(s, args.json, results, &hints)
}
