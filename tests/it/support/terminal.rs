//! A command with a terminal of its own, made by script(1).

use super::env::{Env, run};
use super::out::Out;
use std::ffi::OsStr;
use std::path::Path;

/// `git agents ARGS` in `dir` with a terminal as all three streams: what the terminal shows is its standard output.
/// `vars` come on top of its variables.
pub fn agents<A: AsRef<OsStr>>(env: &Env, dir: &Path, args: &[A], vars: &[(&str, &str)]) -> Out {
    let quoted = |a: &A| format!("'{}'", a.as_ref().to_str().unwrap().replace('\'', r"'\''"));
    let line = format!("exec git agents {}", args.iter().map(quoted).collect::<Vec<_>>().join(" "));
    // `-e`: its exit code; `-q`: nothing of script's own.
    let mut command = env.command("script", dir);
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).env("TERM", "xterm").env("COLUMNS", "100").env("LINES", "40");
    command.envs(vars.iter().copied());
    run(command, b"")
}

#[test]
fn a_program_started_so_has_a_terminal_and_its_exit_code_comes_through() {
    let env = Env::new();
    let repo = env.repo("x");
    env.script("git-agents", "#!/bin/sh\ntest -t 0 && test -t 1 && test -t 2 && echo \"$1\" && exit 7\n");
    assert_eq!(agents(&env, repo.path(), &["it's"], &[]).code(7).stdout, "it's\r\n");
}
