//! Approved commands of the project, run one after the other in a worktree: setup, tests.

use super::{Result, plan};
use crate::config::CommandSpec;
use crate::config::template;
use crate::model::text::shown_path;
use crate::model::units::format_duration;
use crate::place::job::{self, Happening, Job, Stop};
use crate::place::log::{CappedLog, HEAD};
use crate::runtime::files;
use crate::runtime::signals::Signals;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Commands, and all that decides how they run.
#[derive(Debug)]
pub struct Commands<'a> {
    /// What to run, in order.
    pub commands: &'a [CommandSpec],
    /// The scripts they name, as approved.
    pub scripts: &'a BTreeMap<String, Option<String>>,
    /// The worktree.
    pub cwd: &'a Path,
    /// Its variables.
    pub env: Vec<(String, OsString)>,
    /// The values of templates in their arrays.
    pub values: BTreeMap<&'static str, String>,
    /// The only variables of ours handed on, if set.
    pub env_allow: &'a Option<Vec<String>>,
    /// Marks every process of theirs.
    pub token: &'a str,
    /// Between TERM and KILL.
    pub grace: Duration,
    /// Seconds they may take together.
    pub limit_s: Option<u64>,
    /// What they are, and the setting of the limit, for the words about it.
    pub limit_of: (&'static str, &'static str),
    /// Where what they print goes, and how much of it is kept.
    pub log: &'a Path,
    /// Bytes.
    pub log_cap: u64,
    /// Another log that gets the same.
    pub also: Option<&'a Path>,
}

/// Why not all of them came to a good end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// Scripts in the worktree are other than approved: nothing was run.
    NotApproved(String),
    /// One could not be started.
    NotStarted(String),
    /// Somebody asked for the end.
    Stopped,
    /// The limit.
    TooLong {
        /// In words.
        why: String,
        /// Where what it printed is.
        log: PathBuf,
    },
    /// One failed.
    Failed {
        /// In words.
        why: String,
        /// Its exit code, where it had one.
        code: Option<i32>,
    },
}

impl Broken {
    /// Why, without a path of this machine: for what others may read.
    pub fn words(&self) -> &str {
        match self {
            Broken::NotApproved(why)
            | Broken::NotStarted(why)
            | Broken::TooLong { why, .. }
            | Broken::Failed { why, .. } => why,
            Broken::Stopped => "stopped",
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::TooLong { why, log } => write!(f, "{why}; its output is in '{}'", shown_path(log)),
            other => f.write_str(other.words()),
        }
    }
}

struct Logs {
    one: CappedLog,
    also: Option<CappedLog>,
}

impl Logs {
    fn write(&mut self, bytes: &[u8]) {
        self.one.write(bytes);
        self.also.iter_mut().for_each(|log| log.write(bytes));
    }

    fn finish(&mut self) {
        self.one.finish();
        self.also.iter_mut().for_each(CappedLog::finish);
    }
}

impl Commands<'_> {
    /// Runs them. `watch` sees what happens and says when to end it.
    pub fn run(
        &self,
        signals: &Signals,
        watch: &mut dyn FnMut(&Happening<'_>) -> Option<Stop>,
    ) -> Result<std::result::Result<(), Broken>> {
        if self.commands.is_empty() {
            return Ok(Ok(()));
        }
        // Only commands that name a script of the repository are touched by its bytes.
        let changed = crate::config::plan::changed_scripts(self.scripts, &plan::script_in(self.cwd));
        if !changed.is_empty() {
            return Ok(Err(Broken::NotApproved(plan::not_as_approved(&changed))));
        }
        let begun = Instant::now();
        let too_long = || self.limit_s.is_some_and(|s| begun.elapsed() >= Duration::from_secs(s));
        let open = |path| CappedLog::open(path, HEAD, self.log_cap).map_err(files::because("open", path));
        let mut log = Logs { one: open(self.log)?, also: self.also.map(open).transpose()? };
        for command in self.commands {
            let (argv, shown) = match self.argv(command) {
                Ok(found) => found,
                Err(why) => return Ok(Err(Broken::NotStarted(why))),
            };
            log.write(format!("$ {shown}\n").as_bytes());
            let job = Job {
                argv,
                env: self.env.clone(),
                env_allow: self.env_allow.clone(),
                cwd: self.cwd.to_owned(),
                stdin: None,
                token: self.token.to_owned(),
                grace: self.grace,
            };
            let ended = job::run(&job, signals, |h| match h {
                Happening::Output(bytes) => {
                    log.write(bytes);
                    None
                }
                Happening::Tick(_) => watch(&h).or(too_long().then_some(Stop::Time)),
                Happening::Started(_) => watch(&h),
            });
            let broken = match ended {
                Ok(e) if e.stopped.is_none() && e.code == Some(0) => continue,
                Err(e) => Broken::NotStarted(format!("'{shown}' could not be started: {e}")),
                Ok(e) if e.stopped == Some(Stop::Time) => {
                    let (what, setting) = self.limit_of;
                    let limit = format_duration(self.limit_s.unwrap_or(0));
                    let why = format!("'{shown}' was ended: {what} may take {limit} ('{setting}')");
                    Broken::TooLong { why, log: self.log.to_owned() }
                }
                Ok(e) if e.stopped.is_some() => Broken::Stopped,
                Ok(e) => {
                    let how = e.code.map_or_else(
                        || format!("was ended by signal {}", e.signal.unwrap_or(0)),
                        |c| format!("exited with {c}"),
                    );
                    Broken::Failed { why: format!("'{shown}' {how}"), code: e.code }
                }
            };
            log.finish();
            return Ok(Err(broken));
        }
        log.finish();
        Ok(Ok(()))
    }

    /// What is started, and how a person would write it.
    fn argv(&self, command: &CommandSpec) -> std::result::Result<(Vec<OsString>, String), String> {
        match command {
            CommandSpec::Shell(line) => Ok((vec!["/bin/sh".into(), "-c".into(), line.into()], line.clone())),
            CommandSpec::Argv(v) => {
                let words = v
                    .iter()
                    .map(|w| template::render(w, &self.values))
                    .collect::<std::result::Result<Vec<String>, _>>();
                let words = words.map_err(|e| e.to_string())?;
                Ok((words.iter().map(Into::into).collect(), words.join(" ")))
            }
        }
    }
}
