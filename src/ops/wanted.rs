//! Reports that somebody wants in a file once a batch has settled, whoever looks on then.
//!
//! `run -o FILE` notes the wish before anything starts, in `<common dir>/agents/reports/<batch>.json`. The supervisor that
//! settles last has it fulfilled, and so does every `wait`, `report` or `run` that finds it due: all agents of the batch
//! settled, and one of them not as it was at the last writing. So a kill at any moment is made up for by the next of them,
//! and a retry renews the file; that one has landed or was removed since does not: the page would lose it. What is written
//! is the cli's part.

use super::inventory::{Agent, Inventory};
use super::{Context, Error, Result};
use crate::model::agent::RunState;
use crate::model::text::shown_path;
use crate::runtime::files;
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

#[derive(Debug, Serialize, Deserialize)]
struct Wish {
    /// Absolute; exact bytes.
    path: Vec<u8>,
    /// What the agents had ended with when it was written last.
    #[serde(default)]
    ended: Vec<String>,
}

/// A report that is to be written now.
#[derive(Debug)]
pub struct Due {
    /// Of which batch.
    pub batch: u64,
    /// Where to.
    pub path: PathBuf,
    ended: Vec<String>,
}

fn dir(ctx: &Context) -> PathBuf {
    ctx.repo().agents_dir().join("reports")
}

fn file(ctx: &Context, batch: u64) -> PathBuf {
    dir(ctx).join(format!("{batch}.json"))
}

/// Whether any is noted below the common dir; asked by who has not opened the repository.
pub fn is_any(common: &Path) -> bool {
    std::fs::read_dir(common.join("agents/reports")).is_ok_and(|mut d| d.next().is_some())
}

/// An error where `path` cannot be a file of ours: said before anything starts.
pub fn check(path: &Path) -> Result<()> {
    let why = match path.parent().filter(|p| p.is_dir()) {
        _ if path.is_dir() || path.file_name().is_none() => "is a directory".to_owned(),
        None => "is in a directory that does not exist".to_owned(),
        Some(_) => match files::probe(path) {
            Ok(()) => return Ok(()),
            Err(e) => format!("cannot be written: {e}"),
        },
    };
    Err(Error::refused(format!("'{}' {why}", shown_path(path)), "name a file that can be written; nothing was started"))
}

/// Notes that the report of `batch` goes to `path`, durably; without a path that it goes nowhere.
pub fn want(ctx: &Context, batch: u64, path: Option<&Path>) -> Result<()> {
    let file = file(ctx, batch);
    let Some(path) = path else {
        let _ = std::fs::remove_file(&file);
        return Ok(());
    };
    ctx.state.ensure_dirs()?;
    files::ensure_private_dir(&dir(ctx))?;
    Ok(write(&file, &Wish { path: path.as_os_str().as_bytes().to_vec(), ended: Vec::new() })?)
}

fn write(file: &Path, wish: &Wish) -> std::result::Result<(), files::Error> {
    files::write_durable(file, &serde_json::to_vec(wish).expect("a wish is plain JSON"))
}

/// Those that are to be written now.
pub fn due(ctx: &Context, inv: &Inventory) -> Vec<Due> {
    let names = std::fs::read_dir(dir(ctx)).into_iter().flatten().flatten();
    let batches = names.filter_map(|e| e.file_name().to_str()?.strip_suffix(".json")?.parse::<u64>().ok());
    let mut out: Vec<Due> = batches.filter_map(|batch| one(ctx, inv, batch)).collect();
    out.sort_by_key(|d| d.batch);
    out
}

fn one(ctx: &Context, inv: &Inventory, batch: u64) -> Option<Due> {
    let wish: Wish = super::record::read_json(&file(ctx, batch))?;
    let agents: Vec<&Agent> = inv.agents.iter().filter(|a| a.task.batch == Some(batch)).collect();
    if agents.is_empty() || !agents.iter().all(|a| a.state().is_none_or(RunState::is_settled)) {
        return None;
    }
    let end = |a: &&Agent| {
        let r = a.record.as_ref();
        let ended = r.and_then(|r| r.ended.as_deref()).unwrap_or_default();
        format!("{} {} {ended}", a.reg.id, a.state().map_or("", RunState::word))
    };
    let ended: Vec<String> = agents.iter().map(end).collect();
    let path = PathBuf::from(std::ffi::OsString::from_vec(wish.path));
    ended.iter().any(|e| !wish.ended.contains(e)).then_some(Due { batch, path, ended })
}

/// Notes that it has been written.
pub fn written(ctx: &Context, due: &Due) -> Result<()> {
    let path = due.path.as_os_str().as_bytes().to_vec();
    Ok(write(&file(ctx, due.batch), &Wish { path, ended: due.ended.clone() })?)
}
