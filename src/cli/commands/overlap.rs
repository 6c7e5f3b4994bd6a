//! `git agents overlap`.

use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::lines::{Line, OverlapLine};
use crate::cli::ui::Label;
use crate::model::overlap::{Level, Lines};
use crate::model::text::{safe_line, safe_path};
use crate::ops::Context;
use crate::ops::inventory::Inventory;
use crate::ops::overlap::answer::{self, Overlaps, PairAnswer, PathAnswer, Question};
use crate::ops::overlap::live::{Live, Turn};
use crate::ops::select;
use crate::place::watch::Happening;

/// Who (and you) changes things that meet, and how badly
///
/// Levels, weakest first: file (the same file), near (the same hunk, or within three lines), symbol (the same
/// definition), conflict (a merge stops). Uncommitted and untracked work counts; what cannot be told is said to be
/// unknown, never free.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only pairs with this one; several: only pairs among them. Branches may be named too
    #[arg(value_name = "AGENT|BRANCH")]
    names: Vec<String>,
    /// Only where they meet on these paths
    #[arg(last = true, value_name = "PATH")]
    paths: Vec<std::path::PathBuf>,
    /// Go on telling what changes
    #[arg(short, long, conflicts_with_all = ["exit_code", "fail_on", "order", "porcelain"])]
    watch: bool,
    /// Also the order in which landing stops least
    #[arg(long)]
    order: bool,
    /// Also remote-tracking branches that are ahead of the base
    #[arg(long)]
    remotes: bool,
    /// Exit with 1 where there is any overlap, or one that is unknown
    #[arg(long)]
    exit_code: bool,
    /// Exit with 1 where one is at LEVEL (file, near, symbol, conflict) or above, or unknown
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    fail_on: Option<Level>,
    /// Answer in JSON; with --watch in JSON lines
    #[arg(long, conflicts_with = "porcelain")]
    json: bool,
    /// Stable lines for scripts: level, kind, one, other, path; tab-separated
    #[arg(long)]
    porcelain: bool,
    /// With --porcelain: end records with NUL
    #[arg(short = 'z', requires = "porcelain")]
    nul: bool,
}

/// A level by its word.
pub fn level(word: &str) -> Result<Level, String> {
    [Level::File, Level::Near, Level::Symbol, Level::Conflict]
        .into_iter()
        .find(|l| l.word() == word)
        .ok_or_else(|| "not one of file, near, symbol, conflict".to_owned())
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let inv = Inventory::read(&ctx)?;
    let question = Question {
        names: names(&ctx, &inv, &args.names)?,
        paths: args.paths.iter().map(|p| super::check::from_top(s, &ctx, p)).collect::<Result<_, _>>()?,
        remotes: args.remotes,
        order: args.order,
    };
    if args.watch {
        return watch(s, &ctx, question, args.json);
    }
    let found = answer::answer(&ctx, &inv, &question)?;
    if args.json {
        s.ui.json(&found)?;
    } else if args.porcelain {
        s.ui.out_bytes(&porcelain(&found, args.nul))?;
    } else {
        s.ui.page(&text(s, &found))?;
    }
    let limit = args.fail_on.or_else(|| args.exit_code.then_some(Level::File));
    let reaches = |level: Option<Level>| limit.is_some_and(|limit| level.is_none_or(|l| l >= limit));
    let unread = limit.is_some() && found.agents.iter().any(|a| a.unknown.is_some());
    let bad = found.pairs.iter().any(|p| reaches(p.level))
        || found.with_base.iter().any(|w| w.level.is_none_or(|l| l == Level::Conflict) && reaches(w.level))
        || unread;
    Ok(if bad { code::NO } else { code::DONE })
}

