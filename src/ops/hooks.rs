//! Our hooks among those of others: where they would stand, what stands there, what is written and taken out again.
//!
//! A hook that nobody would run, or that would be somebody else's to keep, is not written; it is said instead.
//! `core.hooksPath` is never set, and a tool's files are touched only when that is asked for.

use super::{Context, Error, Result};
use crate::git::command::{self, Call};
use crate::git::config_file::expand_home;
use crate::git::worktree::Link;
use crate::model::hook_file::{EVENTS, Event, Found, Manager, configured, with_block, without_block};
use crate::model::text::shown_path;
use crate::runtime::{clock, files};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The variable that makes our hook write its name into the file of that path, one that is there, and do nothing else.
/// What it printed would not come through: pre-commit shows no output of what went well.
pub const PROBE: &str = "GIT_AGENTS_PROBE";

/// Everything about the hooks of a repository.
#[derive(Debug, Clone)]
pub struct Survey {
    /// Where git looks for hooks.
    pub dir: PathBuf,
    /// Why nothing may be written there, whatever is allowed.
    pub not_here: Option<String>,
    /// Linked worktrees look elsewhere.
    pub relative: bool,
    /// Why git does not run hooks from its configuration, where it does not.
    pub no_configured: Option<String>,
    /// The tool that rules all of them.
    pub manager: Option<Manager>,
    /// Each event's file.
    pub files: Vec<HookFile>,
}

/// One file.
#[derive(Debug, Clone)]
pub struct HookFile {
    /// Of which event.
    pub event: Event,
    /// Where.
    pub path: PathBuf,
    /// What is there.
    pub found: Found,
    /// Its permissions; `None` where there is none.
    mode: Option<u32>,
    /// Commands that git's configuration names for this event: other people's, unless they call us.
    configured: Vec<String>,
}

impl HookFile {
    /// Whether git's configuration names us.
    fn is_configured(&self) -> bool {
        self.configured.iter().any(|c| calls(self.event, c.as_bytes()))
    }
}

/// Whether `text` is a hook that calls us.
fn calls(event: Event, text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains(&format!("git-agents hook {}", event.word()))
}

/// What the user allowed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowed {
    /// Also into files of other tools.
    pub force: bool,
}

/// What will become of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// All is as it should be.
    Nothing,
    /// The file is written as a whole, because there is none, or it is an older one of ours.
    Write,
    /// Our block goes into somebody's file: asked first.
    Insert,
    /// Our block goes out; the rest stays.
    TakeOut,
    /// Our file is deleted.
    Delete,
    /// It is left alone.
    Leave {
        /// Why.
        why: String,
        /// Where something can be added by hand, and what.
        lines: Option<(String, String)>,
    },
}

/// Looks.
pub fn survey(ctx: &Context) -> Result<Survey> {
    let repo = ctx.repo();
    let top = repo.main_worktree.as_deref().unwrap_or(&repo.common_dir);
    let asked = ["rev-parse", "--path-format=absolute", "--git-path", "hooks"];
    let dir = Call::user_visible(top, asked).env("GIT_DIR", &repo.common_dir).with_inherited_config().text()?;
    let dir = PathBuf::from(dir);
    let set = repo.settings()?.iter().rev().find(|(_, key, _)| key == "core.hookspath");
    let relative = set.is_some_and(|(_, _, v)| !v.starts_with(['/', '~']) && !v.starts_with("%(prefix)"));
    let mut manager = set.filter(|(_, _, v)| v.contains(".husky")).map(|_| Manager::Husky);
    let configs = ["lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json"];
    let is_there = |name: &str| top.join(name).exists() || top.join(format!(".{name}")).exists();
    if manager.is_none() && configs.into_iter().any(is_there) {
        manager = Some(Manager::Lefthook);
    }
    let not_here = not_here(ctx, &dir, set)?;
    let mut files = Vec::new();
    for event in EVENTS {
        let path = dir.join(event.word());
        let (found, mode) = look(event, &path)?;
        let settings = repo.settings()?.iter().map(|(_, key, value)| (key.as_str(), value.as_str()));
        files.push(HookFile { event, path, found, mode, configured: configured(settings, event) });
    }
    let too_old = command::number(&repo.version) < command::CONFIGURED_HOOKS;
    let no_configured = too_old.then(|| format!("git {} does not run hooks from its configuration", repo.version));
    Ok(Survey { dir, not_here, relative, no_configured, manager, files })
}

