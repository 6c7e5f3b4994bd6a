//! What the project's file wants to run or give away, and the gate in front of it.
//!
//! Whatever runs takes an [`ApprovedPlan`], and only [`approve`] makes one with something in it. The plan holds the
//! values that were approved, so a file that changes afterwards changes nothing. What counts as the same is the
//! content: every command, and the bytes of every script of the repository that a command names. What those scripts
//! call in turn is not followed; the manual says so.

use super::digest::sha256;
use super::named::Named;
use super::project::{Assistant, CommandSpec, Project, Submodules};
use crate::runtime::user::Approvals;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Reads a file of the checkout by its path from the root; `None` where no regular file stands there.
pub type ReadScript<'a> = dyn Fn(&str) -> Option<Vec<u8>> + 'a;

/// One thing that needs approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its key in the file, as `setup.run[0]`.
    pub key: String,
    /// What a person reads: the value as it could stand in the file, one line without invisible characters.
    pub text: String,
    /// The scripts of the repository that it names.
    pub scripts: Vec<Script>,
}

/// A script of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// From the root of the checkout.
    pub path: String,
    /// SHA-256 of its bytes, in hex.
    pub digest: String,
}

/// The values, as the file has them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Values {
    setup: Vec<CommandSpec>,
    test: Option<CommandSpec>,
    again: Option<CommandSpec>,
    assistants: BTreeMap<String, Assistant>,
    throw_away: Vec<String>,
    submodules: Submodules,
}

/// Everything that needs approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    items: Vec<Item>,
    values: Values,
    paths: Paths,
}

/// Paths that commands name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Paths {
    /// With the digest of what stands there. What is run is here also where nothing stands: one that appears is a change.
    named: BTreeMap<String, Option<String>>,
    /// Those that are run or read as a script.
    run: BTreeSet<String>,
}

impl Wanted {
    /// Nothing needs approval.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What needs approval, in the order of the file's documentation.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The text to show, kept with the approval so that a change can be shown: a line an item, a line a script.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for item in &self.items {
            let _ = writeln!(out, "{} = {}", item.key, item.text);
            for script in &item.scripts {
                let _ = writeln!(out, "  {} sha256:{}", super::value::shown(&script.path), script.digest);
            }
        }
        out
    }

    /// The digest over everything that is approved.
    pub fn digest(&self) -> String {
        let mut bytes = b"git-agents approval 1\0".to_vec();
        // Each part with its length: no two different lists make the same bytes.
        let mut part = |s: &str| {
            bytes.extend_from_slice(&(s.len() as u64).to_be_bytes());
            bytes.extend_from_slice(s.as_bytes());
        };
        for item in &self.items {
            part(&item.key);
            part(&item.text);
            part(&item.scripts.len().to_string());
            for script in &item.scripts {
                part(&script.path);
                part(&script.digest);
            }
        }
        sha256(&bytes)
    }

    /// The same without what was no file when `approved` was written, and is not run: the commands made it since, or it
    /// is theirs to make.
    fn as_approved_in(&self, approved: &str) -> Wanted {
        let known: BTreeSet<&str> =
            approved.lines().filter_map(|l| Some(l.strip_prefix("  ")?.rsplit_once(" sha256:")?.0)).collect();
        let counts = |path: &str| self.paths.run.contains(path) || known.contains(&*super::value::shown(path));
        let mut out = self.clone();
        for item in &mut out.items {
            item.scripts.retain(|s| counts(&s.path));
        }
        out.paths.named.retain(|path, _| counts(path));
        out
    }
}

