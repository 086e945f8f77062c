//! Compares with recorded answers of the real implementation to generated schemas and objects.
//!
//! Each line of a recording is one case. Fields that are missing are equal to the input, or empty.
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use seaworthy_schema::{
    Cause, Column, Document, Pattern, Pruning, apply_defaults, default_definition, definition_mistakes, duplicates,
    embedded_resources, rule_mistakes, validate,
};
use serde_json::Value;

fn lines(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
    let text = fs::read_to_string(&path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Causes as the recording has them: field, reason and sentence, sorted, because the original's order is random.
fn sorted(causes: &[Cause]) -> Vec<[String; 3]> {
    let mut all: Vec<_> = causes
        .iter()
        .map(|cause| [cause.field.clone(), cause.reason.as_str().to_owned(), cause.message.clone()])
        .collect();
    all.sort();
    all
}

fn recorded(case: &Value, name: &str) -> Vec<[String; 3]> {
    let empty = Vec::new();
    let list = case.get(name).and_then(Value::as_array).unwrap_or(&empty);
    let mut all: Vec<[String; 3]> =
        list.iter().map(|cause| [0, 1, 2].map(|index| cause[index].as_str().unwrap().to_owned())).collect();
    all.sort();
    all
}

/// The recording writes a whole float without its fraction.
fn by_value(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => Value::from(float as i64),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(by_value).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), by_value(value))).collect(),
        other => other.clone(),
    }
}

fn check(
    differences: &mut Vec<String>,
    line: usize,
    what: &str,
    ours: impl std::fmt::Debug,
    theirs: impl std::fmt::Debug,
) {
    let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
    if ours != theirs {
        differences.push(format!("line {line}, {what}:\n  ours   {ours}\n  theirs {theirs}"));
    }
}

#[test]
fn objects_are_pruned_defaulted_and_judged_as_recorded() {
    let mut differences = Vec::new();
    let cases = lines("objects.jsonl");
    for (index, case) in cases.iter().enumerate() {
        let line = index + 1;
        let (document, root) = Document::of_custom_resource(&case["schema"]);
        let schema = document.at(root);
        let object = &case["object"];

        let mut pruned = object.clone();
        let unknown = Pruning::default().object(schema, &mut pruned);
        let no_unknown = Value::Array(Vec::new());
        check(&mut differences, line, "unknown", Value::from(unknown), case.get("unknown").unwrap_or(&no_unknown));
        check(&mut differences, line, "pruned", by_value(&pruned), by_value(case.get("pruned").unwrap_or(object)));

        let mut defaulted = object.clone();
        apply_defaults(schema, &mut defaulted);
        check(
            &mut differences,
            line,
            "defaulted",
            by_value(&defaulted),
            by_value(case.get("defaulted").unwrap_or(object)),
        );

        let causes = validate(schema, object, None, "");
        check(&mut differences, line, "causes", sorted(&causes), recorded(case, "causes"));
        check(&mut differences, line, "lists", sorted(&duplicates(schema, object)), recorded(case, "lists"));
        check(
            &mut differences,
            line,
            "embedded",
            sorted(&embedded_resources(schema, object)),
            recorded(case, "embedded"),
        );
        if let Some(old) = case.get("old") {
            let causes = validate(schema, object, Some(old), "");
            check(&mut differences, line, "update", sorted(&causes), recorded(case, "update"));
        }
    }
    assert!(cases.len() > 400, "the recording is not empty");
    assert!(
        differences.is_empty(),
        "{} differences in {} cases\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}

#[test]
fn patterns_match_and_fail_as_recorded() {
    let cases = lines("patterns.jsonl");
    let texts: Vec<&str> = cases[0].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let mut differences = Vec::new();
    for (index, case) in cases.iter().enumerate().skip(1) {
        let source = case["pattern"].as_str().unwrap();
        let pattern = Pattern::new(source);
        let ours: Result<String, &str> =
            texts.iter().map(|text| pattern.is_match(text).map(|matches| if matches { '1' } else { '0' })).collect();
        let theirs = match case.get("error") {
            Some(error) => Err(error.as_str().unwrap()),
            None => Ok(case["matches"].as_str().unwrap().to_owned()),
        };
        check(&mut differences, index + 1, source, ours, theirs);
    }
    assert!(differences.is_empty(), "{}\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn formats_accept_and_refuse_as_recorded() {
    let mut differences = Vec::new();
    for (index, case) in lines("formats.jsonl").iter().enumerate() {
        let schema = serde_json::json!({"type": "string", "format": case["format"]});
        let (document, root) = Document::of_custom_resource(&schema);
        let ours = validate(document.at(root), &case["text"], None, "").is_empty();
        let what = format!("{} {}", case["format"], case["text"]);
        check(&mut differences, index + 1, &what, ours, case["valid"].as_bool().unwrap());
    }
    assert!(differences.is_empty(), "{}\n{}", differences.len(), differences.join("\n"));
}

/// Where the original shows a whole schema or all versions as its memory has them, only the sentence counts.
fn without_dump([field, reason, message]: [String; 3]) -> [String; 3] {
    let sentences = [
        "only [Description",
        "must contain unique",
        "must have exactly one",
        "must only have a single schema",
        "per-version",
    ];
    let sentence = sentences.into_iter().find_map(|start| message.find(start)).unwrap_or(0);
    [field, reason, message[sentence..].to_owned()]
}

#[test]
fn definitions_are_judged_as_recorded() {
    let mut differences = Vec::new();
    let cases = lines("definitions.jsonl");
    for (index, case) in cases.iter().enumerate() {
        let defaulted = |definition: &Value| {
            let mut definition = definition.clone();
            default_definition(&mut definition);
            definition
        };
        let old = case.get("old").map(defaulted);
        let causes = definition_mistakes(&defaulted(&case["crd"]), old.as_ref());
        let ours: BTreeSet<_> = sorted(&causes).into_iter().map(without_dump).collect();
        let theirs: BTreeSet<_> = recorded(case, "causes").into_iter().map(without_dump).collect();
        check(&mut differences, index + 1, "causes", ours, theirs);
    }
    assert!(
        differences.is_empty(),
        "{} differences in {} cases\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}

#[test]
fn rules_judge_as_recorded() {
    let mut differences = Vec::new();
    let cases = lines("rules.jsonl");
    for (index, case) in cases.iter().enumerate() {
        let (document, root) = Document::of_custom_resource(&case["schema"]);
        let causes = rule_mistakes(document.at(root), &case["object"], case.get("old"));
        check(&mut differences, index + 1, "causes", sorted(&causes), recorded(case, "causes"));
    }
    assert!(cases.len() > 80, "the recording is not empty");
    assert!(
        differences.is_empty(),
        "{} differences in {} cases\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}

#[test]
fn columns_show_what_is_recorded() {
    let cases = lines("columns.jsonl");
    let object = &cases[0]["object"];
    let mut differences = Vec::new();
    for (index, case) in cases.iter().enumerate().skip(1) {
        let column = Column::of(&serde_json::json!({"name": "c", "type": case["type"], "jsonPath": case["path"]}));
        let ours = column.map(|column| by_value(&column.cell(object, 0)));
        let theirs = (case.get("bad").is_none()).then(|| by_value(&case["cell"]));
        check(&mut differences, index + 1, &format!("{} as {}", case["path"], case["type"]), ours, theirs);
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}
