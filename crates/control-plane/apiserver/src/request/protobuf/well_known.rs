//! Types whose JSON differs from their protobuf message: times, quantities, int-or-string, bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use serde_json::{Number, Value};

use super::error::ProtobufError;
use super::wire::{self, Reader, Wire};

/// The zero time of Go: the first of January of the year 1.
const NO_TIME: i64 = -62_135_596_800;
/// The years that RFC 3339 can represent.
const YEARS: std::ops::RangeInclusive<i16> = 0..=9999;

/// An invalid value, or invalid bytes.
pub enum ValueError {
    Value(&'static str),
    Bytes(ProtobufError),
}

impl From<ProtobufError> for ValueError {
    fn from(error: ProtobufError) -> ValueError {
        ValueError::Bytes(error)
    }
}

/// Bytes as base64 text.
pub fn bytes(bytes: &[u8]) -> Value {
    STANDARD.encode(bytes).into()
}

/// JSON in the only field of a message; null for none.
pub fn json(bytes: &[u8]) -> Result<Value, ValueError> {
    let mut raw: &[u8] = b"null";
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(b"")) => raw = b"null",
            (1, Wire::Bytes(bytes)) => raw = bytes,
            (1, _) => return Err(ValueError::Value("does not hold bytes")),
            _ => {}
        }
    }
    serde_json::from_slice(raw).map_err(|_| ValueError::Value("does not hold JSON"))
}

/// A quantity, as the client wrote it.
pub fn quantity(bytes: &[u8]) -> Result<Value, ValueError> {
    let mut amount = "0".to_owned();
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            let Wire::Bytes(text) = wire else { return Err(ValueError::Value("is not a quantity")) };
            amount = wire::text(text).ok_or(ValueError::Value("is not a quantity"))?;
        }
    }
    Ok(amount.into())
}

pub fn int_or_string(bytes: &[u8]) -> Result<Value, ValueError> {
    const NEITHER: ValueError = ValueError::Value("is neither a number nor a string");
    let (mut kind, mut int, mut text) = (0, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match field {
            (1, Wire::Varint(number)) => kind = number,
            // Numbers of 32 bits are written with 64 and cut.
            (2, Wire::Varint(number)) => int = number as i32,
            (3, Wire::Bytes(bytes)) => text = wire::text(bytes).ok_or(NEITHER)?,
            (1..=3, _) => return Err(NEITHER),
            _ => {}
        }
    }
    match kind {
        0 => Ok(int.into()),
        1 => Ok(text.into()),
        _ => Err(NEITHER),
    }
}

/// A time in seconds; null for none. Fractions are dropped, as in the real server.
pub fn time(bytes: &[u8]) -> Result<Value, ValueError> {
    let Some((seconds, _)) = seconds_and_nanos(bytes)? else { return Ok(Value::Null) };
    Ok(date_time(seconds, 0)?.map_or(Value::Null, |time| format!("{time:.0}Z").into()))
}

/// A time in microseconds, with six digits; null for none.
pub fn micro_time(bytes: &[u8]) -> Result<Value, ValueError> {
    let Some((seconds, nanos)) = seconds_and_nanos(bytes)? else { return Ok(Value::Null) };
    Ok(date_time(seconds, nanos / 1000)?.map_or(Value::Null, |time| format!("{time:.6}Z").into()))
}

/// Seconds since 1970 and nanoseconds; none for no bytes.
fn seconds_and_nanos(bytes: &[u8]) -> Result<Option<(i64, i32)>, ValueError> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match field {
            (1, Wire::Varint(number)) => seconds = number.cast_signed(),
            (2, Wire::Varint(number)) => nanos = number as i32,
            (1 | 2, _) => return Err(ValueError::Value("is not a time")),
            _ => {}
        }
    }
    Ok((!bytes.is_empty()).then_some((seconds, nanos)))
}

