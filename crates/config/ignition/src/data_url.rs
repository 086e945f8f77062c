//! `data:` URLs: the encoding of file bodies inside a config.
//!
//! The grammar is the one Ignition's own reader accepts, which is narrower than RFC 2397: the media type must be one
//! of the registered families, and the body may hold only the characters that a URL may.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use crate::spelling;

/// Why a `data:` URL cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataUrlError {
    /// It does not start with `data:`.
    #[error("a data URL starts with \"data:\"")]
    Prefix,
    /// There is no comma, or the part before it is malformed.
    #[error("the part before the comma of a data URL is [type/subtype][;parameter=value…][;base64]: {0}")]
    Header(&'static str),
    /// The body has a character that must be written as `%XX`.
    #[error("character {at} after the comma, {found:?}, must be written as {}", escaped(*found))]
    Character {
        /// The place of the character in the body, counted from 1.
        at: usize,
        /// The character.
        found: char,
    },
    /// A percent sign is not followed by two hexadecimal digits.
    #[error(
        "character {at} after the comma is a \"%\" without two hexadecimal digits after it; a percent sign itself is \
         written as %25"
    )]
    Escape {
        /// The place of the percent sign in the body, counted from 1.
        at: usize,
    },
    /// The base64 body has a character that base64 does not have.
    #[error("character {at} after the comma, {found:?}, is not base64: {}", base64_advice(*found))]
    Base64Character {
        /// The place of the character in the body, counted from 1.
        at: usize,
        /// The character.
        found: char,
    },
    /// The base64 body has one character too many or too few, or lacks its padding.
    #[error(
        "the {length} characters after the comma are not complete base64: the length including = padding must be a \
         multiple of 4; the text may be truncated"
    )]
    Base64Length {
        /// How many characters the body has.
        length: usize,
    },
}

/// A character as it is written in a URL.
fn escaped(found: char) -> String {
    found.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// What to do about a character that base64 does not have.
fn base64_advice(found: char) -> &'static str {
    match found {
        '-' | '_' => "that is the alphabet for file names; write + for - and / for _",
        '=' => "a = is valid only at the end, where it pads the last four characters",
        '%' => "nothing is escaped in it; write the character that is meant",
        c if c.is_whitespace() => "write it without spaces and line breaks, as `base64 -w0` does",
        _ => "expected A to Z, a to z, 0 to 9, + and /, padded with = at the end",
    }
}

/// Trailing bits are tolerated because the reader that machines use tolerates them; padding is not optional there.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// A text as it is written after the comma of a `data:` URL, readable where possible.
pub(crate) fn escape(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii() && is_url_byte(c as u8) && c != '%';
    text.chars().map(|c| if is_plain(c) { c.to_string() } else { escaped(c) }).collect()
}

/// The bytes that a `data:` URL encodes.
pub fn decode(url: &str) -> Result<Cow<'_, [u8]>, DataUrlError> {
    let (is_base64, body) = split(url)?;
    if is_base64 { decode_base64(body).map(Cow::Owned) } else { decode_percent(body) }
}

/// Whether [`decode`] would succeed, without decoding: most of what a config holds are bodies.
pub(crate) fn check(url: &str) -> Result<(), DataUrlError> {
    let (is_base64, body) = split(url)?;
    let body = body.as_bytes();
    let is_sound = if is_base64 {
        is_base64_body(body)
    } else {
        body.iter().fold(true, |sound, byte| sound & is_url_byte(*byte) & (*byte != b'%'))
    };
    if is_sound { Ok(()) } else { decode(url).map(drop) }
}

/// Whether a byte is valid in base64. Written as comparisons, so that the compiler checks many bytes at once.
fn is_base64_byte(byte: u8) -> bool {
    (byte | 0x20).wrapping_sub(b'a') < 26 || byte.wrapping_sub(b'0') < 10 || byte == b'+' || byte == b'/'
}

/// Whether a byte is valid in a URL, an escape's percent sign included.
fn is_url_byte(byte: u8) -> bool {
    const UNWISE: [u8; 11] = *b"<>#\"{}|\\^[]";
    byte.wrapping_sub(0x21) < 0x5e && UNWISE.iter().all(|unwise| byte != *unwise) && byte != b'`'
}

fn is_base64_body(body: &[u8]) -> bool {
    let padding = body.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let letters = &body[..body.len() - padding];
    body.len().is_multiple_of(4) && letters.iter().fold(true, |sound, byte| sound & is_base64_byte(*byte))
}

