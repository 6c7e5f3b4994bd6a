//! How each assistant is called and understood: a row of a table, never a branch in the code that runs it.
//!
//! A row says how to build the command ([`call`]), what a line of its output means ([`Reader`]) and which of its
//! signs is believed at the end ([`judge`]). Everything here is a pure function over values: no process is started
//! and no file read, but by [`scripted`], which *is* an assistant. Templates are rendered by whoever calls.

mod activity;
mod call;
mod frame;
mod judge;
mod read;
pub mod scripted;
mod table;

pub use activity::{Activity, Format};
pub use call::{Call, CallInput, Render, StdinBy, call, interactive};
pub use frame::{FrameInfo, frame};
pub use judge::{Facts, VerdictBy, judge};
pub use read::Reader;
pub use table::{BUILT_IN, built_in};

use std::collections::BTreeMap;

/// Why an assistant cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No row and no settings of that name.
    #[error("'{name}' is not an assistant; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is, for a person.
        known: String,
    },
    /// A command without a program.
    #[error("'assistants.{name}.command' is empty")]
    NoCommand {
        /// The assistant.
        name: String,
    },
    /// Arguments cannot be added to a line for the shell.
    #[error("'assistants.{name}.args' needs a command that is an array, not a string")]
    ShellArgs {
        /// The assistant.
        name: String,
    },
    /// Not a name that an environment can hold.
    #[error("'{key}' in 'assistants.{name}.env' is not a variable's name")]
    EnvName {
        /// The assistant.
        name: String,
        /// The key.
        key: String,
    },
    /// An argument, a variable or a prompt file cannot be made of it.
    #[error("the {what} for '{name}' holds a NUL byte")]
    Nul {
        /// The assistant.
        name: String,
        /// The prompt, or an argument.
        what: &'static str,
    },
    /// The kernel takes no argument as long as that.
    #[error(
        "the prompt for '{name}' has {len} bytes, more than one argument can hold; \
         use '{{{{ prompt_file }}}}' in 'assistants.{name}.command'"
    )]
    TooLong {
        /// The assistant.
        name: String,
        /// Bytes of the prompt.
        len: usize,
    },
    /// A template that cannot be rendered.
    #[error("'{template}' in 'assistants.{name}': {why}")]
    Template {
        /// The assistant.
        name: String,
        /// The template.
        template: String,
        /// The renderer's words.
        why: String,
    },
    /// A model was asked for, and there is no way to say so.
    #[error("'{name}' takes no model; use '{{{{ model }}}}' in 'assistants.{name}.command'")]
    NoModel {
        /// The assistant.
        name: String,
    },
    /// Going on needs the id of the session.
    #[error("no session of '{name}' is known to resume")]
    NoSession {
        /// The assistant.
        name: String,
    },
    /// No person can sit down at it.
    #[error("'{name}' has no interactive form")]
    NotInteractive {
        /// The assistant.
        name: String,
    },
    /// A path that must be part of a larger template.
    #[error("the path of the {what} for '{name}' is not UTF-8")]
    Path {
        /// The assistant.
        name: String,
        /// Which path.
        what: &'static str,
    },
}

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Program {
    /// One argument an element, each a template.
    Argv(Vec<String>),
    /// One line for `sh -c`, never a template: values come as variables, the prompt as `$1` and on standard input.
    Shell(String),
}

/// How the prompt is delivered where no template mentions it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PromptBy {
    /// As the last argument.
    Argument,
    /// On standard input, which ends after it.
    Stdin,
    /// As a file that the command names.
    File,
}

/// Where the id of its session comes from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SessionBy {
    /// It has none: every start is a new one.
    None,
    /// We choose it and say so with these arguments (templates; `{{ session }}`), so it is known before the start.
    Chosen(Vec<String>),
    /// It reports one in its output.
    Reported,
}

/// The arguments that say what it may do without asking.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PermissionArgs {
    /// For [`Permission::Edit`](crate::model::agent::Permission::Edit).
    pub edit: Vec<String>,
    /// For [`Permission::Full`](crate::model::agent::Permission::Full).
    pub full: Vec<String>,
}

