//! Settings, the project's own file, templates, approvals.
