//! From a wish to an environment: checked first, registered in one durable step, then made so that a kill anywhere
//! leaves a registered agent that `retry` and `rm` understand, or nothing.

use super::base::Base;
use super::identity::{MANIFEST, entry_of, lock_reason, parse_lock_reason, unlock_worktree};
use super::naming::{Taken, check_free};
use super::plan::RunPlan;
use super::{Context, Error, Result};
use crate::git::command::Call;
use crate::git::state::{Held, Registration, event};
use crate::git::{refs, worktree};
use crate::model::agent::{Name, Oid, Slug};
use crate::model::event::Kind;
use crate::model::task::Task;
use crate::place::files as take;
use crate::runtime::{clock, files};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An environment to be made, decided in full. Nothing exists yet.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Everything that was asked for.
    pub task: Task,
    /// Where its tree will be.
    pub path: PathBuf,
}

/// Registers what was planned: task objects, registrations, `created` events, all durable when this returns. Names are
/// checked again under the lock; the first that is taken stops it before anything is written.
pub fn register(ctx: &Context, planned: &[Planned]) -> Result<Vec<(Registration, Task)>> {
    let held = ctx.state.lock()?;
    let mut taken = Taken::read(ctx)?;
    for p in planned {
        if let Some(why) = taken.obstacle(&p.task.name.0, p.task.branch_short()) {
            return Err(Error::refused(why, "somebody was faster; try again"));
        }
        check_free(&p.path)?;
        taken.take(&p.task.name.0, p.task.branch_short());
    }
    write(ctx, &held, planned.iter().map(|p| (p, Some("create"))))
}

/// The writing half of [`register`], also for adopted worktrees (`doing` is `None`: nothing is to be made).
pub fn write<'a>(
    ctx: &Context,
    held: &Held,
    planned: impl Iterator<Item = (&'a Planned, Option<&'static str>)>,
) -> Result<Vec<(Registration, Task)>> {
    let mut out = Vec::new();
    let mut events = Vec::new();
    for (p, doing) in planned {
        let id = ctx.state.write_task(held, &p.task)?;
        let r = Registration {
            name: p.task.name.clone(),
            id: id.clone(),
            branch: p.task.branch.clone(),
            base: p.task.base.clone(),
            fork: p.task.base_commit.clone(),
            ahead: None,
            worktree: None,
            doing: doing.map(str::to_owned),
            path: doing.map(|_| p.path.clone()),
        };
        events.push(event(
            &id,
            Kind::Created,
            json!({ "name": r.name, "branch": r.branch, "base": r.base, "base_commit": r.fork }),
        ));
        out.push((r, p.task.clone()));
    }
    let regs: Vec<Registration> = out.iter().map(|(r, _)| r.clone()).collect();
    ctx.state.register_all(held, &regs)?;
    ctx.state.append(held, &events)?;
    Ok(out)
}

/// What happens while an environment is made.
#[derive(Debug, Clone)]
pub enum Step {
    /// The tree is there.
    Worktree(PathBuf),
    /// Files were taken along.
    Files(take::Taken),
    /// Something the user should know.
    Warning(String),
}

/// Makes the environment of a registered agent: worktree, checkout, files taken along. What is there already (after a
/// kill) is kept where it is sound and made anew where it is not. Setup is the caller's: it may take long.
pub fn materialize(
    ctx: &Context,
    reg: &mut Registration,
    plan: &RunPlan,
    tell: &mut dyn FnMut(Step),
) -> Result<worktree::Entry> {
    if reg.doing.is_none()
        && let Some(entry) = entry_of(ctx, reg)?
    {
        return Ok(entry);
    }
    let path = reg.path.clone().unwrap_or_else(|| plan.path.clone());
    if reg.doing.as_deref() == Some("create") {
        let held = ctx.state.lock()?;
        let half_made = worktree::list(ctx.repo())?.iter().any(|e| e.path == path) || path.symlink_metadata().is_ok();
        if half_made || refs::read(ctx.repo(), &reg.branch)?.is_some() {
            undo_create(ctx, &held, reg)?;
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(files::because("create", parent))?;
        }
        let made = worktree::add(ctx.repo(), &path, &reg.branch, Some(&reg.fork), &lock_reason(&reg.id));
        if let Err(e) = made {
            undo_create(ctx, &held, reg)?;
            return Err(e.into());
        }
        let entry = worktree::find_by_path(ctx.repo(), &path)?.ok_or_else(|| {
            Error::refused(format!("git made no worktree at '{}'", path.display()), "see 'git worktree list'")
        })?;
        files::write_durable(&entry.admin.join("agents-token"), format!("{}\n", reg.id).as_bytes())?;
        reg.worktree = Some(entry.id.clone());
        reg.doing = Some("checkout".into());
        ctx.state.register(&held, reg)?;
    }
    let entry = entry_of(ctx, reg)?.ok_or_else(|| {
        Error::refused(format!("the worktree of '{}' is gone", reg.name), format!("git agents rm {}", reg.name.typed()))
    })?;
    if reg.doing.as_deref() == Some("checkout") {
        checkout(ctx, reg, &entry, plan, tell)?;
        reg.doing = None;
        reg.path = None;
        let held = ctx.state.lock()?;
        ctx.state.register(&held, reg)?;
    }
    Ok(entry)
}

