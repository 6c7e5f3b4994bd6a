//! Notices that something changed in worktrees or in a repository. It says where to look, never what happened: events
//! are lost, merged and late, so whoever is woken looks for himself.
//!
//! One watch a directory that git does not ignore, so that `node_modules` and `target` cost nothing. Where the system
//! gives no more watches it polls and says so.

use notify::event::{CreateKind, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// As long as events follow each other this closely they are taken as one.
const QUIET: Duration = Duration::from_millis(120);
/// But nobody waits longer than this for the first of them.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often to look where there are no events.
const POLL: Duration = Duration::from_secs(2);

/// What comes in.
#[derive(Debug)]
pub enum Happening<T> {
    /// From the file system.
    Files(notify::Result<notify::Event>),
    /// From somebody else who has a [`Watcher::sender`].
    Other(T),
}

/// What to look at again.
#[derive(Debug)]
pub struct Woken<T> {
    /// Tops of trees.
    pub trees: BTreeSet<PathBuf>,
    /// The directories that were given beside the trees.
    pub beside: bool,
    /// What others sent.
    pub others: Vec<T>,
}

/// A worktree to watch; it may be missing, and is awaited then.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tree {
    /// The top of its files.
    pub top: PathBuf,
    /// Its git directory, where there is one to look at.
    pub admin: Option<PathBuf>,
}

/// Where events of one directory belong.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Tree(PathBuf),
    /// The git directory of the tree at this top.
    Admin(PathBuf),
    Beside,
    /// What a tree stands in: only that the tree comes or goes is of interest.
    Above,
}

/// The files of a git directory that say something of the tree itself, and not only of branches.
const OF_A_TREE: [&str; 2] = ["index", "MERGE_HEAD"];
/// Directories that appear while they are listed: looked for so often, then their events tell.
const ROUNDS: usize = 8;

/// Lists the directories of a tree that are worth a watch, the top first.
pub type Lister = Box<dyn Fn(&Path) -> Vec<PathBuf>>;

/// Watches trees, and single directories beside them.
pub struct Watcher<T> {
    /// `None` while it polls.
    system: Option<RecommendedWatcher>,
    sender: Sender<Happening<T>>,
    incoming: Receiver<Happening<T>>,
    lister: Lister,
    watched: HashMap<PathBuf, Place>,
    trees: BTreeSet<PathBuf>,
    /// Those of them that are not there.
    missing: BTreeSet<PathBuf>,
    /// Those that did not get their first watches yet or got new directories.
    grown: BTreeSet<PathBuf>,
    /// Watched directories that went or were moved: what stands there now, and below, is another one.
    stale: HashSet<PathBuf>,
    polls_because: Option<String>,
}

