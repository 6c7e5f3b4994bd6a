//! Taking what exists under management: somebody's worktree, a branch, a remote branch, a request of a forge.

use super::base;
use super::create::{self, Planned};
use super::naming::{self, Taken, Wish};
use super::record::RunDir;
use super::unfinished::{self, Since};
use super::{Context, Error, Loaded, Result, identity, plan};
use crate::config::ApprovedPlan;
use crate::git::command::Call;
use crate::git::state::Registration;
use crate::git::{refs, worktree};
use crate::model::agent::{Oid, Origin};
use crate::model::task::short_ref;
use crate::model::tasks::check_name;
use crate::model::text::{shell_word, shown_path};
use crate::runtime::files;
use std::path::{Path, PathBuf};

/// What is to be adopted.
#[derive(Debug, Clone)]
pub enum What {
    /// A linked worktree with a branch checked out.
    Worktree(worktree::Entry),
    /// A branch that is checked out nowhere, full name.
    Branch(String),
    /// A remote-tracking branch, full name; a local one is made of it.
    Remote(String),
    /// A request of a forge, fetched by its reference.
    Request {
        /// The remote.
        remote: String,
        /// Its reference there.
        reference: String,
        /// The local branch, short.
        branch: String,
    },
    /// An agent whose registration is damaged: its name.
    Damaged(String),
}

/// What was adopted.
#[derive(Debug, Clone)]
pub struct Adopted {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
}

/// Finds what `word` means.
pub fn find(ctx: &Context, word: &str, cwd: &Path) -> Result<What> {
    let (managed, damaged) = ctx.state.registrations()?;
    let anothers = |r: &Registration| r.name.0 == word && identity::owner_of_named(ctx, r, &managed).is_some();
    if damaged.iter().any(|d| d == word) || managed.iter().any(anothers) {
        return Ok(What::Damaged(word.to_owned()));
    }
    // One whose adoption was cut short is adopted again.
    let (cut_short, managed): (Vec<Registration>, Vec<Registration>) =
        managed.into_iter().partition(|r| is_cut_short(ctx, r));
    let already = |r: &Registration| {
        Error::refused(format!("'{}' is managed already", r.name), format!("git agents show {}", r.name.typed()))
    };
    let as_path = cwd.join(word);
    if let Ok(path) = std::fs::canonicalize(&as_path)
        && path.is_dir()
    {
        if ctx.repo().main_worktree.as_deref() == Some(path.as_path()) {
            return Err(Error::refused("the main checkout cannot be an agent", "name a linked worktree or a branch"));
        }
        if let Some(entry) = worktree::find_by_path(ctx.repo(), &path)? {
            if let Some(r) = managed.iter().find(|r| r.worktree.as_deref() == Some(entry.id.as_str())) {
                return Err(already(r));
            }
            if let Some(r) = cut_short.iter().find(|r| r.path.as_ref() == Some(&entry.path)) {
                return Ok(What::Branch(r.branch.clone()));
            }
            return Ok(What::Worktree(entry));
        }
        if word.contains('/') || word == "." {
            return Err(Error::refused(
                format!("'{}' is not a worktree of this repository", shown_path(&path)),
                "git worktree list",
            ));
        }
    }
    for (prefix, pattern) in [("pr/", "refs/pull/{}/head"), ("mr/", "refs/merge-requests/{}/head")] {
        if let Some(n) = word.strip_prefix(prefix)
            && !n.is_empty()
            && n.bytes().all(|b| b.is_ascii_digit())
            // Fetched before: then it is a branch like any other, and what was done on it stays.
            && refs::read(ctx.repo(), &format!("refs/heads/{word}"))?.is_none()
        {
            return Ok(What::Request {
                remote: remote(ctx)?,
                reference: pattern.replace("{}", n),
                branch: word.to_owned(),
            });
        }
    }
    let full = format!("refs/heads/{word}");
    for full in [word.to_owned(), full] {
        if full.starts_with("refs/heads/") && refs::read(ctx.repo(), &full)?.is_some() {
            if let Some(r) = managed.iter().find(|r| r.branch == full) {
                return Err(already(r));
            }
            if cut_short.iter().any(|r| r.branch == full) {
                return Ok(What::Branch(full));
            }
            if let Some(entry) =
                worktree::list(ctx.repo())?.into_iter().find(|e| e.head == worktree::Head::Branch(full.clone()))
            {
                return Ok(What::Worktree(entry));
            }
            if worktree::head(ctx.repo(), &ctx.repo().common_dir) == worktree::Head::Branch(full.clone())
                && ctx.repo().main_worktree.is_some()
            {
                return Err(Error::refused(
                    format!("branch '{}' is checked out in the main checkout", short_ref(&full)),
                    "switch the main checkout to another branch first",
                ));
            }
            return Ok(What::Branch(full));
        }
    }
    let full = format!("refs/remotes/{word}");
    if refs::read(ctx.repo(), &full)?.is_some() {
        return Ok(What::Remote(full));
    }
    let shown = crate::model::text::safe_line(word.as_bytes());
    Err(Error::refused(
        format!("'{shown}' is neither a worktree nor a branch"),
        "'git branch -a' and 'git worktree list' show what there is",
    ))
}

