//! One repository: where its parts are, what it can do, what its settings say.

use super::command::Call;
use super::{Error, Result, command};
use crate::model::hook_file;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A repository, found once a command. Everything below takes paths and ids from here.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Repo {
    /// The directory all worktrees share: absolute, without links.
    pub common_dir: PathBuf,
    /// The git directory of the worktree the command was started in; the common one in the main worktree.
    pub git_dir: PathBuf,
    /// The top of that worktree; `None` inside a git directory or a bare repository.
    pub toplevel: Option<PathBuf>,
    /// The main worktree; `None` for a bare repository.
    pub main_worktree: Option<PathBuf>,
    /// `sha1` or `sha256`.
    pub object_format: String,
    /// Whether references are kept in a reftable, which only the git program reads.
    pub reftable: bool,
    /// Whether the history is cut off somewhere.
    pub shallow: bool,
    /// `core.fileMode`: whether executable bits count.
    pub file_mode: bool,
    /// `core.ignoreCase`.
    pub ignore_case: bool,
    /// The repository's own `core.excludesFile`.
    pub excludes: Option<PathBuf>,
    /// The repository's own settings may make stored and checked-out bytes differ.
    pub converts: bool,
    /// Whether worktrees have configs of their own.
    pub worktree_config: bool,
    /// The version of the git program.
    pub version: String,
    /// What [`Repo::settings`] found.
    #[serde(skip)]
    settings: std::sync::Arc<std::sync::OnceLock<Vec<Setting>>>,
}

/// Scope, key, value.
pub type Setting = (String, String, String);

impl Repo {
    /// The repository `dir` is in, as git finds it: hooks' `GIT_DIR`, linked worktrees, bare layouts, submodules.
    /// One that git calls unsafe, or does not understand, is refused with git's own words.
    pub fn discover(dir: &Path) -> Result<Repo> {
        let version = std::thread::spawn({
            let dir = dir.to_owned();
            move || command::version(&dir)
        });
        let ask = |what: &[&str]| {
            let args = ["rev-parse", "--path-format=absolute"].iter().chain(what);
            Call::new(dir, args).with_inherited_location().output()
        };
        let questions = [
            "--git-dir",
            "--git-common-dir",
            "--show-object-format",
            "--is-shallow-repository",
            "--is-inside-work-tree",
            "--show-cdup",
        ];
        let out = ask(&questions)?;
        let version = version.join().map_err(|_| Error::Object("git --version: panicked".into()))??;
        if !out.status.success() {
            let words = String::from_utf8_lossy(&out.stderr).trim().trim_start_matches("fatal: ").to_owned();
            return Err(Error::NotUsable(words));
        }
        let line = |bytes: &[u8]| bytes.strip_suffix(b"\n").unwrap_or(bytes).to_vec();
        let mut fields: Vec<Vec<u8>> = line(&out.stdout).split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        if !matches!(fields.get(2).map(Vec::as_slice), Some(b"sha1" | b"sha256")) {
            // A path with a newline in it: each answer by itself.
            fields = questions.iter().map(|q| Ok(line(&ask(&[q])?.stdout))).collect::<Result<_>>()?;
        }
        let field = |i: usize| fields.get(i).map(Vec::as_slice).unwrap_or_default();
        let path = |i: usize| canonical(Path::new(std::ffi::OsStr::from_bytes(field(i))));
        let (git_dir, common_dir) = (path(0)?, path(1)?);
        let text = |i: usize| String::from_utf8_lossy(field(i)).into_owned();
        let toplevel = match text(4).as_str() {
            "true" => Some(canonical(&dir.join(text(5)))?),
            _ => None,
        };
        Repo::with(git_dir, common_dir, toplevel, text(2), text(3) == "true", version)
    }

    /// The repository at directories that were found without asking git: enough for reading names, references and
    /// objects within milliseconds. Git's own judgement of it (its owner, its format) is not asked, so nothing that it
    /// configures may be run.
    pub fn glance(git_dir: PathBuf, common_dir: PathBuf) -> Result<Repo> {
        let config = super::config_file::read(&common_dir)?;
        let format = config.value("extensions", None, "objectformat").unwrap_or_else(|| "sha1".to_owned());
        Repo::with(git_dir, common_dir, None, format, false, String::new())
    }

    fn with(
        git_dir: PathBuf,
        common_dir: PathBuf,
        toplevel: Option<PathBuf>,
        object_format: String,
        shallow: bool,
        version: String,
    ) -> Result<Repo> {
        let config = super::config_file::read(&common_dir)?;
        let bare = config.flag("core", None, "bare");
        let main_worktree = if bare {
            None
        } else if let Some(w) = config.value("core", None, "worktree") {
            canonical(&common_dir.join(w)).ok()
        } else if common_dir.file_name().is_some_and(|n| n == ".git") {
            common_dir.parent().map(Path::to_owned)
        } else if git_dir == common_dir {
            toplevel.clone()
        } else {
            None
        };
        Ok(Repo {
            reftable: config.value("extensions", None, "refstorage").is_some_and(|v| v.starts_with("reftable")),
            common_dir,
            git_dir,
            toplevel,
            main_worktree,
            object_format,
            shallow,
            file_mode: config.value("core", None, "filemode").is_none_or(|v| v != "false"),
            ignore_case: config.flag("core", None, "ignorecase"),
            excludes: config.value("core", None, "excludesfile").map(|e| super::config_file::expand_home(&e)),
            converts: config.value("core", None, "autocrlf").is_some_and(|v| v != "false")
                || config.value("core", None, "eol").is_some()
                || config.value("core", None, "attributesfile").is_some()
                || config.has_includes(),
            worktree_config: config.flag("extensions", None, "worktreeconfig"),
            version,
            settings: Default::default(),
        })
    }

