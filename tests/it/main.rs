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
mod assistants;
mod checks;
mod clean;
mod cli;
mod clock;
mod completion;
mod create;
mod diff;
mod doctor;
mod errors;
mod expire;
mod faults;
mod history;
mod hook_managers;
mod hooks;
mod init;
mod json_schemas;
mod kill;
mod land;
mod land_kill;
mod landed;
mod layers;
mod layouts;
mod licences;
mod lists;
mod manual;
mod meetings;
mod merged;
mod older_git;
mod overlap;
mod places;
mod power;
mod push;
mod readme;
mod reasons;
mod removal_table;
mod remove;
mod report;
mod report_facts;
mod report_formats;
mod report_wanted;
mod restore;
mod run_env;
mod run_json;
mod run_logs;
mod skills;
mod state;
mod streams;
mod supervise;
#[allow(dead_code, unused_imports, reason = "no build uses every part of it")]
mod support;
mod surroundings;
mod survival;
mod sync;
mod sync_kill;
mod talk;
mod trust;
mod verdicts;