/// Agents by whatever names them; what names none is taken for a branch.
fn names(ctx: &Context, inv: &Inventory, words: &[String]) -> Result<Vec<String>, CliError> {
    let is_branch =
        |w: &String| ["refs/heads/", "refs/remotes/", ""].iter().any(|p| inv.refs.contains_key(&format!("{p}{w}")));
    let mut out = Vec::new();
    for w in words {
        match select::one(ctx, inv, w, select::Match::Prefix) {
            Ok(name) => out.push(name),
            Err(_) if is_branch(w) => out.push(w.clone()),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(out)
}

fn word(level: Option<Level>) -> &'static str {
    level.map_or("unknown", Level::word)
}

fn porcelain(found: &Overlaps, nul: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut line = |level: Option<Level>, kind: &str, a: &str, b: &str, path: Option<&PathAnswer>| {
        out.extend(format!("{}\t{kind}\t{a}\t{b}\t", word(level)).bytes());
        let path = path.map(|p| p.path.raw()).unwrap_or_default();
        if nul {
            out.extend(path);
        } else {
            out.extend(safe_path(&path).bytes());
        }
        out.push(if nul { 0 } else { b'\n' });
    };
    let kind = |p: &PathAnswer| p.kind.map_or("-", crate::model::overlap::Kind::word);
    for p in &found.pairs {
        if p.paths.is_empty() {
            line(p.level, "-", &p.a, &p.b, None);
        }
        for path in &p.paths {
            line(Some(path.level), kind(path), &p.a, &p.b, Some(path));
        }
    }
    for w in found.with_base.iter().filter(|w| w.level.is_none_or(|l| l == Level::Conflict)) {
        if w.paths.is_empty() {
            line(w.level, "base", &w.agent, &w.base, None);
        }
        for path in w.paths.iter().filter(|p| p.level == Level::Conflict) {
            line(Some(path.level), kind(path), &w.agent, &w.base, Some(path));
        }
    }
    out
}

/// More paths of one pair than these are counted.
const SHOWN: usize = 8;

fn text(s: &Session, found: &Overlaps) -> String {
    let mut out = String::new();
    let shown = |n: &str| safe_line(n.as_bytes());
    for p in &found.pairs {
        out.push_str(&format!("{}\n", headline(s, p)));
        for path in p.paths.iter().take(SHOWN) {
            out.push_str(&format!("  {}\n", place(path)));
        }
        if p.paths.len() > SHOWN {
            out.push_str(&format!("  and {} more\n", p.paths.len() - SHOWN));
        }
    }
    for w in &found.with_base {
        let (agent, base) = (shown(&w.agent), shown(&w.base));
        match (w.level, &w.unknown) {
            (None, why) => {
                let why = why.as_deref().unwrap_or("not told");
                out.push_str(&format!("{agent} with {base}: {} ({})\n", label(s, None), shown(why)));
            }
            (Some(Level::Conflict), _) => {
                let paths: Vec<String> =
                    w.paths.iter().filter(|p| p.level == Level::Conflict).take(SHOWN).map(|p| p.path.shown()).collect();
                out.push_str(&format!("{agent} with {base}: {} in {}\n", label(s, w.level), paths.join(", ")));
            }
            _ => {}
        }
    }
    for a in &found.agents {
        if let Some(why) = &a.unknown {
            out.push_str(&format!("{}: {}\n", shown(&a.name), shown(why)));
        }
    }
    for w in &found.warnings {
        let [x, y] = &w.paths;
        out.push_str(&format!(
            "{} and {}: '{}' and '{}' cannot both be checked out on every disk\n",
            shown(&w.a),
            shown(&w.b),
            x.shown(),
            y.shown()
        ));
    }
    if out.is_empty() {
        let n = found.agents.len();
        out = match n {
            0 => "no agents\n".to_owned(),
            1 => "one alone meets nobody\n".to_owned(),
            _ => format!("no overlap among {n}\n"),
        };
    }
    if let Some(order) = &found.order {
        out.push_str(if order.is_empty() {
            "landing order: nobody has anything to land\n"
        } else {
            "landing order:\n"
        });
        for (n, step) in order.iter().enumerate() {
            let mut line = format!("  {}. {}", n + 1, shown(&step.name));
            let with: Vec<String> = step.conflicts_with_landed.iter().map(|n| shown(n)).collect();
            // No other order helps one that stops on the base alone.
            let mut bases = found.with_base.iter().filter(|w| w.agent == step.name);
            let on_base = !step.stops.is_empty() && bases.any(|w| w.level == Some(Level::Conflict));
            if on_base || (with.is_empty() && !step.stops.is_empty()) {
                line.push_str("  stops on the base");
                line.push_str(if with.is_empty() { "" } else { ", and after " });
            } else if !with.is_empty() {
                line.push_str("  stops after ");
            }
            line.push_str(&with.join(", "));
            if let Some(why) = &step.unknown {
                line.push_str(&format!("  unknown: {}", shown(why)));
            }
            if !step.instead_of.is_empty() {
                let of: Vec<String> = step.instead_of.iter().map(|n| shown(n)).collect();
                line.push_str(&format!("  instead of {}", of.join(", ")));
            }
            out.push_str(&format!("{line}\n"));
        }
    }
    out
}

fn label(s: &Session, level: Option<Level>) -> String {
    let label = match level {
        Some(Level::Conflict) => Label::Bad,
        Some(Level::Symbol | Level::Near) | None => Label::Warn,
        _ => Label::Dim,
    };
    s.ui.paint(label, word(level))
}

fn headline(s: &Session, p: &PairAnswer) -> String {
    let why = p.unknown.as_ref().map(|w| format!(": {}", safe_line(w.as_bytes()))).unwrap_or_default();
    format!("{} {} and {}{why}", label(s, p.level), safe_line(p.a.as_bytes()), safe_line(p.b.as_bytes()))
}

/// `src/x.rs:10-14 and :12 (content)`.
fn place(p: &PathAnswer) -> String {
    let lines = |l: &[Lines]| {
        let one = |(a, b): &Lines| if a == b { a.to_string() } else { format!("{a}-{b}") };
        let shown: Vec<String> = l.iter().take(3).map(one).collect();
        if shown.is_empty() { String::new() } else { format!(":{}", shown.join(",")) }
    };
    let (a, b) = (lines(&p.a_lines), lines(&p.b_lines));
    let mut out = format!("{}{a}", p.path.shown());
    if let Some(other) = &p.other_path {
        out.push_str(&format!(" and {}{b}", other.shown()));
    } else if !b.is_empty() {
        out.push_str(&format!(" and {b}"));
    }
    let symbol = p.symbol.as_ref().map(|n| format!("'{}'", safe_line(n.as_bytes())));
    let what = [Some(word(Some(p.level)).to_owned()), p.kind.map(|k| k.word().to_owned()), symbol];
    let what: Vec<String> = what.into_iter().flatten().collect();
    out.push_str(&format!("  {}", what.join(" ")));
    if let Some(hint) = &p.hint {
        out.push_str(&format!("\n    {hint}"));
    }
    out
}

/// The whole answer first, then each pair that changes.
fn watch(s: &Session, ctx: &Context, question: Question, as_json: bool) -> Result<i32, CliError> {
    let signals = crate::cli::follow::catch()?;
    let mut live = Live::begin(ctx, question)?;
    let sender = live.sender();
    let mut end = crate::cli::watch::end_of(signals);
    std::thread::spawn(move || sender.send(Happening::Other(end())));
    let (mut first, mut told) = (true, false);
    loop {
        let turns = live.next(std::mem::take(&mut first))?;
        crate::cli::watch::say_polls(s, live.polls_because(), &mut told);
        for t in turns {
            match (t, as_json) {
                (Turn::End(signal), _) => return Ok(128 + signal),
                (Turn::Pair(p), true) => {
                    s.ui.json(&Line::of(OverlapLine::Pair(p)))?;
                }
                (Turn::Gone(a, b), true) => s.ui.json(&Line::of(OverlapLine::Gone { a, b }))?,
                (Turn::Pair(p), false) => {
                    let places: String = p.paths.iter().take(SHOWN).map(|x| format!("  {}\n", place(x))).collect();
                    s.ui.out(&format!("{}\n{places}", headline(s, &p)))?;
                }
                (Turn::Gone(a, b), false) => {
                    let (a, b) = (safe_line(a.as_bytes()), safe_line(b.as_bytes()));
                    s.ui.out(&format!("{} {a} and {b}\n", s.ui.paint(Label::Good, "none")))?;
                }
            }
        }
    }
}
