//! Single values as a person writes them. Durations, sizes and sums are read by [`crate::model::units`].

pub use crate::model::text::{invisible, shown};

/// How many agents work at once.
pub fn parse_parallel(s: &str) -> Result<usize, String> {
    let wrong = || format!("'{}' is not a number from 1 to 256", shown(s));
    s.trim().parse().ok().filter(|n| (1..=256).contains(n)).ok_or_else(wrong)
}

/// How often a failed attempt is repeated.
pub fn parse_retries(s: &str) -> Result<u32, String> {
    let wrong = || format!("'{}' is not a number from 0 to 100", shown(s));
    s.trim().parse().ok().filter(|n| *n <= 100).ok_or_else(wrong)
}

/// A boolean in git's words.
pub fn parse_bool(s: &str) -> Result<bool, String> {
    match s.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" | "" => Ok(false),
        _ => Err(format!("'{}' is neither 'true' nor 'false'", shown(s))),
    }
}

/// A revision for `base`: anything git could resolve, nothing git would take for an option.
pub fn parse_base(s: &str) -> Result<String, String> {
    let bad = |c: char| c.is_whitespace() || c.is_control();
    if s.is_empty() || s.starts_with('-') || s.contains(bad) {
        return Err(format!("'{}' cannot be a revision", shown(s)));
    }
    Ok(s.to_owned())
}

/// The name of an assistant: `[a-z0-9_-]`, begins with a letter.
pub fn parse_assistant(s: &str) -> Result<String, String> {
    let tail = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if s.len() > 40 || !s.starts_with(|c: char| c.is_ascii_lowercase()) || !s.chars().all(tail) {
        let message = "cannot be an assistant's name; lower-case letters, digits, '-' and '_' can, after a letter";
        return Err(format!("'{}' {message}", shown(s)));
    }
    Ok(s.to_owned())
}

/// One or more names of assistants as `run -a` takes them: `claude`, `claude,codex`, `claude*2`.
pub fn parse_assistants(s: &str) -> Result<String, String> {
    for one in s.split(',') {
        let (name, times) = one.split_once('*').unwrap_or((one, "1"));
        parse_assistant(name)?;
        parse_parallel(times)?;
    }
    Ok(s.to_owned())
}

/// What stands before the names that are made from tasks. Empty is allowed: then nothing stands there.
pub fn parse_branch_prefix(s: &str) -> Result<String, String> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
    let part = |p: &str| p.starts_with('.') || p.ends_with('.') || p.ends_with(".lock");
    let parts_wrong = s.strip_suffix('/').unwrap_or(s).split('/').any(|p| p.is_empty() || part(p));
    if s.starts_with('-') || s.contains(bad) || s.contains("..") || s.contains("@{") || (!s.is_empty() && parts_wrong) {
        return Err(format!("'{}' cannot begin a branch name", shown(s)));
    }
    Ok(s.to_owned())
}

/// The one pattern of files that are meant: it cannot take something back.
pub fn parse_files(s: &str) -> Result<String, String> {
    match s.starts_with('!') {
        true => Err(format!("'{}' matches nothing", shown(s))),
        false => parse_pattern(s),
    }
}

/// A gitignore pattern below the root of the checkout.
pub fn parse_pattern(s: &str) -> Result<String, String> {
    let quoted = shown(s);
    let body = s.strip_prefix('!').unwrap_or(s);
    if body.trim().is_empty() || s.starts_with('#') {
        return Err(format!("'{quoted}' matches nothing"));
    }
    if body.starts_with('/') || body.starts_with('~') {
        return Err(format!("'{quoted}' is not relative; patterns are taken from the root of the checkout"));
    }
    let parts = || body.split(['/', '\\']);
    if parts().any(|p| p == "..") {
        return Err(format!("'{quoted}' leaves the checkout"));
    }
    if parts().any(|p| p == ".") {
        return Err(format!("'{quoted}' matches nothing; leave out './'"));
    }
    if parts().any(|p| p.eq_ignore_ascii_case(".git")) {
        return Err(format!("'{quoted}' names git's own directory"));
    }
    // What git silently matches nothing with is a mistake here.
    let mut strict = ignore::gitignore::GitignoreBuilder::new("/");
    let built = strict.allow_unclosed_class(false).add_line(None, s).map(drop);
    built.map_err(|e| format!("'{quoted}' is not a pattern: {}", glob_reason(&e)))?;
    Ok(s.to_owned())
}

