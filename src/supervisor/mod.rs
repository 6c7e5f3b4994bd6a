//! The detached parent of one assistant.
//!
//! Theory. One process an agent, started with the agent's lock as its standard input, so there is no moment without a
//! holder; *the kernel* says who is alive. It reacts to four sources, all seen by one `poll`: what the assistant prints,
//! the end of a child, a signal, and the clock (a tick a second while something runs). Everything else it waits for
//! (a slot, a parent, a hold) is again a lock or a small file, so nobody has to tell it anything.
//!
//! Order of what it writes at the end: `exit.json` (durable), then the journal's events, then the lock goes with the
//! process. A kill between them is completed by the next command that takes the repository's lock.
//!
//! Not guaranteed: that a state shown is younger than a second; that anything of the assistant's output after a kill -9
//! of this process is kept; that a process without our token and outside our tree is found.

pub mod attach;
pub mod attempt;
pub mod capture;
pub mod leftovers;
pub mod life;
pub mod notify;
pub mod slots;
pub mod tests;
pub mod watch;

use crate::git::state::{Registration, State};
use crate::model::agent::AgentId;
use crate::model::task::Task;
use crate::ops::plan::{self, RunPlan};
use crate::ops::record::{Address, Record, RunDir};
use crate::ops::{Context, Error, Result};
use crate::runtime::files;
use crate::runtime::lock::Lock;
use crate::runtime::process;
use crate::runtime::signals::{Signals, Wake};
use std::fs::File;
use std::path::PathBuf;

/// One supervised agent, for as long as its lock is held.
#[derive(Debug)]
pub struct Agent {
    /// The repository.
    pub ctx: Context,
    /// The registration, as last written.
    pub reg: Registration,
    /// What was asked for.
    pub task: Task,
    /// How it is run.
    pub plan: RunPlan,
    /// Its files.
    pub run: RunDir,
    /// Where it stands.
    pub record: Record,
    /// Whom to signal.
    pub address: Address,
    /// Signals and children.
    pub signals: Signals,
    /// When it took over.
    pub begun: std::time::SystemTime,
    /// Somebody asked for the end.
    pub asked_to_stop: bool,
    /// Its place in the queue for a slot.
    pub ticket: Option<slots::Ticket>,
    /// Whose lock it waits for.
    pub waiter: Option<slots::Waiter>,
    lock: Lock,
}

impl Agent {
    /// Takes in what has arrived; whether the end was asked for.
    pub fn stopping(&mut self, woken: &[Wake]) -> bool {
        self.mend_folder();
        if woken.iter().any(|w| matches!(w, Wake::End(_))) || self.run.file("stop").exists() {
            self.asked_to_stop = true;
        }
        self.asked_to_stop
    }

    /// Who works: the assistant it was started with, the task's own where there is none.
    pub fn assistant(&self) -> &str {
        let planned = self.plan.adapter.as_ref().map(|a| a.name.as_str());
        planned.or(self.task.assistant.as_deref()).unwrap_or_default()
    }

    /// Makes the folder of the run anew where somebody deleted it: with it went the lock that says that this run lives.
    /// Whether it did.
    pub fn mend_folder(&mut self) -> bool {
        if self.lock.is_there() {
            return false;
        }
        match self.new_folder() {
            Ok(()) => {
                say("the folder of the run was deleted, and is made anew; its logs begin here");
                self.publish_address();
                self.publish();
                true
            }
            Err(e) => {
                say(&format!("error: the folder of the run was deleted: {}", e.words()));
                false
            }
        }
    }

    fn new_folder(&mut self) -> Result<()> {
        self.ctx.state.ensure_dirs()?;
        self.run.ensure()?;
        let taken = || Error::refused("somebody else has taken it over", "git agents status");
        self.lock = Lock::try_take(&self.run.lock_path())?.ok_or_else(taken)?;
        let log = self.run.file("supervisor.log");
        let log = files::open_private(&log, std::fs::OpenOptions::new().create(true).append(true))?;
        nix::unistd::dup2_stderr(&log).map_err(|e| files::because("open", &self.run.dir)(e.into()))?;
        plan::write(&self.run, &self.plan)?;
        Ok(self.run.reserve()?)
    }

    /// Writes where it stands. A full disk must not end a run: it is only logged.
    pub fn publish(&self) {
        if let Err(e) = self.run.write_live(&self.record) {
            say(&format!("the state could not be written: {e}"));
        }
    }

    /// Writes whom to signal.
    pub fn publish_address(&self) {
        if let Err(e) = self.run.write_address(&self.address) {
            say(&format!("the address could not be written: {e}"));
        }
    }

