//! Telling a person who looks elsewhere: on transitions only, as the user's own settings say.

use super::{Agent, say};
use serde_json::json;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Notifies about `what`. Never waits for the notifier, never fails a run.
pub fn notify(agent: &Agent, what: &str, text: Option<&str>) {
    let Some(how) = agent.plan.notify.as_deref() else { return };
    let event = json!({
        "version": 1,
        "event": what,
        "agent": agent.reg.name,
        "title": agent.task.title,
        "batch": agent.task.batch,
        "text": text,
        "repository": agent.ctx.repo().common_dir,
    });
    match how {
        // The bell belongs to a terminal: `run` and `wait` ring it.
        "bell" | "off" | "" => {}
        "desktop" => {
            let title = format!("{}: {what}", agent.reg.name);
            let body = text.unwrap_or(&agent.task.title).to_owned();
            if cfg!(target_os = "macos") {
                let script = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run";
                start(&["osascript", "-e", script, &title, &body], None);
            } else {
                start(&["notify-send", "--app-name=git-agents", "--", &title, &body], None);
            }
        }
        command => start(&["/bin/sh", "-c", command], Some(event.to_string())),
    }
}

#[expect(clippy::disallowed_methods, reason = "the notifier is the user's own program, given nothing but the event")]
fn start(argv: &[&str], input: Option<String>) {
    let mut command = Command::new(argv[0]);
    crate::git::command::scrub(&mut command);
    // Not a part of the run, and not to be ended with what that leaves.
    command.env_remove(crate::place::job::TOKEN);
    command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(mut child) => {
            if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
                let _ = stdin.write_all(input.as_bytes());
            }
            // Reaped by the kernel's next parent, or by us as a stray that is gone by then.
            let _ = std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
                let _ = child.wait();
            });
        }
        Err(e) => say(&format!("the notifier could not be started: {e}")),
    }
}
