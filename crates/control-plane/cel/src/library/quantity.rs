//! Kubernetes quantities: exact amounts with a decimal or binary unit.

use std::cmp::Ordering;
use std::sync::Arc;

use seaworthy_values::quantity::{INVALID_QUANTITY, QuantityText, Unit};

use super::{Native, overload_mismatch};
use crate::error::EvalError;
use crate::value::{Opaque, Outcome, Val};

/// An amount.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    amount: Amount,
}

/// Upstream keeps small amounts as a number with a decimal exponent and others as big decimals, and lets the
/// difference be seen: only the former can be integers.
#[derive(Debug, Clone, Copy)]
enum Amount {
    Small {
        value: i64,
        scale: i32,
    },
    /// In billionths, the smallest unit there is.
    Big(i128),
}

const BILLION: i128 = 1_000_000_000;
/// The largest amount with a binary unit.
const MAX: i128 = i64::MAX as i128;

impl Quantity {
    /// Reads a quantity such as `1.5Gi`, `100m` or `1e3`.
    pub fn parse(text: &str) -> Result<Quantity, &'static str> {
        if text.is_empty() {
            return Err(INVALID_QUANTITY);
        }
        // Upstream reads a number without digits as zero.
        let QuantityText { is_negative, whole, fraction, unit } = QuantityText::split(text);
        let exponent = unit.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(INVALID_QUANTITY);
        }
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let (binary, exponent) = match Unit::parse(unit).ok_or("unable to parse quantity's suffix")? {
            Unit::Binary(power) => (true, power as i32),
            Unit::Decimal(power) | Unit::Exponent(power) => (false, power),
        };
        let sign = if is_negative { -1 } else { 1 };
        let digits = format!("{whole}{fraction}");
        let room = if !binary {
            18 - digits.len() as i32
        } else if exponent >= 0 && fraction.is_empty() {
            15 - whole.len() as i32 - (exponent as f32 * 3.0 / 10.0) as i32 - 1
        } else {
            -1
        };
        let scale = if binary { 0 } else { exponent } - fraction.len() as i32;
        let mantissa = if binary && exponent >= 0 { 1i64.checked_shl(exponent as u32).unwrap_or(0) } else { 1 };
        if room >= 0
            && scale >= -9
            && let Some(value) = digits.parse::<i64>().ok().and_then(|value| value.checked_mul(mantissa))
        {
            return Ok(Quantity { amount: Amount::Small { value: sign as i64 * value, scale } });
        }
        Ok(Quantity { amount: Amount::Big(sign * big(&digits, fraction.len(), binary, exponent)) })
    }

    fn billionths(self) -> i128 {
        match self.amount {
            Amount::Small { value, scale } => {
                i128::from(value).saturating_mul(10i128.saturating_pow((scale + 9) as u32))
            }
            Amount::Big(value) => value,
        }
    }

    /// The whole number it is, as upstream sees it.
    pub fn as_int(self) -> Option<i64> {
        match self.amount {
            Amount::Small { value: 0, .. } => Some(0),
            Amount::Small { value, scale } if scale >= 0 => value.checked_mul(10i64.checked_pow(scale as u32)?),
            _ => None,
        }
    }

    /// About how much it is.
    pub fn as_float(self) -> f64 {
        match self.amount {
            Amount::Small { value, scale } => {
                let power = 10f64.powi(scale.abs());
                value as f64 * if scale < 0 { 1.0 / power } else { power }
            }
            Amount::Big(value) if value % BILLION == 0 => (value / BILLION) as f64,
            Amount::Big(value) => value as f64 * 1e-9,
        }
    }

    fn plus(self, other: Quantity) -> Quantity {
        if let (Amount::Small { value: a, scale: x }, Amount::Small { value: b, scale: y }) =
            (self.amount, other.amount)
        {
            if b == 0 {
                return self;
            }
            if a == 0 {
                return other;
            }
            let scale = x.min(y);
            let shift = |value: i64, by: i32| 10i64.checked_pow(by as u32).and_then(|power| value.checked_mul(power));
            if let (Some(a), Some(b)) = (shift(a, x - scale), shift(b, y - scale))
                && let Some(value) = a.checked_add(b)
            {
                return Quantity { amount: Amount::Small { value, scale } };
            }
        }
        Quantity { amount: Amount::Big(self.billionths().saturating_add(other.billionths())) }
    }

    fn negated(self) -> Quantity {
        Quantity {
            amount: match self.amount {
                Amount::Small { value, scale } => match value.checked_neg() {
                    Some(value) => Amount::Small { value, scale },
                    None => Amount::Big(-self.billionths()),
                },
                Amount::Big(value) => Amount::Big(-value),
            },
        }
    }

    /// Which of two is more.
    pub fn compare(&self, other: &Quantity) -> Ordering {
        self.billionths().cmp(&other.billionths())
    }

    /// In billionths, as text.
    pub fn to_billionths(self) -> String {
        self.billionths().to_string()
    }
}

