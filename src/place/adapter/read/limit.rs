//! Whether an error is a rate limit, and when it is over, in the words of the providers.

use jiff::civil::{Time, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

const WORDS: &[&str] = &[
    "rate limit",
    "rate_limit",
    "rate-limit",
    "ratelimit",
    "usage limit",
    "hit your limit",
    "limit reached",
    "too many requests",
    "quota",
    "resource_exhausted",
    "resource has been exhausted",
];

/// Whether the provider refuses for now.
pub(super) fn is_one(error: &str) -> bool {
    let text = error.to_ascii_lowercase();
    // The status alone, not a part of a number.
    let status = text.split(|c: char| !c.is_ascii_alphanumeric()).any(|w| w == "429");
    status || WORDS.iter().any(|w| text.contains(w))
}

/// What is told in whole minutes is over at some moment of that minute: a start before it would be refused again.
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// When it is over, RFC 3339, never too early; `None` where that is not said.
pub(super) fn reset(error: &str, now: &Zoned) -> Option<String> {
    let words = words(error);
    let at =
        stamp(error).or_else(|| seconds(error)).or_else(|| after(&words, now)).or_else(|| clock(error, &words, now));
    // What has passed, or is further away than any provider's limit, is a misreading.
    let month = SignedDuration::from_hours(24 * 40);
    at.filter(|at| *at >= now.timestamp() && at.duration_since(now.timestamp()) < month).map(|at| at.to_string())
}

/// Lower case, with a break between letters and digits: `2h3m` is `2 h 3 m`, `7:08 PM` is `7 : 08 pm`.
fn words(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let class = |c: char| {
        if c.is_ascii_digit() {
            1
        } else if c.is_alphabetic() {
            2
        } else {
            0
        }
    };
    let mut last = 0;
    for c in text.chars().flat_map(char::to_lowercase) {
        let kind = class(c);
        match out.last_mut() {
            Some(word) if kind != 0 && kind == last => word.push(c),
            _ if kind != 0 || matches!(c, ':' | '.') => out.push(c.to_string()),
            _ => {}
        }
        last = kind;
    }
    out
}

/// A time as programs write it.
fn stamp(text: &str) -> Option<Timestamp> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || "-+:.".contains(c));
    text.split(word).filter(|w| w.len() >= 20 && w.contains('T')).find_map(|w| w.trim_end_matches('.').parse().ok())
}

/// Ten digits: seconds since 1970. Thirteen are milliseconds.
fn seconds(text: &str) -> Option<Timestamp> {
    text.split(|c: char| !c.is_ascii_digit()).find_map(|w| match w.len() {
        10 => Timestamp::from_second(w.parse().ok()?).ok(),
        13 => Timestamp::from_millisecond(w.parse().ok()?).ok(),
        _ => None,
    })
}

/// `in 3 days 4 hours`, `after 2h3m4s`, `retry-after: 60`.
fn after(words: &[String], now: &Zoned) -> Option<Timestamp> {
    let begins = (0..words.len()).filter(|i| matches!(words[*i].as_str(), "in" | "after" | "within"));
    begins.filter_map(|i| span(&words[i + 1..])).find_map(|s| now.timestamp().checked_add(s).ok())
}

fn span(words: &[String]) -> Option<SignedDuration> {
    let (mut total, mut found, mut i, mut exact) = (0.0_f64, false, 0, true);
    while let Some(word) = words.get(i) {
        match word.as_str() {
            "and" | "," | ":" | "about" | "approximately" => {
                i += 1;
                continue;
            }
            _ => {}
        }
        let Ok(mut n) = word.parse::<f64>() else { break };
        i += 1;
        if words.get(i).is_some_and(|w| w == ".")
            && let Some(fraction) = words.get(i + 1).filter(|w| w.bytes().all(|b| b.is_ascii_digit()))
        {
            n += format!("0.{fraction}").parse::<f64>().unwrap_or(0.0);
            i += 2;
        }
        let unit = words.get(i).map_or("", String::as_str);
        let seconds = match unit {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86400.0,
            "w" | "week" | "weeks" => 604_800.0,
            // "retry-after: 60"
            _ if !found => {
                total += n;
                found = true;
                break;
            }
            _ => break,
        };
        exact = seconds < 60.0;
        total += n * seconds;
        found = true;
        i += 1;
    }
    let total = found.then(|| SignedDuration::try_from_secs_f64(total).ok()).flatten()?;
    if exact { Some(total) } else { total.checked_add(MINUTE) }
}

