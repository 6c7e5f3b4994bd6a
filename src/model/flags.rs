//! Changed files that a person should look at whatever the rest says, by what they are called.

/// The word of a flag for `path`, where its name gives reason for one.
pub fn kind_of(path: &[u8]) -> Option<&'static str> {
    let path = std::str::from_utf8(path).ok()?;
    let (dirs, name) = path.rsplit_once('/').map_or(("", path), |(d, n)| (d, n));
    let below = |dir: &str| dirs == dir || dirs.starts_with(&format!("{dir}/"));
    if LOCK_FILES.contains(&name) {
        Some("lock-file")
    } else if [".github", ".gitlab", ".circleci", ".buildkite", ".husky", ".githooks"].iter().any(|d| below(d))
        || RUN_BY_OTHERS.contains(&path)
        || name == ".gitattributes"
    {
        Some("ci-or-hook")
    } else if dirs.split('/').any(|d| matches!(d, "migrations" | "migrate" | "alembic")) {
        Some("migration")
    } else {
        None
    }
}

/// Written by package managers: two that merge cleanly may still be wrong together.
const LOCK_FILES: &[&str] = &[
    "Cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.lock",
    "composer.lock",
    "Gemfile.lock",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "Pipfile.lock",
    "go.sum",
    "mix.lock",
    "pubspec.lock",
    "Podfile.lock",
    "Package.resolved",
    "packages.lock.json",
    "flake.lock",
    "gradle.lockfile",
];

/// What other programs run on their own, at the top of a repository.
const RUN_BY_OTHERS: &[&str] = &[
    ".gitlab-ci.yml",
    ".travis.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".git-agents.toml",
    ".gitmodules",
    ".envrc",
];

/// The flag in words.
pub fn words(kind: &str) -> &'static str {
    match kind {
        "lock-file" => "changed a lock file: after merging, let its package manager write it again",
        "ci-or-hook" => "changed what others run by themselves",
        "migration" => "changed migrations",
        "large-binary" => "added large binary files",
        _ => "changed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_reason_only_where_they_stand() {
        for (path, kind) in [
            ("Cargo.lock", Some("lock-file")),
            ("web/package-lock.json", Some("lock-file")),
            ("docs/Cargo.lock.md", None),
            (".github/workflows/ci.yml", Some("ci-or-hook")),
            ("x/.github/workflows/ci.yml", None),
            (".husky/pre-commit", Some("ci-or-hook")),
            (".githubs/x", None),
            ("Jenkinsfile", Some("ci-or-hook")),
            ("docs/Jenkinsfile", None),
            ("src/.gitattributes", Some("ci-or-hook")),
            ("db/migrations/001.sql", Some("migration")),
            ("db/migrations.md", None),
            ("src/main.rs", None),
        ] {
            assert_eq!(kind_of(path.as_bytes()), kind, "{path}");
        }
        assert_eq!(kind_of(b"\xff/Cargo.lock"), None);
    }
}