/// What `project` wants. `read_script` reads from the same commit or checkout that the work will start from.
pub fn wanted(project: &Project, read_script: &ReadScript<'_>) -> Wanted {
    let mut found = Collector { read_script, items: Vec::new(), paths: Paths::default() };
    let setup = project.setup.clone().unwrap_or_default();
    for (n, command) in setup.iter().enumerate() {
        found.command(format!("setup.run[{n}]"), command);
    }
    if let Some(command) = &project.test.command {
        found.command("test.command".to_owned(), command);
    }
    if let Some(command) = &project.test.again {
        found.command("test.again".to_owned(), command);
    }
    let used =
        |a: &Assistant| a.command.is_some() || a.args.as_ref().is_some_and(|a| !a.is_empty()) || !a.env.is_empty();
    let assistants: BTreeMap<_, _> =
        project.assistants.iter().filter(|(_, a)| used(a)).map(|(n, a)| (n.clone(), a.clone())).collect();
    for (name, assistant) in &assistants {
        if let Some(command) = &assistant.command {
            found.command(format!("assistants.{name}.command"), command);
        }
        if let Some(args) = assistant.args.as_ref().filter(|args| !args.is_empty()) {
            found.add(format!("assistants.{name}.args"), quoted_list(args), Named::texts(args));
        }
        for (variable, value) in &assistant.env {
            found.add(format!("assistants.{name}.env.{variable}"), quoted(value), Named::texts([value]));
        }
    }
    let throw_away = project.throw_away.clone().unwrap_or_default();
    if !throw_away.is_empty() {
        found.add("cleanup.throw-away".to_owned(), quoted_list(&throw_away), Named::default());
    }
    let submodules = project.worktree.submodules.unwrap_or(Submodules::None);
    if submodules != Submodules::None {
        found.add("worktree.submodules".to_owned(), quoted(submodules.word()), Named::default());
    }
    let (test, again) = (project.test.command.clone(), project.test.again.clone());
    Wanted {
        items: found.items,
        values: Values { setup, test, again, assistants, throw_away, submodules },
        paths: found.paths,
    }
}

struct Collector<'a> {
    read_script: &'a ReadScript<'a>,
    items: Vec<Item>,
    paths: Paths,
}

impl Collector<'_> {
    fn command(&mut self, key: String, command: &CommandSpec) {
        match command {
            CommandSpec::Shell(line) => self.add(key, quoted(line), Named::line(line)),
            CommandSpec::Argv(argv) => self.add(key, quoted_list(argv), Named::argv(argv)),
        }
    }

    fn add(&mut self, key: String, text: String, named: Named) {
        let mut scripts = Vec::new();
        for path in named.all.union(&named.run) {
            let digest = digest_of(self.read_script, path);
            if digest.is_some() || named.run.contains(path) {
                self.paths.named.insert(path.clone(), digest.clone());
            }
            scripts.extend(digest.map(|digest| Script { path: path.clone(), digest }));
        }
        self.paths.run.extend(named.run);
        self.items.push(Item { key, text, scripts });
    }
}

fn digest_of(read_script: &ReadScript<'_>, path: &str) -> Option<String> {
    read_script(path).map(|bytes| sha256(&bytes))
}

/// A string as TOML and JSON write it: a shell line and an argv never look alike.
fn quoted(s: &str) -> String {
    serde_json::Value::from(s).to_string()
}

fn quoted_list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|s| quoted(s)).collect::<Vec<_>>().join(", "))
}

/// What may run and may be given away. There is no way to change one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedPlan {
    values: Values,
    named: BTreeMap<String, Option<String>>,
    digest: String,
}

impl ApprovedPlan {
    /// The plan that runs nothing of the project's: for those who go on without approval.
    pub fn nothing() -> ApprovedPlan {
        let nothing = wanted(&Project::default(), &|_| None);
        ApprovedPlan { digest: nothing.digest(), values: nothing.values, named: nothing.paths.named }
    }

    /// The commands of `[setup]`, in order.
    pub fn setup(&self) -> &[CommandSpec] {
        &self.values.setup
    }

    /// The command of `[test]`.
    pub fn test(&self) -> Option<&CommandSpec> {
        self.values.test.as_ref()
    }

    /// The command of `[test]` for some tests alone.
    pub fn again(&self) -> Option<&CommandSpec> {
        self.values.again.as_ref()
    }

    /// What the project says about the assistant `name`.
    pub fn assistant(&self, name: &str) -> Option<&Assistant> {
        self.values.assistants.get(name)
    }

    /// The names of all assistants the project says something about.
    pub fn assistants(&self) -> impl Iterator<Item = &str> {
        self.values.assistants.keys().map(String::as_str)
    }

    /// Untracked files that are not work.
    pub fn throw_away(&self) -> &[String] {
        &self.values.throw_away
    }

    /// What is done about submodules.
    pub fn submodules(&self) -> Submodules {
        self.values.submodules
    }

