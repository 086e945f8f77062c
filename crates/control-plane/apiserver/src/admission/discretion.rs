//! What must not be in a message: the data of Secrets that a policy looked at.
//!
//! Differs: the real server repeats in its messages whatever an expression failed on or computed, because it leaves that
//! to whoever writes policies; here the data of a Secret is in no message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::object::Object;

use super::policy::Objection;

/// The data of the Secrets that an evaluation sees.
#[derive(Debug, Default)]
pub struct Discretion {
    is_needed: bool,
    /// As it is stored, and as it is meant.
    data: Vec<String>,
}

/// What stands behind an expression that failed.
const FAILED: &str = "resulted in error: ";

impl Discretion {
    /// For an evaluation that sees these objects, of which Secrets count.
    pub fn about<'o>(objects: impl IntoIterator<Item = Option<&'o Object>>) -> Discretion {
        let mut discretion = Discretion::default();
        for object in objects.into_iter().flatten() {
            let text = |key: &str| object.get(key).and_then(Value::as_str);
            if (text("apiVersion"), text("kind")) != (Some("v1"), Some("Secret")) {
                continue;
            }
            discretion.is_needed = true;
            for key in ["data", "stringData"] {
                let values = object.get(key).and_then(Value::as_object).into_iter().flatten();
                for value in values.filter_map(|(_, value)| value.as_str()).filter(|value| !value.is_empty()) {
                    let meant = STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                    discretion.data.extend(meant.filter(|text| !text.is_empty()));
                    discretion.data.push(value.to_owned());
                }
            }
        }
        discretion
    }

    /// The objection in words that give nothing away.
    pub fn apply(&self, mut objection: Objection) -> Objection {
        if !self.is_needed {
            return objection;
        }
        if let Some(at) = objection.message.find(FAILED) {
            // What an expression failed on may be a piece of the data.
            objection.message.truncate(at + FAILED.len());
            objection.message.push_str("what exactly is wrong is left out as it may repeat the data of a Secret");
        } else if self.data.iter().any(|value| objection.message.contains(value.as_str())) {
            objection.message = "the message is left out as it repeats the data of a Secret".to_owned();
        }
        objection
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
        let objection = Objection { message: message.to_owned(), reason: Reason::default() };
        let said = Discretion::about([Some(&object), None]).apply(objection).message;
        assert_eq!(said == message, is_kept, "{said}");
        assert!(is_kept || !said.contains("hunter") && !said.contains("aHV"), "{said}");
    }
}
