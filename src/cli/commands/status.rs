//! `git agents status`.

use super::chosen;
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::ui::{Label, table};
use crate::cli::watch;
use crate::model::agent::{BranchState, RunState, Zombie};
use crate::model::overlap::Level;
use crate::model::text::{one_line, safe_line, safe_path};
use crate::ops::answer::{AgentAnswer, Dirty, JsonPath, OverlapAnswer, StatusAnswer};
use crate::ops::inventory::{Agent, Inventory, in_parallel, status};
use crate::ops::select::Match;
use crate::runtime::clock;

/// Who does what, who needs you
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Only these
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Go on showing what changes: a full screen on a terminal, JSON lines with --json
    #[arg(short, long, conflicts_with_all = ["porcelain", "names"])]
    watch: bool,
    /// Only those of batch N
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// Only those in these states (comma-separated)
    #[arg(long, value_name = "S,…", value_delimiter = ',')]
    state: Vec<String>,
    /// Names alone, one a line
    #[arg(long)]
    names: bool,
    /// Answer in JSON
    #[arg(long, conflicts_with_all = ["porcelain", "names"])]
    json: bool,
    /// Stable lines for scripts: name, state, branch state, ahead, behind, changed files, worktree; tab-separated
    #[arg(long)]
    porcelain: bool,
    /// With --porcelain or --names: end records with NUL
    #[arg(short = 'z')]
    nul: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    if args.nul && !args.porcelain && !args.names {
        return Err(CliError::Usage("-z goes with --porcelain or --names".into()));
    }
    let states: Vec<RunState> = args
        .state
        .iter()
        .map(|w| {
            serde_json::from_value(serde_json::Value::String(w.clone()))
                .map_err(|_| CliError::Usage(format!("'{w}' is not a state")))
        })
        .collect::<Result<_, _>>()?;
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    for d in &inv.damaged {
        let refusal = crate::ops::rebuild::refusal(&ctx, d);
        s.ui.warn(&refusal.to_string());
        s.ui.hint(&format!("'{}' writes it anew", refusal.hint().unwrap_or_default()));
    }
    if let Some(why) = ctx.state.lock_trouble() {
        s.ui.warn(&format!("{why}; nothing is removed automatically here"));
    }
    let names = chosen(&ctx, &inv, &args.agents, args.batch, false, Match::Prefix)?;
    let narrowed = !args.agents.is_empty() || args.batch.is_some();
    let only = |a: &Agent| {
        (!narrowed || names.contains(&a.reg.name.0))
            && (states.is_empty() || a.state().is_some_and(|s| states.contains(&s)))
    };
    let end = if args.nul { '\0' } else { '\n' };
    if args.names {
        let text: String = inv.agents.iter().filter(|a| only(a)).map(|a| format!("{}{end}", a.reg.name)).collect();
        s.ui.out(&text)?;
        return Ok(code::DONE);
    }
    if args.watch {
        let form = match args.json {
            true => watch::Form::Json,
            false if s.ui.out_tty => watch::Form::Screen,
            false => watch::Form::Text,
        };
        // Those who come while one looks on are shown too, unless names were asked for.
        return watch::watch(s, &ctx, form, &only, &|answer| text(s, answer));
    }
    let moved = in_parallel(&inv.agents, |a| Ok(crate::ops::moved::stale(&ctx, a)))?;
    let moved: Vec<_> = moved.into_iter().flatten().collect();
    if !moved.is_empty() {
        s.ui.hint(&crate::ops::moved::command(&ctx, &moved));
    }
    let base = if args.json { super::base_name(&ctx) } else { None };
    let answer = status(&ctx, &inv, &only, base)?;
    if args.json {
        s.ui.json(&answer)?;
    } else if args.porcelain {
        s.ui.out_bytes(&porcelain(&answer, args.nul))?;
    } else {
        s.ui.page(&text(s, &answer))?;
    }
    // The process ends here; giving back a long journal line by line would take as long as reading half of it.
    std::mem::forget(inv);
    Ok(code::DONE)
}