fn not_here(ctx: &Context, dir: &Path, set: Option<&(String, String, String)>) -> Result<Option<String>> {
    let repo = ctx.repo();
    let shown = shown_path(dir);
    if let Some((scope, _, _)) = set.filter(|(scope, _, _)| scope != "local") {
        return Ok(Some(format!("core.hooksPath is set in git's {scope} configuration, to '{shown}'")));
    }
    // Git has followed links already.
    let named = set.map_or_else(|| repo.common_dir.join("hooks"), |(_, _, v)| expand_home(v));
    if named.symlink_metadata().is_ok_and(|m| m.is_symlink()) {
        return Ok(Some(format!("'{}' is a link to '{shown}'", shown_path(&named))));
    }
    let real = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let main = repo.main_worktree.iter().map(|m| (m.clone(), repo.common_dir.clone()));
    let linked = crate::git::worktree::list(repo)?.into_iter().map(|e| (e.path, e.admin));
    for (top, admin) in
        main.chain(linked).filter(|(top, _)| real.starts_with(top) && !real.starts_with(&repo.common_dir))
    {
        let listed = repo.call_in(&top, &admin, ["ls-files".as_ref(), "-z".as_ref(), "--".as_ref(), real.as_os_str()]);
        if !listed.run()?.is_empty() {
            return Ok(Some(format!("'{shown}' is versioned")));
        }
    }
    Ok(None)
}

fn look(event: Event, path: &Path) -> Result<(Found, Option<u32>)> {
    let Ok(meta) = path.symlink_metadata() else { return Ok((Found::Nothing, None)) };
    if meta.is_symlink() {
        return Ok((Found::Unfit("is a link"), None));
    }
    if !meta.is_file() {
        return Ok((Found::Unfit("is no file"), None));
    }
    let mode = meta.permissions().mode() & 0o7777;
    let text = files::read_limited(path, 4 << 20)?.unwrap_or_default();
    let found = match Found::of(event, &text) {
        // Made executable, what somebody switched off would run.
        Found::Written if mode & 0o111 == 0 => Found::Unfit("is not executable, so that git ignores it"),
        found => found,
    };
    Ok((found, Some(mode)))
}

/// What `install` does with each event.
pub fn plan(s: &Survey, allowed: Allowed) -> Vec<Step> {
    s.files.iter().map(|f| step(s, f, allowed)).collect()
}

fn step(s: &Survey, f: &HookFile, allowed: Allowed) -> Step {
    let shown = shown_path(&f.path);
    let by_hand = |manager: Manager| manager.lines(f.event);
    let line = || Some((format!("'{shown}'"), format!("git-agents hook {} \"$@\" || :", f.event.word())));
    match (f.found, s.manager) {
        (Found::Ours | Found::Block, _) => return Step::Nothing,
        // Twice were once too often.
        _ if f.is_configured() && s.no_configured.is_none() => return Step::Nothing,
        (Found::OldBlock, _) if s.not_here.is_none() => return Step::Write,
        _ => {}
    }
    if let Some(manager) = s.manager.filter(|_| s.not_here.is_some() || !allowed.force) {
        return Step::Leave { why: format!("{manager} keeps the hooks of this repository"), lines: by_hand(manager) };
    }
    if let Some(why) = &s.not_here {
        return Step::Leave { why: why.clone(), lines: line() };
    }
    if s.relative && s.manager.is_none() {
        let why = format!("core.hooksPath is relative: each worktree has its own '{}'", shown_path(&s.dir));
        return Step::Leave { why, lines: line() };
    }
    match f.found {
        Found::Managed(manager) if !allowed.force => {
            let lines = by_hand(manager).or_else(line);
            Step::Leave { why: format!("'{shown}' belongs to {manager}"), lines }
        }
        Found::Unfit(why) => Step::Leave { why: format!("'{shown}' {why}"), lines: line() },
        Found::Managed(_) | Found::Written => Step::Insert,
        Found::Nothing | Found::OldBlock | Found::Ours | Found::Block => Step::Write,
    }
}

