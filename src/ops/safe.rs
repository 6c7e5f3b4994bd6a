//! Whether an environment may go, and what goes with it. Facts in, verdict out; every command that removes asks here.
//!
//! Any error, time-out or unknown is a reason to keep.

use super::inventory::{Agent, Inventory};
use super::landed::{self, Landing};
use super::{Context, Result, moved};
use crate::git::status::{self, Place};
use crate::git::{capture, endings, locks, sterile, worktree};
use crate::model::agent::{Oid, Origin, Zombie};
use crate::model::event::Kind;
use crate::model::text::{shell_word, shown_path};
use crate::model::units::{count, format_duration};
use crate::runtime::{clock, files, process};
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What is known about an environment that is to be removed.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Its worktree and branch are somebody else's.
    pub adopted: bool,
    /// A supervisor or a person holds its lock.
    pub live: bool,
    /// Processes of its run that outlived their supervisor: pid and command.
    pub at_work: Vec<String>,
    /// A lock of git's in its admin directory: a git may be at work there.
    pub git_lock: Option<String>,
    /// Whoever stands in its directory, those who started us too.
    pub visitors: Vec<process::Identity>,
    /// Locked by a person: the reason.
    pub locked_by_person: Option<String>,
    /// The links between tree and admin directory: `None` is sound.
    pub broken_link: Option<String>,
    /// The command that mends them, where there is one.
    pub mend: Option<String>,
    /// Git's entry is gone, the tree is not: where it stands.
    pub stands: Option<std::path::PathBuf>,
    /// Another worktree, the repository or a mounted file system that lies below the directory.
    pub contains: Option<String>,
    /// There is no directory.
    pub missing: bool,
    /// The operation that is in the middle of something.
    pub operation: Option<String>,
    /// Whether the branch is in its base.
    pub landing: Landing,
    /// The branch has no own commit.
    pub fresh: bool,
    /// The branch is gone.
    pub branch_gone: bool,
    /// Another branch than its own is checked out there.
    pub other_branch: Option<String>,
    /// Modified, staged, untracked or hidden files that count as work.
    pub left_over: Vec<String>,
    /// What could not be found out.
    pub unknown: Option<String>,
    /// Why its run is not over, or its state not sound.
    pub unsettled: Option<String>,
    /// The command was started in it.
    pub here: bool,
    /// An entry of the stash that was made on its branch.
    pub stashed: Option<String>,
    /// Commits that no branch, tag or other worktree has. Looked for where the branch is gone.
    pub only_here: Vec<Oid>,
    /// Seconds since anything happened in it.
    pub quiet_s: u64,
}

/// What to do with the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchFate {
    /// It goes.
    Delete,
    /// It stays.
    Keep,
}

/// Whether it may be removed when somebody asks for it by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to the trash.
    Remove {
        /// And its branch.
        branch: BranchFate,
        /// Why the branch stays.
        because: Vec<String>,
    },
    /// Registration and environment only; worktree and branch are somebody else's.
    Release,
    /// No; why, what to do, and whether a flag changes it.
    Refuse {
        /// Why.
        why: String,
        /// What to do.
        hint: String,
    },
}

/// What the user allowed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowed {
    /// `-D`: the branch too, whatever is on it.
    pub delete_branch: bool,
    /// `--force`: an operation in progress, or what was adopted.
    pub force: bool,
}