/// A `data:` URL for these bytes: readable when they are plain text, base64 otherwise.
pub fn encode(bytes: &[u8]) -> String {
    let escaped = bytes.iter().filter(|byte| !is_unreserved(**byte)).count();
    // Three bytes for an escaped one against four for each three: past a sixth of the bytes base64 is shorter.
    if escaped * 6 > bytes.len() {
        let mut url = String::from("data:;base64,");
        BASE64.encode_string(bytes, &mut url);
        return url;
    }
    let mut url = String::with_capacity(6 + bytes.len() + 2 * escaped);
    url.push_str("data:,");
    for byte in bytes {
        if is_unreserved(*byte) {
            url.push(char::from(*byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte)
}

fn decode_base64(body: &str) -> Result<Vec<u8>, DataUrlError> {
    BASE64.decode(body.as_bytes()).map_err(|_| base64_error(body))
}

/// What is wrong with a base64 body. What base64 does not have at all comes before padding in the wrong place, which is
/// mostly the end of a line.
fn base64_error(body: &str) -> DataUrlError {
    let is_foreign = |(_, c): &(usize, char)| *c != '=' && !(c.is_ascii() && is_base64_byte(*c as u8));
    let letters = body.trim_end_matches('=');
    let padding_starts = letters.len().max(body.len().saturating_sub(2));
    let is_misplaced = |(at, c): &(usize, char)| *c == '=' && *at < padding_starts;
    let characters = || body.char_indices().enumerate();
    let stray = characters()
        .find(|(_, character)| is_foreign(character))
        .or_else(|| characters().find(|(_, character)| is_misplaced(character)));
    match stray {
        Some((nth, (_, found))) => DataUrlError::Base64Character { at: nth + 1, found },
        None => DataUrlError::Base64Length { length: body.len() },
    }
}

fn decode_percent(body: &str) -> Result<Cow<'_, [u8]>, DataUrlError> {
    let bytes = body.as_bytes();
    let stray = body.char_indices().enumerate().find(|(_, (at, _))| !is_url_byte(bytes[*at]));
    if let Some((nth, (_, found))) = stray {
        return Err(DataUrlError::Character { at: nth + 1, found });
    }
    let Some(first) = bytes.iter().position(|byte| *byte == b'%') else {
        return Ok(Cow::Borrowed(bytes));
    };
    let mut out = Vec::with_capacity(bytes.len());
    out.extend_from_slice(&bytes[..first]);
    let mut at = first;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let digit = |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(1), digit(2)) else {
            return Err(DataUrlError::Escape { at: at + 1 });
        };
        out.push((high * 16 + low) as u8);
        at += 3;
    }
    Ok(Cow::Owned(out))
}

/// Splits a URL into whether its body is base64, and the body.
fn split(url: &str) -> Result<(bool, &str), DataUrlError> {
    let rest = url.strip_prefix("data:").ok_or(DataUrlError::Prefix)?;
    // The two forms that nearly every config uses need no grammar.
    if let Some(body) = rest.strip_prefix(',') {
        return Ok((false, body));
    }
    if let Some(body) = rest.strip_prefix(";base64,") {
        return Ok((true, body));
    }
    let mut rest = rest;
    if !rest.starts_with(';') {
        let (family, after) = token(rest);
        let subtype = after.strip_prefix('/').ok_or(DataUrlError::Header(match family {
            "base64" => "there is no semicolon before base64",
            _ => "a media type is type/subtype",
        }))?;
        let known = ["text", "image", "audio", "video", "application", "message", "multipart", "x-", "X-"];
        if !known.iter().any(|prefix| family.starts_with(prefix)) {
            return Err(DataUrlError::Header(
                "the media type's family is not one of text, image, audio, video, application, message, multipart or x-…",
            ));
        }
        rest = token(subtype).1;
    }
    loop {
        if let Some(body) = rest.strip_prefix(',') {
            return Ok((false, body));
        }
        let parameter = rest.strip_prefix(';').ok_or(DataUrlError::Header("there is no comma before the body"))?;
        let (name, after) = token(parameter);
        if name.is_empty() {
            return Err(DataUrlError::Header("a parameter has no name"));
        }
        if let Some(body) = after.strip_prefix(',') {
            return match name {
                "base64" => Ok((true, body)),
                _ if spelling::nearest(name, ["base64"]).is_some() => {
                    Err(DataUrlError::Header("the last word before the comma is misspelt; did you mean base64?"))
                }
                _ => Err(DataUrlError::Header("the last word before the comma is not base64")),
            };
        }
        let malformed = |why: &'static str| {
            DataUrlError::Header(if name.starts_with("base64") { "there is no comma after base64" } else { why })
        };
        let value = after.strip_prefix('=').ok_or_else(|| malformed("a parameter is name=value"))?;
        rest = match value.strip_prefix('"') {
            Some(quoted) => quoted_value(quoted).ok_or_else(|| malformed("a parameter's quoted value is malformed"))?,
            None => plain_value(value).ok_or_else(|| malformed("a parameter's value is malformed"))?,
        };
    }
}

/// The bytes that a token may have, by their number. Every body has a few tokens before it, and with comparisons they
/// took a twentieth of the instructions of a run.
const TOKEN_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        table[byte] = true;
        byte += 1;
    }
    let special = b"()<>@,;:\\\"/[]?=";
    let mut at = 0;
    while at < special.len() {
        table[special[at] as usize] = false;
        at += 1;
    }
    table
};

fn token(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !TOKEN_BYTES[usize::from(byte)]).unwrap_or(text.len());
    text.split_at(end)
}

