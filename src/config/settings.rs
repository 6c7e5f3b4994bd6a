//! Settings, resolved: flag, then `GIT_AGENTS_*`, then git's configuration, then the local overlay, then the project's
//! file, then the default.
//!
//! What grants power counts only from the user's own configuration. The repository's `.git/config` does not belong to
//! it: whoever can write there, an assistant for one, would grant itself what it wants.

use super::project::{CloneFallback, Project, parse_dir};
use super::table::{self, SettingDoc};
use super::value;
use crate::model::agent::Permission;
use crate::model::units::{self, Limit};
use std::fmt;

/// What becomes of uncommitted work when an assistant ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uncommitted {
    /// It is committed.
    Commit,
    /// It stays as it is.
    Keep,
}

impl std::str::FromStr for Uncommitted {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "commit" => Ok(Uncommitted::Commit),
            "keep" => Ok(Uncommitted::Keep),
            _ => Err(format!("'{}' is neither 'commit' nor 'keep'", value::shown(s))),
        }
    }
}

/// How a branch comes into its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LandStyle {
    /// By a merge commit.
    Merge,
    /// As one commit.
    Squash,
    /// Rebased first, then forward.
    Rebase,
    /// Forward, or not at all.
    FfOnly,
}

impl LandStyle {
    /// The public word.
    pub fn word(self) -> &'static str {
        match self {
            LandStyle::Merge => "merge",
            LandStyle::Squash => "squash",
            LandStyle::Rebase => "rebase",
            LandStyle::FfOnly => "ff-only",
        }
    }
}

impl std::str::FromStr for LandStyle {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let all = [LandStyle::Merge, LandStyle::Squash, LandStyle::Rebase, LandStyle::FfOnly];
        let wrong = || format!("'{}' is none of 'merge', 'squash', 'rebase' and 'ff-only'", value::shown(s));
        all.into_iter().find(|style| style.word() == s).ok_or_else(wrong)
    }
}

/// What a pre-edit hook does where the edit would conflict with somebody's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckConflict {
    /// A person is asked.
    Ask,
    /// The edit is refused.
    Deny,
    /// The assistant is told, and goes on.
    Tell,
}

impl std::str::FromStr for CheckConflict {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "ask" => Ok(CheckConflict::Ask),
            "deny" => Ok(CheckConflict::Deny),
            "tell" => Ok(CheckConflict::Tell),
            _ => Err(format!("'{}' is none of 'ask', 'deny' and 'tell'", value::shown(s))),
        }
    }
}

/// What counts. Each field is described in [`table::table`].
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the table describes each setting once")]
pub struct Settings {
    pub base: Option<String>,
    pub assistant: Option<String>,
    pub branch_prefix: String,
    pub worktree_dir: String,
    pub copy: Vec<String>,
    pub clone: Vec<String>,
    pub clone_fallback: CloneFallback,
    pub clone_limit: u64,
    pub parallel: usize,
    pub time_s: Option<u64>,
    pub stall_s: Option<u64>,
    pub setup_time_s: Option<u64>,
    pub retries: u32,
    pub cost: Option<f64>,
    pub total_cost: Option<f64>,
    pub min_free: u64,
    pub tests: usize,
    pub permission: Permission,
    pub uncommitted: Uncommitted,
    pub notify: Option<String>,
    pub check_conflict: CheckConflict,
    pub watch_poll: bool,
    pub remind: bool,
    pub land_style: LandStyle,
    pub pr_command: Option<String>,
    pub auto_sync: bool,
    pub sign: bool,
    pub env_allow: Option<Vec<String>>,
    pub capture_max_file: u64,
    pub copy_secrets: Option<bool>,
    pub clean_min_age_s: Option<u64>,
    pub trash_keep_s: Option<u64>,
    pub trash_room: u64,
    /// The user's own patterns only; those of the project are in the `ApprovedPlan`.
    pub throw_away: Vec<String>,
    pub question_grace_s: u64,
    pub stop_grace_s: u64,
    pub capture_interval_s: Option<u64>,
}