/// The table of removal for what was asked for by name.
pub fn judge(name: &str, facts: &Facts, allowed: Allowed) -> Verdict {
    let refuse = |why: String, hint: String| Verdict::Refuse { why, hint };
    if facts.live {
        return refuse(
            format!("'{name}' is running"),
            format!("'git agents rm --stop {}' ends it first", shell_word(name)),
        );
    }
    if !facts.at_work.is_empty() {
        return refuse(
            format!("processes of the run of '{name}' are alive: {}", facts.at_work.join(", ")),
            format!("'git agents rm --stop {}' ends them first", shell_word(name)),
        );
    }
    // Nothing of theirs is touched then, so that nothing else stands in the way.
    if facts.adopted && !allowed.force {
        return Verdict::Release;
    }
    if let Some(reason) = &facts.locked_by_person {
        let because = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        return refuse(
            format!("the worktree of '{name}' is locked{because}"),
            "git worktree unlock releases it".into(),
        );
    }
    if let Some(why) = &facts.broken_link {
        return refuse(
            format!("the directory of '{name}' {why}"),
            facts.mend.clone().unwrap_or_else(|| "nothing was touched; look at 'git worktree list'".into()),
        );
    }
    if let Some(lock) = &facts.git_lock {
        return refuse(
            format!("a git process may be at work in '{name}': {lock}"),
            "wait for it; if no git process is running, remove that file and try again".into(),
        );
    }
    if let Some(why) = &facts.unknown {
        return refuse(format!("'{name}' cannot be judged: {why}"), "nothing was touched".into());
    }
    if let Some(other) = &facts.contains {
        return refuse(
            format!("{other} is below the directory of '{name}', and would go with it"),
            "move it elsewhere first; nothing was touched".into(),
        );
    }
    if let Some(op) = &facts.operation
        && !allowed.force
    {
        return refuse(
            format!("'{name}' is in the middle of a {op}"),
            format!("finish it, or 'git agents rm --force {}'", shell_word(name)),
        );
    }
    let mut because = Vec::new();
    if let Some(other) = &facts.other_branch {
        because.push(format!("its worktree has '{other}' checked out"));
    }
    if let Some(why) = not_landed(facts) {
        because.push(why);
    }
    if facts.stands.is_some() {
        because.push("nobody can tell what is uncommitted".to_owned());
    }
    if !facts.left_over.is_empty() {
        because.push(summary(&facts.left_over));
    }
    if facts.branch_gone {
        return Verdict::Remove { branch: BranchFate::Keep, because: Vec::new() };
    }
    let delete = (because.is_empty() && !facts.adopted) || allowed.delete_branch;
    Verdict::Remove { branch: if delete { BranchFate::Delete } else { BranchFate::Keep }, because }
}

/// Why there is no reason for it any more, where that is so: what may go unasked goes for one of these.
pub fn reason(f: &Facts) -> Option<Zombie> {
    match f.landing {
        Landing::In { .. } => Some(Zombie::Landed),
        _ if f.branch_gone => Some(Zombie::BranchGone),
        _ => None,
    }
}

/// Why an environment that nobody asked to remove stays: everything that keeps it, in words. Nothing: it may go. What is
/// unknown, or somebody else's, or in the middle of anything, keeps it. `min_age`: seconds it must have been quiet;
/// without one landed work goes at once and everything else after a day.
pub fn kept(f: &Facts, min_age: Option<u64>) -> Vec<String> {
    let mut out = Vec::new();
    let mut keep = |why: Option<String>| out.extend(why);
    keep(not_landed(f));
    keep(f.fresh.then(|| "it has no commit of its own".to_owned()).filter(|_| !f.branch_gone));
    let lone = f.only_here.len();
    keep((lone > 0).then(|| format!("nothing else has {} of it", count(lone, "commit"))));
    keep(f.adopted.then(|| "it was adopted".to_owned()));
    keep(f.live.then(|| "it is running".to_owned()));
    keep(f.unsettled.clone());
    keep((!f.at_work.is_empty()).then(|| format!("processes of its run are alive: {}", f.at_work.join(", "))));
    keep(f.git_lock.as_ref().map(|l| format!("a git process may be at work in it: {l}")));
    keep(f.locked_by_person.as_ref().map(|r| match r.as_str() {
        "" => "its worktree is locked".to_owned(),
        r => format!("its worktree is locked ({r})"),
    }));
    keep(f.broken_link.as_ref().map(|why| format!("its directory {why}")));
    keep(
        f.stands
            .as_ref()
            .map(|p| format!("git's entry of its worktree is gone, its files stand at '{}'", shown_path(p))),
    );
    keep((f.missing && f.stands.is_none()).then(|| "its directory is missing".to_owned()));
    keep(f.contains.as_ref().map(|what| format!("{what} is below its directory")));
    keep(f.operation.as_ref().map(|op| format!("it is in the middle of a {op}")));
    keep(f.other_branch.as_ref().map(|b| format!("its worktree has '{b}' checked out")));
    keep((!f.left_over.is_empty()).then(|| summary(&f.left_over)));
    keep(f.stashed.as_ref().map(|entry| format!("something is stashed that was made on its branch ({entry})")));
    keep(f.unknown.as_ref().map(|why| format!("it cannot be judged: {why}")));
    keep(f.here.then(|| "you are in it".to_owned()));
    let users: Vec<String> = f.visitors.iter().map(shown).collect();
    keep((!users.is_empty()).then(|| format!("somebody works in its directory: {}", users.join(", "))));
    let wanted = min_age.unwrap_or(if reason(f) == Some(Zombie::Landed) { 0 } else { 24 * 3600 });
    if out.is_empty() && f.quiet_s < wanted {
        out.push(format!("it was touched {} ago", format_duration(f.quiet_s)));
    }
    out
}

