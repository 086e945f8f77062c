//! Quantities of Kubernetes (`10G`, `500m`, `1Gi`, `1e3`) as whole numbers.

use seaworthy_values::quantity::{QuantityText, Unit};

/// Why a text is no quantity that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It is not one at all.
    #[error("{0:?} is not a quantity; expected a number with an optional unit, such as 10G, 512Mi, 500m or 1e3")]
    Malformed(String),
    /// It is larger than anything that is counted.
    #[error("{0:?} is too large; expected less than 8Ei")]
    TooLarge(String),
}

/// Longer exponents are slips.
const MAX_EXPONENT_DIGITS: usize = 3;

/// The value of a quantity, a fraction rounded away from zero as Kubernetes does.
pub fn value(text: &str) -> Result<i64, QuantityError> {
    let malformed = || QuantityError::Malformed(text.to_owned());
    let QuantityText { is_negative, whole, fraction, unit } = QuantityText::split(text);
    if whole.is_empty() && fraction.is_empty() {
        return Err(malformed());
    }
    let (ten, two) = match Unit::parse(unit).ok_or_else(malformed)? {
        Unit::Binary(power) => (0, power),
        Unit::Decimal(power) => (power, 0),
        Unit::Exponent(power) if exponent_digits(unit) <= MAX_EXPONENT_DIGITS => (power, 0),
        Unit::Exponent(_) => return Err(malformed()),
    };
    let too_large = || QuantityError::TooLarge(text.to_owned());
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    let ten = i64::from(ten) - i64::try_from(fraction.len()).map_err(|_| too_large())?;
    // Longer than this is beyond 8Ei, or all of it behind the point.
    if digits.len() > 36 {
        return Err(too_large());
    }
    let mut value: i128 = digits.parse().map_err(|_| malformed())?;
    value = value.checked_mul(1 << two).ok_or_else(too_large)?;
    if ten >= 0 {
        let power = u32::try_from(ten).ok().and_then(|ten| 10i128.checked_pow(ten)).ok_or_else(too_large)?;
        value = value.checked_mul(power).ok_or_else(too_large)?;
    } else {
        value = match u32::try_from(-ten).ok().and_then(|ten| 10i128.checked_pow(ten)) {
            Some(power) => value / power + i128::from(value % power != 0),
            None => 1,
        };
    }
    i64::try_from(if is_negative { -value } else { value }).map_err(|_| too_large())
}

fn exponent_digits(unit: &str) -> usize {
    unit.bytes().filter(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", 0)]
    #[case("0k", 0)]
    #[case("-1", -1)]
    #[case("+8192", 8192)]
    #[case("10k", 10_000)]
    #[case("10G", 10_000_000_000)]
    #[case("8Ki", 8192)]
    #[case("1.5Gi", 1_610_612_736)]
    #[case(".5k", 500)]
    #[case("1.", 1)]
    #[case("500m", 1)]
    #[case("-500m", -1)]
    #[case("1e3", 1000)]
    #[case("1E-3", 1)]
    #[case("1e-300", 1)]
    #[case("7E", 7_000_000_000_000_000_000)]
    fn a_quantity_has_a_value(#[case] text: &str, #[case] expected: i64) {
        assert_eq!(value(text), Ok(expected));
    }

    #[rstest]
    fn what_is_no_quantity_is_refused(
        #[values("", "k", "1 k", "1kk", "1.2.3", "--1", "1e", "1e+", "1e0003", "1KI", "ü", ".")] text: &str,
    ) {
        assert_eq!(value(text), Err(QuantityError::Malformed(text.to_owned())));
    }

    #[rstest]
    fn what_is_too_large_is_refused(#[values("1e300", "12E", "99999999999999999999", "8Ei")] text: &str) {
        assert_eq!(value(text), Err(QuantityError::TooLarge(text.to_owned())));
    }
}
