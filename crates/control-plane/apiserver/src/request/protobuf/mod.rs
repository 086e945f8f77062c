//! Protobuf decoder for the bodies of built-in kinds: the rest of the server only handles JSON.
//!
//! Go clients send protobuf bodies, and some, such as kubectl, do not retry with JSON when they are refused. They
//! accept JSON responses, so protobuf is never written.
//!
//! - A body is an envelope: four bytes that mark it, then a message that names version and kind and holds the object.
//! - The field numbers are data: [`table`] has them from Kubernetes' own definitions.
//! - The result is what the same client would have sent as JSON. Missing fields are missing, and a zero is omitted
//!   where the client's types omit it. Empty lists and nulls cannot be distinguished from missing fields.

mod error;
mod message;
mod table;
mod well_known;
mod wire;

#[cfg(test)]
mod recorded;

use serde_json::{Map, Value};

pub use self::error::ProtobufError;
use self::message::Decoder;
use self::table::MessageTable;
use self::wire::{Reader, Wire};

/// The first bytes of every body.
const MAGIC: &[u8] = b"k8s\0";
/// The name of the envelope in messages.
const ENVELOPE: &str = "the envelope";

/// A body whose object is not decoded yet.
#[derive(Debug, PartialEq)]
pub struct Envelope<'b> {
    /// The version of the object; empty if the client left it to the path.
    pub api_version: String,
    /// The kind of the object; empty if the client left it to the path.
    pub kind: String,
    raw: &'b [u8],
}

/// Decodes a body with apiVersion and kind.
pub fn decode(bytes: &[u8]) -> Result<Value, ProtobufError> {
    Envelope::open(bytes)?.object()
}

impl<'b> Envelope<'b> {
    /// Decodes apiVersion and kind.
    pub fn open(bytes: &'b [u8]) -> Result<Envelope<'b>, ProtobufError> {
        let rest = match (bytes, bytes.strip_prefix(MAGIC)) {
            ([], _) => return Err(ProtobufError::NoData),
            (_, None) => return Err(ProtobufError::NoMagic),
            (_, Some([])) => return Err(ProtobufError::NoBody),
            (_, Some(rest)) => rest,
        };
        let mut envelope = Envelope { api_version: String::new(), kind: String::new(), raw: &[] };
        let mut reader = Reader::new(rest);
        while let Some((number, wire)) = reader.next()? {
            match (number, wire) {
                (1, Wire::Bytes(names)) => envelope.read_names(names)?,
                (2, Wire::Bytes(raw)) => envelope.raw = raw,
                // `contentEncoding`, empty in all known clients.
                (3, Wire::Bytes(packing)) if !packing.is_empty() => return Err(ProtobufError::ContentEncoding),
                (1..=3, Wire::Bytes(_)) => {}
                (1..=3, _) => return Err(ProtobufError::WireType { message: ENVELOPE.to_owned(), number }),
                _ => {}
            }
        }
        Ok(envelope)
    }

    /// The object as JSON, with its version and kind.
    pub fn object(&self) -> Result<Value, ProtobufError> {
        let Envelope { api_version, kind, raw } = self;
        if kind.is_empty() || api_version.is_empty() {
            return Err(ProtobufError::NoKind);
        }
        let table = MessageTable::committed();
        let message = table.message_of(api_version, kind);
        let message = message
            .ok_or_else(|| ProtobufError::UnknownKind { api_version: api_version.clone(), kind: kind.clone() })?;
        let mut object = Map::new();
        object.insert("kind".to_owned(), kind.clone().into());
        object.insert("apiVersion".to_owned(), api_version.clone().into());
        Decoder::new(table).fill(&mut object, message, raw)?;
        Ok(Value::Object(object))
    }

    fn read_names(&mut self, bytes: &[u8]) -> Result<(), ProtobufError> {
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            let place = match number {
                1 => &mut self.api_version,
                2 => &mut self.kind,
                _ => continue,
            };
            let Wire::Bytes(text) = wire else {
                return Err(ProtobufError::WireType { message: ENVELOPE.to_owned(), number });
            };
            *place = wire::text(text).ok_or_else(|| ProtobufError::Utf8 { message: ENVELOPE.to_owned(), number })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// The protobuf of a field with a length.
    pub fn bytes_field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(bytes);
        out
    }

    fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let names = [bytes_field(1, api_version.as_bytes()), bytes_field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes_field(1, &names), bytes_field(2, raw)].concat()
    }

    fn decoded(api_version: &str, kind: &str, raw: &[u8]) -> Result<Value, ProtobufError> {
        decode(&enveloped(api_version, kind, raw))
    }

