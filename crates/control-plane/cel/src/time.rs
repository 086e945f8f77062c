//! Timestamps and durations: parsing, printing, calendar fields. No clock is read here.

use std::fmt;

use seaworthy_values::duration;

/// A point in time, from year 1 to year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970, UTC.
    seconds: i64,
    nanos: u32,
}

/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const MIN_SECONDS: i64 = -62_135_596_800;
const MAX_SECONDS: i64 = 253_402_300_799;
/// Offsets beyond this move no time that is in range any further.
const MAX_OFFSET: i64 = 1 << 40;
const NANOS: i64 = 1_000_000_000;

impl Timestamp {
    /// The point, if it is in range.
    pub fn new(seconds: i64, nanos: u32) -> Option<Self> {
        ((MIN_SECONDS..=MAX_SECONDS).contains(&seconds) && i64::from(nanos) < NANOS)
            .then_some(Timestamp { seconds, nanos })
    }

    /// Seconds since 1970, UTC.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    pub(crate) fn is_zero(self) -> bool {
        self.seconds == MIN_SECONDS && self.nanos == 0
    }

    /// RFC 3339 with a time, as strict as the API server reads `timestamp('…')`.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if !text.is_ascii() || bytes.len() < 20 {
            return None;
        }
        let (day, time) = (text.get(..10)?, text.get(11..)?);
        if bytes[10] != b'T' {
            return None;
        }
        let days = parse_date(day)?;
        let hour = digits(time.get(..2)?)?;
        let minute = digits(time.get(3..5)?)?;
        let second = digits(time.get(6..8)?)?;
        let ok = &time[2..3] == ":" && &time[5..6] == ":" && hour < 24 && minute < 60 && second < 60;
        if !ok {
            return None;
        }
        let mut rest = &time[8..];
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            let len = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
            if len == 0 {
                return None;
            }
            let padded: String = fraction[..len].chars().chain("000000000".chars()).take(9).collect();
            nanos = padded.parse().ok()?;
            rest = &fraction[len..];
        }
        let offset = parse_zone(rest)?;
        Timestamp::new(days * 86_400 + hour * 3600 + minute * 60 + second - offset, nanos)
    }

    /// A day without a time.
    pub fn parse_day(text: &str) -> Option<Self> {
        Timestamp::new(parse_date(text)? * 86_400, 0)
    }

    /// The forms the API server accepts for data of the `date-time` format.
    pub fn parse_lenient(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Timestamp::new(0, 0);
        }
        let upper = text.to_ascii_uppercase();
        let with_t = if upper.as_bytes().get(10) == Some(&b' ') { upper.replacen(' ', "T", 1) } else { upper };
        Timestamp::parse(&with_t).or_else(|| Timestamp::parse(&format!("{with_t}Z")))
    }

    /// Later (or earlier) by a span of nanoseconds.
    pub(crate) fn plus(self, nanos: i64) -> Option<Self> {
        let total = i64::from(self.nanos) + nanos.rem_euclid(NANOS);
        let seconds = self.seconds.checked_add(nanos.div_euclid(NANOS))?.checked_add(total / NANOS)?;
        Timestamp::new(seconds, (total % NANOS) as u32)
    }

    /// The span since an earlier point, in nanoseconds.
    pub(crate) fn minus(self, other: Timestamp) -> Option<i64> {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanos = seconds * i128::from(NANOS) + i128::from(self.nanos) - i128::from(other.nanos);
        i64::try_from(nanos).ok()
    }

    /// A field of the calendar at an offset from UTC in seconds.
    pub(crate) fn field(self, field: CalendarField, offset: i64) -> i64 {
        let local = self.seconds + offset;
        let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        match field {
            CalendarField::Year => year,
            CalendarField::Month => month - 1,
            CalendarField::DayOfYear => days - days_from_civil(year, 1, 1),
            CalendarField::DayOfMonth => day - 1,
            CalendarField::Date => day,
            CalendarField::DayOfWeek => (days + 4).rem_euclid(7),
            CalendarField::Hours => second / 3600,
            CalendarField::Minutes => second / 60 % 60,
            CalendarField::Seconds => second % 60,
            CalendarField::Milliseconds => i64::from(self.nanos) / 1_000_000,
        }
    }
}

