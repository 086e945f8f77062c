//! Duration format: `1h30m`, or a looser `2 weeks`.

use seaworthy_values::duration;

/// Units of the loose form. The last spelling of each is a beginning: `hours` is `hour`.
const LOOSE_UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

pub(crate) fn is_duration(text: &str) -> bool {
    duration::parse(text).is_some() || is_loose(text)
}

/// A number and a unit somewhere in the text.
fn is_loose(text: &str) -> bool {
    let mut rest = text;
    let mut found = false;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let unit_text = after.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let unit_end = unit_text.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(unit_text.len());
        rest = after;
        if unit_end == 0 {
            continue;
        }
        if number.parse::<i64>().is_err() {
            return false;
        }
        found |= is_loose_unit(&unit_text[..unit_end].to_lowercase());
        rest = &unit_text[unit_end..];
    }
    found
}

fn is_loose_unit(unit: &str) -> bool {
    LOOSE_UNITS.iter().any(|spellings| match spellings {
        [exact @ .., beginning] => exact.contains(&unit) || unit.starts_with(beginning),
        [] => false,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1h30m", true)]
    #[case("-1.5s", true)]
    #[case("0", true)]
    #[case("2 weeks", true)]
    #[case("about 3 days", true)]
    #[case("1", false)]
    #[case("", false)]
    #[case("1.2.3s", true)]
    #[case("1 parsec", false)]
    #[case("h", false)]
    fn durations(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(is_duration(text), expected);
    }
}
