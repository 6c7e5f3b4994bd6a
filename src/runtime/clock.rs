//! Time as the state keeps it: RFC 3339, UTC, microseconds, so that text order is time order.

use jiff::Timestamp;

/// Now, as stored in events and records.
pub fn now() -> String {
    stamp(Timestamp::now())
}

/// `t` as stored: always six digits after the second.
pub fn stamp(t: Timestamp) -> String {
    t.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads what [`now`] wrote, or any RFC 3339 time.
pub fn parse(s: &str) -> Option<Timestamp> {
    s.parse().ok()
}

/// `YYYY-MM-DD hh:mm:ss` by the clock on the wall, for people; what is no time stays as it is.
pub fn local(s: &str) -> String {
    let wall = |t: Timestamp| t.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    parse(s).map_or_else(|| s.to_owned(), wall)
}

/// Whole seconds from `from` to `to` (not negative); `None` where either is unreadable.
pub fn seconds_between(from: &str, to: &str) -> Option<u64> {
    let (a, b) = (parse(from)?, parse(to)?);
    Some(b.duration_since(a).as_secs().max(0).unsigned_abs())
}

/// `YYYYMMDDThhmmssZ`, for names of entries and refs.
pub fn compact() -> String {
    Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// `n` random bytes as hex.
pub fn random_hex(n: usize) -> String {
    let mut b = vec![0u8; n];
    getrandom::fill(&mut b).expect("the kernel gives random bytes");
    b.iter().map(|b| format!("{b:02x}")).collect()
}
