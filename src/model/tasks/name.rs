//! Names: what may be one, and one made from a title.

use std::collections::HashSet;

/// A name made from a title is at most this long.
const LONGEST: usize = 30;

/// Refs of git's own, which a branch of that name would hide or be hidden by.
fn reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    matches!(
        name.as_str(),
        "head"
            | "fetch_head"
            | "orig_head"
            | "merge_head"
            | "cherry_pick_head"
            | "revert_head"
            | "rebase_head"
            | "bisect_head"
            | "auto_merge"
            | "refs"
    )
}

/// Characters that are not seen or change the order of what is seen: a name with them is not what it looks like.
pub(super) fn invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{115f}' | '\u{1160}'
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffd}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether `name` may be an agent's name: what `git check-ref-format --branch` accepts, less what means something
/// else to us (a number is that task of the last batch, `@` the agent here) or looks like something else.
///
/// The error says what is wrong and quotes the name, escaped where it has characters that a terminal would obey.
pub fn check_name(name: &str) -> Result<(), String> {
    let no = |why: &str| Err(format!("'{}' is not a name: {why}", name.escape_debug()));
    if name.is_empty() {
        return Err("a name cannot be empty".to_owned());
    }
    if name.len() > 200 {
        return Err("a name is at most 200 bytes long".to_owned());
    }
    if let Some(c) = name.chars().find(|c| c.is_control() || c.is_whitespace() || invisible(*c)) {
        return no(&format!("it contains '{}'", c.escape_unicode()));
    }
    if let Some(c) = name.chars().find(|c| "~^:?*[\\".contains(*c)) {
        return no(&format!("git does not allow '{c}' in a branch"));
    }
    if name.bytes().all(|b| b.is_ascii_digit()) {
        return no("a number alone means a task of the last batch");
    }
    if matches!(name.len(), 40 | 64) && name.bytes().all(|b| b.is_ascii_hexdigit()) {
        return no("it looks like an object id");
    }
    if name == "@" || reserved(name) || name.to_ascii_lowercase().starts_with("refs/") {
        return no("git means something else by it");
    }
    if name.starts_with('-') {
        return no("it would be taken for an option");
    }
    if name.contains("..") || name.contains("@{") || name.ends_with('.') {
        return no("git does not allow '..', '@{' or '.' at the end");
    }
    for part in name.split('/') {
        if part.is_empty() {
            return no("a '/' stands between two parts");
        }
        if part.starts_with('.') || part.to_ascii_lowercase().ends_with(".lock") {
            return no("no part starts with '.' or ends with '.lock'");
        }
        if part.len() > 100 {
            return no("a part is longer than 100 bytes");
        }
    }
    Ok(())
}

/// Names that are in use, as a file system sees them: without case, and no name a directory of another.
#[derive(Default)]
pub(super) struct Used {
    names: HashSet<String>,
    directories: HashSet<String>,
}

impl Used {
    pub(super) fn add(&mut self, name: &str) {
        let name = name.to_lowercase();
        self.directories.extend(name.match_indices('/').map(|(i, _)| name[..i].to_owned()));
        self.names.insert(name);
    }

    /// Whether `name` cannot stand beside those in use.
    pub(super) fn clashes(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let inside = |(i, _): (usize, &str)| self.names.contains(&name[..i]);
        self.names.contains(&name) || self.directories.contains(&name) || name.match_indices('/').any(inside)
    }
}

/// The plain letters of an accented one; nothing for what has none.
fn plain(c: char) -> &'static str {
    match c {
        'à'..='ã' | 'å' | 'ā' | 'ă' | 'ą' => "a",
        'ä' | 'æ' => "ae",
        'ç' | 'ć' | 'č' => "c",
        'ď' | 'đ' => "d",
        'è'..='ë' | 'ē' | 'ę' | 'ě' => "e",
        'ğ' => "g",
        'ì'..='ï' | 'ī' | 'ı' => "i",
        'ł' => "l",
        'ñ' | 'ń' | 'ň' => "n",
        'ò'..='õ' | 'ø' | 'ō' | 'ő' => "o",
        'ö' | 'œ' => "oe",
        'ř' => "r",
        'ś' | 'š' | 'ş' => "s",
        'ß' => "ss",
        'ť' | 'ţ' => "t",
        'ù'..='û' | 'ū' | 'ů' | 'ű' => "u",
        'ü' => "ue",
        'ý' | 'ÿ' => "y",
        'ź' | 'ż' | 'ž' => "z",
        _ => "",
    }
}

