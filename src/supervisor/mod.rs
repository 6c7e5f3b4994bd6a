//! The detached parent of one assistant.
pub mod log;