    /// Our directory in it.
    pub fn agents_dir(&self) -> PathBuf {
        self.common_dir.join("agents")
    }

    /// A directory from which the git program acts on the repository as a whole.
    pub fn base_dir(&self) -> &Path {
        &self.common_dir
    }

    /// A neutral call of git on the repository as a whole: no worktree, no discovery.
    pub fn call<I: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Call {
        Call::neutral(&self.common_dir, &self.configured_hooks(), args).env("GIT_DIR", &self.common_dir)
    }

    /// A neutral call of git on the linked worktree at `worktree` with the admin directory `admin`: pinned, so that
    /// nothing inside the worktree decides which repository is meant.
    pub fn call_in<I: AsRef<std::ffi::OsStr>>(
        &self,
        worktree: &Path,
        admin: &Path,
        args: impl IntoIterator<Item = I>,
    ) -> Call {
        Call::neutral(worktree, &self.configured_hooks(), args)
            .env("GIT_DIR", admin)
            .env("GIT_COMMON_DIR", &self.common_dir)
            .env("GIT_WORK_TREE", worktree)
    }

    /// What this repository is called in names of ours: the main worktree's directory, in a bare layout that of the
    /// folder that holds the repository.
    pub fn label(&self) -> String {
        let dir = match &self.main_worktree {
            Some(main) => main.clone(),
            None => match self.common_dir.file_name().map(|n| n.to_string_lossy().into_owned()) {
                Some(n) if n.starts_with('.') => self.common_dir.parent().unwrap_or(&self.common_dir).to_owned(),
                _ => self.common_dir.clone(),
            },
        };
        let name = dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        name.strip_suffix(".git").unwrap_or(&name).to_owned()
    }

    /// What a relative `worktree.dir` is relative to.
    pub fn anchor(&self) -> PathBuf {
        match &self.main_worktree {
            Some(main) => main.clone(),
            None if self.common_dir.file_name().is_some_and(|n| n.as_bytes().starts_with(b".")) => {
                // `proj/.bare`: the folder that holds the repository stands for it.
                self.common_dir.parent().unwrap_or(&self.common_dir).to_owned()
            }
            None => self.common_dir.clone(),
        }
    }

    /// Who this repository is for approvals: its place and its inode, so that a copy is another one.
    pub fn identity(&self) -> Result<String> {
        let meta =
            std::fs::metadata(&self.common_dir).map_err(crate::runtime::files::because("read", &self.common_dir))?;
        Ok(format!("{}@{}:{}", self.common_dir.display(), meta.dev(), meta.ino()))
    }

    /// How many digits an object id has.
    pub fn hex_len(&self) -> usize {
        if self.object_format == "sha256" { 64 } else { 40 }
    }

    /// Every setting git sees, with its scope (`system`, `global`, `local`, `worktree`, `command`), in order; asked once.
    pub fn settings(&self) -> Result<&[Setting]> {
        if self.settings.get().is_none() {
            let found = self.settings_now()?;
            let _ = self.settings.set(found);
        }
        Ok(self.settings.get().map_or(&[], Vec::as_slice))
    }

    /// The hooks in its configuration, by name; none where its git does not run them.
    pub fn configured_hooks(&self) -> Vec<&str> {
        if command::number(&self.version) < command::CONFIGURED_HOOKS {
            return Vec::new();
        }
        // Where they cannot be read, no call that could run one works.
        let settings = self.settings().unwrap_or_default();
        let mut names: Vec<&str> = settings.iter().filter_map(|(_, key, _)| Some(hook_file::setting(key)?.0)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What [`Repo::settings`] says, asked again.
    pub fn settings_now(&self) -> Result<Vec<Setting>> {
        // Not a neutral call: its own `-c` options would be among the answers.
        let call = Call::user_visible(&self.common_dir, ["config", "--list", "-z", "--show-scope", "--includes"]);
        let out = call.env("GIT_DIR", &self.common_dir).with_inherited_config().run()?;
        let mut parts = out.split(|b| *b == 0);
        let mut settings = Vec::new();
        while let (Some(scope), Some(pair)) = (parts.next(), parts.next()) {
            let pair = String::from_utf8_lossy(pair);
            let (k, v) = pair.split_once('\n').unwrap_or((&pair, "true"));
            settings.push((String::from_utf8_lossy(scope).into_owned(), k.to_owned(), v.to_owned()));
        }
        Ok(settings)
    }
}

fn canonical(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).map_err(|e| crate::runtime::files::because("find", path)(e).into())
}
