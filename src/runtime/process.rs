//! Processes: who one is, whether it lives, how a group is ended. The only unsafe code of the project.
//!
//! A number never proves identity: a process is the one we mean when its start time and the machine's boot are the
//! recorded ones. Signals go through a descriptor of the process where the system has them, to a group only while its
//! leader is proven, and never to an id of 1 or less.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;

/// Which process, for certain within this boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The process id.
    pub pid: i32,
    /// Start time in the kernel's own unit (Linux: clock ticks since boot).
    pub start: u64,
    /// The boot it belongs to.
    pub boot: String,
}

/// The id of this boot of the machine; empty where the system tells none, which then equals no other.
pub fn boot_id() -> String {
    // No process lives through a boot.
    static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let read = || {
        #[cfg(target_os = "linux")]
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        #[cfg(not(target_os = "linux"))]
        let id = mac::boot_id();
        id
    };
    BOOT.get_or_init(read).clone()
}

/// The identity of a process that exists now and is no zombie.
pub fn identify(pid: i32) -> Option<Identity> {
    let stat = stat(pid)?;
    (stat.state != 'Z' && stat.state != 'X').then(|| Identity { pid, start: stat.start, boot: boot_id() })
}

/// Ourselves.
pub fn me() -> Identity {
    let pid = std::process::id().cast_signed();
    identify(pid).unwrap_or(Identity { pid, start: 0, boot: boot_id() })
}

impl Identity {
    /// Whether this very process still runs.
    pub fn is_alive(&self) -> bool {
        self.pid > 1 && identify(self.pid).is_some_and(|now| now == *self)
    }

    /// Sends `signal` to this very process; `false` where it is gone.
    pub fn signal(&self, signal: Signal) -> bool {
        if self.pid <= 1 {
            return false;
        }
        #[cfg(target_os = "linux")]
        {
            // The descriptor pins the process: between the check and the signal the number cannot be reused.
            if let Some(fd) = linux::pidfd_open(self.pid) {
                return self.is_alive() && linux::pidfd_send(&fd, signal);
            }
        }
        self.is_alive() && kill(Pid::from_raw(self.pid), signal).is_ok()
    }

    /// Sends `signal` to the process group that this process leads; `false` where the leader is gone or leads none.
    pub fn signal_group(&self, signal: Signal) -> bool {
        if self.pid <= 1 || !self.is_alive() {
            return false;
        }
        match nix::unistd::getpgid(Some(Pid::from_raw(self.pid))) {
            Ok(g) if g.as_raw() == self.pid => killpg(g, signal).is_ok(),
            _ => false,
        }
    }
}

/// What the system says of one process.
#[derive(Debug, Clone)]
pub struct Stat {
    /// `R`, `S`, `Z`, …
    pub state: char,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// Its controlling terminal, 0 for none.
    pub tty: i32,
    /// CPU time used by itself and by the children it waited for, in clock ticks.
    pub cpu: u64,
    /// Start time, as in [`Identity`].
    pub start: u64,
}

/// Reads [`Stat`]; `None` where there is no such process.
#[cfg(target_os = "linux")]
pub fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and parentheses: the fields begin after the last one.
    let rest = text.get(text.rfind(')')? + 2..)?;
    let f: Vec<&str> = rest.split(' ').collect();
    let n = |i: usize| f.get(i).and_then(|s| s.parse::<u64>().ok());
    let signed = |i: usize| f.get(i).and_then(|s| s.parse::<i32>().ok());
    Some(Stat {
        state: f.first()?.chars().next()?,
        parent: signed(1)?,
        group: signed(2)?,
        session: signed(3)?,
        tty: signed(4)?,
        cpu: (11..15).filter_map(n).sum(),
        start: n(19)?,
    })
}

/// All process ids.
#[cfg(target_os = "linux")]
pub fn all() -> Vec<i32> {
    let Ok(dir) = std::fs::read_dir("/proc") else { return Vec::new() };
    dir.filter_map(Result::ok).filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// Whether the environment `pid` was started with holds `entry` (`KEY=value`); `None` where it cannot be read.
#[cfg(target_os = "linux")]
pub fn environment_holds(pid: i32, entry: &str) -> Option<bool> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    Some(bytes.split(|b| *b == 0).any(|e| e == entry.as_bytes()))
}

/// Every living process started with `entry` in its environment, except ourselves.
#[cfg(target_os = "linux")]
pub fn marked(entry: &str) -> Vec<Identity> {
    let own = std::process::id().cast_signed();
    all().into_iter().filter(|p| *p != own && environment_holds(*p, entry) == Some(true)).filter_map(identify).collect()
}

