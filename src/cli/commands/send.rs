//! `git agents send`.

use super::{Outcome, finish, loaded};
use crate::cli::Session;
use crate::cli::error::CliError;
use crate::cli::follow::{self, Options};
use crate::config::Flags;
use crate::model::agent::RunState;
use crate::model::text::shown_path;
use crate::ops::inventory::Inventory;
use crate::ops::retry::{self, Retry};
use crate::ops::select::{self, Match};
use crate::ops::{inbox, plan};
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// One more message to an agent's session; a running one gets it at the end of the attempt
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which agent
    #[arg(value_name = "AGENT")]
    agent: String,
    /// The message
    #[arg(value_name = "MESSAGE")]
    message: Option<String>,
    /// End a running attempt now instead of waiting for its end
    #[arg(long)]
    now: bool,
    /// Write it in your editor
    #[arg(short = 'e', long)]
    edit: bool,
    /// Read it from FILE
    #[arg(short = 'F', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Look on until it is settled
    #[arg(long)]
    wait: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context_to_start()?;
    let text = match (&args.message, &args.file, args.edit) {
        (Some(m), None, false) => m.clone(),
        (None, Some(f), false) => {
            // What `<(command)` names is a pipe.
            let mut bytes = Vec::new();
            let read = std::fs::File::open(s.cwd.join(f)).and_then(|o| o.take(1 << 20).read_to_end(&mut bytes));
            read.map_err(|e| CliError::refused(format!("'{}' cannot be read: {e}", shown_path(f)), "name a file"))?;
            String::from_utf8(bytes)
                .map_err(|_| CliError::refused(format!("'{}' is not UTF-8", shown_path(f)), "a message is text"))?
        }
        (None, None, true) => super::run::edit(&ctx, "")?,
        _ => return Err(CliError::Usage("a message comes as an argument, with -F or with -e: one of them".into())),
    };
    if text.trim().is_empty() || text.contains('\0') {
        return Err(CliError::Usage("the message is empty".into()));
    }
    let inv = Inventory::read(&ctx)?;
    let name = select::one(&ctx, &inv, &args.agent, Match::Whole)?;
    let a = inv
        .find(&name)
        .ok_or_else(|| CliError::refused(format!("there is no agent named '{name}'"), "git agents status"))?;
    if a.task.assistant.is_none() {
        return Err(CliError::refused(
            format!("'{name}' has no assistant to send to"),
            format!("git agents attach {}", crate::model::text::shell_word(&name)),
        ));
    }
    if a.state() == Some(RunState::Attached) {
        return Err(CliError::refused(format!("a person sits in the place of '{name}'"), "tell them, or wait"));
    }
    if inbox::deliver(&a.run, &text)? {
        if args.now {
            crate::runtime::files::write_atomic(&a.run.file("now"), b"now\n")?;
            if let Some(address) = a.run.address() {
                address.supervisor.signal(nix::sys::signal::Signal::SIGUSR1);
            }
        } else {
            let when =
                if a.state() == Some(RunState::Waiting) { "when it starts" } else { "at the end of this attempt" };
            s.ui.say(&format!("'{name}' gets it {when}"));
        }
    } else {
        // One that has just come to its end is still writing that down.
        let deadline = Instant::now() + Duration::from_secs(30);
        while a.run.is_alive()? && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let loaded = loaded(s, &ctx, &Flags::default())?;
        let approved = plan::approved(&ctx, &loaded.project)?;
        retry::retry(&ctx, &loaded, &approved, &name, &Retry { message: Some(text), ..Retry::default() })?;
        s.ui.say(&format!("'{name}' goes on"));
    }
    if args.wait {
        let look = Options { json: args.json, ..Options::default() };
        let end = follow::follow(s, &ctx, vec![(a.reg.id.clone(), name.clone())], &look, &follow::catch()?)?;
        return Ok(end.interrupted.map_or(i32::from(!end.all_succeeded), |n| 128 + n));
    }
    finish(s, args.json, vec![Outcome { name, outcome: "done", reason: None, undo: None }], &[])
}
