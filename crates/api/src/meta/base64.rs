//! Base64: bytes that an object carries as text.

use std::borrow::Cow;

use k8s_openapi::ByteString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IntoDeserializer;
use serde::de::value::Error;
use serde::{Deserialize, Serialize};

/// Bytes in base64, kept as they were spelled; text that cannot be decoded does not keep an object from being read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Base64(pub String);

impl Base64 {
    pub fn decode(&self) -> Result<Vec<u8>, Error> {
        ByteString::deserialize(self.0.as_str().into_deserializer()).map(|bytes| bytes.0)
    }
}

impl JsonSchema for Base64 {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Base64".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "byte" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_on_demand() {
        assert_eq!(Base64("c2Vh".into()).decode().unwrap(), b"sea");
        assert!(Base64("not base64!".into()).decode().is_err());
    }
}
