//! YAML 1.1 type resolution: which plain texts a reader takes for something else than a string.
//!
//! Compat: gopkg.in/yaml.v2 `resolve.go`, with the number syntax of Go's `strconv`.

/// Whether a text, written without quotes, is read back as a string.
pub(super) fn is_string_when_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else {
        return false;
    };
    let is_other = match first {
        '+' | '-' | '0'..='9' => is_time(text) || is_number(text) || is_base60(text) || is_word(text),
        '.' => is_word(text) || parses_as_float(text),
        _ => is_word(text),
    };
    !is_other
}

fn is_word(text: &str) -> bool {
    const WORDS: [&str; 36] = [
        "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "n", "N", "no", "No", "NO", "false",
        "False", "FALSE", "off", "Off", "OFF", "~", "null", "Null", "NULL", ".nan", ".NaN", ".NAN", ".inf", ".Inf",
        ".INF", "+.inf", "+.Inf", "+.INF", "-.inf",
    ];
    text.len() <= 5 && (WORDS.contains(&text) || text == "-.Inf" || text == "-.INF")
}

fn is_number(text: &str) -> bool {
    let bare = if text.contains('_') { text.replace('_', "") } else { text.to_owned() };
    is_go_integer(&bare) || (is_float_syntax(&bare) && parses_as_float(&bare))
}

/// Go's integer syntax with the base taken from the prefix, within 64 bits.
fn is_go_integer(text: &str) -> bool {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let signed = digits.len() != text.len();
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.starts_with(['+', '-']) {
        return false;
    }
    match u64::from_str_radix(digits, radix) {
        // An unsigned number may use the 64th bit.
        Ok(_) if !signed => true,
        Ok(value) if negative => value <= 1 << 63,
        Ok(value) => value < 1 << 63,
        Err(_) => false,
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float_syntax(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = digits(rest);
    let rest = &rest[whole..];
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => (Some(digits(after)), &after[digits(after)..]),
        None => (None, rest),
    };
    if whole == 0 && fraction.unwrap_or(0) == 0 {
        return false;
    }
    let Some(exponent) = rest.strip_prefix(['e', 'E']) else {
        return rest.is_empty();
    };
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    !exponent.is_empty() && digits(exponent) == exponent.len()
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Whether Go reads the text as a double: Rust's syntax, less its words, and without overflow.
fn parses_as_float(text: &str) -> bool {
    let has_letters = text.bytes().any(|byte| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E'));
    !has_letters && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// `190:20:30.15`: minutes and seconds that YAML 1.1 reads as one number.
fn is_base60(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = rest.split(':');
    let Some(first) = parts.next() else {
        return false;
    };
    if !first.starts_with(|c: char| c.is_ascii_digit())
        || !first.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    {
        return false;
    }
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return false;
    };
    let is_sixty = |part: &str| match part.as_bytes() {
        [one] => one.is_ascii_digit(),
        [ten, one] => (b'0'..=b'5').contains(ten) && one.is_ascii_digit(),
        _ => false,
    };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    middle.iter().all(|part| is_sixty(part))
        && is_sixty(last)
        && fraction.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

/// A date, or a date and a time, that exists in the calendar.
fn is_time(text: &str) -> bool {
    if digits(text) != 4 || text.as_bytes().get(4) != Some(&b'-') {
        return false;
    }
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some((&text[at..at + 1], &text[at + 1..]))),
        None => (text, None),
    };
    let mut fields = date.split('-');
    let (Some(year), Some(month), Some(day), None) = (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return false;
    };
    let (Some(month), Some(day)) = (small(month), small(day)) else {
        return false;
    };
    let year: u32 = year.parse().unwrap_or(0);
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    if day == 0 || day > days {
        return false;
    }
    match time {
        None => true,
        Some((separator, time)) => is_clock(time, separator != " "),
    }
}

/// `15:4:5.999`, and a zone behind it when there must be one.
fn is_clock(text: &str, wants_zone: bool) -> bool {
    let (clock, zone) = match text.find(['Z', '+', '-']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let zone_ok = match zone {
        "" => !wants_zone,
        "Z" => wants_zone,
        zone => {
            let bytes = zone.as_bytes();
            let two = |at: usize| zone.get(at..at + 2).filter(|two| two.bytes().all(|byte| byte.is_ascii_digit()));
            wants_zone
                && bytes.len() == 6
                && bytes[3] == b':'
                && two(1).and_then(|hours| hours.parse().ok()).is_some_and(|hours: u32| hours <= 24)
                && two(4).and_then(|minutes| minutes.parse().ok()).is_some_and(|minutes: u32| minutes < 60)
        }
    };
    let (clock, fraction) = match clock.split_once(['.', ',']) {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (clock, None),
    };
    let parts: Vec<Option<u32>> = clock.split(':').map(small).collect();
    let [Some(hours), Some(minutes), Some(seconds)] = parts[..] else {
        return false;
    };
    let fraction_ok = fraction.is_none_or(|fraction| !fraction.is_empty() && digits(fraction) == fraction.len());
    zone_ok && fraction_ok && hours < 24 && minutes < 60 && seconds < 60
}

fn small(text: &str) -> Option<u32> {
    if matches!(text.len(), 1 | 2) && digits(text) == text.len() { text.parse().ok() } else { None }
}
