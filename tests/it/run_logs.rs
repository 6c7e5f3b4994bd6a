//! What an assistant prints: kept byte for byte in bounded space, shown safe, followed without a gap.

use crate::support::hostile::{TEXTS, is_unsafe_on_a_terminal};
use crate::support::{Env, Repo, terminal};
use std::io::Read as _;

/// The most memory a process has had, in KiB.
fn peak(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn stored(repo: &Repo<'_>, name: &str) -> Vec<std::path::PathBuf> {
    let dir = std::fs::read_dir(repo.run_dir(name)).unwrap();
    let is_log = |p: &std::path::PathBuf| {
        let file = p.file_name().unwrap().to_str().unwrap();
        file.starts_with("output.") && file.ends_with(".log")
    };
    dir.map(|e| e.unwrap().path()).filter(is_log).collect()
}

#[test]
fn a_line_of_100_mb_and_a_flood_over_the_cap_cost_neither_memory_nor_disk() {
    let env = Env::new();
    let repo = env.repo("x");
    let flood = "PRINT: the beginning\nFLOOD: 100000000\nPRINT: \nSAY: the end\nWRITE: a: a\nWAITFILE: ../go";
    repo.start(&[("a", flood), ("b", "PRINT: little\nWRITE: b: b\nWAITFILE: ../go")], &[]);
    repo.env.until("both are through", || ["a", "b"].iter().all(|n| repo.worktree(n).join(n).exists()));
    // Beside one that prints little: what the program itself takes is not asked here.
    let [peak, quiet] = ["a", "b"].map(|n| peak(repo.pids(n).0));
    repo.write("../x.agents/go", "");
    repo.agents(&["wait"]).ok();
    println!("{peak} KiB at most, {quiet} KiB without the flood");
    assert!(peak < quiet + (8 << 10), "{peak} KiB, {quiet} KiB without the flood");
    let size: u64 = stored(&repo, "a").iter().map(|p| p.metadata().unwrap().len()).sum();
    assert!((50 << 20..=64 << 20).contains(&size), "{size}");
    let raw = repo.agents(&["logs", "--raw", "a"]).ok();
    assert!(raw.bytes.len() > 50 << 20 && raw.bytes.starts_with(b"the beginning\nxxxx"));
    assert!(raw.stdout.contains("bytes of output left out here]"));
    // The typed events of before and after survive, and a line for people stays one.
    let shown = repo.agents(&["logs", "a"]).ok().stdout;
    assert!(
        shown.lines().next().unwrap().ends_with("the beginning") && shown.contains("says    the end"),
        "{shown:.300}"
    );
    assert!(shown.lines().all(|l| l.len() < 400));
    assert_eq!(repo.agents(&["logs", "--raw", "-n", "2", "a"]).ok().stdout.lines().count(), 2);
    let permissions = std::fs::metadata(&stored(&repo, "a")[0]).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777, 0o600);
}

#[test]
fn hostile_output_is_kept_as_it_is_and_shown_safe() {
    let env = Env::new();
    let repo = env.repo("x");
    let mut bytes = b"\xff\xfe invalid \x80\n".to_vec();
    bytes.extend((0..=255).collect::<Vec<u8>>());
    for text in TEXTS {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(b'\n');
    }
    std::fs::write(env.root().join("bytes"), &bytes).unwrap();
    let script = "RUN: cat ../../../bytes\nSAY: \\e[2Jsaid\\x9b31m\\e]52;c;eA==\\x07\nWRITE: a: a";
    repo.run(&[("a", script)], &[]).ok();
    let raw = repo.agents(&["logs", "--raw", "a"]).ok();
    assert!(raw.bytes.windows(bytes.len()).any(|w| w == bytes), "the bytes have changed");
    for args in [&["logs", "a"][..], &["report"], &["show", "a"], &["status"], &["logs", "--supervisor", "a"]] {
        let out = repo.agents(args).ok();
        assert!(!is_unsafe_on_a_terminal(&out.stdout), "{args:?}: {:?}", out.stdout);
    }
    // On a terminal even the raw ones are.
    let seen = terminal::agents(&env, repo.path(), &["logs", "--raw", "a"], &[("GIT_PAGER", "cat")]);
    assert!(!is_unsafe_on_a_terminal(&seen.ok().stdout.replace("\r\n", "\n")));
}

