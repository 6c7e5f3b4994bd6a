//! Processes of a test: found by a variable that only its own ones carry, ended one by one.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Every process (zombies excepted) whose environment holds `entry`, with its command line. Linux only.
pub fn marked(entry: &str) -> Vec<(i32, String)> {
    let Ok(dir) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id().cast_signed();
    let pids = dir.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|p| *p > 1 && *p != own && holds(*p, entry)).map(|p| (p, command_line(p))).collect()
}

/// A zombie's environment reads as empty.
fn holds(pid: i32, entry: &str) -> bool {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes.split(|b| *b == 0).any(|e| e == entry.as_bytes())
}

fn command_line(pid: i32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned()
}

/// Kills what is [`marked`], and what that started meanwhile; what is left after five seconds.
pub fn end_marked(entry: &str) -> Vec<(i32, String)> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left = marked(entry);
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        for (pid, _) in left {
            // Asked again right before: the number may have a new owner.
            if holds(pid, entry) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
