//! `git agents report`.

use super::{chosen, last_batch, loaded};
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::ui::Label;
use crate::config::Flags;
use crate::model::overlap::Level;
use crate::model::text::{one_line, safe_line, safe_text};
use crate::model::units::{count, format_duration};
use crate::ops::answer::JsonPath;
use crate::ops::create::Step;
use crate::ops::inventory::{Agent, Inventory};
use crate::ops::merged::{self, Merged, Progress};
use crate::ops::report::{AgentReport, Report, TestsCount, Verdict};
use crate::ops::select::Match;
use crate::ops::{Context, Loaded};
use crate::runtime::signals::Signals;
use clap::builder::NonEmptyStringValueParser;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Names of tests that are shown.
const NAMES: usize = 10;

/// What came out, by default of the last batch
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Those of batch N
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// All agents there are
    #[arg(long)]
    all: bool,
    /// Also merge all that merges clean, run setup and tests on the result, and tell after which branch it breaks
    #[arg(long)]
    merged: bool,
    /// The test command, a line for the shell; without it that of the tasks, or of '[test]' in .git-agents.toml
    #[arg(long, value_name = "CMD", requires = "merged", value_parser = NonEmptyStringValueParser::new())]
    test: Option<String>,
    /// text or json
    #[arg(long, value_name = "F", default_value = "text")]
    format: Format,
    /// The same as --format json
    #[arg(long)]
    json: bool,
    /// Write it to FILE (.json: JSON)
    #[arg(short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    let mut batch = args.batch;
    if args.agents.is_empty() && !args.all && batch.is_none() {
        batch = Some(last_batch(&inv)?);
    }
    let names = chosen(&ctx, &inv, &args.agents, batch, args.all, Match::Prefix)?;
    let agents: Vec<&Agent> = names.iter().filter_map(|n| inv.find(n)).collect();
    let report = if args.merged {
        let loaded = loaded(s, &ctx, &Flags::default())?;
        // From here on a signal ends the test and takes its worktree away.
        let signals = crate::cli::follow::catch()?;
        merged(s, &ctx, &loaded, &inv, &agents, batch, args.test.as_deref(), &signals)?
    } else {
        crate::ops::report::report(&ctx, &inv, &agents, batch)?
    };
    if let Some(file) = &args.output {
        write_file(&s.cwd.join(file), &report)?;
    } else if args.json || args.format == Format::Json {
        s.ui.json(&report)?;
    } else if args.merged {
        s.ui.out(&text(s, &report))?;
    } else {
        s.ui.page(&text(s, &report))?;
    }
    Ok(if breaks(&report) { code::NO } else { code::DONE })
}

/// The report with the merged result, its tests narrated.
#[expect(clippy::too_many_arguments, reason = "what a report is about, and how it is tested")]
pub fn merged(
    s: &Session,
    ctx: &Context,
    loaded: &Loaded,
    inv: &Inventory,
    agents: &[&Agent],
    batch: Option<u64>,
    test: Option<&str>,
    signals: &Signals,
) -> Result<Report, CliError> {
    let check = merged::check(ctx, loaded, agents, test)?;
    let report = merged::report(ctx, inv, agents, batch, check.as_ref(), signals, &mut |p| match p {
        Progress::Testing(base, with) => {
            let with: Vec<&str> = with.iter().map(|n| n.0.as_str()).collect();
            let with = if with.is_empty() { "alone".to_owned() } else { format!("with {}", with.join(", ")) };
            s.ui.say(&format!("testing '{base}' {with}"));
        }
        Progress::Step(Step::Warning(w)) => s.ui.warn(&w),
        Progress::Step(_) => {}
    })?;
    if check.is_none() {
        s.ui.hint("no test command: '--test CMD' gives one, or 'command' of [test] in '.git-agents.toml'");
    }
    Ok(report)
}

/// Whether the merged result was tested and did not pass.
pub fn breaks(report: &Report) -> bool {
    report.merged.as_ref().and_then(|m| m.tests.as_ref()).is_some_and(|t| t.passed != Some(true))
}

/// Writes the report to a file, in one step.
pub fn write_file(path: &Path, report: &Report) -> Result<(), CliError> {
    let plain = Session {
        ui: crate::cli::ui::Ui::new(true, Some(crate::cli::ui::ColorChoice::Never), None),
        cwd: PathBuf::new(),
    };
    let text = if path.extension().is_some_and(|e| e == "json") {
        serde_json::to_string_pretty(report).expect("a report is plain JSON") + "\n"
    } else {
        text(&plain, report)
    };
    Ok(crate::runtime::files::write_durable(path, text.as_bytes())?)
}

