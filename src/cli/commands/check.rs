//! `git agents check`: what an assistant asks before it edits.

use super::overlap::level;
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::config::{CheckConflict, Flags};
use crate::git::status::RelPath;
use crate::model::agent::Name;
use crate::model::overlap::{Level, Lines};
use crate::model::text::safe_line;
use crate::ops::Context;
use crate::ops::inventory::Inventory;
use crate::ops::overlap::check::{Checked, CheckedPath, Edit, check};
use serde_json::{Value, json};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Who else touches these paths: exit 1 where somebody does
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files or directories
    #[arg(value_name = "PATH", required_unless_present = "hook")]
    paths: Vec<PathBuf>,
    /// Exit with 1 only at LEVEL (file, near, symbol, conflict) or above
    #[arg(long, value_name = "LEVEL", value_parser = level, default_value = "file")]
    fail_on: Level,
    /// Speak the pre-edit hook protocol of ASSISTANT (claude), read from standard input
    #[arg(long, value_name = "ASSISTANT", value_parser = ["claude"], conflicts_with_all = ["paths", "json"])]
    hook: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    if args.hook.is_some() {
        return hook(s);
    }
    let ctx = s.context()?;
    let paths: Vec<RelPath> = args.paths.iter().map(|p| from_top(s, &ctx, p)).collect::<Result<_, _>>()?;
    let found = asked(&ctx, &paths, None)?;
    if args.json {
        s.ui.json(&found)?;
    } else {
        s.ui.out(&found.paths.iter().map(lines).collect::<String>())?;
    }
    let touched = |p: &CheckedPath| !p.unknown.is_empty() || p.touched_by.iter().any(|t| t.level >= args.fail_on);
    Ok(if found.paths.iter().any(touched) { code::NO } else { code::DONE })
}

fn asked(ctx: &Context, paths: &[RelPath], edit: Option<Edit<'_>>) -> Result<Checked, CliError> {
    let inv = Inventory::read(ctx)?;
    let me = ctx.here()?.map(|r| r.name);
    let me = me.or_else(|| std::env::var("AGENTS_NAME").ok().map(Name).filter(|n| inv.find(&n.0).is_some()));
    Ok(check(ctx, &inv, me.as_ref(), paths, edit)?)
}

/// `path`, as typed in the directory of the session, from the top of its worktree. It need not exist.
pub fn from_top(s: &Session, ctx: &Context, path: &Path) -> Result<RelPath, CliError> {
    let outside = || {
        CliError::refused(
            format!("'{}' is outside of the worktree", crate::model::text::safe_path(path.as_os_str().as_bytes())),
            "name files as they are called in the worktree you are in",
        )
    };
    let Some(top) = ctx.repo().toplevel.clone() else {
        return Ok(path.as_os_str().as_bytes().to_vec());
    };
    let mut full = PathBuf::new();
    for part in s.cwd.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(full.pop()),
            p => full.push(p),
        }
    }
    let real = |p: &Path| std::fs::canonicalize(p).unwrap_or_else(|_| p.to_owned());
    // The last part stays as it is: a link is a file of its own.
    let full = match (full.parent(), full.file_name()) {
        (Some(dir), Some(name)) if full != top => real(dir).join(name),
        _ => full,
    };
    let rest = full.strip_prefix(&top).or_else(|_| full.strip_prefix(real(&top))).map_err(|_| outside())?;
    Ok(rest.as_os_str().as_bytes().to_vec())
}

fn lines(p: &CheckedPath) -> String {
    let mut out = String::new();
    let path = Some(p.path.shown()).filter(|p| !p.is_empty()).unwrap_or_else(|| ".".to_owned());
    for t in &p.touched_by {
        out.push_str(&format!("{path}: {}\n", one(t.level, &t.agent, &t.lines, t.committed)));
    }
    for (agent, why) in &p.unknown {
        out.push_str(&format!("{path}: unknown, {}: {}\n", safe_line(agent.as_bytes()), safe_line(why.as_bytes())));
    }
    if out.is_empty() { format!("{path}: nobody else\n") } else { out }
}

fn one(level: Level, agent: &str, at: &[Lines], committed: bool) -> String {
    let range = |(a, b): &Lines| if a == b { a.to_string() } else { format!("{a}-{b}") };
    let at: Vec<String> = at.iter().take(5).map(range).collect();
    let at = if at.is_empty() { String::new() } else { format!(" at lines {}", at.join(", ")) };
    let state = if committed { "" } else { ", not committed yet" };
    format!("{}, {}{at}{state}", level.word(), safe_line(agent.as_bytes()))
}

