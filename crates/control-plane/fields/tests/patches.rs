//! Random patches, recorded from the real implementation (apimachinery 0.37.2, json-patch 4.13), must give the same
//! objects and the same messages.

use seaworthy_fields::{PatchError, json_patch, merge_patch, strategic_patch};
use seaworthy_schema::Document;
use serde_json::Value;

fn cases(recorded: &str) -> impl Iterator<Item = Value> {
    recorded.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// Each case must end as recorded. What differs is listed at the end, so that one run shows all of it.
fn check(case: &Value, result: Result<Value, PatchError>, differing: &mut Vec<String>) {
    let is_same = match (&result, case.get("error")) {
        (Ok(result), None) => result == &case["result"],
        (Err(error), Some(wanted)) => *wanted == error.to_string(),
        _ => false,
    };
    if !is_same {
        differing
            .push(format!("{case}\n  {}", result.map_or_else(|error| error.to_string(), |value| value.to_string())));
    }
}

#[test]
fn strategic_patches_end_as_in_the_real_server() {
    let types: Value = serde_json::from_str(include_str!("recorded/core.json")).unwrap();
    let document = Document::of_definitions(types.as_object().unwrap());
    let (mut count, mut differing) = (0, Vec::new());
    for case in cases(include_str!("recorded/strategic.jsonl")) {
        let schema = document.named(&format!("io.k8s.api.core.v1.{}", case["kind"].as_str().unwrap())).unwrap();
        let result = strategic_patch(case["object"].clone(), case["patch"].clone(), schema);
        check(&case, result, &mut differing);
        count += 1;
    }
    assert!(differing.is_empty(), "{} of {count} differ:\n{}", differing.len(), differing.join("\n"));
    assert_eq!(count, 450);
}

#[test]
fn json_and_merge_patches_end_as_in_the_real_server() {
    let (mut count, mut differing) = (0, Vec::new());
    for case in cases(include_str!("recorded/patches.jsonl")) {
        let object = case["object"].clone();
        let result = match case.get("json") {
            Some(patch) => json_patch(object, patch),
            None => merge_patch(object, case["merge"].clone()),
        };
        check(&case, result, &mut differing);
        count += 1;
    }
    assert!(differing.is_empty(), "{} of {count} differ:\n{}", differing.len(), differing.join("\n"));
    assert_eq!(count, 700);
}
