//! Options of delete, from the query or the body.

use seaworthy_schema::Cause;
use serde_json::Value;

use crate::request::decode;
use crate::response::status::Failure;

use super::write::dry_run;
use super::{Query, invalid};

/// What happens to dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are kept, without the owner reference.
    Orphan,
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
}

/// Preconditions of a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub revision: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteOptions {
    pub is_dry_run: bool,
    /// Grace period in seconds; none for the default of the object.
    pub grace_seconds: Option<i64>,
    /// None for the kind's default.
    pub propagation: Option<Propagation>,
    pub preconditions: Preconditions,
}

impl DeleteOptions {
    /// Reads the options from the query and, where the client sent one, from the body, which wins.
    pub fn read(query: &Query, body: Option<&Value>) -> Result<DeleteOptions, Failure> {
        // Invalid fields must not be ignored: a precondition may be all that protects an object.
        if let Some(why) = body.and_then(type_mismatch) {
            return Err(Failure::bad_request(why));
        }
        let mut causes = Vec::new();
        let text = |key: &str| body.and_then(|body| body.get(key)).and_then(Value::as_str);
        let words: Vec<&str> = match body.and_then(|body| body.get("dryRun")).and_then(Value::as_array) {
            Some(words) => words.iter().filter_map(Value::as_str).collect(),
            None => query.all("dryRun").collect(),
        };
        let is_dry_run = dry_run(words.into_iter(), &mut causes);

        let in_body = body.and_then(|body| body.get("gracePeriodSeconds")).and_then(Value::as_i64);
        let grace_seconds = match in_body {
            Some(seconds) => Some(seconds),
            None => query.number("gracePeriodSeconds")?,
        };
        let policy = text("propagationPolicy").or_else(|| query.get("propagationPolicy"));
        let orphan = body.and_then(|body| body.get("orphanDependents")).and_then(Value::as_bool);
        let orphan = orphan.or_else(|| query.flag("orphanDependents"));
        if let (Some(policy), Some(_)) = (policy, orphan) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid("propagationPolicy", policy, why));
        }
        let propagation = match policy {
            None => orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background }),
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(Cause::not_supported("propagationPolicy", other, &supported));
                None
            }
        };
        if !causes.is_empty() {
            return Err(invalid("DeleteOptions", causes));
        }
        let precondition = |key: &str| {
            let preconditions = body.and_then(|body| body.get("preconditions"))?;
            preconditions.get(key)?.as_str().map(str::to_owned)
        };
        let preconditions = Preconditions { uid: precondition("uid"), revision: precondition("resourceVersion") };
        Ok(DeleteOptions { is_dry_run, grace_seconds, propagation, preconditions })
    }
}

/// The error of the first field with a wrong type.
fn type_mismatch(body: &Value) -> Option<String> {
    type Fits = fn(&Value) -> bool;
    let fields: [(&str, &str, Fits, &str); 7] = [
        ("DeleteOptions.", "gracePeriodSeconds", Value::is_i64, "int64"),
        ("DeleteOptions.", "preconditions", Value::is_object, "v1.Preconditions"),
        ("Preconditions.", "preconditions.uid", Value::is_string, "types.UID"),
        ("Preconditions.", "preconditions.resourceVersion", Value::is_string, "string"),
        ("DeleteOptions.", "orphanDependents", Value::is_boolean, "bool"),
        ("DeleteOptions.", "propagationPolicy", Value::is_string, "v1.DeletionPropagation"),
        ("DeleteOptions.", "dryRun", Value::is_array, "[]string"),
    ];
    let describe = |found: &Value, kind: &str, path: &str, wanted: &str| {
        // A number that does not fit is named; any other value may be long.
        let number = if found.is_number() && wanted == "int64" { format!(" {found}") } else { String::new() };
        let word = decode::json_type(found);
        format!("json: cannot unmarshal {word}{number} into Go struct field {kind}{path} of type {wanted}")
    };
    for (kind, path, fits, wanted) in fields {
        let found = path.split('.').try_fold(body, |value, key| value.get(key));
        if let Some(odd) = found.filter(|found| !found.is_null() && !fits(found)) {
            return Some(describe(odd, kind, path, wanted));
        }
    }
    let words = body.get("dryRun").and_then(Value::as_array).into_iter().flatten();
    words.into_iter().find(|word| !word.is_string()).map(|odd| describe(odd, "DeleteOptions.", "dryRun", "string"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn body_wins_over_the_query() {
        let query = Query::parse(Some("propagationPolicy=Background&gracePeriodSeconds=5"));
        let body = json!({"propagationPolicy": "Orphan", "gracePeriodSeconds": 0, "preconditions": {"uid": "u"}});
        let options = DeleteOptions::read(&query, Some(&body)).unwrap();
        assert_eq!(options.propagation, Some(Propagation::Orphan));
        assert_eq!(options.grace_seconds, Some(0));
        assert_eq!(options.preconditions.uid.as_deref(), Some("u"));
    }

    #[test]
    fn precondition_of_another_type_is_refused_and_not_passed_over() {
        for (body, wanted) in [
            (
                json!({"preconditions": {"uid": 5}}),
                "number into Go struct field Preconditions.preconditions.uid of type types.UID",
            ),
            (
                json!({"preconditions": 5}),
                "number into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
            ),
            (
                json!({"gracePeriodSeconds": 1.5}),
                "number 1.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
            ),
            (
                json!({"gracePeriodSeconds": "x"}),
                "string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
            ),
            (json!({"dryRun": "All"}), "string into Go struct field DeleteOptions.dryRun of type []string"),
            (json!({"dryRun": [1]}), "number into Go struct field DeleteOptions.dryRun of type string"),
        ] {
            let failure = DeleteOptions::read(&Query::default(), Some(&body)).unwrap_err();
            assert_eq!((failure.code, failure.message), (400, format!("json: cannot unmarshal {wanted}")));
        }
        assert!(DeleteOptions::read(&Query::default(), Some(&json!({"preconditions": null, "other": 1}))).is_ok());
    }

    #[test]
    fn old_and_new_word_for_orphans_exclude_each_other() {
        let body = json!({"propagationPolicy": "Orphan", "orphanDependents": false});
        assert_eq!(DeleteOptions::read(&Query::default(), Some(&body)).unwrap_err().code, 422);
    }

    #[test]
    fn policy_that_does_not_exist_is_refused_with_those_that_do() {
        let query = Query::parse(Some("propagationPolicy=Sideways"));
        let message = DeleteOptions::read(&query, None).unwrap_err().message;
        assert!(
            message.contains("\"Sideways\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"")
        );
    }
}
