//! One attempt: the assistant called once, watched to its end, judged by git first.

use super::watch::Watch;
use super::{Agent, capture, leftovers, notify};
use crate::config::template;
use crate::git::state::event;
use crate::git::status::{self, Place};
use crate::git::{refs, worktree};
use crate::model::agent::{Oid, RunState};
use crate::model::event::Kind;
use crate::model::task::short_ref;
use crate::ops::{Error, Result, hold, identity, inbox};
use crate::place::adapter::{self, Activity, Adapter, CallInput, Facts, FrameInfo, Reader, SessionBy, StdinBy};
use crate::place::job::{self, Happening, Job, Stop};
use crate::place::log::{CAP, CappedLog, EVENT_MAX, EventLog, HEAD, LINE_MAX, LineSplitter};
use crate::runtime::{clock, files};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

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
pub fn values(agent: &Agent, entry: &worktree::Entry) -> BTreeMap<&'static str, String> {
    let mut values = crate::ops::plan::values(&agent.ctx, &agent.reg.id, &agent.task, &agent.plan.repo, &entry.path);
    // What a commit in this worktree writes, for sandboxes: never all of the repository, where its hooks and config are.
    let common = &agent.ctx.repo().common_dir;
    let parts = ["objects", "refs", "logs", "reftable"].map(|d| common.join(d));
    let folders = std::iter::once(&entry.admin).chain(parts.iter().filter(|d| d.is_dir()));
    let folders: Vec<String> = folders.map(|d| d.display().to_string()).collect();
    values.insert("writable", serde_json::to_string(&folders).unwrap_or_else(|_| "[]".to_owned()));
    values
}

