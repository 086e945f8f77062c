//! Bad input: nothing panics or runs without bound, and a refused write leaves no trace.

use proptest::prelude::*;
use seaworthy_fields::{
    Managers, ObjectType, PatchError, Set, Writer, discard_timestamp_change, json_patch, merge_patch, strategic_patch,
};
use seaworthy_schema::Document;
use serde_json::{Value, json};

const TIME: &str = "2026-01-01T00:00:00Z";

/// Keys that mean something to one of the functions, so that random values reach deep.
fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "apiVersion",
        "kind",
        "metadata",
        "managedFields",
        "name",
        "uid",
        "labels",
        "finalizers",
        "ownerReferences",
        "spec",
        "status",
        "containers",
        "env",
        "ports",
        "containerPort",
        "volumes",
        "taints",
        "podCIDRs",
        "addresses",
        "conditions",
        "type",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$setElementOrder",
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList",
        "manager",
        "operation",
        "fieldsType",
        "fieldsV1",
        "time",
        "f:spec",
        "f:containers",
        "k:{\"name\":\"a\"}",
        "k:{",
        "v:1",
        "i:x",
        ".",
        "op",
        "path",
        "from",
        "value",
    ])
    .prop_map(String::from)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            "a",
            "b",
            "v1",
            "Apply",
            "Update",
            "FieldsV1",
            "delete",
            "replace",
            "merge",
            "name",
            "containers",
            "add",
            "remove",
            "move",
            "copy",
            "test",
            "/spec",
            "/spec/containers/0",
            "/metadata/managedFields/-",
            "/",
            "~",
            "u",
            "/spec/containers/-1",
            "/spec/-9223372036854775808",
            "2026-01-01T00:00:00Z",
            "2026-13-45T99:99:99+99:99",
        ])
        .prop_map(String::from),
        ".{0,6}",
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((key(), inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn document() -> Document {
    let types: Value = serde_json::from_str(include_str!("recorded/core.json")).unwrap();
    Document::of_definitions(types.as_object().unwrap())
}

fn with_writers(mut each: impl FnMut(&Writer<'_>)) {
    let document = document();
    let ignored = Set::of_fields([["status"].as_slice()]);
    for kind in ["Pod", "Node"] {
        let kind = ObjectType::built_in(document.named(&format!("io.k8s.api.core.v1.{kind}")).unwrap());
        each(&Writer { kind, api_version: "v1", subresource: "", ignored: Some(&ignored), versions: None });
    }
    each(&Writer { kind: ObjectType::unknown(), api_version: "v1", subresource: "s", ignored: None, versions: None });
}

fn deep(levels: usize, step: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(json!(1), |inner, _| step(inner))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_write_panics(live in any_value(), other in any_value(), force in any::<bool>()) {
        with_writers(|writer| {
            let mut new = other.clone();
            let _ = writer.update(Some(&live), &mut new, "m", TIME);
            let _ = writer.update(None, &mut new, "m", TIME);
            discard_timestamp_change(&live, &mut new);
            let _ = writer.apply(Some(&live), &other, "kubectl", force, TIME);
            let _ = writer.apply(None, &other, "m", force, TIME);
        });
        let _ = Managers::of_object(&live);
    }

    #[test]
    fn no_patch_panics(object in any_value(), patch in any_value()) {
        let document = document();
        let _ = json_patch(object.clone(), &patch);
        let _ = json_patch(object.clone(), &json!([patch]));
        let _ = merge_patch(object.clone(), patch.clone());
        for kind in ["Pod", "Node", "Service"] {
            let schema = document.named(&format!("io.k8s.api.core.v1.{kind}")).unwrap();
            let _ = strategic_patch(object.clone(), patch.clone(), schema);
        }
    }

    #[test]
    fn applying_twice_is_applying_once(config in any_value()) {
        with_writers(|writer| {
            let Ok(once) = writer.apply(None, &config, "m", false, TIME) else { return };
            let twice = writer.apply(Some(&once), &config, "m", false, "2026-01-02T00:00:00Z").unwrap();
            let mut settled = twice.clone();
            assert!(discard_timestamp_change(&once, &mut settled), "{once}\n{twice}");
        });
    }

    #[test]
    fn an_update_that_changes_nothing_is_none(object in any_value()) {
        with_writers(|writer| {
            let mut new = object.clone();
            if writer.update(None, &mut new, "m", TIME).is_err() || !new.is_object() {
                return;
            }
            let mut again = new.clone();
            writer.update(Some(&new), &mut again, "n", "2026-01-02T00:00:00Z").unwrap();
            assert_eq!(new, again);
        });
    }
}

#[test]
fn deep_nesting_is_refused_by_all() {
    let object = json!({"spec": deep(400, |inner| json!({"spec": inner}))});
    let list = json!({"spec": deep(400, |inner| json!([inner]))});
    for deep in [&object, &list] {
        assert!(matches!(merge_patch(json!({}), deep.clone()), Err(PatchError::BadRequest(_))));
        assert!(matches!(json_patch(deep.clone(), &json!([])), Err(PatchError::BadRequest(_))));
        let document = document();
        let schema = document.named("io.k8s.api.core.v1.Pod").unwrap();
        assert!(matches!(strategic_patch(json!({}), deep.clone(), schema), Err(PatchError::BadRequest(_))));
        with_writers(|writer| {
            assert!(writer.apply(None, deep, "m", true, TIME).is_err());
            assert!(writer.update(None, &mut deep.clone(), "m", TIME).is_err());
        });
    }
}

#[test]
fn copies_cannot_nest_without_end() {
    let operations: Vec<Value> = (0..200)
        .map(|number| json!({"op": "copy", "from": "/a", "path": format!("/a{}", "/a".repeat(number + 1))}))
        .collect();
    let error = json_patch(json!({"a": {}}), &Value::Array(operations)).unwrap_err();
    assert!(error.to_string().contains("nested more than 128 levels deep"), "{error}");
}

#[test]
fn copies_cannot_grow_without_end() {
    let operations: Vec<Value> =
        (0..64).map(|number| json!({"op": "copy", "from": "/a", "path": format!("/a/{number}")})).collect();
    let error = json_patch(json!({"a": {"text": "x".repeat(1000)}}), &Value::Array(operations)).unwrap_err();
    assert!(error.to_string().starts_with("Unable to complete the copy, the accumulated size increase"), "{error}");
}

#[test]
fn too_many_operations_are_too_large() {
    let operations = vec![json!({"op": "test", "path": "/a", "value": 1}); 10_001];
    assert_eq!(
        json_patch(json!({"a": 1}), &Value::Array(operations)),
        Err(PatchError::TooLarge("The allowed maximum operations in a JSON patch is 10000, got 10001".to_owned()))
    );
}

#[test]
fn an_object_that_does_not_fit_keeps_the_owners_it_had() {
    with_writers(|writer| {
        if !writer.subresource.is_empty() {
            return;
        }
        let mut live = json!({"metadata": {"name": "a", "labels": {"a": "1"}}});
        writer.update(None, &mut live, "m", TIME).unwrap();
        let mut new = json!({"metadata": {"name": "a", "labels": ["a"]}});
        let error = writer.update(Some(&live), &mut new, "n", TIME).unwrap_err();
        assert_eq!(error.to_string(), ".metadata.labels: expected map, got &{[a]}");
        assert_eq!(new["metadata"]["managedFields"], live["metadata"]["managedFields"]);
    });
}

/// Each of these takes minutes where the time grows with the square of the length.
#[test]
fn long_lists_and_many_managers_are_handled() {
    const MANY: usize = 20_000;
    let document = document();
    let schema = document.named("io.k8s.api.core.v1.Node").unwrap();
    let kind = ObjectType::built_in(schema);
    let writer = Writer { kind, api_version: "v1", subresource: "", ignored: None, versions: None };
    let addresses =
        |each: &dyn Fn(usize) -> Value| json!({"status": {"addresses": (0..MANY).map(each).collect::<Vec<_>>()}});
    let config = addresses(&|number| json!({"type": format!("t{number}"), "address": "a"}));
    let reversed = addresses(&|number| json!({"type": format!("t{}", MANY - number), "address": "a"}));
    let live = writer.apply(None, &config, "one", false, TIME).unwrap();
    let live = writer.apply(Some(&live), &reversed, "two", false, TIME).unwrap();
    assert_eq!(live["status"]["addresses"].as_array().unwrap().len(), MANY + 1);

    let mut patch = addresses(&|number| json!({"type": format!("t{number}"), "$patch": "delete"}));
    patch["status"]["$setElementOrder/addresses"] = json!([{"type": format!("t{MANY}")}]);
    let rest = strategic_patch(live.clone(), patch, schema).unwrap();
    assert_eq!(rest["status"]["addresses"], json!([{"type": format!("t{MANY}"), "address": "a"}]));

    let entry = |number: usize| {
        json!({"manager": "m", "operation": "Update", "apiVersion": format!("v{number}"), "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {format!("f:x{number}"): {}}}})
    };
    let mut new = json!({"metadata": {"managedFields": (0..MANY).map(entry).collect::<Vec<_>>()}});
    writer.update(None, &mut new, "m", TIME).unwrap();
    assert_eq!(Managers::of_object(&new).unwrap().0.len(), MANY);
}
