//! Formats of text that the API server checks, `format: date-time` and its like.
//!
//! Each follows what the real server accepts, which is often looser than the standard of the same name: that is what
//! stored objects and other clients rely on. A format that is not listed here is documentation.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::node::Type;

/// A format of text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextFormat(fn(&str) -> bool);

impl TextFormat {
    /// The format of a name; dashes in it do not matter.
    pub(crate) fn named(name: &str) -> Option<TextFormat> {
        let name = if name.contains('-') { Cow::from(name.replace('-', "")) } else { name.into() };
        Some(TextFormat(match name.as_ref() {
            "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "uri" => crate::uri::is_request_uri,
            "email" => crate::email::is_address,
            "hostname" => is_hostname,
            "ipv4" => |text| text.contains('.') && (is_lenient_ipv4(text) || is_lenient_ipv6(text)),
            "ipv6" => |text| text.parse::<Ipv6Addr>().is_ok(),
            "cidr" => is_cidr,
            "mac" => is_mac,
            "uuid" => |text| is_uuid(text, None, ""),
            "uuid3" => |text| is_uuid(text, Some('3'), ""),
            "uuid4" => |text| is_uuid(text, Some('4'), "89ab"),
            "uuid5" => |text| is_uuid(text, Some('5'), "89ab"),
            "isbn" => |text| is_isbn10(text) || is_isbn13(text),
            "isbn10" => is_isbn10,
            "isbn13" => is_isbn13,
            "creditcard" => is_credit_card,
            "ssn" => is_ssn,
            "hexcolor" => is_hex_color,
            "rgbcolor" => is_rgb_color,
            "byte" => is_base64,
            "password" => |_| true,
            "date" => is_date,
            "datetime" => is_date_time,
            "duration" => crate::duration::is_duration,
            "k8sshortname" => is_short_name,
            "k8slongname" => |text| text.len() <= 253 && text.split('.').all(is_label_without_limit),
            _ => return None,
        }))
    }

    /// Whether a text has this format.
    pub(crate) fn accepts(self, text: &str) -> bool {
        (self.0)(text)
    }
}

