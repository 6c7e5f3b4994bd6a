//! `git agents run`.

use super::{loaded, refuse_inside};
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::follow::{self, Options as FollowOptions};
use crate::cli::lines::{Line, RunLine, WouldRun, WouldStart};
use crate::config::Flags;
use crate::git::command::Call;
use crate::model::agent::Permission;
use crate::model::tasks::{self, Format, Known, TaskList};
use crate::model::text::shown_path;
use crate::model::units::{Limit, count, parse_cost, parse_duration};
use crate::ops::inventory::Inventory;
use crate::ops::naming::Taken;
use crate::ops::start::{self, Batch, BatchItem, RunOptions};
use crate::ops::{Context, Error, plan, wanted};
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

/// Start a batch: tasks become agents that work in parallel; then the report
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Each is one task, taken verbatim
    #[arg(value_name = "TASK")]
    tasks: Vec<String>,
    /// A list of tasks: numbered Markdown or TOML ('-': standard input)
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// The whole file is one task ('-': standard input)
    #[arg(short = 'F', long = "task-file", value_name = "FILE")]
    whole: Option<PathBuf>,
    /// Write the list in your editor
    #[arg(short = 'e', long)]
    edit: bool,
    /// At most N of this batch at a time
    #[arg(short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Do not look on: return when all are accepted
    #[arg(short = 'd', long)]
    detach: bool,
    /// Who works; several make rivals of each task: A,B or A*2
    #[arg(short = 'a', long, value_name = "A[,B]")]
    assistant: Option<String>,
    /// The model, as the assistant calls it
    #[arg(long, value_name = "M")]
    model: Option<String>,
    /// Start from REV ('@': the current branch)
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Fetch first
    #[arg(long)]
    fetch: bool,
    /// What assistants may do without asking: edit (edit, test, commit) or full
    #[arg(long, value_name = "P")]
    permission: Option<Permission>,
    /// The command that tests their work, a line for the shell
    #[arg(long, value_name = "CMD", value_parser = super::shell_line)]
    test: Option<String>,
    /// At the end also merge all that merges clean, and test the result
    #[arg(long, conflicts_with = "detach")]
    merged: bool,
    /// How long an attempt may take ('off': for ever)
    #[arg(long, value_name = "D")]
    time: Option<Limit>,
    /// How long without progress
    #[arg(long, value_name = "D")]
    stall: Option<Limit>,
    /// Retries after a failure
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// US dollars each may cost
    #[arg(long, value_name = "USD", value_parser = parse_cost)]
    cost: Option<f64>,
    /// US dollars the batch may cost
    #[arg(long, value_name = "USD", value_parser = parse_cost)]
    total_cost: Option<f64>,
    /// No start after TIME (a duration from now, a time like 06:00, or RFC 3339)
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Start also what the same list started before
    #[arg(long)]
    again: bool,
    /// Write the report to FILE too when all have settled, also with -d (.md, .json, .html; else text)
    #[arg(short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// Say what would be started, start nothing
    #[arg(long)]
    dry_run: bool,
    /// JSON lines
    #[arg(long)]
    json: bool,
    /// Allow it inside an agent
    #[arg(long)]
    nested: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    refuse_inside(args.nested, "run")?;
    let ctx = s.context_to_start()?;
    let flags = Flags {
        base: args.base.clone(),
        parallel: None,
        time: args.time,
        stall: args.stall,
        retries: args.retries,
        cost: args.cost,
        total_cost: args.total_cost,
        permission: args.permission,
        ..Flags::default()
    };
    let loaded = loaded(s, &ctx, &flags)?;
    let until = args.until.as_deref().map(until).transpose()?;
    let Some((source, list_name)) = source(s, &ctx, args)? else { return Ok(code::DONE) };
    if args.fetch {
        super::new::fetch(s, &ctx)?;
    }
    let specs = read_list(&ctx, args, &loaded, &source, list_name.as_deref())?;
    let approved = plan::approved(&ctx, &loaded.project)?;
    let output = args.output.as_ref().map(|file| crate::runtime::files::plain(&s.cwd.join(file)));
    output.as_deref().map(wanted::check).transpose()?;
    let options = RunOptions {
        assistants: Vec::new(),
        model: args.model.clone(),
        base: args.base.clone(),
        test: args.test.clone(),
        again: args.again,
        list: list_name,
        jobs: args.jobs.map(usize::from),
        until,
    };
    let batch = start::plan_batch(&ctx, &loaded, &approved, &specs, &options)?;
    if args.dry_run {
        return dry_run(s, args, &batch);
    }
    identity(&ctx)?;
    if batch.items.is_empty() {
        say_skipped(s, &batch);
        s.ui.say("nothing new to start");
        if !batch.started.is_empty() {
            s.ui.hint("'--again' starts them anew");
        }
        return Ok(code::DONE);
    }
    say_skipped(s, &batch);
    let mut notes: Vec<&str> = batch.items.iter().filter_map(|i| i.note.as_deref()).collect();
    notes.dedup();
    for n in notes {
        s.ui.say(n);
    }
    // From here on a signal ends the looking on, never a half-started batch.
    let signals = follow::catch()?;
    // Before anything starts: it is written whatever becomes of us.
    wanted::want(&ctx, batch.number, output.as_deref())?;
    let handed = start::launch(&ctx, &batch).inspect_err(|_| drop(wanted::want(&ctx, batch.number, None)))?;
    let refused: Vec<&start::Handed> = handed.iter().filter(|h| h.accepted.is_err()).collect();
    for h in &refused {
        if let Err(why) = &h.accepted {
            s.ui.err(&format!("error: '{}': {why}", h.name));
        }
    }
    if args.detach {
        if args.json {
            for h in &handed {
                s.ui.json(&Line::of(RunLine::Agent {
                    name: h.name.clone(),
                    id: h.id.clone(),
                    batch: Some(batch.number),
                    accepted: Some(h.accepted.is_ok()),
                }))?;
            }
        } else {
            s.ui.say(&format!("batch {}: {} started", batch.number, count(handed.len() - refused.len(), "agent")));
            s.ui.hint("'git agents wait' looks on, 'git agents status' tells, 'git agents report' sums up");
        }
        return Ok(if refused.is_empty() { code::DONE } else { code::NO });
    }
    let ids = handed.iter().filter(|h| h.accepted.is_ok()).map(|h| (h.id.clone(), h.name.clone())).collect();
    let look =
        FollowOptions { json: args.json, timeout: None, any: false, batch: Some(batch.number), bell: rings(&loaded) };
    let end = follow::follow(s, &ctx, ids, &look, &signals)?;
    if let Some(signal) = end.interrupted {
        return Ok(128 + signal);
    }
    let mut breaks = false;
    if !args.json || args.output.is_some() || args.merged {
        let inv = Inventory::read(&ctx)?;
        let agents: Vec<&crate::ops::inventory::Agent> =
            inv.agents.iter().filter(|a| a.task.batch == Some(batch.number)).collect();
        let report = if args.merged {
            let test = args.test.as_deref();
            super::report::merged(s, &ctx, &loaded, &inv, &agents, Some(batch.number), test, &signals)?
        } else {
            crate::ops::report::report(&ctx, &inv, &agents, Some(batch.number))?
        };
        breaks = super::report::breaks(&report);
        if args.json && args.merged {
            s.ui.json(&Line::of(RunLine::Merged { merged: report.merged.clone() }))?;
        }
        if !args.json {
            s.ui.out(&crate::cli::render::text(&s.ui, &report))?;
        }
        if let Some(file) = output.as_deref().filter(|_| args.merged) {
            crate::cli::render::write(file, &report, None)?;
            for due in wanted::due(&ctx, &inv).iter().filter(|d| d.batch == batch.number) {
                wanted::written(&ctx, due)?;
            }
        }
        if output.is_some() {
            super::report::write_wanted(s, &ctx)?;
        }
    }
    Ok(if end.all_succeeded && refused.is_empty() && !breaks { code::DONE } else { code::NO })
}

