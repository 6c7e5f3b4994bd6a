//! The built-in assistant: its prompt is its script.
//!
//! It goes through the same door as a real one (a process with a prompt, a worktree and an output to read), so a
//! demonstration needs nothing but git, and a test can have an assistant that does exactly one thing wrong. Lines
//! that begin with a directive count, after white space and the mark of a list item; all other text is for people.
//!
//! | directive | does |
//! | --- | --- |
//! | `WRITE: path: text`, `APPEND: path: text` | writes a file, with its directories |
//! | `REPLACE: path: old => new` | replaces the first `old`; fails when there is none |
//! | `DELETE: path` | removes a file |
//! | `RUN: command` | `sh -c`; any other code than 0 ends the script with it |
//! | `COMMIT: message` | `git add -A`, `git commit`; no change is no error |
//! | `SAY: text`, `PRINT: text` | a message; a plain line |
//! | `ASK: question` | waits for a person, for ever |
//! | `SLEEP: seconds`, `SPIN: seconds` | without and with the processor |
//! | `WAITFILE: path` | until it exists; may lie anywhere |
//! | `FLOOD: bytes` | that many without a newline |
//! | `SESSION: id`, `USAGE: usd tokens`, `RATELIMIT: seconds`, `DENY: what`, `RETRYING: text` | the event |
//! | `IGNORETERM:` | SIGTERM is ignored from here on |
//! | `FORK: seconds` | leaves a process behind, in a session of its own |
//! | `FAIL: text` | reports failure, and exits with 0 |
//! | `EXIT: code` | ends |
//!
//! In texts `\n`, `\t`, `\r`, `\e`, `\a`, `\\` and `\xHH` are what they are in C. A written text ends with a newline
//! unless it ends with `\c`. Paths of files lie within the worktree, links included.

use super::Activity;
use bstr::ByteSlice as _;
use nix::sys::signal::{SigSet, Signal};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const KNOWN: &[&str] = &[
    "WRITE",
    "APPEND",
    "REPLACE",
    "DELETE",
    "RUN",
    "COMMIT",
    "SAY",
    "PRINT",
    "ASK",
    "SLEEP",
    "SPIN",
    "WAITFILE",
    "FLOOD",
    "SESSION",
    "USAGE",
    "RATELIMIT",
    "DENY",
    "RETRYING",
    "IGNORETERM",
    "FORK",
    "FAIL",
    "EXIT",
];

/// The directives of a prompt, with what follows the colon.
pub fn directives(prompt: &str) -> Vec<(&'static str, &str)> {
    prompt.lines().filter_map(directive).collect()
}

fn directive(line: &str) -> Option<(&'static str, &str)> {
    let (word, rest) = after_bullet(line.trim()).split_once(':')?;
    KNOWN.iter().find(|k| **k == word).map(|k| (*k, rest.trim_start()))
}

fn after_bullet(line: &str) -> &str {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = if rest.len() < line.len() { rest.strip_prefix(['.', ')']) } else { line.strip_prefix(['-', '*', '+']) };
    rest.filter(|r| r.starts_with(' ')).map_or(line, str::trim_start)
}

/// Does what `script` says, in `cwd`; events and lines go to `out`, what commands print goes to the process' own
/// streams. Returns the exit code.
pub fn run(script: &str, cwd: &Path, out: &mut dyn Write) -> i32 {
    let mut actor = Actor { cwd, out, ignores_term: false };
    let end = actor.play(&directives(script));
    let (code, finished) = match end {
        End::Done => (0, Activity::Finished { ok: true, text: None }),
        End::Exit(code) => (code, Activity::Finished { ok: code == 0, text: None }),
        End::Failed(code, why) => (code, Activity::Finished { ok: false, text: Some(why) }),
    };
    // A closed pipe means that nobody listens: the code still tells.
    let _ = actor.emit(finished);
    code
}

enum End {
    Done,
    Exit(i32),
    Failed(i32, String),
}

struct Actor<'a> {
    cwd: &'a Path,
    out: &'a mut dyn Write,
    ignores_term: bool,
}

impl From<io::Error> for End {
    fn from(e: io::Error) -> Self {
        End::Failed(1, e.to_string())
    }
}

