//! Number formatting and parsing as in Go, as clients see it in messages and results.

/// The shortest digits of a finite number and its decimal exponent: `d.ddd × 10^exponent`.
fn shortest(value: f64) -> (String, i32) {
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value == f64::INFINITY {
        Some("+Inf")
    } else if value == f64::NEG_INFINITY {
        Some("-Inf")
    } else {
        None
    }
}

fn general(value: f64, exponent_limit: i32) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let (digits, exponent) = shortest(value);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if exponent < -4 || exponent >= exponent_limit {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}e{mark}{:02}", exponent.unsigned_abs());
    }
    format!("{sign}{}", plain(&digits, exponent))
}

fn plain(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{}.{}", &digits[..whole], &digits[whole..])
}

/// What `string()` gives for a double.
pub(crate) fn go_general(value: f64) -> String {
    general(value, 6)
}

/// What messages show for a double.
pub(crate) fn go_verb(value: f64) -> String {
    general(value, 21)
}

/// Without an exponent and with as many digits as needed.
pub(crate) fn go_fixed(value: f64) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let (digits, exponent) = shortest(value);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    format!("{sign}{}", plain(&digits, exponent))
}

/// A number from text as Go reads it: no exponent without digits, no spaces, names for infinities.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    let special = ["inf", "infinity", "nan"].iter().any(|name| bare.eq_ignore_ascii_case(name));
    if !special && !bare.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if special && bare.eq_ignore_ascii_case("nan") {
        return (bare.len() == text.len()).then_some(f64::NAN);
    }
    let value: f64 = without_separators(text)?.parse().ok()?;
    // Out of range is an error, not infinity.
    (special || value.is_finite()).then_some(value)
}

/// Underscores are allowed between digits.
fn without_separators(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |index: Option<usize>| index.and_then(|index| bytes.get(index)).is_some_and(u8::is_ascii_digit);
    let placed = |index: usize| digit(index.checked_sub(1)) && digit(Some(index + 1));
    let ok = (0..bytes.len()).filter(|index| bytes[*index] == b'_').all(placed);
    ok.then(|| text.replace('_', ""))
}