/// A path is as git prints it: quoted where it holds what ends a line, its own bytes with `-z`.
fn porcelain(answer: &StatusAnswer, nul: bool) -> Vec<u8> {
    let number = |n: Option<usize>| n.map_or("-".to_owned(), |n| n.to_string());
    let mut out = Vec::new();
    for a in &answer.agents {
        let dirty = a.dirty.as_ref().map(|d| d.modified + d.untracked + d.conflicted);
        let fields = format!(
            "{}\t{}\t{}\t{}\t{}\t{}\t",
            a.name,
            a.run.state.map_or("-", RunState::word),
            branch_word(a.branch_state),
            number(a.ahead),
            number(a.behind),
            number(dirty),
        );
        out.extend(fields.bytes());
        let path = a.worktree.as_ref().map(JsonPath::raw).unwrap_or_default();
        if nul {
            out.extend(path);
        } else {
            out.extend(safe_path(&path).bytes());
        }
        out.push(if nul { 0 } else { b'\n' });
    }
    out
}

fn branch_word(b: Option<BranchState>) -> &'static str {
    match b {
        Some(BranchState::Fresh) => "fresh",
        Some(BranchState::Ahead) => "ahead",
        Some(BranchState::Diverged) => "diverged",
        Some(BranchState::Landed) => "landed",
        None => "-",
    }
}

fn text(s: &Session, answer: &StatusAnswer) -> String {
    let mut out = String::new();
    if answer.agents.is_empty() {
        out.push_str("no agents\n");
    } else {
        let mut rows = vec![["NAME", "STATE", "BRANCH", "CHANGES", "TASK"].map(str::to_owned).to_vec()];
        rows.extend(answer.agents.iter().map(row));
        let label = |i: usize, c: usize| match (i, c) {
            (0, _) => Some(Label::Dim),
            (_, 0) => Some(Label::Strong),
            (_, 1) => match answer.agents[i - 1].run.state {
                Some(RunState::Succeeded) => Some(Label::Good),
                Some(RunState::NeedsInput | RunState::Unchanged | RunState::Stopped) => Some(Label::Warn),
                Some(st) if st.is_final() => Some(Label::Bad),
                _ => None,
            },
            _ => None,
        };
        out.push_str(&table(&rows, |i, c, cell| match label(i, c) {
            Some(l) => s.ui.paint(l, cell),
            None => cell.to_owned(),
        }));
    }
    for a in &answer.agents {
        for line in notes(a) {
            out.push_str(&format!("{}: {line}\n", safe_line(a.name.0.as_bytes())));
        }
    }
    for h in &answer.holds {
        let until = h.until.as_deref().map(|u| format!(" until {}", clock::local(u))).unwrap_or_default();
        out.push_str(&format!(
            "{} is held: {}{until}; {} waiting ('git agents retry --held' lifts it)\n",
            h.assistant,
            one_line(&h.reason, 200),
            h.waiting
        ));
    }
    for c in &answer.checkouts {
        if let Some(d) = c.dirty.as_ref().filter(|d| !d.is_clean()) {
            out.push_str(&format!("your checkout: {}\n", changes(d)));
        }
    }
    for u in &answer.unmanaged {
        let branch = u.branch.as_deref().unwrap_or("no branch");
        out.push_str(&format!("not managed: {} ({})\n", u.worktree.shown(), safe_line(branch.as_bytes())));
    }
    out
}

fn changes(d: &Dirty) -> String {
    let part = |n: usize, w: &str| if n > 0 { Some(format!("{n} {w}")) } else { None };
    let parts = [part(d.modified, "modified"), part(d.untracked, "untracked"), part(d.conflicted, "in conflict")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "clean".to_owned() } else { parts.join(", ") }
}

