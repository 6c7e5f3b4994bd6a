//! A repository of a test, with a few commits.

use super::env::{Background, Env, run};
use super::out::Out;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A repository below the directory of its [`Env`].
#[derive(Debug, Clone)]
pub struct Repo<'e> {
    pub env: &'e Env,
    pub(super) path: PathBuf,
}

impl<'e> Repo<'e> {
    /// `code/<name>` with `src/a.txt` (60 lines), `src/b.txt`, `README.md` and a `.gitignore`, in three commits whose
    /// ids are the same every time.
    pub fn new(env: &'e Env, name: &str) -> Repo<'e> {
        let path = env.root().join("code").join(name);
        std::fs::create_dir_all(&path).unwrap();
        let repo = Repo { env, path };
        repo.git(&["init", "--quiet"]);
        let lines: String = (1..=60).map(|n| format!("line {n}\n")).collect();
        repo.write("README.md", "# A project\n");
        repo.write(".gitignore", "ignored/\n*.secret\n");
        repo.commit_at("A project", "2025-01-01T12:00:00Z");
        repo.write("src/a.txt", &lines);
        repo.commit_at("Lines", "2025-01-01T12:01:00Z");
        repo.write("src/b.txt", "one\ntwo\nthree\n");
        repo.commit_at("Words", "2025-01-01T12:02:00Z");
        repo
    }

    /// One that exists: a clone, a worktree, an agent's place.
    pub fn at(env: &'e Env, path: impl Into<PathBuf>) -> Repo<'e> {
        Repo { env, path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path.join(path)
    }

    /// The directory that all worktrees share.
    pub fn common_dir(&self) -> PathBuf {
        PathBuf::from(self.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]))
    }

    /// `git ARGS`, which has to work: its standard output without the last newline.
    #[track_caller]
    pub fn git<A: AsRef<OsStr>>(&self, args: &[A]) -> String {
        self.try_git(args).ok().stdout.trim_end_matches('\n').to_owned()
    }

    /// `git ARGS`, whatever comes of it.
    pub fn try_git<A: AsRef<OsStr>>(&self, args: &[A]) -> Out {
        let mut command = self.env.command("git", &self.path);
        command.args(args);
        run(command, b"")
    }

    /// Writes a file, its directories made.
    pub fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.path.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The text of a file.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.path.join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Commits everything there is; the new commit's id.
    #[track_caller]
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
        self.tip("HEAD")
    }

    fn commit_at(&self, message: &str, when: &str) {
        self.git(&["add", "--all"]);
        let mut command = self.env.command("git", &self.path);
        command.args(["commit", "--quiet", "-m", message]).env("GIT_AUTHOR_DATE", when).env("GIT_COMMITTER_DATE", when);
        run(command, b"").ok();
    }

    /// The commit that `rev` names.
    #[track_caller]
    pub fn tip(&self, rev: &str) -> String {
        self.git(&["rev-parse", "--verify", "--end-of-options", &format!("{rev}^{{commit}}")])
    }

    /// Whether `rev` names anything.
    pub fn has(&self, rev: &str) -> bool {
        self.try_git(&["rev-parse", "--verify", "--quiet", "--end-of-options", rev]).status == 0
    }

    /// `git agents ARGS`.
    pub fn agents<A: AsRef<OsStr>>(&self, args: &[A]) -> Out {
        self.agents_in(&self.path, args)
    }

    /// `git agents ARGS` in another directory.
    pub fn agents_in<A: AsRef<OsStr>>(&self, dir: &Path, args: &[A]) -> Out {
        run(self.env.agents_command(dir, args), b"")
    }

    /// `git agents ARGS` that reads `input`.
    pub fn agents_input<A: AsRef<OsStr>>(&self, args: &[A], input: impl AsRef<[u8]>) -> Out {
        run(self.env.agents_command(&self.path, args), input.as_ref())
    }

    /// `git agents ARGS` beside the test.
    pub fn spawn<A: AsRef<OsStr>>(&self, args: &[A]) -> Background {
        Background::start(self.env, self.env.agents_command(&self.path, args))
    }

    /// `git agents new NAME`: its place.
    #[track_caller]
    pub fn agent(&self, name: &str) -> Repo<'e> {
        let out = self.agents(&["new", name]).ok();
        Repo::at(self.env, out.stdout.strip_suffix('\n').unwrap())
    }

    /// `git agents status --json`.
    #[track_caller]
    pub fn status(&self) -> serde_json::Value {
        self.agents(&["status", "--json"]).ok().json()
    }

    /// A command that takes the lock and repairs, and does nothing else.
    #[track_caller]
    pub fn repair(&self) {
        self.agents(&["restore", "no-such-agent"]).code(128);
    }
}
