//! git's own merges, tried in the private store: one `merge-tree --stdin` a core and a round.
//!
//! With `--stdin` the exit status says nothing. A record is clean, a conflict with at least one path, or *unknown*; what
//! a process that died has not answered is unknown too, and never clean.

use super::Result;
use super::repo::Repo;
use super::store::Store;
use crate::model::agent::Oid;
use crate::model::overlap::Kind;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;

/// What git's own merge of two commits says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// It combines; the tree.
    Clean(Oid),
    /// It stops on these paths.
    Conflict(BTreeMap<Vec<u8>, Kind>),
    /// It could not be told; why. Never to be read as clean.
    Unknown(String),
}

/// Merges each pair of commits in a store of its own. `base` gives the attributes: they are those of the place where
/// landing happens.
pub fn once(repo: &Repo, base: Option<&Oid>, pairs: &[(Oid, Oid)]) -> Result<Vec<Merge>> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    all(&Store::open(repo)?, base, pairs)
}

/// The same in `store`.
pub fn all(store: &Store, base: Option<&Oid>, pairs: &[(Oid, Oid)]) -> Result<Vec<Merge>> {
    /// A process more is worth its start from here on.
    const FEW: usize = 24;
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let tree = store.attributes_of(base)?;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let processes = cores.min(pairs.len().div_ceil(FEW));
    // Dealt in turn: neighbours share a side, and the slow pairs are those of one side.
    let hands: Vec<Vec<(Oid, Oid)>> =
        (0..processes).map(|n| pairs.iter().skip(n).step_by(processes).cloned().collect()).collect();
    let answers: Vec<Result<Vec<Merge>>> = std::thread::scope(|s| {
        let workers: Vec<_> = hands.iter().map(|hand| s.spawn(|| to_the_end(store, &tree, hand))).collect();
        let died = || Err(super::Error::Object("a part of the merges failed unexpectedly".into()));
        workers.into_iter().map(|w| w.join().unwrap_or_else(|_| died())).collect()
    });
    let mut answers = answers.into_iter().map(|a| Ok(a?.into_iter())).collect::<Result<Vec<_>>>()?;
    let missing = || Merge::Unknown("git merge-tree gave no answer".into());
    Ok((0..pairs.len()).map(|i| answers[i % processes].next().unwrap_or_else(missing)).collect())
}

/// The commits that a rebase of `tip` would pick, in its order: those that `upstream` does not reach, merges left out, and
/// those left out whose change is in `upstream` already.
pub fn picks(store: &Store, upstream: &Oid, tip: &Oid) -> Result<Vec<Oid>> {
    let tree = store.attributes_of(None)?;
    let range = format!("{upstream}...{tip}");
    let args = ["rev-list", "--reverse", "--topo-order", "--no-merges", "--right-only", "--cherry-pick", &range, "--"];
    let text = store.call(&tree, &args).text()?;
    Ok(text.lines().filter_map(Oid::parse).collect())
}

/// All of `pairs`, with a new process after each that died.
fn to_the_end(store: &Store, tree: &Path, pairs: &[(Oid, Oid)]) -> Result<Vec<Merge>> {
    let mut verdicts = Vec::with_capacity(pairs.len());
    while verdicts.len() < pairs.len() {
        let why = batch(store, tree, &pairs[verdicts.len()..], &mut verdicts)?;
        if verdicts.len() < pairs.len() {
            // It died on the pair after the last answer; the others get a process of their own.
            verdicts.push(Merge::Unknown(if why.is_empty() { "git merge-tree gave no answer".into() } else { why }));
        }
    }
    Ok(verdicts)
}

fn batch(store: &Store, tree: &Path, pairs: &[(Oid, Oid)], out: &mut Vec<Merge>) -> Result<String> {
    let mut child = store.call(tree, &["merge-tree", "--write-tree", "-z", "--stdin"]).spawn()?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let input: String = pairs.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    // From a thread: git writes answers while it still reads, and both pipes are small.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let mut stderr = child.stderr.take().expect("stderr is piped");
    let words = std::thread::spawn(move || {
        let mut s = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stderr, &mut s);
        String::from_utf8_lossy(&s).into_owned()
    });
    let mut reader = BufReader::new(child.stdout.take().expect("stdout is piped"));
    for pair in pairs {
        match record(&mut reader, pair) {
            Some(m) => out.push(m),
            None => break,
        }
    }
    // What it still has to say is nobody's: it must not wait for a reader.
    drop(reader);
    let _ = writer.join();
    let _ = child.wait();
    let words = words.join().unwrap_or_default();
    let said = words.lines().find(|l| l.starts_with("fatal: ") || l.starts_with("error: "));
    Ok(said.map(|l| l[7..].to_owned()).unwrap_or_default())
}

/// What git says of a conflicted path: the modes and objects it leaves in the index, and the words of its messages.
#[derive(Debug, Default)]
struct Said {
    /// By stage: of the merge base, the one side, the other.
    stages: [Option<(String, String)>; 3],
    /// Short types, and the text they come with.
    words: Vec<(String, String)>,
}

