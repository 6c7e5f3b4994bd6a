//! Which worktree belongs to which agent, for certain: token, links and lock, never a path alone.

use super::record::RunDir;
use super::{Context, Error, Result};
use crate::git::state::Registration;
use crate::git::{refs, worktree};
use crate::model::agent::AgentId;
use crate::model::text::{shell_word, shown_path};
use crate::place::files as take;
use crate::runtime::{files, process};
use std::path::Path;

/// The reason a worktree of a live agent is locked with: recognised by its form, its owner proven by boot and start.
pub fn lock_reason(id: &AgentId) -> String {
    let me = process::me();
    format!("git-agents {} {} {}:{}", id, me.boot, me.pid, me.start)
}

/// Whether a lock's reason is in our form; its owner, where it can be told.
pub fn parse_lock_reason(reason: &str) -> Option<(AgentId, process::Identity)> {
    let mut words = reason.strip_prefix("git-agents ")?.split(' ');
    let (id, boot, owner) = (words.next()?, words.next()?, words.next()?);
    let (pid, start) = owner.split_once(':')?;
    let owner = process::Identity { pid: pid.parse().ok()?, start: start.parse().ok()?, boot: boot.to_owned() };
    words.next().is_none().then_some((AgentId(id.to_owned()), owner))
}

/// The worktree entry that belongs to a registration: by git's id, token and path agreeing.
pub fn entry_of(ctx: &Context, reg: &Registration) -> Result<Option<worktree::Entry>> {
    let Some(id) = &reg.worktree else { return Ok(None) };
    let Some(entry) = worktree::read(ctx.repo(), id)? else { return Ok(None) };
    Ok(has_token(&entry, reg).then_some(entry))
}

/// Whether the admin directory carries this registration's token.
pub fn has_token(entry: &worktree::Entry, reg: &Registration) -> bool {
    files::read_limited(&entry.admin.join("agents-token"), 256)
        .ok()
        .flatten()
        .is_some_and(|b| String::from_utf8_lossy(&b).trim() == reg.id.0)
}

/// Whether the repository itself stands where a worktree was.
pub fn is_taken(ctx: &Context, entry: &worktree::Entry) -> bool {
    let repo = ctx.repo();
    let real = |p: &Path| std::fs::canonicalize(p).ok();
    let here = real(&entry.path);
    here.is_some() && repo.main_worktree.iter().chain([&repo.common_dir]).any(|p| real(p) == here)
}

/// Whose worktree it is that `reg` names, where its token says that it is that of another one of `all`.
pub fn owner_of_named<'a>(ctx: &Context, reg: &Registration, all: &'a [Registration]) -> Option<&'a Registration> {
    let entry = worktree::read(ctx.repo(), reg.worktree.as_deref()?).ok()??;
    all.iter().find(|other| other.id != reg.id && has_token(&entry, other))
}

