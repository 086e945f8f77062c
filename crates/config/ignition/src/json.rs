//! JSON conversion of nodes, from and to text and `serde_json` values.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::node::{Map, Node, Value, quote};

impl<'a> Node<'a> {
    /// A tree that borrows from a `serde_json` value. Call [`Node::number`] when origins matter.
    pub fn from_json(json: &'a serde_json::Value) -> Self {
        let value = match json {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(flag) => Value::Bool(*flag),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(number) => Value::Int(number),
                None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Value::Str(Cow::Borrowed(text)),
            serde_json::Value::Array(list) => Value::List(list.iter().map(Node::from_json).collect()),
            serde_json::Value::Object(map) => Value::Map(Map(map
                .iter()
                .map(|(key, json)| (Cow::Borrowed(key.as_str()), Node::from_json(json)))
                .collect())),
        };
        Node::made(value)
    }

    /// The same tree as a `serde_json` value.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(flag) => (*flag).into(),
            Value::Int(number) => (*number).into(),
            Value::Float(number) => (*number).into(),
            Value::Str(text) => text.as_ref().into(),
            Value::List(list) => list.iter().map(Node::to_json).collect(),
            Value::Map(map) => {
                serde_json::Value::Object(map.iter().map(|(key, node)| (key.to_owned(), node.to_json())).collect())
            }
        }
    }
}

impl Node<'_> {
    /// This tree as a `serde_json` value, without copying the texts that it owns.
    pub fn into_json(self) -> serde_json::Value {
        match self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(flag) => flag.into(),
            Value::Int(number) => number.into(),
            Value::Float(number) => number.into(),
            Value::Str(text) => text.into_owned().into(),
            Value::List(list) => list.into_iter().map(Node::into_json).collect(),
            Value::Map(map) => serde_json::Value::Object(
                map.0.into_iter().map(|(key, node)| (key.into_owned(), node.into_json())).collect(),
            ),
        }
    }
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor).map(Node::made)
    }
}

/// Reads a key without copying it when the format allows.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key that is a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E>(self, text: String) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }
    fn visit_none<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
    fn visit_bool<E>(self, flag: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(flag))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Value<'de>, E> {
        Ok(Value::Int(number))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Value<'de>, E> {
        // Beyond 63 bits there is no valid number in any config; the float keeps the message honest.
        Ok(i64::try_from(number).map_or(Value::Float(number as f64), Value::Int))
    }
    // Differs: `-0` comes as a float and is refused where a whole number belongs, because the reader cannot distinguish
    // it from `-0.0`; Go's takes it for 0.
    fn visit_f64<E>(self, number: f64) -> Result<Value<'de>, E> {
        Ok(Value::Float(number))
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Str(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Str(Cow::Owned(text.to_owned())))
    }
    fn visit_string<E>(self, text: String) -> Result<Value<'de>, E> {
        Ok(Value::Str(Cow::Owned(text)))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element()? {
            list.push(node);
        }
        Ok(Value::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
        // Most objects are small: a scan beats a set. Large ones get a set, so that a hostile text of a million
        // keys costs a million steps and not their square.
        const MAX_SCANNED: usize = 16;
        // Room for one: many objects have no more (`"contents": {"source": …}`), and the next step is four.
        let mut entries: Vec<(Cow<'de, str>, Node<'de>)> = Vec::with_capacity(1);
        let mut seen: std::collections::HashSet<Cow<'de, str>> = std::collections::HashSet::new();
        while let Some(Key(key)) = access.next_key()? {
            let twice = if entries.len() < MAX_SCANNED {
                entries.iter().any(|(name, _)| *name == key)
            } else {
                if seen.is_empty() {
                    seen.extend(entries.iter().map(|(name, _)| name.clone()));
                }
                !seen.insert(key.clone())
            };
            if twice {
                // Differs: upstream keeps the last of two equal keys, because its JSON reader does; what the
                // author meant by the other one is lost without a word.
                return Err(de::Error::custom(format_args!(
                    "the key {} is given twice in one object; keep one of them",
                    quote(&key)
                )));
            }
            entries.push((key, access.next_value()?));
        }
        Ok(Value::Map(Map(entries)))
    }
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(flag) => serializer.serialize_bool(*flag),
            Value::Int(number) => serializer.serialize_i64(*number),
            Value::Float(number) => serializer.serialize_f64(*number),
            Value::Str(text) => serializer.serialize_str(text),
            Value::List(list) => {
                let mut seq = serializer.serialize_seq(Some(list.len()))?;
                for node in list {
                    seq.serialize_element(node)?;
                }
                seq.end()
            }
            Value::Map(map) => {
                let mut out = serializer.serialize_map(Some(map.0.len()))?;
                for (key, node) in &map.0 {
                    out.serialize_entry(key.as_ref(), node)?;
                }
                out.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_without_escapes_are_borrowed() {
        let node = serde_json::from_str::<Node<'_>>(r#"{"a":"plain","b":"esc\n"}"#).unwrap();
        assert!(matches!(&node.get("a").unwrap().value, Value::Str(Cow::Borrowed(_))));
        assert!(matches!(&node.get("b").unwrap().value, Value::Str(Cow::Owned(_))));
    }

    #[test]
    fn a_key_given_twice_is_refused_in_small_and_large_objects() {
        let error = serde_json::from_str::<Node<'_>>(r#"{"a":1,"a":2}"#).unwrap_err().to_string();
        assert!(error.contains("\"a\" is given twice"), "{error}");
        let many: Vec<String> = (0..40).map(|i| format!("\"k{i}\":0")).collect();
        let text = format!("{{{},\"k3\":1}}", many.join(","));
        let error = serde_json::from_str::<Node<'_>>(&text).unwrap_err().to_string();
        assert!(error.contains("\"k3\" is given twice"), "{error}");
        let text = format!("{{{},\"k39\":1}}", many.join(","));
        assert!(serde_json::from_str::<Node<'_>>(&text).is_err());
    }
}
