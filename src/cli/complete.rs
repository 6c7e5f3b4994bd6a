//! What a shell's completion asks: `git-agents complete SHELL INDEX WORD...`, called by the stubs in `stubs/`.
//!
//! It answers within milliseconds, starts no git, writes nothing and never says what went wrong: whoever presses a key
//! wants a list or none. clap's engine knows the commands and flags; the values come from here. The engine is not
//! stable, which is why it is pinned and spoken to in this file alone.

use super::{Cli, hook};
use crate::git::repo::Repo;
use crate::git::state::State;
use crate::git::{config_file, refs};
use crate::model::agent::RunState;
use crate::model::task::short_ref;
use crate::model::text::{one_line, safe_line};
use crate::ops::{self, Context};
use clap::CommandFactory as _;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate, complete};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who asks: what a candidate looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shell {
    /// Quoted, with the space behind it: git's own completion adds none.
    Bash,
    /// `value:description`.
    Zsh,
    /// `value`, tab, description.
    Fish,
}

/// `args` are SHELL INDEX WORD..., the first word being the command.
pub(super) fn main(args: &[OsString]) -> i32 {
    std::panic::set_hook(Box::new(|_| {}));
    let text = std::panic::catch_unwind(|| answer(args)).ok().flatten().unwrap_or_default();
    let _ = std::io::stdout().write_all(text.as_bytes());
    super::error::code::DONE
}

fn answer(args: &[OsString]) -> Option<String> {
    let [shell, index, words @ ..] = args else { return None };
    let shell = match shell.to_str()? {
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        _ => return None,
    };
    let index: usize = index.to_str()?.parse().ok()?;
    let word = words.get(index)?.to_str()?;
    let dir = directory(&words[..index])?;
    let asked = Arc::new(Asked { dir, shell, number: word.starts_with(|c: char| c.is_ascii_digit()) });
    let ask = |words: &[OsString]| complete(&mut command(&asked), words.to_vec(), index, Some(&asked.dir)).ok();
    let mut found = ask(words)?;
    if word == "-" {
        // The engine names a flag by its letter where it has one; the word says more.
        let mut longer = words.to_vec();
        longer[index] = "--".into();
        found.splice(0..0, ask(&longer)?);
        let mut seen = std::collections::HashSet::new();
        found.retain(|c| c.get_id().is_none_or(|id| seen.insert(id.clone())));
    }
    // Flags are listed when one is begun, or where there is nothing else.
    let is_flag = |c: &CompletionCandidate| c.get_value().as_encoded_bytes().starts_with(b"-");
    if word.is_empty() && found.iter().any(|c| !is_flag(c)) {
        found.retain(|c| !is_flag(c));
    }
    found.retain(|c| !words[..index].iter().skip(1).any(|w| w == c.get_value()));
    Some(found.iter().filter_map(|c| line(shell, c)).collect())
}

/// Where the command would act: every `-C` from the one before.
fn directory(words: &[OsString]) -> Option<PathBuf> {
    let mut dir = std::env::current_dir().ok()?;
    for pair in words.windows(2).filter(|pair| pair[0] == "-C") {
        dir = dir.join(config_file::expand_home(pair[1].to_str()?));
    }
    // `..` would find what it leads out of.
    dir.canonicalize().ok()
}

/// One candidate. A name that is not clean text is none: it would be typed into the user's command line.
fn line(shell: Shell, candidate: &CompletionCandidate) -> Option<String> {
    let value = candidate.get_value().to_str()?;
    if value.is_empty() || value.contains(['\n', '\t']) || safe_line(value.as_bytes()) != value {
        return None;
    }
    let help = candidate.get_help().map(|h| one_line(&h.to_string(), 60)).unwrap_or_default();
    Some(match shell {
        Shell::Bash => {
            let special = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"_./@%+=:,-".contains(c);
            let mut out: String =
                value.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect();
            if !value.ends_with(['/', '=']) {
                out.push(' ');
            }
            out + "\n"
        }
        Shell::Zsh => format!("{}:{help}\n", value.replace('\\', "\\\\").replace(':', "\\:")),
        Shell::Fish => format!("{value}\t{help}\n"),
    })
}

/// The command line with the values that only this repository knows, by what each argument calls its value.
fn command(asked: &Arc<Asked>) -> clap::Command {
    let mut root = Cli::command().mut_args(|a| valued(asked, "", a));
    let names: Vec<String> = root.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    for name in names {
        let asked = asked.clone();
        let of = name.clone();
        root = root.mut_subcommand(name, move |c| c.mut_args(|a| valued(&asked, &of, a)));
    }
    root
}

