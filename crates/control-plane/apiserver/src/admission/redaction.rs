//! Redaction of Secret data in the messages of admission policies.
//!
//! Differs: the real server repeats in its messages whatever an expression failed on or computed, because it leaves
//! that to the author of the policy; here the data of a Secret is in no message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::object::Object;

use super::policy::Violation;

/// The data of the Secrets that an evaluation sees.
#[derive(Debug, Default)]
pub struct SecretRedactor {
    is_needed: bool,
    /// Each value encoded as it is stored, and decoded.
    data: Vec<String>,
}

/// The text after which the message of a failed expression quotes values.
const FAILED: &str = "resulted in error: ";

impl SecretRedactor {
    /// For an evaluation that reads these objects; only Secrets matter.
    pub fn about<'o>(objects: impl IntoIterator<Item = Option<&'o Object>>) -> SecretRedactor {
        let mut redactor = SecretRedactor::default();
        for object in objects.into_iter().flatten() {
            let text = |key: &str| object.get(key).and_then(Value::as_str);
            if (text("apiVersion"), text("kind")) != (Some("v1"), Some("Secret")) {
                continue;
            }
            redactor.is_needed = true;
            for key in ["data", "stringData"] {
                let values = object.get(key).and_then(Value::as_object).into_iter().flatten();
                for value in values.filter_map(|(_, value)| value.as_str()).filter(|value| !value.is_empty()) {
                    let meant = STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                    redactor.data.extend(meant.filter(|text| !text.is_empty()));
                    redactor.data.push(value.to_owned());
                }
            }
        }
        redactor
    }

    /// The violation without Secret data in its message.
    pub fn apply(&self, mut violation: Violation) -> Violation {
        if !self.is_needed {
            return violation;
        }
        if let Some(at) = violation.message.find(FAILED) {
            // What an expression failed on may be a piece of the data.
            violation.message.truncate(at + FAILED.len());
            violation.message.push_str("details are omitted because they may contain the data of a Secret");
        } else if self.data.iter().any(|value| violation.message.contains(value.as_str())) {
            violation.message = "the message is omitted because it contains the data of a Secret".to_owned();
        }
        violation
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::super::policy::Reason;
    use super::*;

    fn object(kind: &str) -> Object {
        let object = json!({"apiVersion": "v1", "kind": kind, "data": {"x": "aHVudGVyMg=="}});
        object.as_object().unwrap().clone()
    }

    #[rstest]
    #[case("expression 'int(object.data.x)' resulted in error: strange value hunter", "Secret", false)]
    #[case("the password is hunter2", "Secret", false)]
    #[case("aHVudGVyMg== is too short", "Secret", false)]
    #[case("no such name here", "Secret", true)]
    #[case("the password is hunter2", "ConfigMap", true)]
    fn data_of_a_secret_is_in_no_message(#[case] message: &str, #[case] kind: &str, #[case] is_kept: bool) {
        let object = object(kind);
        let violation = Violation { message: message.to_owned(), reason: Reason::default() };
        let redacted = SecretRedactor::about([Some(&object), None]).apply(violation).message;
        assert_eq!(redacted == message, is_kept, "{redacted}");
        assert!(is_kept || !redacted.contains("hunter") && !redacted.contains("aHV"), "{redacted}");
    }
}
