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

/// Where events of one directory belong.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Tree(PathBuf),
    Beside,
}

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
    /// Those that did not get their first watches yet or got new directories.
    grown: BTreeSet<PathBuf>,
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
            grown: BTreeSet::new(),
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
    pub fn set(&mut self, trees: &[PathBuf], beside: &[PathBuf]) {
        let trees: BTreeSet<PathBuf> = trees.iter().cloned().collect();
        for gone in self.trees.difference(&trees).cloned().collect::<Vec<_>>() {
            self.forget(&Place::Tree(gone), &HashSet::new());
        }
        let new: Vec<PathBuf> = trees.difference(&self.trees).cloned().collect();
        self.trees = trees;
        for top in new {
            self.list(&top);
        }
        let wanted: HashSet<PathBuf> = beside.iter().cloned().collect();
        self.forget(&Place::Beside, &wanted);
        for dir in wanted {
            self.watch(dir, Place::Beside);
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
        let mut told = false;
        for path in &event.paths {
            let place = path.parent().and_then(|p| self.watched.get(p)).or_else(|| self.watched.get(path)).cloned();
            match place {
                Some(Place::Tree(top)) => {
                    let may_be_dir = matches!(
                        event.kind,
                        EventKind::Create(CreateKind::Folder | CreateKind::Any | CreateKind::Other)
                            | EventKind::Modify(ModifyKind::Name(_))
                            | EventKind::Remove(_)
                    );
                    // What is ignored may have changed with the rules.
                    if may_be_dir || path.file_name().is_some_and(|n| n == ".gitignore") {
                        self.grown.insert(top.clone());
                    }
                    woken.trees.insert(top);
                    told = true;
                }
                Some(Place::Beside) => {
                    woken.beside = true;
                    told = true;
                }
                None => {}
            }
        }
        told
    }

    /// Watches what there is to watch in `top` now.
    fn list(&mut self, top: &Path) {
        if self.system.is_none() {
            return;
        }
        let dirs: HashSet<PathBuf> = (self.lister)(top).into_iter().collect();
        let place = Place::Tree(top.to_owned());
        self.forget(&place, &dirs);
        for dir in dirs {
            self.watch(dir, place.clone());
        }
    }

    fn watch(&mut self, dir: PathBuf, place: Place) {
        if self.watched.contains_key(&dir) {
            return;
        }
        let Some(system) = &mut self.system else { return };
        match system.watch(&dir, RecursiveMode::NonRecursive) {
            Ok(()) => drop(self.watched.insert(dir, place)),
            Err(e) if matches!(e.kind, notify::ErrorKind::MaxFilesWatch) => self.poll(&e),
            // It went as quickly as it came, or may not be read: nobody's changes are to be seen there.
            Err(_) => {}
        }
    }

    /// Ends the watches of `place` outside `keep`.
    fn forget(&mut self, place: &Place, keep: &HashSet<PathBuf>) {
        let gone: Vec<PathBuf> =
            self.watched.iter().filter(|(d, p)| *p == place && !keep.contains(*d)).map(|(d, _)| d.clone()).collect();
        for dir in gone {
            self.watched.remove(&dir);
            if let Some(system) = &mut self.system {
                let _ = system.unwatch(&dir);
            }
        }
    }

    fn poll(&mut self, e: &notify::Error) {
        self.system = None;
        self.watched.clear();
        self.polls_because = Some(why(e));
    }
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

    fn watcher(top: &Path) -> Watcher<u8> {
        let mut w = Watcher::new(Box::new(all_dirs), false);
        w.set(&[top.to_owned()], &[]);
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
        w.set(&[d.path().to_owned()], &[]);
        assert!(w.polls_because().is_some());
        w.sender().send(Happening::Other(7)).unwrap();
        assert_eq!(w.wait(None).others, [7]);
        let woken = w.wait(Some(Duration::from_millis(1)));
        assert!(woken.beside && woken.trees.len() == 1);
    }
}
