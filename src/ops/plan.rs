//! What will happen, as a value: settings and the approved commands, decided once, frozen, handed to the supervisor.

use super::{Context, Error, Loaded, Result};
use crate::config::{self, Approval, ApprovedPlan, CommandSpec, Project, Sources, settings};
use crate::git::worktree;
use crate::place::adapter::{self, Adapter, Custom, Program};
use crate::runtime::files;
use crate::runtime::user::{Approvals, UserState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything a supervisor needs that the task object does not say. Written to the run folder (0600) when an agent is
/// handed over; nothing in it is looked up again later.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunPlan {
    /// The repository, as found when this was planned.
    pub repository: crate::git::repo::Repo,
    /// Whether a post-checkout hook may be there, so that git is asked to run it.
    pub post_checkout: bool,
    /// Where the tree will be.
    pub path: PathBuf,
    /// The repository's label.
    pub repo: String,
    /// The checkout ignored files are taken from.
    pub source: Option<PathBuf>,
    /// Patterns of ignored files to copy.
    pub copy: Vec<String>,
    /// Directories to clone.
    pub clone: Vec<String>,
    /// Whether a directory that cannot be cloned is copied.
    pub clone_fallback_copy: bool,
    /// Bytes a copied directory may have.
    pub clone_limit: u64,
    /// Whether files that look like production secrets are copied.
    pub copy_secrets: bool,
    /// `none`, `local` or `recursive`.
    pub submodules: String,
    /// Approved commands for every new worktree.
    pub setup: Vec<CommandSpec>,
    /// Seconds the setup commands may take together.
    #[serde(default)]
    pub setup_time_s: Option<u64>,
    /// What `retry --cost` allows instead of the task's own limit.
    pub cost_override: Option<f64>,
    /// Scripts in the repository that the approved setup commands name, with the digests they were approved with.
    pub scripts: BTreeMap<String, Option<String>>,
    /// The same for what the assistant's own command names.
    #[serde(default)]
    pub assistant_scripts: BTreeMap<String, Option<String>>,
    /// How its work is tested.
    #[serde(default)]
    pub test: Option<TestPlan>,
    /// The assistant.
    pub adapter: Option<Adapter>,
    /// Untracked files that are not work.
    pub throw_away: Vec<String>,
    /// Whether what the assistant left uncommitted is committed for it.
    pub commit_leftovers: bool,
    /// Whether commits may be signed.
    pub sign: bool,
    /// The only variables handed on, if set.
    pub env_allow: Option<Vec<String>>,
    /// Bytes a captured file may have.
    pub capture_max_file: u64,
    /// Bytes that must stay free for a start.
    pub min_free: u64,
    /// How to notify.
    pub notify: Option<String>,
    /// At most this many in the repository, read anew at each slot unless this says otherwise.
    pub parallel: usize,
    /// A person asked for this very run: what only keeps a batch from starting more does not count.
    #[serde(default)]
    pub asked_by_person: bool,
    /// Seconds an assistant waits for the answer to its question.
    pub question_grace_s: u64,
    /// Seconds between TERM and KILL.
    pub stop_grace_s: u64,
    /// Seconds until the first capture during a run; never where `None`.
    pub capture_interval_s: Option<u64>,
}

/// How trees are tested.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TestPlan {
    /// The command.
    pub command: CommandSpec,
    /// Scripts in the repository that it names, with the digests they were approved with.
    pub scripts: BTreeMap<String, Option<String>>,
    /// Seconds it may take.
    pub limit_s: Option<u64>,
    /// Where it leaves JUnit files: a glob from the top of the worktree.
    #[serde(default)]
    pub junit: Option<String>,
    /// Where worktrees are made, a template.
    pub dir: String,
    /// The command for some tests alone.
    #[serde(default)]
    pub again: Option<CommandSpec>,
    /// At most so many tests at once in the repository.
    pub tests: usize,
}

impl TestPlan {
    /// With the user's `own` command, which needs no approval, or with that of `[test]`; `None` where there is neither.
    pub fn of(loaded: &Loaded, approved: &ApprovedPlan, own: Option<&str>) -> Option<TestPlan> {
        let (command, scripts) = match own {
            Some(line) => (CommandSpec::Shell(line.to_owned()), BTreeMap::new()),
            None => (approved.test()?.clone(), approved.test_scripts()),
        };
        let test = &loaded.project.test;
        Some(TestPlan {
            command,
            scripts,
            limit_s: test.timeout.map_or(Some(TEST_TIMEOUT_S), |limit| limit.0),
            junit: test.junit.clone(),
            again: approved.again().filter(|_| own.is_none()).cloned(),
            dir: loaded.settings.worktree_dir.clone(),
            tests: loaded.settings.tests,
        })
    }
}

/// Where nothing is said, a test may take so long.
const TEST_TIMEOUT_S: u64 = 30 * 60;

impl RunPlan {
    /// Between TERM and KILL.
    pub fn grace(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.stop_grace_s)
    }
}