    /// The in-repository scripts that the commands of `[setup]` name, with the digest each was approved with (`None`:
    /// it was not there).
    pub fn setup_scripts(&self) -> BTreeMap<String, Option<String>> {
        self.named_by(Project { setup: Some(self.values.setup.clone()), ..Project::default() })
    }

    /// The same for the commands of `[test]`.
    pub fn test_scripts(&self) -> BTreeMap<String, Option<String>> {
        let (command, again) = (self.values.test.clone(), self.values.again.clone());
        let test = super::project::Test { command, again, ..Default::default() };
        self.named_by(Project { test, ..Project::default() })
    }

    /// The same for the command, the arguments and the variables of the assistant `name`.
    pub fn assistant_scripts(&self, name: &str) -> BTreeMap<String, Option<String>> {
        let assistants = self.assistant(name).map(|a| (name.to_owned(), a.clone())).into_iter().collect();
        self.named_by(Project { assistants, ..Project::default() })
    }

    fn named_by(&self, part: Project) -> BTreeMap<String, Option<String>> {
        let named = wanted(&part, &|_| Some(Vec::new())).paths.named;
        self.named.iter().filter(|(path, _)| named.contains_key(*path)).map(|(p, d)| (p.clone(), d.clone())).collect()
    }

    /// The digest it was approved under.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The scripts that are other than approved, or appeared, in what `read_script` reads: asked in the new worktree
    /// right before its commands run. Not empty means: do not run.
    pub fn changed_scripts(&self, read_script: &ReadScript<'_>) -> Vec<String> {
        changed_scripts(&self.named, read_script)
    }
}

/// [`ApprovedPlan::changed_scripts`] over scripts that were written down.
pub fn changed_scripts(named: &BTreeMap<String, Option<String>>, read_script: &ReadScript<'_>) -> Vec<String> {
    let other = |(path, digest): &(&String, &Option<String>)| digest_of(read_script, path) != **digest;
    named.iter().filter(other).map(|(path, _)| path.clone()).collect()
}

/// The answer of the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// It may run.
    Approved(ApprovedPlan),
    /// A person must be asked, or it is denied.
    Needed {
        /// What to ask about.
        wanted: Wanted,
        /// Where something was approved before: what is different, lines with `-`, `+` or a blank in front.
        changed: Option<String>,
    },
}

/// Lets `wanted` through if it is approved, as it is, for this repository. Nothing wanted needs no approval.
pub fn approve(wanted: Wanted, approvals: &Approvals, repo_identity: &str) -> Approval {
    let plan = |w: Wanted, digest| Approval::Approved(ApprovedPlan { values: w.values, named: w.paths.named, digest });
    let digest = wanted.digest();
    if wanted.is_empty() {
        return plan(wanted, digest);
    }
    for approved in approvals.all(repo_identity).iter().rev() {
        let as_then = wanted.as_approved_in(&approved.items);
        if as_then.digest() == approved.digest {
            return plan(as_then, approved.digest.clone());
        }
    }
    let changed =
        approvals.find(repo_identity).map(|last| difference(&last.items, &wanted.as_approved_in(&last.items).text()));
    Approval::Needed { wanted, changed }
}

/// The lines of both, with what they have in common said once.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // Longest common subsequence by table; beyond a million cells everything counts as changed.
    let small = old.len().saturating_mul(new.len()) <= 1_000_000;
    let width = new.len() + 1;
    let mut common = vec![0u32; if small { (old.len() + 1) * width } else { 0 }];
    if small {
        for i in (0..old.len()).rev() {
            for j in (0..new.len()).rev() {
                common[i * width + j] = if old[i] == new[j] {
                    common[(i + 1) * width + j + 1] + 1
                } else {
                    common[(i + 1) * width + j].max(common[i * width + j + 1])
                };
            }
        }
    }
    let (mut i, mut j, mut out) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        let (sign, line) = if i < old.len() && j < new.len() && small && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            (' ', new[j - 1])
        } else if i < old.len()
            && (j == new.len() || !small || common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            i += 1;
            ('-', old[i - 1])
        } else {
            j += 1;
            ('+', new[j - 1])
        };
        let _ = writeln!(out, "{sign}{line}");
    }
    out
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
