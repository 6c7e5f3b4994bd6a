//! One attempt: the assistant called once, watched to its end, judged by git first.

use super::log::{CAP, CappedLog, EventLog, HEAD, LineSplitter};
use super::watch::Watch;
use super::{Agent, notify, say};
use crate::config::template;
use crate::git::command::Call as GitCall;
use crate::git::state::event;
use crate::git::status::{self, Place};
use crate::git::{capture as captures, refs, worktree};
use crate::model::agent::{Oid, RunState};
use crate::model::event::Kind;
use crate::ops::{Error, Result, identity, start};
use crate::place::adapter::{self, Activity, Adapter, CallInput, Facts, FrameInfo, SessionBy, StdinBy};
use crate::place::job::{self, Happening, Job, Stop};
use crate::runtime::{clock, files};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The end of the run.
    Final(RunState, Option<String>),
    /// It failed in this way; retried while attempts last.
    Failed(RunState, Option<String>),
    /// The provider refuses until then.
    RateLimited(Option<String>),
    /// A message waits: go on at once, attempt not counted.
    Again,
}

/// A line of `events.jsonl`.
#[derive(Debug, Serialize, serde::Deserialize)]
pub struct Logged {
    /// When.
    pub at: String,
    /// Of which attempt.
    pub attempt: u32,
    /// What.
    #[serde(flatten)]
    pub activity: Activity,
}

/// The variables of an agent's environment.
pub fn variables(agent: &Agent, worktree: &Path) -> Vec<(String, OsString)> {
    let mut env: Vec<(String, OsString)> = vec![
        ("AGENTS_NAME".into(), agent.reg.name.0.clone().into()),
        ("AGENTS_ID".into(), agent.reg.id.0.clone().into()),
        ("AGENTS_BRANCH".into(), agent.task.branch_short().into()),
        ("AGENTS_BASE".into(), agent.task.base_short().into()),
        ("AGENTS_WORKTREE".into(), worktree.into()),
        ("HOST".into(), "127.0.0.1".into()),
    ];
    if let Some(b) = agent.task.batch {
        env.push(("AGENTS_BATCH".into(), b.to_string().into()));
    }
    if !agent.plan.sign {
        // By environment, never by config: the config is everybody's.
        for (k, v) in [
            ("GIT_CONFIG_COUNT", "2"),
            ("GIT_CONFIG_KEY_0", "commit.gpgSign"),
            ("GIT_CONFIG_VALUE_0", "false"),
            ("GIT_CONFIG_KEY_1", "tag.gpgSign"),
            ("GIT_CONFIG_VALUE_1", "false"),
        ] {
            env.push((k.into(), v.into()));
        }
    }
    env
}

/// The values of templates.
pub fn values(agent: &Agent, worktree: &Path) -> BTreeMap<&'static str, String> {
    let mut v = BTreeMap::new();
    v.insert("name", agent.reg.name.0.clone());
    v.insert("slug", agent.task.slug.0.clone());
    v.insert("id", agent.reg.id.short().to_owned());
    v.insert("branch", agent.task.branch_short().to_owned());
    v.insert("base", agent.task.base_short().to_owned());
    v.insert("repo", agent.plan.repo.clone());
    v.insert("worktree", worktree.display().to_string());
    v.insert("main", agent.ctx.repo().main_worktree.as_ref().map(|p| p.display().to_string()).unwrap_or_default());
    v.insert("batch", agent.task.batch.map(|b| b.to_string()).unwrap_or_default());
    v
}