/// Makes a worktree for a branch that exists, for an agent that was registered to adopt it.
pub fn check_out_branch(ctx: &Context, reg: &mut Registration, plan: &RunPlan) -> Result<worktree::Entry> {
    let path = plan.path.clone();
    let give_up = |ctx: &Context, held: &Held, reg: &Registration| -> Result<()> {
        ctx.state.append(held, &[event(&reg.id, Kind::Removed, json!({ "unfinished": true }))])?;
        Ok(ctx.state.unregister(held, &reg.name)?)
    };
    {
        let held = ctx.state.lock()?;
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(files::because("create", parent))?;
        }
        if let Err(e) = worktree::add(ctx.repo(), &path, &reg.branch, None, &lock_reason(&reg.id)) {
            give_up(ctx, &held, reg)?;
            return Err(e.into());
        }
        let entry = worktree::find_by_path(ctx.repo(), &path)?.ok_or_else(|| {
            Error::refused(format!("git made no worktree at '{}'", path.display()), "see 'git worktree list'")
        })?;
        files::write_durable(&entry.admin.join("agents-token"), format!("{}\n", reg.id).as_bytes())?;
        reg.worktree = Some(entry.id);
        ctx.state.register(&held, reg)?;
    }
    let entry = entry_of(ctx, reg)?.ok_or_else(|| Error::refused("the new worktree is gone", "git worktree list"))?;
    let tip = refs::read(ctx.repo(), &reg.branch)?.unwrap_or_else(|| reg.fork.clone());
    let as_made = Registration { fork: tip, doing: Some("checkout".into()), path: Some(path), ..reg.clone() };
    checkout(ctx, &as_made, &entry, plan, &mut |_| {})?;
    reg.doing = None;
    reg.path = None;
    let held = ctx.state.lock()?;
    ctx.state.register(&held, reg)?;
    drop(held);
    unlock_worktree(ctx, reg)?;
    Ok(entry)
}