/// A pattern of files that are not work: one that matches every file would throw away work.
pub fn parse_throw_away(s: &str) -> Result<String, String> {
    let pattern = parse_pattern(s)?;
    if pattern.chars().all(|c| matches!(c, '*' | '/' | '?' | '!')) {
        return Err(format!("'{}' would throw away every file", shown(s)));
    }
    Ok(pattern)
}

/// The reason alone; the crate's own message repeats the pattern.
fn glob_reason(e: &ignore::Error) -> String {
    match e {
        ignore::Error::Glob { err, .. } => err.clone(),
        ignore::Error::WithLineNumber { err, .. } | ignore::Error::WithPath { err, .. } => glob_reason(err),
        other => other.to_string(),
    }
}

/// Names of environment variables; `*` stands for any run of characters.
pub fn parse_env_pattern(s: &str) -> Result<String, String> {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '*';
    if s.is_empty() || s.starts_with(|c: char| c.is_ascii_digit()) || !s.chars().all(ok) {
        return Err(format!("'{}' cannot be the name of an environment variable", shown(s)));
    }
    Ok(s.to_owned())
}

/// A list in one line, as git configuration and the environment have it: separated by blanks.
pub fn parse_list(s: &str, one: fn(&str) -> Result<String, String>) -> Result<Vec<String>, String> {
    s.split_whitespace().map(one).collect()
}

/// The one of `known` that `word` was most likely meant to be.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let fold = |s: &str| s.replace('_', "-").to_lowercase();
    let folded = fold(word);
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(&folded, &fold(k)), k))
        .filter(|(distance, k)| *distance <= (k.len().max(word.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_stay_in_the_checkout() {
        for good in
            [".env*", "config/master.key", "node_modules", "!keep.log", "coverage/**", "a..b", ".github", "[ab].c"]
        {
            assert_eq!(parse_pattern(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            " ",
            "/etc/passwd",
            "~/x",
            "../x",
            "a/../../x",
            "!../x",
            "a\\..\\x",
            "./x",
            ".git",
            "x/.GIT/hooks",
            "[z-a]",
            "#x",
        ] {
            assert!(parse_pattern(bad).is_err(), "{bad}");
        }
        for bad in ["*", "**", "**/*", "!*", "?*"] {
            assert!(parse_throw_away(bad).is_err_and(|e| e.contains("every file")), "{bad}");
        }
    }

    #[test]
    fn branch_prefixes_git_would_take() {
        for good in ["agents/", "", "wip-", "a/b/"] {
            assert!(parse_branch_prefix(good).is_ok(), "{good}");
        }
        for bad in ["-x/", "/x", "a//", "a b/", "a..b/", ".a/", "x.lock/", "a@{/", "a~", "a\\b/", "/"] {
            assert!(parse_branch_prefix(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_word_that_was_meant_is_found() {
        assert_eq!(closest("paralel", ["parallel", "time"]), Some("parallel"));
        assert_eq!(closest("clone_limit", ["clone", "clone-limit"]), Some("clone-limit"));
        assert_eq!(closest("zebra", ["parallel", "time"]), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_value_or_a_message(s in "\\PC{0,24}|[0-9]{0,22}[a-zA-Z]{0,3}") {
            if let Err(message) = parse_pattern(&s) {
                prop_assert!(invisible(&message).is_none(), "{message:?}");
            }
        }
    }
}
