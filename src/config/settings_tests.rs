//! Precedence, scopes, and what is said about values that cannot be used.

use super::*;
use crate::config::project::parse;
use std::collections::BTreeMap;

/// Sources that are given in the test, nothing of this machine.
#[derive(Default)]
struct World {
    flags: Flags,
    env: BTreeMap<&'static str, &'static str>,
    git: Vec<(&'static str, &'static str, Scope)>,
    local: Option<Project>,
    project: Option<Project>,
}

impl World {
    fn resolve(&self) -> Result<(Settings, Vec<Warning>), crate::config::Error> {
        let env = |name: &str| self.env.get(name).map(|s| (*s).to_owned());
        let git = |key: &str| {
            let of_key = self.git.iter().filter(|(k, _, _)| *k == key);
            of_key.map(|(_, value, scope)| ConfigValue { value: (*value).to_owned(), scope: *scope }).collect()
        };
        resolve(&Sources {
            flags: &self.flags,
            env: &env,
            git: &git,
            local: self.local.as_ref(),
            project: self.project.as_ref(),
        })
    }

    fn settings(&self) -> Settings {
        let (settings, warnings) = self.resolve().unwrap();
        assert_eq!(warnings, []);
        settings
    }
}

fn project(text: &str) -> Option<Project> {
    Some(parse(text.as_bytes(), "test").unwrap())
}

#[test]
fn the_defaults_are_those_of_the_table() {
    let s = World::default().settings();
    assert_eq!((s.parallel, s.time_s, s.stall_s, s.retries), (4, Some(7_200), Some(1_800), 1));
    assert_eq!((s.branch_prefix.as_str(), s.worktree_dir.as_str()), ("agents/", "../{{ repo }}.agents/{{ slug }}"));
    assert_eq!((s.min_free, s.clone_limit, s.capture_max_file), (1 << 30, 1 << 30, 50 << 20));
    assert_eq!((s.question_grace_s, s.stop_grace_s, s.capture_interval_s), (60, 10, Some(60)));
    assert_eq!((s.permission, s.uncommitted, s.sign), (Permission::Edit, Uncommitted::Commit, false));
    assert_eq!(
        (s.base, s.assistant, s.cost, s.notify, s.env_allow, s.copy_secrets),
        (None, None, None, None, None, None)
    );
    assert_eq!((s.copy.len(), s.clone.len(), s.throw_away.len(), s.clone_fallback), (0, 0, 0, CloneFallback::None));
}

#[test]
fn each_layer_beats_the_next_and_only_for_what_it_says() {
    let mut world = World {
        flags: Flags { parallel: Some(6), ..Flags::default() },
        env: BTreeMap::from([("GIT_AGENTS_PARALLEL", "5"), ("GIT_AGENTS_RETRIES", "15")]),
        git: vec![
            ("agents.parallel", "33", Scope::Global),
            ("agents.parallel", "44", Scope::Local),
            ("agents.retries", "14", Scope::Local),
            ("agents.time", "14m", Scope::Local),
        ],
        local: project("[limits]\nparallel = 3\nretries = 13\ntime = '13m'\nstall = '13m'"),
        project: project("base = 'dev'\n[limits]\nparallel = 2\nretries = 12\ntime = '12m'\nstall = '12m'"),
    };
    let s = world.settings();
    assert_eq!((s.parallel, s.retries, s.time_s, s.stall_s), (6, 15, Some(14 * 60), Some(13 * 60)));
    assert_eq!(s.base.as_deref(), Some("dev"));
    let mut seen = Vec::new();
    for layer in 0..6 {
        seen.push(world.settings().parallel);
        match layer {
            0 => world.flags = Flags::default(),
            1 => world.env.clear(),
            2 => world.git.clear(),
            3 => world.local = None,
            _ => world.project = None,
        }
    }
    assert_eq!(seen, [6, 5, 44, 3, 2, 4]);
}

/// A value for every setting, other than its default, and how the settings show that it was taken.
const OTHER: &[(&str, &str)] = &[
    ("agents.base", "dev"),
    ("agents.assistant", "codex"),
    ("agents.branchPrefix", "x/"),
    ("agents.worktreeDir", "/srv/{{ slug }}"),
    ("agents.copy", ".env* *.key"),
    ("agents.clone", "target"),
    ("agents.cloneFallback", "copy"),
    ("agents.cloneLimit", "2g"),
    ("agents.parallel", "9"),
    ("agents.time", "off"),
    ("agents.stall", "1m"),
    ("agents.setupTime", "off"),
    ("agents.retries", "0"),
    ("agents.cost", "2.5"),
    ("agents.totalCost", "7"),
    ("agents.minFree", "1MiB"),
    ("agents.tests", "99"),
    ("agents.permission", "full"),
    ("agents.uncommitted", "keep"),
    ("agents.notify", "notify-send done"),
    ("agents.checkConflict", "deny"),
    ("agents.watchPoll", "true"),
    ("agents.remind", "false"),
    ("agents.landStyle", "squash"),
    ("agents.prCommand", "hub pull-request -F -"),
    ("agents.autoSync", "true"),
    ("agents.sign", "yes"),
    ("agents.envAllow", "PATH LC_*"),
    ("agents.captureMaxFile", "1MiB"),
    ("agents.copySecrets", "false"),
    ("agents.cleanMinAge", "3d"),
    ("agents.trashKeep", "off"),
    ("agents.trashRoom", "1GiB"),
    ("agents.throwAway", "*.log"),
    ("agents.questionGrace", "5s"),
    ("agents.stopGrace", "3s"),
    ("agents.captureInterval", "off"),
];

