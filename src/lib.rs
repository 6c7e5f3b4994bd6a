//! `git agents`: one task becomes one branch, one worktree, one environment and one assistant.
//!
//! Layers, lowest first; a module imports only what stands below it (`tests/it/layers.rs` keeps it so):
//! `model` ← `runtime` ← `git` ← `config` ← `place` ← `ops` ← `supervisor` ← `cli`.

pub mod cli;
pub mod config;
pub mod git;
pub mod model;
pub mod ops;
pub mod place;
pub mod runtime;
pub mod supervisor;