/// Whose commits it makes, for an assistant that hides the user's settings from git.
pub fn author(agent: &Agent, row: &Adapter) -> Result<Vec<(String, OsString)>> {
    if !row.hides_settings {
        return Ok(Vec::new());
    }
    let settings = agent.ctx.repo().settings()?;
    let mut env = Vec::new();
    for (key, what) in [("user.name", "NAME"), ("user.email", "EMAIL")] {
        if let Some((_, _, value)) = settings.iter().rev().find(|(_, k, v)| k == key && !v.is_empty()) {
            env.extend(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_{what}"), value.into())));
        }
    }
    Ok(env)
}

/// Runs one attempt.
pub fn run(agent: &mut Agent) -> Result<Done> {
    let entry = identity::check_place(&agent.ctx, &agent.reg)?;
    let row = agent.plan.adapter.clone().ok_or_else(|| Error::refused("it has no assistant", "git agents attach"))?;
    // What it did to a script that its own command names was approved by nobody. A name that was no file then is what
    // the command writes, not what it runs.
    let mut scripts = agent.plan.assistant_scripts.clone();
    scripts.retain(|_, digest| digest.is_some());
    let changed = crate::config::plan::changed_scripts(&scripts, &crate::ops::plan::script_in(&entry.path));
    if !changed.is_empty() {
        return Ok(Done::Final(RunState::Failed, Some(crate::ops::plan::not_as_approved(&changed))));
    }
    let begin = refs::read(agent.ctx.repo(), &agent.reg.branch)?;
    agent.record.attempt += 1;
    agent.record.exit_code = None;
    agent.record.proven = None;
    agent.record.signal = None;
    agent.record.question = None;
    agent.record.reason = None;
    agent.record.started.get_or_insert_with(clock::now);
    let _ = std::fs::remove_file(agent.run.file("now"));
    let messages = inbox::messages(&agent.run);
    let resume = row.can_resume() && agent.record.session.is_some();
    if agent.record.session.is_none() && matches!(row.session, SessionBy::Chosen(_)) {
        agent.record.session = Some(uuid());
    }
    let prompt = prompt(agent, &entry.path, resume, &messages);
    let prompt_file = agent.run.file("prompt.md");
    files::write_atomic(&prompt_file, prompt.as_bytes())?;
    let exe = std::env::current_exe().map_err(files::because("find", Path::new("git-agents")))?;
    let values = values(agent, &entry);
    let spent = agent.record.cost_usd.unwrap_or(0.0);
    let input = CallInput {
        prompt: &prompt,
        prompt_file: &prompt_file,
        model: agent.task.model.as_deref(),
        permission: agent.task.permission,
        session: agent.record.session.as_deref(),
        resume,
        cost_usd: agent.plan.cost_override.or(agent.task.cost_usd).map(|limit| (limit - spent).max(0.01)),
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
    env.extend(author(agent, &row)?);
    env.extend(call.env);
    let job = Job {
        argv: call.argv,
        env,
        env_allow: agent.plan.env_allow.clone(),
        cwd: entry.path.clone(),
        stdin: (call.stdin == StdinBy::PromptFile).then(|| prompt_file.clone()),
        token: agent.address.token.clone(),
        grace: agent.plan.grace(),
    };
    let told: Vec<String> = messages.iter().map(|(_, m)| m.clone()).chain(agent.record.hand_on.clone()).collect();
    let said: Vec<PathBuf> = messages.into_iter().map(|(path, _)| path).collect();
    let seen = watched(agent, &row, &job, &entry, &said, resume)?;
    if seen.has_no_session(&row) {
        // It is gone, or has not begun: to resume it would fail again, for ever. Nobody has heard what it was told.
        agent.record.session = None;
        agent.record.hand_on = (!told.is_empty()).then(|| told.join("\n\n"));
    }
    agent.address.assistant = None;
    agent.publish_address();
    conclude(agent, &row, &entry, begin, seen)
}

fn uuid() -> String {
    let h = clock::random_hex(16);
    format!("{}-{}-4{}-a{}-{}", &h[..8], &h[8..12], &h[13..16], &h[17..20], &h[20..32])
}

fn prompt(agent: &Agent, worktree: &Path, resume: bool, messages: &[(std::path::PathBuf, String)]) -> String {
    let mut said: Vec<&str> = messages.iter().map(|(_, m)| m.as_str()).collect();
    said.extend(agent.record.hand_on.as_deref());
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
        check: true,
    };
    adapter::frame(&task, &info)
}

/// Where the others work: the paths of their commits, and the `files` they were given. Never what they do.
fn others(agent: &Agent) -> Result<Vec<(String, Vec<String>)>> {
    let mut out = Vec::new();
    let (registrations, _) = agent.ctx.state.registrations()?;
    for r in registrations.iter().filter(|r| r.id != agent.reg.id) {
        let Ok(task) = agent.ctx.state.task(&r.id) else { continue };
        if task.group.is_some() && task.group == agent.task.group {
            continue;
        }
        let mut paths: Vec<String> = task.files.clone();
        if let Some(tip) = refs::read(agent.ctx.repo(), &r.branch)?.filter(|tip| *tip != r.fork) {
            let changed = agent.ctx.state.objects.changed_paths(&r.fork, &tip).unwrap_or_default();
            paths.extend(changed.iter().take(50).map(|p| crate::model::text::safe_path(p)));
        }
        if !paths.is_empty() {
            out.push((r.name.0.clone(), paths));
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
    /// It did something after it asked.
    went_on: bool,
    /// It was to go on with a session.
    resumed: bool,
    /// It told the id of its session: there is one.
    session: bool,
    /// The last error it said, or else the last line, that was no event.
    aside: Option<String>,
    rate_limit: Option<Option<String>>,
    could_not_start: Option<String>,
    progress: bool,
    seconds: u64,
}

impl Seen {
    /// Whether it would have told of a session if there were one to go on with.
    fn has_no_session(&self, row: &Adapter) -> bool {
        let tells = row.session != SessionBy::None && row.output.names_session();
        let failed = self.ended.stopped.is_none() && self.ended.code.is_some_and(|c| c != 0);
        tells && !self.session && (failed || !self.resumed)
    }
}

fn watched(
    agent: &mut Agent,
    row: &Adapter,
    job: &Job,
    entry: &worktree::Entry,
    said: &[PathBuf],
    resumed: bool,
) -> Result<Seen> {
    let open = |name: &'static str| files::because("open", Path::new(name));
    let mut raw = CappedLog::open(&agent.run.file("output.log"), HEAD, CAP).map_err(open("output.log"))?;
    let mut events = EventLog::open(&agent.run.file("events.jsonl")).map_err(open("events.jsonl"))?;
    let mut splitter = LineSplitter::new(if row.output.has_events() { EVENT_MAX } else { LINE_MAX });
    let mut seen = Seen { resumed, ..Seen::default() };
    let mut watch = Watch::new(agent);
    let tokens = agent.record.tokens.filter(|_| !(resumed && row.usage_of_session));
    let spent_before = (agent.record.cost_usd, tokens);
    let begun = std::time::Instant::now();
    let mut reader = Reader::new(row.output);
    let signals = std::mem::replace(&mut agent.signals, crate::runtime::signals::Signals::none());
    let result = job::run(job, &signals, |happening| match happening {
        Happening::Started(id) => {
            agent.address.assistant = Some(id.clone());
            agent.publish_address();
            watch.started(id.pid);
            crate::runtime::process::release_code();
            // Only now: a kill before this leaves them for the next attempt.
            for message in said {
                let _ = std::fs::remove_file(message);
            }
            agent.record.hand_on = None;
            None
        }
        Happening::Output(bytes) => {
            raw.write(bytes);
            watch.printed();
            let mut lines: Vec<Activity> = Vec::new();
            splitter.push(bytes, |line| lines.extend(reader.line(line)));
            for activity in lines {
                take_in(agent, &mut seen, &mut watch, &activity, spent_before);
                events.append(&Logged { at: clock::now(), attempt: agent.record.attempt, activity });
            }
            decide(agent, &seen, &watch)
        }
        Happening::Tick(woken) => {
            if agent.mend_folder() {
                if let Ok(anew) = CappedLog::open(&agent.run.file("output.log"), HEAD, CAP) {
                    raw = anew;
                }
                if let Ok(anew) = EventLog::open(&agent.run.file("events.jsonl")) {
                    events = anew;
                }
            }
            let stopping = agent.stopping(woken);
            watch.tick(agent, entry);
            if stopping {
                return Some(Stop::Asked);
            }
            if agent.run.file("now").exists() && !inbox::messages(&agent.run).is_empty() {
                return Some(Stop::Message);
            }
            if watch.has_asked() && !inbox::messages(&agent.run).is_empty() {
                // The answer is here.
                return Some(Stop::Question);
            }
            decide(agent, &seen, &watch)
        }
    });
    agent.signals = signals;
    let mut last: Vec<Activity> = Vec::new();
    splitter.finish(|line| last.extend(reader.line(line)));
    last.extend(reader.end());
    for activity in last {
        take_in(agent, &mut seen, &mut watch, &activity, spent_before);
        events.append(&Logged { at: clock::now(), attempt: agent.record.attempt, activity });
    }
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
    if activity.is_progress() && !matches!(activity, Activity::Finished { .. }) {
        // It goes on by itself. Its end alone is no answer.
        agent.record.question = None;
        seen.went_on = true;
    }
    match activity {
        Activity::Message { text } => seen.last_words = Some(text.clone()),
        Activity::Session { id } if !id.is_empty() => {
            seen.session = true;
            if agent.record.session.as_ref() != Some(id) {
                agent.record.session = Some(id.clone());
                // At once: who is killed a moment later goes on with it.
                agent.publish();
            }
        }
        Activity::Progress { text } | Activity::Retrying { text } | Activity::Other { text } => {
            let error = |text: &str| text.to_ascii_lowercase().contains("error");
            if error(text) || seen.aside.as_deref().is_none_or(|a| !error(a)) {
                seen.aside = Some(text.clone());
            }
        }
        Activity::Denied { .. } => agent.record.denied += 1,
        Activity::Usage { cost_usd, tokens } => {
            if let Some(c) = cost_usd {
                agent.record.cost_usd = Some(before.0.unwrap_or(0.0) + c);
            }
            if let Some(t) = tokens {
                agent.record.tokens = Some(before.1.unwrap_or(0).saturating_add(*t));
            }
        }
        Activity::NeedsInput { question } => {
            seen.question = Some(question.clone());
            seen.went_on = false;
            agent.record.question = Some(question.clone());
            watch.asked();
            agent.publish();
            notify::notify(agent, "needs-input", Some(question));
        }
        Activity::RateLimit { resume_at } => seen.rate_limit = Some(resume_at.clone()),
        Activity::Finished { ok, text } => {
            seen.finished = Some(*ok);
            if !ok && text.is_some() {
                seen.aside.clone_from(text);
            }
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
    if let Some(why) = seen.could_not_start {
        hold::note_start(&agent.ctx, agent.assistant(), Some(&why))?;
        return Ok(Done::Failed(RunState::Failed, Some(why)));
    }
    match seen.ended.stopped {
        Some(Stop::Asked) => return Ok(Done::Final(RunState::Stopped, None)),
        Some(Stop::Message) => {
            agent.record.attempt -= 1;
            return Ok(Done::Again);
        }
        Some(Stop::RateLimit) => return Ok(Done::RateLimited(seen.rate_limit.flatten())),
        Some(Stop::Question) => return Ok(asked(agent, seen.question)),
        Some(Stop::Time) => {
            capture::take(agent, "timed out");
            let limit = crate::model::units::format_duration(agent.task.time_s.unwrap_or(0));
            return Ok(Done::Final(RunState::TimedOut, Some(format!("longer than {limit}"))));
        }
        Some(Stop::Stall) => {
            capture::take(agent, "stalled");
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
    // One that asks and ends well has not finished; one that asks and dies had no time to go on.
    let asks = seen.finished.is_none() || seen.finished == Some(true) && !seen.went_on;
    if seen.question.is_some() && asks {
        return Ok(asked(agent, seen.question));
    }
    if entry.link() != worktree::Link::Good {
        let why = identity::check_place(&agent.ctx, &agent.reg).err();
        let why = why.map(|e| format!("{e}{}", e.hint().map(|h| format!("; {h}")).unwrap_or_default()));
        return Ok(Done::Final(RunState::Failed, why));
    }
    let head = refs::read(agent.ctx.repo(), &agent.reg.branch)?;
    let now = worktree::read(agent.ctx.repo(), &entry.id)?;
    let is_own = |on: &worktree::Head| matches!(on, worktree::Head::Branch(b) if *b == agent.reg.branch);
    if head.is_none() && begin.is_some() && now.as_ref().is_some_and(|now| is_own(&now.head)) {
        // Nothing is committed on what is no branch: it would begin a history of its own. The capture has the work.
        capture::take(agent, "branch-gone");
        let branch = short_ref(&agent.reg.branch);
        let last = worktree::last_head(&entry.admin);
        let back = last.map(|id| format!("; 'git branch {branch} {}' makes it anew", id.short())).unwrap_or_default();
        return Ok(Done::Final(RunState::Failed, Some(format!("it deleted its branch '{branch}'{back}"))));
    }
    let now = now.filter(|_| head.is_some());
    // In the middle of a rebase it stands on commits, and comes back.
    let stands_on = now.and_then(|now| match now.head {
        worktree::Head::Branch(branch) if branch != agent.reg.branch => Some(short_ref(&branch).to_owned()),
        worktree::Head::Detached(ref id) if now.operation().is_none() => Some(id.short().to_owned()),
        _ => None,
    });
    let mut facts =
        Facts { exit_code: seen.ended.code, signal: seen.ended.signal, finished: seen.finished, ..Facts::default() };
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
    // On its own tip with nothing besides it has lost nothing; else work would be, or is, on no branch of its own.
    let is_tip = |on: &String| head.as_ref().is_some_and(|h| h.short() == on) && work.is_empty();
    if let Some(on) = stands_on.filter(|on| !is_tip(on)) {
        return Ok(Done::Final(RunState::Failed, Some(format!("it left its branch: '{on}' is checked out"))));
    }
    facts.changed = !work.is_empty() || (head != begin && facts.own_commits);
    let (state, reason) = adapter::judge(row, &facts);
    if state == RunState::Succeeded && !work.is_empty() && agent.plan.commit_leftovers {
        match leftovers::commit(agent, entry, row, &changes)? {
            leftovers::Commit::Done => {}
            leftovers::Commit::Stopped => return Ok(Done::Final(RunState::Stopped, None)),
            leftovers::Commit::Refused(why) => return Ok(Done::Final(RunState::Failed, Some(why))),
        }
    }
    if !inbox::messages(&agent.run).is_empty() {
        agent.record.attempt -= 1;
        return Ok(Done::Again);
    }
    let early = !seen.progress || seen.seconds < 10;
    let failed_early =
        (state == RunState::Failed && early && !facts.own_commits).then(|| reason.clone().unwrap_or_default());
    hold::note_start(&agent.ctx, agent.assistant(), failed_early.as_deref())?;
    Ok(match state {
        RunState::Failed => {
            // Its own words say more than its exit code.
            let words = seen.aside.map(|w| crate::model::text::one_line(&w, 300)).filter(|w| !w.is_empty());
            let reason = reason.map(|r| words.map_or_else(|| r.clone(), |w| format!("{r}: {w}")));
            Done::Failed(state, reason)
        }
        other => Done::Final(other, reason),
    })
}

/// It asked: a message that is there already is the answer.
fn asked(agent: &mut Agent, question: Option<String>) -> Done {
    if inbox::messages(&agent.run).is_empty() {
        agent.record.question.clone_from(&question);
        return Done::Final(RunState::NeedsInput, question);
    }
    agent.record.attempt -= 1;
    Done::Again
}

fn own_commits(agent: &Agent, head: Option<&Oid>) -> Result<bool> {
    let Some(head) = head else { return Ok(false) };
    let journal = agent.ctx.state.journal_of(&agent.reg.id)?;
    let own = crate::ops::inventory::own_commits_of(&agent.ctx, &agent.reg, &agent.task, &journal, head)?;
    Ok(!own.is_empty())
}
