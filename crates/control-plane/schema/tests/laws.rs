//! Properties of every schema and every object, sensible or not.
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use seaworthy_schema::{
    Column, CustomResource, Document, JsonPath, Pattern, Pruning, Scale, apply_defaults, default_definition,
    definition_mistakes, fill, openapi, validate,
};
use serde_json::{Map, Value, json};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_i64..5).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[a-c]{0,3}|2024-01-01T00:00:00Z|\\PC{0,4}".prop_map(Value::from),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-d]", Just("metadata".to_owned()), Just("kind".to_owned()), "\\PC{0,3}"]
}

fn anything() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(name(), inner, 0..4).prop_map(|map| { Value::Object(map.into_iter().collect()) })
        ]
    })
}

/// Keywords with values that may or may not fit.
fn keywords() -> impl Strategy<Value = Map<String, Value>> {
    let word = prop::sample::select(vec![
        "type",
        "format",
        "nullable",
        "required",
        "default",
        "enum",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "uniqueItems",
        "not",
        "allOf",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "$ref",
    ]);
    btree_map(word.prop_map(str::to_owned), anything(), 0..3).prop_map(|map| map.into_iter().collect())
}

/// Schemas that mostly make sense, with some keywords that do not.
fn schema(with_nonsense: bool) -> impl Strategy<Value = Value> {
    let typed = |kind: &'static str| Just(json!({ "type": kind }));
    let leaf = prop_oneof![
        typed("string"),
        typed("integer"),
        typed("boolean"),
        Just(json!({"type": "string", "default": "d"})),
        Just(json!({"type": "integer", "minimum": 2, "maximum": 3})),
        Just(json!({"type": "string", "nullable": true, "maxLength": 2, "pattern": "^[a-b]*$"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.size() < 2"}]})),
        Just(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]})),
    ];
    let sensible = leaf.prop_recursive(3, 16, 4, |inner| {
        let object = btree_map("[a-d]", inner.clone(), 0..4);
        prop_oneof![
            object.prop_map(|properties| json!({"type": "object", "properties": properties, "required": ["a"]})),
            inner.clone().prop_map(|each| json!({"type": "object", "additionalProperties": each})),
            inner.clone().prop_map(|each| json!({"type": "array", "items": each, "maxItems": 2})),
            inner.clone().prop_map(|each| json!({"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
                "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": each}, "required": ["a"]}})),
            inner.prop_map(|each| json!({"type": "object", "properties": {"a": each},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "default": {"a": 1}})),
        ]
    });
    (sensible, keywords()).prop_map(move |(mut schema, keywords)| {
        if with_nonsense {
            schema.as_object_mut().unwrap().extend(keywords);
        }
        schema
    })
}

fn object_schema(with_nonsense: bool) -> impl Strategy<Value = Value> {
    btree_map("[a-d]", schema(with_nonsense), 1..4)
        .prop_map(|properties| json!({"type": "object", "properties": properties}))
}