/// What `uninstall` does with each event. A block that is in a file is taken out wherever it stands.
pub fn plan_removal(s: &Survey) -> Vec<Step> {
    let of = |f: &HookFile| match (f.found, &s.not_here) {
        (Found::Ours | Found::Block | Found::OldBlock, Some(why)) => {
            Step::Leave { why: format!("{why}; '{}' is not touched", shown_path(&f.path)), lines: None }
        }
        (Found::Ours, None) => Step::Delete,
        (Found::Block | Found::OldBlock, None) => Step::TakeOut,
        _ => Step::Nothing,
    };
    s.files.iter().map(of).collect()
}

/// Does a step. The file is read again: what it has become meanwhile counts.
pub fn apply(f: &HookFile, step: &Step) -> Result<()> {
    let (now, mode) = look(f.event, &f.path)?;
    let changed = || Error::refused(format!("'{}' has changed meanwhile", shown_path(&f.path)), "try again");
    if now != f.found || mode != f.mode {
        return Err(changed());
    }
    let text = files::read_limited(&f.path, 4 << 20)?;
    let dir = f.path.parent().unwrap_or(&f.path);
    match (step, text) {
        (Step::Nothing | Step::Leave { .. }, _) => Ok(()),
        (Step::Write, None) => {
            std::fs::create_dir_all(dir).map_err(files::because("create", dir))?;
            replace(&f.path, f.event.script().as_bytes(), 0o755)
        }
        (Step::Write | Step::Insert, Some(text)) => {
            replace(&f.path, &with_block(f.event, &text), mode.unwrap_or(0o755))
        }
        (Step::TakeOut, Some(text)) => {
            replace(&f.path, &without_block(&text).ok_or_else(changed)?, mode.unwrap_or(0o755))
        }
        (Step::Delete, Some(_)) => Ok(std::fs::remove_file(&f.path).map_err(files::because("delete", &f.path))?),
        (Step::Insert | Step::TakeOut | Step::Delete, None) => Err(changed()),
    }
}

/// Puts `bytes` in the place of a hook in one step: git may run it at any moment.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    use std::io::Write as _;
    if let Some(dir) = path.parent() {
        files::heal(dir);
    }
    let tmp = files::temporary_beside(path);
    let mut file = files::open_private(&tmp, std::fs::OpenOptions::new().write(true).create_new(true))?;
    let done = (|| {
        file.write_all(bytes)?;
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        drop(file);
        std::fs::rename(&tmp, path)
    })();
    if done.is_err() {
        let _ = std::fs::remove_file(&tmp);
    }
    Ok(done.map_err(files::because("write", path))?)
}

/// How a hook stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// A real event reached us, from everywhere we asked.
    Fires,
    /// It does in the main worktree; linked ones look for a hook of their own.
    MainOnly,
    /// It is there, and did not.
    Silent(String),
    /// It is not there.
    Missing,
    /// Other people's hooks would run too: not tried.
    Untried(String),
}

