//! `git agents new`.

use super::{loaded, refuse_inside};
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::config::{ApprovedPlan, Flags};
use crate::git::command::Call;
use crate::git::status::{self, Place};
use crate::git::worktree::{Entry, Link};
use crate::model::agent::Origin;
use crate::model::text::shown_path;
use crate::ops::commands::Commands;
use crate::ops::create::{self, Planned, Step};
use crate::ops::identity;
use crate::ops::inventory::Inventory;
use crate::ops::naming::{self, Taken, Wish};
use crate::ops::record::RunDir;
use crate::ops::unfinished::{self, Since};
use crate::ops::{Context, base, plan, repair};
use crate::place::job::Happening;
use crate::runtime::signals::{Signals, Wake};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Make one environment: branch, worktree, files taken along, setup; no assistant yet
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "The branch is exactly NAME. Standard output is one line, the directory.")]
pub struct Args {
    /// The branch, and the agent's name
    #[arg(required_unless_present = "hook", default_value = "", hide_default_value = true)]
    name: String,
    /// Start from REV ('@': the current branch)
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// What shall be done here, for a later 'retry' or 'attach'
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// Take the uncommitted changes of this checkout along (they stay here too)
    #[arg(long)]
    with_changes: bool,
    /// Do not run the setup commands
    #[arg(long)]
    no_setup: bool,
    /// Fetch first
    #[arg(long)]
    fetch: bool,
    /// Then sit down in it (with assistant A, else a shell)
    #[arg(long, value_name = "A", num_args = 0..=1, default_missing_value = "")]
    attach: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Allow it inside an agent
    #[arg(long)]
    nested: bool,
    /// Speak the protocol of ASSISTANT's hook that makes worktrees (claude), read from standard input
    #[arg(long, value_name = "ASSISTANT", value_parser = ["claude"], conflicts_with_all = ["name", "json", "attach"])]
    hook: Option<String>,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    if args.hook.is_some() {
        return hook(s, args);
    }
    refuse_inside(args.nested, "new")?;
    make(s, args)
}

/// What claude asks for instead of making a worktree itself: the answer is the last line of standard output, and any exit
/// code but 0 means that there is none.
fn hook(s: &Session, args: &Args) -> Result<i32, CliError> {
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(1 << 20).read_to_end(&mut input);
    let call: serde_json::Value = read.ok().and_then(|_| serde_json::from_slice(&input).ok()).unwrap_or_default();
    // Its versions call the name differently; one of them gave a path.
    let named = ["name", "worktree_name", "worktree_path"].iter().find_map(|k| call[*k].as_str());
    let named = named.and_then(|n| n.trim_end_matches('/').rsplit('/').next()).filter(|n| !n.is_empty());
    let cwd = call["cwd"].as_str().map_or_else(|| s.cwd.clone(), PathBuf::from);
    let here = Session { ui: s.ui.clone(), cwd };
    let ctx = here.context()?;
    let inv = Inventory::read(&ctx)?;
    let name = match named {
        Some(name) if crate::model::tasks::check_name(name).is_ok() => name.to_owned(),
        Some(name) => crate::model::tasks::from_title(name, 1),
        None => format!("claude-{}", crate::runtime::clock::random_hex(4)),
    };
    // The same name again means the same worktree.
    let there = |inv: &Inventory, name: &str| {
        let entry = inv.find(name).and_then(|a| a.entry.as_ref()).filter(|e| e.link() == Link::Good);
        entry.map(|e| e.path.clone())
    };
    if let Some(path) = there(&inv, &name) {
        s.ui.out_path(&path)?;
        return Ok(code::DONE);
    }
    let (name, _) = Taken::read(&ctx)?.free_like(&name, "");
    let made = make(&here, &Args { name: name.clone(), ..args.clone() })?;
    // Where setup failed, which has been said, the worktree stands all the same.
    match (made, there(&Inventory::read(&ctx)?, &name)) {
        (code::DONE, _) => Ok(code::DONE),
        (code, None) => Ok(code),
        (_, Some(path)) => s.ui.out_path(&path).map(|()| code::DONE),
    }
}

