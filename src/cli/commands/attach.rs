//! `git agents attach`.

use super::loaded;
use crate::cli::Session;
use crate::cli::error::CliError;
use crate::config::Flags;
use crate::ops::inventory::Inventory;
use crate::ops::select::{self, Match};
use crate::ops::{Context, plan};

/// Sit down in its place: its session, interactive, in this terminal, in its worktree
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which agent
    #[arg(value_name = "AGENT", default_value = "@")]
    agent: String,
    /// With another assistant
    #[arg(short = 'a', long, value_name = "A")]
    assistant: Option<String>,
    /// A new session
    #[arg(long)]
    fresh: bool,
    /// End a running one without asking
    #[arg(long)]
    yes: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context_to_start()?;
    let inv = Inventory::read(&ctx)?;
    let name = select::one(&ctx, &inv, &args.agent, Match::Whole)?;
    sit_down(s, &ctx, &name, args.assistant.as_deref(), args.fresh, args.yes)
}

/// Attaches this terminal to `name`.
pub fn sit_down(
    s: &Session,
    ctx: &Context,
    name: &str,
    assistant: Option<&str>,
    fresh: bool,
    yes: bool,
) -> Result<i32, CliError> {
    let inv = Inventory::read(ctx)?;
    let a = inv
        .find(name)
        .ok_or_else(|| CliError::refused(format!("there is no agent named '{name}'"), "git agents status"))?;
    let loaded = loaded(s, ctx, &Flags::default())?;
    let approved = plan::approved(ctx, &loaded.project)?;
    let path = a.path().map(std::path::Path::to_owned).unwrap_or_default();
    let wanted = assistant.map(str::to_owned).or_else(|| a.assistant().map(str::to_owned));
    let mut plan = plan::run_plan(ctx, &loaded, &approved, path, wanted.as_deref())?;
    plan.test = plan::TestPlan::of(&loaded, &approved, a.task.test.as_deref());
    if a.run.is_alive()? {
        if !yes && s.ui.ask(&format!("'{name}' is running; end that and sit down?")) != Some(true) {
            return Err(CliError::refused(
                format!("'{name}' is running"),
                "'--yes' ends it first; what it did is kept",
            ));
        }
        super::rm::end_first(ctx, name)?;
    }
    Ok(crate::supervisor::attach::attach(ctx, &a.reg.id, &plan, fresh)?)
}