/// Why its branch is not in its base, where it has commits that should be.
fn not_landed(f: &Facts) -> Option<String> {
    match &f.landing {
        Landing::In { .. } => None,
        Landing::TakenBack { at, by } => {
            Some(format!("it landed as {} and was taken back by {}", at.short(), by.short()))
        }
        Landing::Open if f.fresh || f.branch_gone => None,
        Landing::Open => Some("it is not landed".to_owned()),
    }
}

fn summary(paths: &[String]) -> String {
    let shown: Vec<&str> = paths.iter().take(3).map(String::as_str).collect();
    let more = paths.len().saturating_sub(shown.len());
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("uncommitted files: {}{tail}", shown.join(", "))
}

/// Gathers the facts about one agent. What cannot be found out is said in the facts.
pub fn facts(ctx: &Context, inv: &Inventory, a: &Agent, throw_away: &[String]) -> Result<Facts> {
    gather(ctx, inv, a, throw_away, None, Care::Always)
}

/// When a worktree is looked at as if everything there lied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Care {
    Always,
    /// Only where there is a reason to remove it: the rest stays anyway.
    ForWhatMayGo,
}

fn gather(
    ctx: &Context,
    inv: &Inventory,
    a: &Agent,
    throw_away: &[String],
    landing: Option<Landing>,
    care: Care,
) -> Result<Facts> {
    let mut f = Facts { adopted: a.task.origin == Origin::Adopt, live: a.run.is_alive()?, ..Facts::default() };
    if !f.live {
        super::identity::check_original(&a.run, &a.reg)?;
        f.at_work = a.run.left_over().iter().map(shown).collect();
    }
    f.branch_gone = a.tip.is_none();
    f.fresh = !has_own_commit(ctx, inv, a);
    if !f.fresh {
        f.landing = match landing {
            Some(known) => known,
            None => landed::all(ctx, inv, &[a])?.pop().unwrap_or_default(),
        };
    }
    let Some(entry) = &a.entry else {
        f.missing = true;
        f.stands = moved::tree(ctx, &a.reg, None);
        return Ok(f);
    };
    match entry.link() {
        worktree::Link::Good => {}
        worktree::Link::Missing => f.missing = true,
        // Its files are no worktree's: only what is noted of one goes.
        worktree::Link::Broken(_) if super::identity::is_taken(ctx, entry) => f.missing = true,
        worktree::Link::Broken(why) => {
            let is_link = entry.path.symlink_metadata().is_ok_and(|m| m.is_symlink());
            f.mend = is_link.then(|| format!("rm {}", shell_word(&entry.path.to_string_lossy())));
            f.broken_link = Some(why);
        }
    }
    if let Some(now) = moved::stale(ctx, a) {
        f.broken_link = Some(format!("was moved, or its repository was: it is at '{}'", shown_path(&now)));
        f.mend = Some(moved::command(ctx, &[now]));
    }
    if let Some(reason) = &entry.locked {
        match super::identity::parse_lock_reason(reason) {
            Some((id, owner)) if id == a.reg.id && (!owner.is_alive() || owner == process::me()) => {}
            Some(_) if f.live => {}
            _ => f.locked_by_person = Some(reason.clone()),
        }
    }
    f.git_lock = locks::standing(&entry.admin).first().map(|lock| {
        let age = lock.metadata().ok().and_then(|m| m.modified().ok()).and_then(|t| t.elapsed().ok());
        format!("'{}' stands ({} s old)", shown_path(lock), age.map_or(0, |a| a.as_secs()))
    });
    f.operation = entry.operation();
    if let worktree::Head::Branch(b) = &entry.head
        && *b != a.reg.branch
    {
        f.other_branch = Some(crate::model::task::short_ref(b).to_owned());
    }
    if !f.missing && f.broken_link.is_none() {
        let strict = care == Care::Always || reason(&f).is_some();
        match left_over(ctx, inv, entry, throw_away, strict) {
            Ok(files) => f.left_over = files,
            Err(e) => f.unknown = Some(e.to_string()),
        }
        if !strict {
            return Ok(f);
        }
        f.contains = contains(ctx, inv, entry);
        f.visitors = process::standing_in(&entry.path).into_iter().map(|(id, _)| id).collect();
    }
    Ok(f)
}