/// Runs one attempt.
pub fn run(agent: &mut Agent) -> Result<Done> {
    let entry = identity::check_place(&agent.ctx, &agent.reg)?;
    let row = agent.plan.adapter.clone().ok_or_else(|| Error::refused("it has no assistant", "git agents attach"))?;
    let begin = refs::read(agent.ctx.repo(), &agent.reg.branch)?;
    agent.record.attempt += 1;
    agent.record.exit_code = None;
    agent.record.signal = None;
    agent.record.question = None;
    agent.record.reason = None;
    agent.record.started.get_or_insert_with(clock::now);
    let messages = start::messages(&agent.run);
    let resume = row.can_resume() && agent.record.session.is_some();
    if agent.record.session.is_none() && matches!(row.session, SessionBy::Chosen(_)) {
        agent.record.session = Some(uuid());
    }
    let prompt = prompt(agent, &entry.path, resume, &messages);
    let prompt_file = agent.run.file("prompt.md");
    files::write_atomic(&prompt_file, prompt.as_bytes())?;
    for (path, _) in &messages {
        let _ = std::fs::remove_file(path);
    }
    let exe = std::env::current_exe().map_err(files::because("find", Path::new("git-agents")))?;
    let values = values(agent, &entry.path);
    let input = CallInput {
        prompt: &prompt,
        prompt_file: &prompt_file,
        model: agent.task.model.as_deref(),
        permission: agent.task.permission,
        session: agent.record.session.as_deref(),
        resume,
        values: &values,
        self_exe: &exe,
    };
    let call = adapter::call(&row, &input, &|t, v| template::render(t, v).map_err(|e| e.to_string()))
        .map_err(|e| Error::Place(e.into()))?;
    let held = agent.ctx.state.lock()?;
    let attempt = event(
        &agent.reg.id,
        Kind::Attempt,
        json!({ "attempt": agent.record.attempt, "start": begin, "assistant": row.name }),
    );
    agent.ctx.state.append(&held, &[attempt])?;
    drop(held);
    agent.record.state = RunState::Running;
    agent.publish();
    let mut env = variables(agent, &entry.path);
    env.extend(call.env);
    let job = Job {
        argv: call.argv,
        env,
        env_allow: agent.plan.env_allow.clone(),
        cwd: entry.path.clone(),
        stdin: (call.stdin == StdinBy::PromptFile).then(|| prompt_file.clone()),
        token: agent.address.token.clone(),
        grace: Duration::from_secs(10),
    };
    let seen = watched(agent, &row, &job, &entry)?;
    agent.address.assistant = None;
    agent.publish_address();
    conclude(agent, &row, &entry, begin, seen)
}

fn uuid() -> String {
    let h = clock::random_hex(16);
    format!("{}-{}-4{}-a{}-{}", &h[..8], &h[8..12], &h[13..16], &h[17..20], &h[20..32])
}

fn prompt(agent: &Agent, worktree: &Path, resume: bool, messages: &[(std::path::PathBuf, String)]) -> String {
    let said: Vec<&str> = messages.iter().map(|(_, m)| m.as_str()).collect();
    if resume {
        return if said.is_empty() { "Go on with the task where you stopped.".to_owned() } else { said.join("\n\n") };
    }
    let mut task = agent.task.prompt.clone();
    for m in said {
        task.push_str("\n\n");
        task.push_str(m);
    }
    let others = others(agent).unwrap_or_default();
    let info = FrameInfo {
        branch: agent.task.branch_short().to_owned(),
        worktree: worktree.to_owned(),
        base: agent.task.base_short().to_owned(),
        others,
        check: false,
    };
    adapter::frame(&task, &info)
}

/// Where the others work: the paths of their commits, and the `files` they were given. Never what they do.
fn others(agent: &Agent) -> Result<Vec<(String, Vec<String>)>> {
    let inv = crate::ops::inventory::Inventory::read(&agent.ctx)?;
    let mut out = Vec::new();
    for a in inv.agents.iter().filter(|a| a.reg.id != agent.reg.id) {
        if a.task.group.is_some() && a.task.group == agent.task.group {
            continue;
        }
        let mut paths: Vec<String> = a.task.files.clone();
        if let Some(tip) = &a.tip
            && *tip != a.reg.fork
        {
            let changed = agent.ctx.state.objects.changed_paths(&a.reg.fork, tip).unwrap_or_default();
            paths.extend(changed.iter().take(50).map(|p| crate::model::text::safe_path(p)));
        }
        if !paths.is_empty() {
            out.push((a.reg.name.0.clone(), paths));
        }
    }
    Ok(out)
}

/// What was seen while it ran.
#[derive(Debug, Default)]
pub(super) struct Seen {
    ended: job::Ended,
    finished: Option<bool>,
    last_words: Option<String>,
    question: Option<String>,
    rate_limit: Option<Option<String>>,
    could_not_start: Option<String>,
    progress: bool,
    seconds: u64,
}

