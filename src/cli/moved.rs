//! The line behind a command's own: what the hook's worker did, and who is behind since a base has moved.

use super::{Command, Session, hook};
use crate::ops::{Context, expire, moved_base};
use std::time::Duration;

/// What a command does about bases that moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Nothing: its output goes into scripts, shells and assistants.
    Silent,
    /// It shows what waits.
    Shows,
    /// It looks as well: it writes anyway.
    Looks,
}

/// The part of `command`.
pub(super) fn part(command: &Command) -> Part {
    match command {
        Command::New(_)
        | Command::Run(_)
        | Command::Adopt(_)
        | Command::Send(_)
        | Command::Stop(_)
        | Command::Retry(_)
        | Command::Land(_)
        | Command::Sync(_)
        | Command::Rm(_)
        | Command::Restore(_)
        | Command::Undo(_) => Part::Looks,
        Command::Clean(args) if args.acts() => Part::Looks,
        Command::Clean(_)
        | Command::Status(_)
        | Command::Show(_)
        | Command::Report(_)
        | Command::Overlap(_)
        | Command::Wait(_) => Part::Shows,
        _ => Part::Silent,
    }
}

/// Says it, on standard error. Nothing that goes wrong here is the command's concern.
pub(super) fn say(s: &Session, part: Part, done: bool) {
    if part == Part::Silent || s.ui.quiet || std::env::var_os("AGENTS_NAME").is_some() {
        return;
    }
    let Some((_, common)) = hook::place(&s.cwd) else { return };
    for line in moved_base::waiting(&common) {
        s.ui.say(&line);
    }
    // What was refused has touched nothing.
    if part != Part::Looks || !done {
        return;
    }
    let Ok(ctx) = Context::open(&s.cwd) else { return };
    if expire::is_due(&ctx) {
        hook::start_worker(&common, "expire-worker");
    }
    if !moved_base::has_agents(&common) {
        return;
    }
    let moved = moved_base::has_hooks(&common) && moved_base::has_moved(&ctx);
    match moved_base::remind(&ctx, Duration::from_secs(2)) {
        Ok(lines) => lines.iter().for_each(|l| s.ui.say(l)),
        Err(e) => tracing::debug!(%e, "bases not looked at"),
    }
    // With our hooks in place, what has landed goes by itself, however the base moved. Only now: at the same time as this
    // the worker would leave the same line for the next command.
    if moved {
        hook::start_worker(&common, "hook-worker");
    }
}
