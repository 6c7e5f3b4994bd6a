//! The same questions on macOS, answered by `ps` and `lsof`: slower, no child sub-reaper, no process descriptor.

use super::{Identity, Stat, identify};
use std::path::{Path, PathBuf};

#[expect(clippy::disallowed_methods, reason = "fixed system programs with an empty environment")]
fn ask(program: &str, args: &[&str]) -> String {
    // In one time zone: the start of a process is told by its date.
    let out =
        std::process::Command::new(program).args(args).env_clear().envs([("LC_ALL", "C"), ("TZ", "UTC")]).output();
    out.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
}

/// Not `kern.boottime`: that moves with every correction of the clock.
pub(super) fn boot_id() -> String {
    ask("/usr/sbin/sysctl", &["-n", "kern.bootsessionuuid"]).trim().to_owned()
}

/// See the Linux form. The start time is a hash of `lstart`, which has a resolution of one second.
pub fn stat(pid: i32) -> Option<Stat> {
    // Each by itself: what stands after an equals sign is the heading, to the end of the argument.
    let fields = ["stat=", "ppid=", "pgid=", "time=", "lstart="].into_iter().flat_map(|f| ["-o", f]);
    let out = ask("/bin/ps", &fields.chain(["-p", &pid.to_string()]).collect::<Vec<_>>());
    let f: Vec<&str> = out.split_whitespace().collect();
    let state = f.first()?.chars().next()?;
    // Minutes, seconds and hundredths, which are the ticks of this system.
    let (whole, hundredths) = f.get(3)?.split_once('.').unwrap_or((f[3], "0"));
    let seconds = whole.split(':').filter_map(|p| p.parse::<u64>().ok()).fold(0, |a, p| a * 60 + p);
    let cpu = seconds * 100 + hundredths.parse::<u64>().unwrap_or(0);
    Some(Stat {
        state,
        parent: f.get(1)?.parse().ok()?,
        group: f.get(2)?.parse().ok()?,
        session: 0,
        tty: 0,
        cpu,
        start: crate::model::agent::fnv64(f.get(4..)?.join(" ").as_bytes()),
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

/// See the Linux form. One question for all.
pub fn marked(entry: &str) -> Vec<Identity> {
    let own = std::process::id().cast_signed();
    let out = ask("/bin/ps", &["-A", "-E", "-ww", "-o", "pid=", "-o", "command="]);
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let pid = words.next()?.parse().ok()?;
        words.any(|w| w == entry).then_some(pid)
    };
    out.lines().filter_map(of).filter(|pid| *pid != own).filter_map(identify).collect()
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