/// One row.
///
/// A command is `program` (or `resume`), `permission`, `model`, the session's arguments, `args`, the prompt: in this
/// order, each only where it applies.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Adapter {
    /// The word for it: flag, key and JSON.
    pub name: String,
    /// The command of an unattended run.
    pub program: Program,
    /// How it gets the prompt.
    pub prompt: PromptBy,
    /// What it may do.
    pub permission: PermissionArgs,
    /// The arguments for a model; empty = it takes none.
    pub model: Vec<String>,
    /// Whose session id.
    pub session: SessionBy,
    /// The command that goes on with a session, instead of `program`; empty = a resumed run is a new one.
    pub resume: Vec<String>,
    /// The command a person sits down at, with `{{ session }}` where there is one; empty = nobody can.
    pub interactive: Vec<String>,
    /// What it prints.
    pub output: Format,
    /// Patterns of files it leaves in the worktree, which are not work.
    pub leftovers: Vec<String>,
    /// Which sign is believed when git has no answer.
    pub verdict: VerdictBy,
    /// The user's own further arguments.
    pub args: Vec<String>,
    /// Further variables; the values are templates.
    pub env: BTreeMap<String, String>,
    /// The arguments for the most it may cost, where it keeps to that by itself; `{{ cost }}`.
    #[serde(default)]
    pub budget: Vec<String>,
    /// What its exit codes mean.
    #[serde(default)]
    pub exits: Vec<(i32, String)>,
    /// It hides the user's git settings from git, so it is told in its environment whose commits it makes.
    #[serde(default)]
    pub hides_settings: bool,
    /// The tokens it reports are those of its whole session, not of this start.
    #[serde(default)]
    pub usage_of_session: bool,
    /// How to see before the start that it is there and can work.
    #[serde(default)]
    pub needs: Needs,
}

/// What is looked at before anything starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Needs {
    /// The command that installs it.
    pub install: String,
    /// Arguments whose output names the flags it takes.
    pub help: Vec<Vec<String>>,
    /// Signs of a log-in; none known = not asked.
    pub login: Option<Login>,
}

/// Signs of a log-in. Where there is none of them it is certain that the assistant cannot work.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Login {
    /// Variables, one of which is set.
    pub env: Vec<String>,
    /// Files below the home directory, one of which exists; after `:` a word that must be in it.
    pub files: Vec<String>,
    /// Arguments with which it says by its exit code whether it is logged in.
    pub status: Vec<String>,
    /// What to do.
    pub hint: String,
}

/// What `[assistants.NAME]` sets: a command of the user's own, or more for a row of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Custom {
    /// The command; a row of the table with another command is another assistant, and so keeps nothing else.
    pub command: Option<Program>,
    /// Further arguments, templates.
    pub args: Vec<String>,
    /// Further variables, templates.
    pub env: BTreeMap<String, String>,
}

/// The assistant called `name`: from the table, from the user's settings, or both.
///
/// # Errors
/// When neither knows it, or the settings make no command.
pub fn resolve(name: &str, customs: &BTreeMap<String, Custom>) -> Result<Adapter, Error> {
    let custom = customs.get(name);
    let command = custom.and_then(|c| c.command.clone());
    let mut row = match (command, built_in(name)) {
        (Some(program), _) => Adapter::plain(name, program),
        (None, Some(row)) => row,
        (None, None) if custom.is_some() => return Err(Error::NoCommand { name: name.to_owned() }),
        (None, None) => {
            let mut known: Vec<_> = BUILT_IN.iter().copied().chain(customs.keys().map(String::as_str)).collect();
            known.sort_unstable();
            known.dedup();
            return Err(Error::Unknown { name: name.to_owned(), known: format!("'{}'", known.join("', '")) });
        }
    };
    if let Some(custom) = custom {
        row.args.extend(custom.args.iter().cloned());
        row.env.extend(custom.env.clone());
    }
    row.check()?;
    Ok(row)
}

