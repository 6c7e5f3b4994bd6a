//! Trees that git no longer finds: moved by hand, moved with their repository, or left without git's entry of them.
//! Nothing is changed here: what mends it is git's own command, which is named with its paths.

use super::base::Base;
use super::inventory::{Agent, Inventory};
use super::naming::{self, Wish};
use super::record::RunDir;
use super::{Context, plan};
use crate::config::Flags;
use crate::git::state::Registration;
use crate::git::worktree::{self, Link};
use crate::model::task::short_ref;
use crate::model::text::shell_word;
use std::path::{Path, PathBuf};

/// Where the tree of `reg` stands that is not where git has it: a directory near its place, in the agents' folder, or as
/// it was planned, whose link names the worktree's id here, or in a repository that is no longer there.
pub fn tree(ctx: &Context, reg: &Registration, linked: Option<&Path>) -> Option<PathBuf> {
    let admin = ctx.repo().common_dir.join("worktrees").join(reg.worktree.as_deref()?);
    let belongs = |dir: &Path| {
        worktree::points_to(dir).is_some_and(|t| t == admin || was_here(&t, &admin))
            && dir.file_name().is_some()
            && Some(dir) != linked
    };
    let planned = plan::read(&RunDir::of(&ctx.state, &reg.id)).map(|p| p.path);
    if let Some(there) = planned.as_deref().filter(|p| belongs(p)) {
        return Some(there.to_owned());
    }
    let folder = folder(ctx, reg);
    let near = linked.and_then(Path::parent);
    let tops = [folder.as_deref(), near, near.and_then(Path::parent), planned.as_deref().and_then(Path::parent)];
    let below =
        |d: &Path| std::fs::read_dir(d).into_iter().flatten().filter_map(std::result::Result::ok).map(|e| e.path());
    tops.into_iter().flatten().flat_map(below).find(|d| belongs(d))
}

/// Whether `target` is what `admin` was called before its repository moved.
fn was_here(target: &Path, admin: &Path) -> bool {
    target.file_name() == admin.file_name()
        && target.parent().and_then(Path::file_name).is_some_and(|n| n == "worktrees")
        && target.ancestors().nth(2).is_some_and(|repository| repository.symlink_metadata().is_err())
}

/// The folder that its tree would be made in now.
fn folder(ctx: &Context, reg: &Registration) -> Option<PathBuf> {
    let dir = ctx.settings(&Flags::default()).ok()?.settings.worktree_dir;
    let base = Base { name: reg.base.clone(), commit: reg.fork.clone(), note: None };
    let wish = Wish { name: &reg.name.0, branch: short_ref(&reg.branch), base: &base, dir: &dir, batch: None };
    naming::place(ctx, &wish).ok()?.parent().map(Path::to_owned)
}

/// The tree of an agent whose links are stale and that one command mends: moved, or of a repository that moved.
pub fn stale(ctx: &Context, a: &Agent) -> Option<PathBuf> {
    let entry = a.entry.as_ref()?;
    match entry.link() {
        Link::Good => None,
        Link::Missing => tree(ctx, &a.reg, Some(&entry.path)),
        Link::Broken(_) => {
            let stays = worktree::points_to(&entry.path).is_some_and(|t| was_here(&t, &entry.admin));
            if stays { Some(entry.path.clone()) } else { tree(ctx, &a.reg, Some(&entry.path)) }
        }
    }
}

/// The command that mends the links of `trees`.
pub fn command(ctx: &Context, trees: &[PathBuf]) -> String {
    let at = ctx.repo().main_worktree.as_ref().unwrap_or(&ctx.repo().common_dir);
    let mut out = format!("git -C {} worktree repair", shell_word(&at.to_string_lossy()));
    for t in trees {
        out = format!("{out} {}", shell_word(&t.to_string_lossy()));
    }
    out
}

/// Whether every agent's directory is missing: the repository was moved, or a disk is not there. Nobody is a zombie then.
pub fn all_missing(inv: &Inventory) -> bool {
    let mut links = inv.agents.iter().filter_map(|a| a.entry.as_ref()).map(worktree::Entry::link);
    inv.agents.iter().filter(|a| a.entry.is_some()).count() > 1 && links.all(|l| l == Link::Missing)
}
