//! Looking on: states and activity of some agents until all are settled. It only reads; ending it ends nothing else.

use super::Session;
use super::error::CliError;
use super::lines::{Line, NewState, RunLine, SettledAgent};
use super::ui::{Label, Ui, terminal_size};
use crate::model::agent::{AgentId, RunState};
use crate::model::units::count;
use crate::ops::Context;
use crate::ops::record::{Record, RunDir, stand};
use crate::place::adapter::Activity;
use crate::place::log::EventFollower;
use crate::runtime::clock;
use crate::runtime::signals::{Signals, Wake};
use crate::supervisor::attempt::Logged;
use std::io::Write as _;
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr as _;

/// How to look on.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// JSON lines on standard output instead of narration.
    pub json: bool,
    /// Give up after this long.
    pub timeout: Option<Duration>,
    /// The first that settles is enough.
    pub any: bool,
    /// For the words.
    pub batch: Option<u64>,
    /// Ring the terminal's bell when an agent ends or needs somebody: `agents.notify = bell`.
    pub bell: bool,
}

/// How looking on ended.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// All have succeeded.
    pub all_succeeded: bool,
    /// The time was up.
    pub timed_out: bool,
    /// The signal that ended it.
    pub interrupted: Option<i32>,
}

struct Seen {
    id: AgentId,
    name: String,
    run: RunDir,
    state: Option<RunState>,
    reason: Option<String>,
    record: Option<Record>,
    activity: String,
    events: EventFollower,
    since: Instant,
}

/// Signals caught, so that none of them cuts off what follows.
pub fn catch() -> Result<Signals, CliError> {
    Signals::catch().map_err(|e| CliError::refused(format!("signals: {e}"), "try again"))
}

/// Looks on until every agent is settled.
pub fn follow(
    s: &Session,
    ctx: &Context,
    agents: Vec<(AgentId, String)>,
    options: &Options,
    signals: &Signals,
) -> Result<End, CliError> {
    let started = Instant::now();
    let mut seen: Vec<Seen> = agents
        .into_iter()
        .map(|(id, name)| {
            let run = RunDir::of(&ctx.state, &id);
            let events = EventFollower::new(&run.file("events.jsonl"));
            Seen {
                id,
                name,
                run,
                state: None,
                reason: None,
                record: None,
                activity: String::new(),
                events,
                since: Instant::now(),
            }
        })
        .collect();
    if options.json {
        for a in &seen {
            let (name, id) = (a.name.clone(), a.id.clone());
            s.ui.json(&Line::of(RunLine::Agent { name, id, batch: options.batch, accepted: None }))?;
        }
    }
    let mut screen = Screen::new(&s.ui, options.json);
    let mut last_change = Instant::now();
    loop {
        let mut changed = false;
        for a in &mut seen {
            changed |= look(s, ctx, a, options)?;
        }
        if changed {
            last_change = Instant::now();
        }
        screen.draw(&seen, changed);
        let settled = |a: &Seen| a.state.is_none_or(RunState::is_settled);
        let done = if options.any { seen.iter().any(settled) } else { seen.iter().all(settled) };
        if done {
            screen.clear();
            return finish(s, &seen, options, None);
        }
        if options.timeout.is_some_and(|t| started.elapsed() >= t) {
            screen.clear();
            let left = seen.iter().filter(|a| !settled(a)).count();
            return finish(s, &seen, options, Some(left));
        }
        let woken = signals.take();
        if woken.contains(&Wake::Child) || changed {
            crate::ops::start::reap();
        }
        for w in woken {
            if let Wake::End(signal) = w {
                screen.clear();
                let left = seen.iter().filter(|a| !settled(a)).count();
                s.ui.say(&still_running(left));
                s.ui.hint(
                    "'git agents wait' looks on again, 'git agents status' tells, 'git agents stop --all' ends them",
                );
                return Ok(End { interrupted: Some(signal as i32), ..End::default() });
            }
        }
        // Quick while something happens, unhurried while nothing does.
        let pause = if last_change.elapsed() < Duration::from_secs(2) { 15 } else { 150 };
        signals.wait(pause);
    }
}

