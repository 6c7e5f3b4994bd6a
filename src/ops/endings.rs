//! git's refusal to overwrite files that nobody changed, in our words: it takes those for changed whose line endings are not
//! as the rules for them would have them.

use super::Error;
use crate::git;
use crate::model::text::safe_line;
use std::collections::BTreeSet;

/// Why git did not do it, and what to do; nothing where that is not the reason. `base`: short name of the branch whose rules
/// they are; `is_work`: whether somebody did change that file.
pub(super) fn explain(e: &Error, base: &str, is_work: impl Fn(&[u8]) -> bool) -> Option<(String, String)> {
    let Error::Git(git::Error::Failed { stderr, .. }) = e else { return None };
    // The list is indented in every language; it may come twice.
    let named: BTreeSet<&str> = stderr.lines().filter_map(|l| l.strip_prefix('\t')).collect();
    if named.is_empty() || named.iter().any(|p| is_work(p.as_bytes())) {
        return None;
    }
    let shown = super::land::plan::list(&named.iter().map(|p| safe_line(p.as_bytes())).collect::<Vec<_>>());
    let why = format!(
        "git takes for changed what nobody changed: {shown}; the line endings that are stored are not those that \
         '.gitattributes' or core.autocrlf ask for"
    );
    Some((why, format!("commit 'git add --renormalize .' on '{base}' first")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_changed_is_explained() {
        let of = |stderr: &str| {
            Error::Git(git::Error::Failed { args: "merge".into(), code: Some(1), stderr: stderr.into() })
        };
        let said = "error: Your local changes to the following files would be overwritten by merge:\n\ta.txt\n\tb.txt\n\ta.txt\n";
        let (why, _) = explain(&of(said), "main", |_| false).unwrap();
        assert!(why.contains("nobody changed: a.txt, b.txt;"), "{why}");
        assert_eq!(explain(&of(said), "main", |p| p == b"b.txt"), None);
        assert_eq!(explain(&of("error: something else\n"), "main", |_| false), None);
    }
}
