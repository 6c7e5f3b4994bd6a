//! The project's own file, `.git-agents.toml`.
//!
//! Strict: every key that is not known is an error, because a misspelt limit is no limit. All mistakes are said at
//! once. The file comes from the repository, so it is treated as written by a stranger: bounded, without invisible
//! characters, patterns and directories kept where they belong, and nothing in it counts as approved.

use super::template;
use super::value;
use super::walk::{Reader, Section};
use crate::model::units::{self, Limit};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The name of the file, at the top of the checkout.
pub const FILE_NAME: &str = ".git-agents.toml";

/// The most bytes the file may have.
pub const LARGEST: usize = 64 * 1024;

/// One mistake in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where the file came from, for people.
    pub origin: String,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The key in full, as `limits.parallel`; empty for what is no key.
    pub key: String,
    /// What is wrong, with the key.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.origin, self.message),
            None => write!(f, "{}: {}", self.origin, self.message),
        }
    }
}

/// A command of the file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum CommandSpec {
    /// One line for `sh -c`. Never a template: a value inside a shell line would be code.
    Shell(String),
    /// One argv; its elements are templates.
    Argv(Vec<String>),
}

impl CommandSpec {
    /// For people.
    pub fn shown(&self) -> String {
        match self {
            CommandSpec::Shell(line) => line.clone(),
            CommandSpec::Argv(argv) => argv.join(" "),
        }
    }
}

/// What takes the place of a clone that the file system cannot make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloneFallback {
    /// A plain copy, up to the limit.
    Copy,
    /// Nothing, and that is said.
    None,
}

impl std::str::FromStr for CloneFallback {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "copy" => Ok(CloneFallback::Copy),
            "none" => Ok(CloneFallback::None),
            _ => Err(format!("'{}' is neither 'copy' nor 'none'", value::shown(s))),
        }
    }
}

/// What is done about submodules in a new worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submodules {
    /// Not initialised, and that is said.
    None,
    /// Those whose objects are here.
    Local,
    /// All, at every depth, from the network where needed.
    Recursive,
}

impl Submodules {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Submodules::None => "none",
            Submodules::Local => "local",
            Submodules::Recursive => "recursive",
        }
    }
}

impl std::str::FromStr for Submodules {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let all = [Submodules::None, Submodules::Local, Submodules::Recursive];
        let found = all.into_iter().find(|one| one.word() == s);
        found.ok_or_else(|| format!("'{}' is none of 'none', 'local' and 'recursive'", value::shown(s)))
    }
}

/// The file. `None` is what it does not say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Project {
    /// `base`.
    pub base: Option<String>,
    /// `assistant`.
    pub assistant: Option<String>,
    /// `branch-prefix`.
    pub branch_prefix: Option<String>,
    /// `[worktree]`.
    pub worktree: Worktree,
    /// `[setup] run`: counts only as part of an `ApprovedPlan`.
    pub setup: Option<Vec<CommandSpec>>,
    /// `[test]`.
    pub test: Test,
    /// `[limits]`.
    pub limits: Limits,
    /// `[assistants.NAME]`: counts only as part of an `ApprovedPlan`.
    pub assistants: BTreeMap<String, Assistant>,
    /// `[cleanup] throw-away`: counts only as part of an `ApprovedPlan`.
    pub throw_away: Option<Vec<String>>,
}

/// `[worktree]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Worktree {
    /// Where worktrees are made, a template.
    pub dir: Option<String>,
    /// Ignored files to take along.
    pub copy: Option<Vec<String>>,
    /// Ignored directories to clone.
    pub clone: Option<Vec<String>>,
    /// What takes the place of a clone.
    pub clone_fallback: Option<CloneFallback>,
    /// The largest directory that is copied, in bytes.
    pub clone_limit: Option<u64>,
    /// Counts only as part of an `ApprovedPlan`.
    pub submodules: Option<Submodules>,
}

/// `[test]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Test {
    /// Counts only as part of an `ApprovedPlan`.
    pub command: Option<CommandSpec>,
    /// How long it may take.
    pub timeout: Option<Limit>,
    /// Where it leaves JUnit files: a glob from the top of the worktree.
    pub junit: Option<String>,
    /// The command for some tests alone, an array with `{{ tests }}` in it. Counts only as part of an `ApprovedPlan`.
    pub again: Option<CommandSpec>,
}

