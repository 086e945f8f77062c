//! Validation of numbers against type, format and bounds.
//!
//! Whole numbers are compared as 64-bit integers and bounds are cut to whole ones for that, as the original does:
//! `minimum: 0.5` lets a whole `0` pass. Fractions are compared as they are.

use serde_json::{Number, Value};

use crate::node::{Limits, Type};
use crate::wording;

/// Beyond 2^53 neighbouring integers are not distinct as floats, and no number counts as whole.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Whether a fraction is, for all purposes, none.
pub(crate) fn is_whole(number: f64) -> bool {
    if !number.is_finite() || number.abs() > MAX_SAFE_INTEGER {
        return false;
    }
    let rounded = number.round();
    number == rounded || (rounded != 0.0 && (number - rounded).abs() < 1e-9 * rounded.abs())
}

/// What is wrong with a number.
pub(crate) enum NumberMistake {
    /// The value, or a bound, does not fit its type.
    OutOfRange { what: &'static str },
    /// `multipleOf` cannot be checked.
    FactorNotPositive { factor: String },
    /// A bound is broken.
    Broken { sentence: String, shown: String },
}

/// What a schema says of a number.
pub(crate) struct NumberChecks<'a> {
    /// Integer or number; none when the type is open.
    pub(crate) kind: Option<Type>,
    pub(crate) format: Option<&'a str>,
    pub(crate) limits: Option<&'a Limits>,
}

#[derive(Clone, Copy)]
enum Numeric {
    Whole(i64),
    Float(f64),
}

impl Numeric {
    fn of(value: &Value) -> Numeric {
        match value.as_i64() {
            Some(whole) => Numeric::Whole(whole),
            None => Numeric::Float(value.as_f64().unwrap_or(0.0)),
        }
    }

    fn float(self) -> f64 {
        match self {
            Numeric::Whole(whole) => whole as f64,
            Numeric::Float(float) => float,
        }
    }

    fn text(self) -> String {
        match self {
            Numeric::Whole(whole) => whole.to_string(),
            Numeric::Float(float) => wording::float(float),
        }
    }
}

impl NumberChecks<'_> {
    pub(crate) fn run(&self, value: &Value) -> Vec<NumberMistake> {
        let number = Numeric::of(value);
        let mut found = Vec::new();
        if !self.fits(number) {
            found.push(NumberMistake::OutOfRange { what: "Checked" });
        }
        let Some(limits) = self.limits else { return found };
        let float = |number: &Number| number.as_f64().unwrap_or(0.0);
        if let Some(factor) = &limits.multiple_of {
            self.multiple(number, float(factor), &mut found);
        }
        if let Some((limit, excluded)) = &limits.minimum {
            self.bound(number, float(limit), *excluded, true, &mut found);
        }
        if let Some((limit, excluded)) = &limits.maximum {
            self.bound(number, float(limit), *excluded, false, &mut found);
        }
        found
    }

    /// Whether a number fits the type and the format.
    fn fits(&self, number: Numeric) -> bool {
        match (self.kind, self.format) {
            (Some(Type::Integer), format) => {
                let whole = match number {
                    Numeric::Whole(whole) => Some(whole),
                    // As digits, a float must be a whole number and not too long.
                    Numeric::Float(float) => (float.fract() == 0.0
                        && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float))
                    .then_some(float as i64),
                };
                whole.is_some_and(|whole| format != Some("int32") || i32::try_from(whole).is_ok())
            }
            (_, Some("float")) => (number.float() as f32).is_finite(),
            _ => true,
        }
    }

    /// Compares as whole numbers where value and bound are such; else as floats.
    fn bound(&self, number: Numeric, limit: f64, excluded: bool, is_minimum: bool, found: &mut Vec<NumberMistake>) {
        let limit_fits = self.fits(Numeric::Float(limit));
        if !limit_fits {
            let what = if is_minimum { "Minimum boundary" } else { "Maximum boundary" };
            found.push(NumberMistake::OutOfRange { what });
        }
        let (order, limit_text, shown) = match number {
            // Differs: a bound beyond 64 bits is the largest whole number here; there it turns into the smallest on
            // some machines.
            Numeric::Whole(whole) if limit_fits => {
                (whole.cmp(&(limit as i64)), (limit as i64).to_string(), number.text())
            }
            _ => {
                let float = number.float();
                let order = float.partial_cmp(&limit).unwrap_or(std::cmp::Ordering::Equal);
                (order, wording::float(limit), wording::float(float))
            }
        };
        let (broken, direction) = if is_minimum { (order.is_lt(), "greater") } else { (order.is_gt(), "less") };
        if broken || (excluded && order.is_eq()) {
            let or_equal = if excluded { "" } else { " or equal to" };
            found.push(NumberMistake::Broken {
                sentence: format!("should be {direction} than{or_equal} {limit_text}"),
                shown,
            });
        }
    }

    fn multiple(&self, number: Numeric, factor: f64, found: &mut Vec<NumberMistake>) {
        let factor_fits = self.fits(Numeric::Float(factor));
        if !factor_fits {
            found.push(NumberMistake::OutOfRange { what: "MultipleOf" });
        }
        let (is_positive, is_multiple, factor_text, shown) = match number {
            Numeric::Whole(whole) if factor_fits => {
                let cut = factor as i64;
                (cut > 0, cut > 0 && whole % cut == 0, cut.to_string(), number.text())
            }
            _ => {
                let float = number.float();
                let times = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
                (factor > 0.0, is_whole(times), wording::float(factor), wording::float(float))
            }
        };
        if !is_positive {
            found.push(NumberMistake::FactorNotPositive { factor: factor_text });
        } else if !is_multiple {
            found.push(NumberMistake::Broken { sentence: format!("should be a multiple of {factor_text}"), shown });
        }
    }
}
