//! A verdict as it is kept: without the sides, and of bytes that JSON can hold.

use crate::model::overlap::{Kind, Level, Meeting, Pair};
use serde::{Deserialize, Serialize};

/// A verdict as it is kept: without the sides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Found {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    meetings: Vec<Met>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    twins: Vec<(Text, Text)>,
    /// What `unknown` is about, where it is not all. Unknown answers are not kept.
    #[serde(skip)]
    doubts: Vec<Vec<u8>>,
}

/// A meeting as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Met {
    path: Text,
    level: Level,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    x: Vec<(u32, u32)>,
    y: Vec<(u32, u32)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    symbol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other: Option<Text>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    endings: bool,
}

/// Exact bytes as text: each byte is one character.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Text(String);

impl Text {
    fn of(bytes: &[u8]) -> Text {
        Text(bytes.iter().map(|b| char::from(*b)).collect())
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
    }
}

impl From<Meeting> for Met {
    fn from(m: Meeting) -> Met {
        Met {
            path: Text::of(&m.path),
            level: m.level,
            kind: m.kind,
            x: m.a_lines,
            y: m.b_lines,
            symbol: m.symbol,
            other: m.other.as_deref().map(Text::of),
            endings: m.endings,
        }
    }
}

impl Found {
    /// Where two meet, what only warns, and why that is not all.
    pub(super) fn new(meetings: Vec<Meeting>, twins: &[(Vec<u8>, Vec<u8>)], unknown: Option<String>) -> Found {
        let meetings = meetings.into_iter().map(Met::from).collect();
        let twins = twins.iter().map(|(a, b)| (Text::of(a), Text::of(b))).collect();
        Found { unknown, meetings, twins, doubts: Vec::new() }
    }

    pub(super) fn unknown(why: String) -> Found {
        Found { unknown: Some(why), ..Found::default() }
    }

    /// Whether the key decides it: what git could not tell now it may tell next time.
    pub(super) fn lasts(&self) -> bool {
        self.unknown.is_none()
    }

    /// What one path holds is not known; the rest is.
    pub(super) fn doubt(&mut self, path: &[u8], why: String) {
        if self.unknown.is_none() {
            self.unknown = Some(why);
        } else if self.doubts.is_empty() {
            // All is unknown already.
            return;
        }
        self.doubts.push(path.to_vec());
    }

    /// A conflict is one whatever else there is.
    fn level(&self) -> Option<Level> {
        let worst = self.meetings.iter().map(|m| m.level).max().unwrap_or(Level::None);
        (self.unknown.is_none() || worst == Level::Conflict).then_some(worst)
    }

    /// Asked the other way round.
    pub(super) fn turned(mut self, yes: bool) -> Found {
        if yes {
            for m in &mut self.meetings {
                std::mem::swap(&mut m.x, &mut m.y);
                if let Some(other) = &mut m.other {
                    std::mem::swap(&mut m.path, other);
                }
            }
            self.twins.iter_mut().for_each(|t| std::mem::swap(&mut t.0, &mut t.1));
        }
        self
    }

    pub(super) fn pair(self, (a, b): (usize, usize)) -> Pair {
        let level = self.level();
        let meeting = |m: Met| Meeting {
            path: m.path.bytes(),
            level: m.level,
            kind: m.kind,
            a_lines: m.x,
            b_lines: m.y,
            symbol: m.symbol,
            other: m.other.map(|o| o.bytes()),
            endings: m.endings,
        };
        let meetings = self.meetings.into_iter().map(meeting).collect();
        let twins = self.twins.iter().map(|(a, b)| (a.bytes(), b.bytes())).collect();
        Pair { a, b, level, meetings, twins, unknown: self.unknown, doubts: self.doubts }
    }
}