/// The report for a terminal.
pub fn text(s: &Session, r: &Report) -> String {
    let mut out = String::new();
    let ready = r.agents.iter().filter(|a| a.verdict == Verdict::Ready).count();
    let head = match r.batch {
        Some(b) => format!("batch {b}: {ready} of {} ready", count(r.agents.len(), "agent")),
        None => format!("{ready} of {} ready", count(r.agents.len(), "agent")),
    };
    out.push_str(&s.ui.paint(Label::Strong, &head));
    out.push('\n');
    for a in &r.agents {
        out.push('\n');
        one(s, a, &mut out);
    }
    let conflicts = pairs(r);
    if !conflicts.is_empty() {
        out.push_str("\nmeeting each other\n");
        for c in conflicts {
            out.push_str(&format!("  {c}\n"));
        }
    }
    if r.order.len() > 1 {
        let names: Vec<String> = r.order.iter().map(|o| o.name.0.clone()).collect();
        out.push_str(&format!("\nland in this order: {}\n", names.join(", ")));
        for o in r.order.iter().filter(|o| !o.conflicts_with_landed.is_empty()) {
            let with: Vec<&str> = o.conflicts_with_landed.iter().map(|n| n.0.as_str()).collect();
            out.push_str(&format!("  {} will stop on {}\n", o.name, with.join(", ")));
        }
    }
    for o in r.order.iter().filter(|o| !o.instead_of.is_empty()) {
        let rivals: Vec<&str> = o.instead_of.iter().map(|n| n.0.as_str()).collect();
        out.push_str(&format!("of rivals one lands: {}, not {}\n", o.name, rivals.join(", ")));
    }
    if let Some(m) = &r.merged {
        merged_text(s, m, &mut out);
    }
    out
}

fn merged_text(s: &Session, m: &Merged, out: &mut String) {
    let names: Vec<&str> = m.landed.iter().map(|n| n.0.as_str()).collect();
    let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    out.push_str(&format!("\nmerged on {}: {names} (tree {:.12})\n", m.base, m.tree.0));
    for l in &m.left_out {
        let paths: Vec<String> = l.paths.iter().take(3).map(JsonPath::shown).collect();
        let paths = if paths.is_empty() { String::new() } else { format!(" in {}", paths.join(", ")) };
        out.push_str(&format!("  left out: {}: {}{paths}\n", l.name, safe_line(l.reason.as_bytes())));
    }
    let Some(t) = &m.tests else { return };
    let command = format!("'{}'", one_line(&t.command, 80));
    let why = t.reason.as_deref().map(|r| format!(": {}", safe_line(r.as_bytes()))).unwrap_or_default();
    let (label, words) = match (t.passed, &t.breaks_after) {
        (Some(true), _) => (Label::Good, format!("merges clean, passes {command} ({})", format_duration(t.duration_s))),
        (Some(false), Some(name)) if t.base_passed == Some(false) => {
            let words = format!("merges clean, breaks more of {command} after '{name}'; it fails on '{}' too", m.base);
            (Label::Bad, words)
        }
        (Some(false), None) if t.base_passed == Some(false) => {
            (Label::Bad, format!("{command} fails on '{}' alone already{why}", m.base))
        }
        (Some(false), Some(name)) => (Label::Bad, format!("merges clean, breaks {command} after '{name}'{why}")),
        (Some(false), None) => (Label::Bad, format!("merges clean, breaks {command}{why}")),
        (None, _) => (Label::Warn, format!("merges clean, whether it passes {command} is unknown{why}")),
    };
    out.push_str(&format!("  {}\n", s.ui.paint(label, &words)));
    let shown = t.newly_failing.iter().take(NAMES);
    shown.for_each(|n| out.push_str(&format!("    newly failing: {}\n", safe_line(n.as_bytes()))));
    if let Some(more) = t.newly_failing.len().checked_sub(NAMES).filter(|more| *more > 0) {
        out.push_str(&format!("    and {more} more\n"));
    }
    if t.reused {
        out.push_str(&format!(
            "  known from an earlier run; 'git notes --ref=agents-tests remove {}' forgets it\n",
            m.tree
        ));
    }
    let Some(log) = t.log.as_ref().filter(|_| t.passed != Some(true)) else { return };
    let raw = log.raw();
    let path = Path::new(std::ffi::OsStr::from_bytes(&raw));
    let last = crate::place::log::tail(path, 6).unwrap_or_default();
    for line in safe_text(&last).lines() {
        out.push_str(&format!("  {}\n", s.ui.paint(Label::Dim, &format!("| {line}"))));
    }
    out.push_str(&format!("  log: {}\n", log.shown()));
}

