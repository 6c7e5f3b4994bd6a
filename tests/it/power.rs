//! Power cuts: what a command has acknowledged is on the disk when it answers.
//!
//! The repository lies on an ext4 file system in a file. Right after a command has ended, the file is copied as it is, the
//! pages that only memory has left out, and the copy is mounted in place of it: its journal is replayed as after a cut.

use crate::kill::{content, events, places};
use crate::support::env::run;
use crate::support::{Env, Out, Repo};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A mounted image; gone with the value.
struct Disk<'e> {
    env: &'e Env,
    image: PathBuf,
    at: PathBuf,
    options: &'static str,
    cuts: usize,
}

impl<'e> Disk<'e> {
    /// `None` where nobody may mount, which is said.
    fn new(env: &'e Env, options: &'static str) -> Option<Disk<'e>> {
        let image = env.root().join("disk-0");
        let at = env.root().join("code");
        std::fs::File::create(&image).unwrap().set_len(96 << 20).unwrap();
        let mut disk = Disk { env, image, at, options, cuts: 0 };
        if disk.sudo("mkfs.ext4", &["-q", "-F", "-m", "0", disk.image.to_str().unwrap()]).is_none_or(|o| o.status != 0)
            || !disk.mount()
        {
            eprintln!("no power cuts here: an ext4 image cannot be made and mounted");
            disk.at = PathBuf::new();
            return None;
        }
        Some(disk)
    }

    fn sudo(&self, program: &str, args: &[&str]) -> Option<Out> {
        let found = std::env::split_paths(self.env.path())
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .map(|p| p.join(program))
            .find(|p| p.exists())?;
        let mut command = self.env.command(&found, self.env.root());
        command.args(args);
        Some(run(command, b""))
    }

    fn mount(&self) -> bool {
        let args = ["-o", self.options, self.image.to_str().unwrap(), self.at.to_str().unwrap()];
        self.sudo("mount", &args).is_some_and(|o| o.status == 0)
    }

    /// All that was written is on the disk: what the user did before.
    fn sync(&self) {
        self.sudo("sync", &["-f", self.at.to_str().unwrap()]).unwrap().ok();
    }

    /// The power goes, and comes back.
    fn cut(&mut self) {
        self.cuts += 1;
        let next = self.env.root().join(format!("disk-{}", self.cuts));
        self.sudo("cp", &["--sparse=always", self.image.to_str().unwrap(), next.to_str().unwrap()]).unwrap().ok();
        self.env.until("nothing of ours runs", || self.env.processes().is_empty());
        self.sudo("umount", &[self.at.to_str().unwrap()]).unwrap().ok();
        std::fs::remove_file(&self.image).unwrap();
        self.image = next;
        assert!(self.mount(), "the file system does not come back");
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        if !self.at.as_os_str().is_empty() {
            let _ = self.sudo("umount", &["-l", self.at.to_str().unwrap()]);
        }
    }
}

/// What must be the same before and after a cut.
#[derive(Debug, PartialEq)]
struct Acknowledged {
    branches: String,
    captures: String,
    agents: Vec<(String, String, String, String)>,
    registrations: BTreeSet<String>,
    trash: BTreeMap<String, String>,
}

