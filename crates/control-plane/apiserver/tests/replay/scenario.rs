//! A scenario: a short conversation with an API server, read from a file.
//!
//! All texts may have variables, `${name}`: `${ns}` is the scenario's name with a random part, `${group}` is
//! `${ns}.example.com`, the rest is captured from answers. The random part makes runs independent of each other and
//! of what the server holds.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// A conversation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Also the name of its file.
    pub name: String,
    /// What it belongs to.
    pub topic: String,
    /// One sentence on what it shows.
    #[serde(rename = "about")]
    _about: String,
    /// Whether the namespace `${ns}` is made first.
    #[serde(default)]
    pub namespace: bool,
    /// Definitions that are created, and served, before the steps.
    #[serde(default)]
    pub crds: Vec<Value>,
    /// `controllers`: the garbage collector and the namespace controller must be there.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Whether the order of the resourceVersions of different objects counts.
    #[serde(default = "yes")]
    pub order: bool,
    pub steps: Vec<Step>,
}

/// A request, or a watch with the requests that are made while it is open.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// What it is called.
    pub name: Option<String>,
    /// `METHOD /path`.
    #[serde(rename = "do")]
    pub request: Option<String>,
    /// Parameters; a list is a parameter that is given several times.
    pub query: Map<String, Value>,
    /// The body's type: a short word or a media type. JSON if there is none.
    #[serde(rename = "type")]
    pub media_type: Option<String>,
    /// Additional headers.
    pub headers: Map<String, Value>,
    /// Instead of the usual token; an empty one is not sent.
    pub token: Option<String>,
    /// A document. `{"$from": variable, "$patch": {..}}` is a captured document changed by a merge patch,
    /// `{"$repeat": [text, n]}` a long string.
    #[serde(deserialize_with = "present")]
    pub body: Option<Value>,
    /// A body that is sent as it is.
    pub raw: Option<String>,
    /// Variables, and where in the answer their values are.
    pub capture: Map<String, Value>,
    /// For a request: what must hold, and it is sent until it does. For a watch: when enough has been seen.
    pub until: Option<Until>,
    /// `exact`: the words of an error count.
    pub message: Option<Exact>,
    /// What to keep of the answer.
    pub only: Option<Vec<String>>,
    /// What to drop of it.
    pub ignore: Option<Vec<String>>,
    /// The one value of it to compare.
    pub pick: Option<String>,
    /// Compare types, not values.
    pub shape: bool,
    /// Compare the code only.
    pub code_only: bool,
    /// The answer's content type does not count.
    pub any_type: bool,
    /// The request that opens a watch.
    pub watch: Option<Box<Step>>,
    /// The requests while the watch is open.
    pub steps: Vec<Step>,
    /// How many seconds the watch may be silent.
    pub timeout: Option<f64>,
    /// Whether the first bookmark is an event like any other.
    pub bookmarks: bool,
}

/// When to stop.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Until {
    /// The answer has this code.
    pub code: Option<u16>,
    /// This path leads somewhere in the answer,
    pub at: Option<String>,
    /// namely to this value.
    #[serde(deserialize_with = "present")]
    pub is: Option<Value>,
    /// How many seconds to go on trying.
    pub timeout: Option<f64>,
    /// This many events have come.
    pub count: Option<usize>,
    /// A bookmark has come.
    pub bookmark: bool,
    /// The server has ended the watch.
    #[serde(rename = "close")]
    pub _close: bool,
}

/// The only way in which messages can be compared.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exact {
    /// Letter by letter.
    Exact,
}

impl Scenario {
    /// Reads a scenario.
    pub fn parse(text: &str) -> Result<Scenario, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Whether it is about objects that controllers remove.
    pub fn needs_controllers(&self) -> bool {
        self.needs.iter().any(|need| need == "controllers")
    }
}

impl Step {
    /// What recordings call it.
    pub fn label(&self) -> &str {
        self.name.as_deref().filter(|name| !name.is_empty()).or(self.request.as_deref()).unwrap_or("preparation")
    }
}

fn yes() -> bool {
    true
}

/// A null that is there is not the same as nothing.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Scenario;

    fn parse(step: &Value) -> Result<Scenario, serde_json::Error> {
        Scenario::parse(&json!({"name": "s", "topic": "t", "about": "", "steps": [step]}).to_string())
    }

    #[test]
    fn misspelt_field_is_refused() {
        assert!(parse(&json!({"do": "GET /", "code_only": true})).is_ok());
        assert!(parse(&json!({"do": "GET /", "codeonly": true})).is_err());
        assert!(parse(&json!({"do": "GET /", "message": "roughly"})).is_err());
    }

    #[test]
    fn null_body_is_a_body() {
        assert_eq!(parse(&json!({"do": "POST /", "body": null})).unwrap().steps[0].body, Some(Value::Null));
        assert_eq!(parse(&json!({"do": "POST /"})).unwrap().steps[0].body, None);
    }
}
