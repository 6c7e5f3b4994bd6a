//! `git agents adopt`.

use super::{Outcome, finish, loaded, refuse_inside};
use crate::cli::Session;
use crate::cli::error::CliError;
use crate::config::{ApprovedPlan, Flags};
use crate::model::text::shown_path;
use crate::ops::adopt::{self, What};
use crate::ops::plan;

/// Take an existing worktree, branch, remote branch, or pr/123, mr/7 under management
#[derive(Debug, clap::Args)]
#[command(after_help = "What was adopted is never deleted by plain 'rm'.")]
pub struct Args {
    /// A worktree's directory, a branch, a remote branch, pr/N or mr/N
    #[arg(value_name = "WHAT")]
    what: String,
    /// The branch it will land on
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Fetch first
    #[arg(long)]
    fetch: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Allow it inside an agent
    #[arg(long)]
    nested: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    refuse_inside(args.nested, "adopt")?;
    let ctx = s.context()?;
    let loaded = loaded(s, &ctx, &Flags { base: args.base.clone(), ..Flags::default() })?;
    if args.fetch {
        super::new::fetch(s, &ctx)?;
    }
    let what = adopt::find(&ctx, &args.what, &s.cwd)?;
    if let What::Request { remote, reference, branch } = &what {
        s.ui.say(&format!("fetching '{reference}' from '{remote}' into '{branch}'"));
    }
    let is_damaged = matches!(what, What::Damaged(_));
    let approved = if is_damaged { ApprovedPlan::nothing() } else { plan::approved(&ctx, &loaded.project)? };
    let adopted = adopt::adopt(&ctx, &loaded, &approved, what)?;
    let mended = if is_damaged { "is registered anew" } else { "is managed now" };
    s.ui.say(&format!("'{}' {mended}, at '{}'", adopted.name, shown_path(&adopted.path)));
    let undo = Some(format!("git agents rm {}", crate::model::text::shell_word(&adopted.name)));
    finish(s, args.json, vec![Outcome { name: adopted.name, outcome: "done", reason: None, undo }], &[])
}
