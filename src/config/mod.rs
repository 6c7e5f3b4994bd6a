//! Settings, the project's own file, templates, approvals.
//!
//! What the repository says is data until a person approved it: nothing here runs or reads anything by itself, but
//! [`project::load`], which reads the one file.

mod digest;
mod keys;
mod named;
pub mod plan;
pub mod project;
pub mod settings;
pub mod table;
pub mod template;
pub mod value;
mod walk;

pub use plan::{Approval, ApprovedPlan, Wanted, approve, wanted};
pub use project::{CommandSpec, Mistake, Project};
pub use settings::{CheckConflict, Flags, Settings, Sources, resolve};

use std::path::PathBuf;

/// Every key of the project's file.
pub fn file_keys() -> impl Iterator<Item = &'static str> {
    keys::KEYS.iter().copied()
}

/// What can be wrong with the configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Mistakes in the project's file, all of them.
    #[error("{}", with_hints(.mistakes))]
    Project {
        /// In the order of their lines.
        mistakes: Vec<Mistake>,
    },
    /// Values that cannot be used, all of them.
    #[error("{}", listed(.problems))]
    Settings {
        /// In the order of the settings.
        problems: Vec<settings::BadValue>,
    },
    /// A template that cannot be rendered.
    #[error(transparent)]
    Template(#[from] template::Error),
    /// The project's file is there and cannot be read.
    #[error("cannot read '{}': {source}", crate::model::text::shown_path(.path))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The project's file is a link, a directory, a pipe or a device.
    #[error("'{}' is not a regular file", crate::model::text::shown_path(.path))]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Project { mistakes } if mistakes.len() == 1 => mistakes.iter().find_map(|m| m.hint.clone()),
            Error::Settings { problems } => problems.iter().find_map(settings::BadValue::hint),
            Error::Template(template::Error::Forbidden { .. }) => {
                Some("write braces that are meant as they are as '{{ \"{%\" }}'".to_owned())
            }
            Error::NotAFile { .. } => Some("a link could name a file outside the repository; copy it here".to_owned()),
            _ => None,
        }
    }
}

/// Several hints under one error would not say which mistake they belong to: each stands beside its own.
fn with_hints(mistakes: &[Mistake]) -> String {
    let several = mistakes.len() > 1;
    let line = |m: &Mistake| match m.hint.as_ref().filter(|_| several) {
        Some(hint) => format!("{m} ({hint})"),
        None => m.to_string(),
    };
    mistakes.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn listed<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join("\n")
}