#[test]
fn an_event_longer_than_a_line_for_people_is_still_an_event() {
    let env = Env::new();
    let repo = env.repo("x");
    let long = "y".repeat(300_000);
    std::fs::write(
        env.root().join("event"),
        format!("{{\"activity\":{{\"kind\":\"message\",\"text\":\"{long}\"}}}}\n{{\"activity\":{{\"kind\":\"torn\n"),
    )
    .unwrap();
    repo.run(&[("a", "RUN: cat ../../../event\nSESSION: s-9\nWRITE: a: a")], &[]).ok();
    let run = repo.status_of("a")["run"].clone();
    assert_eq!(run["session"], "s-9");
    let claim = repo.reported("a")["claim"].as_str().unwrap().to_owned();
    assert!(claim.starts_with("yyyy") && claim.len() <= 4 << 10, "{claim:.80}");
}

#[test]
fn logs_are_followed_without_a_gap_and_end_with_the_run() {
    let env = Env::new();
    let repo = env.repo("x");
    let says: String = (1..=50).map(|n| format!("SAY: word {n}\n")).collect();
    repo.start(&[("a", &format!("SAY: first\nWAITFILE: ../go\n{says}WRITE: a: a"))], &[]);
    repo.env.until("it has begun", || repo.agents(&["logs", "a"]).stdout.contains("first"));
    let (typed, raw, last) = (
        repo.spawn(&["logs", "-f", "a"]),
        repo.spawn(&["logs", "-f", "--raw", "a"]),
        repo.spawn(&["logs", "-f", "-n", "1", "a"]),
    );
    env.until("they look on", || typed.stdout().contains("first") && raw.stdout().contains("first"));
    repo.write("../x.agents/go", "");
    let out = typed.finish(&env).ok();
    let words: Vec<String> = out.stdout.lines().filter_map(|l| Some(l.split("says    ").nth(1)?.to_owned())).collect();
    let expected: Vec<String> =
        std::iter::once("first".to_owned()).chain((1..=50).map(|n| format!("word {n}"))).collect();
    assert_eq!(words, expected);
    let mut file = Vec::new();
    std::fs::File::open(repo.run_dir("a").join("output.log")).unwrap().read_to_end(&mut file).unwrap();
    assert_eq!(raw.finish(&env).ok().bytes, file);
    assert!(last.finish(&env).ok().stdout.ends_with("done    finished\n"));
}

#[test]
fn the_last_lines_and_those_since() {
    let env = Env::new();
    let repo = env.repo("x");
    // What says nothing to a person is no line.
    repo.run(&[("a", "SAY: one\nUSAGE: 0.1 2\nSAY: two\nUSAGE: 0.2 3\nWRITE: a: a")], &[]).ok();
    let lines = |args: &[&str]| -> Vec<String> {
        let out = repo.agents(&[&["logs"], args, &["a"]].concat()).ok().stdout;
        out.lines().map(|l| l[10..].trim().to_owned()).collect()
    };
    assert_eq!(lines(&["-n", "3"]), ["says    two", "tool    write: a", "done    finished"]);
    assert_eq!(lines(&["--since", "1h"]).len(), 4);
    assert_eq!(lines(&["--since", "2020-01-01T00:00:00Z"]).len(), 4);
    let future = (jiff::Timestamp::now() + std::time::Duration::from_secs(60)).to_string();
    assert!(lines(&["--since", &future]).is_empty());
    repo.agents(&["logs", "--since", "soon", "a"]).code(129);
    repo.agents(&["logs", "--since", "1h", "--raw", "a"]).code(129);
    assert!(repo.agents(&["logs", "--setup", "a"]).ok().stderr.contains("no such log"));
    repo.agents(&["logs", "--supervisor", "a"]).ok();
}

#[test]
fn logs_of_several_agents_are_one_story_in_time() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.run(&[("a", "SAY: one\nWRITE: a: a"), ("b", "SAY: two\nWRITE: a: a")], &["-j", "1"]).ok();
    let out = repo.agents(&["logs", "--batch", "1"]).ok().stdout;
    let said: Vec<&str> = out.lines().filter(|l| l.contains("says")).map(|l| l[10..].trim()).collect();
    assert_eq!(said, ["a  says    one", "b  says    two"]);
    let times: Vec<&str> = out.lines().map(|l| &l[..8]).collect();
    assert!(times.is_sorted(), "{times:?}");
}