/// What was said on the command line; clap reads the values with the functions of [`value`].
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "named as the flags")]
pub struct Flags {
    pub base: Option<String>,
    pub assistant: Option<String>,
    pub parallel: Option<usize>,
    pub time: Option<Limit>,
    pub stall: Option<Limit>,
    pub retries: Option<u32>,
    pub cost: Option<f64>,
    pub total_cost: Option<f64>,
    pub permission: Option<Permission>,
    pub copy_secrets: Option<bool>,
}

/// Where git found a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "git's own words")]
pub enum Scope {
    System,
    Global,
    Local,
    Worktree,
    Command,
}

impl Scope {
    /// Whether only the user, or root, can write there.
    fn is_users(self) -> bool {
        matches!(self, Scope::System | Scope::Global | Scope::Command)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::System => "system",
            Scope::Global => "global",
            Scope::Local => "local",
            Scope::Worktree => "worktree",
            Scope::Command => "command",
        })
    }
}

/// A value of git's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigValue {
    /// As git has it.
    pub value: String,
    /// Where it stands.
    pub scope: Scope,
}

/// Everything settings come from.
pub struct Sources<'a> {
    /// The command line.
    pub flags: &'a Flags,
    /// A variable of the environment.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// All values of a key (`agents.parallel`) in git's order, so the last one counts. All of them, because a value
    /// that is ignored must not hide the user's own.
    pub git: &'a dyn Fn(&str) -> Vec<ConfigValue>,
    /// The local overlay in the common directory.
    pub local: Option<&'a Project>,
    /// The project's file.
    pub project: Option<&'a Project>,
}

/// A value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadValue {
    /// The key or variable.
    pub key: String,
    /// The scope in git's configuration; `None` is the environment.
    pub scope: Option<Scope>,
    /// The value and what would be allowed.
    pub message: String,
}

impl BadValue {
    /// The command that shows or mends it.
    pub fn hint(&self) -> Option<String> {
        let scope = self.scope.filter(|s| *s != Scope::Command)?;
        Some(format!("git config --{scope} {} <value>", self.key))
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            Some(scope) => write!(f, "'{}' in git's {scope} configuration: {}", self.key, self.message),
            None => write!(f, "'{}' in the environment: {}", self.key, self.message),
        }
    }
}

