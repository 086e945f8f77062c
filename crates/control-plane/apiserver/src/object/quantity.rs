//! Quantities such as `500m` or `16Gi`: parsing, canonical form and comparison.

use std::cmp::Ordering;

use seaworthy_values::quantity::{BINARY_UNITS, DECIMAL_UNITS, QuantityText, Unit};

#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// In billionths.
    nanos: i128,
    /// The unit that it was written in; its system is kept.
    unit: Unit,
}

const NANO: i128 = 1_000_000_000;
/// Larger exponents are beyond all amounts.
const MAX_EXPONENT: i32 = 99;

impl Quantity {
    /// Parses a quantity. Fractions below a billionth are rounded up, as in kube-apiserver.
    pub fn parse(text: &str) -> Option<Quantity> {
        let parts = QuantityText::split(text);
        if !parts.has_digits() {
            return None;
        }
        let unit = Unit::parse(parts.unit)?;
        let (factor_ten, factor_two) = match unit {
            Unit::Binary(power) => (0, 1i128 << power),
            Unit::Decimal(power) => (power, 1),
            Unit::Exponent(power) => (Some(power).filter(|power| (-MAX_EXPONENT..=MAX_EXPONENT).contains(power))?, 1),
        };
        // Leading zeros are ignored; more digits than fit are out of range.
        let digits = format!("{}{}", parts.whole.trim_start_matches('0'), parts.fraction);
        let mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let scaled = mantissa.checked_mul(factor_two)?;
        let exponent = factor_ten + 9 - i32::try_from(parts.fraction.len()).ok()?;
        let nanos = match u32::try_from(exponent) {
            Ok(exponent) => scaled.checked_mul(10i128.checked_pow(exponent)?)?,
            Err(_) => match 10i128.checked_pow(exponent.unsigned_abs()) {
                Some(divisor) => scaled / divisor + i128::from(scaled % divisor != 0),
                None => i128::from(scaled != 0),
            },
        };
        Some(Quantity { nanos: if parts.is_negative { -nanos } else { nanos }, unit })
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
        if matches!(self.unit, Unit::Binary(_)) && !is_small {
            let mut amount = self.nanos / NANO + i128::from(self.nanos % NANO > 0);
            let mut unit = "";
            for larger in BINARY_UNITS {
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
        match (self.unit, exponent) {
            (Unit::Exponent(_), 0) => amount.to_string(),
            (Unit::Exponent(_), exponent) => format!("{amount}e{exponent}"),
            _ => {
                let unit = DECIMAL_UNITS.iter().find(|(_, own)| *own == exponent).map_or("", |(unit, _)| unit);
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
        fn spelling_is_read_as_the_same_amount(number in 0u64.., unit in 0usize..BINARY_UNITS.len() + DECIMAL_UNITS.len()) {
            let unit = BINARY_UNITS.iter().copied().chain(DECIMAL_UNITS.iter().map(|(unit, _)| *unit)).nth(unit).unwrap();
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
