//! What kind of project this is, told from the names at its top and the text of a few files: what a new worktree needs,
//! how it is tested, what is shared all the same.
//!
//! Nothing of the project is run for it, and no word of a file of its becomes part of a command: commands are those
//! below, so that what `init` proposes can be read before it is confirmed, whoever wrote the repository.

use std::collections::{BTreeMap, BTreeSet};

/// The files whose text matters; more is not read.
pub const READ: &[&str] = &[
    "package.json",
    "pyproject.toml",
    "requirements.txt",
    "requirements-dev.txt",
    "composer.json",
    "Gemfile",
    ".gitattributes",
    "compose.yaml",
    "compose.yml",
    "docker-compose.yml",
    "docker-compose.yaml",
];

/// The most bytes of one of them.
pub const LARGEST: u64 = 256 * 1024;

/// What was seen of a checkout.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Names at the top, files and directories.
    pub names: BTreeSet<String>,
    /// The text of those of [`READ`] that are there.
    pub texts: BTreeMap<String, String>,
    /// Paths that git ignores and that are there, directories with a slash at their end.
    pub ignored: BTreeSet<String>,
}

impl Seen {
    fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    fn any<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        names.iter().copied().find(|n| self.has(n))
    }

    fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }

    fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(self.text(name)).unwrap_or_default()
    }

    /// Whether a directory at the top is one that git ignores.
    fn ignores(&self, dir: &str) -> bool {
        self.ignored.contains(&format!("{dir}/"))
    }
}

/// What a project is made with, and what follows from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detected {
    /// In words, as `npm`.
    pub kinds: Vec<&'static str>,
    /// Commands for every new worktree.
    pub setup: Vec<&'static str>,
    /// Commands that test.
    pub tests: Vec<&'static str>,
    /// Ignored files to take along.
    pub copy: Vec<String>,
    /// Ignored directories to clone.
    pub clone: Vec<&'static str>,
    /// Whether there are submodules.
    pub submodules: bool,
    /// What else there is to know.
    pub noticed: Vec<String>,
}

impl Detected {
    fn add(&mut self, kind: &'static str, setup: Option<&'static str>, test: Option<&'static str>) {
        self.kinds.push(kind);
        self.setup.extend(setup);
        self.tests.extend(test);
    }

    /// The sections of `.git-agents.toml`, each a table and its lines.
    pub fn sections(&self) -> Vec<(&'static str, Vec<String>)> {
        let list = |words: Vec<&str>| {
            let quoted: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
            format!("[{}]", quoted.join(", "))
        };
        let mut worktree = Vec::new();
        if !self.copy.is_empty() {
            let names = list(self.copy.iter().map(String::as_str).collect());
            worktree.push(format!("copy = {names} # ignored files that every worktree needs"));
        }
        if !self.clone.is_empty() {
            worktree
                .push(format!("clone = {} # copy-on-write where the disk can; never linked", list(self.clone.clone())));
        }
        if self.submodules {
            worktree
                .push("submodules = \"local\" # those whose objects are here; or \"recursive\", \"none\"".to_owned());
        }
        let mut out = Vec::new();
        if !worktree.is_empty() {
            out.push(("worktree", worktree));
        }
        if !self.setup.is_empty() {
            out.push(("setup", vec![format!("run = {} # in every new worktree", list(self.setup.clone()))]));
        }
        if !self.tests.is_empty() {
            out.push(("test", vec![format!("command = \"{}\"", self.tests.join(" && "))]));
        }
        out
    }
}

/// Tells.
pub fn detect(seen: &Seen) -> Detected {
    let mut d = Detected::default();
    javascript(seen, &mut d);
    if seen.has("Cargo.toml") {
        let nextest = seen.has(".config/nextest.toml");
        d.add("cargo", None, Some(if nextest { "cargo nextest run" } else { "cargo test" }));
        d.clone.extend(seen.ignores("target").then_some("target"));
    }
    if seen.has("go.mod") {
        d.add("go", None, Some("go test ./..."));
    }
    python(seen, &mut d);
    ruby(seen, &mut d);
    php(seen, &mut d);
    if seen.has("pom.xml") {
        d.add("Maven", None, Some(if seen.has("mvnw") { "./mvnw -q test" } else { "mvn -q test" }));
    }
    if seen.any(&["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"]).is_some() {
        d.add("Gradle", None, Some(if seen.has("gradlew") { "./gradlew test" } else { "gradle test" }));
    }
    files(seen, &mut d);
    surroundings(seen, &mut d);
    d
}

