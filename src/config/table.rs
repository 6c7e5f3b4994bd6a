//! Every setting once: where it can be written, what it is without being written, what it does. The manual is made
//! from this table.

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingDoc {
    /// Its key in git's configuration: `agents.` and one camelCase word.
    pub config: &'static str,
    /// Its key in `.git-agents.toml`; `None` where the repository has no say.
    pub file: Option<&'static str>,
    /// Its environment variable.
    pub env: &'static str,
    /// Its value where nothing is said, written as in git's configuration; `None` is no value.
    pub default: Option<&'static str>,
    /// Whether it grants power: then only the user's own configuration counts, never the repository's.
    pub protected: bool,
    /// What it does, one line.
    pub help: &'static str,
}

macro_rules! settings {
    ($($name:ident: $config:literal, $file:expr, $env:literal, $default:expr, $scope:ident, $help:literal;)*) => {
        $(pub(crate) const $name: SettingDoc = SettingDoc {
            config: $config,
            file: $file,
            env: $env,
            default: $default,
            protected: settings!(@$scope),
            help: $help,
        };)*
        static TABLE: &[SettingDoc] = &[$($name),*];
    };
    (@anywhere) => { false };
    (@user) => { true };
}

settings! {
    BASE: "agents.base", Some("base"), "GIT_AGENTS_BASE", None, anywhere,
        "the branch agents start from and land on; without it the current branch";
    ASSISTANT: "agents.assistant", Some("assistant"), "GIT_AGENTS_ASSISTANT", None, anywhere,
        "the assistant that works where none is named; 'a,b' or 'a*2' makes one agent each";
    BRANCH_PREFIX: "agents.branchPrefix", Some("branch-prefix"), "GIT_AGENTS_BRANCH_PREFIX", Some("agents/"), anywhere,
        "what stands before branch names that are made from tasks";
    WORKTREE_DIR: "agents.worktreeDir", Some("worktree.dir"), "GIT_AGENTS_WORKTREE_DIR",
        Some("../{{ repo }}.agents/{{ slug }}"), anywhere,
        "where worktrees are made, a template; relative to the main worktree";
    COPY: "agents.copy", Some("worktree.copy"), "GIT_AGENTS_COPY", None, anywhere,
        "ignored files to take along, gitignore patterns; .worktreeinclude is honoured too";
    CLONE: "agents.clone", Some("worktree.clone"), "GIT_AGENTS_CLONE", None, anywhere,
        "ignored directories to clone copy-on-write, gitignore patterns";
    CLONE_FALLBACK: "agents.cloneFallback", Some("worktree.clone-fallback"), "GIT_AGENTS_CLONE_FALLBACK", Some("none"),
        anywhere, "where the file system cannot clone: 'copy' or 'none'";
    CLONE_LIMIT: "agents.cloneLimit", Some("worktree.clone-limit"), "GIT_AGENTS_CLONE_LIMIT", Some("1GiB"), anywhere,
        "the largest directory that is copied where it cannot be cloned";
    PARALLEL: "agents.parallel", Some("limits.parallel"), "GIT_AGENTS_PARALLEL", Some("4"), anywhere,
        "how many agents work at once";
    TIME: "agents.time", Some("limits.time"), "GIT_AGENTS_TIME", Some("2h"), anywhere,
        "how long an attempt may take; 'off' is no limit";
    STALL: "agents.stall", Some("limits.stall"), "GIT_AGENTS_STALL", Some("30m"), anywhere,
        "how long an attempt may make no progress; 'off' is no limit";
    SETUP_TIME: "agents.setupTime", Some("limits.setup"), "GIT_AGENTS_SETUP_TIME", Some("30m"), anywhere,
        "how long the setup commands of an environment may take together; 'off' is no limit";
    RETRIES: "agents.retries", Some("limits.retries"), "GIT_AGENTS_RETRIES", Some("1"), anywhere,
        "how often a failed attempt is repeated";
    COST: "agents.cost", Some("limits.cost"), "GIT_AGENTS_COST", None, anywhere,
        "how many US dollars one agent may cost";
    TOTAL_COST: "agents.totalCost", Some("limits.total-cost"), "GIT_AGENTS_TOTAL_COST", None, anywhere,
        "how many US dollars a batch may cost";
    MIN_FREE: "agents.minFree", Some("limits.min-free"), "GIT_AGENTS_MIN_FREE", Some("1GiB"), anywhere,
        "how much disk must be free for an agent or a test to start";
    TESTS: "agents.tests", Some("limits.tests"), "GIT_AGENTS_TESTS", None, anywhere,
        "how many test runs there are at once, beside the agents; without it one for every four cores, at least one";
    PERMISSION: "agents.permission", None, "GIT_AGENTS_PERMISSION", Some("edit"), user,
        "what an assistant may do without asking: 'edit' (edit, test, commit) or 'full'";
    UNCOMMITTED: "agents.uncommitted", None, "GIT_AGENTS_UNCOMMITTED", Some("commit"), anywhere,
        "what becomes of uncommitted work when an assistant ends: 'commit' or 'keep'";
    NOTIFY: "agents.notify", None, "GIT_AGENTS_NOTIFY", None, user,
        "what happens when an agent ends or needs you: 'bell', 'desktop', or a command that gets the event as JSON on its input";
    CHECK_CONFLICT: "agents.checkConflict", None, "GIT_AGENTS_CHECK_CONFLICT", Some("ask"), user,
        "what an assistant's pre-edit hook does where the edit would conflict with somebody's: 'ask', 'deny' or 'tell'";
    WATCH_POLL: "agents.watchPoll", None, "GIT_AGENTS_WATCH_POLL", Some("false"), user,
        "whether '--watch' looks every few seconds instead of being told by the system: for disks that tell nothing";
    REMIND: "agents.remind", None, "GIT_AGENTS_REMIND", Some("true"), anywhere,
        "whether a line says how many agents are behind when their base has moved";
    LAND_STYLE: "agents.landStyle", None, "GIT_AGENTS_LAND_STYLE", Some("merge"), anywhere,
        "how 'land' brings a branch into its base: 'merge', 'squash', 'rebase' or 'ff-only'";
    PR_COMMAND: "agents.prCommand", None, "GIT_AGENTS_PR_COMMAND", None, user,
        "what 'push --pr' runs, a line for the shell; the text comes on its input, AGENTS_BRANCH, AGENTS_BASE, AGENTS_TITLE and AGENTS_REMOTE are set; without it 'gh' or 'glab'";
    AUTO_SYNC: "agents.autoSync", None, "GIT_AGENTS_AUTO_SYNC", Some("false"), anywhere,
        "whether the hooks' worker rebases idle agents without uncommitted work or conflicts when their base has moved";
    SIGN: "agents.sign", None, "GIT_AGENTS_SIGN", Some("false"), user,
        "whether commits made for an assistant are signed";
    ENV_ALLOW: "agents.envAllow", None, "GIT_AGENTS_ENV_ALLOW", None, user,
        "the environment variables an assistant gets, names with '*'";
    CAPTURE_MAX_FILE: "agents.captureMaxFile", None, "GIT_AGENTS_CAPTURE_MAX_FILE", Some("50MiB"), anywhere,
        "the largest file a capture takes; larger ones are listed";
    COPY_SECRETS: "agents.copySecrets", None, "GIT_AGENTS_COPY_SECRETS", None, user,
        "whether files that look like production secrets are copied too; without it they are left out, and that is said";
    CLEAN_MIN_AGE: "agents.cleanMinAge", None, "GIT_AGENTS_CLEAN_MIN_AGE", None, anywhere,
        "how long nothing may have happened in an environment before it is removed unasked; without it landed work goes at once, the rest after a day";
    TRASH_KEEP: "agents.trashKeep", None, "GIT_AGENTS_TRASH_KEEP", Some("14d"), anywhere,
        "how long what was removed stays in the trash; 'off' is for ever";
    TRASH_ROOM: "agents.trashRoom", None, "GIT_AGENTS_TRASH_ROOM", Some("5GiB"), anywhere,
        "how much the trash may hold before what tools make again (node_modules, target, …) is deleted from it early";
    THROW_AWAY: "agents.throwAway", None, "GIT_AGENTS_THROW_AWAY", None, user,
        "untracked files that are not work, gitignore patterns, on top of the approved ones of the project";
    QUESTION_GRACE: "agents.questionGrace", None, "GIT_AGENTS_QUESTION_GRACE", Some("1m"), anywhere,
        "how long an assistant that asked a question may wait for the answer before it is ended, its session kept";
    STOP_GRACE: "agents.stopGrace", None, "GIT_AGENTS_STOP_GRACE", Some("10s"), anywhere,
        "how long a process that is asked to end has before it is killed";
    CAPTURE_INTERVAL: "agents.captureInterval", None, "GIT_AGENTS_CAPTURE_INTERVAL", Some("1m"), anywhere,
        "when a run's uncommitted work is captured first, then at doubling intervals; 'off' is never";
}

