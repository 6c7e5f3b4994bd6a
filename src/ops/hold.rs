//! Holds: what keeps all agents of one assistant back, a rate limit or the same early failure three times.
//!
//! Small files beside the slots, each with the assistant's slug in its name, changed under one lock; expendable like
//! everything there.

use super::inventory::{Agent, Inventory};
use super::{Context, Result};
use crate::model::agent::{RunState, Slug};
use crate::runtime::lock::Lock;
use crate::runtime::{clock, files};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// So many starts in a row with the same early failure hold an assistant.
const EARLY_FAILURES: u32 = 3;

/// What keeps all agents of one assistant back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// Whose.
    pub assistant: String,
    /// Why.
    pub reason: String,
    /// Until when (RFC 3339); until it is lifted where `None`.
    pub until: Option<String>,
}

impl Hold {
    fn is_over(&self) -> bool {
        self.until.as_deref().and_then(clock::parse).is_some_and(|t| t <= jiff::Timestamp::now())
    }
}

fn folder(ctx: &Context) -> PathBuf {
    ctx.repo().agents_dir().join("slots")
}

fn path(ctx: &Context, kind: &str, assistant: &str) -> PathBuf {
    folder(ctx).join(format!("{kind}-{}.json", Slug::of(assistant)))
}

fn change(ctx: &Context) -> Result<Lock> {
    Ok(Lock::take(&ctx.state.ensure_dirs()?.join("slots").join("holds.lock"))?)
}

fn read(path: &Path) -> Option<Hold> {
    super::record::read_json::<Hold>(path).filter(|h| !h.is_over())
}

/// The hold on `assistant`, while it lasts.
pub fn hold(ctx: &Context, assistant: &str) -> Option<Hold> {
    read(&path(ctx, "hold", assistant))
}

/// Sets a hold. One that lasts longer stays.
pub fn set(ctx: &Context, h: &Hold) -> Result<()> {
    let _lock = change(ctx)?;
    put(ctx, h)
}

fn put(ctx: &Context, h: &Hold) -> Result<()> {
    let path = path(ctx, "hold", &h.assistant);
    let until = |h: &Hold| h.until.as_deref().and_then(clock::parse);
    if let Some(there) = read(&path)
        && until(h).is_some_and(|new| until(&there).is_none_or(|old| old >= new))
    {
        return Ok(());
    }
    Ok(files::write_atomic(&path, &serde_json::to_vec(h).expect("plain JSON"))?)
}

/// Lifts a hold, and forgets the failures that led to it.
pub fn lift(ctx: &Context, assistant: &str) -> Result<()> {
    let _lock = change(ctx)?;
    for kind in ["hold", "early"] {
        let path = path(ctx, kind, assistant);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(files::because("remove", &path)(e).into()),
            _ => {}
        }
    }
    Ok(())
}

/// Notes that a start of `assistant` failed early (`Some` reason), or did not (`None`). Three in a row with the same
/// reason hold it.
pub fn note_start(ctx: &Context, assistant: &str, failed_early: Option<&str>) -> Result<()> {
    let _lock = change(ctx)?;
    let path = path(ctx, "early", assistant);
    let Some(reason) = failed_early else {
        let _ = std::fs::remove_file(&path);
        return Ok(());
    };
    let (last, count): (String, u32) = super::record::read_json(&path).unwrap_or_default();
    let count = if last == reason { count + 1 } else { 1 };
    files::write_atomic(&path, &serde_json::to_vec(&(reason, count)).expect("plain JSON"))?;
    if count >= EARLY_FAILURES {
        let reason = format!("three starts in a row failed: {reason}");
        put(ctx, &Hold { assistant: assistant.to_owned(), reason, until: None })?;
    }
    Ok(())
}

/// All holds.
pub fn all(ctx: &Context) -> Vec<Hold> {
    let mut found: Vec<Hold> = std::fs::read_dir(folder(ctx))
        .into_iter()
        .flatten()
        .filter_map(std::result::Result::ok)
        .filter(|e| e.file_name().to_str().is_some_and(|n| n.starts_with("hold-") && n.ends_with(".json")))
        .filter_map(|e| read(&e.path()))
        .collect();
    found.sort_by(|a, b| a.assistant.cmp(&b.assistant));
    found
}

/// All holds, for `status`.
pub fn answers(ctx: &Context, inv: &Inventory) -> Vec<super::answer::HoldAnswer> {
    let waiting = |h: &Hold| {
        let says = |a: &Agent| {
            // Without the time, which whoever noted it may have told by another zone's clock.
            let why = a.record.as_ref().and_then(|r| r.reason.as_deref());
            why.is_some_and(|why| why.starts_with(&format!("{} is held: {}", h.assistant, h.reason)))
        };
        inv.agents.iter().filter(|a| a.state() == Some(RunState::Waiting) && says(a)).count()
    };
    let answer = |h: Hold| super::answer::HoldAnswer {
        waiting: waiting(&h),
        assistant: h.assistant,
        reason: h.reason,
        until: h.until,
    };
    all(ctx).into_iter().map(answer).collect()
}

/// Why an agent waits that is held back by `h`.
pub fn waits(h: &Hold) -> String {
    let when = h.until.as_ref().map(|u| format!(" until {}", clock::local(u))).unwrap_or_default();
    format!("{} is held: {}{when}", h.assistant, h.reason)
}