/// `3 agents keep running`, `1 agent keeps running`.
fn still_running(n: usize) -> String {
    format!("{} keep{} running", count(n, "agent"), if n == 1 { "s" } else { "" })
}

/// `left`: how many are not settled, where the time was up.
fn finish(s: &Session, seen: &[Seen], options: &Options, left: Option<usize>) -> Result<End, CliError> {
    let timed_out = left.is_some();
    if options.json {
        let one = |a: &Seen| SettledAgent {
            name: a.name.clone(),
            state: a.state,
            reason: a.reason.clone(),
            attempt: a.record.as_ref().map(|r| r.attempt),
        };
        s.ui.json(&Line::of(RunLine::Settled { timed_out, agents: seen.iter().map(one).collect() }))?;
    } else if let Some(left) = left {
        s.ui.err(&format!("error: time is up; {}", still_running(left)));
        s.ui.hint("git agents wait");
    }
    let all_succeeded = seen.iter().all(|a| a.state == Some(RunState::Succeeded));
    Ok(End { all_succeeded, timed_out, interrupted: None })
}

/// Takes in what is new about one agent; whether anything is.
fn look(s: &Session, ctx: &Context, a: &mut Seen, options: &Options) -> Result<bool, CliError> {
    let mut record = stand(&a.run, || None, true)?;
    if record.as_ref().is_none_or(|r| r.state == RunState::Dead) && !a.run.dir.exists() {
        // The run folder is gone: the journal tells.
        let journal = ctx.state.journal_of(&a.id)?;
        record = stand(&a.run, || Some(&journal), true)?;
    }
    let mut news = Vec::new();
    a.events
        .poll(|e: Logged| news.push(e))
        .map_err(|e| CliError::refused(format!("the events of '{}' cannot be read: {e}", a.name), "git agents logs"))?;
    let state = record.as_ref().map(|r| r.state);
    let reason = record.as_ref().and_then(|r| r.reason.clone());
    let mut changed = state != a.state || reason != a.reason;
    let ends = changed && state.is_some_and(RunState::is_settled);
    // What it did comes between the state it began with and its end.
    if changed && !ends {
        turn(s, a, record.take(), options)?;
    }
    for e in news {
        if let Some(line) = line_of(&e.activity) {
            a.activity = line;
            changed = true;
        }
        if options.json {
            let name = a.name.clone();
            s.ui.json(&Line::of(RunLine::Activity { name, at: e.at, attempt: e.attempt, activity: e.activity }))?;
        }
    }
    if ends {
        turn(s, a, record, options)?;
    }
    Ok(changed)
}

/// A new state, said.
fn turn(s: &Session, a: &mut Seen, record: Option<Record>, options: &Options) -> Result<(), CliError> {
    a.state = record.as_ref().map(|r| r.state);
    a.reason = record.as_ref().and_then(|r| r.reason.clone());
    a.record = record;
    a.since = Instant::now();
    if options.bell && s.ui.err_tty && a.state.is_some_and(|st| st.is_final() || st == RunState::NeedsInput) {
        s.ui.ring();
    }
    if options.json {
        let r = a.record.as_ref();
        let now = NewState {
            name: a.name.clone(),
            state: a.state,
            reason: a.reason.clone(),
            attempt: r.map(|r| r.attempt),
            question: r.and_then(|r| r.question.clone()),
            exit_code: r.and_then(|r| r.exit_code),
        };
        let ends = a.state.is_some_and(RunState::is_settled);
        s.ui.json(&Line::of(if ends { RunLine::End(now) } else { RunLine::State(now) }))?;
    } else if !s.ui.err_tty {
        let why = a.reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default();
        let word = a.state.map_or("none", RunState::word);
        s.ui.say(&format!("{}: {word}{why}", a.name));
    }
    Ok(())
}

