//! What an agent's environment is made of.

pub mod files;
