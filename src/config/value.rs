//! Single values as a person writes them: durations, sizes, words, and how a hostile value is shown.

use std::str::FromStr;

/// The longest duration that is taken: ten years. More is a slip, and would overflow clocks.
const LONGEST: u64 = 10 * 365 * 86_400;

/// A limit that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(
    /// Seconds; `None` is `off`.
    pub Option<u64>,
);

impl FromStr for Limit {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        if s.trim() == "off" {
            return Ok(Limit(None));
        }
        match parse_duration(s)? {
            0 => Err(format!("'{}' would end everything at once; 'off' is no limit", shown(s))),
            seconds => Ok(Limit(Some(seconds))),
        }
    }
}

/// A duration in seconds: numbers with `s`, `m`, `h` or `d`, largest unit first, as `90s`, `2h`, `1h30m`.
pub fn parse_duration(s: &str) -> Result<u64, String> {
    let wrong = || format!("'{}' is not a duration; write it as '90s', '30m', '2h' or '1h30m'", shown(s));
    let mut rest = s.trim();
    let mut total = 0u64;
    let mut unit_before = u64::MAX;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let mut chars = rest[digits..].chars();
        let unit = match chars.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            _ => return Err(wrong()),
        };
        // `30m1h` and `1h1h` are slips, not sums.
        if unit >= unit_before {
            return Err(wrong());
        }
        unit_before = unit;
        total = number
            .checked_mul(unit)
            .and_then(|n| total.checked_add(n))
            .filter(|n| *n <= LONGEST)
            .ok_or_else(|| format!("'{}' is longer than ten years", shown(s)))?;
        rest = chars.as_str();
    }
    Ok(total)
}

/// A size in bytes: a whole number with a unit. `KiB`, `MiB`, `GiB`, `TiB` and git's own `k`, `m`, `g`, `t` count in
/// 1024s; `kB`, `MB`, `GB`, `TB` in 1000s; `B` is bytes.
pub fn parse_size(s: &str) -> Result<u64, String> {
    let wrong = || format!("'{}' is not a size; write it as '500MiB' or '5GiB'", shown(s));
    let text = s.trim();
    if text == "0" {
        return Ok(0);
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match text[digits..].trim_start().to_ascii_lowercase().as_str() {
        "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(|| format!("'{}' is larger than this machine can count", shown(s)))
}

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

/// An amount in US dollars.
pub fn parse_cost(s: &str) -> Result<f64, String> {
    let wrong = || format!("'{}' is not an amount of dollars above 0, as '5' or '2.50'", shown(s));
    s.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0).ok_or_else(wrong)
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
    let built = ignore::gitignore::GitignoreBuilder::new("/").add_line(None, s).map(drop);
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

/// The first character that a person would not see, or that changes how the rest is shown. Text that is approved by
/// reading it must not contain any.
pub fn invisible(s: &str) -> Option<char> {
    let unseen = |c: char| {
        (c.is_control() && c != '\t' && c != '\n')
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}' | '\u{ffa0}')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
    };
    s.chars().find(|c| unseen(*c))
}

/// `s` for a message: one line, invisible characters escaped, cut after 80 characters.
pub fn shown(s: &str) -> String {
    let mut out = String::new();
    for (n, c) in s.chars().enumerate() {
        if n == 80 {
            out.push('…');
            break;
        }
        let mut buffer = [0; 4];
        if c == '\t' || c == '\n' || invisible(c.encode_utf8(&mut buffer)).is_some() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
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
    fn durations_as_people_write_them() {
        for (text, seconds) in
            [("90s", 90), ("30m", 1_800), ("2h", 7_200), ("1h30m", 5_400), ("1d", 86_400), (" 5m ", 300)]
        {
            assert_eq!(parse_duration(text), Ok(seconds), "{text}");
        }
        for text in ["", "2", "h", "2 h", "-1h", "30m1h", "1h1h", "2.5h", "99999999999999999999h", "11111111d", "1ü"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!("off".parse(), Ok(Limit(None)));
        assert_eq!("1m".parse(), Ok(Limit(Some(60))));
        assert!("0s".parse::<Limit>().is_err_and(|e| e.contains("'off' is no limit")));
    }

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [("5GiB", 5 << 30), ("5g", 5 << 30), ("1 MiB", 1 << 20), ("2MB", 2_000_000), ("7B", 7)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "5", "GiB", "-5GiB", "1.5GiB", "5XB", "99999999999999999999B", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

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
    fn a_message_shows_what_is_hidden() {
        assert_eq!(shown("a\u{202e}b\u{1b}[2J\n"), "a\\u{202e}b\\u{1b}[2J\\n");
        assert_eq!(shown(&"x".repeat(200)).chars().count(), 81);
        assert_eq!(closest("paralel", ["parallel", "time"]), Some("parallel"));
        assert_eq!(closest("clone_limit", ["clone", "clone-limit"]), Some("clone-limit"));
        assert_eq!(closest("zebra", ["parallel", "time"]), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_value_or_a_message(s in "\\PC{0,24}|[0-9]{0,22}[a-zA-Z]{0,3}") {
            for message in [parse_duration(&s).err(), parse_size(&s).err(), parse_pattern(&s).err()].into_iter().flatten() {
                prop_assert!(invisible(&message).is_none(), "{message:?}");
            }
        }
    }
}