/// Proves by a real event that the hooks fire: from the main worktree, and from a linked one where there is one. Where
/// we are not the first, what others have there would run as well: only when `others` allows it.
pub fn standings(ctx: &Context, s: &Survey, others: bool) -> Result<Vec<Standing>> {
    let repo = ctx.repo();
    let mut places: Vec<(PathBuf, PathBuf)> = Vec::new();
    places.extend(repo.main_worktree.iter().map(|m| (m.clone(), repo.common_dir.clone())));
    let linked = crate::git::worktree::list(repo)?.into_iter().find(|e| e.link() == Link::Good);
    places.extend(linked.map(|e| (e.path, e.admin)));
    if places.is_empty() {
        places.push((repo.common_dir.clone(), repo.common_dir.clone()));
    }
    let one = |f: &HookFile| -> Standing {
        let by_config = f.is_configured();
        // They run before a file, whatever that is.
        let others_there = s.no_configured.is_none() && f.configured.iter().any(|c| !calls(f.event, c.as_bytes()));
        if !f.found.is_in_place() {
            if let (true, Some(why)) = (by_config, &s.no_configured) {
                return Standing::Silent(why.clone());
            }
            let by_hand = s.manager == Some(Manager::Husky)
                && repo.main_worktree.as_ref().is_some_and(|m| {
                    std::fs::read(m.join(".husky").join(f.event.word())).is_ok_and(|t| calls(f.event, &t))
                });
            let called = by_hand || by_config || std::fs::read(&f.path).is_ok_and(|t| calls(f.event, &t));
            let managed = s.manager.or(match f.found {
                Found::Managed(m) => Some(m),
                _ => None,
            });
            let alone = by_config && !others_there && f.found == Found::Nothing;
            if !others && !alone {
                return match managed {
                    _ if called => Standing::Untried("it is called after other commands".into()),
                    Some(m) => Standing::Untried(format!("{m} decides what runs")),
                    None => Standing::Missing,
                };
            }
            if f.found == Found::Nothing && !called {
                return Standing::Missing;
            }
        } else if others_there && !others {
            return Standing::Untried("git's configuration names other commands that run before it".into());
        }
        // What a relative path leads to in an agent's worktree is the agent's own: it is not run.
        let silent = places.iter().take(if s.relative { 1 } else { 2 }).find_map(|(top, admin)| {
            fires(ctx, f.event, top, admin).err().map(|why| format!("from '{}': {why}", shown_path(top)))
        });
        match silent {
            Some(why) => Standing::Silent(why),
            None if s.relative && places.len() > 1 => Standing::MainOnly,
            None => Standing::Fires,
        }
    };
    Ok(s.files.iter().map(one).collect())
}

fn fires(ctx: &Context, event: Event, top: &Path, admin: &Path) -> std::result::Result<(), String> {
    // Arguments of an event that means nothing to anybody: a squash, a file, an unknown command.
    let zero = "0".repeat(ctx.repo().hex_len());
    let args: Vec<&str> = match event {
        Event::Merge => vec!["1"],
        Event::Checkout => vec![&zero, &zero, "0"],
        Event::Rewrite => vec!["probe"],
    };
    let asked = ["hook", "run", "--ignore-missing", event.word(), "--"].into_iter().chain(args);
    let answer = std::env::temp_dir().join(format!("{ANSWER}{}", clock::random_hex(16)));
    files::open_private(&answer, std::fs::OpenOptions::new().write(true).create_new(true))
        .map_err(|e| e.to_string())?;
    let mut call = Call::user_visible(top, asked).env("GIT_DIR", admin).env(PROBE, &answer);
    if top != admin {
        call = call.env("GIT_COMMON_DIR", &ctx.repo().common_dir).env("GIT_WORK_TREE", top);
    }
    let out = call.within(std::time::Duration::from_secs(20)).output();
    let said = files::read_limited(&answer, 1 << 12);
    let _ = std::fs::remove_file(&answer);
    let out = out.map_err(|e| e.to_string())?;
    if said.ok().flatten().is_some_and(|said| said == format!("{}\n", event.word()).as_bytes()) {
        return Ok(());
    }
    let last = String::from_utf8_lossy(&out.stderr).trim().lines().last().map(str::to_owned);
    Err(last.unwrap_or_else(|| "git ran nothing of ours".to_owned()))
}

const ANSWER: &str = "git-agents-probe-";

/// Answers a probe: the name of `event` into `file`, where that is one that waits for it.
pub fn answer(event: Event, file: &Path) {
    use std::io::Write as _;
    let waits = file.file_name().is_some_and(|n| n.to_string_lossy().starts_with(ANSWER))
        && file.symlink_metadata().is_ok_and(|m| m.is_file());
    if waits && let Ok(mut file) = std::fs::OpenOptions::new().append(true).open(file) {
        let _ = writeln!(file, "{}", event.word());
    }
}
