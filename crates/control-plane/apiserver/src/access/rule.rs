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

    /// The rule split into pieces with one verb, one group, one resource and at most one name each.
    fn pieces(&self) -> Vec<PolicyRule> {
        let one = |text: &String| vec![text.clone()];
        let mut pieces = Vec::new();
        for verb in &self.verbs {
            for path in &self.paths {
                pieces.push(PolicyRule { verbs: one(verb), paths: one(path), ..PolicyRule::default() });
            }
            for group in &self.groups {
                for resource in &self.resources {
                    let piece = PolicyRule {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..PolicyRule::default()
                    };
                    match self.names.as_slice() {
                        [] => pieces.push(piece),
                        names => {
                            pieces.extend(names.iter().map(|name| PolicyRule { names: one(name), ..piece.clone() }))
                        }
                    }
                }
            }
        }
        pieces
    }

    /// Whether everything that `piece`, which is in one piece, allows is allowed by this rule too.
    fn covers_piece(&self, piece: &PolicyRule) -> bool {
        let all = |own: &[String], wanted: &[String]| wanted.iter().all(|word| has(own, word));
        if let [path] = piece.paths.as_slice() {
            return all(&self.verbs, &piece.verbs)
                && self.paths.iter().any(|own| own == path || path_matches(own, path));
        }
        let resource = |wanted: &String| {
            self.resources.iter().any(|own| {
                let below = wanted.split_once('/').map(|(_, below)| below);
                own == "*" || own == wanted || below.is_some_and(|below| own.strip_prefix("*/") == Some(below))
            })
        };
        all(&self.verbs, &piece.verbs)
            && all(&self.groups, &piece.groups)
            && piece.resources.iter().all(resource)
            && (self.names.is_empty()
                || (!piece.names.is_empty() && piece.names.iter().all(|n| self.names.contains(n))))
    }

    /// The pieces of `wanted` that `held` does not allow.
    pub fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
        let pieces = wanted.iter().flat_map(PolicyRule::pieces);
        let mut missing: Vec<PolicyRule> =
            pieces.filter(|piece| !held.iter().any(|rule| rule.covers_piece(piece))).collect();
        missing.sort_by_key(ToString::to_string);
        missing.dedup();
        missing
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
        let said: Vec<String> = parts
            .into_iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{list:?}"))
            .collect();
        write!(f, "{{{}}}", said.join(", "))
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