/// The run of the demo: its list, with the scripted assistant.
pub fn demo(s: &Session, list: &std::path::Path) -> Result<i32, CliError> {
    run(s, &Args { file: Some(list.to_owned()), assistant: Some("scripted".into()), nested: true, ..Args::default() })
}

/// Whether the user wants to hear of it.
pub fn rings(loaded: &crate::ops::Loaded) -> bool {
    loaded.settings.notify.as_deref() == Some("bell")
}

fn until(text: &str) -> Result<String, CliError> {
    if let Ok(seconds) = parse_duration(text) {
        let t = jiff::Timestamp::now()
            .checked_add(jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX / 4)));
        let t = t.map_err(|e| CliError::Usage(format!("'{text}' is too far away: {e}")))?;
        return Ok(crate::runtime::clock::stamp(t));
    }
    let time = text.parse::<jiff::civil::Time>().ok().filter(|_| text.len() == 5);
    let found = match time {
        Some(time) => next(time, &jiff::Zoned::now()),
        None => crate::runtime::clock::parse(text),
    };
    found.map(crate::runtime::clock::stamp).ok_or_else(|| {
        CliError::Usage(format!("'{text}' is neither a duration like 2h nor a time like 06:00 or 2026-01-31T08:00:00Z"))
    })
}