/// The same with what matters where nobody asked for its removal; `landing`: where that is known. Where there is a reason
/// and nothing keeps it, the whole tree is walked and every process asked for its files; where there is none, git's own
/// short look is enough to tell what is left over.
pub fn facts_unasked(
    ctx: &Context,
    inv: &Inventory,
    a: &Agent,
    throw_away: &[String],
    landing: Option<Landing>,
) -> Result<Facts> {
    let mut f = gather(ctx, inv, a, throw_away, landing, Care::ForWhatMayGo)?;
    f.unsettled = match a.state() {
        Some(state) if !state.is_final() => Some(format!("it is {}", state.word())),
        _ if a.reg.doing.is_some() => Some("something was begun with it and not finished".to_owned()),
        _ => a.damaged.clone(),
    };
    f.stashed = stashed(ctx, crate::model::task::short_ref(&a.reg.branch));
    let Some(entry) = &a.entry else { return Ok(f) };
    if f.branch_gone {
        let kept: Vec<Oid> = inv.refs.values().cloned().collect();
        f.only_here = capture::only_there(ctx.repo(), &ctx.state.objects, entry, &kept)?;
    }
    f.quiet_s = quiet(inv, a, entry);
    f.here = ctx.cwd.starts_with(&entry.path);
    if kept(&f, Some(0)).is_empty() {
        f.visitors = process::users_of(&entry.path);
        f.contains = f.contains.or_else(|| nested(&entry.path));
    }
    if f.here {
        // Said by that already.
        let own = process::ancestors();
        f.visitors.retain(|id| !own.contains(&id.pid));
    }
    Ok(f)
}

/// The entry of the stash that says it was made on `branch`. The stash outlives the worktree; who made it may not find it.
fn stashed(ctx: &Context, branch: &str) -> Option<String> {
    let log = files::read_limited(&ctx.repo().common_dir.join("logs/refs/stash"), 16 << 20).ok()??;
    let log = String::from_utf8_lossy(&log).into_owned();
    let made_on = |line: &str| {
        let what = line.split_once('\t').map_or("", |(_, what)| what);
        let on = what.strip_prefix("WIP on ").or_else(|| what.strip_prefix("On "));
        on.and_then(|on| on.strip_prefix(branch)).is_some_and(|rest| rest.starts_with(':'))
    };
    let n = log.lines().rev().position(made_on)?;
    Some(format!("stash@{{{n}}}"))
}

/// Seconds since anything was noted of it, or written where git keeps its state; none where the clock says later.
fn quiet(inv: &Inventory, a: &Agent, entry: &worktree::Entry) -> u64 {
    let of_git = ["HEAD", "index", "logs/HEAD"].map(|n| entry.admin.join(n));
    let touched = of_git.iter().chain([&entry.path]).filter_map(|p| p.symlink_metadata().ok()?.modified().ok());
    let last = inv.journal.get(&a.reg.id).and_then(|j| clock::parse(&j.events.last()?.at));
    let ended = a.record.as_ref().and_then(|r| clock::parse(r.ended.as_deref()?));
    let noted = [last, ended].into_iter().flatten().map(std::time::SystemTime::from);
    let newest = touched.chain(noted).max();
    newest.and_then(|t| t.elapsed().ok()).map_or(0, |d| d.as_secs())
}

