//! Handing agents over to their supervisors: a batch from a list, a retry, a message.

use super::assistant;
use super::base::{self, Base};
use super::create::{self, Planned};
use super::inventory::Inventory;
use super::naming::{self, Taken, Wish};
use super::plan::{self, RunPlan};
use super::record::{Address, Record, RunDir};
use super::{Context, Error, Loaded, Result};
use crate::config::ApprovedPlan;
use crate::git::state::Registration;
use crate::model::agent::{AgentId, Origin, RunState};
use crate::model::event::Kind;
use crate::model::task::Task;
use crate::model::tasks::{self, TaskSpec};
use crate::place::job::TOKEN;
use crate::runtime::{clock, files, lock::Lock, process};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `run` was asked for beside the tasks.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// For tasks that name none.
    pub assistants: Vec<String>,
    /// For tasks that name none.
    pub model: Option<String>,
    /// For tasks that name none.
    pub base: Option<String>,
    /// For tasks that name none.
    pub test: Option<String>,
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
    let mut wrong: Vec<(u32, String)> = Vec::new();
    let mut can_work = BTreeMap::new();
    for (i, spec) in specs.tasks.iter().enumerate() {
        if let Some(name) = &spec.started {
            started.push((spec.title.clone(), name.0.clone()));
            continue;
        }
        match plan_item(ctx, loaded, approved, spec, options, number, &mut taken, &mut bases, &mut can_work) {
            Ok(item) => {
                index_of.insert(i, items.len());
                items.push(item);
            }
            Err(e) => {
                wrong.push((spec.number, format!("{e}{}", e.hint().map(|h| format!(" ({h})")).unwrap_or_default())));
            }
        }
    }
    if !wrong.is_empty() {
        return Err(Error::Many { what: "nothing was started".into(), items: by_mistake(wrong), hint: None });
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

/// Each mistake once, with the tasks that have it.
fn by_mistake(wrong: Vec<(u32, String)>) -> Vec<String> {
    let mut out: Vec<(Vec<u32>, String)> = Vec::new();
    for (number, text) in wrong {
        match out.iter_mut().find(|(_, t)| *t == text) {
            Some((numbers, _)) if numbers.last() == Some(&number) => {}
            Some((numbers, _)) => numbers.push(number),
            None => out.push((vec![number], text)),
        }
    }
    let line = |(numbers, text): (Vec<u32>, String)| {
        let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
        format!("task{} {}: {text}", if list.len() == 1 { "" } else { "s" }, list.join(", "))
    };
    out.into_iter().map(line).collect()
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
    can_work: &mut BTreeMap<String, Option<(String, Option<String>)>>,
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
    let who = spec
        .attrs
        .assistant
        .first()
        .cloned()
        .or_else(|| options.assistants.first().cloned())
        .or_else(|| s.assistant.clone())
        .ok_or_else(|| {
            Error::refused("no assistant is chosen", "name one with -a, 'assistant' in the settings, or {assistant=…}")
        })?;
    let mut plan = plan::run_plan(ctx, loaded, approved, path.clone(), Some(&who))?;
    if let Some(adapter) = &plan.adapter {
        // Once for all the tasks it is asked for.
        let refusal = can_work.entry(who.clone()).or_insert_with(|| {
            let refused = assistant::check(adapter, ctx, plan.env_allow.as_ref()).err();
            refused.map(|e| (e.words(), e.hint()))
        });
        if let Some((what, hint)) = refusal.clone() {
            return Err(Error::Refused { what, hint });
        }
        let model = spec.attrs.model.as_ref().or(options.model.as_ref());
        if model.is_some() && !adapter.takes_model() {
            let name = adapter.name.clone();
            return Err(Error::Place(crate::place::adapter::Error::NoModel { name }.into()));
        }
    }
    let mut task = create::task_skeleton(&name, &branch, &base, Origin::Run);
    task.title.clone_from(&spec.title);
    task.batch = Some(number);
    task.number = Some(spec.number);
    task.list.clone_from(&options.list);
    task.digest = Some(tasks::digest(&spec.prompt, &base.name));
    task.group.clone_from(&spec.group);
    task.assistant = Some(who);
    task.model = spec.attrs.model.clone().or_else(|| options.model.clone());
    task.permission = spec.attrs.permission.unwrap_or(s.permission);
    task.test = spec.attrs.test.clone().or_else(|| options.test.clone());
    plan.test = plan::TestPlan::of(loaded, approved, task.test.as_deref());
    task.files.clone_from(&spec.attrs.files);
    task.time_s = spec.attrs.time_s.or(s.time_s).filter(|s| *s > 0);
    task.stall_s = s.stall_s;
    task.cost_usd = spec.attrs.cost_usd.or(s.cost);
    task.total_cost_usd = s.total_cost;
    task.until.clone_from(&options.until);
    task.parallel = options.jobs;
    task.prompt.clone_from(&spec.prompt);
    let note = base.note.clone();
    Ok(BatchItem { planned: Planned { task, path }, plan, after: Vec::new(), note })
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

/// Starts the supervisor of one agent. Returns when it has accepted, or with its words.
pub fn hand_over(ctx: &Context, id: &AgentId, plan: &RunPlan, begin: Record) -> Result<()> {
    let run = RunDir::of(&ctx.state, id);
    run.ensure()?;
    let Some(lock) = run.seize()? else {
        return Err(Error::refused("it is running already", "git agents status"));
    };
    hand_over_locked(ctx, id, lock, plan, begin)
}

/// The same with the agent's lock, which becomes the supervisor's standard input.
pub fn hand_over_locked(ctx: &Context, id: &AgentId, lock: Lock, plan: &RunPlan, begin: Record) -> Result<()> {
    let run = RunDir::of(&ctx.state, id);
    plan::write(&run, plan)?;
    run.write_live(&begin)?;
    run.clear_exit()?;
    for word in ["stop", "now"] {
        let _ = std::fs::remove_file(run.file(word));
    }
    // Written before anything is started: what a kill leaves, a git in the middle of a checkout too, is found by it.
    let token = clock::random_hex(16);
    let nobody = process::Identity { pid: 0, start: 0, boot: process::boot_id() };
    run.write_address(&Address { supervisor: nobody, assistant: None, token: token.clone(), home: None })?;
    let exe = std::env::current_exe().map_err(files::because("find", Path::new("git-agents")))?;
    let log = files::open_private(&run.file("supervisor.log"), std::fs::OpenOptions::new().create(true).append(true))?;
    let mut child = spawn_detached(ctx, &exe, id, &token, &lock, log)?;
    // From here on the child holds the lock through its own descriptor.
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut line = String::new();
    let read = BufReader::new(stdout).read_line(&mut line);
    match (read, line.trim_end()) {
        (Ok(_), "accepted") => {
            started().push(child);
            Ok(())
        }
        (_, words) => {
            let _ = child.wait();
            let said = files::read_limited(&run.file("supervisor.log"), 1 << 20)?.unwrap_or_default();
            let last = String::from_utf8_lossy(&said).lines().last().unwrap_or("it said nothing").to_owned();
            let words = if words.is_empty() { last } else { words.to_owned() };
            let what = format!("its supervisor did not start: {words}");
            let mut end = begin;
            end.state = RunState::Failed;
            end.reason = Some(what.clone());
            end.ended = Some(clock::now());
            end.event = Some(clock::random_hex(8));
            // What nobody took over must not look like something that died at work.
            if run.exit().is_none() {
                run.write_exit(&end)?;
            }
            drop(lock);
            Err(Error::refused(what, "git agents retry"))
        }
    }
}

/// The supervisors that this process started. They outlive it; those that do not must not stay defunct meanwhile.
static STARTED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

fn started() -> MutexGuard<'static, Vec<Child>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes leave of the supervisors that this process started and that have ended.
pub fn reap() {
    started().retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts our own binary")]
fn spawn_detached(
    ctx: &Context,
    exe: &Path,
    id: &AgentId,
    token: &str,
    lock: &Lock,
    log: std::fs::File,
) -> Result<Child> {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new(exe);
    crate::git::command::scrub(&mut command);
    let stdin = lock.file().try_clone().map_err(files::because("share", lock.path()))?;
    command
        .arg("supervise")
        .arg(&id.0)
        .env("GIT_AGENTS_COMMON_DIR", &ctx.repo().common_dir)
        .env(TOKEN, token)
        .current_dir(&ctx.repo().common_dir)
        // Out of the terminal's foreground group from the first moment: Ctrl-C is for `run`.
        .process_group(0)
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::piped())
        .stderr(Stdio::from(log));
    command.spawn().map_err(|e| files::because("start", exe)(e).into())
}
