//! Policy rules of roles: verbs on resources, or on non-resource paths.

use std::fmt;

use serde_json::{Value, json};

use super::policy::AccessRequest;

/// What a role allows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyRule {
    /// `get`, `list`, … or `*`.
    pub verbs: Vec<String>,
    /// Empty text for the core group, `*` for all.
    pub groups: Vec<String>,
    /// Plural names, with the subresource behind a slash; `*` for all, `*/scale` for a subresource of all.
    pub resources: Vec<String>,
    /// Only objects of these names; empty for any.
    pub names: Vec<String>,
    /// Non-resource paths; a trailing star matches any suffix.
    pub paths: Vec<String>,
}

impl PolicyRule {
    /// Reads an entry of a role's `rules`. What is malformed allows nothing.
    pub fn read(rule: &Value) -> PolicyRule {
        let list = |key: &str| {
            let texts = rule.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            texts.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        PolicyRule {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            paths: list("nonResourceURLs"),
        }
    }

    /// The rule as an answer shows it.
    pub fn to_json(&self) -> Value {
        if !self.paths.is_empty() {
            return json!({"verbs": self.verbs, "nonResourceURLs": self.paths});
        }
        let mut json = json!({"verbs": self.verbs, "apiGroups": self.groups, "resources": self.resources});
        if !self.names.is_empty() {
            json["resourceNames"] = self.names.clone().into();
        }
        json
    }

    /// Whether the rule allows an action.
    pub fn allows(&self, request: &AccessRequest<'_>) -> bool {
        has(&self.verbs, request.verb)
            && match request.path {
                Some(path) => self.paths.iter().any(|pattern| path_matches(pattern, path)),
                None => {
                    has(&self.groups, request.group)
                        && self.resources.iter().any(|resource| resource_matches(resource, request))
                        && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
                }
            }
    }

    /// The number of its combinations of one verb with one path, or with one group, one resource and at most one name.
    pub fn combinations(&self) -> usize {
        let on_resources =
            self.groups.len().saturating_mul(self.resources.len()).saturating_mul(self.names.len().max(1));
        self.verbs.len().saturating_mul(self.paths.len().saturating_add(on_resources))
    }
}

/// The form in which kube-apiserver lists rights that a user tries to grant without having them.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.names),
            ("NonResourceURLs", &self.paths),
            ("Verbs", &self.verbs),
        ];
        let fields: Vec<String> = parts
            .into_iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{list:?}"))
            .collect();
        write!(f, "{{{}}}", fields.join(", "))
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|word| word == "*" || word == wanted)
}

fn resource_matches(pattern: &str, request: &AccessRequest<'_>) -> bool {
    if pattern == "*" {
        return true;
    }
    match (pattern.split_once('/'), request.subresource) {
        (None, "") => pattern == request.resource,
        (Some((resource, below)), wanted) if !wanted.is_empty() => {
            (resource == "*" || resource == request.resource) && below == wanted
        }
        _ => false,
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => pattern == path,
    }
}
