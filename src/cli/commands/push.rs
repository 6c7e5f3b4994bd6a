//! `git agents push`.

use super::{Outcome, chosen, finish, loaded, refuse_assistant};
use crate::cli::Session;
use crate::cli::error::CliError;
use crate::config::Flags;
use crate::model::task::short_ref;
use crate::model::text::{safe_line, safe_text};
use crate::ops::inventory::Inventory;
use crate::ops::land::plan::list;
use crate::ops::push::{self, End, Options};
use crate::ops::select::Match;

/// Publish branches with 'git push -u', and open requests for them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Requests are opened by 'agents.prCommand' (a line for the shell, of your own configuration) with the report on \
its input, or 'gh' or 'glab'; what it prints is the answer. Nothing is ever pushed by force."
)]
pub struct Args {
    /// Which agents
    #[arg(value_name = "AGENT", required = true)]
    agents: Vec<String>,
    /// Where to; without it as git decides, or 'origin', or the only one there is
    #[arg(long, value_name = "R")]
    remote: Option<String>,
    /// Open a pull or merge request with the report as its text
    #[arg(long)]
    pr: bool,
    /// Say what would happen
    #[arg(long)]
    dry_run: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    refuse_assistant("push")?;
    let ctx = s.context()?;
    let loaded = loaded(s, &ctx, &Flags::default())?;
    let inv = Inventory::read(&ctx)?;
    let names = chosen(&ctx, &inv, &args.agents, None, false, Match::Whole)?;
    let options = Options { remote: args.remote.as_deref(), request: args.pr, loaded: &loaded };
    // All mistakes before anything leaves this machine.
    let mut plans = Vec::new();
    for a in names.iter().filter_map(|n| inv.find(n)) {
        plans.push((a.reg.name.0.clone(), push::plan(&ctx, &inv, a, &options)?));
    }
    let (mut results, mut hints) = (Vec::new(), Vec::new());
    for (name, plan) in plans {
        let done = |outcome, reason| Outcome { name: name.clone(), outcome, reason, undo: None };
        let planned = match plan {
            Ok(p) => p,
            Err(why) => {
                hints.extend(why.hint);
                results.push(done("kept", Some(why.why)));
                continue;
            }
        };
        if !planned.not_pushed.is_empty() {
            s.ui.warn(&format!("of '{name}' is not committed and not pushed: {}", list(&planned.not_pushed)));
        }
        let branch = short_ref(&planned.branch);
        if args.dry_run {
            s.ui.say(&format!("'{branch}' would be pushed to '{}'", planned.remote));
            if let Some(r) = &planned.request {
                s.ui.say(&format!("then would run: {}", safe_line(r.command.shown().as_bytes())));
            }
            results.push(done("done", None));
            continue;
        }
        let end = push::push(&ctx, &planned, &mut |line| s.ui.say(&safe_line(line.as_bytes())))?;
        results.push(match end {
            End::Pushed(printed) => {
                s.ui.say(&format!("'{branch}' is pushed to '{}'", planned.remote));
                let printed = safe_text(printed.as_bytes());
                if args.json {
                    printed.lines().for_each(|l| s.ui.say(l));
                } else {
                    s.ui.out(&printed)?;
                }
                done("done", None)
            }
            End::Kept(why) => {
                hints.extend(why.hint);
                done("kept", Some(why.why))
            }
            End::Failed(why) => {
                hints.extend(why.hint);
                done("failed", Some(why.why))
            }
        });
    }
    hints.dedup();
    finish(s, args.json, results, &hints)
}