fn checkout(
    ctx: &Context,
    reg: &Registration,
    entry: &worktree::Entry,
    plan: &RunPlan,
    tell: &mut dyn FnMut(Step),
) -> Result<()> {
    let repo = ctx.repo();
    // The user's filters run: that is what a checkout is. Nothing else of theirs does.
    let reset = Call::user_visible(
        &entry.path,
        ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false"],
    )
    .env("GIT_DIR", &entry.admin)
    .env("GIT_COMMON_DIR", &repo.common_dir)
    .env("GIT_WORK_TREE", &entry.path)
    .env_remove("GIT_NO_LAZY_FETCH");
    let mut reset = reset;
    for a in ["reset", "--hard", "--quiet", "--no-recurse-submodules"] {
        reset.arg(a);
    }
    if let Err(e) = reset.run() {
        let text = e.to_string();
        let held = ctx.state.lock()?;
        undo_create(ctx, &held, reg)?;
        let mut back = reg.clone();
        back.worktree = None;
        back.doing = Some("create".into());
        back.path = Some(plan.path.clone());
        ctx.state.register(&held, &back)?;
        let hint = filter_hint(ctx, &reg.fork, &text);
        return Err(Error::Refused { what: format!("could not check out '{}': {text}", reg.name), hint });
    }
    post_checkout(ctx, reg, entry, tell);
    if let Some(source) = plan.source.as_ref().filter(|s| **s != entry.path) {
        let taken = take_along(ctx, source, &entry.path, plan)?;
        files::write_atomic(&entry.admin.join(MANIFEST), &serde_json::to_vec(&taken.copied).expect("plain JSON"))?;
        tell(Step::Files(taken));
    }
    if entry.path.join(".gitmodules").exists() && plan.submodules == "none" {
        tell(Step::Warning(
            "submodules are not initialised; 'git submodule update --init' in the worktree does it".to_owned(),
        ));
    } else if plan.submodules != "none" && entry.path.join(".gitmodules").exists() {
        let mut call = Call::user_visible(&entry.path, ["submodule", "update", "--init", "--quiet"]);
        if plan.submodules == "recursive" {
            call.arg("--recursive");
        }
        if let Err(e) = call.run() {
            tell(Step::Warning(format!("submodules could not be initialised: {e}")));
        }
    }
    if repo.main_worktree.as_ref().is_some_and(|m| m.join(".jj").is_dir()) {
        tell(Step::Warning("jj manages the main checkout; run jj there, not in this worktree".to_owned()));
    }
    tell(Step::Worktree(entry.path.clone()));
    Ok(())
}

/// The user's hook expects to be called once for a new worktree. Its failure is a warning: the tree stands.
fn post_checkout(ctx: &Context, reg: &Registration, entry: &worktree::Entry, tell: &mut dyn FnMut(Step)) {
    let zeros = reg.fork.zero_like();
    let args = ["hook", "run", "--ignore-missing", "post-checkout", "--", &zeros.0, &reg.fork.0, "1"];
    let call = Call::user_visible(&entry.path, args)
        .env("GIT_DIR", &entry.admin)
        .env("GIT_COMMON_DIR", &ctx.repo().common_dir)
        .env("GIT_WORK_TREE", &entry.path)
        .within(Duration::from_secs(300));
    match call.output() {
        Ok(o) if o.status.success() => {}
        Ok(o) => tell(Step::Warning(format!(
            "the post-checkout hook failed with code {}; the worktree stands",
            o.status.code().unwrap_or(-1)
        ))),
        Err(e) => tell(Step::Warning(format!("the post-checkout hook could not be run: {e}"))),
    }
}

/// Which attribute line named the filter that stopped a checkout.
fn filter_hint(ctx: &Context, commit: &Oid, text: &str) -> Option<String> {
    let name = text
        .split("filter '")
        .nth(1)
        .or_else(|| text.split("filter ").nth(1))
        .map(|r| r.chars().take_while(|c| !c.is_whitespace() && *c != '\'').collect::<String>());
    let driver = name.filter(|n| !n.is_empty());
    let tree = ctx.state.objects.tree(commit).ok()?;
    let attributes = tree.iter().find(|e| e.name == b".gitattributes")?;
    let bytes = ctx.state.objects.blob(&attributes.id).ok()??;
    let lines = String::from_utf8_lossy(&bytes).into_owned();
    let line = lines.lines().find(|l| match &driver {
        Some(_) => l.contains("filter="),
        None => l.contains("filter="),
    })?;
    Some(format!(
        "a filter of this repository is missing or failed; '.gitattributes' says '{}'; nothing is left behind",
        line.trim()
    ))
}

/// Ignored files that the environment needs, taken from the checkout the command was started in.
fn take_along(ctx: &Context, source: &Path, to: &Path, plan: &RunPlan) -> Result<take::Taken> {
    let include = files::read_limited(&source.join(".worktreeinclude"), 64 << 10)?
        .map(|b| String::from_utf8_lossy(&b).into_owned());
    if plan.copy.is_empty() && plan.clone.is_empty() && include.is_none() {
        return Ok(take::Taken::default());
    }
    let ignored = ignored_below(ctx, source)?;
    let is_ignored = |rel: &Path, is_dir: bool| ignored.contains(rel, is_dir);
    let options = take::Options {
        from: source,
        to,
        ignored: &is_ignored,
        copy: &plan.copy,
        include_file: include,
        clone: &plan.clone,
        clone_fallback_copy: plan.clone_fallback_copy,
        clone_limit: plan.clone_limit,
        copy_secrets: plan.copy_secrets,
    };
    take::take_along(&options).map_err(|e| Error::Place(e.into()))
}