/// `[limits]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// How many agents work at once.
    pub parallel: Option<usize>,
    /// How long an attempt may take.
    pub time: Option<Limit>,
    /// How long it may make no progress.
    pub stall: Option<Limit>,
    /// How long the setup commands may take together.
    pub setup: Option<Limit>,
    /// How often a failed attempt is repeated.
    pub retries: Option<u32>,
    /// US dollars for one agent.
    pub cost: Option<f64>,
    /// US dollars for a batch.
    pub total_cost: Option<f64>,
    /// Bytes that must be free.
    pub min_free: Option<u64>,
    /// How many test runs at once.
    pub tests: Option<usize>,
}

/// `[assistants.NAME]`: fields of a row of the built-in table, set or added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assistant {
    /// What is run.
    pub command: Option<CommandSpec>,
    /// Further arguments, templates.
    pub args: Option<Vec<String>>,
    /// Variables, values are templates.
    pub env: BTreeMap<String, String>,
}

impl Project {
    /// This file under `over`: what `over` says counts, the rest stays. Lists are replaced whole.
    pub fn overlaid(self, over: Project) -> Project {
        let mut assistants = self.assistants;
        for (name, new) in over.assistants {
            let old = assistants.remove(&name).unwrap_or_default();
            // Arguments belong to their command: a new command does not inherit the old one's.
            let args = if new.command.is_some() { new.args } else { new.args.or(old.args) };
            let mut env = old.env;
            env.extend(new.env);
            assistants.insert(name, Assistant { command: new.command.or(old.command), args, env });
        }
        Project {
            base: over.base.or(self.base),
            assistant: over.assistant.or(self.assistant),
            branch_prefix: over.branch_prefix.or(self.branch_prefix),
            worktree: Worktree {
                dir: over.worktree.dir.or(self.worktree.dir),
                copy: over.worktree.copy.or(self.worktree.copy),
                clone: over.worktree.clone.or(self.worktree.clone),
                clone_fallback: over.worktree.clone_fallback.or(self.worktree.clone_fallback),
                clone_limit: over.worktree.clone_limit.or(self.worktree.clone_limit),
                submodules: over.worktree.submodules.or(self.worktree.submodules),
            },
            setup: over.setup.or(self.setup),
            test: Test {
                command: over.test.command.or(self.test.command),
                timeout: over.test.timeout.or(self.test.timeout),
                junit: over.test.junit.or(self.test.junit),
                again: over.test.again.or(self.test.again),
            },
            limits: Limits {
                parallel: over.limits.parallel.or(self.limits.parallel),
                time: over.limits.time.or(self.limits.time),
                stall: over.limits.stall.or(self.limits.stall),
                setup: over.limits.setup.or(self.limits.setup),
                retries: over.limits.retries.or(self.limits.retries),
                cost: over.limits.cost.or(self.limits.cost),
                total_cost: over.limits.total_cost.or(self.limits.total_cost),
                min_free: over.limits.min_free.or(self.limits.min_free),
                tests: over.limits.tests.or(self.limits.tests),
            },
            assistants,
            throw_away: over.throw_away.or(self.throw_away),
        }
    }
}

/// The file at `path`; `None` where there is none. Links, pipes and devices are refused: the bytes that are shown for
/// approval must be the repository's own.
pub fn load(path: &Path) -> Result<Option<Project>, super::Error> {
    let read = |source| super::Error::Read { path: path.to_owned(), source };
    let flags = (nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOCTTY).bits();
    let file = match std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) if e.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) => {
            return Err(super::Error::NotAFile { path: path.to_owned() });
        }
        Err(e) => return Err(read(e)),
    };
    if !file.metadata().map_err(read)?.is_file() {
        return Err(super::Error::NotAFile { path: path.to_owned() });
    }
    let mut text = Vec::new();
    file.take(LARGEST as u64 + 1).read_to_end(&mut text).map_err(read)?;
    let origin = path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
    parse(&text, &origin).map(Some).map_err(|mistakes| super::Error::Project { mistakes })
}

