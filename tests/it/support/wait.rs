//! Waiting for a fact, with a deadline that tells what there was instead.

use super::Env;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long [`Env::until`] waits.
pub const LIMIT: Duration = Duration::from_secs(30);

/// What a condition answers: `true`, or `Some` with what was waited for.
pub trait Ready {
    type Value;
    fn ready(self) -> Option<Self::Value>;
}

impl Ready for bool {
    type Value = ();
    fn ready(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Ready for Option<T> {
    type Value = T;
    fn ready(self) -> Option<T> {
        self
    }
}

impl Env {
    /// Asks every 5 ms until it is so; after 30 s the test fails with `what` and the logs of all runs.
    #[track_caller]
    pub fn until<R: Ready>(&self, what: &str, ask: impl FnMut() -> R) -> R::Value {
        until(self.root(), what, LIMIT, ask)
    }

    /// The same with another limit.
    #[track_caller]
    pub fn until_within<R: Ready>(&self, limit: Duration, what: &str, ask: impl FnMut() -> R) -> R::Value {
        until(self.root(), what, limit, ask)
    }
}

/// Asks every 5 ms until it is so. On time-out it panics with `what` and the records of all runs below `root`.
#[track_caller]
pub fn until<R: Ready>(root: &Path, what: &str, limit: Duration, mut ask: impl FnMut() -> R) -> R::Value {
    let deadline = Instant::now() + limit;
    loop {
        // Whether time is up is settled before the last question, so that a slow machine asks once more.
        let last = Instant::now() >= deadline;
        if let Some(value) = ask().ready() {
            return value;
        }
        assert!(!last, "waited {limit:?} for: {what}\n{}", records(root));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The ends of all supervisor logs, states and exit records below `root`.
pub fn records(root: &Path) -> String {
    const NAMES: [&str; 3] = ["supervisor.log", "state.json", "exit.json"];
    let mut out = String::new();
    for file in files(root, &|p| p.ends_with("objects")) {
        let of_a_run = file.ancestors().nth(2).is_some_and(|run| run.ends_with("agents/run"));
        if of_a_run && file.file_name().is_some_and(|n| NAMES.iter().any(|x| n == *x)) {
            let text = std::fs::read(&file).unwrap_or_default();
            let end = String::from_utf8_lossy(&text[text.len().saturating_sub(8 << 10)..]).into_owned();
            out += &format!("=== {}\n{}\n", file.display(), end.trim_end());
        }
    }
    if out.is_empty() { "(no run has left a record)".into() } else { out }
}

/// All files below `dir`, sorted; directories that `skip` names are not entered, links not followed.
pub fn files(dir: &Path, skip: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut left, mut out) = (vec![dir.to_owned()], Vec::new());
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
            match entry.file_type() {
                Ok(t) if t.is_dir() && !skip(&entry.path()) => left.push(entry.path()),
                Ok(t) if !t.is_dir() => out.push(entry.path()),
                _ => {}
            }
        }
    }
    out.sort();
    out
}

#[test]
fn a_wait_in_vain_shows_the_records_of_the_runs() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("code/x/.git/agents/run/0123456789ab");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("supervisor.log"), "it was like this").unwrap();
    std::fs::write(run.join("prompt"), "not shown").unwrap();
    let failed = std::panic::catch_unwind(|| until(dir.path(), "the moon", Duration::from_millis(20), || false));
    let message = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("the moon") && message.contains("it was like this"), "{message}");
    assert!(!message.contains("not shown"), "{message}");
    let mut asked = 0;
    let value = until(dir.path(), "the third time", LIMIT, || {
        asked += 1;
        (asked == 3).then_some(asked)
    });
    assert_eq!(value, 3);
}