/// A name from the first words of a title: `[a-z0-9-]`, at most 30 characters, cut between words where there is a
/// word that fits. Without a letter or digit of that kind, and beside git's own names, `number` helps.
pub fn from_title(title: &str, number: u32) -> String {
    let mut words = vec![String::new()];
    // 'ä' is 'ae' only in small letters; folding first saves half of the table.
    for c in title.chars().flat_map(char::to_lowercase) {
        let word = words.last_mut().expect("starts with one word");
        if c.is_ascii_alphanumeric() {
            word.push(c);
        } else if !plain(c).is_empty() {
            word.push_str(plain(c));
        } else if c != '\'' && c != '’' && !word.is_empty() {
            words.push(String::new());
        }
    }
    let mut name = String::new();
    for word in words.iter().filter(|w| !w.is_empty()) {
        if name.is_empty() {
            name.push_str(&word[..word.len().min(LONGEST)]);
        } else if name.len() + 1 + word.len() <= LONGEST {
            name.push('-');
            name.push_str(word);
        } else {
            break;
        }
    }
    if name.is_empty() {
        return format!("task-{number}");
    }
    if reserved(&name) || !name.contains(|c: char| c.is_ascii_lowercase()) {
        name.insert_str(0, "task-");
        return shorten(&name, LONGEST).to_owned();
    }
    name
}

/// `base` with room for `suffix`, and `suffix`.
pub(super) fn with_suffix(base: &str, suffix: &str) -> String {
    format!("{}{suffix}", shorten(base, LONGEST.saturating_sub(suffix.len()).max(8)))
}

/// At most `length` bytes of an ASCII name, cut between words when that leaves at least half.
fn shorten(name: &str, length: usize) -> &str {
    if name.len() <= length {
        return name;
    }
    let cut = &name[..length];
    let at_word = if name.as_bytes()[length] == b'-' { Some(length) } else { cut.rfind('-') };
    cut[..at_word.filter(|i| *i * 2 >= length).unwrap_or(length)].trim_end_matches('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_are_refused() {
        for name in [
            "",
            "@",
            "HEAD",
            "head",
            "Orig_Head",
            "12",
            "refs/heads/x",
            "REFS/x",
            "-x",
            "a..b",
            "a.lock",
            "a.lock/b",
            "x.LOCK",
            ".a",
            "a/.b",
            "a.",
            "/a",
            "a/",
            "a//b",
            "a b",
            "a\tb",
            "a\u{7f}",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[b",
            "a\\b",
            "a@{b",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\u{feff}",
            "a\u{a0}b",
            "a\u{85}b",
            "0123456789abcdef0123456789abcdef01234567",
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name(&"x".repeat(101)).is_err());
        assert!(check_name(&["x".repeat(100), "y".repeat(100)].join("/")).is_err());
        assert!(!check_name("a\u{1b}[2J").unwrap_err().contains('\u{1b}'));
    }

    #[test]
    fn names_that_are_accepted() {
        for name in
            ["a", "feat/foo", "Feat-1.2", "a@b", "日本語", "größe", "a{b}", "x/HEAD", "12a", "a/-b", "lock", "x/12"]
        {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn titles() {
        for (title, name) in [
            ("Add CSV export to the brand list", "add-csv-export-to-the-brand"),
            ("Fix the pagination bug of /deals/{id}", "fix-the-pagination-bug-of"),
            ("Don't panic!", "dont-panic"),
            ("Größe der Bücher ändern", "groesse-der-buecher-aendern"),
            ("日本語を直す", "task-7"),
            ("日本語 CSV", "csv"),
            ("404", "task-404"),
            ("HEAD", "task-head"),
            ("…", "task-7"),
            ("", "task-7"),
            ("Donaudampfschifffahrtsgesellschaftskapitän", "donaudampfschifffahrtsgesellsc"),
        ] {
            assert_eq!(from_title(title, 7), name, "{title}");
        }
    }

    #[test]
    fn names_beside_each_other() {
        let mut used = Used::default();
        ["a", "B/c/d", "É"].iter().for_each(|n| used.add(n));
        for name in ["A", "a/x", "A/x/y", "b", "b/C", "b/c/d", "b/c/d/e", "é"] {
            assert!(used.clashes(name), "{name}");
        }
        for name in ["ab", "b/cd", "b/x", "c", "e"] {
            assert!(!used.clashes(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_title_gives_a_name(title in ".{0,80}", number in 0u32..) {
            let name = from_title(&title, number);
            prop_assert!(check_name(&name).is_ok(), "{}", name);
            prop_assert!(name.len() <= LONGEST && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            prop_assert!(check_name(&with_suffix(&name, "-2")).is_ok());
        }

        #[test]
        fn any_name_is_answered(name in ".{0,40}") {
            let _ = check_name(&name);
        }
    }
}