impl<T: Send + 'static> Watcher<T> {
    /// Watches nothing yet. With `poll` it never asks the system.
    pub fn new(lister: Lister, poll: bool) -> Watcher<T> {
        let (sender, incoming) = channel();
        let mut w = Watcher {
            system: None,
            sender,
            incoming,
            lister,
            watched: HashMap::new(),
            trees: BTreeSet::new(),
            missing: BTreeSet::new(),
            grown: BTreeSet::new(),
            stale: HashSet::new(),
            polls_because: None,
        };
        if poll {
            w.polls_because = Some("it was asked to".into());
            return w;
        }
        let to = w.sender.clone();
        let made = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is what we do ourselves: it would wake us for ever.
            if !event.as_ref().is_ok_and(|e| e.kind.is_access()) {
                let _ = to.send(Happening::Files(event));
            }
        });
        match made {
            Ok(system) => w.system = Some(system),
            Err(e) => w.polls_because = Some(why(&e)),
        }
        w
    }

    /// For whoever else may wake the one that waits.
    pub fn sender(&self) -> Sender<Happening<T>> {
        self.sender.clone()
    }

    /// Why it polls; `None` where it is told.
    pub fn polls_because(&self) -> Option<&str> {
        self.polls_because.as_deref()
    }

    /// Watches exactly these from now on: the trees with what is below them, the directories `beside` them alone.
    pub fn set(&mut self, trees: &[Tree], beside: &[PathBuf]) {
        let tops: BTreeSet<PathBuf> = trees.iter().map(|t| t.top.clone()).collect();
        for gone in self.trees.difference(&tops).cloned().collect::<Vec<_>>() {
            self.forget(&Place::Tree(gone.clone()), &HashSet::new());
            self.forget(&Place::Admin(gone), &HashSet::new());
        }
        let mut new: Vec<PathBuf> = tops.difference(&self.trees).cloned().collect();
        self.trees = tops;
        let mut wanted: HashMap<PathBuf, Place> = beside.iter().map(|d| (d.clone(), Place::Beside)).collect();
        for t in trees {
            wanted.extend(t.admin.clone().map(|a| (a, Place::Admin(t.top.clone()))));
        }
        self.forget(&Place::Beside, &wanted.keys().cloned().collect());
        for (dir, place) in wanted {
            self.watch(dir, place);
        }
        self.forget(&Place::Above, &self.trees.iter().filter_map(|t| above(t)).collect());
        for top in self.trees.clone() {
            // One that comes before what is above it is watched comes without an event.
            while let Some(dir) = above(&top) {
                let watched = self.watch(dir, Place::Above);
                if !top.is_dir() {
                    if watched {
                        continue;
                    }
                    self.missing.insert(top.clone());
                } else if self.missing.remove(&top) {
                    new.push(top.clone());
                }
                break;
            }
        }
        for top in new {
            self.list(&top);
        }
    }

    /// Waits until something changed, `limit` has passed or, while it polls, it is time to look again.
    pub fn wait(&mut self, limit: Option<Duration>) -> Woken<T> {
        let mut woken = Woken { trees: BTreeSet::new(), beside: false, others: Vec::new() };
        let polling = self.system.is_none();
        let limit = if polling { Some(limit.unwrap_or(POLL).min(POLL)) } else { limit };
        let deadline = limit.map(|l| Instant::now() + l);
        let mut since: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let until = match since {
                Some(first) => Some((now + QUIET).min(first + PATIENCE)),
                None => deadline,
            };
            let next = match until {
                Some(until) => self.incoming.recv_timeout(until.saturating_duration_since(now)),
                None => self.incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(Happening::Other(o)) => {
                    woken.others.push(o);
                    break;
                }
                Ok(Happening::Files(event)) => {
                    if self.take(event, &mut woken) {
                        since.get_or_insert_with(Instant::now);
                        if since.is_some_and(|s| s.elapsed() >= PATIENCE) {
                            break;
                        }
                    }
                }
                Err(_) => break,
            }
        }
        if polling && woken.others.is_empty() {
            woken.trees.extend(self.trees.iter().cloned());
            woken.beside = true;
        }
        let stale = std::mem::take(&mut self.stale);
        if !stale.is_empty() {
            let is_stale = |d: &&PathBuf| d.ancestors().any(|a| stale.contains(a));
            for dir in self.watched.keys().filter(is_stale).cloned().collect::<Vec<_>>() {
                self.unwatch(&dir);
            }
        }
        // New directories get their watches before anybody looks into them.
        for top in std::mem::take(&mut self.grown) {
            self.list(&top);
        }
        woken
    }

    /// Whether the event says that somebody should look.
    fn take(&mut self, event: notify::Result<notify::Event>, woken: &mut Woken<T>) -> bool {
        let event = match event {
            Ok(e) if !e.need_rescan() => e,
            Ok(_) => {
                self.grown.extend(self.trees.iter().cloned());
                woken.trees.extend(self.trees.iter().cloned());
                woken.beside = true;
                return true;
            }
            Err(e) => {
                if matches!(e.kind, notify::ErrorKind::MaxFilesWatch) {
                    self.poll(&e);
                }
                woken.trees.extend(self.trees.iter().cloned());
                return true;
            }
        };
        let may_be_dir = matches!(
            event.kind,
            EventKind::Create(CreateKind::Folder | CreateKind::Any | CreateKind::Other)
                | EventKind::Modify(ModifyKind::Name(_))
                | EventKind::Remove(_)
        );
        let mut told = false;
        for path in &event.paths {
            let itself = self.watched.get(path).cloned();
            if may_be_dir && itself.is_some() {
                self.stale.insert(path.clone());
            }
            let within = path.parent().and_then(|p| self.watched.get(p)).cloned();
            for place in within.into_iter().chain(itself) {
                match place {
                    Place::Tree(top) => {
                        // What is ignored may have changed with the rules.
                        if may_be_dir || path.file_name().is_some_and(|n| n == ".gitignore") {
                            self.grown.insert(top.clone());
                        }
                        woken.trees.insert(top);
                    }
                    Place::Admin(top) => {
                        woken.beside = true;
                        if path.file_name().is_some_and(|n| OF_A_TREE.iter().any(|f| n == *f)) {
                            woken.trees.insert(top);
                        }
                    }
                    Place::Beside => woken.beside = true,
                    Place::Above if may_be_dir && self.trees.iter().any(|t| t.starts_with(path)) => woken.beside = true,
                    Place::Above => continue,
                }
                told = true;
            }
        }
        told
    }

    /// Watches what there is to watch in `top` now.
    fn list(&mut self, top: &Path) {
        if self.system.is_none() {
            return;
        }
        let place = Place::Tree(top.to_owned());
        for _ in 0..ROUNDS {
            let dirs: HashSet<PathBuf> = (self.lister)(top).into_iter().collect();
            self.forget(&place, &dirs);
            let mut new = false;
            for dir in dirs {
                new |= self.watch(dir, place.clone());
            }
            // What appeared in one of them before it was watched is seen by nobody else.
            if !new {
                break;
            }
        }
    }

    /// Whether it is watched from now on and was not before.
    fn watch(&mut self, dir: PathBuf, place: Place) -> bool {
        if let Some(now) = self.watched.get_mut(&dir) {
            if place != Place::Above {
                *now = place;
            }
            return false;
        }
        let Some(system) = &mut self.system else { return false };
        match system.watch(&dir, RecursiveMode::NonRecursive) {
            Ok(()) => {
                self.watched.insert(dir, place);
                return true;
            }
            Err(e) if matches!(e.kind, notify::ErrorKind::MaxFilesWatch) => self.poll(&e),
            // It went as quickly as it came, or may not be read: nobody's changes are to be seen there.
            Err(_) => {}
        }
        false
    }

    fn unwatch(&mut self, dir: &Path) {
        self.watched.remove(dir);
        if let Some(system) = &mut self.system {
            let _ = system.unwatch(dir);
        }
    }

    /// Ends the watches of `place` outside `keep`.
    fn forget(&mut self, place: &Place, keep: &HashSet<PathBuf>) {
        let gone: Vec<PathBuf> =
            self.watched.iter().filter(|(d, p)| *p == place && !keep.contains(*d)).map(|(d, _)| d.clone()).collect();
        for dir in gone {
            self.unwatch(&dir);
        }
    }

    fn poll(&mut self, e: &notify::Error) {
        self.system = None;
        self.watched.clear();
        self.polls_because = Some(why(e));
    }
}