impl Adapter {
    /// A command of which nothing is known but itself: the prompt is its last argument, every line it prints is
    /// progress, and its exit code is its word.
    fn plain(name: &str, program: Program) -> Adapter {
        Adapter {
            name: name.to_owned(),
            program,
            prompt: PromptBy::Argument,
            permission: PermissionArgs::default(),
            model: Vec::new(),
            session: SessionBy::None,
            resume: Vec::new(),
            interactive: Vec::new(),
            output: Format::Lines,
            leftovers: Vec::new(),
            verdict: VerdictBy::ExitCode,
            args: Vec::new(),
            env: BTreeMap::new(),
            budget: Vec::new(),
            exits: Vec::new(),
            hides_settings: false,
            usage_of_session: false,
            needs: Needs::default(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let name = || self.name.clone();
        match &self.program {
            Program::Argv(argv) if argv.first().is_none_or(|p| p.trim().is_empty()) => {
                return Err(Error::NoCommand { name: name() });
            }
            Program::Shell(line) if line.trim().is_empty() => return Err(Error::NoCommand { name: name() }),
            Program::Shell(_) if !self.args.is_empty() => return Err(Error::ShellArgs { name: name() }),
            _ => {}
        }
        match self.env.keys().find(|k| k.is_empty() || k.contains(['=', '\0'])) {
            Some(key) => Err(Error::EnvName { name: name(), key: key.clone() }),
            None => Ok(()),
        }
    }

    /// Whether a message goes on where the last attempt ended, as far as the assistant knows.
    pub fn can_resume(&self) -> bool {
        !self.resume.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn customs(name: &str, custom: Custom) -> BTreeMap<String, Custom> {
        BTreeMap::from([(name.to_owned(), custom)])
    }

    #[test]
    fn every_name_of_the_table_has_a_row() {
        for name in BUILT_IN {
            assert_eq!(built_in(name).unwrap().name, *name);
        }
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        let e = resolve("clade", &customs("mine", Custom::default())).unwrap_err();
        assert!(e.to_string().starts_with("'clade' is not an assistant; there are 'aider', "), "{e}");
        assert!(e.to_string().contains("'mine', 'opencode'"), "{e}");
    }

    #[test]
    fn settings_add_to_a_row_and_a_command_replaces_it() {
        let more = Custom { args: vec!["--x".into()], env: [("A".into(), "1".into())].into(), ..Custom::default() };
        let row = resolve("scripted", &customs("scripted", more.clone())).unwrap();
        assert_eq!((row.output, row.args.len(), row.env["A"].as_str()), (Format::Scripted, 1, "1"));

        let own = Custom { command: Some(Program::Argv(vec!["fake".into()])), ..more };
        let row = resolve("scripted", &customs("scripted", own)).unwrap();
        assert_eq!((row.output, row.verdict), (Format::Lines, VerdictBy::ExitCode));
    }

    #[test]
    fn commands_that_are_none_are_refused() {
        let with = |command, args: &[&str]| {
            let args = args.iter().map(|a| (*a).to_owned()).collect();
            resolve("mine", &customs("mine", Custom { command, args, env: BTreeMap::new() }))
        };
        let no_command = Err(Error::NoCommand { name: "mine".into() });
        assert_eq!(with(None, &[]), no_command);
        assert_eq!(with(Some(Program::Argv(vec![])), &[]), no_command);
        assert_eq!(with(Some(Program::Shell("  ".into())), &[]), no_command);
        assert_eq!(with(Some(Program::Shell("x".into())), &["y"]), Err(Error::ShellArgs { name: "mine".into() }));
        let env = [("A=B".into(), "1".into())].into();
        let custom = Custom { command: Some(Program::Shell("x".into())), env, ..Custom::default() };
        assert!(matches!(resolve("mine", &customs("mine", custom)), Err(Error::EnvName { .. })));
    }
}
