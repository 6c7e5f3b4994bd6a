//! The `git-agents` binary.

fn main() {}