/// All settings, in the order of the manual.
pub fn table() -> &'static [SettingDoc] {
    TABLE
}

/// The setting whose last word is `word`, however it is spelt: `min-free`, `minFree`, `min_free`.
pub(crate) fn find(word: &str) -> Option<&'static SettingDoc> {
    let fold = |s: &str| s.replace(['-', '_'], "").to_ascii_lowercase();
    TABLE.iter().find(|doc| doc.config.strip_prefix("agents.").is_some_and(|k| fold(k) == fold(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_one_spelling_in_three_places() {
        for doc in table() {
            let word = doc.config.strip_prefix("agents.").unwrap();
            assert!(word.chars().all(|c| c.is_ascii_alphabetic()), "{word}: git reads a dot or hyphen differently");
            let snake: String = word
                .chars()
                .flat_map(|c| c.is_ascii_uppercase().then_some('_').into_iter().chain([c.to_ascii_uppercase()]))
                .collect();
            assert_eq!(doc.env, format!("GIT_AGENTS_{snake}"));
            if let Some(file) = doc.file {
                let last = file.rsplit('.').next().unwrap();
                let kebab = snake.to_ascii_lowercase().replace('_', "-");
                // `[limits]` says of what: `time` alone is an attempt's.
                let of = file == "limits.setup" && kebab == "setup-time";
                assert!(of || kebab == last || kebab == file.replace('.', "-"), "{file} is not {kebab}");
            }
            assert!(!(doc.protected && doc.file.is_some()), "{} grants power from the repository", doc.config);
        }
        assert_eq!(find("min-free"), Some(&MIN_FREE));
        assert_eq!(find("minfree"), Some(&MIN_FREE));
        assert_eq!(find("nothing"), None);
    }
}