/// Reads settings and the project's file.
pub(super) fn load(ctx: &Context, flags: &config::Flags) -> Result<Loaded> {
    let source = match (&ctx.repo().toplevel, ctx.here()?) {
        (Some(top), None) => Some(top.clone()),
        _ => ctx.repo().main_worktree.clone(),
    };
    let project = match &source {
        Some(dir) => config::project::load(&dir.join(config::project::FILE_NAME))?,
        None => from_commit(ctx)?,
    };
    let local = config::project::load(&ctx.repo().agents_dir().join("config.toml"))?;
    let values = ctx.repo().settings()?;
    let git = |key: &str| -> Vec<settings::ConfigValue> {
        let scope = |s: &str| match s {
            "system" => settings::Scope::System,
            "global" => settings::Scope::Global,
            "worktree" => settings::Scope::Worktree,
            "command" => settings::Scope::Command,
            _ => settings::Scope::Local,
        };
        let found = values.iter().filter(|(_, k, _)| k.eq_ignore_ascii_case(key));
        found.map(|(s, _, v)| settings::ConfigValue { value: v.clone(), scope: scope(s) }).collect()
    };
    let env = |key: &str| std::env::var(key).ok();
    let sources = Sources { flags, env: &env, git: &git, local: local.as_ref(), project: project.as_ref() };
    let (settings, warnings) = config::resolve(&sources)?;
    let project = match (project, local) {
        (Some(p), Some(l)) => p.overlaid(l),
        (Some(p), None) => p,
        (None, Some(l)) => l,
        (None, None) => Project::default(),
    };
    Ok(Loaded { settings, project, warnings, source })
}

/// The project's file as the commit of a bare repository's branch has it.
fn from_commit(ctx: &Context) -> Result<Option<Project>> {
    let worktree::Head::Branch(branch) = worktree::head(ctx.repo(), &ctx.repo().common_dir) else { return Ok(None) };
    let Some(commit) = crate::git::refs::resolve_commit(ctx.repo(), &branch)? else { return Ok(None) };
    let Some(entry) =
        ctx.state.objects.tree(&commit)?.into_iter().find(|e| e.name == config::project::FILE_NAME.as_bytes())
    else {
        return Ok(None);
    };
    let bytes = ctx.state.objects.blob(&entry.id)?.unwrap_or_default();
    let origin = format!("{}:{}", crate::model::task::short_ref(&branch), config::project::FILE_NAME);
    Ok(Some(config::project::parse(&bytes, &origin).map_err(|mistakes| config::Error::Project { mistakes })?))
}

/// What the project's file runs or gives away.
pub fn wanted(ctx: &Context, project: &Project) -> config::Wanted {
    config::wanted(project, &|path| script(ctx, path))
}

/// Asks the gate about the commands of the project's file.
pub fn approval(ctx: &Context, project: &Project) -> Result<Approval> {
    let wanted = wanted(ctx, project);
    if wanted.is_empty() {
        return Ok(Approval::Approved(ApprovedPlan::nothing()));
    }
    let approvals = Approvals::load(&UserState::open()?)?;
    Ok(config::approve(wanted, &approvals, &ctx.repo().identity()?))
}

/// An in-repository script, as the commit has it that is checked out where the project's file is read: in the user's own
/// checkout, never in an agent's worktree.
fn script(ctx: &Context, path: &str) -> Option<Vec<u8>> {
    let own = ctx.repo().toplevel.is_some() && ctx.here().is_ok_and(|agent| agent.is_none());
    let checkout = if own { &ctx.repo().git_dir } else { &ctx.repo().common_dir };
    let head = match worktree::head(ctx.repo(), checkout) {
        worktree::Head::Branch(b) => crate::git::refs::resolve_commit(ctx.repo(), &b).ok()??,
        worktree::Head::Detached(id) => id,
        worktree::Head::Unknown => return None,
    };
    let mut at = head;
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
    for (i, part) in parts.iter().enumerate() {
        let entry = ctx.state.objects.tree(&at).ok()?.into_iter().find(|e| e.name == part.as_bytes())?;
        if entry.is_tree == (i + 1 == parts.len()) {
            return None;
        }
        at = entry.id;
    }
    ctx.state.objects.blob(&at).ok()?
}

/// The approved plan, or the refusal that names what must be approved. `needs`: whether anything of it will be run.
pub fn approved(ctx: &Context, project: &Project) -> Result<ApprovedPlan> {
    match approval(ctx, project)? {
        Approval::Approved(plan) => Ok(plan),
        Approval::Needed { wanted, changed } => Err(Error::Many {
            what: if changed.is_some() {
                format!("'{}' changed what it runs since you approved it", config::project::FILE_NAME)
            } else {
                format!("'{}' wants to run commands that you have not approved", config::project::FILE_NAME)
            },
            items: changed.unwrap_or_else(|| wanted.text()).lines().map(str::to_owned).collect(),
            hint: Some("'git agents trust' shows and approves them".into()),
        }),
    }
}