impl Actor<'_> {
    fn play(&mut self, script: &[(&str, &str)]) -> End {
        if script.is_empty() {
            return self.line(b"nothing to do").map_or_else(End::from, |()| End::Done);
        }
        for (word, rest) in script {
            if let Err(end) = self.step(word, rest) {
                return match end {
                    End::Failed(code, why) if *word != "FAIL" => End::Failed(code, format!("{word}: {why}")),
                    end => end,
                };
            }
        }
        End::Done
    }

    fn step(&mut self, word: &str, rest: &str) -> Result<(), End> {
        match word {
            "WRITE" | "APPEND" => {
                let (path, text) = split(rest, ":")?;
                self.tool(word, path)?;
                let file = self.inside(path)?;
                fs::create_dir_all(file.parent().unwrap_or(self.cwd))?;
                let mut options = OpenOptions::new();
                options.create(true).write(true).truncate(word == "WRITE").append(word == "APPEND");
                options.open(file)?.write_all(&content(text))?;
            }
            "REPLACE" => {
                let (path, change) = split(rest, ":")?;
                let (old, new) = split(change, "=>")?;
                self.tool(word, path)?;
                let file = self.inside(path)?;
                let (old, new) = (unescape(old.trim_end()), unescape(new));
                let text = fs::read(&file)?;
                let at = text.find(&old).ok_or_else(|| failed(format!("'{path}' does not hold that text")))?;
                let text = [&text[..at], &new, &text[at + old.len()..]].concat();
                OpenOptions::new().write(true).truncate(true).open(file)?.write_all(&text)?;
            }
            "DELETE" => {
                self.tool(word, rest)?;
                fs::remove_file(self.inside(rest)?)?;
            }
            "RUN" => {
                self.tool("sh", rest)?;
                self.shell(rest)?;
            }
            "COMMIT" => self.commit(&unescape(rest).to_str_lossy())?,
            "SAY" => self.emit(Activity::Message { text: text(rest) })?,
            "PRINT" => self.line(&unescape(rest))?,
            "ASK" => {
                self.emit(Activity::NeedsInput { question: text(rest) })?;
                loop {
                    std::thread::sleep(Duration::from_secs(3600));
                }
            }
            "SLEEP" => std::thread::sleep(seconds(rest)?),
            "SPIN" => {
                let end = Instant::now() + seconds(rest)?;
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
            }
            "WAITFILE" => {
                while fs::symlink_metadata(self.cwd.join(rest)).is_err() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            "FLOOD" => self.flood(number(rest)?)?,
            "SESSION" => self.emit(Activity::Session { id: text(rest) })?,
            "USAGE" => {
                let (cost, tokens) = rest.split_once(' ').unwrap_or((rest, ""));
                self.emit(Activity::Usage { cost_usd: cost.parse().ok(), tokens: tokens.trim().parse().ok() })?;
            }
            "RATELIMIT" => {
                let at = if rest.is_empty() { None } else { Some(jiff::Timestamp::now() + seconds(rest)?) };
                self.emit(Activity::RateLimit { resume_at: at.map(|t| t.to_string()) })?;
            }
            "DENY" => self.emit(Activity::Denied { what: text(rest) })?,
            "RETRYING" => self.emit(Activity::Retrying { text: text(rest) })?,
            "IGNORETERM" => {
                // Blocked rather than ignored, which needs no unsafe code: nothing else runs in this process.
                SigSet::from(Signal::SIGTERM).thread_block().map_err(|e| failed(e.to_string()))?;
                self.ignores_term = true;
            }
            "FORK" => {
                self.tool("fork", rest)?;
                let s = seconds(rest)?.as_secs_f64();
                self.shell(&format!(
                    "if command -v setsid >/dev/null; then setsid sleep {s} & else (sleep {s} &); fi"
                ))?;
            }
            "FAIL" => return Err(End::Failed(0, text(rest))),
            "EXIT" => return Err(End::Exit(rest.parse().map_err(|_| failed(format!("'{rest}' is not a code")))?)),
            _ => unreachable!("only known directives are parsed"),
        }
        Ok(())
    }

    fn emit(&mut self, activity: Activity) -> io::Result<()> {
        let line = serde_json::to_vec(&serde_json::json!({ "activity": activity }))?;
        self.line(&line)
    }

    fn line(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(&[bytes, b"\n"].concat())?;
        self.out.flush()
    }

    fn tool(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.emit(Activity::Tool { name: name.to_ascii_lowercase(), text: text.to_owned() })
    }

    fn flood(&mut self, mut bytes: u64) -> io::Result<()> {
        let block = [b'x'; 64 << 10];
        while bytes > 0 {
            let n = bytes.min(block.len() as u64);
            self.out.write_all(&block[..n as usize])?;
            bytes -= n;
        }
        self.out.flush()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the assistant: what it starts inherits what it was given")]
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.cwd).stdin(Stdio::null());
        command
    }

    fn shell(&mut self, line: &str) -> Result<(), End> {
        // A child starts with an empty signal mask, so it is told in the way that children inherit.
        let line = if self.ignores_term { format!("trap '' TERM\n{line}") } else { line.to_owned() };
        let status = self.command("/bin/sh").arg("-c").arg(line).status()?;
        ended(status)
    }

    fn commit(&mut self, message: &str) -> Result<(), End> {
        self.tool("commit", message)?;
        ended(self.command("git").args(["add", "-A"]).status()?)?;
        if self.command("git").args(["diff", "--cached", "--quiet"]).status()?.success() {
            return Ok(self.line(b"nothing to commit")?);
        }
        ended(self.command("git").args(["commit", "-q", "-m", message]).status()?)
    }

    /// `path` below the worktree; links that lead out of it are refused too.
    fn inside(&self, path: &str) -> Result<PathBuf, End> {
        let given = Path::new(path);
        let normal = given.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        let full = self.cwd.join(given);
        // The deepest part that exists, as a name: a link that leads nowhere yet is a way out too.
        let real = full.ancestors().find(|a| a.symlink_metadata().is_ok()).and_then(|a| a.canonicalize().ok());
        if path.is_empty() || !normal || real.is_none_or(|r| !self.cwd.canonicalize().is_ok_and(|c| r.starts_with(c))) {
            return Err(failed(format!("'{path}' is not within the worktree")));
        }
        Ok(full)
    }
}

