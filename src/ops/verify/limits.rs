//! Trees whose test ran into its time limit. That is no verdict to note on the tree, for on another day or machine it may
//! end; but whoever began before it was seen is spared seeing it again: all agents of a run have one base.

use super::{At, Check, Tested};
use crate::ops::{Context, Result};
use crate::runtime::{clock, files};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Nobody runs as long.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Serialize, Deserialize)]
struct Noted {
    at: String,
    reason: Option<String>,
    seconds: u64,
}

fn dir(ctx: &Context) -> PathBuf {
    ctx.repo().agents_dir().join("cache/limits")
}

/// Another limit is another question.
fn file(ctx: &Context, check: &Check, at: At<'_>) -> PathBuf {
    let limits = (check.test.limit_s.unwrap_or(0), check.plan.setup_time_s.unwrap_or(0));
    dir(ctx).join(format!("{}-{}-{}.json", check.label(at.tree), limits.0, limits.1))
}

/// What is known of it since `at.since`.
pub(super) fn known(ctx: &Context, check: &Check, at: At<'_>) -> Option<Tested> {
    let since = at.since?;
    let path = file(ctx, check, at);
    let noted = std::fs::metadata(&path).and_then(|m| m.modified()).ok()?;
    if noted < since {
        return None;
    }
    let bytes = files::read_limited(&path, 1 << 16).ok()??;
    let Noted { reason, seconds, .. } = serde_json::from_slice(&bytes).ok()?;
    Some(Tested { passed: Some(false), too_long: true, reason, seconds, reused: true, ..Tested::default() })
}

/// Notes it; what nobody can ask for any more goes.
pub(super) fn note(ctx: &Context, check: &Check, at: At<'_>, tested: &Tested) -> Result<()> {
    let dir = dir(ctx);
    if let Some(cache) = dir.parent() {
        files::ensure_private_dir(cache)?;
    }
    files::ensure_private_dir(&dir)?;
    let old = |p: &PathBuf| {
        let age =
            std::fs::metadata(p).and_then(|m| m.modified()).ok().and_then(|t| SystemTime::now().duration_since(t).ok());
        age.is_some_and(|a| a > KEPT)
    };
    for path in std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|e| e.path()).filter(old) {
        let _ = std::fs::remove_file(path);
    }
    let noted = Noted { at: clock::now(), reason: tested.reason.clone(), seconds: tested.seconds };
    let bytes = serde_json::to_vec(&noted).expect("plain JSON");
    Ok(files::write_atomic(&file(ctx, check, at), &bytes)?)
}
