//! What there is: names, states, events, task lists, levels of overlap. Pure; no file, process or clock.

pub mod agent;
pub mod event;
pub mod tasks;
pub mod units;
