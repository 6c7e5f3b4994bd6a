//! `git agents logs`.

use super::chosen;
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::follow::line_of;
use crate::model::text::safe_text;
use crate::ops::inventory::{Agent, Inventory};
use crate::ops::select::Match;
use crate::place::adapter::Activity;
use crate::runtime::signals::{Signals, Wake};
use crate::supervisor::attempt::Logged;
use crate::supervisor::log::{EventFollower, Follower, read_all, read_events, tail};
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
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Those of batch N
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// What it printed, byte for byte
    #[arg(long, conflicts_with_all = ["setup", "supervisor"])]
    raw: bool,
    /// Of the setup commands
    #[arg(long, conflicts_with = "supervisor")]
    setup: bool,
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
    if args.raw || args.setup || args.supervisor {
        return plain(s, args, &agents);
    }
    let several = agents.len() > 1;
    let mut all: Vec<(String, Logged)> = Vec::new();
    for a in &agents {
        let events: Vec<Logged> = read_events(&a.run.file("events.jsonl")).map_err(|e| {
            CliError::refused(format!("the log of '{}' cannot be read: {e}", a.reg.name), "git agents logs --raw")
        })?;
        all.extend(events.into_iter().map(|e| (a.reg.name.0.clone(), e)));
    }
    all.sort_by(|x, y| x.1.at.cmp(&y.1.at));
    if let Some(t) = &since {
        all.retain(|(_, e)| e.at >= *t);
    }
    if let Some(n) = args.lines {
        all.drain(..all.len().saturating_sub(n));
    }
    let text: String = all.iter().filter_map(|(n, e)| render(several.then_some(n.as_str()), e)).collect();
    if !args.follow {
        s.ui.page(&text, &ctx.repo().common_dir)?;
        return Ok(code::DONE);
    }
    s.ui.out(&text)?;
    follow(s, &agents, several)
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
    let time = e.at.get(11..19).unwrap_or(&e.at);
    let name = name.map(|n| format!("{n}  ")).unwrap_or_default();
    Some(format!("{time}  {name}{kind:6}  {line}\n"))
}

fn follow(s: &Session, agents: &[&Agent], several: bool) -> Result<i32, CliError> {
    let signals = Signals::catch().map_err(|e| CliError::refused(format!("signals: {e}"), "try again"))?;
    let mut followers: Vec<(&Agent, EventFollower, bool)> =
        agents.iter().map(|a| (*a, EventFollower::new(&a.run.file("events.jsonl")), true)).collect();
    loop {
        let mut text = String::new();
        for (a, f, first) in &mut followers {
            let mut new = Vec::new();
            f.poll(|e: Logged| new.push(e))
                .map_err(|e| CliError::refused(format!("the log cannot be read: {e}"), "git agents logs"))?;
            // The first look only finds what has been printed already.
            if !std::mem::take(first) {
                text.extend(new.iter().filter_map(|e| render(several.then_some(a.reg.name.0.as_str()), e)));
            }
        }
        if !text.is_empty() {
            s.ui.out(&text)?;
        } else if !agents.iter().any(|a| a.run.is_alive().unwrap_or(false)) {
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

fn plain(s: &Session, args: &Args, agents: &[&Agent]) -> Result<i32, CliError> {
    let file = if args.setup {
        "setup.log"
    } else if args.supervisor {
        "supervisor.log"
    } else {
        "output.log"
    };
    for a in agents {
        let path = a.run.file(file);
        if !path.exists() {
            s.ui.say(&format!("'{}' has no such log yet", a.reg.name));
            continue;
        }
        let wrong = |e: std::io::Error| {
            CliError::refused(format!("'{}' cannot be read: {e}", path.display()), "git agents show")
        };
        // Bytes as they are go to a file or a pipe; a terminal gets them made safe.
        if let Some(n) = args.lines {
            let bytes = tail(&path, n).map_err(wrong)?;
            write(s, args.raw, &bytes)?;
        } else {
            let mut reader = read_all(&path).map_err(wrong)?;
            let mut buf = vec![0u8; 64 << 10];
            loop {
                let n = reader.read(&mut buf).map_err(wrong)?;
                if n == 0 {
                    break;
                }
                write(s, args.raw, &buf[..n])?;
            }
        }
        if args.follow {
            let mut f = Follower::from_end(&path).map_err(wrong)?;
            let signals = Signals::catch().map_err(wrong)?;
            while a.run.is_alive()? {
                let mut out = Ok(());
                f.poll(|b| {
                    if out.is_ok() {
                        out = write(s, args.raw, b);
                    }
                })
                .map_err(wrong)?;
                out?;
                signals.wait(100);
                if let Some(Wake::End(signal)) = signals.take().into_iter().find(|w| matches!(w, Wake::End(_))) {
                    return Ok(128 + signal as i32);
                }
            }
        }
    }
    Ok(code::DONE)
}

fn write(s: &Session, raw: bool, bytes: &[u8]) -> Result<(), CliError> {
    if raw && !s.ui.out_tty {
        let mut o = std::io::stdout().lock();
        return o.write_all(bytes).and_then(|()| o.flush()).map_err(|_| CliError::Closed);
    }
    s.ui.out(&safe_text(bytes))
}

fn since(text: &str) -> Result<String, CliError> {
    if let Ok(seconds) = super::duration(text) {
        let t = jiff::Timestamp::now()
            .checked_sub(jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX / 4)));
        return Ok(crate::runtime::clock::stamp(t.map_err(|e| CliError::Usage(format!("'{text}': {e}")))?));
    }
    match crate::runtime::clock::parse(text) {
        Some(t) => Ok(crate::runtime::clock::stamp(t)),
        None => Err(CliError::Usage(format!("'{text}' is neither a duration nor a time"))),
    }
}
