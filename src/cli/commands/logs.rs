//! `git agents logs`.

use super::chosen;
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::follow::line_of;
use crate::model::event::{Event, Kind};
use crate::model::text::{safe_text, shown_path};
use crate::ops::inventory::{Agent, Inventory};
use crate::ops::record::from_event;
use crate::ops::select::Match;
use crate::place::adapter::Activity;
use crate::place::log::{EventFollower, Follower, LINE_MAX, read_all, tail};
use crate::runtime::clock;
use crate::runtime::signals::Wake;
use crate::supervisor::attempt::Logged;
use std::io::{Read as _, Write as _};

/// A readable transcript: time, kind, one line; made safe for a terminal
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which; by default the one of this directory, or those of the last batch
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Go on as more comes
    #[arg(short = 'f', long)]
    follow: bool,
    /// Only the last N lines
    #[arg(short = 'n', value_name = "N")]
    lines: Option<usize>,
    /// Only what is younger than T (a duration, or RFC 3339)
    #[arg(long, value_name = "T", conflicts_with_all = ["raw", "setup", "test", "supervisor"])]
    since: Option<String>,
    /// Those of batch N
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// What it printed, byte for byte
    #[arg(long, conflicts_with_all = ["setup", "test", "supervisor"])]
    raw: bool,
    /// Of the setup commands
    #[arg(long, conflicts_with_all = ["test", "supervisor"])]
    setup: bool,
    /// Of the tests: on its tip, and on the commit it is compared with
    #[arg(long, conflicts_with = "supervisor")]
    test: bool,
    /// Of the supervisor
    #[arg(long)]
    supervisor: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    let mut names = chosen(&ctx, &inv, &args.agents, args.batch, false, Match::Prefix)?;
    if names.is_empty() {
        names = match ctx.here()? {
            Some(r) => vec![r.name.0],
            None => chosen(&ctx, &inv, &[], Some(super::last_batch(&inv)?), false, Match::Prefix)?,
        };
    }
    let agents: Vec<&Agent> = names.iter().filter_map(|n| inv.find(n)).collect();
    let since = args.since.as_deref().map(since).transpose()?;
    if args.raw || args.setup || args.test || args.supervisor {
        return plain(s, args, &inv, &agents);
    }
    for a in &agents {
        missing(s, &inv, a, "events.jsonl");
    }
    let mut look = Look::at(&agents);
    let mut all = look.poll()?;
    for (i, a) in agents.iter().enumerate().filter(|(_, a)| !a.run.file("events.jsonl").exists()) {
        let Some(journal) = inv.journal.get(&a.reg.id) else { continue };
        all.extend(journal.events.iter().filter_map(|e| Some((i, noted(e)?))));
    }
    all.sort_by(|x, y| x.1.at.cmp(&y.1.at));
    if let Some(t) = &since {
        all.retain(|(_, e)| e.at >= *t);
    }
    // What says nothing to a person is no line.
    let mut lines: Vec<String> = all.iter().filter_map(|(n, e)| look.render(*n, e)).collect();
    if let Some(n) = args.lines {
        lines.drain(..lines.len().saturating_sub(n));
    }
    let text = lines.concat();
    if !args.follow {
        s.ui.page(&text)?;
        return Ok(code::DONE);
    }
    s.ui.out(&text)?;
    follow(s, look)
}

/// The events of some agents, as they come.
struct Look<'a> {
    agents: &'a [&'a Agent],
    events: Vec<EventFollower>,
}

impl<'a> Look<'a> {
    fn at(agents: &'a [&'a Agent]) -> Look<'a> {
        let events = agents.iter().map(|a| EventFollower::new(&a.run.file("events.jsonl"))).collect();
        Look { agents, events }
    }

    /// What is new, with the number of its agent.
    fn poll(&mut self) -> Result<Vec<(usize, Logged)>, CliError> {
        let mut new = Vec::new();
        for (i, f) in self.events.iter_mut().enumerate() {
            f.poll(|e: Logged| new.push((i, e))).map_err(|e| {
                let what = format!("the log of '{}' cannot be read: {e}", self.agents[i].reg.name);
                CliError::refused(what, "git agents logs --raw")
            })?;
        }
        Ok(new)
    }

    fn render(&self, agent: usize, e: &Logged) -> Option<String> {
        render((self.agents.len() > 1).then(|| self.agents[agent].reg.name.0.as_str()), e)
    }
}

fn render(name: Option<&str>, e: &Logged) -> Option<String> {
    let line = line_of(&e.activity)?;
    let kind = match &e.activity {
        Activity::Progress { .. } => "",
        Activity::Message { .. } => "says",
        Activity::Tool { .. } => "tool",
        Activity::NeedsInput { .. } => "asks",
        Activity::RateLimit { .. } => "limit",
        Activity::Denied { .. } => "denied",
        Activity::Finished { .. } => "done",
        Activity::Retrying { .. } => "retry",
        _ => "",
    };
    let at = clock::local(&e.at);
    let time = at.get(11..19).unwrap_or(&at);
    let name = name.map(|n| format!("{n}  ")).unwrap_or_default();
    Some(format!("{time}  {name}{kind:6}  {line}\n"))
}

fn follow(s: &Session, mut look: Look<'_>) -> Result<i32, CliError> {
    let signals = crate::cli::follow::catch()?;
    loop {
        // Asked before reading: what the last one printed at its end is read then.
        let alive = look.agents.iter().any(|a| a.run.is_alive().unwrap_or(false));
        let new = look.poll()?;
        let text: String = new.iter().filter_map(|(n, e)| look.render(*n, e)).collect();
        if !text.is_empty() {
            s.ui.out(&text)?;
        } else if !alive {
            return Ok(code::DONE);
        }
        signals.wait(100);
        for w in signals.take() {
            if let Wake::End(signal) = w {
                return Ok(128 + signal as i32);
            }
        }
    }
}