/// The date and time in UTC; none for the zero time.
fn date_time(seconds: i64, micros: i32) -> Result<Option<DateTime>, ValueError> {
    if (seconds, micros) == (NO_TIME, 0) {
        return Ok(None);
    }
    let since = SignedDuration::from_secs(seconds).checked_add(SignedDuration::from_micros(micros.into()));
    let time = since.and_then(|since| date(1970, 1, 1).at(0, 0, 0, 0).checked_add(since).ok());
    let time = time.filter(|time| YEARS.contains(&time.year()));
    time.map(Some).ok_or(ValueError::Value("is a time outside the years 0000 to 9999"))
}

/// A double. One without a fraction becomes an integer, as in JSON of Go.
pub fn double(bits: u64) -> Result<Value, ValueError> {
    let number = f64::from_bits(bits);
    let is_whole = number.fract() == 0.0 && number.abs() < 2f64.powi(63);
    if is_whole {
        return Ok((number as i64).into());
    }
    Number::from_f64(number).map(Value::Number).ok_or(ValueError::Value("is not a number"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn read(result: Result<Value, ValueError>) -> Option<Value> {
        result.ok()
    }

    #[rstest]
    #[case::none(&[], Some(json!(null)))]
    #[case::epoch(&[0x08, 0], Some(json!("1970-01-01T00:00:00Z")))]
    #[case::nanoseconds(&[0x08, 0x80, 0xa3, 0x05, 0x10, 0xff, 0x93, 0xeb, 0xdc, 0x03], Some(json!("1970-01-02T00:00:00Z")))]
    #[case::first(&[0x08, 0x80, 0x92, 0xb8, 0xc3, 0x98, 0xfe, 0xff, 0xff, 0xff, 0x01], Some(json!(null)))]
    #[case::far(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], None)]
    #[case::past(&[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], None)]
    #[case::text(&[0x0a, 0x00], None)]
    fn time_is_to_the_second(#[case] bytes: &[u8], #[case] expected: Option<Value>) {
        assert_eq!(read(time(bytes)), expected);
    }

    #[rstest]
    #[case::whole(&[0x08, 1], Some(json!("1970-01-01T00:00:01.000000Z")))]
    #[case::nanoseconds(&[0x10, 0xcf, 0x0f], Some(json!("1970-01-01T00:00:00.000001Z")))]
    #[case::negative(&[0x10, 0xb1, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Some(json!("1969-12-31T23:59:59.999999Z")))]
    fn micro_time_has_six_digits(#[case] bytes: &[u8], #[case] expected: Option<Value>) {
        assert_eq!(read(micro_time(bytes)), expected);
    }

    #[rstest]
    #[case::nothing(&[], Some(json!(0)))]
    #[case::number(&[0x08, 0, 0x10, 80], Some(json!(80)))]
    #[case::negative(&[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Some(json!(-1)))]
    #[case::text(&[0x08, 1, 0x10, 0, 0x1a, 1, b'a'], Some(json!("a")))]
    #[case::neither(&[0x08, 2], None)]
    fn int_or_string_is_decoded_by_its_type(#[case] bytes: &[u8], #[case] expected: Option<Value>) {
        assert_eq!(read(int_or_string(bytes)), expected);
    }

    #[rstest]
    #[case(&[], Some(json!(null)))]
    #[case(&[0x0a, 0], Some(json!(null)))]
    #[case(b"\x0a\x07{\"a\":1}", Some(json!({"a": 1})))]
    #[case(b"\x0a\x01{", None)]
    fn json_is_read_from_its_bytes(#[case] bytes: &[u8], #[case] expected: Option<Value>) {
        assert_eq!(read(json(bytes)), expected);
    }

    #[rstest]
    #[case(100.0, Some("100"))]
    #[case(-0.5, Some("-0.5"))]
    #[case(1e30, Some("1e+30"))]
    #[case(f64::NAN, None)]
    #[case(f64::INFINITY, None)]
    fn whole_number_has_no_fraction(#[case] number: f64, #[case] expected: Option<&str>) {
        assert_eq!(read(double(number.to_bits())).map(|value| value.to_string()).as_deref(), expected);
    }
}
