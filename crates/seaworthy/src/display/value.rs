//! Values of a config in one line: modes in octal, keys by fingerprint, secrets hidden.

use seaworthy_ignition::node::{Node, Value};
use seaworthy_values::text::counted;

use super::{secret, ssh_key};
use crate::terminal;

/// Printed instead of a secret.
pub const HIDDEN: &str = "(hidden)";

/// Whether a field may hold a secret: the value of a header is a password more often than not, a hash can be guessed at, and
/// the key of a disk is one. Only that it exists, or has changed, is shown.
pub fn is_secret(field: &str) -> bool {
    field.contains("httpHeaders") || field.ends_with("passwordHash") || field == "keyFile.source"
}

/// A value in one line. `field` is its path in its entry.
pub fn shown(field: &str, node: &Node<'_>) -> String {
    if is_secret(field) {
        return HIDDEN.to_owned();
    }
    match &node.value {
        Value::Int(mode) if field == "mode" => format!("0{mode:03o}"),
        Value::Str(key) if field.starts_with("sshAuthorizedKeys") => {
            ssh_key::described(key).unwrap_or_else(|| terminal::quoted(key))
        }
        Value::Str(text) if text.contains('\n') => counted(text.lines().count(), "line"),
        Value::Str(text) if text.starts_with("data:") => "embedded".to_owned(),
        Value::Str(text) => terminal::quoted(text),
        Value::Null => "(unset)".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|item| shown(field, item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let items: Vec<String> = map.iter().map(|(key, item)| format!("{key}: {}", shown(key, item))).collect();
            format!("{{{}}}", items.join(", "))
        }
    }
}

/// A value for programs: as it is, but for secrets. What programs print ends up in the logs of pipelines. `hides_contents` is
/// whether it is of a file whose contents are one.
pub fn json(field: &str, node: &Node<'_>, hides_contents: bool) -> serde_json::Value {
    let names_url = |field: &str| ["source", "httpProxy", "httpsProxy", "url"].iter().any(|name| field.ends_with(name));
    let is_url = |text: &str| !text.starts_with("data:") && text.contains("://");
    match &node.value {
        Value::List(list) => list.iter().map(|item| json(field, item, hides_contents)).collect(),
        Value::Map(map) => {
            let below = |key: &str| if field.is_empty() { key.to_owned() } else { format!("{field}.{key}") };
            map.iter().map(|(key, item)| (key.to_owned(), json(&below(key), item, hides_contents))).collect()
        }
        // The name of a header is none.
        _ if is_secret(field) && !field.ends_with(".name") => HIDDEN.into(),
        // A URL reveals nothing about the contents.
        Value::Str(text) if hides_contents && secret::holds_contents(field) && !is_url(text) => HIDDEN.into(),
        Value::Str(url) if names_url(field) && !url.starts_with("data:") => seaworthy_fetch::redact(url).into(),
        _ => node.to_json(),
    }
}

/// A value in one line, where there may be none.
pub fn shown_or_unset(field: &str, node: Option<&Node<'_>>) -> String {
    node.map_or_else(|| "(unset)".to_owned(), |node| shown(field, node))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_shown_without_secrets() {
        let shown = |field: &str, value: serde_json::Value| shown(field, &Node::from_json(&value));
        assert_eq!(shown("mode", json!(420)), "0644");
        assert_eq!(shown("mode", json!(0)), "0000");
        assert_eq!(shown("user.id", json!(420)), "420");
        assert_eq!(shown("keyFile.source", json!("data:,key")), "(hidden)");
        assert_eq!(shown("passwordHash", json!("$6$x")), "(hidden)");
        assert_eq!(shown("contents.httpHeaders.Authorization.value", json!("Bearer x")), "(hidden)");
        assert_eq!(shown("source", json!("https://u:p@h/a?sig=x")), "\"https://h/a?sig=…\"");
        assert_eq!(
            shown("", json!({"httpProxy": "http://u:p@h/", "noProxy": ["a"]})),
            "{httpProxy: \"http://h/\", noProxy: [\"a\"]}"
        );
        assert_eq!(shown("sshAuthorizedKeys[0]", json!("no key")), "\"no key\"");
    }

    #[test]
    fn values_for_programs_have_no_secrets_either() {
        let hidden = |field: &str, value: serde_json::Value| super::json(field, &Node::from_json(&value), false);
        assert_eq!(hidden("passwordHash", json!("$6$x")), "(hidden)");
        assert_eq!(hidden("keyFile.source", json!("data:,key")), "(hidden)");
        let body = json!({"source": "https://u:p@h/a?sig=x", "httpHeaders": [{"name": "A", "value": "Bearer x"}]});
        assert_eq!(
            hidden("", json!({"path": "/a", "mode": 420, "contents": body, "keyFile": {"source": "data:,k"}})),
            json!({
                "path": "/a",
                "mode": 420,
                "contents": {"source": "https://h/a?sig=…", "httpHeaders": [{"name": "A", "value": "(hidden)"}]},
                "keyFile": {"source": "(hidden)"},
            })
        );
        assert_eq!(hidden("contents.source", json!("data:,a")), "data:,a");
    }

    #[test]
    fn contents_of_a_file_with_a_secret_are_hidden_from_programs() {
        let hidden = |field: &str, value: serde_json::Value| super::json(field, &Node::from_json(&value), true);
        assert_eq!(hidden("contents.source", json!("data:,a")), "(hidden)");
        assert_eq!(hidden("contents.source", json!("https://h/a")), "https://h/a");
        let contents = json!({"source": "data:,a", "compression": "", "verification": {"hash": "sha256-00"}});
        assert_eq!(
            hidden("", json!({"path": "/a", "mode": 384, "contents": contents, "append": [{"source": "data:,b"}]})),
            json!({
                "path": "/a",
                "mode": 384,
                "contents": {"source": "(hidden)", "compression": "", "verification": {"hash": "(hidden)"}},
                "append": [{"source": "(hidden)"}],
            })
        );
    }
}