fn one(s: &Session, a: &AgentReport, out: &mut String) {
    let label = match a.verdict {
        Verdict::Ready => Label::Good,
        Verdict::Look | Verdict::Nothing | Verdict::Skipped => Label::Warn,
        Verdict::Failed => Label::Bad,
    };
    let number = a.number.map(|n| format!("{n}. ")).unwrap_or_default();
    out.push_str(&format!(
        "{number}{}  {}  {}\n",
        s.ui.paint(Label::Strong, &a.name.0),
        s.ui.paint(label, a.verdict.word()),
        one_line(&a.title, 80)
    ));
    for r in &a.reasons {
        out.push_str(&format!("   {}\n", safe_line(r.as_bytes())));
    }
    for f in &a.flags {
        out.push_str(&format!("   flag: {}\n", safe_line(f.text.as_bytes())));
    }
    if let Some(c) = &a.claim {
        out.push_str(&format!("   says: {}\n", one_line(c, 200)));
    }
    let added: usize = a.files.iter().filter_map(|f| f.added).sum();
    let removed: usize = a.files.iter().filter_map(|f| f.removed).sum();
    let mut facts =
        vec![count(a.commits.len(), "commit"), format!("{} +{added} -{removed}", count(a.files.len(), "file"))];
    if let Some(d) = a.duration_s {
        facts.push(format_duration(d));
    }
    if a.attempts > 1 {
        facts.push(count(a.attempts as usize, "attempt"));
    }
    if let Some(c) = a.cost_usd {
        facts.push(format!("{c:.2} USD"));
    }
    out.push_str(&format!("   {}\n", facts.join(", ")));
    for f in a.files.iter().take(8) {
        let lines = match (f.added, f.removed) {
            (Some(x), Some(y)) => format!("+{x} -{y}"),
            _ => "binary".to_owned(),
        };
        out.push_str(&format!("     {} {}\n", f.path.shown(), s.ui.paint(Label::Dim, &lines)));
    }
    if a.files.len() > 8 {
        out.push_str(&format!("     and {} more\n", a.files.len() - 8));
    }
    if let Some(words) = tests_words(a) {
        out.push_str(&format!("   tests: {words}\n"));
    }
    out.push_str(&format!("   look: {}\n", a.commands.look));
    match (a.verdict, &a.commands.take) {
        (Verdict::Ready | Verdict::Look, Some(t)) if !a.commits.is_empty() => out.push_str(&format!("   take: {t}\n")),
        _ => {}
    }
    out.push_str(&format!("   drop: {}\n", a.commands.drop));
}

/// What became of tests; `None` where nothing did.
fn tests_words(a: &AgentReport) -> Option<String> {
    let cases = |t: &Option<TestsCount>| t.as_ref().map_or(0, |t| t.cases);
    let (added, removed, skipped) = (cases(&a.tests_added), cases(&a.tests_removed), cases(&a.tests_skipped));
    let mut out = Vec::new();
    if let Some(t) = a.tests_added.as_ref().filter(|t| t.cases > 0) {
        let languages: Vec<String> = t.by_language.iter().map(|(l, n)| format!("{l} {n}")).collect();
        out.push(format!("+{added} ({})", languages.join(", ")));
    }
    out.extend((removed > 0).then(|| format!("-{removed}")));
    let changed = out.join(" ");
    let parts = [changed, if skipped > 0 { format!("{skipped} switched off") } else { String::new() }];
    let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Each pair once, worst first, in words.
fn pairs(r: &Report) -> Vec<String> {
    let mut out: Vec<(std::cmp::Reverse<Option<Level>>, String)> = Vec::new();
    for (i, a) in r.agents.iter().enumerate() {
        for w in &a.conflicts.with_agents {
            let other = r.agents.iter().position(|b| b.name == w.agent);
            if other.is_some_and(|o| o < i) {
                continue;
            }
            let paths: Vec<String> = w.paths.iter().take(3).map(JsonPath::shown).collect();
            let more = if w.paths.len() > 3 { format!(" and {} more", w.paths.len() - 3) } else { String::new() };
            let text = match (&w.level, &w.unknown) {
                (Some(l), _) => format!("{} and {}: {} in {}{more}", a.name, w.agent, l.word(), paths.join(", ")),
                (None, why) => format!(
                    "{} and {}: unknown ({})",
                    a.name,
                    w.agent,
                    safe_line(why.as_deref().unwrap_or("not judged").as_bytes())
                ),
            };
            out.push((std::cmp::Reverse(w.level), text));
        }
    }
    out.sort();
    out.into_iter().map(|(_, t)| t).collect()
}