fn plain_value(text: &str) -> Option<&str> {
    let (value, rest) = token(text);
    let bytes = value.as_bytes();
    let is_escaped =
        |at: usize| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if value.is_empty() || (0..bytes.len()).any(|at| bytes[at] == b'%' && !is_escaped(at)) {
        return None;
    }
    Some(rest)
}

fn quoted_value(text: &str) -> Option<&str> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some(&text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, '"' | '\\' | 'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v')) => {}
                _ => return None,
            },
            c if c.is_ascii() && !c.is_ascii_control() => {}
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("data:,", b"")]
    #[case("data:,%20", b" ")]
    #[case("data:,a%3D81%0A", b"a=81\n")]
    #[case("data:;base64,djIgOAo=", b"v2 8\n")]
    #[case("data:text/plain;charset=utf-8;base64,djIgOAo=", b"v2 8\n")]
    #[case("data:text/plain;charset=\"a,b;c\",x", b"x")]
    #[case("data:x-own/thing,x", b"x")]
    #[case("data:;base64x=y,x", b"x")]
    #[case("data:text/,x", b"x")]
    #[case("data:;base64,", b"")]
    #[case("data:,a,b", b"a,b")]
    fn accepted(#[case] url: &str, #[case] bytes: &[u8]) {
        assert_eq!(decode(url).unwrap(), bytes);
        assert_eq!(check(url), Ok(()));
    }

    #[rstest]
    fn refused(
        #[values(
            "",
            "data",
            "data:",
            "data:x",
            "data:text/plain",
            "data:foo/bar,x",
            "data:text,x",
            "DATA:,x",
            "data:,a b",
            "data:,ü",
            "data:,%2",
            "data:,%zz",
            "data:,a#b",
            "data:;base64,a",
            "data:;base64,ab=",
            "data:;base64,YQ",
            "data:;base65,YQ==",
            "data:;base64;x=y,YQ",
            "data:;=x,y",
            "data:;x=,y",
            "data:;x=\"y,z",
            "data:;x=%2,z",
            "data:,[x]",
            "data:;base64,YQ==YQ==",
            "data:;base64,YQ=\n=",
            "data:;base64,=",
            "data:;base64,===="
        )]
        url: &str,
    ) {
        assert!(decode(url).is_err(), "{url}");
        assert!(check(url).is_err(), "{url}");
    }

    #[rstest]
    #[case("data:,a b", "character 2 after the comma, ' ', must be written as %20")]
    #[case("data:,aé", "character 2 after the comma, 'é', must be written as %C3%A9")]
    #[case("data:,éa b", "character 1 after the comma")]
    #[case("data:,100%", "character 4 after the comma is a \"%\" without two hexadecimal digits after it")]
    #[case(
        "data:;bas64,aGVsbG8=",
        "the part before the comma of a data URL is [type/subtype][;parameter=value…][;base64]: the last word before the comma is misspelt; did you mean base64?"
    )]
    #[case(
        "data:text/plain;gzip,x",
        "the part before the comma of a data URL is [type/subtype][;parameter=value…][;base64]: the last word before the comma is not base64"
    )]
    #[case("data:;base64,aGVs bG8=", "character 5 after the comma, ' ', is not base64: write it without spaces")]
    #[case("data:;base64,aGVs\nbG8=\n", "character 5 after the comma, '\\n', is not base64: write it without spaces")]
    #[case("data:;base64,aGVsbG8=\n", "character 9 after the comma, '\\n', is not base64")]
    #[case("data:;base64,a-Vs", "character 2 after the comma, '-', is not base64: that is the alphabet for file names")]
    #[case("data:;base64,YQ==YQ==", "character 3 after the comma, '=', is not base64: a = is valid only at the end")]
    #[case("data:;base64,YQé=", "character 3 after the comma, 'é', is not base64: expected A to Z")]
    #[case("data:;base64,aGVsbG8", "the 7 characters after the comma are not complete base64")]
    #[case(
        "data:base64,aGk=",
        "the part before the comma of a data URL is [type/subtype][;parameter=value…][;base64]: \
        there is no semicolon before base64"
    )]
    #[case(
        "data:text/plain;base64aGk=",
        "the part before the comma of a data URL is \
        [type/subtype][;parameter=value…][;base64]: there is no comma after base64"
    )]
    #[case("data:;base64,aGVsb", "the 5 characters after the comma are not complete base64")]
    fn a_refusal_names_the_character_and_what_to_write(#[case] url: &str, #[case] expected: &str) {
        let message = decode(url).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
    }

    proptest! {
        #[test]
        fn a_text_in_place_is_a_data_url(text in any::<String>()) {
            let url = format!("data:,{}", escape(&text));
            let decoded = decode(&url).unwrap();
            prop_assert_eq!(decoded.as_ref(), text.as_bytes());
        }

        #[test]
        fn what_is_encoded_decodes_to_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let url = encode(&bytes);
            let decoded = decode(&url).unwrap();
            prop_assert_eq!(decoded.as_ref(), bytes.as_slice());
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "(data:)?[ -~\\n\u{80}-\u{ff}]{0,40}") {
            prop_assert_eq!(decode(&text).is_ok(), check(&text).is_ok());
        }
    }
}