/// A value that was not taken; the rest counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// What was ignored and why.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The settings, and what was ignored.
///
/// # Errors
/// All values that cannot be used, also those that a stronger source overrules: a typing error is found when it is
/// made, not when the flag is left out.
pub fn resolve(sources: &Sources<'_>) -> Result<(Settings, Vec<Warning>), super::Error> {
    let mut from = Picker { sources, problems: Vec::new(), warnings: Vec::new() };
    let flags = sources.flags;
    let limit = |s: &str| s.parse::<Limit>();
    let dir = |s: &str| parse_dir(s, true);
    let patterns = |s: &str| value::parse_list(s, value::parse_pattern);
    let text = |s: &str| match value::invisible(s) {
        Some(c) => Err(format!("the text contains the invisible character U+{:04X}", u32::from(c))),
        None => Ok(s.to_owned()),
    };

    let base = from.pick(&table::BASE, flags.base.clone(), |p| p.base.clone(), value::parse_base);
    let assistant =
        from.pick(&table::ASSISTANT, flags.assistant.clone(), |p| p.assistant.clone(), value::parse_assistants);
    let branch_prefix = from.pick(&table::BRANCH_PREFIX, None, |p| p.branch_prefix.clone(), value::parse_branch_prefix);
    let worktree_dir = from.pick(&table::WORKTREE_DIR, None, |p| p.worktree.dir.clone(), dir);
    let copy = from.pick(&table::COPY, None, |p| p.worktree.copy.clone(), patterns);
    let clone = from.pick(&table::CLONE, None, |p| p.worktree.clone.clone(), patterns);
    let clone_fallback = from.pick(&table::CLONE_FALLBACK, None, |p| p.worktree.clone_fallback, str::parse);
    let clone_limit = from.pick(&table::CLONE_LIMIT, None, |p| p.worktree.clone_limit, units::parse_size);
    let parallel = from.pick(&table::PARALLEL, flags.parallel, |p| p.limits.parallel, value::parse_parallel);
    let time = from.pick(&table::TIME, flags.time, |p| p.limits.time, limit);
    let stall = from.pick(&table::STALL, flags.stall, |p| p.limits.stall, limit);
    let setup_time = from.pick(&table::SETUP_TIME, None, |p| p.limits.setup, limit);
    let retries = from.pick(&table::RETRIES, flags.retries, |p| p.limits.retries, value::parse_retries);
    let cost = from.pick(&table::COST, flags.cost, |p| p.limits.cost, units::parse_cost);
    let total_cost = from.pick(&table::TOTAL_COST, flags.total_cost, |p| p.limits.total_cost, units::parse_cost);
    let min_free = from.pick(&table::MIN_FREE, None, |p| p.limits.min_free, units::parse_size);
    let tests = from.pick(&table::TESTS, None, |p| p.limits.tests, value::parse_parallel);
    let permission = from.pick(&table::PERMISSION, flags.permission, |_| None, str::parse);
    let uncommitted = from.pick(&table::UNCOMMITTED, None, |_| None, str::parse);
    let notify = from.pick(&table::NOTIFY, None, |_| None, text);
    let check_conflict = from.pick(&table::CHECK_CONFLICT, None, |_| None, str::parse);
    let watch_poll = from.pick(&table::WATCH_POLL, None, |_| None, value::parse_bool);
    let remind = from.pick(&table::REMIND, None, |_| None, value::parse_bool);
    let land_style = from.pick(&table::LAND_STYLE, None, |_| None, str::parse);
    let pr_command = from.pick(&table::PR_COMMAND, None, |_| None, text);
    let auto_sync = from.pick(&table::AUTO_SYNC, None, |_| None, value::parse_bool);
    let sign = from.pick(&table::SIGN, None, |_| None, value::parse_bool);
    let env_allow = from.pick(&table::ENV_ALLOW, None, |_| None, |s| value::parse_list(s, value::parse_env_pattern));
    let capture_max_file = from.pick(&table::CAPTURE_MAX_FILE, None, |_| None, units::parse_size);
    let copy_secrets = from.pick(&table::COPY_SECRETS, flags.copy_secrets, |_| None, value::parse_bool);
    let clean_min_age = from.pick(&table::CLEAN_MIN_AGE, None, |_| None, units::parse_duration);
    let trash_keep = from.pick(&table::TRASH_KEEP, None, |_| None, limit);
    let trash_room = from.pick(&table::TRASH_ROOM, None, |_| None, units::parse_size);
    let throw_away = from.pick(&table::THROW_AWAY, None, |_| None, |s| value::parse_list(s, value::parse_throw_away));
    let question_grace = from.pick(&table::QUESTION_GRACE, None, |_| None, units::parse_duration);
    let stop_grace = from.pick(&table::STOP_GRACE, None, |_| None, units::parse_duration);
    let capture_interval = from.pick(&table::CAPTURE_INTERVAL, None, |_| None, limit);

    let Picker { problems, warnings, .. } = from;
    if !problems.is_empty() {
        return Err(super::Error::Settings { problems });
    }
    // Where the table has a default there is a value; the fallbacks are never reached and are the careful ones.
    let settings = Settings {
        base,
        assistant,
        branch_prefix: branch_prefix.unwrap_or_default(),
        worktree_dir: worktree_dir.unwrap_or_default(),
        copy: copy.unwrap_or_default(),
        clone: clone.unwrap_or_default(),
        clone_fallback: clone_fallback.unwrap_or(CloneFallback::None),
        clone_limit: clone_limit.unwrap_or(0),
        parallel: parallel.unwrap_or(1).max(1),
        time_s: time.and_then(|l| l.0),
        stall_s: stall.and_then(|l| l.0),
        setup_time_s: setup_time.and_then(|l| l.0),
        retries: retries.unwrap_or(0),
        cost,
        total_cost,
        min_free: min_free.unwrap_or(0),
        tests: tests.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get() / 4)).max(1),
        permission: permission.unwrap_or(Permission::Edit),
        uncommitted: uncommitted.unwrap_or(Uncommitted::Keep),
        notify: notify.filter(|command| !command.trim().is_empty()),
        check_conflict: check_conflict.unwrap_or(CheckConflict::Ask),
        watch_poll: watch_poll.unwrap_or(false),
        remind: remind.unwrap_or(true),
        land_style: land_style.unwrap_or(LandStyle::Merge),
        pr_command: pr_command.filter(|command| !command.trim().is_empty()),
        auto_sync: auto_sync.unwrap_or(false),
        sign: sign.unwrap_or(false),
        env_allow,
        capture_max_file: capture_max_file.unwrap_or(0),
        copy_secrets,
        clean_min_age_s: clean_min_age,
        trash_keep_s: trash_keep.and_then(|l| l.0),
        trash_room: trash_room.unwrap_or(u64::MAX),
        throw_away: throw_away.unwrap_or_default(),
        question_grace_s: question_grace.unwrap_or(60),
        stop_grace_s: stop_grace.unwrap_or(10),
        capture_interval_s: capture_interval.and_then(|l| l.0),
    };
    Ok((settings, warnings))
}