/// `at 7:08 PM`, `resets 3pm (Europe/Berlin)`, `at Feb 5th, 2026 3:45 PM`: the next such time, in the zone that is
/// named or else in ours.
fn clock(text: &str, words: &[String], now: &Zoned) -> Option<Timestamp> {
    let zone = text
        .split(['(', ')', ' '])
        .find(|w| w.contains('/') && !w.contains(':'))
        .and_then(|w| TimeZone::get(w).ok())
        .or_else(|| words.iter().any(|w| w == "utc").then_some(TimeZone::UTC))
        .unwrap_or_else(|| now.time_zone().clone());
    let here = now.with_time_zone(zone.clone());
    let digits = |i: usize| words.get(i).and_then(|w| w.parse::<i8>().ok());
    let is = |i: usize, what: &str| words.get(i).is_some_and(|w| w == what);
    for i in 0..words.len() {
        let Some(hour) = digits(i).filter(|_| i == 0 || !is(i - 1, ":")) else { continue };
        let (minute, next) = if is(i + 1, ":") { (digits(i + 2)?, i + 3) } else { (0, i + 1) };
        let half = match words.get(next).map(String::as_str) {
            Some("am") => Some(0),
            Some("pm") => Some(12),
            _ if next == i + 3 => None,
            _ => continue,
        };
        let hour = half.map_or(hour, |half| hour % 12 + half);
        let Ok(time) = Time::new(hour, minute, 0, 0) else { continue };
        let day = named_day(&words[..i], &here).unwrap_or_else(|| here.date());
        let mut at = day.to_datetime(time).to_zoned(zone.clone()).ok()?;
        if at < here && here.duration_since(&at) >= MINUTE && day == here.date() {
            at = day.tomorrow().ok()?.to_datetime(time).to_zoned(zone).ok()?;
        }
        // A full hour is one, unless it is this very minute.
        let at = if next == i + 3 || at < here { at.checked_add(MINUTE).ok()? } else { at };
        return Some(at.timestamp());
    }
    None
}

/// `… feb 5 th 2026` before the time.
fn named_day(words: &[String], here: &Zoned) -> Option<jiff::civil::Date> {
    const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let at = words.iter().rposition(|w| w.len() >= 3 && MONTHS.iter().any(|m| w.starts_with(m)))?;
    let month = 1 + MONTHS.iter().position(|m| words[at].starts_with(m))?;
    let day = words.get(at + 1)?.parse().ok()?;
    let year = words[at + 2..].iter().find(|w| w.len() == 4).and_then(|w| w.parse().ok()).unwrap_or(here.year());
    let month = i8::try_from(month).ok()?;
    (1..=31).contains(&day).then(|| date_of(year, month, day)).flatten()
}

fn date_of(year: i16, month: i8, day: i8) -> Option<jiff::civil::Date> {
    jiff::civil::Date::new(year, month, day).ok().filter(|d| *d >= date(2020, 1, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> String {
        let now: Zoned = "2026-11-30T17:38:14+00:00[UTC]".parse().unwrap();
        reset(text, &now).unwrap_or_default()
    }

    #[test]
    fn the_words_of_the_providers() {
        for (text, expected) in [
            (
                "You’ve hit your usage limit. Upgrade to Pro (https://x.com/pro), or try again at 7:08 PM.",
                "2026-11-30T19:09:00Z",
            ),
            ("usage limit. Try again at 5:38 PM.", "2026-11-30T17:39:00Z"),
            ("You've hit your usage limit. Try again at Dec 5th, 2026 3:45 AM.", "2026-12-05T03:46:00Z"),
            ("usage limit. try again in 3 days 4 hours 1 minute.", "2026-12-03T21:40:14Z"),
            ("Claude AI usage limit reached|1796070000", "2026-11-30T20:20:00Z"),
            ("You've hit your limit · resets 8pm (Europe/Berlin)", "2026-11-30T19:00:00Z"),
            ("5-hour limit reached ∙ resets 3am", "2026-12-01T03:00:00Z"),
            ("Your quota will reset after 2h3m4s.", "2026-11-30T19:41:18Z"),
            ("usage limit. try again in 5 minutes.", "2026-11-30T17:44:14Z"),
            ("usage limit. Try again at 5:37 PM.", "2026-12-01T17:38:00Z"),
            ("limit reached, resets 17:38", "2026-11-30T17:39:00Z"),
            ("Please retry in 35.5s.", "2026-11-30T17:38:49.5Z"),
            ("429, retry-after: 60", "2026-11-30T17:39:14Z"),
            ("rate_limit until 2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z"),
            ("exceeded retry limit, last status: 429 Too Many Requests", ""),
            ("You have exhausted your daily quota on this model.", ""),
            ("limit resets 2020-01-01T00:00:00Z", ""),
            ("try again in 4000 days", ""),
        ] {
            assert_eq!(at(text), expected, "{text}");
        }
    }

    #[test]
    fn other_errors_are_none() {
        assert!(is_one("exceeded retry limit, last status: 429 Too Many Requests"));
        assert!(is_one("[API Error: You have exhausted your daily quota on this model.]"));
        assert!(!is_one("unexpected status 401 Unauthorized, id 14290"));
        assert!(!is_one("context length exceeded"));
    }

    proptest::proptest! {
        #[test]
        fn any_words_are_read(text in "(\\PC|in |at |[0-9]{1,14}|pm|:|\\.|feb|h|s| )*") {
            at(&text);
        }
    }
}
