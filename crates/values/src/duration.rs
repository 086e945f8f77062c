//! Durations as Go writes them: `1h30m`, `-1.5s`.

/// The units, in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// What is behind this digit of a fraction is less than a nanosecond of any unit.
const MAX_FRACTION_DIGITS: usize = 18;

/// A duration in nanoseconds: `0`, or numbers with units, all the way; none that does not fit 64 bits.
///
/// Compat: `time.ParseDuration` of Go. Words, days and weeks (`2 weeks`) are other notations, see the format `duration` of
/// schemas.
pub fn parse(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Some(0);
    }
    if unsigned.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(number_end);
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(amount(number, *size)?).filter(|total| *total <= 1 << 63)?;
        rest = behind;
    }
    let total = i128::from(total);
    i64::try_from(if text.starts_with('-') { -total } else { total }).ok()
}

/// A number without a sign, of a unit.
fn amount(number: &str, size: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(MAX_FRACTION_DIGITS)];
    let digits: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let part = digits * u128::from(size) / 10u128.pow(fraction.len() as u32);
    whole.checked_mul(size)?.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", 0)]
    #[case("-0", 0)]
    #[case("1h30m", 5_400_000_000_000)]
    #[case("-1.5s", -1_500_000_000)]
    #[case("+1us1µs1μs", 3_000)]
    #[case("10s", 10_000_000_000)]
    #[case("1.5h", 5_400_000_000_000)]
    #[case(".5s", 500_000_000)]
    #[case("1.s", 1_000_000_000)]
    #[case("100ms", 100_000_000)]
    #[case("-1s", -1_000_000_000)]
    #[case("+1m1ns", 60_000_000_001)]
    #[case("0.3333333333333333333333s", 333_333_333)]
    #[case("1.s.5ms", 1_000_500_000)]
    #[case("0.0000000000000000009h", 0)]
    #[case("9223372036854775807ns", i64::MAX)]
    #[case("-9223372036854775808ns", i64::MIN)]
    fn duration_is_read_as_go_reads_it(#[case] text: &str, #[case] expected: i64) {
        assert_eq!(parse(text), Some(expected));
    }

    #[rstest]
    fn what_is_no_duration_is_refused(
        #[values(
            "",
            "-",
            "--1s",
            "1",
            "10",
            "s",
            "1d",
            "1 s",
            "1..5s",
            "1.2.3s",
            ".s",
            "10sx",
            "1msus",
            "9999999h",
            "9223372036854775808ns",
            "99999999999999999999h"
        )]
        text: &str,
    ) {
        assert_eq!(parse(text), None);
    }
}