fn acknowledged(repo: &Repo<'_>) -> Acknowledged {
    let status = repo.status();
    let word = |v: &serde_json::Value| v.to_string();
    let trash = std::fs::read_dir(repo.join(".git/agents/trash")).into_iter().flatten().map(|e| e.unwrap().path());
    Acknowledged {
        branches: repo.git(&["for-each-ref", "refs/heads"]),
        captures: repo.git(&["for-each-ref", "refs/agents", "refs/notes"]),
        agents: status["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| (word(&a["name"]), word(&a["zombie"]), word(&a["run"]["state"]), word(&a["ahead"])))
            .collect(),
        registrations: repo
            .git(&["config", "--local", "--list"])
            .lines()
            .filter(|l| l.starts_with("agent."))
            .map(str::to_owned)
            .collect(),
        trash: trash
            .map(|d| {
                (
                    d.file_name().unwrap().to_str().unwrap().to_owned(),
                    std::fs::read_to_string(d.join("entry.json")).unwrap_or_default(),
                )
            })
            .collect(),
    }
}

/// One life of an agent, the power cut after each command; how many cuts.
fn life(disk: &mut Disk<'_>, repo: &Repo<'_>, name: &str) {
    let step = |disk: &mut Disk<'_>, args: &[&str]| {
        disk.sync();
        let trees: Vec<_> = places(repo).into_values().map(|p| content(&p)).collect();
        let out = repo.agents(args);
        assert!(out.status == 0, "{out}");
        let (before, told) = (acknowledged(repo), events(repo));
        disk.cut();
        let what = format!("'{}', then a power cut", args.join(" "));
        let lost: Vec<String> = told.difference(&events(repo)).cloned().collect();
        assert!(lost.is_empty(), "{what}: acknowledged events are gone: {lost:?}");
        assert_eq!(acknowledged(repo), before, "{what}");
        let fsck = repo.try_git(&["fsck", "--full", "--strict", "--no-dangling", "--no-progress", "--no-reflogs"]);
        assert!(fsck.status == 0, "{what}: {fsck}");
        let now: Vec<_> = places(repo).into_values().map(|p| content(&p)).collect();
        // A rebase is there to change files.
        let same = args.contains(&"--rebase") || trees.iter().all(|t| now.contains(t));
        assert!(same, "{what}: files that were on the disk are gone");
        repo.repair();
    };
    let at = Repo::at(repo.env, repo.path().with_file_name("x.agents").join(name));
    step(disk, &["new", name]);
    // The files of a checkout are git's, and no more durable than after 'git switch': they are made again.
    at.git(&["reset", "-q", "--hard"]);
    at.write("made.txt", name);
    at.commit("Made");
    at.write("left.txt", "left\n");
    step(disk, &["rm", name]);
    step(disk, &["restore", name]);
    step(disk, &["rm", "-D", name]);
    step(disk, &["undo"]);
    repo.git(&["branch", "-q", &format!("{name}-there")]);
    step(disk, &["adopt", &format!("{name}-there")]);
    step(disk, &["rm", "--force", "-D", &format!("{name}-there")]);
    let task = "WRITE: a.txt: a\nCOMMIT: A\nWRITE: b.txt: b";
    step(disk, &["run", "-q", "-a", "scripted", task]);
    // What git writes into a checkout is no more durable than after 'git merge': that is made again, as above.
    let again = |at: &Repo<'_>| drop(at.git(&["reset", "-q", "--hard"]));
    for (style, left) in [("--merge", true), ("--squash", true), ("--rebase", false)] {
        let name = format!("{name}{}", style.trim_start_matches('-'));
        repo.agents(&["new", &name]).ok();
        let at = Repo::at(repo.env, repo.path().with_file_name("x.agents").join(&name));
        at.write(format!("{name}.txt"), &name);
        at.commit("Work");
        if left {
            at.write("left.txt", "left\n");
        }
        repo.write("base.txt", &name);
        repo.commit("The base moves");
        step(disk, &["land", "-q", style, &name]);
        again(repo);
        if left {
            again(&at);
            std::fs::remove_file(at.join("left.txt")).unwrap();
            step(disk, &["clean", "-q"]);
        }
    }
}

fn cuts(options: &'static str, lives: usize) -> usize {
    let env = Env::new();
    let Some(mut disk) = Disk::new(&env, options) else { return 0 };
    let repo = env.repo("x");
    repo.git(&["config", "gc.auto", "0"]);
    repo.git(&["config", "agents.minFree", "0"]);
    for n in 0..lives {
        life(&mut disk, &repo, &format!("k{n}"));
    }
    disk.cuts
}

#[test]
#[ignore = "nightly"]
fn nightly_power_cuts_lose_nothing_that_was_acknowledged() {
    for options in ["loop,commit=300", "loop,commit=300,data=writeback,noauto_da_alloc"] {
        eprintln!("{options}: {} power cuts, 0 acknowledged lost", cuts(options, 8));
    }
}

/// The calls of one command by which files reach the disk.
fn traced(repo: &Repo<'_>, args: &[&str]) -> Vec<String> {
    let log = repo.env.root().join("order");
    let mut command = repo.env.command("strace", repo.path());
    let calls = "trace=write,pwrite64,?rename,renameat,renameat2,?link,linkat,fsync,fdatasync,syncfs";
    command
        .args(["-f", "-y", "-q", "-s", "0", "-e", calls, "-o"])
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_git-agents"))
        .args(args);
    run(command, b"").ok();
    std::fs::read_to_string(log).unwrap().lines().map(str::to_owned).collect()
}