/// Every living process with its directory below `dir`, with the path it stands in; our own process excepted.
#[cfg(target_os = "linux")]
pub fn standing_in(dir: &Path) -> Vec<(Identity, PathBuf)> {
    let own = std::process::id().cast_signed();
    let mut out = Vec::new();
    for pid in all().into_iter().filter(|p| *p != own) {
        if let Ok(cwd) = std::fs::read_link(format!("/proc/{pid}/cwd"))
            && cwd.starts_with(dir)
            && let Some(id) = identify(pid)
        {
            out.push((id, cwd));
        }
    }
    out
}

/// The same, and who runs a program from there or has a file there open, as far as we may look.
#[cfg(target_os = "linux")]
pub fn users_of(dir: &Path) -> Vec<Identity> {
    let own = std::process::id().cast_signed();
    let below = |link: PathBuf| std::fs::read_link(link).is_ok_and(|l| l.starts_with(dir));
    let uses = |pid: i32| {
        let of = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
        ["cwd", "root", "exe"].iter().any(|n| below(of(n)))
            || std::fs::read_dir(of("fd")).is_ok_and(|d| d.filter_map(Result::ok).any(|e| below(e.path())))
    };
    all().into_iter().filter(|p| *p != own && uses(*p)).filter_map(identify).collect()
}

/// The same as far as this system tells: who stands there.
#[cfg(not(target_os = "linux"))]
pub fn users_of(dir: &Path) -> Vec<Identity> {
    standing_in(dir).into_iter().map(|(id, _)| id).collect()
}

/// Whether any process has `path` open, as far as we may look.
#[cfg(target_os = "linux")]
pub fn is_open_anywhere(path: &Path) -> bool {
    all().into_iter().any(|pid| {
        std::fs::read_dir(format!("/proc/{pid}/fd"))
            .is_ok_and(|d| d.filter_map(Result::ok).any(|e| std::fs::read_link(e.path()).is_ok_and(|l| l == path)))
    })
}

/// The words `pid` was started with, for messages; empty where unknown.
#[cfg(target_os = "linux")]
pub fn command_line(pid: i32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned()
}

/// Makes us the parent of orphaned descendants, so that a double fork escapes nobody. Linux only; elsewhere nothing.
pub fn become_subreaper() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Closes every descriptor above the three standard ones. For a process that goes on alone, right at its start: what its
/// starter had open (a pipe that somebody reads to its end, a build's job tokens) must not stay open because of it.
pub fn close_inherited() {
    #[cfg(target_os = "linux")]
    if linux::close_from(3) {
        return;
    }
    let dir = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let open: Vec<i32> = entries
        .filter_map(Result::ok)
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|n| *n > 2)
        .collect();
    for n in open {
        // The directory's own is among them and closed already.
        let _ = nix::unistd::close(n);
    }
}

/// All descendants of `root`, zombies included, `root` itself first.
pub fn descendants(root: i32) -> Vec<i32> {
    let mut out = vec![root];
    let mut i = 0;
    let mut parents: Option<Vec<(i32, i32)>> = None;
    while i < out.len() {
        let p = out[i];
        match listed_children(p) {
            Some(children) => out.extend(children),
            None => {
                let all = parents
                    .get_or_insert_with(|| all().into_iter().filter_map(|p| Some((p, stat(p)?.parent))).collect());
                out.extend(all.iter().filter(|(c, parent)| *parent == p && *c != p).map(|(c, _)| *c));
            }
        }
        i += 1;
    }
    out
}

/// The children as the kernel lists them; `None` where it does not (another system, or the process is gone).
fn listed_children(pid: i32) -> Option<Vec<i32>> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut out = Vec::new();
    for t in tasks.filter_map(Result::ok) {
        let text = std::fs::read_to_string(t.path().join("children")).ok()?;
        out.extend(text.split_ascii_whitespace().filter_map(|p| p.parse::<i32>().ok()));
    }
    Some(out)
}

/// Ourselves and those who started us, up to the first process of the system.
pub fn ancestors() -> Vec<i32> {
    let mut out = vec![std::process::id().cast_signed()];
    while let Some(parent) = out.last().and_then(|p| stat(*p)).map(|s| s.parent).filter(|p| *p > 1 && !out.contains(p))
    {
        out.push(parent);
    }
    out
}

/// Reaps the zombie `pid` if it is a child of ours.
pub fn reap(pid: i32) {
    let _ = nix::sys::wait::waitpid(Pid::from_raw(pid), Some(nix::sys::wait::WaitPidFlag::WNOHANG));
}

/// Clock ticks a second, the unit of [`Stat::cpu`].
pub fn ticks_per_second() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().map_or(100, i64::unsigned_abs)
}

/// Lets `command` start with no signal blocked. Ours are blocked to be read from a pipe, and a child inherits that: it
/// would not notice that it is asked to end, nor that its own children have.
#[expect(unsafe_code, reason = "what runs between fork and exec is the caller's promise")]
pub fn unblock_signals(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt as _;
    let none = nix::sys::signal::SigSet::empty();
    // SAFETY: one call of `pthread_sigmask`, which is async-signal-safe and allocates nothing.
    unsafe { command.pre_exec(move || none.thread_set_mask().map_err(std::io::Error::from)) };
}