/// When the clock on the wall shows `time` next.
fn next(time: jiff::civil::Time, now: &jiff::Zoned) -> Option<jiff::Timestamp> {
    let on = |day: &jiff::Zoned| Some(day.with().time(time).build().ok()?.timestamp());
    on(now).filter(|t| *t > now.timestamp()).or_else(|| on(&now.tomorrow().ok()?))
}

enum Source {
    Arguments(Vec<String>),
    List(Vec<u8>, Option<String>),
    Whole(String),
}

/// What to read tasks from, and the list's name. `None`: the editor was left without a task.
fn source(s: &Session, ctx: &Context, args: &Args) -> Result<Option<(Source, Option<String>)>, CliError> {
    let given =
        [!args.tasks.is_empty(), args.file.is_some(), args.whole.is_some(), args.edit].iter().filter(|g| **g).count();
    if given > 1 {
        return Err(CliError::Usage("tasks come from arguments, -f, -F or -e: one of them".into()));
    }
    let read = |path: &std::path::Path| -> Result<Vec<u8>, CliError> {
        let full = s.cwd.join(path);
        if full.is_dir() {
            return Err(CliError::refused(format!("'{}' is a directory", shown_path(path)), "name a file"));
        }
        let bytes = crate::runtime::files::read_limited(&full, 2 << 20)?;
        bytes.ok_or_else(|| {
            CliError::refused(format!("'{}' does not exist", shown_path(path)), "name a file with tasks")
        })
    };
    if !args.tasks.is_empty() {
        return Ok(Some((Source::Arguments(args.tasks.clone()), None)));
    }
    if let Some(path) = &args.whole {
        let bytes = if path.as_os_str() == "-" { piped() } else { read(path)? };
        let text = tasks::text_of(&bytes).map_err(|m| mistakes(&m, Some(&path.display().to_string())))?.to_owned();
        return Ok(Some((Source::Whole(text), Some(path.display().to_string()))));
    }
    if args.edit {
        let text = edit(ctx, "")?;
        if text.trim().is_empty() {
            s.ui.say("no task, nothing started");
            return Ok(None);
        }
        return Ok(Some((Source::List(text.into_bytes(), Some("editor.md".into())), None)));
    }
    match &args.file {
        Some(p) if p.as_os_str() != "-" => {
            let name = p.display().to_string();
            Ok(Some((Source::List(read(p)?, Some(name.clone())), Some(name))))
        }
        other => {
            if other.is_none() && std::io::stdin().is_terminal() {
                return Err(CliError::Usage(
                    "no task given; name some, or a list with -f FILE, or write one with -e".into(),
                ));
            }
            let bytes = piped();
            if bytes.iter().all(u8::is_ascii_whitespace) {
                return Err(CliError::Usage("no task given, and standard input is empty".into()));
            }
            Ok(Some((Source::List(bytes, None), None)))
        }
    }
}

