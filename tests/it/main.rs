//! Integration tests: one binary, a file a command or a theme. What they stand on is in `support`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "rules for code that users run"
)]

mod adopt;
mod create;
mod kill;
mod layers;
mod layouts;
mod licences;
mod older_git;
mod places;
mod removal_table;
mod remove;
mod restore;
mod state;
#[allow(dead_code, unused_imports, reason = "no build uses every part of it")]
mod support;