/// Has the system keep the signal of an ended child for whoever waits for it. Elsewhere than on Linux one that nobody
/// handles is dropped, blocked or not.
#[cfg(target_os = "linux")]
pub fn keep_child_signals() {}

/// See the Linux form.
#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "no safe wrapper for sigaction")]
pub fn keep_child_signals() {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
    extern "C" fn nothing(_: nix::libc::c_int) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing.
    let _ = unsafe { sigaction(Signal::SIGCHLD, &action) };
}

/// Whether whoever started us had `signal` ignored: nohup does, and a shell for what it puts in the background.
#[expect(unsafe_code, reason = "nix has no safe way to ask without setting")]
pub fn is_ignored(signal: Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<nix::libc::sigaction>::zeroed();
    // SAFETY: nothing is set; the call writes one `sigaction`, for which all zeros is a value too.
    let action = unsafe {
        nix::libc::sigaction(signal as i32, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == nix::libc::SIG_IGN
}

/// Columns and lines of the terminal behind `fd`; `None` where it is none.
#[expect(unsafe_code, reason = "no safe wrapper for TIOCGWINSZ")]
pub fn terminal_size(fd: &impl std::os::fd::AsRawFd) -> Option<(u16, u16)> {
    let mut size = nix::libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call writes one `winsize`, which is what it is given.
    let ok = unsafe { nix::libc::ioctl(fd.as_raw_fd(), nix::libc::TIOCGWINSZ, &mut size) } == 0;
    (ok && size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Gives the pages of program code back to the page cache: what only starting needed is not kept mapped for hours by
/// every supervisor. What is needed again comes back by itself. Linux only; elsewhere nothing.
pub fn release_code() {
    #[cfg(target_os = "linux")]
    linux::release_code();
}

#[cfg(target_os = "linux")]
mod linux {
    use nix::sys::signal::Signal;
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

    #[expect(unsafe_code, reason = "no safe wrapper for pidfd_open")]
    pub(super) fn pidfd_open(pid: i32) -> Option<OwnedFd> {
        // SAFETY: the call takes two integers and returns a new descriptor that nobody else owns.
        let fd = unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: `fd` is open and ours, as above.
        Some(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    #[expect(unsafe_code, reason = "no safe wrapper for madvise on mappings that are not ours to own")]
    pub(super) fn release_code() {
        let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
        for line in maps.lines().filter(|l| l.contains(" r-xp ") && l.contains('/')) {
            let range = line.split(' ').next().and_then(|r| r.split_once('-'));
            let Some((from, to)) = range else { continue };
            let (Ok(from), Ok(to)) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16)) else { continue };
            let start = std::ptr::with_exposed_provenance_mut(from);
            // SAFETY: the mapping is code, private, backed by a file and never written (it is not writable), so a page
            // that is dropped is read back unchanged at the next touch.
            unsafe { nix::libc::madvise(start, to - from, nix::libc::MADV_DONTNEED) };
        }
    }

    #[expect(unsafe_code, reason = "no safe wrapper for close_range")]
    pub(super) fn close_from(first: u32) -> bool {
        // SAFETY: three integers; the caller owns no descriptor yet.
        unsafe { nix::libc::syscall(nix::libc::SYS_close_range, first, u32::MAX, 0) == 0 }
    }

    #[expect(unsafe_code, reason = "no safe wrapper for pidfd_send_signal")]
    pub(super) fn pidfd_send(fd: &OwnedFd, signal: Signal) -> bool {
        // SAFETY: no memory is passed; a null siginfo is allowed.
        let null: *const nix::libc::siginfo_t = std::ptr::null();
        unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal as i32, null, 0) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
mod mac;
#[cfg(not(target_os = "linux"))]
pub use mac::{all, command_line, environment_holds, is_open_anywhere, marked, standing_in, stat};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recycled_number_is_not_the_process_we_meant() {
        let mut other = me();
        other.start += 1;
        assert!(!other.is_alive() && !other.signal(Signal::SIGUSR1));
        assert!(me().is_alive());
    }

    #[test]
    fn ids_of_one_or_less_are_never_signalled() {
        for pid in [1, 0, -1, -11] {
            let id = Identity { pid, start: 0, boot: boot_id() };
            assert!(!id.signal(Signal::SIGCONT) && !id.signal_group(Signal::SIGCONT));
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child that is left as a zombie on purpose")]
    fn a_zombie_counts_as_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        while stat(pid).is_some_and(|s| s.state != 'Z') {
            std::thread::yield_now();
        }
        assert!(identify(pid).is_none());
        child.wait().unwrap();
    }
}