/// The plan for one agent.
pub fn run_plan(
    ctx: &Context,
    loaded: &Loaded,
    approved: &ApprovedPlan,
    path: PathBuf,
    assistant: Option<&str>,
) -> Result<RunPlan> {
    let s = &loaded.settings;
    let adapter = assistant.map(|name| resolve_adapter(approved, name)).transpose()?;
    let mut throw_away = s.throw_away.clone();
    throw_away.extend(approved.throw_away().iter().cloned());
    Ok(RunPlan {
        repository: ctx.repo().clone(),
        post_checkout: may_have_hook(ctx, "post-checkout")?,
        path,
        repo: ctx.repo().label(),
        source: loaded.source.clone(),
        copy: s.copy.clone(),
        clone: s.clone.clone(),
        clone_fallback_copy: s.clone_fallback == config::project::CloneFallback::Copy,
        clone_limit: s.clone_limit,
        copy_secrets: s.copy_secrets.unwrap_or(false),
        submodules: approved.submodules().word().to_owned(),
        setup: approved.setup().to_vec(),
        setup_time_s: s.setup_time_s,
        cost_override: None,
        scripts: approved.setup_scripts(),
        assistant_scripts: assistant.map(|name| approved.assistant_scripts(name)).unwrap_or_default(),
        test: None,
        adapter,
        throw_away,
        commit_leftovers: s.uncommitted == settings::Uncommitted::Commit,
        sign: s.sign,
        env_allow: s.env_allow.clone(),
        capture_max_file: s.capture_max_file,
        min_free: s.min_free,
        notify: s.notify.clone(),
        parallel: s.parallel,
        asked_by_person: false,
        question_grace_s: s.question_grace_s,
        stop_grace_s: s.stop_grace_s,
        capture_interval_s: s.capture_interval_s,
    })
}

/// Whether a hook may be there: a file in the usual place, a place of the user's own, or one in git's config (2.54).
fn may_have_hook(ctx: &Context, name: &str) -> Result<bool> {
    let elsewhere = ctx.repo().settings()?.iter().any(|(_, k, _)| k == "core.hookspath" || k.starts_with("hook."));
    Ok(elsewhere || ctx.repo().common_dir.join("hooks").join(name).exists())
}

/// The row of the table for `name`, with what the approved project file says about it.
pub fn resolve_adapter(approved: &ApprovedPlan, name: &str) -> Result<Adapter> {
    let customs: BTreeMap<String, Custom> = approved
        .assistants()
        .filter_map(|n| {
            let a = approved.assistant(n)?;
            let command = a.command.as_ref().map(|c| match c {
                CommandSpec::Shell(s) => Program::Shell(s.clone()),
                CommandSpec::Argv(v) => Program::Argv(v.clone()),
            });
            let custom = Custom { command, args: a.args.clone().unwrap_or_default(), env: a.env.clone() };
            Some((n.to_owned(), custom))
        })
        .collect();
    adapter::resolve(name, &customs).map_err(|e| {
        let mut known: Vec<&str> = adapter::BUILT_IN.to_vec();
        known.extend(customs.keys().map(String::as_str));
        Error::refused(
            e.to_string(),
            format!(
                "known are: {}; '[assistants.NAME]' in '{}' adds your own",
                known.join(", "),
                config::project::FILE_NAME
            ),
        )
    })
}

/// The values of templates in an agent's commands.
pub fn values(
    ctx: &Context,
    id: &crate::model::agent::AgentId,
    task: &crate::model::task::Task,
    repo: &str,
    worktree: &std::path::Path,
) -> BTreeMap<&'static str, String> {
    let main = ctx.repo().main_worktree.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
    BTreeMap::from([
        ("name", task.name.0.clone()),
        ("slug", task.slug.0.clone()),
        ("id", id.short().to_owned()),
        ("branch", task.branch_short().to_owned()),
        ("base", task.base_short().to_owned()),
        ("repo", repo.to_owned()),
        ("worktree", worktree.display().to_string()),
        ("main", main),
        ("batch", task.batch.map(|b| b.to_string()).unwrap_or_default()),
    ])
}

/// Reads a script as it stands in `worktree` now, to compare it with what was approved. Only regular files count.
pub fn script_in(worktree: &std::path::Path) -> impl Fn(&str) -> Option<Vec<u8>> + '_ {
    |path| {
        let file = worktree.join(path);
        let regular = std::fs::symlink_metadata(&file).ok().is_some_and(|m| m.is_file());
        regular.then(|| std::fs::read(file).ok())?
    }
}

/// Why nothing runs: scripts that are other than approved.
pub fn not_as_approved(changed: &[String]) -> String {
    let is = if changed.len() == 1 { "is" } else { "are" };
    format!("'{}' {is} not as approved; 'git agents trust' shows what is", changed.join("', '"))
}

/// Writes the plan into the run folder.
pub fn write(run: &super::record::RunDir, plan: &RunPlan) -> Result<()> {
    let bytes = serde_json::to_vec(plan).expect("a plan is plain JSON");
    Ok(files::write_durable(&run.file("plan.json"), &bytes)?)
}

/// Reads it back; `None` where it is gone.
pub fn read(run: &super::record::RunDir) -> Option<RunPlan> {
    super::record::read_json(&run.file("plan.json"))
}