    /// The lock's file, to keep it held.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }
}

/// One line in `supervisor.log`, which is our standard error.
pub fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{} {text}", crate::runtime::clock::now());
}

/// Takes over an agent whose lock is handed in: reads everything about it.
pub fn take_over(ctx: Context, id: &AgentId, lock: Lock, signals: Signals, token: String) -> Result<Agent> {
    let (registrations, _) = ctx.state.registrations()?;
    let reg = registrations
        .into_iter()
        .find(|r| r.id == *id)
        .ok_or_else(|| Error::refused(format!("agent {} is not registered", id.short()), "git agents status"))?;
    let task = ctx.state.task(id)?;
    let run = RunDir::of(&ctx.state, id);
    let plan = plan::read(&run).ok_or_else(|| Error::refused("its plan is gone", "git agents retry"))?;
    let record = run.live().unwrap_or_else(|| Record::new(crate::model::agent::RunState::Preparing, task.retries));
    let address = Address { supervisor: process::me(), assistant: None, token, home: None };
    if let Err(e) = run.reserve() {
        say(&format!("warning: no room for the record of the end: {e}"));
    }
    Ok(Agent {
        ctx,
        reg,
        task,
        plan,
        run,
        record,
        address,
        signals,
        begun: std::time::SystemTime::now(),
        asked_to_stop: false,
        ticket: None,
        waiter: None,
        lock,
    })
}

/// `git-agents supervise ID`: the process. Its exit code.
pub fn main(id: &str) -> i32 {
    match begin(id) {
        Ok(mut agent) => {
            life::live(&mut agent);
            0
        }
        Err(e) => {
            say(&format!("error: {e}"));
            // Read by whoever hands over.
            let _ = nix::unistd::write(std::io::stdout(), format!("{e}\n").as_bytes());
            128
        }
    }
}

fn begin(id: &str) -> Result<Agent> {
    process::close_inherited();
    // The lock first: away from descriptor 0, close-on-exec, before anything else can inherit it.
    let io = |what: &'static str| move |e: std::io::Error| Error::refused(format!("{what}: {e}"), "git agents retry");
    let handed =
        std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().map_err(io("no lock was handed over"))?;
    let null = File::open("/dev/null").map_err(io("/dev/null"))?;
    nix::unistd::dup2_stdin(&null).map_err(|e| io("standard input")(e.into()))?;
    let signals = Signals::catch().map_err(io("signals"))?;
    leave_session();
    process::become_subreaper();
    let common = std::env::var_os("GIT_AGENTS_COMMON_DIR").map(PathBuf::from).unwrap_or_else(|| PathBuf::from("."));
    let id = AgentId(id.to_owned());
    // Found by whoever handed over; the lock below is in that very repository.
    let run = RunDir { dir: common.join("agents").join("run").join(&id.0) };
    let plan = plan::read(&run).ok_or_else(|| Error::refused("its plan is gone", "git agents retry"))?;
    let ctx = Context { state: State::open(plan.repository)?, cwd: common };
    let lock = Lock::adopt(File::from(handed), &run.lock_path())?
        .ok_or_else(|| Error::refused("the lock that was handed over is not this agent's", "git agents retry"))?;
    // What we start ourselves carries it as well, so that a kill of us leaves nothing that is not found.
    let token = std::env::var(crate::place::job::TOKEN).unwrap_or_else(|_| crate::runtime::clock::random_hex(16));
    let mut agent = take_over(ctx, &id, lock, signals, token)?;
    agent.publish_address();
    agent.publish();
    if agent.task.after.is_empty() {
        // Before it is accepted: the next of the list is started only then.
        slots::line_up(&mut agent)?;
    }
    let _ = nix::unistd::write(std::io::stdout(), b"accepted\n");
    // Nobody reads us from here on, and nobody's pipe must stay open because of us.
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null").map_err(io("/dev/null"))?;
    nix::unistd::dup2_stdout(&null).map_err(|e| io("standard output")(e.into()))?;
    Ok(agent)
}

/// A session of our own, without a terminal. We were started as the leader of a group (out of reach of Ctrl-C), and a
/// leader cannot begin a session: so out of that group first. Signals are blocked already.
pub fn leave_session() {
    if nix::unistd::setsid().is_ok() {
        return;
    }
    if let Ok(parents) = nix::unistd::getpgid(Some(nix::unistd::getppid())) {
        let _ = nix::unistd::setpgid(nix::unistd::Pid::from_raw(0), parents);
    }
    if let Err(e) = nix::unistd::setsid() {
        say(&format!("no session of our own: {e}"));
    }
}
