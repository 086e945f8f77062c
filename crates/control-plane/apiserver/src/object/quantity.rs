//! Quantities such as `500m` or `16Gi`: parsing, canonical form and comparison.

use std::cmp::Ordering;

/// The error message of kube-apiserver for an invalid quantity.
pub const INVALID_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The unit system of a quantity, which is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Units {
    /// Ki, Mi, Gi …
    Binary,
    /// m, k, M …
    Decimal,
    /// e3, e6 …
    Exponent,
}

#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// In billionths.
    nanos: i128,
    units: Units,
}

const NANO: i128 = 1_000_000_000;
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

impl Quantity {
    /// Parses a quantity. Fractions below a billionth are rounded up, as in kube-apiserver.
    pub fn parse(text: &str) -> Option<Quantity> {
        let (is_negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && part.is_empty()) || part.contains('.') {
            return None;
        }
        let (units, factor_ten, factor_two) = Self::suffix(suffix)?;
        // Leading zeros are ignored; more digits than fit are out of range.
        let digits = format!("{}{part}", whole.trim_start_matches('0'));
        let mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let scaled = mantissa.checked_mul(factor_two)?;
        let exponent = factor_ten + 9 - i32::try_from(part.len()).ok()?;
        let nanos = match u32::try_from(exponent) {
            Ok(exponent) => scaled.checked_mul(10i128.checked_pow(exponent)?)?,
            Err(_) => match 10i128.checked_pow(exponent.unsigned_abs()) {
                Some(divisor) => scaled / divisor + i128::from(scaled % divisor != 0),
                None => i128::from(scaled != 0),
            },
        };
        Some(Quantity { nanos: if is_negative { -nanos } else { nanos }, units })
    }

    fn suffix(suffix: &str) -> Option<(Units, i32, i128)> {
        if let Some(at) = BINARY.iter().position(|unit| *unit == suffix) {
            return Some((Units::Binary, 0, 1i128 << (10 * (at + 1))));
        }
        if let Some((_, exponent)) = DECIMAL.iter().find(|(unit, _)| *unit == suffix) {
            return Some((Units::Decimal, *exponent, 1));
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        Some((Units::Exponent, exponent.parse().ok().filter(|number: &i32| number.abs() < 100)?, 1))
    }

    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is an integer.
    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// The canonical form: no fraction, and the largest unit that loses no precision.
    pub fn canonical(self) -> String {
        let is_small = self.nanos.abs() < 1024 * NANO;
        if self.units == Units::Binary && !is_small {
            let mut amount = self.nanos / NANO + i128::from(self.nanos % NANO > 0);
            let mut unit = "";
            for larger in BINARY {
                if amount % 1024 != 0 {
                    break;
                }
                (amount, unit) = (amount / 1024, larger);
            }
            return format!("{amount}{unit}");
        }
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let (mut amount, mut exponent) = (self.nanos, -9);
        while amount % 1000 == 0 && exponent < 18 {
            (amount, exponent) = (amount / 1000, exponent + 3);
        }
        match (self.units, exponent) {
            (Units::Exponent, 0) => amount.to_string(),
            (Units::Exponent, exponent) => format!("{amount}e{exponent}"),
            _ => {
                let unit = DECIMAL.iter().find(|(_, own)| *own == exponent).map_or("", |(unit, _)| unit);
                format!("{amount}{unit}")
            }
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0.5", "500m")]
    #[case("1000m", "1")]
    #[case("1.5Gi", "1536Mi")]
    #[case("1024Mi", "1Gi")]
    #[case("0.5Ki", "512")]
    #[case("17179869184", "17179869184")]
    #[case("100000", "100k")]
    #[case("1e3", "1e3")]
    #[case("1500e0", "1500")]
    #[case("0", "0")]
    #[case("0Gi", "0")]
    #[case("-1.5", "-1500m")]
    #[case("+3", "3")]
    #[case(".5", "500m")]
    #[case("5.", "5")]
    #[case("0.0000000001", "1n")]
    fn amount_has_one_spelling(#[case] text: &str, #[case] canonical: &str) {
        assert_eq!(Quantity::parse(text).unwrap().canonical(), canonical);
    }

    #[rstest]
    #[case("")]
    #[case("much")]
    #[case("1.2.3")]
    #[case("1X")]
    #[case("1 Gi")]
    #[case("e3")]
    #[case("-")]
    #[case(".")]
    fn what_is_no_amount_is_refused(#[case] text: &str) {
        assert!(Quantity::parse(text).is_none());
    }

    proptest! {
        #[test]
        fn spelling_is_read_as_the_same_amount(number in 0u64.., unit in 0usize..BINARY.len() + DECIMAL.len()) {
            let unit = BINARY.iter().copied().chain(DECIMAL.iter().map(|(unit, _)| *unit)).nth(unit).unwrap();
            if let Some(quantity) = Quantity::parse(&format!("{number}{unit}")) {
                let canonical = quantity.canonical();
                prop_assert_eq!(Quantity::parse(&canonical).unwrap().canonical(), canonical.clone());
                prop_assert!(quantity == Quantity::parse(&canonical).unwrap());
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+.0-9eEKMGi]{0,40}|.{0,12}") {
            if let Some(quantity) = Quantity::parse(&text) {
                quantity.canonical();
            }
        }
    }
}