/// One record: status, tree, conflicted entries, an empty field; where it is a conflict, messages and an empty field.
fn record(reader: &mut impl BufRead, pair: &(Oid, Oid)) -> Option<Merge> {
    let mut next = || {
        let mut f = Vec::new();
        let n = reader.read_until(0, &mut f).ok()?;
        (n > 0 && f.pop() == Some(0)).then_some(f)
    };
    let text = |f: Vec<u8>| String::from_utf8(f).ok();
    let status = next()?;
    let tree = Oid::parse(&text(next()?)?)?;
    let mut found: BTreeMap<Vec<u8>, Said> = BTreeMap::new();
    loop {
        let f = next()?;
        if f.is_empty() {
            break;
        }
        let tab = f.iter().position(|b| *b == b'\t')?;
        let meta = std::str::from_utf8(&f[..tab]).ok()?;
        let [mode, id, stage] = meta.split(' ').collect::<Vec<_>>()[..] else { return None };
        let stage = stage.parse::<usize>().ok().filter(|s| (1..=3).contains(s))?;
        let said = found.entry(without_side(f[tab + 1..].to_vec(), pair)).or_default();
        said.stages[stage - 1] = Some((mode.to_owned(), id.to_owned()));
    }
    match status.as_slice() {
        b"1" => return Some(Merge::Clean(tree)),
        b"0" => {}
        _ => return Some(Merge::Unknown("git merge-tree gave an answer of another form".into())),
    }
    loop {
        let count = next()?;
        if count.is_empty() {
            break;
        }
        let count = text(count)?;
        if count.starts_with("Recursive merging with submodules") {
            // Advice that older versions print among the fields; it runs up to the empty one.
            break;
        }
        let count = count.parse::<usize>().ok()?;
        let paths = (0..count).map(|_| next()).collect::<Option<Vec<_>>>()?;
        let kind = String::from_utf8_lossy(&next()?).into_owned();
        let words = String::from_utf8_lossy(&next()?).into_owned();
        for path in paths {
            if let Some(said) = found.get_mut(&without_side(path, pair)) {
                said.words.push((kind.clone(), words.clone()));
            }
        }
    }
    if found.is_empty() {
        return Some(Merge::Unknown("git merge-tree names a conflict without a path".into()));
    }
    Some(Merge::Conflict(found.into_iter().map(|(path, said)| (path, said.kind())).collect()))
}

/// Where a file meets a directory git moves one of them aside, to `path~<side>`; we ask by commits, so that is an id.
fn without_side(mut path: Vec<u8>, pair: &(Oid, Oid)) -> Vec<u8> {
    for id in [&pair.0, &pair.1] {
        if path.strip_suffix(id.0.as_bytes()).is_some_and(|p| p.ends_with(b"~")) {
            path.truncate(path.len() - id.0.len() - 1);
        }
    }
    path
}

impl Said {
    fn kind(&self) -> Kind {
        let has = |word: &str| self.words.iter().any(|(k, _)| k.starts_with("CONFLICT") && k.contains(word));
        let any_mode = |m: &str| self.stages.iter().flatten().any(|(mode, _)| mode == m);
        let [base, ours, theirs] = &self.stages;
        if any_mode("160000") || has("submodule") {
            return Kind::Submodule;
        }
        let by_name = [
            ("file/directory", Kind::DirectoryFile),
            ("directory rename", Kind::DirectoryRename),
            ("rename/rename", Kind::RenameRename),
            ("rename involved", Kind::RenameRename),
            ("rename/delete", Kind::RenameDelete),
            ("modify/delete", Kind::ModifyDelete),
        ];
        if let Some((_, kind)) = by_name.iter().find(|(word, _)| has(word)) {
            return *kind;
        }
        if any_mode("120000") {
            return Kind::Symlink;
        }
        match (base, ours, theirs) {
            (_, Some(a), Some(b)) if a.1 == b.1 && a.0 != b.0 => Kind::Mode,
            _ if has("binary") => Kind::Binary,
            (None, Some(_), Some(_)) => Kind::AddAdd,
            (Some(_), Some(_), Some(_)) => Kind::Content,
            (Some(_), ..) => Kind::ModifyDelete,
            // In nobody's way and in no base: it has come here by a rename of the other side.
            _ => Kind::RenameRename,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Oid, Oid) {
        (Oid("a".repeat(40)), Oid("b".repeat(40)))
    }

    fn read(text: &str) -> Option<Merge> {
        record(&mut text.replace('|', "\0").replace('@', &"1".repeat(40)).as_bytes(), &pair())
    }

    #[test]
    fn only_two_forms_are_answers() {
        let tree = Oid("1".repeat(40));
        assert_eq!(read("1|@||"), Some(Merge::Clean(tree)));
        let conflict = read("0|@|100644 @ 1\tf|100644 @ 2\tf|100644 @ 3\tf||1|f|CONFLICT (contents)|in f\n||");
        assert_eq!(conflict, Some(Merge::Conflict([(b"f".to_vec(), Kind::Content)].into())));
        // Cut off, a conflict without a path, a status nobody knows.
        for (text, is_answer) in [("", false), ("1|@", false), ("1|x||", false), ("0|@|100644 @ 1\tf|", false)] {
            assert_eq!(read(text).is_some(), is_answer, "{text}");
        }
        assert!(matches!(read("0|@|||"), Some(Merge::Unknown(_))));
        assert!(matches!(read("2|@||"), Some(Merge::Unknown(_))));
        assert_eq!(read("0|@|100644 @ 2\tf||1|f|CONFLICT"), None);
    }

    #[test]
    fn a_file_that_was_moved_aside_is_named_by_its_place() {
        let text = format!("0|@|100644 @ 2\tx~{}||1|x|CONFLICT (file/directory)|x||", pair().0);
        assert_eq!(read(&text), Some(Merge::Conflict([(b"x".to_vec(), Kind::DirectoryFile)].into())));
    }
}