fn row(a: &AgentAnswer) -> Vec<String> {
    let state = match (a.run.state, a.run.attempt) {
        (Some(s), n) if n > 1 => format!("{s} ({n})"),
        (Some(s), _) => s.to_string(),
        (None, _) => "-".to_owned(),
    };
    let branch = match (a.branch_state, a.ahead, a.behind) {
        (Some(BranchState::Ahead), Some(n), _) => format!("ahead {n}"),
        (Some(BranchState::Diverged), Some(n), Some(m)) => format!("ahead {n}, behind {m}"),
        (Some(BranchState::Fresh), _, Some(m)) if m > 0 => format!("fresh, behind {m}"),
        (b, _, _) => branch_word(b).to_owned(),
    };
    let changes = match &a.dirty {
        Some(d) => changes(d),
        None => "-".to_owned(),
    };
    vec![safe_line(a.name.0.as_bytes()), state, branch, changes, one_line(&a.title, 60)]
}

/// What is worth a line: who is close, and who may be.
fn meets(o: &OverlapAnswer) -> Option<String> {
    let names = |of: &[String]| {
        let shown: Vec<String> = of.iter().take(5).map(|n| safe_line(n.as_bytes())).collect();
        let more = if of.len() > 5 { format!(" and {} more", of.len() - 5) } else { String::new() };
        format!("{}{more}", shown.join(", "))
    };
    match o.level {
        Some(level) if level >= Level::Near => Some(format!("overlap: {} with {}", level.word(), names(&o.with))),
        _ if !o.unknown.is_empty() => Some(format!("overlap: unknown with {}", names(&o.unknown))),
        _ => None,
    }
}

/// What is to be said of its tests: nothing where all is well.
fn tests(a: &AgentAnswer) -> Option<String> {
    let t = &a.tests;
    let logs = || format!("; 'git agents logs --test {}'", a.name.typed());
    if t.state == "stale" {
        return Some(format!("tests: of an earlier commit{}", logs()));
    }
    match (t.verdict.as_deref()?, t.newly_failing) {
        ("pass", _) => None,
        ("fail", 0) => Some(format!("tests: fail, as on its base{}", logs())),
        ("fail", n) => Some(format!("tests: {n} newly failing{}", logs())),
        (word, _) => Some(format!("tests: {word}{}", logs())),
    }
}

fn notes(a: &AgentAnswer) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(q) = &a.run.question {
        out.push(format!("asks: {} ('git agents send {} …' answers)", one_line(q, 300), a.name.typed()));
    } else if let Some(r) = &a.run.reason {
        out.push(one_line(r, 300));
    }
    out.extend(tests(a));
    match a.zombie {
        Some(Zombie::Missing) => {
            out.push("its directory is missing; if it was moved, 'git worktree repair' in it mends that".into())
        }
        Some(Zombie::BranchGone) => out.push("its branch is gone".into()),
        Some(Zombie::HalfRemoved) => out.push("its removal was cut short; the next command completes it".into()),
        Some(Zombie::Landed) => {
            let at = a.landed_as.as_ref().map(|c| format!(" as {}", c.short())).unwrap_or_default();
            out.push(format!("landed{at}; 'git agents clean' takes it away"));
        }
        Some(Zombie::UpstreamGone) => out.push("its remote branch is gone; whether it has landed is not known".into()),
        None => {}
    }
    out.extend(a.overlap.as_ref().and_then(meets));
    if let Some(op) = &a.operation {
        out.push(format!("in the middle of a {op}"));
    }
    if let (Some(reason), false) = (&a.locked, a.run.state.is_some_and(RunState::is_live)) {
        let text = match crate::ops::identity::parse_lock_reason(reason) {
            Some(_) => format!("locked by a run that is gone; 'git agents stop {}' releases it", a.name.typed()),
            None => format!("locked: {}", safe_line(reason.as_bytes())),
        };
        out.push(text);
    }
    out.extend(a.findings.iter().map(|f| safe_line(f.as_bytes())));
    out
}