fn javascript(seen: &Seen, d: &mut Detected) {
    if !seen.has("package.json") {
        return;
    }
    let package = seen.json("package.json");
    let manager = package["packageManager"].as_str().unwrap_or_default();
    let script = package["scripts"]["test"].as_str().filter(|s| !s.contains("no test specified"));
    let tested = |command| script.map(|_| command);
    // The lock file says who is in charge, and the manifest where there is none.
    if seen.has("pnpm-lock.yaml") || manager.starts_with("pnpm@") {
        d.add("pnpm", Some("pnpm install --frozen-lockfile"), tested("pnpm test"));
    } else if seen.has("yarn.lock") || manager.starts_with("yarn@") {
        let berry = seen.has(".yarnrc.yml") || (manager.starts_with("yarn@") && !manager.starts_with("yarn@1"));
        let setup = if berry { "yarn install --immutable" } else { "yarn install --frozen-lockfile" };
        d.add("yarn", Some(setup), tested("yarn test"));
        // It goes on from what is there; npm deletes it first, pnpm and bun link from a store.
        d.clone.extend((!berry && seen.ignores("node_modules")).then_some("node_modules"));
    } else if seen.any(&["bun.lock", "bun.lockb"]).is_some() || manager.starts_with("bun@") {
        d.add("bun", Some("bun install --frozen-lockfile"), tested("bun run test"));
    } else if seen.any(&["package-lock.json", "npm-shrinkwrap.json"]).is_some() {
        d.add("npm", Some("npm ci"), tested("npm test"));
    } else {
        d.add("npm", Some("npm install"), tested("npm test"));
        d.noticed.push("package.json has no lock file beside it: each worktree may get other versions".into());
    }
}

fn python(seen: &Seen, d: &mut Detected) {
    let project = seen.text("pyproject.toml");
    let requirements = seen.has("requirements.txt");
    let lists = [project, seen.text("requirements.txt"), seen.text("requirements-dev.txt")];
    let pytest = seen.any(&["pytest.ini", "conftest.py"]).is_some() || lists.iter().any(|text| text.contains("pytest"));
    let tested = |command| pytest.then_some(command);
    if seen.has("uv.lock") || project.contains("[tool.uv") {
        let setup = if seen.has("uv.lock") { "uv sync --locked" } else { "uv sync" };
        d.add("uv", Some(setup), tested("uv run pytest"));
    } else if seen.has("poetry.lock") || project.contains("[tool.poetry") {
        d.add("poetry", Some("poetry install"), tested("poetry run pytest"));
    } else if requirements {
        let setup = match seen.has("requirements-dev.txt") {
            true => "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt -r requirements-dev.txt",
            false => "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt",
        };
        d.add("pip", Some(setup), tested(".venv/bin/python -m pytest"));
    } else if project.contains("[project]") || seen.has("setup.py") {
        let setup = "python3 -m venv .venv && .venv/bin/pip install -q -e .";
        d.add("pip", Some(setup), tested(".venv/bin/python -m pytest"));
    } else {
        return;
    }
    if d.setup.last().is_some_and(|s| s.contains(".venv")) && !seen.ignores(".venv") {
        d.noticed.push("'.venv' is made in every worktree: see that .gitignore names it".into());
    }
}

fn ruby(seen: &Seen, d: &mut Detected) {
    if !seen.has("Gemfile") {
        return;
    }
    let test = if seen.has(".rspec") || (seen.has("spec") && seen.text("Gemfile").contains("rspec")) {
        Some("bundle exec rspec")
    } else if seen.has("test") && seen.text("Gemfile").contains("rails") {
        Some("bin/rails test")
    } else {
        (seen.has("test") && seen.has("Rakefile")).then_some("bundle exec rake test")
    };
    d.add("bundler", Some("bundle install"), test);
    d.clone.extend(seen.ignored.contains("vendor/bundle/").then_some("vendor/bundle"));
}

fn php(seen: &Seen, d: &mut Detected) {
    if !seen.has("composer.json") {
        return;
    }
    let script = !seen.json("composer.json")["scripts"]["test"].is_null();
    let phpunit = seen.any(&["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"]).is_some();
    let test = if script { Some("composer test") } else { phpunit.then_some("vendor/bin/phpunit") };
    d.add("composer", Some("composer install --no-interaction"), test);
    d.clone.extend(seen.ignores("vendor").then_some("vendor"));
}

