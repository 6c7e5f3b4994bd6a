//! A worktree for one test: made, used and taken away by one command, and nobody's place.
//!
//! It stands where agents' worktrees stand (tools that look upwards for their settings must not find the main checkout's)
//! on a commit and no branch, locked with a reason by which every listing of ours knows to leave it out. What there is of
//! it is written down in a folder of its own before anything is made; that folder's lock says whether its owner lives.
//! Where it does not, whoever takes the repository's lock ends what still runs there and takes it all away.

use super::plan::RunPlan;
use super::record::{Address, RunDir, read_json};
use super::unfinished::{self, Since};
use super::{Context, Error, Result, create, identity};
use crate::git::state::{Held, Registration};
use crate::git::worktree::{self, Entry};
use crate::model::agent::{AgentId, Name, Oid};
use crate::model::text::shown_path;
use crate::place::files::RelPath as AnyPath;
use crate::runtime::lock::Lock;
use crate::runtime::process::{self, Identity};
use crate::runtime::{clock, files};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One that stands; taken away when dropped.
#[derive(Debug)]
pub(super) struct Scratch<'c> {
    ctx: &'c Context,
    run: RunDir,
    made: Made,
    /// Marks every process in it.
    pub(super) token: String,
    /// Held while it is wanted.
    _lock: Lock,
}

/// What is written down of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Made {
    path: AnyPath,
    commit: Oid,
}

/// A new name, which nothing else has: of the folder, and in the reason of the lock.
pub(super) fn new_name() -> String {
    format!("merged-{}", clock::random_hex(6))
}

impl<'c> Scratch<'c> {
    /// Makes one at `path` with the files of the commit that `commit` gives under the repository's lock.
    pub(super) fn make(
        ctx: &'c Context,
        name: &str,
        path: PathBuf,
        plan: &RunPlan,
        commit: &dyn Fn() -> Result<Oid>,
        tell: &mut dyn FnMut(create::Step),
    ) -> Result<Scratch<'c>> {
        let held = ctx.state.lock()?;
        let _ = super::repair::repair(ctx, &held)?;
        super::naming::check_free(&path)?;
        let made = Made { path: AnyPath(path), commit: commit()? };
        let top = top(ctx);
        files::ensure_private_dir(&top)?;
        let run = RunDir { dir: top.join(name) };
        files::ensure_private_dir(&run.dir)?;
        let lock = Lock::take(&run.lock_path())?;
        let token = clock::random_hex(16);
        let scratch = Scratch { ctx, run, made, token, _lock: lock };
        let reg = stand_in(&scratch.run.dir, &scratch.made);
        let added = scratch.add(&reg);
        // What was begun is taken away under the same lock.
        drop(held);
        added?;
        let entry = scratch.entry()?;
        create::checkout(ctx, &reg, &entry, plan, tell)?;
        Ok(scratch)
    }

    fn add(&self, reg: &Registration) -> Result<()> {
        self.write_address(None)?;
        files::write_durable(&self.run.file("made.json"), &serde_json::to_vec(&self.made).expect("plain JSON"))?;
        if let Some(parent) = self.path().parent() {
            std::fs::create_dir_all(parent).map_err(files::because("create", parent))?;
        }
        let reason = identity::lock_reason(&reg.id);
        Ok(worktree::add_detached(self.ctx.repo(), self.path(), &self.made.commit, &reason)?)
    }

    /// The top of its tree.
    pub(super) fn path(&self) -> &Path {
        &self.made.path
    }

    /// What is checked out in it.
    pub(super) fn commit(&self) -> &Oid {
        &self.made.commit
    }

    /// Its git directory.
    pub(super) fn admin(&self) -> Result<PathBuf> {
        Ok(self.entry()?.admin)
    }

    fn entry(&self) -> Result<Entry> {
        worktree::find_by_path(self.ctx.repo(), self.path())?.ok_or_else(|| {
            Error::refused(format!("git made no worktree at '{}'", shown_path(self.path())), "see 'git worktree list'")
        })
    }

    /// Notes who runs in it, for whoever has to end it.
    pub(super) fn write_address(&self, leader: Option<&Identity>) -> Result<()> {
        let (assistant, token) = (leader.cloned(), self.token.clone());
        let address = Address { supervisor: process::me(), assistant, token, home: None };
        Ok(self.run.write_address(&address)?)
    }

    fn clear(&self) -> Result<()> {
        // Most of it before the lock is taken: there may be much.
        if self.entry().is_ok_and(|e| e.link() == worktree::Link::Good) {
            unfinished::empty(self.path())?;
        }
        let held = self.ctx.state.lock()?;
        take_away(self.ctx, &held, &self.run.dir)
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if let Err(e) = self.clear() {
            // The next command that takes the lock tries again.
            tracing::warn!(error = %e, "the worktree of a test stays");
        }
    }
}

/// Takes away what commands that are gone left. What cannot be taken away now stays for the next one.
pub(super) fn heal(ctx: &Context, held: &Held) {
    for e in std::fs::read_dir(top(ctx)).into_iter().flatten().filter_map(std::result::Result::ok) {
        let run = RunDir { dir: e.path() };
        let Ok(Some(_lock)) = Lock::try_take(&run.lock_path()) else { continue };
        run.end_left_over(Duration::from_secs(1));
        if let Err(e) = take_away(ctx, held, &run.dir) {
            tracing::warn!(error = %e, "the worktree of a test stays");
        }
    }
}

fn top(ctx: &Context) -> PathBuf {
    ctx.repo().agents_dir().join("scratch")
}

fn take_away(ctx: &Context, held: &Held, dir: &Path) -> Result<()> {
    if let Some(made) = read_json::<Made>(&dir.join("made.json")) {
        let reg = stand_in(dir, &made);
        // First of all git forgets it: it never lists a worktree that is half gone.
        unfinished::put_admins_aside(ctx, &reg)?;
        unfinished::undo(ctx, held, &reg, Since::Now)?;
    }
    // Its notes go last: without them nobody would know what it was.
    unfinished::remove(dir)
}

/// It is an unfinished creation of nobody's.
fn stand_in(dir: &Path, made: &Made) -> Registration {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Registration {
        name: Name(name.clone()),
        id: AgentId(name),
        // There is no such branch; none goes with it.
        branch: "refs/heads/".into(),
        base: made.commit.0.clone(),
        fork: made.commit.clone(),
        ahead: None,
        worktree: None,
        doing: Some("adopt".into()),
        path: Some(made.path.0.clone()),
    }
}
