//! The command line: arguments, calls, rendering.