/// One line for a person; `None` for what says nothing to one.
pub fn line_of(a: &Activity) -> Option<String> {
    let text = match a {
        Activity::Progress { text } | Activity::Message { text } | Activity::Retrying { text } => text.clone(),
        Activity::Tool { name, text } => format!("{name}: {text}"),
        Activity::NeedsInput { question } => format!("asks: {question}"),
        Activity::RateLimit { resume_at } => {
            format!("rate limit until {}", resume_at.as_deref().map_or("later".into(), clock::local))
        }
        Activity::Denied { what } => format!("denied: {what}"),
        Activity::Finished { text, ok } => {
            text.clone().unwrap_or_else(|| if *ok { "finished".into() } else { "gave up".into() })
        }
        Activity::Usage { .. } | Activity::Session { .. } | Activity::Other { .. } => return None,
    };
    Some(crate::model::text::one_line(&text, 200))
}

/// Progress that is drawn over itself, on a terminal only; it never scrolls.
struct Screen<'a> {
    ui: &'a Ui,
    on: bool,
    lines: usize,
    drawn: Option<Instant>,
}

impl<'a> Screen<'a> {
    fn new(ui: &'a Ui, json: bool) -> Screen<'a> {
        Screen { ui, on: ui.err_tty && !ui.quiet && !json, lines: 0, drawn: None }
    }

    fn draw(&mut self, seen: &[Seen], changed: bool) {
        let due = self.drawn.is_none_or(|d| d.elapsed() >= Duration::from_secs(1));
        if !self.on || !(changed || due) {
            return;
        }
        self.drawn = Some(Instant::now());
        let (columns, height) = terminal_size();
        let room = usize::from(height).saturating_sub(2).max(3);
        // More agents than lines: those that need somebody and those that changed last.
        let mut order: Vec<&Seen> = seen.iter().collect();
        if seen.len() > room {
            order.sort_by_key(|a| {
                (
                    a.state != Some(RunState::NeedsInput),
                    a.state.is_some_and(RunState::is_settled),
                    std::cmp::Reverse(a.since),
                )
            });
            order.truncate(room - 1);
        }
        let width = order.iter().map(|a| a.name.width()).max().unwrap_or(0).min(30);
        let mut text = String::new();
        for a in &order {
            let word = a.state.map_or("preparing", RunState::word);
            let label = match a.state {
                Some(RunState::Succeeded) => Label::Good,
                Some(RunState::NeedsInput | RunState::Unchanged | RunState::Stopped) => Label::Warn,
                Some(s) if s.is_final() => Label::Bad,
                _ => Label::Dim,
            };
            let shown = match (&a.reason, a.state) {
                (Some(r), _) => r.clone(),
                (None, Some(s)) if s.is_final() => a.record.as_ref().and_then(|r| r.claim.clone()).unwrap_or_default(),
                _ => a.activity.clone(),
            };
            let name = crate::model::text::safe_line(a.name.as_bytes());
            let name = crate::model::text::clip(&name, width).into_owned();
            let pad = " ".repeat(width.saturating_sub(name.as_str().width()));
            let rest = usize::from(columns).saturating_sub(width + 15);
            let shown = crate::model::text::safe_line(shown.as_bytes());
            let shown = crate::model::text::clip(&shown, rest);
            text.push_str(&format!("{name}{pad}  {}  {shown}\n", self.ui.paint_err(label, &format!("{word:11}"))));
        }
        if order.len() < seen.len() {
            let settled = seen.iter().filter(|a| a.state.is_some_and(RunState::is_settled)).count();
            text.push_str(&format!("{} of {} settled\n", settled, seen.len()));
        }
        let up = if self.lines > 0 { format!("\x1b[{}A\x1b[J", self.lines) } else { String::new() };
        self.lines = text.lines().count();
        let mut e = std::io::stderr().lock();
        let _ = e.write_all(format!("{up}{text}").as_bytes());
        let _ = e.flush();
    }

    fn clear(&mut self) {
        if self.on && self.lines > 0 {
            let mut e = std::io::stderr().lock();
            let _ = e.write_all(format!("\x1b[{}A\x1b[J", self.lines).as_bytes());
            let _ = e.flush();
            self.lines = 0;
        }
    }
}
