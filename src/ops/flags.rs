//! What a person should know about a branch, however well everything else looks.

use super::answer::JsonPath;
use super::inventory::Agent;
use super::report::{Contents, FileAnswer, Flag, TestsCount};
use super::{Context, Result, executable};
use crate::model::agent::Oid;
use crate::model::flags;
use crate::model::text::one_line;
use crate::model::units::count;
use std::os::unix::ffi::OsStrExt as _;

/// A binary file of this many bytes stays in the history for ever.
const LARGE: u64 = 1 << 20;

/// The flags of one agent that changed `files`, with what is in them.
pub(super) fn of(ctx: &Context, a: &Agent, files: &[FileAnswer], contents: &Contents) -> Vec<Flag> {
    let mut out = Vec::new();
    if let Some(r) = &a.record {
        if r.denied > 0 {
            let were = if r.denied == 1 { "was" } else { "were" };
            let text = format!("{} {were} refused to the assistant", count(r.denied as usize, "action"));
            out.push(Flag { kind: "denied", text });
        }
        for s in &r.survivors {
            out.push(Flag { kind: "survivor", text: format!("a process of it is still running: {s}") });
        }
        if !r.git_changed.is_empty() {
            let text = executable::words(&r.git_changed).replacen("agents worked", "it worked", 1);
            out.push(Flag { kind: "git-settings", text });
        }
    }
    if !a.task.files.is_empty() {
        let words = format!("changed outside '{}'", a.task.files.join(" "));
        out.extend(flag("outside-files", &words, outside(&a.task.files, files)));
    }
    for kind in ["lock-file", "ci-or-hook", "migration"] {
        let named = files.iter().map(|f| &f.path).filter(|p| flags::kind_of(&p.raw()) == Some(kind));
        out.extend(flag(kind, flags::words(kind), named.collect()));
    }
    if let Some(tip) = &a.tip {
        // What cannot be read is said elsewhere already.
        let large = large_binaries(ctx, tip, files).unwrap_or_default();
        out.extend(flag("large-binary", flags::words("large-binary"), large));
    }
    for kind in ["secret", "conflict-markers", "submodule", "link-outside"] {
        let found = contents.found.iter().filter(|(k, _)| *k == kind).map(|(_, path)| path);
        out.extend(flag(kind, flags::words(kind), found.collect()));
    }
    out.extend(tests("tests-removed", "removed", contents.removed.as_ref()));
    out.extend(tests("tests-skipped", "switched off", contents.skipped.as_ref()));
    out
}

fn tests(kind: &'static str, what: &str, found: Option<&TestsCount>) -> Option<Flag> {
    let found = found.filter(|f| f.cases > 0)?;
    let shown: Vec<String> = found.names.iter().take(3).map(|n| one_line(n, 60)).collect();
    let more = if found.cases > 3 { format!(" and {} more", found.cases - 3) } else { String::new() };
    Some(Flag { kind, text: format!("{what} {}: {}{more}", count(found.cases, "test"), shown.join(", ")) })
}

fn flag(kind: &'static str, words: &str, paths: Vec<&JsonPath>) -> Option<Flag> {
    let shown: Vec<String> = paths.iter().take(3).map(|p| p.shown()).collect();
    let more = if paths.len() > 3 { format!(" and {} more", paths.len() - 3) } else { String::new() };
    (!paths.is_empty()).then(|| Flag { kind, text: format!("{words}: {}{more}", shown.join(", ")) })
}

/// Files that the task's `files` do not name.
fn outside<'f>(patterns: &[String], files: &'f [FileAnswer]) -> Vec<&'f JsonPath> {
    let mut set = globset::GlobSetBuilder::new();
    for p in patterns {
        if let Ok(g) = globset::Glob::new(p) {
            set.add(g);
        }
    }
    let Ok(set) = set.build() else { return Vec::new() };
    let is_outside = |p: &&JsonPath| !set.is_match(std::path::Path::new(std::ffi::OsStr::from_bytes(&p.raw())));
    files.iter().map(|f| &f.path).filter(is_outside).collect()
}

fn large_binaries<'f>(ctx: &Context, tip: &Oid, files: &'f [FileAnswer]) -> Result<Vec<&'f JsonPath>> {
    let binary: Vec<&JsonPath> = files.iter().filter(|f| f.added.is_none()).map(|f| &f.path).collect();
    if binary.is_empty() {
        return Ok(Vec::new());
    }
    let asked = binary.iter().flat_map(|p| [tip.0.as_bytes(), b":", &p.raw(), b"\0"].concat());
    let call = ctx.repo().call(["cat-file", "--batch-check=%(objectsize)", "-z"]).input(asked.collect::<Vec<u8>>());
    let out = call.run()?;
    // One answer each; one that is gone is told with its name, which may break lines: then nothing is told.
    let sizes: Vec<&[u8]> = out.split(|b| *b == b'\n').filter(|l| !l.is_empty()).collect();
    if sizes.len() != binary.len() {
        return Ok(Vec::new());
    }
    let is_large =
        |s: &[u8]| std::str::from_utf8(s).ok().and_then(|s| s.parse::<u64>().ok()).is_some_and(|n| n >= LARGE);
    Ok(binary.into_iter().zip(sizes).filter(|(_, s)| is_large(s)).map(|(p, _)| p).collect())
}
