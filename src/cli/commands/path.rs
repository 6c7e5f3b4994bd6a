//! `git agents path`.

use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::ops::inventory::Inventory;
use crate::ops::select;

/// Print the directory of an agent
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which; by default the one of this directory
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    let name = select::one_or_here(&ctx, &inv, args.agent.as_deref())?;
    let a = inv
        .find(&name)
        .ok_or_else(|| CliError::refused(format!("there is no agent named '{name}'"), "git agents status"))?;
    let entry = a.entry.as_ref().filter(|e| e.path.is_dir());
    let path = entry.ok_or_else(|| {
        CliError::refused(
            format!("'{name}' has no directory now"),
            format!("git agents show {}", crate::model::text::shell_word(&name)),
        )
    })?;
    s.ui.out_path(&path.path)?;
    Ok(code::DONE)
}