/// Says that a log is not there, and why.
fn missing(s: &Session, inv: &Inventory, a: &Agent, file: &str) {
    if a.run.file(file).exists() {
        return;
    }
    let name = &a.reg.name;
    let ran = inv.journal.get(&a.reg.id).is_some_and(|j| j.all(&Kind::Attempt).any(writes_logs));
    match (ran, a.record.is_some() || a.run.dir.is_dir()) {
        (true, _) if !a.run.dir.is_dir() || file == "events.jsonl" || file == "output.log" => {
            s.ui.say(&format!("the logs of '{name}' are gone: '{}' was deleted", shown_path(&a.run.file(file))));
            s.ui.hint(&match file {
                "events.jsonl" => format!("what follows is what the journal knows; 'git agents show {}'", name.typed()),
                _ => format!("'git agents logs {}' tells what the journal knows", name.typed()),
            });
        }
        (_, true) => s.ui.say(&format!("'{name}' has no such log yet")),
        (_, false) => s.ui.say(&format!("'{name}' has no log: no assistant was started")),
    }
}

/// Whether an attempt had an assistant of ours: a person who sits in its place leaves no log.
fn writes_logs(attempt: &Event) -> bool {
    attempt.more().get("attached").and_then(serde_json::Value::as_bool) != Some(true)
}

/// What the journal says, as a line of a log.
fn noted(e: &Event) -> Option<Logged> {
    let number = |key: &str| e.more().get(key).and_then(serde_json::Value::as_u64);
    let text = match &e.kind {
        Kind::Attempt => format!("attempt {} began", number("attempt").unwrap_or(1)),
        Kind::Commit => format!("commit {}", e.text("commit").map_or("", |c| c.get(..12).unwrap_or(c))),
        Kind::Exited => {
            let record = from_event(e)?;
            let why = record.reason.map(|r| format!(": {r}")).unwrap_or_default();
            format!("{}{why}", record.state)
        }
        Kind::Renamed => format!("renamed to '{}'", e.text("to").map(crate::model::task::short_ref)?),
        other => other.word().to_owned(),
    };
    let attempt = number("attempt").and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    Some(Logged { at: e.at.clone(), attempt, activity: Activity::Progress { text } })
}

fn plain(s: &Session, args: &Args, inv: &Inventory, agents: &[&Agent]) -> Result<i32, CliError> {
    let file = if args.setup {
        "setup.log"
    } else if args.test {
        "test.log"
    } else if args.supervisor {
        "supervisor.log"
    } else {
        "output.log"
    };
    let signals = if args.follow { Some(crate::cli::follow::catch()?) } else { None };
    for a in agents {
        let path = a.run.file(file);
        if !path.exists() && !args.follow {
            missing(s, inv, a, file);
            continue;
        }
        let wrong = |e: std::io::Error| {
            CliError::refused(format!("'{}' cannot be read: {e}", shown_path(&path)), "git agents show")
        };
        let mut printer = Printer { s, raw: args.raw && !s.ui.out_tty, rest: Vec::new() };
        let mut follower = Follower::from_start(&path);
        if let Some(n) = args.lines {
            // The end first: what comes between is seen twice rather than never.
            follower = Follower::from_end(&path).map_err(wrong)?;
            printer.write(&tail(&path, n).map_err(wrong)?)?;
        } else if !args.follow {
            let mut reader = read_all(&path).map_err(wrong)?;
            let mut buf = vec![0u8; 64 << 10];
            loop {
                let n = reader.read(&mut buf).map_err(wrong)?;
                if n == 0 {
                    break;
                }
                printer.write(&buf[..n])?;
            }
        }
        while let Some(signals) = &signals {
            let alive = a.run.is_alive()?;
            let mut out = Ok(());
            let any = follower
                .poll(|b| {
                    if out.is_ok() {
                        out = printer.write(b);
                    }
                })
                .map_err(wrong)?;
            out?;
            if !any && !alive {
                break;
            }
            signals.wait(100);
            if let Some(Wake::End(signal)) = signals.take().into_iter().find(|w| matches!(w, Wake::End(_))) {
                return Ok(128 + signal as i32);
            }
        }
        printer.end()?;
    }
    Ok(code::DONE)
}

/// Bytes as they are go to a file or a pipe, where they were asked for; everything else is made safe, line by line: a
/// character or an escape sequence may come in two parts.
struct Printer<'a> {
    s: &'a Session,
    raw: bool,
    rest: Vec<u8>,
}

impl Printer<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        if self.raw {
            let mut o = std::io::stdout().lock();
            return o.write_all(bytes).and_then(|()| o.flush()).map_err(CliError::output);
        }
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
        if whole == 0 && self.rest.len() < LINE_MAX {
            return Ok(());
        }
        let whole = if whole == 0 { self.rest.len() } else { whole };
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        self.s.ui.out(&safe_text(&lines))
    }

    fn end(mut self) -> Result<(), CliError> {
        let rest = std::mem::take(&mut self.rest);
        self.s.ui.out(&safe_text(&rest))
    }
}

fn since(text: &str) -> Result<String, CliError> {
    if let Ok(seconds) = crate::model::units::parse_duration(text) {
        let t = jiff::Timestamp::now()
            .checked_sub(jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX / 4)));
        return Ok(crate::runtime::clock::stamp(t.map_err(|e| CliError::Usage(format!("'{text}': {e}")))?));
    }
    match crate::runtime::clock::parse(text) {
        Some(t) => Ok(crate::runtime::clock::stamp(t)),
        None => Err(CliError::Usage(format!("'{text}' is neither a duration nor a time"))),
    }
}
