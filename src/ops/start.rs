//! Handing agents over to their supervisors: a batch from a list, a retry, a message.

use super::base::{self, Base};
use super::create::{self, Planned};
use super::identity;
use super::inventory::{Agent, Inventory};
use super::naming::{self, Taken, Wish};
use super::plan::{self, RunPlan};
use super::record::{Record, RunDir};
use super::{Context, Error, Loaded, Result};
use crate::config::ApprovedPlan;
use crate::git::state::Registration;
use crate::model::agent::{AgentId, Origin, RunState};
use crate::model::event::Kind;
use crate::model::task::Task;
use crate::model::tasks::{self, TaskSpec};
use crate::runtime::{clock, files, lock::Lock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What `run` was asked for beside the tasks.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// For tasks that name none.
    pub assistants: Vec<String>,
    /// For tasks that name none.
    pub model: Option<String>,
    /// For tasks that name none.
    pub base: Option<String>,
    /// Start also what the same list started before.
    pub again: bool,
    /// The list's file name.
    pub list: Option<String>,
    /// At most this many of this batch at a time.
    pub jobs: Option<usize>,
    /// No start after this moment.
    pub until: Option<String>,
}

/// One agent of a batch, decided in full.
#[derive(Debug, Clone)]
pub struct BatchItem {
    /// Environment and task.
    pub planned: Planned,
    /// How it will be run.
    pub plan: RunPlan,
    /// The items it comes after, as indices into the batch.
    pub after: Vec<usize>,
    /// What was decided about its base.
    pub note: Option<String>,
}

/// A batch: what will be started, as a value.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Its number.
    pub number: u64,
    /// What will be started.
    pub items: Vec<BatchItem>,
    /// Items with `[x]`.
    pub done: usize,
    /// Started by an earlier run of the same list: title and agent.
    pub started: Vec<(String, String)>,
}

/// The agents that were made of the same task before and are neither landed nor removed, by digest.
pub fn started_before(inv: &Inventory) -> BTreeMap<String, crate::model::agent::Name> {
    inv.agents
        .iter()
        .filter(|a| inv.journal.get(&a.reg.id).is_none_or(|j| j.last(&Kind::Landed).is_none()))
        .filter_map(|a| Some((a.task.digest.clone()?, a.reg.name.clone())))
        .collect()
}

/// Plans a batch. Nothing exists afterwards that did not before.
pub fn plan_batch(
    ctx: &Context,
    loaded: &Loaded,
    approved: &ApprovedPlan,
    specs: &tasks::TaskList,
    options: &RunOptions,
) -> Result<Batch> {
    let s = &loaded.settings;
    let number = create::next_batch(ctx)?;
    let mut taken = Taken::read(ctx)?;
    let mut bases: BTreeMap<Option<String>, Base> = BTreeMap::new();
    let mut items: Vec<BatchItem> = Vec::new();
    let mut index_of: BTreeMap<usize, usize> = BTreeMap::new();
    let mut started = Vec::new();
    let mut wrong: Vec<String> = Vec::new();
    for (i, spec) in specs.tasks.iter().enumerate() {
        if let Some(name) = &spec.started {
            started.push((spec.title.clone(), name.0.clone()));
            continue;
        }
        match plan_item(ctx, loaded, approved, spec, options, number, &mut taken, &mut bases) {
            Ok(item) => {
                index_of.insert(i, items.len());
                items.push(item);
            }
            Err(e) => wrong.push(format!(
                "task {}: {e}{}",
                spec.number,
                e.hint().map(|h| format!(" ({h})")).unwrap_or_default()
            )),
        }
    }
    if !wrong.is_empty() {
        return Err(Error::Many { what: "nothing was started".into(), items: wrong, hint: None });
    }
    for (i, spec) in specs.tasks.iter().enumerate() {
        let Some(me) = index_of.get(&i) else { continue };
        for parent in &spec.after {
            if let Some(p) = index_of.get(parent) {
                items[*me].after.push(*p);
            } else if let Some(name) = &specs.tasks[*parent].started {
                items[*me].planned.task.after.extend(registered_id(ctx, name)?);
            }
        }
    }
    for item in &mut items {
        item.planned.task.retries = s.retries;
    }
    Ok(Batch { number, items, done: specs.done, started })
}

fn registered_id(ctx: &Context, name: &crate::model::agent::Name) -> Result<Option<AgentId>> {
    Ok(ctx.state.registrations()?.0.into_iter().find(|r| r.name == *name).map(|r| r.id))
}