struct Ignored(BTreeSet<PathBuf>);

impl Ignored {
    fn contains(&self, rel: &Path, _is_dir: bool) -> bool {
        rel.ancestors().any(|a| self.0.contains(a))
    }
}

/// What git ignores in a checkout, directories collapsed.
fn ignored_below(ctx: &Context, source: &Path) -> Result<Ignored> {
    use std::os::unix::ffi::OsStrExt as _;
    let admin = if ctx.repo().main_worktree.as_deref() == Some(source) {
        ctx.repo().common_dir.clone()
    } else {
        worktree::points_to(source).unwrap_or_else(|| ctx.repo().common_dir.clone())
    };
    let args = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
    let out = ctx.repo().call_in(source, &admin, args).within(Duration::from_secs(120)).run()?;
    let paths = out.split(|b| *b == 0).filter(|p| !p.is_empty());
    Ok(Ignored(paths.map(|p| PathBuf::from(std::ffi::OsStr::from_bytes(p.strip_suffix(b"/").unwrap_or(p)))).collect()))
}

/// Takes back a creation that did not come to its end: nothing in it was ever handed to anyone. The registration stays;
/// the branch goes only if it is still where we made it.
pub fn undo_create(ctx: &Context, _held: &Held, reg: &Registration) -> Result<()> {
    debug_assert!(matches!(reg.doing.as_deref(), Some("create" | "checkout")));
    let repo = ctx.repo();
    let path = reg.path.clone();
    let admin_top = repo.common_dir.join("worktrees");
    for e in std::fs::read_dir(&admin_top).into_iter().flatten().filter_map(std::result::Result::ok) {
        let admin = e.path();
        let locked = files::read_limited(&admin.join("locked"), 1 << 12)?.unwrap_or_default();
        let ours = parse_lock_reason(String::from_utf8_lossy(&locked).trim()).is_some_and(|(id, _)| id == reg.id);
        if ours {
            remove(&admin)?;
        }
    }
    if let Some(path) = path.filter(|p| p.symlink_metadata().is_ok()) {
        // The place was free when this was registered, and git either had not begun there or had linked it to the
        // entry that is gone now.
        let linked = worktree::points_to(&path);
        let empty = std::fs::read_dir(&path).is_ok_and(|mut d| d.next().is_none());
        if empty || linked.is_some_and(|l| l.starts_with(&admin_top) && !l.exists()) {
            remove(&path)?;
        }
    }
    if let Some(tip) = refs::read(repo, &reg.branch)? {
        let elsewhere = worktree::list(repo)?.iter().any(|e| e.head == worktree::Head::Branch(reg.branch.clone()));
        if tip == reg.fork && !elsewhere {
            refs::delete(repo, &reg.branch, &tip)?;
        }
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::symlink_metadata(dir).map_err(files::because("read", dir))?;
    Ok(files::remove_tree(dir, meta.dev())?)
}

/// A new batch number: one more than any task object or registration knows.
pub fn next_batch(ctx: &Context) -> Result<u64> {
    Ok(ctx.state.tasks()?.iter().filter_map(|(_, t)| t.batch).max().unwrap_or(0) + 1)
}

/// What is common to every task object.
pub fn task_skeleton(name: &str, branch: &str, base: &Base, origin: crate::model::agent::Origin) -> Task {
    Task {
        version: 1,
        name: Name(name.to_owned()),
        slug: Slug::of(name),
        title: name.to_owned(),
        origin,
        branch: format!("refs/heads/{branch}"),
        base: base.name.clone(),
        base_commit: base.commit.clone(),
        created: clock::now(),
        random: clock::random_hex(16),
        batch: None,
        number: None,
        list: None,
        digest: None,
        group: None,
        after: Vec::new(),
        assistant: None,
        model: None,
        permission: crate::model::agent::Permission::Edit,
        files: Vec::new(),
        retries: 0,
        time_s: None,
        stall_s: None,
        cost_usd: None,
        total_cost_usd: None,
        until: None,
        parallel: None,
        prompt: String::new(),
    }
}