/// The paths in quotes, and those of descriptors (`3</a/b>`), of a line of strace's.
fn paths(line: &str) -> (Vec<&str>, Option<&str>) {
    let quoted = line.split('"').skip(1).step_by(2).filter(|p| !p.is_empty()).collect();
    let open = line.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(p, _)| p);
    (quoted, open)
}

/// What counts as acknowledged when it is in place: settings, references, entries of the trash, objects.
fn is_durable(path: &str) -> bool {
    let Some((_, in_git)) = path.split_once("/.git/") else { return false };
    let of_git = in_git == "config"
        || ["refs/agents/", "refs/notes/", "objects/"].iter().any(|d| in_git.starts_with(d))
        || in_git.starts_with("agents/trash/") && in_git.ends_with("/entry.json");
    of_git && !in_git.ends_with(".lock") && !in_git.contains("/tmp_")
}

/// Files of ours in place, without a sync of their bytes before that or of their directory after it.
fn unsynced(lines: &[String]) -> (usize, Vec<String>) {
    let (mut dirty, mut early, mut places) = (BTreeSet::new(), Vec::new(), 0);
    let mut open_dirs: BTreeMap<PathBuf, String> = BTreeMap::new();
    for line in lines.iter().filter(|l| !l.contains(" = -1 ")) {
        let call =
            line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').split('(').next().unwrap_or_default();
        let (quoted, open) = paths(line);
        match (call, open) {
            ("write" | "pwrite64", Some(p)) => drop(dirty.insert(p.to_owned())),
            // Everything there is.
            ("syncfs", _) => {
                dirty.clear();
                open_dirs.clear();
                early.clear();
            }
            ("fsync" | "fdatasync", Some(p)) => {
                dirty.remove(p);
                open_dirs.remove(Path::new(p));
            }
            (c, _) if c.starts_with("rename") || c.starts_with("link") => {
                let [from, to] = quoted[..] else { continue };
                let was_dirty = if c.starts_with("rename") { dirty.remove(from) } else { dirty.contains(from) };
                if was_dirty {
                    dirty.insert(to.to_owned());
                }
                if is_durable(to) {
                    places += 1;
                    if was_dirty {
                        early.push(format!("'{to}' is put in place before its bytes are synced"));
                    }
                    open_dirs.insert(Path::new(to).parent().unwrap().to_owned(), to.to_owned());
                }
            }
            _ => {}
        }
    }
    let mut wrong = early;
    wrong.extend(open_dirs.into_iter().map(|(d, to)| format!("'{to}': its directory '{}' is not synced", d.display())));
    (places, wrong)
}

#[test]
fn what_was_acknowledged_was_not_on_the_disk() {
    let env = Env::new();
    let repo = env.repo("x");
    let check = |args: &[&str]| {
        let (places, wrong) = unsynced(&traced(&repo, args));
        assert!(wrong.is_empty(), "{}: {wrong:#?}", args.join(" "));
        assert!(places > 0, "{}: nothing was seen", args.join(" "));
    };
    check(&["new", "k"]);
    let at = Repo::at(&env, repo.path().with_file_name("x.agents").join("k"));
    at.write("left.txt", "left\n");
    check(&["rm", "-D", "k"]);
    check(&["restore", "k"]);
    check(&["run", "-q", "-a", "scripted", "WRITE: a.txt: a\nCOMMIT: A"]);
}

#[test]
fn the_order_of_syncs_is_seen() {
    let log = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let good = "1 write(3</x/.git/a>, \"\"..., 3) = 3\n1 fsync(3</x/.git/a>) = 0\n1 rename(\"/x/.git/a\", \"/x/.git/config\") = 0\n1 fsync(3</x/.git>) = 0";
    assert_eq!(unsynced(&log(good)), (1, vec![]));
    let lines = log(good);
    for left_out in [1, 3] {
        let some: Vec<String> =
            lines.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, l)| l.clone()).collect();
        assert_eq!(unsynced(&some).1.len(), 1, "{some:?}");
    }
}
