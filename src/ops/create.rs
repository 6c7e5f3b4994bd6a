//! From a wish to an environment: checked first, registered in one durable step, then made so that a kill anywhere
//! leaves a registered agent that `retry` and `rm` understand, or nothing.

use super::base::Base;
use super::identity::{MANIFEST, entry_of, lock_reason, unlock_worktree};
use super::naming::{Taken, check_free};
use super::plan::RunPlan;
use super::record::{Record, RunDir};
use super::unfinished::{self, Since};
use super::{Context, Error, Result};
use crate::git::command::Call;
use crate::git::locks::Mark;
use crate::git::state::{Held, Registration, event};
use crate::git::{refs, worktree};
use crate::model::agent::{Name, Oid, RunState, Slug};
use crate::model::event::Kind;
use crate::model::task::Task;
use crate::model::text::shown_path;
use crate::place::files as take;
use crate::runtime::lock::Lock;
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

/// Registers one environment and takes its lock with it, so that there is no moment at which it looks dead.
pub fn register_locked(ctx: &Context, planned: &Planned) -> Result<(Registration, Task, RunDir, Lock)> {
    let held = ctx.state.lock()?;
    let _ = super::repair::repair(ctx, &held)?;
    let mut taken = Taken::read(ctx)?;
    check(&mut taken, planned)?;
    write_locked(ctx, &held, planned, "create")
}

/// [`write()`] for one, with its lock taken and its run noted.
pub fn write_locked(
    ctx: &Context,
    held: &Held,
    planned: &Planned,
    doing: &'static str,
) -> Result<(Registration, Task, RunDir, Lock)> {
    let (reg, task) = write(ctx, held, std::iter::once((planned, Some(doing))))?.remove(0);
    let run = RunDir::of(&ctx.state, &reg.id);
    run.ensure()?;
    let lock = Lock::take(&run.lock_path())?;
    run.write_live(&Record::new(RunState::Preparing, 0))?;
    Ok((reg, task, run, lock))
}

fn check(taken: &mut Taken, p: &Planned) -> Result<()> {
    if let Some(why) = taken.obstacle(&p.task.name.0, p.task.branch_short()) {
        return Err(Error::refused(why, "somebody was faster; try again"));
    }
    check_free(&p.path)?;
    taken.take(&p.task.name.0, p.task.branch_short());
    Ok(())
}

