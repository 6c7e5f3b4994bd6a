//! This machine: files, locks, processes, the user's own state.

pub mod clock;
pub mod files;
pub mod lock;
pub mod process;
pub mod resolver;
pub mod signals;
pub mod user;
