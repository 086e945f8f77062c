//! Unknown keys: keys that this version of the crate does not know, preserved.
//!
//! Every struct of the crate ends with `#[serde(flatten)] pub unknown: Unknown`, so an object written by a newer
//! upstream survives being read and written back. The field adds nothing to the generated schema: what the API server
//! stores is still decided by the schema, not by this catch-all.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Keys of one JSON object that have no field of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Unknown(pub BTreeMap<String, Value>);

/// The same for a kind without `spec` (`#[kube(no_spec)]`), whose fields lie at the root of the object.
///
/// There the flattened remainder also receives `apiVersion` and `kind`, which the kind writes itself; keeping them here
/// would write them twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct RootUnknown(pub BTreeMap<String, Value>);

impl Unknown {
    /// Whether every key was known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for RootUnknown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = BTreeMap::<String, Value>::deserialize(deserializer)?;
        keys.remove("apiVersion");
        keys.remove("kind");
        Ok(Self(keys))
    }
}

/// An empty schema: flattening it into a struct's schema changes nothing.
macro_rules! adds_nothing_to_the_schema {
    ($type:ident) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({})
            }
        }
    };
}

adds_nothing_to_the_schema!(Unknown);
adds_nothing_to_the_schema!(RootUnknown);
