//! `git agents exec`.

use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::ops::inventory::{Agent, Inventory};
use crate::ops::select;
use crate::place::job::Job;
use crate::supervisor::attach::in_terminal;
use std::ffi::OsString;
use std::time::Duration;

/// Run a command, or a shell, in an agent's directory with its variables
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which agent
    #[arg(value_name = "AGENT", required_unless_present = "all")]
    agent: Option<String>,
    /// In every agent, one after the other
    #[arg(long, conflicts_with = "agent")]
    all: bool,
    /// The command and its arguments; your shell where there is none
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    let shell = || vec![std::env::var_os("SHELL").filter(|v| !v.is_empty()).unwrap_or_else(|| "/bin/sh".into())];
    let argv = if args.command.is_empty() { shell() } else { args.command.clone() };
    if args.all {
        if args.command.is_empty() {
            return Err(CliError::Usage("'--all' needs a command after '--'".into()));
        }
        let mut worst = code::DONE;
        for a in &inv.agents {
            s.ui.say(&format!("{}:", a.reg.name));
            match one(a, &argv) {
                Ok(0) => {}
                Ok(n) => {
                    s.ui.warn(&format!("'{}': exited with {n}", a.reg.name));
                    worst = code::NO;
                }
                Err(e) => {
                    s.ui.err(e.render().0.trim_end());
                    worst = code::FATAL;
                }
            }
        }
        return Ok(worst);
    }
    let name = select::one(&ctx, &inv, args.agent.as_deref().unwrap_or("@"), select::Match::Whole)?;
    let a = inv
        .find(&name)
        .ok_or_else(|| CliError::refused(format!("there is no agent named '{name}'"), "git agents status"))?;
    one(a, &argv)
}

fn one(a: &Agent, argv: &[OsString]) -> Result<i32, CliError> {
    let entry = a.entry.as_ref().filter(|e| e.link() == crate::git::worktree::Link::Good);
    let entry = entry.ok_or_else(|| {
        CliError::refused(
            format!("'{}' has no directory now", a.reg.name),
            format!("git agents show {}", a.reg.name.typed()),
        )
    })?;
    let job = Job {
        argv: argv.to_vec(),
        env: vec![
            ("AGENTS_NAME".into(), a.reg.name.0.clone().into()),
            ("AGENTS_ID".into(), a.reg.id.0.clone().into()),
            ("AGENTS_BRANCH".into(), a.task.branch_short().into()),
            ("AGENTS_BASE".into(), a.task.base_short().into()),
            ("AGENTS_WORKTREE".into(), entry.path.clone().into()),
        ],
        env_allow: None,
        cwd: entry.path.clone(),
        stdin: None,
        token: crate::runtime::clock::random_hex(16),
        grace: Duration::from_secs(10),
    };
    Ok(in_terminal(&job)?)
}
