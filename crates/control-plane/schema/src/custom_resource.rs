//! Validation of a custom resource: all checks, in the order of the real API server.

use serde_json::Value;

use crate::cause::{Cause, Reason};
use crate::document::Schema;
use crate::embedded::embedded_resources;
use crate::lists::duplicates;
use crate::rules::judge_rules;
use crate::scale::Scale;
use crate::validation::validate;

/// What a version of a definition demands of its objects.
#[derive(Debug, Clone, Copy)]
pub struct CustomResource<'a> {
    /// The schema of the version.
    pub schema: Schema<'a>,
    /// Its scale, if it has one.
    pub scale: Option<&'a Scale>,
}

/// The result of validating an object.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValidationResult {
    /// What is wrong with it.
    pub mistakes: Vec<Cause>,
    /// What was wrong before and may stay so, but should be known.
    pub warnings: Vec<String>,
}

impl CustomResource<'_> {
    /// Judges an object, new or as a change of an old one. `metadata` is what is wrong with its metadata, which is
    /// judged like that of any object, elsewhere.
    pub fn mistakes(self, object: &Value, old: Option<&Value>, metadata: Vec<Cause>) -> ValidationResult {
        let mut found = metadata;
        found.extend(validate(self.schema, object, old, ""));
        if let Some(scale) = self.scale {
            found.extend(scale.spec_mistakes(object));
            found.extend(scale.status_mistakes(object));
        }
        found.extend(embedded_resources(self.schema, object));
        self.lists_and_rules(object, old, found)
    }

    /// Judges a change of the status alone.
    pub fn status_mistakes(self, object: &Value, old: &Value, metadata: Vec<Cause>) -> ValidationResult {
        let mut found = metadata;
        if let (Some(schema), Some(status)) = (self.schema.property("status"), object.get("status")) {
            found.extend(validate(schema, status, old.get("status"), "status"));
        }
        if let Some(scale) = self.scale {
            found.extend(scale.status_mistakes(object));
        }
        self.lists_and_rules(object, Some(old), found)
    }

    fn lists_and_rules(self, object: &Value, old: Option<&Value>, mut found: Vec<Cause>) -> ValidationResult {
        let mut warnings = Vec::new();
        let twice = duplicates(self.schema, object);
        // An object that had duplicates before may keep them.
        if !twice.is_empty() && old.is_none_or(|old| duplicates(self.schema, old).is_empty()) {
            found.extend(twice);
        }
        if !self.schema.has_rules {
            return ValidationResult { mistakes: found, warnings };
        }
        if found.iter().any(is_blocking) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            found.push(Cause::invalid("<nil>", &Value::Null, detail));
        } else {
            let (mistakes, excused) = judge_rules(self.schema, object, old);
            found.extend(mistakes);
            warnings.extend(excused.iter().map(|cause| format!("{}: {}", cause.field, cause.message)));
        }
        ValidationResult { mistakes: found, warnings }
    }
}

/// Whether rules would stumble over a mistake.
fn is_blocking(cause: &Cause) -> bool {
    let reasons = [Reason::NotSupported, Reason::Required, Reason::TooLong, Reason::TooMany, Reason::TypeInvalid];
    reasons.contains(&cause.reason)
}