/// Registers what was planned: task objects, registrations, `created` events, all durable when this returns. Names are
/// checked again under the lock; the first that is taken stops it before anything is written.
pub fn register(ctx: &Context, planned: &[Planned]) -> Result<Vec<(Registration, Task)>> {
    let held = ctx.state.lock()?;
    let _ = super::repair::repair(ctx, &held)?;
    let mut taken = Taken::read(ctx)?;
    for p in planned {
        check(&mut taken, p)?;
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
    /// A test waits, for this.
    Waits(String),
    /// A test begins.
    Tests,
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
        let half_made = path.symlink_metadata().is_ok() || worktree::find_by_path(ctx.repo(), &path)?.is_some();
        if half_made || refs::read(ctx.repo(), &reg.branch)?.is_some() {
            unfinished::undo(ctx, &held, reg, Since::Earlier)?;
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(files::because("create", parent))?;
        }
        let made = worktree::add(ctx.repo(), &path, &reg.branch, Some(&reg.fork), &lock_reason(&reg.id));
        if let Err(e) = made {
            unfinished::undo(ctx, &held, reg, Since::Now)?;
            return Err(e.into());
        }
        let entry = worktree::find_by_path(ctx.repo(), &path)?.ok_or_else(|| {
            Error::refused(format!("git made no worktree at '{}'", shown_path(&path)), "see 'git worktree list'")
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
        {
            let _held = ctx.state.lock()?;
            unfinished::heal_locks(ctx, reg)?;
        }
        if let Err(e) = checkout(ctx, reg, &entry, plan, tell) {
            if !unfinished::is_checked_out(&entry) {
                // From the beginning again, next time.
                let held = ctx.state.lock()?;
                unfinished::undo(ctx, &held, reg, Since::Earlier)?;
                reg.worktree = None;
                reg.doing = Some("create".into());
                ctx.state.register(&held, reg)?;
            }
            return Err(e);
        }
        worktree::sync(ctx.repo(), &entry, &reg.branch)?;
        finished(ctx, reg)?;
    }
    Ok(entry)
}

/// Makes a worktree for a branch that exists, for an agent that was registered to adopt it. What an earlier attempt left
/// is taken back first; where this one fails the branch stays and the agent does not.
pub fn check_out_branch(ctx: &Context, reg: &mut Registration, plan: &RunPlan) -> Result<worktree::Entry> {
    let made = check_out_existing(ctx, reg, plan);
    if made.is_err() && reg.doing.is_some() {
        let held = ctx.state.lock()?;
        unfinished::give_up(ctx, &held, reg, Since::Now)?;
    }
    made
}

fn check_out_existing(ctx: &Context, reg: &mut Registration, plan: &RunPlan) -> Result<worktree::Entry> {
    let path = plan.path.clone();
    let held = ctx.state.lock()?;
    unfinished::undo(ctx, &held, reg, Since::Earlier)?;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(files::because("create", parent))?;
    }
    worktree::add(ctx.repo(), &path, &reg.branch, None, &lock_reason(&reg.id))?;
    let entry = worktree::find_by_path(ctx.repo(), &path)?.ok_or_else(|| {
        Error::refused(format!("git made no worktree at '{}'", shown_path(&path)), "see 'git worktree list'")
    })?;
    files::write_durable(&entry.admin.join("agents-token"), format!("{}\n", reg.id).as_bytes())?;
    reg.worktree = Some(entry.id.clone());
    ctx.state.register(&held, reg)?;
    drop(held);
    let tip = refs::read(ctx.repo(), &reg.branch)?.unwrap_or_else(|| reg.fork.clone());
    checkout(ctx, &Registration { fork: tip, ..reg.clone() }, &entry, plan, &mut |_| {})?;
    worktree::sync(ctx.repo(), &entry, &reg.branch)?;
    // The lock before the last step: a kill between the two leaves something that is seen to be unfinished.
    unlock_worktree(ctx, reg)?;
    finished(ctx, reg)?;
    Ok(entry)
}

/// The last step; where it cannot be noted, it was not taken.
fn finished(ctx: &Context, reg: &mut Registration) -> Result<()> {
    let done = Registration { doing: None, path: None, ..reg.clone() };
    let held = ctx.state.lock()?;
    ctx.state.register(&held, &done)?;
    *reg = done;
    Ok(())
}

/// Fills the tree of `entry` with the files of the fork and what is taken along.
pub(super) fn checkout(
    ctx: &Context,
    reg: &Registration,
    entry: &worktree::Entry,
    plan: &RunPlan,
    tell: &mut dyn FnMut(Step),
) -> Result<()> {
    let repo = ctx.repo();
    if !unfinished::is_checked_out(entry) {
        fill(ctx, reg, entry)?;
    }
    if plan.post_checkout {
        post_checkout(ctx, reg, entry, tell);
    }
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
    if let Some(outermost) = super::naming::superproject(ctx)?.filter(|s| !entry.path.starts_with(s)) {
        let (at, outermost) = (shown_path(&entry.path), shown_path(&outermost));
        tell(Step::Warning(format!("this is a submodule: '{at}' is outside of its superproject '{outermost}'")));
    }
    if repo.main_worktree.as_ref().is_some_and(|m| m.join(".jj").is_dir()) {
        tell(Step::Warning("jj manages the main checkout; run jj there, not in this worktree".to_owned()));
    }
    tell(Step::Worktree(entry.path.clone()));
    Ok(())
}

/// Puts the files of the fork into a tree that has none, or not all of them.
fn fill(ctx: &Context, reg: &Registration, entry: &worktree::Entry) -> Result<()> {
    // The user's filters run: that is what a checkout is. Nothing else of theirs does.
    let args = [
        "-c",
        "core.fsmonitor=false",
        "-c",
        "advice.detachedHead=false",
        "reset",
        "--hard",
        "--quiet",
        "--no-recurse-submodules",
    ];
    let reset = Call::user_visible(&entry.path, args)
        .without_hooks(&ctx.repo().configured_hooks())
        .env("GIT_DIR", &entry.admin)
        .env("GIT_COMMON_DIR", &ctx.repo().common_dir)
        .env("GIT_WORK_TREE", &entry.path)
        .env_remove("GIT_NO_LAZY_FETCH");
    let mark = Mark::of_worktree(ctx.repo(), &entry.admin, &reg.branch);
    let result = reset.run();
    mark.end(&result);
    let Err(e) = result else { return Ok(()) };
    let text = e.to_string();
    let hint = filter_hint(ctx, &reg.fork, &text);
    Err(Error::Refused { what: format!("could not check out '{}': {text}", reg.name), hint })
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

/// Which attribute line named the filter that stopped a checkout; `None` where git's words speak of none.
fn filter_hint(ctx: &Context, commit: &Oid, text: &str) -> Option<String> {
    if !text.contains("filter") {
        return None;
    }
    let tree = ctx.state.objects.tree(commit).ok()?;
    let attributes = tree.iter().find(|e| e.name == b".gitattributes")?;
    let bytes = ctx.state.objects.blob(&attributes.id).ok()??;
    let lines = String::from_utf8_lossy(&bytes).into_owned();
    // The driver that git names, where the file has it; else whatever line has a driver.
    let drivers = || lines.lines().filter(|l| l.contains("filter="));
    let named = drivers().find(|l| {
        l.split_whitespace().filter_map(|w| w.strip_prefix("filter=")).any(|d| text.split(['\'', ' ']).any(|w| w == d))
    });
    let line = named.or_else(|| drivers().next())?;
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
        test: None,
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