/// A repository below the tree at `top`, ignored or not. What cannot be read may be one.
pub(super) fn nested(top: &Path) -> Option<String> {
    let mut todo = vec![top.to_owned()];
    while let Some(dir) = todo.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else {
            return Some(format!("'{}', which cannot be read,", shown_path(&dir)));
        };
        let names: Vec<_> = entries.filter_map(std::result::Result::ok).collect();
        let has = |name: &str| names.iter().any(|e| e.file_name() == name);
        if (dir != top && has(".git")) || (has("HEAD") && has("objects") && has("refs")) {
            return Some(format!("the repository '{}'", shown_path(&dir)));
        }
        todo.extend(names.iter().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(std::fs::DirEntry::path));
    }
    None
}

/// A process in words.
pub fn shown(id: &process::Identity) -> String {
    let command = crate::model::text::safe_line(process::command_line(id.pid).as_bytes());
    format!("{} (pid {})", crate::model::text::clip(&command, 60), id.pid)
}

/// What lies below a worktree and is not of it.
fn contains(ctx: &Context, inv: &Inventory, entry: &worktree::Entry) -> Option<String> {
    let below = |p: &Path| p != entry.path && p.starts_with(&entry.path);
    if below(&ctx.repo().common_dir) || ctx.repo().main_worktree.as_deref().is_some_and(below) {
        return Some("the repository itself".to_owned());
    }
    let others = inv.worktrees.iter().filter(|e| e.id != entry.id).map(|e| ("the worktree", e.path.clone()));
    let mounts = files::mounts().into_iter().map(|p| ("the mounted file system", p));
    let (kind, path) = others.chain(mounts).find(|(_, p)| below(p))?;
    Some(format!("{kind} '{}'", shown_path(&path)))
}

/// Files that count as work: everything git does not have, the approved throw-away patterns and unchanged files of ours
/// aside. Asked of git in the sterile dir with nothing hidden.
fn left_over(
    ctx: &Context,
    inv: &Inventory,
    entry: &worktree::Entry,
    throw_away: &[String],
    strict: bool,
) -> Result<Vec<String>> {
    let head = match &entry.head {
        // A branch that is gone: what was checked out last.
        worktree::Head::Branch(b) => inv.refs.get(b).cloned().or_else(|| last_checked_out(entry)),
        worktree::Head::Detached(id) => Some(id.clone()),
        worktree::Head::Unknown => None,
    };
    let place = Place { worktree: &entry.path, admin: &entry.admin, head: head.as_ref() };
    let changes = if strict {
        sterile::status(ctx.repo(), &place, sterile::Rules::Strict)?
    } else {
        status::changes(ctx.repo(), &ctx.state.objects, &place)?
    };
    let phantoms = endings::phantoms(ctx.repo(), &place, &changes.modified)?;
    let patterns = patterns(throw_away);
    let manifest = super::identity::manifest(entry);
    let untracked = changes.untracked.iter().filter(|p| {
        let path = Path::new(OsStr::from_bytes(p));
        !patterns.is_match(path) && !manifest.is_unchanged(&entry.path, p)
    });
    let mut out: Vec<String> =
        changes.modified.difference(&phantoms).chain(&changes.conflicted).chain(untracked).map(|p| show(p)).collect();
    if !strict {
        return Ok(out);
    }
    for (path, id) in status::hidden(ctx.repo(), &place)? {
        let file = entry.path.join(OsStr::from_bytes(&path));
        let differs = std::fs::symlink_metadata(&file).is_ok() && !ctx.state.objects.is_blob_of_file(&id, &file);
        if differs {
            out.push(show(&path));
        }
    }
    // A submodule's own commits and files are in its git directory, which goes along; they are work all the same.
    for path in status::submodules(ctx.repo(), &place)? {
        if entry.path.join(OsStr::from_bytes(&path)).join(".git").symlink_metadata().is_ok() {
            out.push(format!("{} (a submodule with a repository of its own)", show(&path)));
        }
    }
    out.sort();
    out.dedup();
    Ok(out)
}