/// Ignored files without which nothing starts.
fn files(seen: &Seen, d: &mut Detected) {
    let wanted = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let example = [".example", ".sample", ".template", ".dist"].iter().any(|e| name.ends_with(e));
        (name.starts_with(".env") && !example) || ["config/master.key", "local.properties", ".npmrc"].contains(&path)
    };
    // They become patterns: a name with a character of patterns, or none of text, is left to a person.
    let plain = |path: &str| path.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let found: Vec<&String> = seen.ignored.iter().filter(|p| !p.ends_with('/') && wanted(p) && plain(p)).collect();
    let deep = |p: &&&String| p.contains('/') && p.rsplit('/').next().is_some_and(|n| n.starts_with(".env"));
    if found.iter().any(|p| deep(&p)) {
        d.copy.push(".env*".into());
    }
    let all = !d.copy.is_empty();
    d.copy
        .extend(found.into_iter().filter(|p| !all || !p.rsplit('/').next().unwrap_or(p).starts_with(".env")).cloned());
    if seen.has(".env") && !seen.ignored.contains(".env") {
        d.noticed.push("'.env' is not ignored: all agents have the same one, or none".into());
    }
    if seen.has(".worktreeinclude") {
        d.noticed.push("'.worktreeinclude' names files to take along: it is honoured".into());
    }
}