/// Whether a format means something for a type that a definition names.
pub(crate) fn is_recognised(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => TextFormat::named(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether the server checks a format for a type; all others are ignored, as if they were not written.
pub(crate) fn is_checked(kind: Option<Type>, is_int_or_string: bool, format: &str) -> bool {
    match kind {
        _ if is_int_or_string => TextFormat::named(format).is_some(),
        None | Some(Type::String) => TextFormat::named(format).is_some(),
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(Type::Object | Type::Array | Type::Boolean) => false,
    }
}

fn is_label_without_limit(text: &str) -> bool {
    let bytes = text.as_bytes();
    let end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    end(bytes.first())
        && end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

fn is_short_name(text: &str) -> bool {
    text.len() <= 63 && is_label_without_limit(text)
}

// The pattern is a constant that a test compiles.
#[allow(clippy::unwrap_used)]
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let word = r"[a-zA-Z0-9\p{S}\p{L}]";
    let inner = r"[a-zA-Z0-9\-\p{S}\p{L}]";
    let single = format!("{word}(?:-?{word}{{0,62}})?");
    let dotted = format!(r"(?:{word}(?:{inner}{{0,61}}{word})?\.)+[a-zA-Z\p{{L}}]{{2,63}}");
    Regex::new(&format!("^(?:{single}|{dotted})$")).unwrap()
});

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

/// An IPv4 address whose numbers may have zeros in front.
fn is_lenient_ipv4(text: &str) -> bool {
    let mut parts = 0;
    text.split('.').all(|part| {
        parts += 1;
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits && { part.trim_start_matches('0').parse::<u32>().map_or(part.bytes().all(|b| b == b'0'), |n| n < 256) }
    }) && parts == 4
}

fn is_lenient_ipv6(text: &str) -> bool {
    if text.parse::<Ipv6Addr>().is_ok() {
        return true;
    }
    // An IPv4 tail may be lenient too.
    let Some((head, tail)) = text.rsplit_once(':') else { return false };
    is_lenient_ipv4(tail) && format!("{head}:0.0.0.0").parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let length: u32 = length.parse().unwrap_or(u32::MAX);
    if is_lenient_ipv4(address) {
        length <= Ipv4Addr::BITS
    } else {
        is_lenient_ipv6(address) && length <= Ipv6Addr::BITS
    }
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize, counts: &[usize]| {
        let mut found = 0;
        let well_formed = text.split(separator).all(|group| {
            found += 1;
            group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        well_formed && counts.contains(&found)
    };
    let is_bare = matches!(text.len(), 12 | 16 | 40) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_bare || groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

/// Five groups of hexadecimal digits whose dashes may be missing.
fn is_uuid(text: &str, version: Option<char>, variants: &str) -> bool {
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some(group) = rest.get(..length) else { return false };
        if !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        let first = group.chars().next().unwrap_or_default().to_ascii_lowercase();
        if index == 2 && version.is_some_and(|version| version != first)
            || index == 3 && !variants.is_empty() && !variants.contains(first)
        {
            return false;
        }
        rest = &rest[length..];
    }
    rest.is_empty()
}

fn isbn_digits(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b'\t' | b'\n' | 0xc | b'\r' | b' ' | b'-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let [first @ .., last] = digits.as_slice() else { return false };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let value = |byte: u8| if byte == b'X' { 10 } else { u32::from(byte - b'0') };
    let sum: u32 = digits.iter().zip(1..).map(|(byte, weight)| weight * value(*byte)).sum();
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    // The last digit makes the weighted sum a multiple of ten.
    let sum: u32 =
        digits.iter().zip([1, 3].into_iter().cycle()).map(|(byte, weight)| weight * u32::from(byte - b'0')).sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let number = |count: usize| digits.iter().take(count).fold(0, |sum, digit| sum * 10 + digit);
    let issued = match digits.len() {
        13 => number(1) == 4,
        14 => matches!(number(3), 300..=305) || matches!(number(2), 36 | 38),
        15 => matches!(number(2), 34 | 37) || matches!(number(4), 2131 | 1800),
        16 => number(1) == 4 || matches!(number(2), 51..=55 | 65 | 35) || number(4) == 6011,
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| if index % 2 == 0 { *digit } else { digit * 2 / 10 + digit * 2 % 10 })
        .sum();
    issued && sum.is_multiple_of(10)
}

fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_rgb_color(text: &str) -> bool {
    let space = ['\t', '\n', '\u{c}', '\r', ' '];
    let Some(inside) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let numbers: Vec<&str> = inside.split(',').map(|part| part.trim_matches(space)).collect();
    numbers.len() == 3
        && numbers.iter().all(|number| {
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            digits && (*number == "0" || !number.starts_with('0')) && number.parse::<u8>().is_ok()
        })
}

fn is_base64(text: &str) -> bool {
    let letters = text.trim_end_matches('=');
    let padding = text.len() - letters.len();
    !text.is_empty()
        && padding <= 2
        && text.len().is_multiple_of(4)
        && letters.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !shape {
        return false;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u32>().unwrap_or(0);
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let mut parts = text.split(['t', 'T']);
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

/// `10:00:00.5+02:00`. Any one character is accepted before the fraction.
fn is_time(text: &str) -> bool {
    let is_number = |at: usize, most: u8| match text.as_bytes().get(at..at + 2) {
        Some([tens, ones]) if tens.is_ascii_digit() && ones.is_ascii_digit() => {
            (tens - b'0') * 10 + ones - b'0' <= most
        }
        _ => false,
    };
    let is_colon = |at: usize| text.as_bytes().get(at) == Some(&b':');
    if !(is_number(0, 23) && is_colon(2) && is_number(3, 59) && is_colon(5) && is_number(6, 59)) {
        return false;
    }
    let is_zone = |zone: &str| {
        let digits = |text: Option<&str>| text.is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        matches!(zone, "z" | "Z")
            || (zone.len() == 6
                && zone.starts_with(['+', '-'])
                && digits(zone.get(1..3))
                && zone.get(3..4) == Some(":")
                && digits(zone.get(4..6)))
    };
    let Some(rest) = text.get(8..) else { return false };
    let mut fraction = rest.chars();
    let after = fraction.next().filter(|c| *c != '\n').map(|_| fraction.as_str()).unwrap_or_default();
    let zone = after.trim_start_matches(|c: char| c.is_ascii_digit());
    is_zone(rest) || (zone.len() < after.len() && is_zone(zone))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("date-time", "2024-05-01T10:00:00Z", "yesterday")]
    #[case("datetime", "2024-05-01t10:00:00.5+02:00", "2024-02-30T10:00:00Z")]
    #[case("date", "2024-02-29", "2023-02-29")]
    #[case("duration", "1h30m", "soon")]
    #[case("duration", "22 ns", "22 parsecs")]
    #[case("byte", "aGk=", "aGk")]
    #[case("ipv4", "010.1.2.3", "1.2.3")]
    #[case("ipv6", "::1", "1.2.3.4")]
    #[case("cidr", "10.0.0.0/8", "10.0.0.0/33")]
    #[case("mac", "00:1b:44:11:3a:b7", "00:1b:44:11:3a")]
    #[case("uuid", "123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400")]
    #[case("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000")]
    #[case("hostname", "example.com", "-example.com")]
    #[case("uri", "https://example.com/x?y", "example.com")]
    #[case("email", "a@b.example", "a.b.example")]
    #[case("isbn", "0-321-75104-3", "0321751044")]
    #[case("isbn13", "978-0321751041", "9780321751042")]
    #[case("creditcard", "4111-1111-1111-1111", "4111-1111-1111-1112")]
    #[case("ssn", "111-22-3333", "111223333")]
    #[case("hexcolor", "#fff", "#ffff")]
    #[case("rgbcolor", "rgb(1, 2,255)", "rgb(1,2,256)")]
    #[case("k8s-short-name", "a-b", "a.b")]
    #[case("k8s-long-name", "a-b.c", "A.b")]
    #[case("bsonobjectid", "507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901")]
    fn accepts_the_one_and_not_the_other(#[case] format: &str, #[case] good: &str, #[case] bad: &str) {
        let format = TextFormat::named(format).unwrap();
        assert!(format.accepts(good), "{good}");
        assert!(!format.accepts(bad), "{bad}");
    }

    #[test]
    fn unknown_formats_and_formats_of_other_types_are_not_checked() {
        assert!(TextFormat::named("quantity").is_none());
        assert!(!is_checked(Some(Type::Integer), false, "date"));
        assert!(!is_checked(Some(Type::String), false, "int32"));
        assert!(is_checked(Some(Type::Number), false, "double"));
    }
}
