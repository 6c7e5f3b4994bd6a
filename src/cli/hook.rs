//! What git's hooks call. The foreground ends with 0 whatever happens, says nothing on standard output, starts no git
//! and waits for nobody; everything else is done by a worker that goes on alone.

use super::error::code;
use super::ui::{ColorChoice, Ui};
use crate::git::{command, worktree};
use crate::model::hook_file::Event;
use crate::ops::{Context, expire, hooks, moved_base, wanted};
use crate::runtime::process;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// `git-agents hook EVENT ARGS`.
pub(super) fn main(args: &[OsString]) -> i32 {
    // Its code would become that of the user's own command.
    std::panic::set_hook(Box::new(|_| {}));
    let _ = std::panic::catch_unwind(|| foreground(args));
    code::DONE
}

fn foreground(args: &[OsString]) -> Option<()> {
    let words: Vec<&str> = args.iter().filter_map(|a| a.to_str()).collect();
    let (event, args) = words.split_first()?;
    let event = Event::parse(event)?;
    let ui = Ui::new(false, Some(ColorChoice::Never), None);
    if let Some(file) = std::env::var_os(hooks::PROBE) {
        hooks::answer(event, Path::new(&file));
        return None;
    }
    let inside = |v: &str| std::env::var_os(v).is_some();
    if inside("GIT_AGENTS_INNER") || inside("AGENTS_NAME") || !is_meant(event, args) {
        return None;
    }
    let (git_dir, common) = place(&std::env::current_dir().ok()?)?;
    if !moved_base::has_agents(&common) || git_dir.join("agents-token").exists() {
        return None;
    }
    // At the end of its own operation git still has the files of it.
    let own = match event {
        Event::Merge => Some("merge"),
        Event::Rewrite if args.first() == Some(&"rebase") => Some("rebase"),
        Event::Rewrite | Event::Checkout => None,
    };
    if worktree::operation(&git_dir).is_some_and(|op| Some(op.as_str()) != own) {
        return None;
    }
    start_worker(&common, "hook-worker");
    for line in moved_base::waiting(&common) {
        ui.say(&line);
    }
    Some(())
}

/// Whether the event moves anything: no squash, no file, no new worktree.
fn is_meant(event: Event, args: &[&str]) -> bool {
    match (event, args) {
        (Event::Merge, [squash, ..]) => *squash != "1",
        (Event::Checkout, [old, _, flag, ..]) => *flag == "1" && !old.bytes().all(|b| b == b'0'),
        (Event::Merge | Event::Checkout, _) => false,
        (Event::Rewrite, [what, ..]) => matches!(*what, "rebase" | "amend"),
        (Event::Rewrite, []) => false,
    }
}

/// The git directory and the common one of where the hook runs: as git says, else found as git would.
pub(super) fn place(here: &Path) -> Option<(PathBuf, PathBuf)> {
    let git_dir = match std::env::var_os("GIT_DIR") {
        Some(dir) => here.join(dir),
        None => here.ancestors().find_map(|d| {
            let inside = d.join(".git");
            // A bare repository has all of it at the top.
            let bare = || (d.join("HEAD").is_file() && d.join("objects").is_dir()).then(|| d.to_owned());
            if inside.is_dir() { Some(inside) } else { worktree::points_to(d).or_else(bare) }
        })?,
    };
    let git_dir = git_dir.canonicalize().ok()?;
    let common = match std::fs::read_to_string(git_dir.join("commondir")) {
        Ok(text) => git_dir.join(text.trim_end_matches('\n')).canonicalize().ok()?,
        Err(_) => git_dir.clone(),
    };
    Some((git_dir, common))
}

/// Starts the worker and does not wait for it. Nothing of what the caller has open stays open because of it.
#[expect(clippy::disallowed_methods, reason = "our own binary, on its own from here on")]
pub(super) fn start_worker(common: &Path, command: &str) {
    use std::os::unix::process::CommandExt as _;
    let Ok(exe) = std::env::current_exe() else { return };
    let mut worker = std::process::Command::new(exe);
    command::scrub(&mut worker);
    if let Some(path) = command::plain_path() {
        worker.env("PATH", path);
    }
    // Nor is it a part of the run that it may be started from.
    worker.env_remove(crate::place::job::TOKEN);
    worker.arg(command).arg(common).current_dir(common).process_group(0);
    worker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(e) = worker.spawn() {
        tracing::debug!(%e, "no worker");
    }
}

/// `git-agents hook-worker COMMON-DIR`.
pub(super) fn worker(common: &Path) -> i32 {
    process::close_inherited();
    crate::supervisor::leave_session();
    // What it has to say is shown by the next command; what it could not do, the next worker does.
    let done = Context::open(common).and_then(|ctx| moved_base::work(&ctx));
    if done.is_ok() { code::DONE } else { code::FATAL }
}

/// After a supervisor: whoever settled last has the reports written that are wanted.
pub(super) fn after_run() {
    let Some(common) = std::env::var_os("GIT_AGENTS_COMMON_DIR").map(PathBuf::from) else { return };
    if wanted::is_any(&common) {
        start_worker(&common, "report-worker");
    }
}

/// `git-agents report-worker COMMON-DIR`.
pub(super) fn report_worker(common: &Path) -> i32 {
    process::close_inherited();
    crate::supervisor::leave_session();
    // What cannot be written is said by the next command that tries.
    let done =
        Context::open(common).is_ok_and(|ctx| super::render::wanted(&ctx).is_ok_and(|(_, wrong)| wrong.is_empty()));
    if done { code::DONE } else { code::FATAL }
}

/// `git-agents expire-worker COMMON-DIR`.
pub(super) fn expire_worker(common: &Path) -> i32 {
    process::close_inherited();
    crate::supervisor::leave_session();
    let done = Context::open(common).and_then(|ctx| expire::run(&ctx));
    if done.is_ok() { code::DONE } else { code::FATAL }
}
