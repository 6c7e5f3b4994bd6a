//! This machine: files, locks, processes, the user's own state.

pub mod user;
