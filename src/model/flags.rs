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
        "secret" => "committed what looks like a secret",
        "conflict-markers" => "left conflict markers",
        "submodule" => "changed submodules",
        "link-outside" => "added links that lead out of the repository",
        _ => "changed",
    }
}

/// Whether files of that name hold secrets, whatever is in them.
pub fn is_secret_name(path: &[u8]) -> bool {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let example = |rest: &str| {
        let last = rest.rsplit('.').next().unwrap_or_default();
        matches!(last, "example" | "sample" | "template" | "tmpl" | "dist" | "defaults" | "schema")
    };
    match name {
        ".env" | ".netrc" | ".pgpass" | ".htpasswd" | "id_rsa" | "id_dsa" | "id_ecdsa" | "id_ed25519" => true,
        _ => {
            name.strip_prefix(".env.").is_some_and(|rest| !example(rest))
                || [".p12", ".pfx", ".jks", ".keystore", ".kdbx"].iter().any(|e| name.ends_with(e))
        }
    }
}

/// Private keys in a text: headers that begin a line. In a string of a program they do not.
pub fn private_keys(text: &str) -> usize {
    let is_header = |l: &&str| {
        let inner = l.trim_end().strip_prefix("-----BEGIN ").and_then(|l| l.strip_suffix("-----"));
        inner.is_some_and(|i| i.ends_with("PRIVATE KEY") || i.ends_with("PRIVATE KEY BLOCK"))
    };
    text.lines().filter(is_header).count()
}

/// Conflicts that git wrote into a text and nobody resolved.
pub fn conflict_markers(text: &str) -> usize {
    let (mut out, mut begun) = (0, false);
    for l in text.lines() {
        begun |= l.starts_with("<<<<<<< ");
        if begun && l.starts_with(">>>>>>> ") {
            (out, begun) = (out + 1, false);
        }
    }
    out
}

/// Whether the link at `path` with that target leads out of its repository.
pub fn leads_outside(path: &[u8], target: &str) -> bool {
    let mut depth = path.iter().filter(|b| **b == b'/').count();
    target.starts_with('/')
        || target.split('/').any(|part| {
            match part {
                ".." if depth == 0 => return true,
                ".." => depth -= 1,
                "" | "." => {}
                _ => depth += 1,
            }
            false
        })
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
    fn secrets_are_told_by_name_or_by_the_head_of_a_key() {
        for (path, is) in [
            (".env", true),
            ("web/.env.production", true),
            (".env.example", false),
            (".env.local.sample", false),
            (".envrc", false),
            ("keys/id_ed25519", true),
            ("keys/id_ed25519.pub", false),
            ("a.pfx", true),
            ("env", false),
        ] {
            assert_eq!(is_secret_name(path.as_bytes()), is, "{path}");
        }
        assert_eq!(private_keys("a\n-----BEGIN RSA PRIVATE KEY-----\nx\n-----BEGIN PGP PRIVATE KEY BLOCK-----\r\n"), 2);
        assert_eq!(private_keys("let a = \"-----BEGIN PRIVATE KEY-----\";\n-----BEGIN PUBLIC KEY-----\n"), 0);
    }

    #[test]
    fn conflicts_and_links_out_of_the_tree_are_seen() {
        assert_eq!(conflict_markers("a\n<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> b\nc\n"), 1);
        assert_eq!(conflict_markers("Title\n=======\n>>>>>>> quoted\n<<<<<<<\n"), 0);
        for (path, target, out) in [
            ("a", "b/c", false),
            ("a", "../x", true),
            ("d/a", "../x", false),
            ("d/a", "../../x", true),
            ("a", "/etc/passwd", true),
            ("d/a", "x/../../b", false),
        ] {
            assert_eq!(leads_outside(path.as_bytes(), target), out, "{path} -> {target}");
        }
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