fn is_cut_short(ctx: &Context, r: &Registration) -> bool {
    r.doing.as_deref() == Some("adopt") && RunDir::of(&ctx.state, &r.id).is_alive().is_ok_and(|alive| !alive)
}

fn remote(ctx: &Context) -> Result<String> {
    match super::typed::remotes(ctx)? {
        Some(Ok(one)) => Ok(one),
        None => Err(Error::refused("there is no remote to fetch from", "git remote add origin URL")),
        Some(Err(many)) => Err(Error::refused(
            format!("which remote? there are {}", many.join(", ")),
            "fetch it yourself, then adopt the branch",
        )),
    }
}

/// Adopts it: registered, with a worktree made where there is none.
pub fn adopt(ctx: &Context, loaded: &Loaded, approved: &ApprovedPlan, what: What) -> Result<Adopted> {
    if let What::Damaged(name) = &what {
        let held = ctx.state.lock()?;
        let reg = super::rebuild::rebuild(ctx, &held, name)?;
        let path = identity::entry_of(ctx, &reg)?.map(|e| e.path).or(reg.path);
        return Ok(Adopted { name: name.clone(), path: path.unwrap_or_default() });
    }
    let what = match what {
        What::Request { remote, reference, branch } => {
            let full = format!("refs/heads/{branch}");
            let taken = Taken::read(ctx)?;
            if let Some(why) = taken.obstacle(&branch, &branch) {
                return Err(Error::refused(
                    why,
                    format!("git agents adopt {}, or delete that branch first", shell_word(&branch)),
                ));
            }
            let spec = format!("{reference}:{full}");
            Call::user_visible(&ctx.repo().common_dir, ["fetch", "--quiet", "--no-tags", &remote, &spec])
                .env("GIT_DIR", &ctx.repo().common_dir)
                .run()?;
            What::Branch(full)
        }
        What::Remote(full) => {
            let short = short_ref(&full).split_once('/').map(|(_, b)| b.to_owned()).unwrap_or_default();
            if let Err(why) = check_name(&short) {
                return Err(Error::refused(why, "'git switch -c NAME' makes a branch of it with another name"));
            }
            let local = format!("refs/heads/{short}");
            let tip = refs::read(ctx.repo(), &full)?
                .ok_or_else(|| Error::refused(format!("'{}' is gone", short_ref(&full)), "git fetch"))?;
            match refs::read(ctx.repo(), &local)? {
                None => refs::update(ctx.repo(), &local, &tip, None)?,
                Some(_) => {
                    return Err(Error::refused(
                        format!("branch '{short}' exists already"),
                        format!("git agents adopt {}", shell_word(&short)),
                    ));
                }
            }
            What::Branch(local)
        }
        other => other,
    };
    let (branch, entry) = match what {
        What::Worktree(entry) => match &entry.head {
            worktree::Head::Branch(b) => {
                if entry.admin.file_name().is_none_or(|n| n.to_str().is_none()) {
                    return Err(Error::refused(
                        format!("git's name for the worktree at '{}' is not plain text", shown_path(&entry.path)),
                        "'git worktree add' with another name, then adopt that one",
                    ));
                }
                if entry.link() != worktree::Link::Good {
                    return Err(Error::refused(
                        format!("'{}' and its git directory do not belong together", shown_path(&entry.path)),
                        "git worktree repair",
                    ));
                }
                (b.clone(), Some(entry))
            }
            _ => {
                let hint = format!("git -C {} switch -c NAME", shell_word(&entry.path.to_string_lossy()));
                return Err(Error::refused(format!("'{}' has no branch checked out", shown_path(&entry.path)), hint));
            }
        },
        What::Branch(b) => (b, None),
        What::Remote(_) | What::Request { .. } | What::Damaged(_) => unreachable!("made a branch above"),
    };
    let tip = refs::read(ctx.repo(), &branch)?
        .ok_or_else(|| Error::refused("the branch has no commit", "git commit first"))?;
    let asked = loaded.settings.base.as_deref().map(str::to_owned).or_else(|| default_base(ctx));
    let base = base::resolve(ctx, asked.as_deref())?;
    let fork = ctx.state.objects.merge_bases(&base.commit, &tip)?.into_iter().next();
    // Without a common history, or where it is cut off, everything beyond the base is its own.
    let fork = fork.unwrap_or_else(|| base.commit.clone());
    register(ctx, loaded, approved, &branch, &base.name, fork, entry)
}