fn make(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let loaded = loaded(s, &ctx, &Flags { base: args.base.clone(), ..Flags::default() })?;
    let approved = if args.no_setup { ApprovedPlan::nothing() } else { plan::approved(&ctx, &loaded.project)? };
    repair::if_needed(&ctx)?;
    let taken = Taken::read(&ctx)?;
    naming::check_new_name(&taken, &args.name)?;
    if args.fetch {
        fetch(s, &ctx)?;
    }
    let base = base::resolve(&ctx, loaded.settings.base.as_deref())?;
    if let Some(note) = &base.note {
        s.ui.say(note);
    }
    let changes = if args.with_changes { Some(changes_here(&ctx, &base.commit)?) } else { None };
    let wish =
        Wish { name: &args.name, branch: &args.name, base: &base, dir: &loaded.settings.worktree_dir, batch: None };
    let path = naming::place(&ctx, &wish)?;
    naming::check_free(&path)?;
    let mut task = create::task_skeleton(&args.name, &args.name, &base, Origin::New);
    if let Some(text) = &args.task {
        task.prompt.clone_from(text);
        task.title = crate::model::text::first_sentence(text, 200);
    }
    task.permission = loaded.settings.permission;
    task.retries = loaded.settings.retries;
    task.time_s = loaded.settings.time_s;
    task.stall_s = loaded.settings.stall_s;
    task.cost_usd = loaded.settings.cost;
    let plan = plan::run_plan(&ctx, &loaded, &approved, path.clone(), None)?;
    let signals = Signals::catch().map_err(|e| CliError::refused(format!("signals: {e}"), "try again"))?;
    crate::runtime::process::become_subreaper();
    let (mut reg, task, run, lock) = create::register_locked(&ctx, &Planned { task, path: path.clone() })?;
    let made = plan::write(&run, &plan)
        .and_then(|()| create::materialize(&ctx, &mut reg, &plan, &mut |step| narrate(s, step)));
    let entry = match made {
        Ok(e) => e,
        Err(e) => {
            // All or nothing: an environment that could not be made leaves no agent.
            let held = ctx.state.lock()?;
            unfinished::give_up(&ctx, &held, &reg, Since::Now)?;
            let _ = std::fs::remove_file(run.file("state.json"));
            return Err(e.into());
        }
    };
    if let Some(changes) = changes {
        carry(&changes, &ctx, &entry)?;
    }
    let failed = setup(s, &ctx, &plan, &task, &reg, &entry.path, &run, &signals)?;
    identity::unlock_worktree(&ctx, &reg)?;
    let _ = std::fs::remove_file(run.file("state.json"));
    drop(lock);
    if let Some((why, code)) = failed {
        s.ui.err(&format!("error: setup: {why}"));
        s.ui.hint(&format!("the worktree stands; 'git agents logs --setup {}' shows the output", reg.name.typed()));
        return Ok(code);
    }
    if let Some(assistant) = &args.attach {
        return super::attach::sit_down(
            s,
            &ctx,
            &reg.name.0,
            Some(assistant.as_str()).filter(|a| !a.is_empty()),
            false,
            true,
        );
    }
    if args.json {
        let inv = Inventory::read(&ctx)?;
        let only = |a: &crate::ops::inventory::Agent| a.reg.id == reg.id;
        s.ui.json(&crate::ops::inventory::status(&ctx, &inv, &only, super::base_name(&ctx))?)?;
    } else {
        s.ui.out_path(&entry.path)?;
        s.ui.undo(&format!("git agents rm {}", reg.name.typed()));
    }
    Ok(code::DONE)
}

fn narrate(s: &Session, step: Step) {
    match step {
        Step::Warning(w) => s.ui.warn(&w),
        Step::Files(t) => {
            if !t.copied.is_empty() || !t.cloned.is_empty() {
                let names: Vec<String> = t
                    .copied
                    .iter()
                    .map(|e| shown_path(&e.path))
                    .chain(t.cloned.iter().map(|c| shown_path(&c.path)))
                    .collect();
                s.ui.say(&format!("taken along: {}", names.join(", ")));
            }
            for l in t.left_out {
                s.ui.say(&format!("left out: {} ({})", shown_path(&l.path), l.reason));
            }
        }
        Step::Worktree(_) | Step::Waits(_) | Step::Tests => {}
    }
}

/// Runs the setup commands; what went wrong, with the exit code.
#[expect(clippy::too_many_arguments, reason = "one environment, by its parts")]
fn setup(
    s: &Session,
    ctx: &Context,
    plan: &plan::RunPlan,
    task: &crate::model::task::Task,
    reg: &crate::git::state::Registration,
    worktree: &Path,
    run: &RunDir,
    signals: &Signals,
) -> Result<Option<(String, i32)>, CliError> {
    if plan.setup.is_empty() {
        return Ok(None);
    }
    s.ui.say("setting up");
    let token = crate::runtime::clock::random_hex(16);
    let env = vec![
        ("AGENTS_NAME".to_owned(), reg.name.0.clone().into()),
        ("AGENTS_BRANCH".to_owned(), task.branch_short().into()),
        ("AGENTS_BASE".to_owned(), task.base_short().into()),
        ("AGENTS_WORKTREE".to_owned(), worktree.into()),
    ];
    run.ensure()?;
    let log = run.file("setup.log");
    let setup = Commands {
        commands: &plan.setup,
        scripts: &plan.scripts,
        cwd: worktree,
        env,
        values: crate::ops::plan::values(ctx, &reg.id, task, &plan.repo, worktree),
        env_allow: &plan.env_allow,
        token: &token,
        grace: plan.grace(),
        limit_s: plan.setup_time_s,
        limit_of: ("setup", "agents.setupTime"),
        log: &log,
        log_cap: crate::place::log::CAP,
        also: None,
    };
    let mut by = None;
    let outcome = setup.run(signals, &mut |h| {
        let Happening::Tick(woken) = h else { return None };
        by = by.or(woken.iter().find_map(|w| match w {
            Wake::End(signal) => Some(*signal as i32),
            _ => None,
        }));
        by.map(|_| crate::place::job::Stop::Asked)
    })?;
    Ok(match (outcome, by) {
        (_, Some(signal)) => Some(("interrupted".into(), 128 + signal)),
        (Err(why), None) => Some((why.to_string(), code::FATAL)),
        (Ok(()), None) => None,
    })
}

