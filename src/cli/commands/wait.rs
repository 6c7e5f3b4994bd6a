//! `git agents wait`.

use super::chosen;

use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::follow::{self, Options};
use crate::model::units::parse_duration;
use crate::ops::inventory::Inventory;
use crate::ops::select::Match;
use std::time::Duration;

/// Look on until they are settled: exit 0 all succeeded, 1 not all, 124 time is up
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which; by default those of the last batch
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Those of batch N
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// The first that settles is enough
    #[arg(long)]
    any: bool,
    /// Give up after D
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    timeout: Option<u64>,
    /// JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    let mut names = chosen(&ctx, &inv, &args.agents, args.batch, false, Match::Prefix)?;
    if names.is_empty() {
        let batch = super::last_batch(&inv)?;
        names = chosen(&ctx, &inv, &[], Some(batch), false, Match::Prefix)?;
    }
    let agents = names.iter().filter_map(|n| inv.find(n)).map(|a| (a.reg.id.clone(), a.reg.name.0.clone())).collect();
    // A broken settings file keeps nobody from looking on.
    let bell = ctx.settings(&crate::config::Flags::default()).is_ok_and(|l| super::run::rings(&l));
    let options = Options {
        json: args.json,
        timeout: args.timeout.map(Duration::from_secs),
        any: args.any,
        batch: args.batch,
        bell,
    };
    let end = follow::follow(s, &ctx, agents, &options, &follow::catch()?)?;
    if end.interrupted.is_none() {
        super::report::write_wanted(s, &ctx)?;
    }
    Ok(match end {
        follow::End { interrupted: Some(signal), .. } => 128 + signal,
        follow::End { timed_out: true, .. } => code::TIME,
        follow::End { all_succeeded: true, .. } => code::DONE,
        _ => code::NO,
    })
}
