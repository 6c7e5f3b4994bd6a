//! The `git-agents` binary.

fn main() {
    std::process::exit(git_agents::cli::main());
}
