//! Schema properties: typed access to the JSON of a schema in a definition that is not validated yet.

use serde_json::{Map, Value};

/// A schema inside a definition. A keyword of the wrong type is as good as absent: decoding refused it earlier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Props<'a>(pub(super) &'a Map<String, Value>);

/// `additionalProperties`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AdditionalProps<'a> {
    Allowed(bool),
    Each(Props<'a>),
}

impl<'a> Props<'a> {
    pub(crate) fn of(value: &'a Value) -> Option<Props<'a>> {
        value.as_object().map(Props)
    }

    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    pub(super) fn flag(self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn list(self, key: &str) -> &'a [Value] {
        self.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn texts(self, key: &str) -> Vec<&'a str> {
        self.list(key).iter().filter_map(Value::as_str).collect()
    }

    fn schema(self, key: &str) -> Option<Props<'a>> {
        self.get(key).and_then(Props::of)
    }

    /// `type`, empty when there is none.
    pub(super) fn kind(self) -> &'a str {
        self.text("type").unwrap_or_default()
    }

    /// Schemas by name, sorted.
    pub(super) fn schemas(self, key: &str) -> Vec<(&'a str, Props<'a>)> {
        let Some(map) = self.get(key).and_then(Value::as_object) else { return Vec::new() };
        let mut all: Vec<_> =
            map.iter().filter_map(|(name, schema)| Some((name.as_str(), Props::of(schema)?))).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }

    pub(super) fn properties(self) -> Vec<(&'a str, Props<'a>)> {
        self.schemas("properties")
    }

    pub(super) fn property(self, name: &str) -> Option<Props<'a>> {
        self.get("properties")?.as_object()?.get(name).and_then(Props::of)
    }

    /// `items`, where it is one schema.
    pub(super) fn items(self) -> Option<Props<'a>> {
        self.schema("items")
    }

    pub(super) fn additional(self) -> Option<AdditionalProps<'a>> {
        match self.get("additionalProperties")? {
            Value::Bool(allowed) => Some(AdditionalProps::Allowed(*allowed)),
            Value::Object(schema) => Some(AdditionalProps::Each(Props(schema))),
            _ => None,
        }
    }

    pub(super) fn additional_schema(self) -> Option<Props<'a>> {
        match self.additional()? {
            AdditionalProps::Each(schema) => Some(schema),
            AdditionalProps::Allowed(_) => None,
        }
    }

    pub(super) fn not(self) -> Option<Props<'a>> {
        self.schema("not")
    }

    /// `allOf` and its like.
    pub(super) fn alternatives(self, key: &str) -> Vec<Props<'a>> {
        self.list(key).iter().filter_map(Props::of).collect()
    }

    pub(super) fn list_type(self) -> Option<&'a str> {
        self.text("x-kubernetes-list-type")
    }

    pub(super) fn map_type(self) -> Option<&'a str> {
        self.text("x-kubernetes-map-type")
    }

    pub(super) fn rules(self) -> Vec<Props<'a>> {
        self.alternatives("x-kubernetes-validations")
    }

    /// Whether this schema or one inside it is such.
    pub(super) fn any(self, is_such: &dyn Fn(Props<'a>) -> bool) -> bool {
        if is_such(self) {
            return true;
        }
        let children = self
            .items()
            .into_iter()
            .chain(self.additional_schema())
            .chain(self.not())
            .chain(["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| self.alternatives(key)))
            .chain(self.properties().into_iter().map(|(_, schema)| schema));
        let mut children = children;
        children.any(|child| child.any(is_such))
    }
}