#[test]
fn every_setting_of_the_table_is_read_from_git_and_the_environment() {
    assert_eq!(OTHER.len(), table::table().len());
    let default = World::default().settings();
    for (doc, (key, value)) in table::table().iter().zip(OTHER) {
        assert_eq!(doc.config, *key);
        let from_git = World { git: vec![(key, value, Scope::Global)], ..World::default() }.settings();
        let from_env = World { env: BTreeMap::from([(doc.env, *value)]), ..World::default() }.settings();
        assert_ne!(from_git, default, "{key} was not taken");
        assert_eq!(from_git, from_env, "{key}");
    }
}

#[test]
fn every_file_key_of_the_table_is_read_from_the_file() {
    let default = World::default().settings();
    for (doc, (_, value)) in table::table().iter().zip(OTHER) {
        let Some(file) = doc.file else { continue };
        let value = match file {
            "worktree.dir" => "'../x/{{ slug }}'".to_owned(),
            "worktree.copy" | "worktree.clone" => "['target']".to_owned(),
            "limits.parallel" | "limits.tests" | "limits.retries" | "limits.cost" | "limits.total-cost" => {
                (*value).to_owned()
            }
            _ => format!("'{value}'"),
        };
        let world = World { project: project(&format!("{file} = {value}")), ..World::default() };
        assert_ne!(world.settings(), default, "{file} was not taken");
    }
}

#[test]
fn power_counts_from_the_users_own_configuration_only() {
    for (doc, (key, value)) in table::table().iter().zip(OTHER).filter(|(doc, _)| doc.protected) {
        let default = World::default().settings();
        for scope in [Scope::Local, Scope::Worktree] {
            let world = World { git: vec![(key, value, scope)], ..World::default() };
            let (settings, warnings) = world.resolve().unwrap();
            assert_eq!(settings, default, "{key} was taken from {scope}");
            assert_eq!(warnings.len(), 1, "{key}");
            assert!(warnings[0].message.contains(doc.config) && warnings[0].hint.contains("--global"));
        }
        for scope in [Scope::System, Scope::Global, Scope::Command] {
            let world = World { git: vec![(key, value, scope)], ..World::default() };
            assert_ne!(world.settings(), default, "{key} was not taken from {scope}");
        }
    }
}

#[test]
fn an_ignored_value_does_not_hide_the_users_own() {
    let world = World {
        git: vec![
            ("agents.envAllow", "PATH", Scope::Global),
            ("agents.envAllow", "*", Scope::Local),
            ("agents.permission", "nonsense", Scope::Local),
        ],
        ..World::default()
    };
    let (settings, warnings) = world.resolve().unwrap();
    assert_eq!(settings.env_allow, Some(vec!["PATH".to_owned()]));
    assert_eq!(
        warnings.iter().map(Warning::to_string).collect::<Vec<_>>(),
        [
            "'agents.permission' in git's local configuration is ignored: it is the user's to set",
            "'agents.envAllow' in git's local configuration is ignored: it is the user's to set",
        ]
    );
}

#[test]
fn bad_values_are_all_said_with_where_they_stand() {
    let world = World {
        flags: Flags { parallel: Some(2), ..Flags::default() },
        env: BTreeMap::from([("GIT_AGENTS_STALL", "soon")]),
        git: vec![("agents.parallel", "many", Scope::Local), ("agents.permission", "root", Scope::Global)],
        ..World::default()
    };
    let e = world.resolve().unwrap_err();
    assert_eq!(
        e.to_string(),
        "'agents.parallel' in git's local configuration: 'many' is not a number from 1 to 256\n\
         'GIT_AGENTS_STALL' in the environment: 'soon' is not a duration; write it as '90s', '30m', '2h' or '1h30m'\n\
         'agents.permission' in git's global configuration: 'root' is not a permission; 'edit' and 'full' are"
    );
    assert_eq!(e.hint().as_deref(), Some("git config --local agents.parallel <value>"));
}

#[test]
fn an_empty_variable_is_unset_and_an_empty_notify_is_none() {
    let world = World { env: BTreeMap::from([("GIT_AGENTS_PARALLEL", "")]), ..World::default() };
    assert_eq!(world.settings().parallel, 4);
    let off = World { git: vec![("agents.notify", "", Scope::Command)], ..World::default() };
    assert_eq!(off.settings().notify, None);
}

#[test]
fn the_projects_throw_away_patterns_are_not_settings() {
    let world = World { project: project("[cleanup]\nthrow-away = ['*.log']"), ..World::default() };
    assert_eq!(world.settings().throw_away, Vec::<String>::new());
}
