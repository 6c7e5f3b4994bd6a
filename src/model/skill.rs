//! What assistants read to know us: the two skills and the command files, each with a mark by which it is known again.
//!
//! The mark is a digest of the text around it, so a file says by itself whether it is as we wrote it, whatever version of
//! ours did, and on whatever machine.

/// The mark before it is filled in.
const BLANK: &str = "\"git-agents 000000000000\"";
/// How a mark begins.
const MARK: &str = "\"git-agents ";
/// Digits of a mark.
const DIGITS: usize = 12;

/// One skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skill {
    /// Its name: the directory, and what is typed after `/`.
    pub name: &'static str,
    /// One line, for a command file.
    pub about: &'static str,
    /// Its `SKILL.md`, unmarked.
    pub text: &'static str,
}

/// Both.
pub const SKILLS: [Skill; 2] = [
    Skill {
        name: "worktree",
        about: "Create, list, enter or remove a worktree with git agents",
        text: include_str!("../../skills/worktree/SKILL.md"),
    },
    Skill {
        name: "parallel",
        about: "Work on several tasks at the same time with git agents",
        text: include_str!("../../skills/parallel/SKILL.md"),
    },
];

/// How an assistant writes a command of the user's own, for those that make none of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandFile {
    /// `NAME.toml` with a prompt (gemini).
    Toml,
    /// `NAME.md` (opencode).
    Markdown,
}

impl CommandFile {
    /// The name of the file for a skill.
    pub fn file_name(self, skill: &Skill) -> String {
        match self {
            CommandFile::Toml => format!("{}.toml", skill.name),
            CommandFile::Markdown => format!("{}.md", skill.name),
        }
    }

    /// Its text, unmarked: the skill's own words with what the user typed behind the command.
    pub fn text(self, skill: &Skill) -> String {
        let body = skill.text.splitn(3, "---\n").nth(2).unwrap_or(skill.text).trim();
        match self {
            CommandFile::Toml => format!(
                "# written-by = {BLANK}\ndescription = \"{}\"\nprompt = '''\n{body}\n\nThe user's words:\n\n{{{{args}}}}\n'''\n",
                skill.about
            ),
            CommandFile::Markdown => format!(
                "---\ndescription: {}\nwritten-by: {BLANK}\n---\n\n{body}\n\nThe user's words:\n\n$ARGUMENTS\n",
                skill.about
            ),
        }
    }
}

/// What stands where one of our files would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Absent,
    /// The file as this version writes it.
    Current,
    /// As another version wrote it.
    OtherVersion,
    /// Ours, changed since.
    Edited,
    /// Somebody else's.
    Foreign,
}

/// `text` with its mark filled in. `digest` gives a hexadecimal digest of at least twelve digits.
pub fn marked(text: &str, digest: impl Fn(&str) -> String) -> String {
    let mark = format!("{MARK}{}\"", &digest(text)[..DIGITS]);
    text.replacen(BLANK, &mark, 1)
}

/// What `there` is, beside `wanted`, which is marked.
pub fn look(there: Option<&[u8]>, wanted: &str, digest: impl Fn(&str) -> String) -> Found {
    let Some(there) = there else { return Found::Absent };
    if there == wanted.as_bytes() {
        return Found::Current;
    }
    let Ok(text) = std::str::from_utf8(there) else { return Found::Foreign };
    let Some(at) = text.find(MARK).map(|at| at + MARK.len()) else { return Found::Foreign };
    let Some(mark) = text.get(at..at + DIGITS).filter(|m| m.bytes().all(|b| b.is_ascii_hexdigit())) else {
        return Found::Foreign;
    };
    let blank = format!("{}{}{}", &text[..at], "0".repeat(DIGITS), &text[at + DIGITS..]);
    if digest(&blank)[..DIGITS] == *mark { Found::OtherVersion } else { Found::Edited }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> String {
        let sum = text.bytes().fold(7u64, |n, b| n.wrapping_mul(31).wrapping_add(b.into()));
        format!("{sum:016x}")
    }

    #[test]
    fn every_file_of_ours_is_known_again() {
        for skill in &SKILLS {
            assert!(skill.text.starts_with(&format!("---\nname: {}\ndescription: ", skill.name)));
            let files = [CommandFile::Toml, CommandFile::Markdown].map(|c| c.text(skill));
            for text in files.iter().map(String::as_str).chain([skill.text]) {
                assert_eq!(text.matches(BLANK).count(), 1);
                let ours = marked(text, digest);
                let look = |there: &str| look(Some(there.as_bytes()), &ours, digest);
                assert_eq!(look(&ours), Found::Current);
                assert_eq!(look(&format!("{ours}more")), Found::Edited);
                assert_eq!(look(&marked(&text.replace("user", "person"), digest)), Found::OtherVersion);
                assert_eq!(look("---\nname: worktree\n---\n"), Found::Foreign);
                assert_eq!(look("\"git-agents \u{fc}\u{fc}\u{fc}"), Found::Foreign);
            }
        }
        assert_eq!(look(None, "", digest), Found::Absent);
        assert_eq!(look(Some(b"\xff"), "", digest), Found::Foreign);
    }

    #[test]
    fn a_skill_keeps_to_the_format_that_assistants_read() {
        for skill in &SKILLS {
            let front = skill.text.split("---\n").nth(1).unwrap();
            let about = front.lines().find_map(|l| l.strip_prefix("description: ")).unwrap();
            assert!((1..=1024).contains(&about.len()) && !about.contains(": "), "{about}");
            assert!(skill.text.lines().count() < 500);
        }
    }

    #[test]
    fn a_command_file_is_what_its_assistant_parses() {
        for skill in &SKILLS {
            let table: toml::Table = CommandFile::Toml.text(skill).parse().unwrap();
            let prompt = table["prompt"].as_str().unwrap();
            assert!(prompt.contains("{{args}}") && prompt.contains("git agents") && !prompt.contains("name: "));
        }
    }
}
