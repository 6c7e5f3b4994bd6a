//! Durations, sizes and sums of money as people write them.

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Longer is a mistake, and would overflow deadlines.
const LONGEST: u64 = 3650 * DAY;

/// Seconds of `90s`, `15m`, `2h`, `1h30m`, `1h 30m`, `2d`. `None` is no limit, written `none`, `off` or `0`.
///
/// A number without a unit is refused: in one tool it means seconds, in another minutes.
pub fn parse_duration(text: &str) -> Result<Option<u64>, String> {
    let wrong = || format!("'{text}' is not a duration such as '90s', '15m', '1h30m' or 'none'");
    let trimmed = text.trim();
    if matches!(trimmed, "none" | "off" | "0") {
        return Ok(None);
    }
    if !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("'{text}' has no unit; write '{trimmed}s' or '{trimmed}m'"));
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
        if unit >= last {
            return Err(wrong());
        }
        last = unit;
        total = number
            .checked_mul(unit)
            .and_then(|n| total.checked_add(n))
            .filter(|n| *n <= LONGEST)
            .ok_or_else(|| format!("'{text}' is longer than {} days", LONGEST / DAY))?;
        rest = rest[digits + 1..].trim_start();
    }
    if last == u64::MAX {
        return Err(wrong());
    }
    Ok((total > 0).then_some(total))
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

/// Bytes of `5GiB`, `500MB`, `1.5G`, `4096`. As in git, a bare letter counts in 1024s; `KB`, `MB`, `GB`, `TB` in 1000s.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size such as '500MB' or '5GiB'");
    let trimmed = text.trim();
    let end = trimmed.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, unit) = trimmed.split_at(end);
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
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
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(|| format!("'{text}' is too large"));
    }
    let fraction: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = fraction * factor as f64;
    if bytes >= u64::MAX as f64 { Err(format!("'{text}' is too large")) } else { Ok(bytes as u64) }
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
        _ => Err(format!("'{text}' is not a sum of US dollars; a number above 0 is")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("90s", 90),
            ("15m", 900),
            ("2h", 7200),
            ("1h30m", 5400),
            ("1h 30m", 5400),
            ("2d", 172_800),
            (" 1d1s ", 86_401),
        ] {
            assert_eq!(parse_duration(text), Ok(Some(seconds)), "{text}");
        }
        for text in ["none", "off", "0", "0s", "0h0m"] {
            assert_eq!(parse_duration(text), Ok(None), "{text}");
        }
        for text in
            ["", " ", "h", "1", "30m1h", "1h1h", "-1h", "1.5h", "1x", "99999999999999999999s", "9999d", "1h30", "١h"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_duration("15").unwrap_err(), "'15' has no unit; write '15s' or '15m'");
    }

    #[test]
    fn durations_for_people() {
        let all: Vec<_> = [0, 59, 60, 200, 3720, 86_400, 97_200].into_iter().map(format_duration).collect();
        assert_eq!(all, ["0s", "59s", "1m 00s", "3m 20s", "1h 02m", "1d 00h", "1d 03h"]);
    }

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("5GiB", 5 << 30), ("500MB", 500_000_000), ("1.5g", 3 << 29), ("4096", 4096), ("2 KiB", 2048), ("0", 0)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1..5G", "5 apples", "99999999999G", "18446744073709551615.5"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(
            [0, 1023, 1024, 1536, 1 << 30, u64::MAX].map(format_size).join("|"),
            "0 B|1023 B|1 KiB|1.5 KiB|1 GiB|16 EiB"
        );
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
            let read = parse_duration(&format_duration(seconds)).unwrap().unwrap();
            prop_assert!(read <= seconds && seconds - read < HOUR);
        }

        #[test]
        fn any_text_is_answered(text in ".{0,20}") {
            let _ = (parse_duration(&text), parse_size(&text), parse_cost(&text));
        }
    }
}
