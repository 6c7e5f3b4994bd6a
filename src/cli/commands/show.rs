//! `git agents show`.

use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::model::text::{safe_line, safe_text};
use crate::ops::answer::TestsAnswer;
use crate::ops::inventory::{Agent, Inventory, status};
use crate::ops::{plan, select};
use crate::runtime::clock;

/// Everything about one: task, exact prompt, session, paths, limits, why it is in this state
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which; by default the one of this directory
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    /// The exact prompt alone
    #[arg(long)]
    prompt: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    let name = select::one_or_here(&ctx, &inv, args.agent.as_deref())?;
    let a = inv
        .find(&name)
        .ok_or_else(|| CliError::refused(format!("there is no agent named '{name}'"), "git agents status"))?;
    if args.prompt {
        let sent = crate::runtime::files::read_limited(&a.run.file("prompt.md"), 4 << 20)?;
        let text = sent.map_or_else(|| a.task.prompt.clone(), |b| String::from_utf8_lossy(&b).into_owned());
        s.ui.out(&if s.ui.out_tty { safe_text(text.as_bytes()) } else { text })?;
        return Ok(code::DONE);
    }
    let base = if args.json { super::base_name(&ctx) } else { None };
    let answer = status(&ctx, &inv, &|x: &Agent| x.reg.id == a.reg.id, base)?;
    if args.json {
        s.ui.json(&answer)?;
        return Ok(code::DONE);
    }
    let x = &answer.agents[0];
    let mut out = String::new();
    let mut line = |k: &str, v: String| {
        if !v.is_empty() {
            out.push_str(&format!("{k:12}{}\n", safe_line(v.as_bytes())));
        }
    };
    line("name", x.name.0.clone());
    line("task", x.title.clone());
    line("id", a.reg.id.short().to_owned());
    line("branch", x.branch.clone());
    line("base", format!("{} at {}", x.base, x.base_commit.short()));
    line("tip", x.tip.as_ref().map(|t| t.short().to_owned()).unwrap_or_default());
    line("worktree", x.worktree.as_ref().map(|w| w.shown()).unwrap_or_default());
    line("assistant", x.assistant.clone().unwrap_or_default());
    line("model", x.model.clone().unwrap_or_default());
    line("permission", format!("{:?}", x.permission).to_lowercase());
    let planned = plan::read(&a.run).and_then(|p| p.test).map(|t| t.command.shown());
    line("test", a.task.test.clone().or(planned).unwrap_or_default());
    line("batch", x.batch.map(|b| format!("{b}, task {}", x.number.unwrap_or(0))).unwrap_or_default());
    line("after", x.after.join(", "));
    line("state", x.run.state.map(|st| st.to_string()).unwrap_or_else(|| "no assistant was started".into()));
    line("tests", tested(&x.tests));
    line("because", x.run.reason.clone().unwrap_or_default());
    line("asks", x.run.question.clone().unwrap_or_default());
    line(
        "attempt",
        if x.run.attempt > 0 { format!("{}, {} left", x.run.attempt, x.run.attempts_left) } else { String::new() },
    );
    let limit = |v: Option<u64>, w: &str| v.map(|v| format!("{w} {}", crate::model::units::format_duration(v)));
    let limits: Vec<String> = [
        limit(x.run.limits.time_s, "time"),
        limit(x.run.limits.stall_s, "stall"),
        x.run.limits.cost_usd.map(|c| format!("cost {c:.2} USD")),
    ]
    .into_iter()
    .flatten()
    .collect();
    line("limits", limits.join(", "));
    line("session", x.run.session.clone().unwrap_or_default());
    line("started", x.run.started.as_deref().map(clock::local).unwrap_or_default());
    line("ended", x.run.ended.as_deref().map(clock::local).unwrap_or_default());
    line("transcript", x.logs.transcript.as_ref().map(|p| p.shown()).unwrap_or_default());
    line("raw output", x.logs.raw.as_ref().map(|p| p.shown()).unwrap_or_default());
    line("setup log", x.logs.setup.as_ref().map(|p| p.shown()).unwrap_or_default());
    for f in &x.findings {
        line("finding", f.clone());
    }
    if let (Some(session), Some(w)) = (&x.run.session, &x.worktree) {
        line("by hand", format!("git agents attach {} (session {session} in {})", x.name.typed(), w.shown()));
    }
    if !a.task.prompt.is_empty() {
        out.push('\n');
        out.push_str(&safe_text(a.task.prompt.trim_end().as_bytes()));
        out.push('\n');
    }
    s.ui.page(&out)?;
    Ok(code::DONE)
}

/// How its tests went, or how far they are.
fn tested(t: &TestsAnswer) -> String {
    match (t.state, t.verdict.as_deref()) {
        ("done", Some(verdict)) if t.newly_failing > 0 => format!("{verdict}, {} newly failing", t.newly_failing),
        ("done", Some(verdict)) => verdict.to_owned(),
        ("none", _) => String::new(),
        ("stale", _) => "of an earlier commit".to_owned(),
        (state, _) => state.to_owned(),
    }
}
