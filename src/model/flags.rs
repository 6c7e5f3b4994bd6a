//! Changed files that a person should look at whatever the rest says, by what they are called.

/// The word of a flag for `path`, where its name gives reason for one.
pub fn kind_of(path: &[u8]) -> Option<&'static str> {
    let path = std::str::from_utf8(path).ok()?;
    let (dirs, name) = path.rsplit_once('/').map_or(("", path), |(d, n)| (d, n));
    let below = |dir: &str| dirs == dir || dirs.starts_with(&format!("{dir}/"));
    if regenerated_by(path.as_bytes()).is_some() {
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

/// The command that writes the lock file `path` again; `None` for other files.
pub fn regenerated_by(path: &[u8]) -> Option<&'static str> {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    LOCK_FILES.iter().find(|(n, _)| n.as_bytes() == name).map(|(_, command)| *command)
}

/// The number that orders a migration (digits at the beginning of its name, also behind a `V`), leading zeros aside, and
/// the directory in which it has to be unique; `None` for other files.
pub fn migration_number(path: &[u8]) -> Option<(&str, &str)> {
    let path = std::str::from_utf8(path).ok()?;
    let (dir, name) = path.rsplit_once('/')?;
    if kind_of(path.as_bytes()) != Some("migration") && !dir.split('/').any(|d| matches!(d, "migration" | "versions")) {
        return None;
    }
    let digits = name.strip_prefix(['V', 'v']).unwrap_or(name);
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    let number = digits[..end].trim_start_matches('0');
    (end > 0 && matches!(digits.as_bytes()[end], b'_' | b'-' | b'.'))
        .then_some((dir, if number.is_empty() { "0" } else { number }))
}

/// Written by package managers, and the command that writes it again from what people wrote: two that merge cleanly may
/// still be wrong together.
const LOCK_FILES: &[(&str, &str)] = &[
    ("Cargo.lock", "cargo update --workspace"),
    ("package-lock.json", "npm install"),
    ("npm-shrinkwrap.json", "npm install"),
    ("yarn.lock", "yarn install"),
    ("pnpm-lock.yaml", "pnpm install"),
    ("bun.lock", "bun install"),
    ("bun.lockb", "bun install"),
    ("deno.lock", "deno install"),
    ("composer.lock", "composer update --lock"),
    ("Gemfile.lock", "bundle lock"),
    ("poetry.lock", "poetry lock"),
    ("uv.lock", "uv lock"),
    ("pdm.lock", "pdm lock"),
    ("Pipfile.lock", "pipenv lock"),
    ("go.sum", "go mod tidy"),
    ("mix.lock", "mix deps.get"),
    ("pubspec.lock", "dart pub get"),
    ("Podfile.lock", "pod install"),
    ("Package.resolved", "swift package resolve"),
    ("packages.lock.json", "dotnet restore --force-evaluate"),
    ("flake.lock", "nix flake lock"),
    ("gradle.lockfile", "gradle dependencies --write-locks"),
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

    #[test]
    fn a_lock_file_names_the_command_that_writes_it() {
        assert_eq!(regenerated_by(b"web/package-lock.json"), Some("npm install"));
        assert_eq!(regenerated_by(b"Cargo.lock.orig"), None);
    }

    #[test]
    fn migrations_meet_in_their_numbers() {
        for (path, number) in [
            ("app/migrations/0007_add_x.py", Some(("app/migrations", "7"))),
            ("app/migrations/7_y.py", Some(("app/migrations", "7"))),
            ("db/migration/V12__y.sql", Some(("db/migration", "12"))),
            ("db/migrate/20240101120000_z.rb", Some(("db/migrate", "20240101120000"))),
            ("app/migrations/__init__.py", None),
            ("app/migrations/0007", None),
            ("app/models/0007_x.py", None),
        ] {
            assert_eq!(migration_number(path.as_bytes()), number, "{path}");
        }
    }
}
