//! Quantities (`1.5Gi`, `500m`, `1e3`): how they are written, and their units.
//!
//! What a quantity amounts to is calculated where it is needed, because the API server, its rules and the kubelet differ in
//! limits and rounding, and in whether a number without digits is zero or a mistake.

/// The error message of kube-apiserver for an invalid quantity.
pub const INVALID_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The units that are powers of 1024, from the first.
pub const BINARY_UNITS: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The units that are powers of ten.
pub const DECIMAL_UNITS: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// The text of a quantity in its parts; any of them may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantityText<'t> {
    pub is_negative: bool,
    /// The digits before the point.
    pub whole: &'t str,
    /// The digits behind the point.
    pub fraction: &'t str,
    /// All that is behind the number.
    pub unit: &'t str,
}

/// A unit as a power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Ki, Mi, Gi …: of two.
    Binary(u32),
    /// m, k, M … or none: of ten.
    Decimal(i32),
    /// e3, E-6 …: of ten.
    Exponent(i32),
}

impl<'t> QuantityText<'t> {
    /// Splits a text; what is not a number is left to the unit.
    pub fn split(text: &'t str) -> Self {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, behind) = split_digits(unsigned);
        let (fraction, unit) = behind.strip_prefix('.').map_or(("", behind), split_digits);
        QuantityText { is_negative: text.starts_with('-'), whole, fraction, unit }
    }

    /// Whether it has a number at all.
    pub fn has_digits(&self) -> bool {
        !self.whole.is_empty() || !self.fraction.is_empty()
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

impl Unit {
    /// Reads a unit.
    pub fn parse(text: &str) -> Option<Unit> {
        if let Some(nth) = BINARY_UNITS.iter().position(|unit| *unit == text) {
            return Some(Unit::Binary(10 * (nth as u32 + 1)));
        }
        // `E` alone is a unit, and with digits an exponent.
        if let Some((_, power)) = DECIMAL_UNITS.iter().find(|(unit, _)| *unit == text) {
            return Some(Unit::Decimal(*power));
        }
        text.strip_prefix(['e', 'E'])?.parse().ok().map(Unit::Exponent)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1.5Gi", (false, "1", "5", "Gi"))]
    #[case("-500m", (true, "500", "", "m"))]
    #[case("+.5", (false, "", "5", ""))]
    #[case("5.", (false, "5", "", ""))]
    #[case("1.2.3", (false, "1", "2", ".3"))]
    #[case("k", (false, "", "", "k"))]
    #[case("--1", (true, "", "", "-1"))]
    #[case("1 Gi", (false, "1", "", " Gi"))]
    fn text_is_split_behind_its_number(#[case] text: &str, #[case] parts: (bool, &str, &str, &str)) {
        let found = QuantityText::split(text);
        assert_eq!((found.is_negative, found.whole, found.fraction, found.unit), parts);
    }

    #[rstest]
    #[case("", Some(Unit::Decimal(0)))]
    #[case("n", Some(Unit::Decimal(-9)))]
    #[case("E", Some(Unit::Decimal(18)))]
    #[case("Ei", Some(Unit::Binary(60)))]
    #[case("Ki", Some(Unit::Binary(10)))]
    #[case("e3", Some(Unit::Exponent(3)))]
    #[case("E-06", Some(Unit::Exponent(-6)))]
    #[case("e", None)]
    #[case("e+-1", None)]
    #[case("K", None)]
    #[case("KI", None)]
    #[case("kk", None)]
    #[case(".3", None)]
    #[case("e99999999999", None)]
    fn units(#[case] text: &str, #[case] expected: Option<Unit>) {
        assert_eq!(Unit::parse(text), expected);
    }

    proptest! {
        #[test]
        fn parts_are_the_whole_text(text in "[-+.0-9eEKMGi]{0,40}|.{0,12}") {
            let parts = QuantityText::split(&text);
            let rest = text.strip_prefix(['+', '-']).unwrap_or(&text);
            let number = rest.strip_suffix(parts.unit).unwrap();
            let with_point = format!("{}.{}", parts.whole, parts.fraction);
            prop_assert!(number == parts.whole || number == with_point, "{parts:?}");
        }
    }
}
