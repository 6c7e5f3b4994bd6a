//! The only door to git: the program, and gix for reading.
