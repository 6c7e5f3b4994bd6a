//! The detached parent of one assistant.