/// The nearest directory above `top` that is there.
fn above(top: &Path) -> Option<PathBuf> {
    top.ancestors().skip(1).find(|d| d.is_dir()).map(Path::to_owned)
}

fn why(e: &notify::Error) -> String {
    match &e.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "the system's limit of file watches is reached (fs.inotify.max_user_watches)".into()
        }
        // Of a user's processes, of this one, of the whole system: the system does not say which.
        notify::ErrorKind::Io(e) if matches!(e.raw_os_error(), Some(nix::libc::EMFILE | nix::libc::ENFILE)) => {
            "a limit of the system's is reached (fs.inotify.max_user_instances, or open files: ulimit -n)".into()
        }
        _ => e.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "test fixtures")]
mod tests {
    use super::*;

    fn all_dirs(top: &Path) -> Vec<PathBuf> {
        let mut out = vec![top.to_owned()];
        for e in std::fs::read_dir(top).into_iter().flatten().flatten() {
            if e.path().is_dir() && e.file_name() != "ignored" {
                out.extend(all_dirs(&e.path()));
            }
        }
        out
    }

    fn tree(top: &Path) -> Tree {
        Tree { top: top.to_owned(), admin: None }
    }

    fn watcher(top: &Path) -> Watcher<u8> {
        let mut w = Watcher::new(Box::new(all_dirs), false);
        w.set(&[tree(top)], &[]);
        assert_eq!(w.polls_because(), None);
        w
    }

    #[test]
    fn a_save_wakes_and_reading_does_not() {
        let d = tempfile::tempdir().unwrap();
        let top = d.path().canonicalize().unwrap();
        std::fs::write(top.join("f"), "1").unwrap();
        let mut w = watcher(&top);
        std::fs::read(top.join("f")).unwrap();
        let none = w.wait(Some(Duration::from_millis(50)));
        assert!(none.trees.is_empty() && !none.beside, "{none:?}");
        std::fs::write(top.join("f"), "2").unwrap();
        assert_eq!(w.wait(Some(Duration::from_secs(20))).trees.into_iter().collect::<Vec<_>>(), [top]);
    }

    #[test]
    fn a_limit_that_is_reached_is_named_with_its_setting() {
        let said = |errno: i32| why(&notify::Error::io(std::io::Error::from_raw_os_error(errno)));
        assert!(said(nix::libc::EMFILE).contains("fs.inotify.max_user_instances"));
        assert!(why(&notify::Error::new(notify::ErrorKind::MaxFilesWatch)).contains("fs.inotify.max_user_watches"));
        assert!(said(nix::libc::EACCES).contains("denied"));
    }

