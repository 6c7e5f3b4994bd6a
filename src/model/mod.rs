//! What there is: names, states, events, task lists, levels of overlap. Pure; no file, process or clock.

pub mod agent;
pub mod detect;
pub mod event;
pub mod flags;
pub mod hook_file;
pub mod json_edit;
pub mod junit;
pub mod meet;
pub mod overlap;
pub mod skill;
pub mod symbols;
pub mod task;
pub mod tasks;
pub mod testcases;
pub mod testlog;
pub mod text;
pub mod units;
pub mod verdict;
