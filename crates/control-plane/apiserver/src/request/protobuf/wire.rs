//! Protobuf wire format: the fields of one message.

use super::error::ProtobufError;

/// An undecoded value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wire<'b> {
    /// A number of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Text, bytes, a message or a list of numbers.
    Bytes(&'b [u8]),
    /// Four bytes, which no field of ours has.
    Fixed32,
}

/// Reads the fields of a message.
pub struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { rest: bytes }
    }

    /// The next field's number and value; none at the end.
    pub fn next(&mut self) -> Result<Option<(u32, Wire<'b>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| ProtobufError::Tag)?;
        let number = tag >> 3;
        if number == 0 {
            return Err(ProtobufError::Tag);
        }
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            3 | 4 => return Err(ProtobufError::Group { number }),
            5 => self.array::<4>().map(|_| Wire::Fixed32)?,
            _ => return Err(ProtobufError::Tag),
        };
        Ok(Some((number, wire)))
    }

    /// The next number of a packed list; none at the end.
    pub fn next_packed(&mut self) -> Result<Option<u64>, ProtobufError> {
        if self.rest.is_empty() { Ok(None) } else { self.varint().map(Some) }
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            // Only one bit of the tenth byte fits. The others are dropped, as in the real server.
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Overflow)
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }
}

/// Bytes as text.
///
/// Differs: the real server accepts any bytes and replaces invalid UTF-8 when it writes JSON, because here nothing is
/// changed silently.
pub fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}
