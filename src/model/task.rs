//! The task object: everything that was asked for, in one immutable blob. Its object id is the agent's id.

use super::agent::{AgentId, Name, Oid, Origin, Permission, Slug};
use serde::{Deserialize, Serialize};

/// What was asked for. Written once, as TOML; readers keep what they do not know by never writing it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Of this format.
    pub version: u32,
    /// The handle.
    pub name: Name,
    /// The handle made safe.
    pub slug: Slug,
    /// One line for lists.
    pub title: String,
    /// How it came to be.
    pub origin: Origin,
    /// Full name of the branch.
    pub branch: String,
    /// Full name of the base, or the id where it was none.
    pub base: String,
    /// Where the base stood; for an adopted branch, the merge base.
    pub base_commit: Oid,
    /// RFC 3339, UTC.
    pub created: String,
    /// 32 hex digits that make the object, and so the id, unique.
    pub random: String,
    /// The batch of its `run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Its number in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The list's file name as given, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Digest of prompt and base: the same task again is recognised by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Rivals share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The agents whose merge it starts from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<AgentId>,
    /// The assistant's name; none for an environment without a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant: Option<String>,
    /// The model, as the assistant calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it may do.
    pub permission: Permission,
    /// The command that tests it, a line for the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Where it should stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Retries by itself after a failure.
    pub retries: u32,
    /// Seconds an attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<u64>,
    /// Seconds without progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_s: Option<u64>,
    /// US dollars this agent may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// US dollars the whole batch may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cost_usd: Option<f64>,
    /// No new start after this moment (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// At most this many of the batch at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<usize>,
    /// The task, exactly.
    pub prompt: String,
}

impl Task {
    /// The bytes of the object.
    pub fn to_bytes(&self) -> Vec<u8> {
        toml::to_string(self).expect("a task is plain TOML").into_bytes()
    }

    /// Reads the object; the error says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Task, String> {
        let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
        toml::from_str(text).map_err(|e| e.message().to_owned())
    }

    /// The branch without `refs/heads/`.
    pub fn branch_short(&self) -> &str {
        self.branch.strip_prefix("refs/heads/").unwrap_or(&self.branch)
    }

    /// The base without `refs/heads/` or `refs/remotes/`.
    pub fn base_short(&self) -> &str {
        short_ref(&self.base)
    }
}

/// A reference as people write it.
pub fn short_ref(full: &str) -> &str {
    full.strip_prefix("refs/heads/").or_else(|| full.strip_prefix("refs/remotes/")).unwrap_or(full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_prompt_survives(prompt in "(\\PC|\n|\t|\"|')*") {
            let t = Task {
                version: 1, name: "a".into(), slug: Slug::of("a"), title: "t".into(), origin: Origin::Run,
                branch: "refs/heads/a".into(), base: "refs/heads/main".into(), base_commit: Oid("0".repeat(40)),
                created: String::new(), random: String::new(), batch: Some(1), number: None, list: None, digest: None,
                group: None, after: vec![AgentId("ab".into())], assistant: None, model: None,
                permission: Permission::Edit, test: None, files: vec![], retries: 1, time_s: Some(7), stall_s: None,
                cost_usd: Some(1.5), total_cost_usd: None, until: None, parallel: None, prompt,
            };
            prop_assert_eq!(Task::parse(&t.to_bytes()).unwrap(), t);
        }
    }
}
