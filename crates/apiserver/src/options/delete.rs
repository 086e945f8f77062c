//! Options of delete, from the query or the body.

use seaworthy_schema::Cause;
use serde_json::Value;

use crate::status::Failure;

use super::write::dry_run;
use super::{Query, invalid};

/// What happens to the objects that the deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They stay, without their owner.
    Orphan,
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
}

/// What must be true of the object for the deletion to happen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preconditions {
    /// The object's uid.
    pub uid: Option<String>,
    /// The object's revision.
    pub revision: Option<String>,
}

/// How to delete.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteOptions {
    /// Answer as usual, remove nothing.
    pub is_dry_run: bool,
    /// Seconds that a pod is given; none for its own wish.
    pub grace_seconds: Option<i64>,
    /// What happens to dependents; none for the kind's default.
    pub propagation: Option<Propagation>,
    /// What must hold.
    pub preconditions: Preconditions,
}

impl DeleteOptions {
    /// Reads the options from the query and, where the client sent one, from the body, which wins.
    pub fn read(query: &Query, body: Option<&Value>) -> Result<DeleteOptions, Failure> {
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
