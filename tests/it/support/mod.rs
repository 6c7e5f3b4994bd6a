//! What the tests stand on. Each test makes an [`Env`]: a machine of its own, with a home, state, a git and an end for
//! every process it started.

pub mod agents;
pub mod env;
pub mod hostile;
pub mod invariants;
pub mod kill;
pub mod model;
pub mod out;
pub mod processes;
pub mod repo;
pub mod terminal;
pub mod tokens;
pub mod tree;
pub mod wait;

pub use env::Env;
pub use invariants::{Before, repo_invariants};
pub use out::Out;
pub use repo::Repo;
pub use tree::{assert_same_tree, tree_state};
