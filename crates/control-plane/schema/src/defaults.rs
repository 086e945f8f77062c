//! Defaulting: fills in the fields that an object leaves out.

use serde_json::{Map, Value};

use crate::document::Schema;

/// Fills in defaults, everywhere in the value. A null where none is allowed takes the default as well.
///
/// Nulls that neither may stay nor have a default are dropped from objects first; in lists they stay, for validation
/// to complain about.
pub fn apply_defaults(schema: Schema<'_>, value: &mut Value) {
    drop_nulls(Some(schema), value);
    fill(schema, value);
}

/// Drops the nulls of fields that may not be null and have no default.
pub fn drop_nulls(schema: Option<Schema<'_>>, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let field = schema.and_then(|schema| schema.field(key));
            if value.is_null() && field.is_some_and(|field| !field.nullable && field.default.is_none()) {
                return false;
            }
            // Nothing is known of what no schema describes, so there is nothing to drop there.
            if field.is_some() {
                drop_nulls(field, value);
            }
            true
        }),
        Value::Array(items) => {
            if let Some(each) = schema.and_then(Schema::items) {
                items.iter_mut().for_each(|item| drop_nulls(Some(each), item));
            }
        }
        _ => {}
    }
}

/// Fills in defaults and leaves nulls without one alone.
pub fn fill(schema: Schema<'_>, value: &mut Value) {
    match value {
        Value::Object(map) => {
            add_missing(schema, map);
            for (key, value) in map.iter_mut() {
                match schema.property(key) {
                    Some(property) => fill(property, value),
                    None => {
                        if let Some(each) = schema.additional() {
                            replace_null(each, value);
                            fill(each, value);
                        }
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(each) = schema.items() {
                for item in items {
                    replace_null(each, item);
                    fill(each, item);
                }
            }
        }
        _ => {}
    }
}

fn add_missing(schema: Schema<'_>, map: &mut Map<String, Value>) {
    for (name, property) in schema.properties() {
        let Some(default) = &property.node().default else { continue };
        match map.get_mut(name) {
            Some(value) if value.is_null() && !property.nullable => *value = default.clone(),
            Some(_) => {}
            None => {
                map.insert(name.to_owned(), default.clone());
            }
        }
    }
}

fn replace_null(schema: Schema<'_>, value: &mut Value) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.node().default
    {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::Document;

    fn defaulted(schema: Value, mut value: Value) -> Value {
        let (document, root) = Document::of_custom_resource(&schema);
        apply_defaults(document.at(root), &mut value);
        value
    }

    #[test]
    fn defaults_are_filled_in_deeply_and_inside_defaults() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "default": {}, "properties": {
            "color": {"type": "string", "default": "grey"},
            "items": {"type": "array", "items": {"type": "object", "properties": {"mode": {"default": "ro"}}}},
            "inner": {"type": "object", "default": {}, "properties": {"level": {"type": "integer", "default": 3}}}
        }}}});
        assert_eq!(defaulted(schema.clone(), json!({})), json!({"spec": {"color": "grey", "inner": {"level": 3}}}));
        assert_eq!(
            defaulted(schema, json!({"spec": {"color": null, "items": [{}, {"mode": "rw"}], "inner": {"level": 1}}})),
            json!({"spec": {"color": "grey", "items": [{"mode": "ro"}, {"mode": "rw"}], "inner": {"level": 1}}})
        );
    }

    #[test]
    fn null_stays_where_it_is_allowed_and_goes_where_nothing_can_replace_it() {
        let schema = json!({"type": "object", "properties": {
            "both": {"type": "string", "nullable": true, "default": "d"},
            "plain": {"type": "string"},
            "list": {"type": "array", "items": {"type": "string"}}
        }});
        assert_eq!(
            defaulted(schema, json!({"both": null, "plain": null, "list": [null], "unknown": null})),
            json!({"both": null, "list": [null], "unknown": null})
        );
    }
}