/// Goes through the sources of one setting after the other.
struct Picker<'s, 'a> {
    sources: &'s Sources<'a>,
    problems: Vec<BadValue>,
    warnings: Vec<Warning>,
}

impl Picker<'_, '_> {
    fn pick<T>(
        &mut self,
        doc: &SettingDoc,
        flag: Option<T>,
        file: impl Fn(&Project) -> Option<T>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        // An empty variable is an unset one, as a shell leaves it behind.
        let from_env = (self.sources.env)(doc.env).filter(|s| !s.is_empty()).map(|s| parse(&s));
        let from_env = from_env.and_then(|r| self.keep(r, doc.env, None));
        let from_git = self.git_value(doc).map(|v| (parse(&v.value), v.scope));
        let from_git = from_git.and_then(|(r, scope)| self.keep(r, doc.config, Some(scope)));
        let from_file = |p: Option<&Project>| p.filter(|_| !doc.protected).and_then(&file);
        flag.or(from_env)
            .or(from_git)
            .or_else(|| from_file(self.sources.local))
            .or_else(|| from_file(self.sources.project))
            .or_else(|| doc.default.and_then(|s| parse(s).ok()))
    }

    fn keep<T>(&mut self, result: Result<T, String>, key: &str, scope: Option<Scope>) -> Option<T> {
        result.map_err(|message| self.problems.push(BadValue { key: key.to_owned(), scope, message })).ok()
    }

    /// The last value that counts, with a warning for each scope that does not.
    fn git_value(&mut self, doc: &SettingDoc) -> Option<ConfigValue> {
        let mut last = None;
        let mut ignored = Vec::new();
        for value in (self.sources.git)(doc.config) {
            if doc.protected && !value.scope.is_users() {
                if !ignored.contains(&value.scope) {
                    ignored.push(value.scope);
                }
            } else {
                last = Some(value);
            }
        }
        self.warnings.extend(ignored.into_iter().map(|scope| Warning {
            message: format!("'{}' in git's {scope} configuration is ignored: it is the user's to set", doc.config),
            hint: format!("git config --global {} <value>", doc.config),
        }));
        last
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
