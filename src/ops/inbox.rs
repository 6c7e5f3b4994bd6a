//! Messages to the session of an agent: files in its run folder, taken in when an attempt begins.

use super::Result;
use super::record::RunDir;
use crate::runtime::{clock, files};
use std::path::PathBuf;

/// Leaves a message for the session of an agent.
pub fn leave(run: &RunDir, text: &str) -> Result<()> {
    let dir = run.file("inbox");
    files::ensure_private_dir(&dir)?;
    let name = format!("{}-{}", clock::now().replace([':', '.'], "-"), clock::random_hex(3));
    Ok(files::write_durable(&dir.join(name), text.as_bytes())?)
}

/// Leaves a message for a run under way; `false` where that has come to its end meanwhile.
pub fn deliver(run: &RunDir, text: &str) -> Result<bool> {
    if !run.dir.is_dir() {
        return Ok(false);
    }
    let _door = run.inbox_door()?;
    if run.exit().is_some() || !run.is_alive()? {
        return Ok(false);
    }
    leave(run, text)?;
    Ok(true)
}

/// The messages that wait, oldest first, with their files.
pub fn messages(run: &RunDir) -> Vec<(PathBuf, String)> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(run.file("inbox"))
        .into_iter()
        .flatten()
        .filter_map(std::result::Result::ok)
        .map(|e| e.path())
        .collect();
    found.retain(|p| !p.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')));
    found.sort();
    found.into_iter().filter_map(|p| Some((p.clone(), std::fs::read_to_string(p).ok()?))).collect()
}