fn watched(agent: &mut Agent, row: &Adapter, job: &Job, entry: &worktree::Entry) -> Result<Seen> {
    let open = |name: &'static str| files::because("open", Path::new(name));
    let mut raw = CappedLog::open(&agent.run.file("output.log"), HEAD, CAP).map_err(open("output.log"))?;
    let mut events = EventLog::open(&agent.run.file("events.jsonl")).map_err(open("events.jsonl"))?;
    let mut splitter = LineSplitter::default();
    let mut seen = Seen::default();
    let mut watch = Watch::new(agent);
    let spent_before = (agent.record.cost_usd, agent.record.tokens);
    let begun = std::time::Instant::now();
    let format = row.output;
    let signals = std::mem::replace(&mut agent.signals, crate::runtime::signals::Signals::none());
    let result = job::run(job, &signals, |happening| match happening {
        Happening::Started(id) => {
            agent.address.assistant = Some(id.clone());
            agent.publish_address();
            watch.started(id.pid);
            None
        }
        Happening::Output(bytes) => {
            raw.write(bytes);
            watch.printed();
            let mut lines: Vec<Activity> = Vec::new();
            splitter.push(bytes, |line| lines.extend(adapter::read_line(format, line)));
            for activity in lines {
                take_in(agent, &mut seen, &mut watch, &activity, spent_before);
                events.append(&Logged { at: clock::now(), attempt: agent.record.attempt, activity });
            }
            decide(agent, &seen, &watch)
        }
        Happening::Tick(woken) => {
            let stopping = agent.stopping(woken);
            watch.tick(agent, entry);
            if stopping {
                return Some(Stop::Asked);
            }
            if agent.run.file("now").exists() {
                return Some(Stop::Asked);
            }
            decide(agent, &seen, &watch)
        }
    });
    agent.signals = signals;
    splitter.finish(|line| {
        if let Some(activity) = adapter::read_line(format, line) {
            take_in(agent, &mut seen, &mut watch, &activity, spent_before);
            events.append(&Logged { at: clock::now(), attempt: agent.record.attempt, activity });
        }
    });
    raw.finish();
    match result {
        Ok(ended) => seen.ended = ended,
        Err(e) => {
            seen.could_not_start = Some(format!(
                "'{}' could not be started: {e}",
                job.argv.first().map(|a| a.to_string_lossy()).unwrap_or_default()
            ))
        }
    }
    seen.seconds = begun.elapsed().as_secs();
    agent.record.exit_code = seen.ended.code;
    agent.record.signal = seen.ended.signal;
    agent.record.survivors = seen.ended.survivors.iter().map(|(pid, c)| format!("{c} (pid {pid})")).collect();
    Ok(seen)
}

fn take_in(
    agent: &mut Agent,
    seen: &mut Seen,
    watch: &mut Watch,
    activity: &Activity,
    before: (Option<f64>, Option<u64>),
) {
    if activity.is_progress() {
        watch.progressed();
        seen.progress = true;
    }
    match activity {
        Activity::Message { text } => seen.last_words = Some(text.clone()),
        Activity::Session { id } => agent.record.session = Some(id.clone()),
        Activity::Denied { .. } => agent.record.denied += 1,
        Activity::Usage { cost_usd, tokens } => {
            if let Some(c) = cost_usd {
                agent.record.cost_usd = Some(before.0.unwrap_or(0.0) + c);
            }
            if let Some(t) = tokens {
                agent.record.tokens = Some(before.1.unwrap_or(0) + t);
            }
        }
        Activity::NeedsInput { question } => {
            seen.question = Some(question.clone());
            agent.record.question = Some(question.clone());
            watch.asked();
            agent.publish();
            notify::notify(agent, "needs-input", Some(question));
        }
        Activity::RateLimit { resume_at } => seen.rate_limit = Some(resume_at.clone()),
        Activity::Finished { ok, text } => {
            seen.finished = Some(*ok);
            if seen.last_words.is_none() {
                seen.last_words.clone_from(text);
            }
        }
        _ => {}
    }
}

fn decide(agent: &Agent, seen: &Seen, watch: &Watch) -> Option<Stop> {
    if seen.rate_limit.is_some() {
        return Some(Stop::RateLimit);
    }
    let limit = agent.plan.cost_override.or(agent.task.cost_usd);
    if let (Some(limit), Some(cost)) = (limit, agent.record.cost_usd)
        && cost >= limit
    {
        return Some(Stop::Budget);
    }
    watch.verdict()
}

