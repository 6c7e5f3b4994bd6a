//! What an agent's environment is made of, and how a program runs in it.

pub mod adapter;
pub mod files;
pub mod job;
pub mod log;
pub mod watch;

/// What went wrong with an environment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The assistant.
    #[error(transparent)]
    Adapter(#[from] adapter::Error),
    /// Files taken along.
    #[error(transparent)]
    Files(#[from] files::Error),
}