    #[test]
    fn config_map_is_read() {
        let entry = [bytes_field(1, b"k"), bytes_field(2, b"v")].concat();
        let raw = [bytes_field(1, &bytes_field(1, b"a")), bytes_field(2, &entry)].concat();
        let expected = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}});
        assert_eq!(decoded("v1", "ConfigMap", &raw).unwrap(), expected);
    }

    #[test]
    fn options_of_a_deletion_are_read_in_every_version() {
        for version in ["v1", "apps/v1", "example.com/v1alpha1"] {
            let value = decoded(version, "DeleteOptions", &[0x08, 0]).unwrap();
            assert_eq!(value, json!({"kind": "DeleteOptions", "apiVersion": version, "gracePeriodSeconds": 0}));
        }
    }

    #[rstest]
    #[case::nothing(b"", ProtobufError::NoData)]
    #[case::json(b"{\"kind\":\"Pod\"}", ProtobufError::NoMagic)]
    #[case::half_the_mark(b"k8s", ProtobufError::NoMagic)]
    #[case::nothing_else(b"k8s\0", ProtobufError::NoBody)]
    fn body_without_mark_or_content_is_refused(#[case] body: &[u8], #[case] error: ProtobufError) {
        assert_eq!(decode(body).unwrap_err(), error);
    }

    #[test]
    fn envelope_must_name_a_kind_that_is_known() {
        assert_eq!(decoded("v1", "", b"").unwrap_err(), ProtobufError::NoKind);
        let error = decoded("v1", "Boat", b"").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no kind \"Boat\" is registered for version \"v1\" in protobuf; send JSON or YAML"
        );
    }

    #[test]
    fn packed_object_is_refused() {
        let body = [enveloped("v1", "Pod", b""), bytes_field(3, b"gzip")].concat();
        assert_eq!(decode(&body).unwrap_err(), ProtobufError::ContentEncoding);
    }

    #[rstest]
    #[case::truncated(&[0x0a, 0x05, 0x0a], ProtobufError::Truncated)]
    #[case::length_beyond_memory(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], ProtobufError::Truncated)]
    #[case::endless_number(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], ProtobufError::Overflow)]
    #[case::field_zero(&[0x02, 0x00], ProtobufError::Tag)]
    #[case::group(&[0xfb, 0x01], ProtobufError::Group { number: 31 })]
    #[case::wire_type_six(&[0x0e], ProtobufError::Tag)]
    #[case::text_where_a_message_is(&[0x08, 0x01], ProtobufError::WireType { message: "core/v1.ConfigMap".to_owned(), number: 1 })]
    #[case::not_text(&[0x0a, 0x03, 0x0a, 0x01, 0xff], ProtobufError::Utf8 { message: "meta/v1.ObjectMeta".to_owned(), number: 1 })]
    fn bad_message_is_refused_by_what_is_wrong(#[case] raw: &[u8], #[case] error: ProtobufError) {
        assert_eq!(decoded("v1", "ConfigMap", raw).unwrap_err(), error);
    }

    #[test]
    fn unknown_fields_are_passed_over() {
        let unknown = [0xf8, 0x01, 0x96, 0x01, 0xf9, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 0xfd, 0x01, 1, 2, 3, 4];
        let raw = [unknown.to_vec(), bytes_field(14, b"later"), bytes_field(1, b"")].concat();
        let expected = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}});
        assert_eq!(decoded("v1", "ConfigMap", &raw).unwrap(), expected);
    }

    #[test]
    fn message_that_comes_twice_is_merged_and_a_value_is_the_last() {
        let first = [bytes_field(1, b"a"), bytes_field(3, b"n")].concat();
        let raw = [bytes_field(1, &first), bytes_field(1, &bytes_field(1, b"b"))].concat();
        assert_eq!(decoded("v1", "ConfigMap", &raw).unwrap()["metadata"], json!({"name": "b", "namespace": "n"}));
    }

    #[test]
    fn later_zero_takes_an_earlier_value_away() {
        let metadata = [bytes_field(1, b"a"), bytes_field(1, b"")].concat();
        assert_eq!(decoded("v1", "ConfigMap", &bytes_field(1, &metadata)).unwrap()["metadata"], json!({}));
    }

    #[test]
    fn numbers_of_a_list_may_be_packed() {
        // Pod.spec.securityContext.supplementalGroups, which clients write one by one.
        let single = [0x20, 0x05, 0x20, 0x96, 0x01];
        let packed = bytes_field(4, &[0x05, 0x96, 0x01]);
        for groups in [single.to_vec(), packed] {
            let value = decoded("v1", "Pod", &bytes_field(2, &bytes_field(14, &groups))).unwrap();
            assert_eq!(value["spec"]["securityContext"]["supplementalGroups"], json!([5, 150]));
        }
    }

    #[test]
    fn schema_in_a_schema_in_a_schema_ends() {
        // CustomResourceDefinition.spec.versions.schema.openAPIV3Schema, then `not` within `not`.
        let nested = |levels: usize| {
            let schema = (0..levels).fold(Vec::new(), |inner, _| {
                let mut out = vec![0xe2, 0x01];
                out.extend(&bytes_field(1, &inner)[1..]);
                out
            });
            bytes_field(2, &bytes_field(7, &bytes_field(4, &bytes_field(1, &schema))))
        };
        let few = decoded("apiextensions.k8s.io/v1", "CustomResourceDefinition", &nested(50)).unwrap();
        let mut found = &few["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        for _ in 0..50 {
            found = found.get("not").unwrap();
        }
        assert_eq!(*found, json!({}));
        for levels in [120, 20_000] {
            let error = decoded("apiextensions.k8s.io/v1", "CustomResourceDefinition", &nested(levels)).unwrap_err();
            assert_eq!(error, ProtobufError::TooDeep);
        }
    }

    #[test]
    fn small_body_cannot_become_a_huge_object() {
        let containers = bytes_field(2, b"").repeat(300_000);
        assert_eq!(decoded("v1", "Pod", &bytes_field(2, &containers)).unwrap_err(), ProtobufError::TooMany);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&[MAGIC, &bytes].concat());
            for (version, kind) in [("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")] {
                let _ = decoded(version, kind, &bytes);
            }
        }
    }
}