/// After the process: what git shows, then its own words, then its exit code.
fn conclude(agent: &mut Agent, row: &Adapter, entry: &worktree::Entry, begin: Option<Oid>, seen: Seen) -> Result<Done> {
    if let Some(words) = &seen.last_words {
        agent.record.claim = Some(crate::model::text::clip_bytes(words.clone(), 4 << 10));
    }
    let assistant = agent.task.assistant.clone().unwrap_or_default();
    if let Some(why) = seen.could_not_start {
        start::note_start(&agent.ctx, &assistant, Some(&why))?;
        return Ok(Done::Failed(RunState::Failed, Some(why)));
    }
    match seen.ended.stopped {
        Some(Stop::Asked) => {
            if agent.run.file("now").exists() {
                let _ = std::fs::remove_file(agent.run.file("now"));
                agent.record.attempt -= 1;
                return Ok(Done::Again);
            }
            return Ok(Done::Final(RunState::Stopped, None));
        }
        Some(Stop::RateLimit) => return Ok(Done::RateLimited(seen.rate_limit.flatten())),
        Some(Stop::Question) => return Ok(Done::Final(RunState::NeedsInput, seen.question)),
        Some(Stop::Time) => {
            capture(agent, "timed out");
            let limit = crate::model::units::format_duration(agent.task.time_s.unwrap_or(0));
            return Ok(Done::Final(RunState::TimedOut, Some(format!("longer than {limit}"))));
        }
        Some(Stop::Stall) => {
            capture(agent, "stalled");
            let limit = crate::model::units::format_duration(agent.task.stall_s.unwrap_or(0));
            return Ok(Done::Failed(RunState::Stalled, Some(format!("no progress for {limit}"))));
        }
        Some(Stop::Budget) => {
            let limit = agent.plan.cost_override.or(agent.task.cost_usd).unwrap_or(0.0);
            return Ok(Done::Final(RunState::OverBudget, Some(format!("cost limit of {limit:.2} USD reached"))));
        }
        None => {}
    }
    if let Some(until) = seen.rate_limit {
        return Ok(Done::RateLimited(until));
    }
    if seen.question.is_some() && seen.finished.is_none() {
        return Ok(Done::Final(RunState::NeedsInput, seen.question));
    }
    let mut facts =
        Facts { exit_code: seen.ended.code, signal: seen.ended.signal, finished: seen.finished, ..Facts::default() };
    let head = refs::read(agent.ctx.repo(), &agent.reg.branch)?;
    let changes = status::changes(
        agent.ctx.repo(),
        &agent.ctx.state.objects,
        &Place { worktree: &entry.path, admin: &entry.admin, head: head.as_ref() },
    )?;
    facts.own_commits = own_commits(agent, head.as_ref())?;
    let patterns = row.leftovers.iter().chain(&agent.plan.throw_away);
    let known: Vec<globset::GlobMatcher> =
        patterns.filter_map(|p| globset::Glob::new(p).ok()).map(|g| g.compile_matcher()).collect();
    let work: Vec<String> = changes
        .all()
        .map(|p| String::from_utf8_lossy(p).into_owned())
        .filter(|p| !known.iter().any(|k| k.is_match(p)))
        .collect();
    facts.changed = !work.is_empty() || (head != begin && facts.own_commits);
    let (state, reason) = adapter::judge(row, &facts);
    if state == RunState::Succeeded
        && !work.is_empty()
        && agent.plan.commit_leftovers
        && let Err(why) = commit_for(agent, entry, row, &changes)
    {
        return Ok(Done::Final(RunState::Failed, Some(why)));
    }
    if !start::messages(&agent.run).is_empty() {
        agent.record.attempt -= 1;
        return Ok(Done::Again);
    }
    let early = !seen.progress || seen.seconds < 10;
    let failed_early =
        (state == RunState::Failed && early && !facts.own_commits).then(|| reason.clone().unwrap_or_default());
    start::note_start(&agent.ctx, &assistant, failed_early.as_deref())?;
    Ok(match state {
        RunState::Failed => Done::Failed(state, reason),
        other => Done::Final(other, reason),
    })
}

