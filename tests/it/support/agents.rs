//! Agents of a repository: lists of scripted tasks, what their states are, where their files lie.

use super::env::Background;
use super::out::Out;
use super::repo::Repo;
use serde_json::Value;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

/// A list for `run -f`: each task is its name, with further attributes after a blank, and its script.
pub fn list(tasks: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (n, (name, script)) in tasks.iter().enumerate() {
        let _ = writeln!(out, "{}. Do {} {{name={name}}}", n + 1, name.split(' ').next().unwrap_or(name));
        for line in script.lines() {
            let _ = writeln!(out, "   {}", line.trim_start());
        }
    }
    out
}

impl Repo<'_> {
    /// `run` of scripted tasks to the end, with further arguments.
    pub fn run(&self, tasks: &[(&str, &str)], args: &[&str]) -> Out {
        self.write("../tasks.md", list(tasks));
        self.agents(&[&["run", "-a", "scripted", "-f", "../tasks.md"], args].concat())
    }

    /// The same beside the test, in a process group of its own, as a shell starts it.
    pub fn run_beside(&self, tasks: &[(&str, &str)], args: &[&str]) -> Background {
        self.write("../tasks.md", list(tasks));
        let args = [&["run", "-a", "scripted", "-f", "../tasks.md"], args].concat();
        let mut command = self.env.agents_command(&self.path, &args);
        command.process_group(0);
        Background::start(self.env, command)
    }

    /// The same left alone as soon as all are accepted.
    #[track_caller]
    pub fn start(&self, tasks: &[(&str, &str)], args: &[&str]) {
        self.run(tasks, &[&["-d"], args].concat()).ok();
    }

    /// An assistant called `mine`, approved.
    #[track_caller]
    pub fn custom(&self, command: &[&str]) {
        let command = serde_json::to_string(command).unwrap();
        self.write(".git-agents.toml", format!("[assistants.mine]\ncommand = {command}\n"));
        self.agents(&["trust", "--yes"]).ok();
    }

    /// A setting of the repository.
    pub fn set(&self, key: &str, value: &str) {
        self.git(&["config", key, value]);
    }

    /// What `status --json` says of one agent.
    #[track_caller]
    pub fn status_of(&self, name: &str) -> Value {
        let out = self.agents(&["status", "--json", name]).ok();
        let all = out.json()["agents"].clone();
        let found = all.as_array().unwrap().iter().find(|a| a["name"] == name).cloned();
        found.unwrap_or_else(|| panic!("no agent '{name}'\n{out}"))
    }

    /// Its state.
    #[track_caller]
    pub fn state(&self, name: &str) -> String {
        self.status_of(name)["run"]["state"].as_str().unwrap_or("null").to_owned()
    }

    /// Why it is in this state.
    #[track_caller]
    pub fn reason(&self, name: &str) -> String {
        self.status_of(name)["run"]["reason"].as_str().unwrap_or("").to_owned()
    }

    /// Waits until it is in this state.
    #[track_caller]
    pub fn reaches(&self, name: &str, state: &str) {
        let mut last = String::new();
        let what = format!("'{name}' is {state}");
        self.env.until(&what, || {
            // Started beside the test, it may not be there yet.
            last = if self.agents(&["show", name]).status == 0 { self.state(name) } else { String::new() };
            let settled = ["succeeded", "unchanged", "failed", "stalled", "timed-out", "over-budget", "skipped"];
            let passed = last != state && settled.contains(&last.as_str());
            assert!(!passed, "'{name}' is {last} and not {state}: {}", self.reason(name));
            last == state
        });
    }

    /// Waits until it is in this state, whatever it has been before.
    #[track_caller]
    pub fn becomes(&self, name: &str, state: &str) {
        self.env.until(&format!("'{name}' is {state}"), || self.state(name) == state);
    }

    /// Waits until nobody runs it any more.
    #[track_caller]
    pub fn settles(&self, name: &str) -> String {
        self.env.until(&format!("'{name}' settles"), || {
            let state = self.state(name);
            let live = ["preparing", "waiting", "running", "attached", "verifying"];
            (!live.contains(&state.as_str())).then_some(state)
        })
    }

    /// The folder of its run.
    #[track_caller]
    pub fn run_dir(&self, name: &str) -> PathBuf {
        let id = self.git(&[
            "config",
            "--file",
            self.common_dir().join("config").to_str().unwrap(),
            &format!("agent.{name}.id"),
        ]);
        self.common_dir().join("agents/run").join(id)
    }

    /// A record of its run.
    #[track_caller]
    pub fn record(&self, name: &str, file: &str) -> Value {
        let path = self.run_dir(name).join(file);
        let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// The process ids of its supervisor and of its assistant.
    #[track_caller]
    pub fn pids(&self, name: &str) -> (i32, Option<i32>) {
        let address = self.record(name, "pid.json");
        let pid = |v: &Value| v["pid"].as_i64().map(|p| i32::try_from(p).unwrap());
        let supervisor = pid(&address["supervisor"]).unwrap();
        assert!(supervisor > 1, "nobody has taken over yet");
        (supervisor, pid(&address["assistant"]))
    }

    /// Its worktree, as soon as it is there.
    #[track_caller]
    pub fn worktree(&self, name: &str) -> Self {
        let path = self.env.until(&format!("the worktree of '{name}'"), || {
            let out = self.agents(&["path", name]);
            (out.status == 0).then(|| out.stdout.trim_end().to_owned())
        });
        Repo { env: self.env, path: path.into() }
    }

    /// What the report of the last batch says of one.
    #[track_caller]
    pub fn reported(&self, name: &str) -> Value {
        let out = self.agents(&["report", "--json", name]).ok();
        out.json()["agents"][0].clone()
    }
}