#[expect(clippy::too_many_arguments, reason = "what a whole batch shares, by name")]
fn plan_item(
    ctx: &Context,
    loaded: &Loaded,
    approved: &ApprovedPlan,
    spec: &TaskSpec,
    options: &RunOptions,
    number: u64,
    taken: &mut Taken,
    bases: &mut BTreeMap<Option<String>, Base>,
) -> Result<BatchItem> {
    let s = &loaded.settings;
    let asked = spec.attrs.base.clone().or_else(|| options.base.clone()).or_else(|| s.base.clone());
    let base = match bases.get(&asked) {
        Some(b) => b.clone(),
        None => {
            let b = base::resolve(ctx, asked.as_deref())?;
            bases.insert(asked, b.clone());
            b
        }
    };
    let (name, branch) = if spec.attrs.name.is_some() {
        let branch = format!("{}{}", s.branch_prefix, spec.name);
        if let Some(why) = taken.obstacle(&spec.name.0, &branch) {
            let free = taken.free_like(&spec.name.0, &s.branch_prefix).0;
            return Err(Error::refused(why, format!("a free name would be '{free}'")));
        }
        (spec.name.0.clone(), branch)
    } else {
        taken.free_like(&spec.name.0, &s.branch_prefix)
    };
    taken.take(&name, &branch);
    let wish = Wish { name: &name, branch: &branch, base: &base, dir: &s.worktree_dir, batch: Some(number) };
    let path = naming::place(ctx, &wish)?;
    naming::check_free(&path)?;
    let assistant = spec
        .attrs
        .assistant
        .first()
        .cloned()
        .or_else(|| options.assistants.first().cloned())
        .or_else(|| s.assistant.clone())
        .ok_or_else(|| {
            Error::refused("no assistant is chosen", "name one with -a, 'assistant' in the settings, or {assistant=…}")
        })?;
    let plan = plan::run_plan(ctx, loaded, approved, path.clone(), Some(&assistant))?;
    if let Some(adapter) = &plan.adapter {
        check_program(adapter, ctx)?;
    }
    let mut task = create::task_skeleton(&name, &branch, &base, Origin::Run);
    task.title.clone_from(&spec.title);
    task.batch = Some(number);
    task.number = Some(spec.number);
    task.list.clone_from(&options.list);
    task.digest = Some(tasks::digest(&spec.prompt, &base.name));
    task.group.clone_from(&spec.group);
    task.assistant = Some(assistant);
    task.model = spec.attrs.model.clone().or_else(|| options.model.clone());
    task.permission = spec.attrs.permission.unwrap_or(s.permission);
    task.files.clone_from(&spec.attrs.files);
    task.time_s = spec.attrs.time_s.or(s.time_s);
    task.stall_s = s.stall_s;
    task.cost_usd = spec.attrs.cost_usd.or(s.cost);
    task.total_cost_usd = s.total_cost;
    task.until.clone_from(&options.until);
    task.parallel = options.jobs;
    task.prompt.clone_from(&spec.prompt);
    let note = base.note.clone();
    Ok(BatchItem { planned: Planned { task, path }, plan, after: Vec::new(), note })
}

/// A missing program is an error before anything starts.
pub fn check_program(adapter: &crate::place::adapter::Adapter, ctx: &Context) -> Result<()> {
    let crate::place::adapter::Program::Argv(argv) = &adapter.program else { return Ok(()) };
    let Some(program) = argv.first().filter(|p| !p.contains("{{")) else { return Ok(()) };
    let found = if program.contains('/') {
        // Relative to the worktree, which has what the commit has: asked of the checkout at hand.
        let top = ctx.repo().toplevel.clone().or_else(|| ctx.repo().main_worktree.clone());
        Path::new(program).is_relative() && top.is_none_or(|t| t.join(program).exists()) || Path::new(program).exists()
    } else {
        on_path(program)
    };
    if found {
        return Ok(());
    }
    Err(Error::refused(
        format!("the program '{program}' of assistant '{}' is not there", adapter.name),
        "install it, or correct its command; nothing was started",
    ))
}