/// `git fetch`, as the user would.
pub fn fetch(s: &Session, ctx: &Context) -> Result<(), CliError> {
    s.ui.say("fetching");
    let dir = ctx.repo().toplevel.clone().unwrap_or_else(|| ctx.repo().common_dir.clone());
    Call::user_visible(&dir, ["fetch", "--quiet"]).env_remove("GIT_NO_LAZY_FETCH").run()?;
    Ok(())
}

/// What is taken along.
struct Here {
    /// The checkout.
    top: PathBuf,
    changes: status::Changes,
    /// What is staged: lines for `update-index --index-info`.
    staged: Vec<u8>,
    /// Paths that are meant to be added, with their content later; each with a NUL.
    meant: Vec<u8>,
}

/// The uncommitted changes of the checkout the command was started in, which must be at `base`.
fn changes_here(ctx: &Context, base: &crate::model::agent::Oid) -> Result<Here, CliError> {
    let repo = ctx.repo();
    let Some(top) = &repo.toplevel else {
        return Err(CliError::refused(
            "there is no checkout here whose changes could be taken",
            "leave out --with-changes",
        ));
    };
    let head = crate::git::refs::resolve_commit(repo, "HEAD")?;
    let head = match crate::git::worktree::head(repo, &repo.git_dir) {
        crate::git::worktree::Head::Branch(b) => crate::git::refs::resolve_commit(repo, &b)?,
        crate::git::worktree::Head::Detached(id) => Some(id),
        crate::git::worktree::Head::Unknown => head,
    };
    if head.as_ref() != Some(base) {
        return Err(CliError::refused(
            "the changes of this checkout belong to another commit than the base",
            "use --base @, or leave out --with-changes",
        ));
    }
    let changes =
        status::changes(repo, &ctx.state.objects, &Place { worktree: top, admin: &repo.git_dir, head: Some(base) })?;
    if !changes.conflicted.is_empty() {
        return Err(CliError::refused("this checkout has unmerged paths", "finish the merge first"));
    }
    let ask = |args: &[&str]| repo.call_in(top, &repo.git_dir, args).run();
    let raw = ask(&[
        "diff-index",
        "--cached",
        "--ita-invisible-in-index",
        "--raw",
        "-z",
        "--no-renames",
        "--no-abbrev",
        &base.0,
        "--",
    ])?;
    let meant = ask(&["diff-files", "--diff-filter=A", "--name-only", "-z", "--no-renames"])?;
    Ok(Here { top: top.clone(), changes, staged: index_lines(&raw), meant })
}

/// `:OLDMODE NEWMODE OLD NEW STATUS`, path, … as `MODE ID\tpath`; a mode of zeros takes a path away.
fn index_lines(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let fields: Vec<&[u8]> = raw.split(|b| *b == 0).collect();
    for pair in fields.chunks_exact(2) {
        let mut words = pair[0].split(|b| *b == b' ').skip(1);
        if let (Some(mode), Some(id)) = (words.next(), words.nth(1)) {
            out.extend([mode, b" ", id, b"\t", pair[1], b"\0"].concat());
        }
    }
    out
}

/// Copies changed files byte for byte; what is gone there goes here. What is staged there is staged here.
fn carry(here: &Here, ctx: &Context, entry: &Entry) -> Result<(), CliError> {
    use crate::runtime::files::because;
    use std::os::unix::ffi::OsStrExt as _;
    let (from, to) = (&here.top, &entry.path);
    for path in here.changes.modified.iter().chain(&here.changes.untracked) {
        let rel = Path::new(std::ffi::OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)));
        let (src, dst) = (from.join(rel), to.join(rel));
        let Ok(meta) = std::fs::symlink_metadata(&src) else {
            let _ = std::fs::remove_file(&dst);
            continue;
        };
        if meta.is_dir() {
            continue;
        }
        if let Some(parent) = dst.parent() {
            std::fs::create_dir_all(parent).map_err(because("create", parent))?;
        }
        let _ = std::fs::remove_file(&dst);
        if meta.file_type().is_symlink() {
            let target = std::fs::read_link(&src).map_err(because("read", &src))?;
            std::os::unix::fs::symlink(target, &dst).map_err(because("create", &dst))?;
        } else {
            std::fs::copy(&src, &dst).map_err(because("copy", &src))?;
        }
    }
    let git = |args: &[&str], input: &[u8]| {
        let call = ctx.repo().call_in(to, &entry.admin, args).input(input);
        call.run().map(drop)
    };
    if !here.staged.is_empty() {
        git(&["update-index", "-z", "--index-info"], &here.staged)?;
    }
    if !here.meant.is_empty() {
        let args = [
            "--literal-pathspecs",
            "add",
            "--intent-to-add",
            "--force",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
        ];
        git(&args, &here.meant)?;
    }
    Ok(())
}