fn valued(asked: &Arc<Asked>, command: &str, arg: clap::Arg) -> clap::Arg {
    let value = arg.get_value_names().and_then(|v| v.first()).map(ToString::to_string).unwrap_or_default();
    type Source = fn(&Asked) -> Vec<CompletionCandidate>;
    let source: Source = match (command, value.as_str(), arg.get_id().as_str()) {
        ("restore", "AGENT", _) => |a| a.removed().unwrap_or_default(),
        ("cd", ..) | (_, "AGENT", _) => |a| a.agents().unwrap_or_default(),
        (_, "AGENT|BRANCH", _) => |a| [a.agents(), a.branches(false)].into_iter().flatten().flatten().collect(),
        ("adopt", "WHAT", _) => |a| a.branches(true).unwrap_or_default(),
        (_, "REV", _) => |a| a.branches(false).unwrap_or_default(),
        (_, "A" | "A[,B]", _) => |a| a.assistants(),
        (_, _, "batch") => |a| a.batches().unwrap_or_default(),
        (_, "R", _) => |a| a.remotes().unwrap_or_default(),
        (_, "S,…", _) => |_| RunState::ALL.iter().map(|s| CompletionCandidate::new(s.word())).collect(),
        (_, "LEVEL", _) => |_| plain(["file", "near", "symbol", "conflict"]),
        (_, _, "json_schema") => |_| plain(super::commands::SCHEMAS.iter().copied()),
        _ => return arg,
    };
    let asked = asked.clone();
    arg.add(ArgValueCandidates::new(move || source(&asked)))
}

fn plain<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<CompletionCandidate> {
    words.into_iter().map(CompletionCandidate::new).collect()
}

/// What is asked: values are read when the place of the cursor needs them.
#[derive(Debug)]
struct Asked {
    dir: PathBuf,
    shell: Shell,
    /// The word begins with a digit: only then are numbers of tasks offered.
    number: bool,
}

impl Asked {
    fn context(&self) -> Option<Context> {
        let (git_dir, common) = hook::place(&self.dir)?;
        let state = State::open(Repo::glance(git_dir, common).ok()?).ok()?;
        Some(Context { state, cwd: self.dir.clone() })
    }

    fn agents(&self) -> Option<Vec<CompletionCandidate>> {
        let ctx = self.context()?;
        let mut found = Vec::new();
        for r in ctx.state.registrations().ok()?.0 {
            // Bash shows none, and a task object a name is a file to read.
            let title = || ctx.state.task(&r.id).ok().map(|t| safe_line(t.title.as_bytes()).into());
            let help = if self.shell == Shell::Bash { None } else { title() };
            found.push(CompletionCandidate::new(r.name.0).help(help));
        }
        if self.number {
            let tasks = ctx.state.tasks().ok()?;
            let last = tasks.iter().filter_map(|(_, t)| t.batch).max();
            for (_, t) in tasks.iter().filter(|(_, t)| t.batch == last && last.is_some()) {
                let Some(n) = t.number else { continue };
                found.push(CompletionCandidate::new(n.to_string()).help(Some(safe_line(t.title.as_bytes()).into())));
            }
        }
        Some(found)
    }

    fn removed(&self) -> Option<Vec<CompletionCandidate>> {
        let mut names: Vec<String> = ops::remove::entries(&self.context()?).into_iter().map(|(_, e)| e.name).collect();
        names.sort_unstable();
        names.dedup();
        Some(names.into_iter().map(CompletionCandidate::new).collect())
    }

    /// Branches, and remote-tracking ones; with `free` only those no agent has.
    fn branches(&self, free: bool) -> Option<Vec<CompletionCandidate>> {
        let ctx = self.context()?;
        let taken: Vec<String> = match free {
            true => ctx.state.registrations().ok()?.0.into_iter().map(|r| r.branch).collect(),
            false => Vec::new(),
        };
        let all = refs::list(ctx.repo(), &["refs/heads/", "refs/remotes/"]).ok()?;
        let names = all.into_keys().filter(|r| !taken.contains(r) && !r.ends_with("/HEAD"));
        Some(names.map(|r| CompletionCandidate::new(short_ref(&r).to_owned())).collect())
    }

    fn batches(&self) -> Option<Vec<CompletionCandidate>> {
        let mut batches: Vec<u64> = self.context()?.state.tasks().ok()?.iter().filter_map(|(_, t)| t.batch).collect();
        batches.sort_unstable_by(|a, b| b.cmp(a));
        batches.dedup();
        Some(batches.into_iter().map(|b| CompletionCandidate::new(b.to_string())).collect())
    }

    fn remotes(&self) -> Option<Vec<CompletionCandidate>> {
        let (_, common) = hook::place(&self.dir)?;
        Some(plain(config_file::read(&common).ok()?.subsections("remote").iter().map(String::as_str)))
    }

    /// Those in the table and those of the project's file.
    fn assistants(&self) -> Vec<CompletionCandidate> {
        let mut names: Vec<String> = crate::place::adapter::BUILT_IN.iter().map(|n| (*n).to_owned()).collect();
        let top = self.dir.ancestors().find(|d| d.join(".git").exists());
        let file = |top: &Path| crate::config::project::load(&top.join(crate::config::project::FILE_NAME)).ok()?;
        names.extend(top.and_then(file).into_iter().flat_map(|p| p.assistants.into_keys()));
        names.dedup();
        names.into_iter().map(CompletionCandidate::new).collect()
    }
}