/// The amount in billionths, rounded up to the smallest unit; binary amounts are capped.
fn big(digits: &str, fraction: usize, binary: bool, exponent: i32) -> i128 {
    // Far more digits than the cap has are the cap; far more behind the point are rounded away.
    let digits = digits.trim_start_matches('0');
    let mut power = 9 - fraction as i64 + if binary { 0 } else { i64::from(exponent) };
    if digits.is_empty() {
        return 0;
    }
    // Differs: decimal amounts end at what fits here, about 10^29; upstream counts on.
    let most = if binary { MAX * BILLION } else { i128::MAX / 4 };
    if digits.len() as i64 + power > 37 {
        return most;
    }
    let kept = digits.len().min(36);
    let mut rest = digits[kept..].bytes().any(|digit| digit != b'0');
    power += (digits.len() - kept) as i64;
    let mut value: i128 = digits[..kept].parse().unwrap_or(i128::MAX);
    if binary {
        value = value.saturating_mul(1i128 << exponent.clamp(0, 60));
    }
    while power > 0 {
        value = value.saturating_mul(10);
        power -= 1;
    }
    while power < 0 && (value > 0 || rest) {
        rest |= value % 10 != 0;
        value /= 10;
        power += 1;
        if value == 0 {
            break;
        }
    }
    value.saturating_add(i128::from(rest)).min(most)
}

pub(super) fn find(function: &str) -> Option<Native> {
    let native: Native = match function {
        "quantity" => |args| match args {
            [Val::String(text)] => Quantity::parse(text).map(wrap).map_err(EvalError::new),
            _ => overload_mismatch(),
        },
        "isQuantity" => |args| match args {
            [Val::String(text)] => Ok(Val::Bool(Quantity::parse(text).is_ok())),
            _ => overload_mismatch(),
        },
        "sign" => |args| match args {
            [Val::Opaque(Opaque::Quantity(quantity))] => Ok(Val::Int(quantity.billionths().signum() as i64)),
            _ => overload_mismatch(),
        },
        "isGreaterThan" => |args| super::semver::compare(args, |order| Val::Bool(order.is_gt())),
        "isLessThan" => |args| super::semver::compare(args, |order| Val::Bool(order.is_lt())),
        "compareTo" => |args| super::semver::compare(args, |order| Val::Int(order as i64)),
        "asApproximateFloat" => |args| match args {
            [Val::Opaque(Opaque::Quantity(quantity))] => Ok(Val::Double(quantity.as_float())),
            _ => overload_mismatch(),
        },
        "asInteger" => |args| match args {
            [Val::Opaque(Opaque::Quantity(quantity))] => {
                quantity.as_int().map(Val::Int).ok_or_else(|| EvalError::new("cannot convert value to integer"))
            }
            _ => overload_mismatch(),
        },
        "isInteger" => |args| match args {
            [Val::Opaque(Opaque::Quantity(quantity))] => Ok(Val::Bool(quantity.as_int().is_some())),
            _ => overload_mismatch(),
        },
        "add" => |args| combine(args, |quantity| quantity),
        "sub" => |args| combine(args, Quantity::negated),
        _ => return None,
    };
    Some(native)
}

fn wrap<'a>(quantity: Quantity) -> Val<'a> {
    Val::Opaque(Opaque::Quantity(Arc::new(quantity)))
}

fn combine<'a>(args: &[Val<'a>], change: fn(Quantity) -> Quantity) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Quantity(one)), Val::Opaque(Opaque::Quantity(two))] => Ok(wrap(one.plus(change(**two)))),
        [Val::Opaque(Opaque::Quantity(one)), Val::Int(two)] => {
            let two = Quantity { amount: Amount::Small { value: *two, scale: 0 } };
            Ok(wrap(one.plus(change(two))))
        }
        _ => overload_mismatch(),
    }
}
