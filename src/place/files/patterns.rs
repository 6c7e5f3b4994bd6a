//! Which files are meant: gitignore patterns, and which ignored directories they name.

use super::Error;
use globset::{GlobBuilder, GlobMatcher};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::path::Path;

/// The patterns of the settings and those of `.worktreeinclude`. Each set follows gitignore (the last match of a set
/// wins, `!` takes back); what either means is meant.
pub(super) struct Patterns {
    sets: Vec<Gitignore>,
    ways: Vec<Way>,
}

/// A pattern by its components.
struct Way {
    parts: Vec<Part>,
    /// Ends with `/`.
    directory: bool,
}

enum Part {
    /// `**`
    Any,
    Name {
        glob: GlobMatcher,
        /// Matches everything, so it names nothing.
        wild: bool,
        /// Without any wildcard.
        literal: bool,
    },
}

impl Patterns {
    pub(super) fn new(copy: &[String], include_file: Option<&str>) -> Result<Patterns, Error> {
        let mut out = Patterns { sets: Vec::new(), ways: Vec::new() };
        out.add(copy.iter().map(String::as_str), "copy")?;
        let text = include_file.unwrap_or_default();
        out.add(text.strip_prefix('\u{feff}').unwrap_or(text).lines(), ".worktreeinclude")?;
        Ok(out)
    }

    fn add<'a>(&mut self, lines: impl Iterator<Item = &'a str>, origin: &'static str) -> Result<(), Error> {
        let mut builder = GitignoreBuilder::new("");
        let wrong = |line: &str, e: String| Error::Pattern { pattern: line.to_owned(), origin, why: e };
        for line in lines {
            builder.add_line(None, line).map_err(|e| wrong(line, e.to_string()))?;
            let line = line.trim_end();
            if !line.is_empty() && !line.starts_with(['#', '!']) {
                self.ways.push(Way::new(line).map_err(|e| wrong(line, e.to_string()))?);
            }
        }
        let set = builder.build().map_err(|e| wrong("", e.to_string()))?;
        if !set.is_empty() {
            self.sets.push(set);
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Whether a pattern means this entry, or a directory above it.
    pub(super) fn matches(&self, path: &Path, is_dir: bool) -> bool {
        self.sets.iter().any(|set| set.matched_path_or_any_parents(path, is_dir).is_ignore())
    }

    /// Whether a pattern leads into the directory `path`, of which the first `top` components are the uppermost
    /// ignored one. That one must be named: by a component that is more than wildcards; when it is the pattern's last,
    /// without any wildcard or with a `/` behind it. So `vendor/x.key`, `vendor/**`, `vendor/` and `vendor` lead
    /// into `vendor`; `**/.env`, `*` and `ven*` do not, or every pattern would search `node_modules`.
    pub(super) fn lead_into(&self, path: &Path, top: usize) -> bool {
        let names: Vec<&OsStr> = path.iter().collect();
        self.ways.iter().any(|way| way.leads(&way.parts, &names, 0, top))
    }
}

impl Way {
    fn new(pattern: &str) -> Result<Way, globset::Error> {
        let bare = pattern.strip_suffix('/').unwrap_or(pattern);
        let anchored = bare.contains('/');
        let mut parts = if anchored { Vec::new() } else { vec![Part::Any] };
        for name in bare.split('/').filter(|n| !n.is_empty()) {
            parts.push(match name {
                "**" => Part::Any,
                _ => Part::Name {
                    glob: GlobBuilder::new(name).literal_separator(true).build()?.compile_matcher(),
                    wild: name.chars().all(|c| matches!(c, '*' | '?')),
                    literal: !name.contains(['*', '?', '[', '{']),
                },
            });
        }
        Ok(Way { parts, directory: bare.len() < pattern.len() })
    }

    fn leads(&self, parts: &[Part], names: &[&OsStr], at: usize, top: usize) -> bool {
        let Some(name) = names.get(at) else { return true };
        match parts.split_first() {
            // The pattern ended at a directory above: all below is meant, if that is not above the ignored one.
            None => at >= top,
            Some((Part::Any, rest)) => {
                self.leads(rest, names, at, top) || (at + 1 != top && self.leads(parts, names, at + 1, top))
            }
            Some((Part::Name { glob, wild, literal }, rest)) => {
                let named = at + 1 != top || (!wild && (*literal || self.directory || !rest.is_empty()));
                named && glob.is_match(name) && self.leads(rest, names, at + 1, top)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(pattern: &str, path: &str, top: usize) -> bool {
        Patterns::new(&[pattern.to_owned()], None).unwrap().lead_into(Path::new(path), top)
    }

    #[test]
    fn an_ignored_directory_must_be_named() {
        for pattern in [
            "vendor",
            "vendor/",
            "/vendor/",
            "vendor/x.key",
            "vendor/**",
            "vendor/**/x",
            "ven*/",
            "ven*/x",
            "**/vendor/x",
            "vendor/*",
        ] {
            assert!(leads(pattern, "vendor", 1), "{pattern}");
        }
        for pattern in
            ["*", "*/", "**", "**/.env", "*/x", "ven*", ".env", "x/vendor", "/x", "!vendor", "#vendor", "**/*/x"]
        {
            assert!(!leads(pattern, "vendor", 1), "{pattern}");
        }
    }

    #[test]
    fn below_a_named_one_the_pattern_says_how_far() {
        assert!(leads("vendor/**", "vendor/a/b", 1));
        assert!(leads("vendor/*/x", "vendor/a", 1));
        assert!(leads("vendor/a/", "vendor/a/b", 1));
        assert!(!leads("vendor/a/x", "vendor/b", 1));
        assert!(leads("apps/*/secrets/x", "apps/web/secrets", 3));
        assert!(!leads("apps/", "apps/web/node_modules", 3), "apps is not what is ignored");
        assert!(!leads("apps/**", "apps/web/node_modules", 3));
        assert!(leads("secrets", "apps/web/secrets/deep", 3));
    }

    #[test]
    fn both_sets_count_and_each_takes_back_its_own() {
        let patterns = Patterns::new(&[".env*".to_owned()], Some("# keys\n*.key\n!public.key\n!.env.x\n")).unwrap();
        for (path, wanted) in [("a/b/.env.x", true), ("a/x.key", true), ("a/public.key", false), ("a/b", false)] {
            assert_eq!(patterns.matches(Path::new(path), false), wanted, "{path}");
        }
    }

    #[test]
    fn a_wrong_pattern_is_named() {
        let error = Patterns::new(&["a/[b".to_owned()], None).err().unwrap().to_string();
        assert!(error.contains("'a/[b'") && error.contains("copy"), "{error}");
    }
}