    #[test]
    fn what_is_ignored_is_not_heard_and_a_new_directory_is() {
        let d = tempfile::tempdir().unwrap();
        let top = d.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("ignored")).unwrap();
        let mut w = watcher(&top);
        std::fs::write(top.join("ignored/x"), "1").unwrap();
        assert!(w.wait(Some(Duration::from_millis(50))).trees.is_empty());
        std::fs::create_dir(top.join("new")).unwrap();
        assert_eq!(w.wait(Some(Duration::from_secs(20))).trees.len(), 1);
        std::fs::write(top.join("new/file"), "1").unwrap();
        assert_eq!(w.wait(Some(Duration::from_secs(20))).trees.len(), 1);
    }

    #[test]
    fn a_directory_that_was_made_again_is_heard() {
        let d = tempfile::tempdir().unwrap();
        let top = d.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::create_dir_all(top.join("c/b")).unwrap();
        let mut w = watcher(&top);
        // Between two looks, as a checkout and back, or a build, does it; and another one put in its place.
        std::fs::remove_dir_all(top.join("a")).unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::rename(top.join("c"), top.join("old")).unwrap();
        std::fs::create_dir_all(top.join("c/b")).unwrap();
        assert_eq!(w.wait(Some(Duration::from_secs(20))).trees.len(), 1);
        for file in ["a/b/f", "c/b/f", "old/b/f"] {
            while !w.wait(Some(Duration::from_millis(20))).trees.is_empty() {}
            std::fs::write(top.join(file), "1").unwrap();
            assert_eq!(w.wait(Some(Duration::from_secs(20))).trees.len(), 1, "{file}");
        }
    }

    #[test]
    fn a_tree_that_was_away_is_heard_when_it_is_back() {
        let d = tempfile::tempdir().unwrap();
        let above = d.path().canonicalize().unwrap();
        let (top, away) = (above.join("x/tree"), above.join("away"));
        std::fs::create_dir_all(&top).unwrap();
        let mut w = watcher(&top);
        for (from, to) in [(&top, &away), (&away, &top), (&above.join("x"), &away), (&away, &above.join("x"))] {
            std::fs::rename(from, to).unwrap();
            let woken = w.wait(Some(Duration::from_secs(20)));
            assert!(woken.beside || !woken.trees.is_empty(), "{from:?}: {woken:?}");
            w.set(&[tree(&top)], &[]);
            while !w.wait(Some(Duration::from_millis(20))).trees.is_empty() {}
        }
        // What else happens up there is nobody's affair.
        std::fs::write(above.join("x/other"), "1").unwrap();
        let none = w.wait(Some(Duration::from_millis(50)));
        assert!(none.trees.is_empty() && !none.beside, "{none:?}");
        std::fs::write(top.join("f"), "1").unwrap();
        assert_eq!(w.wait(Some(Duration::from_secs(20))).trees.len(), 1);
    }

    #[test]
    fn what_is_staged_wakes_its_tree() {
        let d = tempfile::tempdir().unwrap();
        let top = d.path().canonicalize().unwrap();
        let (files, admin) = (top.join("files"), top.join("admin"));
        std::fs::create_dir(&files).unwrap();
        std::fs::create_dir(&admin).unwrap();
        let mut w: Watcher<u8> = Watcher::new(Box::new(all_dirs), false);
        w.set(&[Tree { top: files.clone(), admin: Some(admin.clone()) }], &[]);
        std::fs::write(admin.join("index.lock"), "1").unwrap();
        let woken = w.wait(Some(Duration::from_secs(20)));
        assert!(woken.beside && woken.trees.is_empty(), "{woken:?}");
        std::fs::rename(admin.join("index.lock"), admin.join("index")).unwrap();
        assert_eq!(w.wait(Some(Duration::from_secs(20))).trees.into_iter().collect::<Vec<_>>(), [files]);
    }

    #[test]
    fn a_storm_is_one_waking_and_a_tree_that_left_is_silent() {
        let d = tempfile::tempdir().unwrap();
        let top = d.path().canonicalize().unwrap();
        let mut w = watcher(&top);
        for i in 0..500 {
            std::fs::write(top.join(format!("f{i}")), "x").unwrap();
        }
        assert_eq!(w.wait(Some(Duration::from_secs(20))).trees.len(), 1);
        w.set(&[], &[]);
        while !w.wait(Some(Duration::from_millis(20))).trees.is_empty() {}
        std::fs::write(top.join("g"), "x").unwrap();
        assert!(w.wait(Some(Duration::from_millis(50))).trees.is_empty());
    }

    #[test]
    fn others_are_heard_at_once_and_polling_looks_everywhere() {
        let d = tempfile::tempdir().unwrap();
        let mut w: Watcher<u8> = Watcher::new(Box::new(all_dirs), true);
        w.set(&[tree(d.path())], &[]);
        assert!(w.polls_because().is_some());
        w.sender().send(Happening::Other(7)).unwrap();
        assert_eq!(w.wait(None).others, [7]);
        let woken = w.wait(Some(Duration::from_millis(1)));
        assert!(woken.beside && woken.trees.len() == 1);
    }
}
