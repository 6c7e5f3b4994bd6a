//! What an agent's environment is made of, and how a program runs in it.

pub mod adapter;
pub mod job;
