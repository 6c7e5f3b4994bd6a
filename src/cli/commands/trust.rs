//! `git agents trust`.

use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::config::{self, Approval, Flags};
use crate::ops::plan;
use crate::runtime::user::{Approvals, UserState};

/// Approve the commands of .git-agents.toml as they are now
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Approve without asking
    #[arg(long)]
    yes: bool,
    /// Only show what it runs or gives away: exit 0 where that is approved, 1 where it is not
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    show: bool,
    /// Take all approvals for this repository back
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let identity = ctx.repo().identity()?;
    let state = UserState::open()?;
    if args.revoke {
        Approvals::revoke(&state, &identity)?;
        s.ui.say("nothing of this repository is approved any more");
        return Ok(code::DONE);
    }
    let loaded = super::loaded(s, &ctx, &Flags::default())?;
    if args.show {
        return show(s, &ctx, &loaded.project);
    }
    let (wanted, changed) = match plan::approval(&ctx, &loaded.project)? {
        Approval::Approved(_) => {
            s.ui.say(&format!(
                "nothing to approve: '{}' runs nothing that is not approved",
                config::project::FILE_NAME
            ));
            return Ok(code::DONE);
        }
        Approval::Needed { wanted, changed } => (wanted, changed),
    };
    let text = crate::model::text::safe_text(wanted.text().as_bytes());
    s.ui.err(&format!("'{}' wants to run:", config::project::FILE_NAME));
    s.ui.err(text.trim_end());
    if let Some(c) = changed {
        s.ui.err("since you approved it last:");
        s.ui.err(crate::model::text::safe_text(c.as_bytes()).trim_end());
    }
    if !args.yes {
        match s.ui.ask("approve?") {
            Some(true) => {}
            Some(false) => return Ok(code::NO),
            None => {
                return Err(CliError::refused(
                    "nobody is here to ask",
                    "'git agents trust --yes' approves what it shows",
                ));
            }
        }
    }
    Approvals::approve(&state, &identity, &wanted.digest(), &wanted.text())?;
    s.ui.say("approved");
    s.ui.undo("git agents trust --revoke");
    Ok(code::DONE)
}

/// What the file runs or gives away, approved or not.
fn show(s: &Session, ctx: &crate::ops::Context, project: &config::Project) -> Result<i32, CliError> {
    let wanted = plan::wanted(ctx, project);
    if wanted.is_empty() {
        s.ui.say(&format!("'{}' runs nothing", config::project::FILE_NAME));
        return Ok(code::DONE);
    }
    s.ui.out(&crate::model::text::safe_text(wanted.text().as_bytes()))?;
    match plan::approval(ctx, project)? {
        Approval::Approved(_) => {
            s.ui.say("approved");
            Ok(code::DONE)
        }
        Approval::Needed { changed, .. } => {
            if let Some(c) = changed {
                s.ui.say("since you approved it last:");
                s.ui.say(crate::model::text::safe_text(c.as_bytes()).trim_end());
            }
            s.ui.say("not approved");
            s.ui.hint("git agents trust");
            Ok(code::NO)
        }
    }
}