fn on_path(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let path = crate::git::command::plain_path().unwrap_or_default();
    std::env::split_paths(&path)
        .any(|d| std::fs::metadata(d.join(program)).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
}

/// What happened to one agent that was handed over.
#[derive(Debug)]
pub struct Handed {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: AgentId,
    /// Whether its supervisor accepted it.
    pub accepted: std::result::Result<(), String>,
}

/// Registers a batch and hands every agent to a supervisor of its own.
pub fn launch(ctx: &Context, batch: &Batch) -> Result<Vec<Handed>> {
    // Parents first: a task object names them by id. The list's grammar guarantees that there is no cycle.
    let mut ids: BTreeMap<usize, AgentId> = BTreeMap::new();
    let mut registered: Vec<(usize, Registration, Task)> = Vec::new();
    let mut left: Vec<usize> = (0..batch.items.len()).collect();
    while !left.is_empty() {
        let (ready, rest): (Vec<usize>, Vec<usize>) =
            left.iter().partition(|i| batch.items[**i].after.iter().all(|p| ids.contains_key(p)));
        if ready.is_empty() {
            return Err(Error::refused("the tasks wait for each other in a circle", "correct their 'after'"));
        }
        let planned: Vec<Planned> = ready
            .iter()
            .map(|i| {
                let mut p = batch.items[*i].planned.clone();
                p.task.after.extend(batch.items[*i].after.iter().map(|a| ids[a].clone()));
                p
            })
            .collect();
        for (i, (reg, task)) in ready.iter().zip(create::register(ctx, &planned)?) {
            ids.insert(*i, reg.id.clone());
            registered.push((*i, reg, task));
        }
        left = rest;
    }
    registered.sort_by_key(|(i, _, _)| *i);
    let mut out = Vec::new();
    for (i, reg, task) in registered {
        let accepted = hand_over(ctx, &reg.id, &batch.items[i].plan, Record::new(RunState::Preparing, task.retries));
        out.push(Handed { name: reg.name.0.clone(), id: reg.id, accepted: accepted.map_err(|e| e.words()) });
    }
    Ok(out)
}

/// Starts the supervisor of one agent with the agent's lock as its standard input. Returns when it has accepted, or
/// with its words.
pub fn hand_over(ctx: &Context, id: &AgentId, plan: &RunPlan, begin: Record) -> Result<()> {
    let run = RunDir::of(&ctx.state, id);
    run.ensure()?;
    let Some(lock) = Lock::try_take(&run.lock_path())? else {
        return Err(Error::refused("it is running already", "git agents status"));
    };
    plan::write(&run, plan)?;
    run.write_live(&begin)?;
    run.clear_exit()?;
    let _ = std::fs::remove_file(run.file("stop"));
    let exe = std::env::current_exe().map_err(files::because("find", Path::new("git-agents")))?;
    let log = files::open_private(&run.file("supervisor.log"), std::fs::OpenOptions::new().create(true).append(true))?;
    let mut child = spawn_detached(ctx, &exe, id, &lock, log)?;
    // From here on the child holds the lock through its own descriptor.
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut line = String::new();
    let read = BufReader::new(stdout).read_line(&mut line);
    drop(lock);
    match (read, line.trim_end()) {
        (Ok(_), "accepted") => Ok(()),
        (_, words) => {
            let _ = child.wait();
            let said = files::read_limited(&run.file("supervisor.log"), 1 << 20)?.unwrap_or_default();
            let last = String::from_utf8_lossy(&said).lines().last().unwrap_or("it said nothing").to_owned();
            let words = if words.is_empty() { last } else { words.to_owned() };
            Err(Error::refused(format!("the supervisor did not start: {words}"), "git agents retry"))
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts our own binary")]
fn spawn_detached(
    ctx: &Context,
    exe: &Path,
    id: &AgentId,
    lock: &Lock,
    log: std::fs::File,
) -> Result<std::process::Child> {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new(exe);
    crate::git::command::scrub(&mut command);
    let stdin = lock.file().try_clone().map_err(files::because("share", lock.path()))?;
    command
        .arg("supervise")
        .arg(&id.0)
        .env("GIT_AGENTS_COMMON_DIR", &ctx.repo().common_dir)
        .current_dir(&ctx.repo().common_dir)
        // Out of the terminal's foreground group from the first moment: Ctrl-C is for `run`.
        .process_group(0)
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::piped())
        .stderr(Stdio::from(log));
    command.spawn().map_err(|e| files::because("start", exe)(e).into())
}

/// How `retry` goes on.
#[derive(Debug, Clone, Default)]
pub struct Retry {
    /// Another assistant.
    pub assistant: Option<String>,
    /// A new limit of cost.
    pub cost: Option<f64>,
    /// From the base: the old tip is kept under a reference of ours.
    pub fresh: bool,
    /// One more message for its session.
    pub message: Option<String>,
}

/// Starts the run of an agent again, keeping what is there.
pub fn retry(ctx: &Context, loaded: &Loaded, approved: &ApprovedPlan, name: &str, how: &Retry) -> Result<()> {
    let (reg, task, previous) = {
        let held = ctx.state.lock()?;
        super::repair::repair(ctx, &held)?.check(name)?;
        let inv = Inventory::read(ctx)?;
        let a = inv
            .find(name)
            .ok_or_else(|| Error::refused(format!("there is no agent named '{name}'"), "git agents status"))?;
        if a.run.is_alive()? {
            return Err(Error::refused(
                format!("'{name}' is running"),
                "'git agents send' gives it a message, 'stop' ends it",
            ));
        }
        if let Some(address) = a.run.address() {
            // What a killed supervisor left running must not work beside the new run.
            let left = crate::place::job::end_marked(&address.token, std::time::Duration::from_secs(5));
            if left > 0 {
                return Err(Error::refused(
                    format!("{left} processes of the last run of '{name}' cannot be ended"),
                    "end them by hand",
                ));
            }
        }
        (a.reg.clone(), a.task.clone(), a.record.clone())
    };
    let assistant = how.assistant.clone().or_else(|| task.assistant.clone());
    let Some(assistant) = assistant else {
        return Err(Error::refused(format!("'{name}' has no task"), format!("git agents attach {name}")));
    };
    let path = match identity::entry_of(ctx, &reg)? {
        Some(e) => e.path,
        None => match (&reg.path, &reg.doing) {
            (Some(p), Some(_)) => p.clone(),
            _ => {
                return Err(Error::refused(
                    format!("the worktree of '{name}' is gone"),
                    format!("git agents rm {name}"),
                ));
            }
        },
    };
    if reg.doing.is_none() {
        identity::check_place(ctx, &reg)?;
    }
    let mut plan = plan::run_plan(ctx, loaded, approved, path, Some(&assistant))?;
    if let Some(adapter) = &plan.adapter {
        check_program(adapter, ctx)?;
    }
    plan.cost_override = how.cost;
    if how.fresh {
        start_fresh(ctx, &reg)?;
    }
    let run = RunDir::of(&ctx.state, &reg.id);
    run.ensure()?;
    if let Some(m) = &how.message {
        leave_message(&run, m)?;
    }
    let mut begin = Record::new(RunState::Preparing, task.retries);
    if let Some(p) = previous {
        begin.attempt = p.attempt;
        begin.session = p.session.filter(|_| !how.fresh && how.assistant.is_none());
        begin.cost_usd = p.cost_usd;
        begin.tokens = p.tokens;
        begin.started = p.started;
        begin.setup_done = p.setup_done;
    }
    hand_over(ctx, &reg.id, &plan, begin)
        .map_err(|e| Error::Refused { what: format!("'{name}': {}", e.words()), hint: e.hint() })
}

/// Back to the base, with everything kept: tree and index in a capture, the old tip among its parents.
fn start_fresh(ctx: &Context, reg: &Registration) -> Result<()> {
    if reg.doing.is_some() {
        return Ok(());
    }
    let entry = identity::check_place(ctx, reg)?;
    let tip = crate::git::refs::read(ctx.repo(), &reg.branch)?;
    let label = format!(
        "{}-{}-{}",
        clock::compact().to_lowercase(),
        crate::model::agent::Slug::of(&reg.name.0),
        clock::random_hex(4)
    );
    let about = serde_json::json!({ "agent": reg.id, "name": reg.name, "branch": reg.branch, "why": "retry --fresh" });
    let reference = format!("refs/agents/removed/{label}");
    let wanted = crate::git::capture::Options { reference: &reference, about, max_file: 50 << 20, also: &[] };
    crate::git::capture::take(ctx.repo(), &ctx.state.objects, &entry, tip.as_ref(), &wanted)?;
    let call = crate::git::command::Call::user_visible(
        &entry.path,
        ["-c", "core.hooksPath=/dev/null", "reset", "--hard", "--quiet", &reg.fork.0],
    );
    call.env("GIT_DIR", &entry.admin)
        .env("GIT_COMMON_DIR", &ctx.repo().common_dir)
        .env("GIT_WORK_TREE", &entry.path)
        .run()?;
    Ok(())
}

/// Leaves a message for the session of an agent.
pub fn leave_message(run: &RunDir, text: &str) -> Result<()> {
    let dir = run.file("inbox");
    files::ensure_private_dir(&dir)?;
    let name = format!("{}-{}", clock::now().replace([':', '.'], "-"), clock::random_hex(3));
    Ok(files::write_durable(&dir.join(name), text.as_bytes())?)
}

/// The messages that wait, oldest first, with their files.
pub fn messages(run: &RunDir) -> Vec<(PathBuf, String)> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(run.file("inbox"))
        .into_iter()
        .flatten()
        .filter_map(std::result::Result::ok)
        .map(|e| e.path())
        .collect();
    found.retain(|p| !p.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')));
    found.sort();
    found.into_iter().filter_map(|p| Some((p.clone(), std::fs::read_to_string(p).ok()?))).collect()
}

/// Ends the run of an agent: asked of its supervisor, or, where that is gone, done to what it left.
pub fn stop(ctx: &Context, a: &Agent) -> Result<bool> {
    if a.run.is_alive()? {
        files::write_atomic(&a.run.file("stop"), b"stop\n")?;
        let address = a.run.address();
        if let Some(address) = &address {
            address.supervisor.signal(nix::sys::signal::Signal::SIGTERM);
        }
        return Ok(true);
    }
    let Some(address) = a.run.address() else { return Ok(false) };
    let before = crate::runtime::process::marked(&format!("{}={}", crate::place::job::TOKEN, address.token)).len();
    crate::place::job::end_marked(&address.token, std::time::Duration::from_secs(10));
    let ended = before > 0 || matches!(a.state(), Some(RunState::Dead | RunState::Interrupted));
    if ended {
        identity::unlock_worktree(ctx, &a.reg)?;
    }
    if a.state() == Some(RunState::NeedsInput) {
        return Ok(false);
    }
    Ok(ended)
}

/// What keeps all agents of one assistant back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// Why.
    pub reason: String,
    /// Until when (RFC 3339); until it is lifted where `None`.
    pub until: Option<String>,
}

fn hold_path(ctx: &Context, assistant: &str) -> PathBuf {
    ctx.repo().agents_dir().join("slots").join(format!("hold-{}.json", crate::model::agent::Slug::of(assistant)))
}

/// The hold on `assistant`, while it lasts.
pub fn hold(ctx: &Context, assistant: &str) -> Option<Hold> {
    let h: Hold = super::record::read_json(&hold_path(ctx, assistant))?;
    match h.until.as_deref().and_then(clock::parse) {
        Some(t) if t <= jiff::Timestamp::now() => None,
        _ => Some(h),
    }
}

/// Sets a hold.
pub fn set_hold(ctx: &Context, assistant: &str, h: &Hold) -> Result<()> {
    Ok(files::write_atomic(&hold_path(ctx, assistant), &serde_json::to_vec(h).expect("plain JSON"))?)
}

/// Lifts a hold.
pub fn lift_hold(ctx: &Context, assistant: &str) {
    let _ = std::fs::remove_file(hold_path(ctx, assistant));
    let _ = std::fs::remove_file(early_path(ctx, assistant));
}

fn early_path(ctx: &Context, assistant: &str) -> PathBuf {
    ctx.repo().agents_dir().join("slots").join(format!("early-{}.json", crate::model::agent::Slug::of(assistant)))
}

/// Notes that a start of `assistant` failed early (`Some` reason), or did not (`None`). Three in a row with the same
/// reason hold it.
pub fn note_start(ctx: &Context, assistant: &str, failed_early: Option<&str>) -> Result<()> {
    let path = early_path(ctx, assistant);
    let Some(reason) = failed_early else {
        let _ = std::fs::remove_file(&path);
        return Ok(());
    };
    let (last, count): (String, u32) = super::record::read_json(&path).unwrap_or_default();
    let count = if last == reason { count + 1 } else { 1 };
    files::write_atomic(&path, &serde_json::to_vec(&(reason, count)).expect("plain JSON"))?;
    if count >= 3 {
        set_hold(ctx, assistant, &Hold { reason: format!("three starts in a row failed: {reason}"), until: None })?;
    }
    Ok(())
}

/// All holds, for `status`.
pub fn holds(ctx: &Context, inv: &Inventory) -> Vec<super::answer::HoldAnswer> {
    let mut names: Vec<&str> = inv.agents.iter().filter_map(|a| a.task.assistant.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    let waiting = |name: &str| {
        let is = |a: &&Agent| a.task.assistant.as_deref() == Some(name) && a.state() == Some(RunState::Waiting);
        inv.agents.iter().filter(is).count()
    };
    names
        .into_iter()
        .filter_map(|n| {
            let h = hold(ctx, n)?;
            Some(super::answer::HoldAnswer {
                assistant: n.to_owned(),
                reason: h.reason,
                until: h.until,
                waiting: waiting(n),
            })
        })
        .collect()
}
