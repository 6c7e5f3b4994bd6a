//! `run -o FILE`: the report is in the file when the batch has settled, whoever looks on then.

use crate::support::Env;

#[test]
fn a_detached_batch_leaves_its_report_when_the_last_one_settles() {
    let env = Env::new();
    let repo = env.repo("x");
    let go = env.root().join("go");
    let slow = format!("WAITFILE: {}\nWRITE: slow.txt: x\nCOMMIT: slow", go.display());
    repo.start(&[("quick", "WRITE: quick.txt: x\nCOMMIT: quick"), ("slow", &slow)], &["-q", "-o", "../night.html"]);
    repo.reaches("quick", "succeeded");
    let file = repo.join("../night.html");
    assert!(!file.exists());
    std::fs::write(&go, "").unwrap();
    env.until("the report", || file.exists());
    let html = std::fs::read_to_string(&file).unwrap();
    assert!(html.contains("<!doctype html>") && html.contains(">2 ready<"), "{html}");
    env.until("nothing of it runs", || env.processes().is_empty());
    // As any other file of the user's.
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o044, 0o044);
    // It is written once for one end; what the user does with it is theirs.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(repo.agents(&["wait", "-q"]).ok().stderr, "");
    repo.agents(&["report"]).ok();
    assert!(!file.exists());
    // Another end is another report.
    repo.agents(&["send", "slow", "WRITE: more.txt: x\nCOMMIT: more"]).ok();
    repo.agents(&["wait", "slow"]).ok();
    env.until("nothing of it runs", || env.processes().is_empty());
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.contains("more.txt"));
    // Who goes is no end of anybody: the page keeps what it told of them.
    repo.agents(&["land", "-q", "quick"]).ok();
    repo.agents(&["rm", "-q", "slow"]).ok();
    repo.agents(&["restore", "-q", "slow"]).ok();
    repo.agents(&["report"]).ok();
    repo.agents(&["wait"]).ok();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), page);
}

#[test]
fn a_path_that_cannot_be_written_is_an_error_before_anything_starts() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("../plain", "x");
    for (path, why) in [
        ("/no/such/dir/r.html", "is in a directory that does not exist"),
        ("../plain/r.html", "is in a directory that does not exist"),
        ("..", "is a directory"),
        ("/proc/r.html", "cannot be written"),
    ] {
        let out = repo.agents(&["run", "-d", "-a", "scripted", "-o", path, "WRITE: a.txt: a"]).code(128);
        // Even root cannot write there.
        assert!(out.stderr.contains(why) && out.stderr.contains("nothing was started"), "{path}: {out}");
    }
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "");
    assert_eq!(repo.git(&["branch", "--list", "agents/*"]), "");
}

#[test]
fn what_a_killed_or_hindered_supervisor_did_not_write_the_next_command_does() {
    let env = Env::new();
    let repo = env.repo("x");
    std::fs::create_dir(repo.join("../out")).unwrap();
    let go = env.root().join("go");
    let task = format!("WAITFILE: {}\nWRITE: a.txt: x\nCOMMIT: a", go.display());
    repo.start(&[("a", &task)], &["-q", "-o", "../out/r.md"]);
    repo.reaches("a", "running");
    // Its directory is away when it settles.
    std::fs::rename(repo.join("../out"), repo.join("../away")).unwrap();
    std::fs::write(&go, "").unwrap();
    repo.reaches("a", "succeeded");
    env.until("nothing of it runs", || env.processes().is_empty());
    let out = repo.agents(&["report"]).ok();
    assert!(out.stderr.contains("warning: the report of batch 1 could not be written: "), "{out}");
    std::fs::rename(repo.join("../away"), repo.join("../out")).unwrap();
    let out = repo.agents(&["wait"]).ok();
    assert!(out.stderr.contains("the report is in '"), "{out}");
    assert!(repo.read("../out/r.md").starts_with("# batch 1: 1 of 1 agent ready\n"));
    // Killed outright, it is dead and that is what the report says.
    repo.start(&[("b", "SLEEP: 100")], &["-q", "-o", "../out/b.md"]);
    repo.reaches("b", "running");
    let (supervisor, assistant) = repo.pids("b");
    for pid in [Some(supervisor), assistant].into_iter().flatten() {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    env.until("it is dead", || repo.state("b") == "dead");
    repo.agents(&["report"]).ok();
    assert!(repo.read("../out/b.md").contains("its supervisor was killed"), "{}", repo.read("../out/b.md"));
}