/// Locks the worktree of an agent that goes to work (again), with an owner that can be proven gone.
pub fn lock_worktree(ctx: &Context, reg: &Registration) -> Result<()> {
    if let Some(entry) = entry_of(ctx, reg)? {
        match entry.locked.as_deref() {
            None => worktree::lock(&entry, &lock_reason(&reg.id))?,
            Some(r) if parse_lock_reason(r).is_some_and(|(_, owner)| !owner.is_alive() || owner == process::me()) => {
                worktree::lock(&entry, &lock_reason(&reg.id))?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Releases the lock of ours on the worktree of an agent, and nobody else's.
pub fn unlock_worktree(ctx: &Context, reg: &Registration) -> Result<()> {
    if let Some(entry) = entry_of(ctx, reg)? {
        worktree::unlock(&entry, |r| {
            parse_lock_reason(r)
                .is_some_and(|(id, owner)| id == reg.id && (owner == process::me() || !owner.is_alive()))
        })?;
    }
    Ok(())
}

/// Refuses where this repository is a copy of one in which the run goes on: its processes and its worktree are not ours.
pub fn check_original(run: &RunDir, reg: &Registration) -> Result<()> {
    let Some(original) = run.copied_from() else { return Ok(()) };
    Err(Error::refused(
        format!("this repository is a copy; '{}' runs in '{}'", reg.name, shown_path(&original)),
        format!("nothing was touched; 'git -C {} agents status' shows it", shell_word(&original.to_string_lossy())),
    ))
}

/// Refuses to begin beside a run that lives though its lock is gone: somebody deleted the folder of it.
pub fn check_alone(ctx: &Context, reg: &Registration) -> Result<()> {
    check_original(&RunDir::of(&ctx.state, &reg.id), reg)?;
    let reason = entry_of(ctx, reg)?.and_then(|e| e.locked);
    let owner = reason.and_then(|r| parse_lock_reason(&r)).filter(|(id, _)| *id == reg.id).map(|(_, owner)| owner);
    match owner.filter(|o| *o != process::me() && o.is_alive()) {
        None => Ok(()),
        Some(o) => Err(Error::refused(
            format!("'{}' is running (pid {}), though the folder of its run was deleted", reg.name, o.pid),
            "it makes the folder anew at once; try again",
        )),
    }
}

/// Refuses to start anything in a worktree that is not, or no longer, what was registered.
pub fn check_place(ctx: &Context, reg: &Registration) -> Result<worktree::Entry> {
    let wrong = |what: String| Error::refused(what, format!("git agents show {}", reg.name.typed()));
    let entry = entry_of(ctx, reg)?.ok_or_else(|| wrong(format!("the worktree of '{}' is gone", reg.name)))?;
    match entry.link() {
        worktree::Link::Good => {}
        worktree::Link::Missing => {
            let what = format!("the directory of '{}' is gone: '{}'", reg.name, shown_path(&entry.path));
            if let Some(now) = super::moved::tree(ctx, reg, Some(&entry.path)) {
                let mend = super::moved::command(ctx, std::slice::from_ref(&now));
                let hint = format!("it was moved to '{}'; '{mend}' mends that", shown_path(&now));
                return Err(Error::refused(what, hint));
            }
            let name = reg.name.typed();
            let prefix = format!("refs/agents/auto/{}/", reg.id);
            let number = |name: &String| name.rsplit('/').next().and_then(|n| n.parse::<u64>().ok());
            let kept = refs::list(ctx.repo(), &[&prefix])?.into_keys().max_by_key(number);
            let kept = kept.map(|r| format!("; what was not committed is in '{r}' as it was captured last"));
            return Err(Error::refused(
                what,
                format!(
                    "'git agents rm {name}', then 'git agents restore {name}' bring back what was committed{}",
                    kept.unwrap_or_default()
                ),
            ));
        }
        worktree::Link::Broken(why) => {
            return Err(wrong(format!("the directory of '{}' {why}: '{}'", reg.name, shown_path(&entry.path))));
        }
    }
    let common = files::read_limited(&entry.admin.join("commondir"), 1 << 12)?.unwrap_or_default();
    if String::from_utf8_lossy(&common).trim() != "../.."
        && std::fs::canonicalize(entry.admin.join(String::from_utf8_lossy(&common).trim())).ok().as_ref()
            != Some(&ctx.repo().common_dir)
    {
        return Err(wrong(format!("the worktree of '{}' was pointed at another repository", reg.name)));
    }
    let branch_gone = || refs::read(ctx.repo(), &reg.branch).is_ok_and(|r| r.is_none());
    match &entry.head {
        worktree::Head::Branch(b) if *b == reg.branch => Ok(entry),
        worktree::Head::Branch(_) if branch_gone() => Ok(entry),
        _ if entry.operation().is_some() => Ok(entry),
        worktree::Head::Branch(b) => Err(wrong(format!(
            "the worktree of '{}' has '{}' checked out instead of its own branch",
            reg.name,
            crate::model::task::short_ref(b)
        ))),
        _ => Err(wrong(format!("the worktree of '{}' has no branch checked out", reg.name))),
    }
}

/// What was taken along into a worktree, as noted beside its admin files.
pub fn manifest(entry: &worktree::Entry) -> Manifest {
    Manifest(super::record::read_json(&entry.admin.join(MANIFEST)).unwrap_or_default())
}

pub(super) const MANIFEST: &str = "agents-manifest.json";

/// Files that we put into a worktree.
#[derive(Debug, Default)]
pub struct Manifest(Vec<take::Entry>);

impl Manifest {
    /// Whether `path` is one of them with its bytes unchanged since.
    pub fn is_unchanged(&self, worktree: &Path, path: &[u8]) -> bool {
        use std::os::unix::ffi::OsStrExt as _;
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        self.0.iter().any(|e| e.path.0 == path && take::unchanged(worktree, e))
    }
}