fn own_commits(agent: &Agent, head: Option<&Oid>) -> Result<bool> {
    let inv = crate::ops::inventory::Inventory::read(&agent.ctx)?;
    let Some(a) = inv.agents.iter().find(|a| a.reg.id == agent.reg.id) else { return Ok(false) };
    Ok(head.is_some() && !crate::ops::inventory::own_commits(&agent.ctx, &inv, a)?.is_empty())
}

/// Commits what the assistant left: its work, the user's hooks, the user's name, a trailer that says who did it.
fn commit_for(
    agent: &Agent,
    entry: &worktree::Entry,
    row: &Adapter,
    changes: &status::Changes,
) -> std::result::Result<(), String> {
    let repo = agent.ctx.repo();
    let call = |args: &[&str]| {
        GitCall::user_visible(&entry.path, args)
            .env("GIT_DIR", &entry.admin)
            .env("GIT_COMMON_DIR", &repo.common_dir)
            .env("GIT_WORK_TREE", &entry.path)
            .env_remove("GIT_OPTIONAL_LOCKS")
    };
    if !changes.conflicted.is_empty() {
        return Err("it left a merge in conflict".into());
    }
    let mut add = call(&["add", "--all", "--", "."]);
    for p in row.leftovers.iter().chain(&agent.plan.throw_away) {
        add.arg(format!(":(exclude,glob){p}"));
    }
    add.run().map_err(|e| format!("what it left could not be committed: {e}"))?;
    let title = crate::model::text::one_line(&agent.task.title, 72);
    let message = format!("{title}\n\nAssisted-by: {} ({})\n", agent.reg.name, row.name);
    let mut commit = call(&["commit", "--quiet", "-F", "-"]);
    if !agent.plan.sign {
        commit.arg("--no-gpg-sign");
    }
    match commit.input(message.into_bytes()).output() {
        Ok(o) if o.status.success() => Ok(()),
        Ok(o) => {
            let mut said = String::from_utf8_lossy(&o.stderr).trim().to_owned();
            if said.is_empty() {
                said = String::from_utf8_lossy(&o.stdout).trim().to_owned();
            }
            // Excluded files alone are nothing to commit.
            if said.contains("nothing to commit") || said.contains("nothing added to commit") {
                return Ok(());
            }
            Err(format!("what it left could not be committed: {}", crate::model::text::one_line(&said, 400)))
        }
        Err(e) => Err(format!("what it left could not be committed: {e}")),
    }
}

/// A capture of the worktree as it is, among the last five.
pub fn capture(agent: &Agent, why: &str) {
    if let Err(e) = try_capture(agent, why) {
        say(&format!("warning: no capture: {e}"));
    }
}

fn try_capture(agent: &Agent, why: &str) -> Result<()> {
    let Some(entry) = identity::entry_of(&agent.ctx, &agent.reg)? else { return Ok(()) };
    if entry.link() != worktree::Link::Good {
        return Ok(());
    }
    let prefix = format!("refs/agents/auto/{}/", agent.reg.id);
    let there = refs::list(agent.ctx.repo(), &[&prefix])?;
    let number = |name: &str| name.rsplit('/').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let next = there.keys().map(|n| number(n)).max().unwrap_or(0) + 1;
    let head = match &entry.head {
        worktree::Head::Branch(b) => refs::read(agent.ctx.repo(), b)?,
        worktree::Head::Detached(id) => Some(id.clone()),
        worktree::Head::Unknown => None,
    };
    let reference = format!("{prefix}{next}");
    let about = json!({ "agent": agent.reg.id, "name": agent.reg.name, "branch": agent.reg.branch, "why": why, "at": clock::now() });
    let options = captures::Options { reference: &reference, about, max_file: agent.plan.capture_max_file, also: &[] };
    captures::take(agent.ctx.repo(), &agent.ctx.state.objects, &entry, head.as_ref(), &options)?;
    let mut old: Vec<(u64, &String, &Oid)> = there.iter().map(|(n, id)| (number(n), n, id)).collect();
    old.sort();
    let surplus = (old.len() + 1).saturating_sub(5);
    for (_, name, id) in old.into_iter().take(surplus) {
        refs::delete(agent.ctx.repo(), name, id)?;
    }
    Ok(())
}
