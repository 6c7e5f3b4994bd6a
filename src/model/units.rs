//! Durations, sizes, sums of money and counts, as people write and read them: the only place that reads them.

use super::text::shown;
use std::str::FromStr;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Longer is a mistake, and would overflow deadlines.
const LONGEST: u64 = 3650 * DAY;

/// A limit that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(
    /// Seconds; `None` is `off`, which `none` says too.
    pub Option<u64>,
);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if matches!(text.trim(), "off" | "none") {
            return Ok(Limit(None));
        }
        match parse_duration(text)? {
            0 => Err(format!("'{}' would end everything at once; 'off' is no limit", shown(text))),
            seconds => Ok(Limit(Some(seconds))),
        }
    }
}

/// Seconds of `90s`, `15m`, `2h`, `1h30m`, `1h 30m`, `2d`, `0`: the largest unit first.
///
/// Any other number without a unit is refused: in one tool it means seconds, in another minutes.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{}' is not a duration; write it as '90s', '30m', '2h' or '1h30m'", shown(text));
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(0);
    }
    if !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit()) {
        let number = shown(trimmed);
        return Err(format!("'{number}' has no unit; write '{number}s' or '{number}m'"));
    }
    let mut total = 0u64;
    let mut last = u64::MAX;
    let mut rest = trimmed;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit = match rest.as_bytes().get(digits) {
            Some(b'd') => DAY,
            Some(b'h') => HOUR,
            Some(b'm') => MINUTE,
            Some(b's') => 1,
            _ => return Err(wrong()),
        };
        // `30m1h` and `1h1h` are slips, not sums.
        if unit >= last {
            return Err(wrong());
        }
        last = unit;
        total = number
            .checked_mul(unit)
            .and_then(|n| total.checked_add(n))
            .filter(|n| *n <= LONGEST)
            .ok_or_else(|| format!("'{}' is longer than ten years", shown(text)))?;
        rest = rest[digits + 1..].trim_start();
    }
    if last == u64::MAX { Err(wrong()) } else { Ok(total) }
}

/// The two largest units: `2d 03h`, `1h 02m`, `3m 20s`, `0s`. [`parse_duration`] reads it back.
pub fn format_duration(seconds: u64) -> String {
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m {:02}s", seconds / MINUTE, seconds % MINUTE),
        HOUR..DAY => format!("{}h {:02}m", seconds / HOUR, seconds % HOUR / MINUTE),
        _ => format!("{}d {:02}h", seconds / DAY, seconds % DAY / HOUR),
    }
}

/// Bytes of `5GiB`, `500MB`, `2k`, `0`: a whole number with a unit. As in git, a bare letter counts in 1024s; `kB`, `MB`,
/// `GB`, `TB` in 1000s; `B` is bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{}' is not a size; write it as '500MiB' or '5GiB'", shown(text));
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(0);
    }
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = trimmed[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match trimmed[digits..].trim_start().to_ascii_lowercase().as_str() {
        "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(|| format!("'{}' is larger than this machine can count", shown(text)))
}

/// `0 B`, `12 KiB`, `1.5 GiB`.
pub fn format_size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value < 10.0 && (value * 10.0).round() % 10.0 != 0.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// US dollars: a positive, finite number, a leading `$` allowed.
pub fn parse_cost(text: &str) -> Result<f64, String> {
    let number = text.trim();
    let number = number.strip_prefix('$').unwrap_or(number);
    let plain = number.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    match number.parse::<f64>() {
        Ok(value) if plain && value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(format!("'{}' is not an amount of US dollars above 0, as '5' or '2.50'", shown(text))),
    }
}

/// `3 agents`, `1 agent`.
pub fn count(n: usize, what: &str) -> String {
    if n == 1 {
        return format!("1 {what}");
    }
    format!("{n} {what}{}", if what.ends_with('s') { "es" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_as_people_write_them() {
        for (text, seconds) in [
            ("90s", 90),
            ("15m", 900),
            ("2h", 7200),
            ("1h30m", 5400),
            ("1h 30m", 5400),
            ("2d", 172_800),
            (" 1d1s ", 86_401),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(seconds), "{text}");
        }
        for text in ["", " ", "h", "1", "2 h", "30m1h", "1h1h", "-1h", "1.5h", "1x", "1h30", "١h", "1ü", "off"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["99999999999999999999s", "9999d", "99999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_duration("15").unwrap_err(), "'15' has no unit; write '15s' or '15m'");
        assert_eq!(["off", "none", "1m"].map(|t| t.parse::<Limit>().unwrap().0), [None, None, Some(60)]);
        for text in ["0", "0s", "0h0m"] {
            assert!(text.parse::<Limit>().is_err_and(|e| e.contains("'off' is no limit")), "{text}");
        }
    }

    #[test]
    fn durations_for_people() {
        let all: Vec<_> = [0, 59, 60, 200, 3720, 86_400, 97_200].into_iter().map(format_duration).collect();
        assert_eq!(all, ["0s", "59s", "1m 00s", "3m 20s", "1h 02m", "1d 00h", "1d 03h"]);
    }

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in
            [("5GiB", 5 << 30), ("5g", 5 << 30), ("1 MiB", 1 << 20), ("2MB", 2_000_000), ("7B", 7), ("0", 0)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "5", "GiB", "-5GiB", "1.5GiB", "5 apples", "5XB", "99999999999999999999B", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(
            [0, 1023, 1024, 1536, 1 << 30, u64::MAX].map(format_size).join("|"),
            "0 B|1023 B|1 KiB|1.5 KiB|1 GiB|16 EiB"
        );
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|n| count(n, "agent")), ["0 agents", "1 agent", "2 agents"]);
        assert_eq!([1, 2].map(|n| count(n, "process")), ["1 process", "2 processes"]);
    }

    #[test]
    fn costs() {
        assert_eq!(parse_cost("5"), Ok(5.0));
        assert_eq!(parse_cost("$0.50"), Ok(0.5));
        for text in ["", "0", "-1", "nan", "inf", "infinity", "1e999", "5 EUR", "+5", "$"] {
            assert!(parse_cost(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_for_people_is_read_again(seconds in 1u64..LONGEST) {
            let read = parse_duration(&format_duration(seconds)).unwrap();
            prop_assert!(read <= seconds && seconds - read < HOUR);
        }

        #[test]
        fn any_text_is_a_value_or_a_message_without_anything_invisible(text in ".{0,20}|[0-9]{0,22}[a-zA-Z]{0,3}") {
            let said = [parse_duration(&text).err(), parse_size(&text).err(), parse_cost(&text).err()];
            for message in said.into_iter().flatten() {
                prop_assert!(crate::model::text::invisible(&message).is_none(), "{message:?}");
            }
        }
    }
}
