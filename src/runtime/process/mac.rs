//! The same questions on macOS, answered by `ps` and `lsof`: slower, no child sub-reaper, no process descriptor.

use super::{Identity, Stat, identify};
use std::path::{Path, PathBuf};

#[expect(clippy::disallowed_methods, reason = "fixed system programs with an empty environment")]
fn ask(program: &str, args: &[&str]) -> String {
    let out = std::process::Command::new(program).args(args).env_clear().env("LC_ALL", "C").output();
    out.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
}

pub(super) fn boot_time() -> String {
    ask("/usr/sbin/sysctl", &["-n", "kern.boottime"]).trim().to_owned()
}

/// See the Linux form. The start time is a hash of `lstart`, which has a resolution of one second.
pub fn stat(pid: i32) -> Option<Stat> {
    let out = ask("/bin/ps", &["-o", "stat=,ppid=,pgid=,sess=,time=,lstart=", "-p", &pid.to_string()]);
    let f: Vec<&str> = out.split_whitespace().collect();
    let state = f.first()?.chars().next()?;
    let cpu = f.get(4)?.split([':', '.']).filter_map(|p| p.parse::<u64>().ok()).fold(0, |a, p| a * 60 + p);
    Some(Stat {
        state,
        parent: f.get(1)?.parse().ok()?,
        group: f.get(2)?.parse().ok()?,
        session: 0,
        tty: 0,
        cpu,
        start: crate::model::agent::fnv64(f.get(5..)?.join(" ").as_bytes()),
    })
}

/// See the Linux form.
pub fn all() -> Vec<i32> {
    ask("/bin/ps", &["-A", "-o", "pid="]).split_whitespace().filter_map(|p| p.parse().ok()).collect()
}

/// See the Linux form.
pub fn environment_holds(pid: i32, entry: &str) -> Option<bool> {
    Some(ask("/bin/ps", &["-E", "-ww", "-o", "command=", "-p", &pid.to_string()]).split(' ').any(|w| w == entry))
}

/// See the Linux form.
pub fn standing_in(dir: &Path) -> Vec<(Identity, PathBuf)> {
    let out = ask("/usr/sbin/lsof", &["-a", "-d", "cwd", "-Fpn"]);
    let mut pid = 0;
    let mut found = Vec::new();
    for line in out.lines() {
        if let Some(p) = line.strip_prefix('p') {
            pid = p.parse().unwrap_or(0);
        } else if let Some(n) = line.strip_prefix('n')
            && Path::new(n).starts_with(dir)
            && pid != std::process::id().cast_signed()
            && let Some(id) = identify(pid)
        {
            found.push((id, PathBuf::from(n)));
        }
    }
    found
}

/// See the Linux form.
pub fn is_open_anywhere(path: &Path) -> bool {
    path.to_str().is_none_or(|p| !ask("/usr/sbin/lsof", &["-t", "--", p]).trim().is_empty())
}

/// See the Linux form.
pub fn command_line(pid: i32) -> String {
    ask("/bin/ps", &["-ww", "-o", "command=", "-p", &pid.to_string()]).trim().to_owned()
}