/// The branch of the main checkout: an adopted worktree's own branch is no base for itself.
fn default_base(ctx: &Context) -> Option<String> {
    match worktree::head(ctx.repo(), &ctx.repo().common_dir) {
        worktree::Head::Branch(b) => Some(b),
        _ => None,
    }
}

fn register(
    ctx: &Context,
    loaded: &Loaded,
    approved: &ApprovedPlan,
    branch: &str,
    base: &str,
    fork: Oid,
    entry: Option<worktree::Entry>,
) -> Result<Adopted> {
    let short = short_ref(branch).to_owned();
    let as_base = base::Base { name: base.to_owned(), commit: fork, note: None };
    let held = ctx.state.lock()?;
    let _ = super::repair::repair(ctx, &held)?;
    for r in ctx.state.registrations()?.0.iter().filter(|r| r.branch == branch && is_cut_short(ctx, r)) {
        if let Some(entry) = identity::entry_of(ctx, r)?.filter(unfinished::is_checked_out) {
            // All but the last step was done.
            identity::unlock_worktree(ctx, r)?;
            let done = Registration { doing: None, path: None, ..r.clone() };
            ctx.state.register(&held, &done)?;
            return Ok(Adopted { name: done.name.0, path: entry.path });
        }
        unfinished::give_up(ctx, &held, r, Since::Earlier)?;
    }
    let registered = ctx.state.registrations()?.0;
    if let Some(r) = registered.iter().find(|r| r.branch == branch) {
        return Err(Error::refused(format!("'{}' is managed already", r.name), format!("git agents show {}", r.name)));
    }
    // The handle is the branch without the prefix of ours; where that is taken, the branch.
    let handle = short.strip_prefix(&loaded.settings.branch_prefix).unwrap_or(&short).to_owned();
    let usable = check_name(&handle).is_ok() && !registered.iter().any(|r| r.name.0 == handle);
    let name = if usable { handle } else { short.clone() };
    if let Err(why) = check_name(&name) {
        return Err(Error::refused(why, "'git branch -m' gives it another name"));
    }
    if registered.iter().any(|r| r.name.0 == name) {
        return Err(Error::refused(
            format!("an agent named '{name}' exists already"),
            format!("git agents show {}", shell_word(&name)),
        ));
    }
    let task = create::task_skeleton(&name, &short, &as_base, Origin::Adopt);
    match entry {
        Some(entry) => {
            let planned = Planned { task, path: entry.path.clone() };
            let (mut reg, _) = create::write(ctx, &held, std::iter::once((&planned, None)))?.remove(0);
            files::write_durable(&entry.admin.join("agents-token"), format!("{}\n", reg.id).as_bytes())?;
            reg.worktree = Some(entry.id);
            ctx.state.register(&held, &reg)?;
            Ok(Adopted { name, path: planned.path })
        }
        None => {
            let wish =
                Wish { name: &name, branch: &short, base: &as_base, dir: &loaded.settings.worktree_dir, batch: None };
            let path = naming::place(ctx, &wish)?;
            naming::check_free(&path)?;
            let plan = plan::run_plan(ctx, loaded, approved, path.clone(), None)?;
            let planned = Planned { task, path: path.clone() };
            let (mut reg, _, run, lock) = create::write_locked(ctx, &held, &planned, "adopt")?;
            drop(held);
            create::check_out_branch(ctx, &mut reg, &plan)?;
            let _ = std::fs::remove_file(run.file("state.json"));
            drop(lock);
            Ok(Adopted { name, path })
        }
    }
}