/// Standard input, as far as a list may be long.
fn piped() -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = std::io::stdin().take(2 << 20).read_to_end(&mut bytes);
    bytes
}

/// The user's editor over a temporary file in our folder.
pub fn edit(ctx: &Context, initial: &str) -> Result<String, CliError> {
    let dir = ctx.state.ensure_dirs()?;
    let path = dir.join(format!("TASKS-{}.md", crate::runtime::clock::random_hex(4)));
    crate::runtime::files::write_atomic(&path, initial.as_bytes())?;
    let editor = match std::env::var("GIT_EDITOR") {
        Ok(e) => e,
        Err(_) => Call::users_program("GIT_EDITOR").text()?,
    };
    let status = in_editor(&editor, &path);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let _ = std::fs::remove_file(&path);
    match status {
        Ok(true) => Ok(text),
        _ => Err(CliError::refused(
            format!("the editor '{editor}' failed"),
            "set core.editor, or give the task as an argument",
        )),
    }
}

#[expect(clippy::disallowed_methods, reason = "the user's own editor, as git starts it")]
fn in_editor(editor: &str, path: &std::path::Path) -> std::io::Result<bool> {
    let script = format!("{editor} \"$@\"");
    let status = std::process::Command::new("/bin/sh").arg("-c").arg(script).arg(editor).arg(path).status()?;
    Ok(status.success())
}

fn mistakes(found: &[tasks::Mistake], list: Option<&str>) -> CliError {
    let name = list.unwrap_or("the list");
    CliError::Ops(Error::Many {
        what: format!("'{name}' has {}; nothing was started", count(found.len(), "mistake")),
        items: found.iter().map(ToString::to_string).collect(),
        hint: Some("'git agents run --dry-run' checks a list".into()),
    })
}

fn read_list(
    ctx: &Context,
    args: &Args,
    loaded: &crate::ops::Loaded,
    source: &Source,
    list: Option<&str>,
) -> Result<TaskList, CliError> {
    let taken = Taken::read(ctx)?;
    let prefix = loaded.settings.branch_prefix.clone();
    // What the list names itself must be free; what we derive gets a free name later.
    let is_taken = |name: &str| taken.obstacle(name, &format!("{prefix}{name}")).is_some();
    let inv = Inventory::read(ctx)?;
    let before = start::started_before(&inv);
    let default_base =
        crate::ops::base::resolve(ctx, loaded.settings.base.as_deref()).map(|b| b.name).unwrap_or_default();
    let started = |spec: &tasks::TaskSpec| {
        if args.again || !matches!(source, Source::List(..)) {
            return None;
        }
        let base = match &spec.attrs.base {
            Some(b) => crate::ops::base::resolve(ctx, Some(b)).map(|b| b.name).unwrap_or_default(),
            None => default_base.clone(),
        };
        before.get(&tasks::digest(&spec.prompt, &base)).cloned()
    };
    let assistants = match args.assistant.as_ref().or(loaded.settings.assistant.as_ref()) {
        Some(a) => tasks::parse_assistants(a).map_err(CliError::Usage)?,
        None => Vec::new(),
    };
    let known = Known { taken: &is_taken, started: &started, assistants: &assistants };
    let read = match source {
        Source::Arguments(a) => tasks::arguments(a, &known),
        Source::List(bytes, name) => tasks::read_bytes(bytes, Format::of(name.as_deref(), bytes), &known),
        Source::Whole(text) => tasks::arguments(std::slice::from_ref(text), &known),
    };
    let specs = read.map_err(|m| mistakes(&m, list))?;
    if specs.tasks.is_empty() && specs.done == 0 {
        return Err(CliError::refused(
            format!("'{}' has no task", list.unwrap_or("the list")),
            "a task is a numbered item: '1. what shall be done'",
        ));
    }
    Ok(specs)
}