/// The file with these bytes, or all mistakes in it, in the order of their lines. `origin` names the file in them.
pub fn parse(text: &[u8], origin: &str) -> Result<Project, Vec<Mistake>> {
    let mut reader = Reader::new(text, origin);
    let root = reader.document(text)?;
    let mut top = reader.section("", &root);
    let mut project = Project {
        base: top.text("base", value::parse_base),
        assistant: top.text("assistant", value::parse_assistants),
        branch_prefix: top.text("branch-prefix", value::parse_branch_prefix),
        ..Project::default()
    };
    if let Some(mut section) = top.child("worktree") {
        project.worktree = worktree(&mut section);
    }
    if let Some(mut section) = top.child("setup") {
        project.setup = section.commands("run");
        section.done();
    }
    if let Some(mut section) = top.child("test") {
        project.test = Test {
            command: section.command("command", template::NAMES),
            timeout: section.text("timeout", str::parse),
            junit: section.text("junit", value::parse_files),
            again: section.command("again", template::AGAIN_NAMES),
        };
        let tests = |argv: &[String]| argv.iter().filter(|element| template::is_tests(element)).count();
        let is_good = |c: &CommandSpec| matches!(c, CommandSpec::Argv(argv) if tests(argv) == 1);
        if project.test.again.as_ref().is_some_and(|c| !is_good(c)) {
            section.wrong("again", "write an array in which '{{ tests }}' is one element: the names of tests");
        }
        section.done();
    }
    if let Some(mut section) = top.child("limits") {
        project.limits = limits(&mut section);
    }
    if let Some(mut section) = top.child("assistants") {
        for name in section.names() {
            let Some(mut one) = section.child(&name) else { continue };
            let assistant = assistant(&mut one);
            match value::parse_assistant(&name) {
                Ok(name) => drop(project.assistants.insert(name, assistant)),
                Err(message) => section.wrong(&name, &message),
            }
        }
    }
    if let Some(mut section) = top.child("cleanup") {
        project.throw_away = section.texts("throw-away", value::parse_throw_away);
        section.done();
    }
    top.done();
    reader.finish(project)
}

fn worktree(section: &mut Section<'_, '_>) -> Worktree {
    let found = Worktree {
        dir: section.text("dir", |s| parse_dir(s, false)),
        copy: section.texts("copy", value::parse_pattern),
        clone: section.texts("clone", value::parse_pattern),
        clone_fallback: section.text("clone-fallback", str::parse),
        clone_limit: section.text("clone-limit", units::parse_size),
        submodules: section.text("submodules", str::parse),
    };
    section.done();
    found
}

fn limits(section: &mut Section<'_, '_>) -> Limits {
    let found = Limits {
        parallel: section.integer("parallel", value::parse_parallel),
        time: section.text("time", str::parse),
        stall: section.text("stall", str::parse),
        setup: section.text("setup", str::parse),
        retries: section.integer("retries", value::parse_retries),
        cost: section.number("cost", units::parse_cost),
        total_cost: section.number("total-cost", units::parse_cost),
        min_free: section.text("min-free", units::parse_size),
        tests: section.integer("tests", value::parse_parallel),
    };
    section.done();
    found
}

fn assistant(section: &mut Section<'_, '_>) -> Assistant {
    let found = Assistant {
        command: section.command("command", template::ASSISTANT_NAMES),
        args: section.texts("args", |s| {
            template::check(s, template::ASSISTANT_NAMES).map(|()| s.to_owned()).map_err(|e| e.to_string())
        }),
        env: section.variables("env"),
    };
    if matches!(found.command, Some(CommandSpec::Shell(_))) && found.args.is_some() {
        section.wrong("args", "a 'command' that is a shell line takes no arguments; write the command as an array");
    }
    section.done();
    found
}

/// `worktree.dir`: a template of a directory, not the same for all agents. Only a person's own configuration may name
/// one by its full path.
pub(super) fn parse_dir(s: &str, full_path: bool) -> Result<String, String> {
    template::check(s, template::DIR_NAMES).map_err(|e| e.to_string())?;
    let quoted = value::shown(s);
    if !template::uses_any(s, &["slug", "name", "branch", "id"]) {
        return Err(format!("'{quoted}' is the same directory for all agents; it needs '{{{{ slug }}}}'"));
    }
    let values = template::DIR_NAMES.iter().map(|name| (*name, "x".to_owned())).collect();
    let dir = template::render(s, &values).map_err(|e| e.to_string())?;
    if dir.starts_with('~') || dir.contains(['\n', '\0']) || (dir.starts_with('/') && !full_path) {
        let kind = if full_path { "a path" } else { "a relative path" };
        return Err(format!("'{quoted}' is not {kind}"));
    }
    let inner = dir.split('/').skip_while(|part| *part == "..");
    if inner.clone().any(|part| part == "..") {
        return Err(format!("'{quoted}' has '..' in its middle"));
    }
    if inner.clone().any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err(format!("'{quoted}' is inside git's own directory"));
    }
    Ok(s.to_owned())
}

#[cfg(test)]
#[path = "project_tests.rs"]
mod tests;