/// A hook must not stand in the way of an assistant because of us: whatever goes wrong is told, and the edit goes on.
fn hook(s: &Session) -> Result<i32, CliError> {
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(LARGEST + 1).read_to_end(&mut input);
    let call: Value = read.ok().and_then(|_| serde_json::from_slice(&input).ok()).unwrap_or(Value::Null);
    let decided = if input.len() as u64 > LARGEST {
        Err(CliError::refused("the call is larger than 16 MiB", "git agents check"))
    } else {
        decide(s, &call)
    };
    let answer = match decided {
        Ok(None) => return Ok(code::DONE),
        Ok(Some(answer)) => answer,
        Err(e) => {
            let (words, _) = e.render();
            let told =
                format!("git agents could not check for overlap: {}", words.trim_start_matches("error: ").trim_end());
            json!({ "hookEventName": "PreToolUse", "additionalContext": safe_line(told.as_bytes()) })
        }
    };
    s.ui.json(&json!({ "hookSpecificOutput": answer }))?;
    Ok(code::DONE)
}

/// A call that is larger is not read, nor a file.
const LARGEST: u64 = 16 << 20;

/// The file as the tool is going to write it, and as it is `now`; `None` where that cannot be told.
fn proposed(now: Option<&[u8]>, input: &Value) -> Option<Vec<u8>> {
    if let Some(content) = input["content"].as_str() {
        return Some(content.as_bytes().to_vec());
    }
    let one = std::slice::from_ref(input);
    let edits = input["edits"].as_array().map_or(one, Vec::as_slice);
    // The hook knows text alone; a file it could not be is judged as it is.
    let mut text = String::from_utf8(now.unwrap_or_default().to_vec()).ok()?;
    for e in edits {
        let (old, new) = (e["old_string"].as_str()?, e["new_string"].as_str()?);
        if old.is_empty() && text.is_empty() {
            text = new.to_owned();
        } else if old.is_empty() || !text.contains(old) {
            return None;
        } else if e["replace_all"].as_bool() == Some(true) {
            text = text.replace(old, new);
        } else {
            text = text.replacen(old, new, 1);
        }
    }
    Some(text.into_bytes())
}

fn decide(s: &Session, call: &Value) -> Result<Option<Value>, CliError> {
    let input = &call["tool_input"];
    let named = ["file_path", "notebook_path", "path"].iter().find_map(|k| input[*k].as_str());
    let Some(file) = named.filter(|f| !f.is_empty()) else { return Ok(None) };
    let file = call["cwd"].as_str().map_or(s.cwd.as_path(), Path::new).join(file);
    // The tool writes where a link leads.
    let file = file.canonicalize().unwrap_or(file);
    let Some(dir) = file.ancestors().skip(1).find(|d| d.is_dir()) else { return Ok(None) };
    let here = Session { ui: s.ui.clone(), cwd: dir.to_owned() };
    let ctx = match here.context() {
        Ok(ctx) => ctx,
        // A file of no repository is nobody's affair here.
        Err(_) => return Ok(None),
    };
    let Ok(path) = from_top(&here, &ctx, &file) else { return Ok(None) };
    // Nobody waits for what a pipe has to say.
    let is_file = file.metadata().is_ok_and(|m| m.is_file());
    let now = if is_file { crate::runtime::files::read_limited(&file, LARGEST).ok().flatten() } else { None };
    let text = proposed(now.as_deref(), input);
    let edit = text.as_deref().map(|text| Edit { now: now.as_deref(), text });
    let found = asked(&ctx, &[path], edit)?;
    let Some(p) = found.paths.first().filter(|p| !p.touched_by.is_empty() || !p.unknown.is_empty()) else {
        return Ok(None);
    };
    let worst = p.touched_by.iter().map(|t| t.level).max();
    let told = format!(
        "Others work on this file right now. {}Keep your change small and away from theirs, or do other work first.",
        lines(p).lines().map(|l| format!("{l}. ")).collect::<String>()
    );
    let mut answer = json!({ "hookEventName": "PreToolUse", "additionalContext": told });
    if worst == Some(Level::Conflict) {
        let how = ctx.settings(&Flags::default()).map_or(CheckConflict::Ask, |l| l.settings.check_conflict);
        let word = match how {
            CheckConflict::Ask => Some("ask"),
            CheckConflict::Deny => Some("deny"),
            CheckConflict::Tell => None,
        };
        if let Some(word) = word {
            answer["permissionDecision"] = json!(word);
            answer["permissionDecisionReason"] = json!(told);
        }
    }
    Ok(Some(answer))
}