/// Signing and identity are settled once, before the first agent starts.
fn identity(ctx: &Context) -> Result<(), CliError> {
    let settings = ctx.repo().settings()?;
    if ["user.name", "user.email"].iter().all(|w| settings.iter().any(|(_, k, v)| k == w && !v.is_empty())) {
        return Ok(());
    }
    let dir = ctx.repo().toplevel.clone().unwrap_or_else(|| ctx.repo().common_dir.clone());
    if let Err(e) = Call::user_visible(&dir, ["var", "GIT_AUTHOR_IDENT"]).run() {
        return Err(CliError::refused(
            format!("git does not know who you are: {}", e.to_string().lines().last().unwrap_or_default()),
            "git config --global user.name 'Your Name' and user.email; nothing was started",
        ));
    }
    Ok(())
}

fn say_skipped(s: &Session, batch: &Batch) {
    if batch.done > 0 {
        s.ui.say(&format!(
            "{} of the list {} done already ([x])",
            count(batch.done, "item"),
            if batch.done == 1 { "is" } else { "are" }
        ));
    }
    for (title, name) in &batch.started {
        s.ui.say(&format!("started before as '{name}': {title}"));
    }
}

/// The command that tests its work.
fn tested(item: &BatchItem) -> Option<String> {
    item.plan.test.as_ref().map(|t| t.command.shown())
}

fn dry_run(s: &Session, args: &Args, batch: &Batch) -> Result<i32, CliError> {
    if args.json {
        let one = |i: &start::BatchItem| {
            let t = &i.planned.task;
            WouldStart {
                name: t.name.0.clone(),
                title: t.title.clone(),
                branch: t.branch_short().to_owned(),
                base: t.base_short().to_owned(),
                base_commit: t.base_commit.0.clone(),
                assistant: t.assistant.clone(),
                permission: t.permission,
                test: tested(i),
                worktree: i.planned.path.as_path().into(),
                after: i.after.iter().map(|a| batch.items[*a].planned.task.name.0.clone()).collect(),
            }
        };
        let would_start = batch.items.iter().map(one).collect();
        s.ui.json(&WouldRun { version: 1, batch: batch.number, would_start, done: batch.done })?;
        return Ok(code::DONE);
    }
    say_skipped(s, batch);
    let mut rows =
        vec![["NAME", "ASSISTANT", "PERMISSION", "BASE", "AFTER", "COST", "TASK"].map(str::to_owned).to_vec()];
    for i in &batch.items {
        let t = &i.planned.task;
        let after: Vec<String> = i.after.iter().map(|a| batch.items[*a].planned.task.name.0.clone()).collect();
        rows.push(vec![
            t.name.0.clone(),
            t.assistant.clone().unwrap_or_default(),
            format!("{:?}", t.permission).to_lowercase(),
            t.base_short().to_owned(),
            if after.is_empty() { "-".into() } else { after.join(",") },
            t.cost_usd.map_or("unknown".to_owned(), |c| format!("<= {c:.2}")),
            crate::model::text::one_line(&t.title, 60),
        ]);
    }
    let mut text = crate::cli::ui::table(&rows, |_, _, c| c.to_owned());
    let commands: std::collections::BTreeSet<String> = batch.items.iter().filter_map(tested).collect();
    for command in commands {
        text.push_str(&format!("tested by: {}\n", crate::model::text::one_line(&command, 200)));
    }
    text.push_str(&format!(
        "batch {}: {} would start; nothing was started\n",
        batch.number,
        count(batch.items.len(), "agent")
    ));
    s.ui.out(&text)?;
    Ok(code::DONE)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_next_morning_is_meant_by_a_time_that_has_passed() {
        let now: jiff::Zoned = "2026-01-31T22:00[Europe/Zurich]".parse().unwrap();
        let next = |text: &str| super::next(text.parse().unwrap(), &now).unwrap().to_string();
        assert_eq!(next("06:00"), "2026-02-01T05:00:00Z");
        assert_eq!(next("22:30"), "2026-01-31T21:30:00Z");
        assert_eq!(next("22:00"), "2026-02-01T21:00:00Z");
    }
}