fn ended(status: std::process::ExitStatus) -> Result<(), End> {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(n), _) => Err(End::Failed(n, format!("exit code {n}"))),
        (None, n) => Err(End::Failed(128 + n.unwrap_or(0), format!("signal {}", n.unwrap_or(0)))),
    }
}

fn failed(why: String) -> End {
    End::Failed(1, why)
}

fn split<'a>(rest: &'a str, by: &str) -> Result<(&'a str, &'a str), End> {
    let (a, b) = rest.split_once(by).ok_or_else(|| failed(format!("no '{by}' in '{rest}'")))?;
    Ok((a.trim(), b.strip_prefix(' ').unwrap_or(b)))
}

fn seconds(rest: &str) -> Result<Duration, End> {
    let s = rest.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    s.ok_or_else(|| failed(format!("'{rest}' is not a number of seconds")))
}

fn number(rest: &str) -> Result<u64, End> {
    rest.parse().map_err(|_| failed(format!("'{rest}' is not a number")))
}

fn text(rest: &str) -> String {
    unescape(rest).to_str_lossy().into_owned()
}

fn content(text: &str) -> Vec<u8> {
    if let Some(text) = text.strip_suffix("\\c") {
        return unescape(text);
    }
    let mut out = unescape(text);
    if !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    out
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&b, tail)) = rest.split_first() {
        let hex = |d: &[u8]| std::str::from_utf8(d).ok().and_then(|d| u8::from_str_radix(d, 16).ok());
        let (byte, used) = match (b, tail.first()) {
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(b't')) => (b'\t', 2),
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(b'e')) => (0x1b, 2),
            (b'\\', Some(b'a')) => (7, 2),
            (b'\\', Some(b'\\')) => (b'\\', 2),
            (b'\\', Some(b'x')) => tail.get(1..3).and_then(hex).map_or((b, 1), |v| (v, 4)),
            _ => (b, 1),
        };
        out.push(byte);
        rest = &rest[used..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::adapter::{Format, Reader};

    fn play(script: &str) -> (tempfile::TempDir, i32, Vec<Activity>, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let (code, seen, raw) = play_in(dir.path(), script);
        (dir, code, seen, raw)
    }

    fn play_in(dir: &Path, script: &str) -> (i32, Vec<Activity>, Vec<u8>) {
        let mut out = Vec::new();
        let code = run(script, dir, &mut out);
        let mut reader = Reader::new(Format::Scripted);
        let seen = out.split(|b| *b == b'\n').flat_map(|l| reader.line(l)).collect();
        (code, seen, out)
    }

    fn finished(seen: &[Activity]) -> (bool, &str) {
        match seen.last() {
            Some(Activity::Finished { ok, text }) => (*ok, text.as_deref().unwrap_or("")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn directives_are_found_among_text() {
        let prompt = "Add a thing. WRITE: no\n1. SAY: one\n  - RUN: two\n* PRINT:three\n2) SAY: four: five\n\
                      WRITEs: no\nwrite: no\n12 SAY: no\n-SAY: no\nNOTE: no";
        assert_eq!(directives(prompt), [("SAY", "one"), ("RUN", "two"), ("PRINT", "three"), ("SAY", "four: five")]);
    }

    #[test]
    fn files_are_written_changed_and_removed() {
        let (dir, code, seen, _) = play(
            "WRITE: a/b.txt: one: 1\\ntwo\nAPPEND: a/b.txt: three\nREPLACE: a/b.txt: two => 2\\n2b\n\
             WRITE: c: bare\\c\nWRITE: d: x\nDELETE: d",
        );
        assert_eq!((code, finished(&seen)), (0, (true, "")));
        assert_eq!(fs::read_to_string(dir.path().join("a/b.txt")).unwrap(), "one: 1\n2\n2b\nthree\n");
        assert_eq!(fs::read_to_string(dir.path().join("c")).unwrap(), "bare");
        assert!(!dir.path().join("d").exists());
        assert!(seen.contains(&Activity::Tool { name: "write".into(), text: "a/b.txt".into() }));
    }

    #[test]
    fn nothing_outside_is_touched() {
        let out = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(out.path(), dir.path().join("link")).unwrap();
        fs::File::create(out.path().join("victim")).unwrap();
        std::os::unix::fs::symlink(out.path().join("victim"), dir.path().join("file")).unwrap();
        std::os::unix::fs::symlink(out.path().join("later"), dir.path().join("dangling")).unwrap();
        let absolute = out.path().join("x").display().to_string();
        for path in ["../x", "a/../../x", &absolute, "link/x", "link/new/x", "file", "dangling", ""] {
            let (code, seen, _) = play_in(dir.path(), &format!("WRITE: {path}: hi"));
            assert_eq!(code, 1, "{path}");
            assert!(finished(&seen).1.contains("not within the worktree"), "{path}: {seen:?}");
        }
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1);
        assert_eq!(fs::read(out.path().join("victim")).unwrap(), b"");
    }

    #[test]
    fn a_failing_command_ends_the_script_with_its_code() {
        let (dir, code, seen, _) = play("RUN: exit 7\nWRITE: a: x");
        assert_eq!((code, finished(&seen)), (7, (false, "RUN: exit code 7")));
        assert!(!dir.path().join("a").exists());
        assert_eq!(play("RUN: kill -9 $$").1, 128 + 9);
        assert_eq!(play("REPLACE: a: b => c").1, 1);
        assert_eq!(play("WRITE: a").1, 1);
    }

    #[test]
    fn ends_of_every_kind() {
        let (_, code, seen, raw) = play("only words");
        assert_eq!((code, finished(&seen)), (0, (true, "")));
        assert!(raw.starts_with(b"nothing to do\n"));
        let (_, code, seen, _) = play("EXIT: 3\nSAY: never");
        assert_eq!((code, finished(&seen).0, seen.len()), (3, false, 1));
        let (_, code, seen, _) = play("FAIL: no log-in");
        assert_eq!((code, finished(&seen)), (0, (false, "no log-in")));
    }

    #[test]
    fn events_come_out_as_they_are_read() {
        let (_, _, seen, raw) = play(
            "SESSION: s1\nUSAGE: 0.25 1200\nUSAGE: - 5\nDENY: rm\nRETRYING: reconnecting\nRATELIMIT: 60\nSAY: a\\nb\n\
             PRINT: \\e[31mred\\xff",
        );
        assert_eq!(seen[0], Activity::Session { id: "s1".into() });
        assert_eq!(seen[1], Activity::Usage { cost_usd: Some(0.25), tokens: Some(1200) });
        assert_eq!(seen[2], Activity::Usage { cost_usd: None, tokens: Some(5) });
        assert_eq!(seen[3], Activity::Denied { what: "rm".into() });
        assert_eq!(seen[4], Activity::Retrying { text: "reconnecting".into() });
        assert!(matches!(&seen[5], Activity::RateLimit { resume_at: Some(t) } if t.ends_with('Z')));
        assert_eq!(seen[6], Activity::Message { text: "a\nb".into() });
        assert!(raw.contains_str(b"\x1b[31mred\xff\n"));
    }

    #[test]
    fn a_flood_has_no_newline() {
        let (_, _, _, raw) = play("FLOOD: 200000");
        assert_eq!(raw.iter().take_while(|b| **b == b'x').count(), 200_000);
    }

    #[test]
    fn term_is_ignored_by_it_and_what_it_runs() {
        let (_, code, _, _) = play("IGNORETERM:\nRUN: kill -TERM $$; sh -c 'kill -TERM $$'; exit 4");
        assert_eq!(code, 4);
    }

    #[test]
    fn it_commits_and_a_second_time_there_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let setup = "RUN: git init -q . && git config user.name A && git config user.email a@example.com";
        let script = format!("{setup}\nWRITE: a: x\nCOMMIT: Add a\\n\\nBody\n");
        assert_eq!(play_in(dir.path(), &script).0, 0);
        let (code, _, raw) = play_in(dir.path(), "WRITE: a: x\nCOMMIT: Again");
        assert_eq!(code, 0);
        assert!(raw.contains_str("nothing to commit"));
        let check = "RUN: test \"$(git log --format=%B)\" = \"$(printf 'Add a\\n\\nBody')\"";
        assert_eq!(play_in(dir.path(), check).0, 0);
    }
}
