//! `git agents diff`.

use crate::cli::Session;
use crate::cli::error::CliError;
use crate::ops::inventory::Inventory;
use crate::ops::{diff, select};
use std::ffi::OsString;

/// What an agent changed since it left its base, uncommitted work included; of two, the second against the first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which; by default the one of this directory
    #[arg(value_name = "AGENT", num_args = 0..=2)]
    agents: Vec<String>,
    /// Passed on to 'git diff': paths, or options with another '--' before paths
    #[arg(last = true, value_name = "ARG")]
    args: Vec<OsString>,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    let mut names = select::many(&ctx, &inv, &args.agents, select::Match::Prefix)?;
    if names.is_empty() {
        names.push(select::one_or_here(&ctx, &inv, None)?);
    }
    let mut agents = names.iter().filter_map(|n| inv.find(n));
    let gone = || CliError::refused("that agent is gone", "git agents status");
    let (a, b) = (agents.next().ok_or_else(gone)?, agents.next());
    if args.agents.len() == 2 && b.is_none() {
        return Err(CliError::Usage("both names mean the same agent".into()));
    }
    let comparison = diff::compare(&ctx, &inv, a, b)?;
    comparison.warnings.iter().for_each(|w| s.ui.warn(w));
    // Ctrl-C is for git and its pager; what they read is here.
    let _signals = crate::cli::follow::catch()?;
    Ok(comparison.show(&ctx, &args.args)?)
}