/// A part of a date or time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CalendarField {
    Year,
    Month,
    DayOfYear,
    DayOfMonth,
    Date,
    DayOfWeek,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.seconds.div_euclid(86_400), self.seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)?;
        if self.nanos > 0 {
            write!(f, ".{}", format!("{:09}", self.nanos).trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

fn digits(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn parse_date(text: &str) -> Option<i64> {
    if text.len() != 10 || !text.is_ascii() || &text[4..5] != "-" || &text[7..8] != "-" {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, digits(&text[5..7])?, digits(&text[8..])?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    Some(days_from_civil(year, month, day))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `Z` or an offset like `+01:00`, in seconds.
fn parse_zone(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    if text.len() != 6 || &text[3..4] != ":" {
        return None;
    }
    let (hours, minutes) = (digits(&text[1..3])?, digits(&text[4..])?);
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Days since 1970 of a date in the Gregorian calendar, counted in 400-year cycles that start in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle * 146_097 + day_of_cycle - 719_468
}

/// The inverse: year, month and day from 1.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let cycle = days.div_euclid(146_097);
    let day_of_cycle = days.rem_euclid(146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_cycle + cycle * 400 + i64::from(month <= 2), month, day)
}

/// The forms the API server accepts for data of the `duration` format: also words, days and weeks.
pub(crate) fn parse_lenient_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = duration::parse(text) {
        return Some(nanos);
    }
    let mut total: i64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let len = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let amount: i64 = rest[..len].parse().ok()?;
        let tail = rest[len..].trim_start();
        let unit_len = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let unit: i64 = match tail[..unit_len].to_lowercase().as_str() {
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
            "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
            "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hr" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "w" | "week" | "weeks" => 604_800_000_000_000,
            _ => return None,
        };
        total = total.checked_add(amount.checked_mul(unit)?)?;
        rest = tail[unit_len..].trim_start();
    }
    Some(total)
}

/// What `string()` gives for a span: seconds.
pub(crate) fn format_duration(nanos: i64) -> String {
    let seconds = (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / 1e9;
    format!("{}s", crate::number::go_fixed(seconds))
}

/// A fixed offset from UTC such as `-05:30`, or `UTC`, in seconds.
///
/// Differs: names of places are refused, because no time zone database is built in.
pub(crate) fn parse_offset(text: &str) -> Result<i64, String> {
    let Some(colon) = text.find(':') else {
        return match text {
            "" | "UTC" | "Local" => Ok(0),
            name => Err(format!("unknown time zone {name}")),
        };
    };
    let (hours, minutes) = (&text[..colon], &text[colon + 1..]);
    let number =
        |part: &str| part.parse::<i64>().map_err(|_| format!("strconv.Atoi: parsing {part:?}: invalid syntax"));
    let (hour, minute) = (number(hours)?, number(minutes)?);
    let minute = if hours.starts_with('-') { -minute } else { minute };
    Ok(hour.saturating_mul(3600).saturating_add(minute.saturating_mul(60)).clamp(-MAX_OFFSET, MAX_OFFSET))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_and_text_agree() {
        for text in ["1970-01-01T00:00:00Z", "2000-02-29T23:59:59.5Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"] {
            assert_eq!(Timestamp::parse(text).map(|time| time.to_string()).as_deref(), Some(text));
        }
        let shifted = Timestamp::parse("2020-01-01T00:30:00+01:00").map(|time| time.to_string());
        assert_eq!(shifted.as_deref(), Some("2019-12-31T23:30:00Z"));
        assert!(Timestamp::parse("2019-02-29T00:00:00Z").is_none());
    }

    #[test]
    fn span_is_printed_in_seconds() {
        assert_eq!(format_duration(1_500_000_000), "1.5s");
    }
}
