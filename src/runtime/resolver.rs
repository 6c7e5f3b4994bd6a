//! Whether names below `localhost` lead to this machine, for programs that ask the system. Browsers and curl do not ask.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::mpsc;
use std::time::Duration;

/// A name that nobody has set up: what is said of it holds for all others.
pub const NAME: &str = "x.localhost";

/// Why [`NAME`] does not lead here; `None` where it does. No longer than `limit`: some systems ask a server, which may
/// not answer.
pub fn trouble(limit: Duration) -> Option<String> {
    let (send, receive) = mpsc::channel();
    // Nothing ends a lookup: one that hangs is left to the end of the process.
    std::thread::spawn(move || {
        let found = (NAME, 0).to_socket_addrs().map(|all| all.map(|a| a.ip()).collect::<Vec<_>>());
        let _ = send.send(found.map_err(|e| e.to_string()));
    });
    judge(receive.recv_timeout(limit).unwrap_or_else(|_| Err("nobody answers".to_owned())))
}

fn judge(found: Result<Vec<IpAddr>, String>) -> Option<String> {
    match found {
        Err(why) => Some(format!("does not resolve: {why}")),
        Ok(all) if all.is_empty() => Some("has no address".to_owned()),
        Ok(all) => all.into_iter().find(|ip| !ip.is_loopback()).map(|ip| format!("leads to {ip}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_this_machine() {
        let of = |all: &[&str]| judge(Ok(all.iter().map(|a| a.parse().unwrap()).collect()));
        assert_eq!(of(&["127.0.0.1"]), None);
        assert_eq!(of(&["::1", "127.0.0.53"]), None);
        assert_eq!(of(&["127.0.0.1", "192.0.2.7"]).unwrap(), "leads to 192.0.2.7");
        assert_eq!(of(&[]).unwrap(), "has no address");
        assert_eq!(judge(Err("not known".into())).unwrap(), "does not resolve: not known");
    }
}
