//! What a program said and how it ended.

use serde_json::Value;
use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Output};

/// The end of one program.
#[derive(Debug, Clone)]
pub struct Out {
    /// The exit code, or 128+n where signal n ended it.
    pub status: i32,
    /// Replacement characters stand for what is not UTF-8; see [`Out::bytes`].
    pub stdout: String,
    pub stderr: String,
    /// Standard output as it came.
    pub bytes: Vec<u8>,
    /// What was run, for messages.
    pub shown: String,
}

impl Out {
    pub fn new(shown: &str, output: Output) -> Out {
        Out {
            status: code(output.status),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            bytes: output.stdout,
            shown: shown.to_owned(),
        }
    }

    /// It did what it was asked.
    #[track_caller]
    pub fn ok(self) -> Out {
        self.code(0)
    }

    /// It ended with exactly this code.
    #[track_caller]
    pub fn code(self, code: i32) -> Out {
        assert!(self.status == code, "expected exit code {code}\n{self}");
        self
    }

    /// Standard output as one JSON object of version 1.
    #[track_caller]
    pub fn json(&self) -> Value {
        self.versioned(&self.stdout)
    }

    /// Standard output as JSON lines, each of version 1.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        assert!(self.stdout.is_empty() || self.stdout.ends_with('\n'), "the last line is not whole\n{self}");
        self.stdout.lines().map(|l| self.versioned(l)).collect()
    }

    #[track_caller]
    fn versioned(&self, text: &str) -> Value {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("not JSON: {e}\n{self}"));
        let first = value.as_object().and_then(|o| o.iter().next()).map(|(k, v)| (k.as_str(), v.as_u64()));
        assert!(first == Some(("version", Some(1))), "the first key is not \"version\": 1\n{self}");
        value
    }
}

/// 128+n for a signal, as a shell tells it.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

impl fmt::Display for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "$ {} -> {}", self.shown, self.status)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(f, "--- {name}")?;
                f.write_str(text)?;
                if !text.ends_with('\n') {
                    f.write_str("(no newline)\n")?;
                }
            }
        }
        f.write_str("---")
    }
}

#[test]
fn json_is_whole_and_versioned_or_the_test_fails() {
    use std::os::unix::process::ExitStatusExt as _;
    let said = |text: &str| {
        let status = ExitStatus::from_raw(0);
        Out::new("x", Output { status, stdout: text.into(), stderr: Vec::new() })
    };
    let panics = |check: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err();
    assert_eq!(said("{\"version\":1,\"a\":2}\n").json()["a"], 2);
    assert_eq!(said("{\"version\":1}\n{\"version\":1}\n").json_lines().len(), 2);
    for wrong in ["{\"a\":2,\"version\":1}", "{\"version\":2}", "[]", "{\"version\":1", "{\"version\":1} x", ""] {
        assert!(panics(&|| drop(said(wrong).json())), "{wrong}");
    }
    assert!(panics(&|| drop(said("{\"version\":1}").json_lines())), "the newline is missing");
    assert!(panics(&|| drop(said("").code(1))));
}
