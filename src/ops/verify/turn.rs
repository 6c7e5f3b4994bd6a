//! When a test may run: nobody tests the same tree in the same way at this moment, there is room on the disk, and one of
//! the slots for tests is free.
//!
//! The first of these is a lock; who waits for it finds the verdict noted when it is free. It is taken before a slot, and
//! whoever has a slot waits for nothing more. Slots go to whoever asks at the right moment, in no order.

use super::{Check, Patience};
use crate::model::units::format_size;
use crate::ops::create::Step;
use crate::ops::{Context, Error, Result};
use crate::runtime::files;
use crate::runtime::lock::Lock;
use std::path::{Path, PathBuf};

/// Milliseconds between two looks.
const PAUSE: u16 = 100;

/// Only one tests this, for as long as it lives.
#[derive(Debug)]
pub(super) struct Only(Option<Lock>);

impl Drop for Only {
    fn drop(&mut self) {
        if let Some(lock) = self.0.take() {
            lock.remove();
        }
    }
}

fn dir(ctx: &Context) -> Result<PathBuf> {
    let slots = ctx.state.ensure_dirs()?.join("slots");
    let dir = slots.join("tests");
    files::ensure_private_dir(&slots)?;
    files::ensure_private_dir(&dir)?;
    Ok(dir)
}

/// Waits until nobody else tests what `label` names.
pub(super) fn alone(ctx: &Context, label: &str, patience: &Patience<'_>, tell: &mut dyn FnMut(Step)) -> Result<Only> {
    let path = dir(ctx)?.join(format!("of-{label}.lock"));
    let mut told = false;
    loop {
        if let Some(lock) = Lock::try_take(&path)? {
            return Ok(Only(Some(lock)));
        }
        wait("for somebody who tests the same", &mut told, patience, tell)?;
    }
}

/// Waits for room and a slot.
pub(super) fn slot(
    ctx: &Context,
    check: &Check,
    place: &Path,
    patience: &Patience<'_>,
    tell: &mut dyn FnMut(Step),
) -> Result<Lock> {
    let dir = dir(ctx)?;
    let (mut told, mut told_room) = (false, false);
    loop {
        let least = check.plan.min_free;
        if files::free_space(place).is_some_and(|free| free < least) {
            let why = format!("less than {} of disk space is free", format_size(least));
            if !patience.waits_for_room {
                return Err(Error::refused(
                    format!("no test is started: {why}"),
                    "make room, or set 'agents.minFree' lower",
                ));
            }
            wait(&format!("for room: {why}"), &mut told_room, patience, tell)?;
            continue;
        }
        for n in 1..=limit(ctx, check) {
            if let Some(slot) = Lock::try_take(&dir.join(format!("{n}.lock")))? {
                return Ok(slot);
            }
        }
        wait("for a test slot", &mut told, patience, tell)?;
    }
}

/// `agents.tests`, read anew: what the repository's own config says now, else what was planned.
fn limit(ctx: &Context, check: &Check) -> usize {
    let set = crate::git::config_file::read(&ctx.repo().common_dir).ok().and_then(|c| c.value("agents", None, "tests"));
    set.and_then(|v| v.parse().ok()).unwrap_or(check.test.tests).max(1)
}

fn wait(why: &str, told: &mut bool, patience: &Patience<'_>, tell: &mut dyn FnMut(Step)) -> Result<()> {
    if !std::mem::replace(told, true) {
        tell(Step::Waits(why.to_owned()));
    }
    patience.signals.wait(PAUSE);
    patience.check()
}