fn object() -> impl Strategy<Value = Value> {
    btree_map("[a-d]", anything(), 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// Whether all elements of keyed lists have distinct keys; only those are correlated with old values.
fn has_all_keys(schema: &Value, value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().all(|(key, value)| {
            let field = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
            field.is_none_or(|field| has_all_keys(field, value))
        }),
        Value::Array(items) => {
            let is_keyed = schema["x-kubernetes-list-type"] == "map";
            let keys: Vec<&Value> = items.iter().filter_map(|item| item.get("a")).collect();
            let are_scalars = keys.iter().all(|key| !key.is_null() && !key.is_object() && !key.is_array());
            let are_different = (1..keys.len()).all(|index| !keys[..index].contains(&keys[index]));
            (!is_keyed || (keys.len() == items.len() && are_scalars && are_different))
                && items.iter().all(|item| has_all_keys(&schema["items"], item))
        }
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_schema_and_no_object_is_too_much(schema in schema(true), value in anything(), old in anything()) {
        let (document, root) = Document::of_custom_resource(&schema);
        let schema = document.at(root);
        let mut pruned = value.clone();
        Pruning { metadata: Some(schema) }.object(schema, &mut pruned);
        apply_defaults(schema, &mut pruned);
        let scale = Scale::of(&json!({"specReplicasPath": ".a.b", "statusReplicasPath": ".c", "labelSelectorPath": "."}));
        let judge = CustomResource { schema, scale: scale.as_ref() };
        judge.mistakes(&value, None, Vec::new());
        judge.mistakes(&value, Some(&old), Vec::new());
        judge.status_mistakes(&value, &old, Vec::new());
    }

    #[test]
    fn no_definition_is_too_much(schema in schema(true), other in anything(), part in anything()) {
        let mut definition = json!({"spec": {"group": "a.b", "names": {"plural": "x", "kind": "X"}, "versions": [
            {"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": part},
            {"name": "v2", "schema": {"openAPIV3Schema": other}, "selectableFields": [{"jsonPath": ".a.b"}], "deprecationWarning": part}
        ]}});
        default_definition(&mut definition);
        definition_mistakes(&definition, None);
        definition_mistakes(&definition, Some(&part));
        definition_mistakes(&part, Some(&definition));
        let names = openapi::CustomNames { group: "a.b", version: "v1", kind: "X", list_kind: "XList", plural: "x" };
        openapi::custom_definitions(names, Some(&schema));
        Document::of_definitions(&Map::from_iter([("a".to_owned(), schema), ("b".to_owned(), other)]));
    }

    #[test]
    fn no_path_and_no_pattern_is_too_much(source in "[.\\[\\]'\"?(@=*:,a1\\\\ -]{0,12}|\\PC{0,8}", value in anything()) {
        if let Ok(path) = JsonPath::parse(&source) {
            let _ = path.find(&value);
        }
        if let Some(column) = Column::of(&json!({"jsonPath": source, "type": "date"})) {
            column.cell(&value, 0);
        }
    }

    #[test]
    fn no_pattern_is_too_much(source in "[\\[\\](){}*+?|^$.\\\\a-d0-9:,<>PQEpx-]{0,14}|\\PC{0,8}", text in "\\PC{0,8}") {
        let _ = Pattern::new(&source).is_match(&text);
    }

    #[test]
    fn what_is_pruned_has_nothing_left_to_prune(schema in object_schema(true), object in object()) {
        let (document, root) = Document::of_custom_resource(&schema);
        let mut once = object;
        Pruning::default().object(document.at(root), &mut once);
        let mut twice = once.clone();
        prop_assert_eq!(Pruning::default().object(document.at(root), &mut twice), Vec::<String>::new());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn what_is_filled_in_is_full(schema in object_schema(true), object in object()) {
        let (document, root) = Document::of_custom_resource(&schema);
        let mut once = object;
        fill(document.at(root), &mut once);
        let mut twice = once.clone();
        fill(document.at(root), &mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn what_did_not_change_is_not_reported(schema in object_schema(false), object in object()) {
        let (document, root) = Document::of_custom_resource(&schema);
        let mut object = object;
        Pruning::default().value(document.at(root), &mut object);
        prop_assume!(has_all_keys(&schema, &object));
        let causes = validate(document.at(root), &object, Some(&object), "");
        prop_assert!(causes.is_empty(), "{:?}", causes);
    }
}

#[test]
fn many_mistakes_behind_a_long_key_are_reported_within_bounds() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "additionalProperties": {
        "type": "array", "items": {"type": "string"}}}}});
    let (document, root) = Document::of_custom_resource(&schema);
    let object = json!({"spec": {"k".repeat(1 << 20): vec![0; 20_000]}});
    let causes = validate(document.at(root), &object, None, "");
    let reported: usize = causes.iter().map(|cause| cause.field.len() + cause.message.len()).sum();
    assert!(reported < 8 << 20, "{reported} bytes");
    assert!(causes.last().unwrap().message.contains("more mistakes than can be listed"), "{:?}", causes.last());
}