/// The commit that the worktree's own log ends with.
fn last_checked_out(entry: &worktree::Entry) -> Option<Oid> {
    let log = files::read_limited(&entry.admin.join("logs/HEAD"), 64 << 20).ok()??;
    let log = String::from_utf8_lossy(&log).into_owned();
    log.lines().last()?.split(' ').nth(1).and_then(Oid::parse)
}

fn show(p: &[u8]) -> String {
    crate::model::text::safe_path(p)
}

fn patterns(list: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for p in list {
        for form in [p.clone(), format!("**/{p}")] {
            if let Ok(g) = Glob::new(&form) {
                set.add(g);
            }
        }
    }
    set.build().unwrap_or_else(|_| GlobSet::empty())
}

/// Whether the branch has a commit that was made on it: noted in the journal, or in the reflog of the branch or of its
/// worktree as a commit, amend, cherry-pick, revert, am, real merge or rebase pick.
pub fn has_own_commit(ctx: &Context, inv: &Inventory, a: &Agent) -> bool {
    if inv.journal.get(&a.reg.id).is_some_and(|j| j.last(&Kind::Commit).is_some()) || a.reg.ahead.is_some() {
        return true;
    }
    !logged(ctx, a).is_empty()
}

/// The commits that were made on the branch, as far as journal and reflogs know them; see [`has_own_commit`].
pub fn made_on(ctx: &Context, inv: &Inventory, a: &Agent) -> Vec<Oid> {
    let noted = inv.journal.get(&a.reg.id).into_iter().flat_map(|j| j.all(&Kind::Commit));
    noted.filter_map(|e| Oid::parse(e.text("commit")?)).chain(logged(ctx, a)).collect()
}

/// Of those the ones in reflogs.
fn logged(ctx: &Context, a: &Agent) -> Vec<Oid> {
    let mut entries: Vec<(String, String)> = Vec::new();
    if ctx.repo().reftable {
        let log = |name: &str| ["log", "-g", "--format=%H%x09%gs", name, "--"].map(str::to_owned);
        let mut calls = vec![ctx.repo().call(log(&a.reg.branch))];
        calls.extend(a.entry.as_ref().map(|e| ctx.repo().call_in(&e.path, &e.admin, log("HEAD"))));
        for text in calls.into_iter().filter_map(|c| c.text().ok()) {
            entries.extend(text.lines().filter_map(|l| l.split_once('\t')).map(|(id, w)| (id.into(), w.into())));
        }
    } else {
        let mut logs = vec![ctx.repo().common_dir.join("logs").join(&a.reg.branch)];
        logs.extend(a.entry.as_ref().map(|e| e.admin.join("logs/HEAD")));
        for bytes in logs.iter().filter_map(|p| std::fs::read(p).ok()) {
            let text = String::from_utf8_lossy(&bytes);
            let entry = |(who, what): (&str, &str)| Some((who.split(' ').nth(1)?.to_owned(), what.to_owned()));
            entries.extend(text.lines().filter_map(|l| l.split_once('\t')).filter_map(entry));
        }
    }
    entries.iter().filter(|(_, what)| is_own_entry(what)).filter_map(|(id, _)| Oid::parse(id)).collect()
}

fn is_own_entry(what: &str) -> bool {
    let made = [
        "commit",
        "cherry-pick",
        "revert",
        "am",
        "rebase (pick)",
        "rebase (squash)",
        "rebase (fixup)",
        "rebase (reword)",
    ];
    let kind = what.split(':').next().unwrap_or_default();
    made.iter().any(|m| kind == *m || kind.starts_with(&format!("{m} (")))
        || (kind.starts_with("merge ") && !what.contains("Fast-forward"))
}