fn surroundings(seen: &Seen, d: &mut Detected) {
    let compose = ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];
    if let Some(file) = seen.any(&compose) {
        let text = seen.text(file);
        let named = text.lines().any(|l| l.starts_with("name:") || l.trim_start().starts_with("container_name:"));
        let ports = text.lines().any(|l| l.trim() == "ports:" || l.trim_start().starts_with("ports: ["));
        let what = match (named, ports) {
            (true, true) => "names of containers and ports of its own",
            (true, false) => "names of containers of its own",
            (false, true) => "ports of its own",
            (false, false) => "nothing that collides",
        };
        let then = if named || ports { ": two agents cannot have it up at once" } else { "" };
        d.noticed.push(format!("'{file}' has {what}{then}"));
    }
    if seen.has(".gitmodules") {
        d.submodules = true;
    }
    if seen.text(".gitattributes").contains("filter=lfs") {
        d.noticed.push(
            "git-lfs keeps files of this repository: each worktree has its own, what is missing here is fetched".into(),
        );
    }
    if seen.has(".husky") {
        d.noticed.push("husky: in a new worktree its hooks run once the install command has run there".into());
    }
    let others = [
        ("lefthook", &["lefthook.yml", ".lefthook.yml", "lefthook.toml", ".lefthook.toml"][..]),
        ("pre-commit", &[".pre-commit-config.yaml", ".pre-commit-config.yml"]),
    ];
    for (tool, names) in others {
        if seen.any(names).is_some() {
            d.noticed.push(format!("{tool}: its hooks are those of the repository, agents' commits run them too"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(names: &[&str], texts: &[(&str, &str)], ignored: &[&str]) -> Detected {
        detect(&Seen {
            names: names.iter().chain(texts.iter().map(|(n, _)| n)).map(|n| (*n).to_owned()).collect(),
            texts: texts.iter().map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect(),
            ignored: ignored.iter().map(|n| (*n).to_owned()).collect(),
        })
    }

    #[test]
    fn each_kind_of_project_is_set_up_and_tested_by_its_own_tool() {
        const TESTED: &str = r#"{"scripts": {"test": "vitest"}}"#;
        const MODERN: &str = r#"{"packageManager": "yarn@4.1.0", "scripts": {"test": "x"}}"#;
        const PYTEST: &str = "[project]\nname = 'x'\n[dependency-groups]\ndev = ['pytest']\n";
        type Row<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, &'a str)], &'a str, &'a str);
        let rows: &[Row<'_>] = &[
            ("npm", &["package-lock.json"], &[("package.json", TESTED)], "npm ci", "npm test"),
            ("npm", &[], &[("package.json", "{}")], "npm install", ""),
            ("pnpm", &["pnpm-lock.yaml"], &[("package.json", TESTED)], "pnpm install --frozen-lockfile", "pnpm test"),
            ("yarn", &["yarn.lock"], &[("package.json", TESTED)], "yarn install --frozen-lockfile", "yarn test"),
            ("yarn", &["yarn.lock"], &[("package.json", MODERN)], "yarn install --immutable", "yarn test"),
            ("bun", &["bun.lock"], &[("package.json", TESTED)], "bun install --frozen-lockfile", "bun run test"),
            ("cargo", &["Cargo.toml", "Cargo.lock"], &[], "", "cargo test"),
            ("go", &["go.mod"], &[], "", "go test ./..."),
            ("uv", &["uv.lock"], &[("pyproject.toml", PYTEST)], "uv sync --locked", "uv run pytest"),
            ("poetry", &["poetry.lock"], &[("pyproject.toml", PYTEST)], "poetry install", "poetry run pytest"),
            (
                "pip",
                &["pytest.ini"],
                &[("requirements.txt", "flask\n")],
                "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt",
                ".venv/bin/python -m pytest",
            ),
            ("bundler", &[".rspec", "spec"], &[("Gemfile", "gem 'rspec'")], "bundle install", "bundle exec rspec"),
            ("bundler", &["test"], &[("Gemfile", "gem 'rails'")], "bundle install", "bin/rails test"),
            (
                "composer",
                &["phpunit.xml.dist"],
                &[("composer.json", "{}")],
                "composer install --no-interaction",
                "vendor/bin/phpunit",
            ),
            ("Maven", &["pom.xml", "mvnw"], &[], "", "./mvnw -q test"),
            ("Gradle", &["build.gradle.kts"], &[], "", "gradle test"),
        ];
        for (kind, names, texts, setup, test) in rows {
            let d = seen(names, texts, &[]);
            assert_eq!(d.kinds, [*kind], "{names:?}");
            assert_eq!((d.setup.concat().as_str(), d.tests.concat().as_str()), (*setup, *test), "{kind}");
        }
        assert_eq!(seen(&["README.md"], &[], &[]), Detected::default());
    }

    #[test]
    fn what_init_proposes_is_a_file_that_is_read() {
        let d = seen(
            &["Cargo.toml", "yarn.lock", ".gitmodules", ".husky", ".pre-commit-config.yaml"],
            &[("package.json", r#"{"scripts": {"test": "x"}}"#), (".gitattributes", "*.psd filter=lfs\n")],
            &["target/", "node_modules/", ".env", ".env.local", ".env.example"],
        );
        assert_eq!(d.tests, ["yarn test", "cargo test"]);
        assert_eq!(d.clone, ["node_modules", "target"]);
        assert_eq!(d.copy, [".env", ".env.local"]);
        assert_eq!(d.noticed.len(), 3, "{:?}", d.noticed);
        let text: String =
            d.sections().iter().map(|(table, lines)| format!("[{table}]\n{}\n", lines.join("\n"))).collect();
        let parsed: toml::Table = text.parse().unwrap();
        assert_eq!(parsed["test"]["command"].as_str(), Some("yarn test && cargo test"));
        assert_eq!(parsed["worktree"]["submodules"].as_str(), Some("local"));
    }

    #[test]
    fn a_hostile_checkout_puts_nothing_into_the_file() {
        let d = seen(
            &[],
            &[("package.json", "{\"scripts\": {\"test\": \"rm -rf ~\"}, \"packageManager\": \"pnpm@\\\"; rm\"}")],
            &[".env\"]\nrun=[\"x", ".env*", "apps/a/.env"],
        );
        assert_eq!((d.setup, d.tests), (vec!["pnpm install --frozen-lockfile"], vec!["pnpm test"]));
        assert_eq!(d.copy, [".env*"]);
        for text in ["", "{", "[]", "null", "{\"scripts\": 1}", "\u{0}"] {
            assert_eq!(seen(&[], &[("package.json", text)], &[]).kinds, ["npm"]);
        }
    }

    #[test]
    fn what_several_agents_would_share_is_said() {
        let said = |text: &str| seen(&[], &[("compose.yaml", text)], &[]).noticed.concat();
        assert!(said("services:\n  db:\n    ports:\n      - 5432:5432\n").contains("ports of its own"));
        assert!(said("services:\n  db:\n    container_name: db\n").contains("names of containers"));
        assert!(said("services:\n  db: {}\n").contains("nothing that collides"));
        assert!(seen(&[".env"], &[], &[]).noticed.concat().contains("'.env' is not ignored"));
    }
}
