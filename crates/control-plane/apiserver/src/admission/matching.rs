//! Which writes a policy or a binding is about.

use serde_json::Value;

use crate::object::reach::Reach;
use crate::object::{Metadata, Object};
use crate::resource::Resource;
use crate::selector::LabelSelector;

use super::attempt::Attempt;

/// `matchConstraints` of a policy, or `matchResources` of a binding.
#[derive(Debug, Default)]
pub struct Constraints {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    namespaces: Option<LabelSelector>,
    objects: Option<LabelSelector>,
    is_exact: bool,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// With what is below, empty for the object itself.
    resources: Vec<(String, String)>,
    scope: String,
    names: Vec<String>,
}

impl Constraints {
    /// Reads them as objects carry them.
    pub fn read(constraints: &Value) -> Constraints {
        let rules = |key: &str| constraints.list(key).iter().map(Rule::read).collect();
        // A selector that cannot be read selects everything: a policy that holds too often is noticed.
        let selector = |key: &str| constraints.at(key).and_then(LabelSelector::of_object);
        Constraints {
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            namespaces: selector("namespaceSelector").filter(|selector| !selector.is_everything()),
            objects: selector("objectSelector").filter(|selector| !selector.is_everything()),
            is_exact: constraints.text("matchPolicy") == "Exact",
        }
    }

    /// The resource by which the write is meant: its own, or, unless an exact match is wanted, another version of it.
    /// None if it is not meant.
    pub fn matched<'r>(&self, attempt: &Attempt<'_>, equivalents: &[&'r Resource]) -> Option<&'r Resource> {
        if !self.selects_namespace(attempt) || !self.selects_object(attempt) {
            return None;
        }
        let considered = if self.is_exact { &equivalents[..equivalents.len().min(1)] } else { equivalents };
        let meant = |rules: &[Rule]| {
            considered.iter().copied().find(|resource| rules.iter().any(|rule| rule.matches(attempt, resource)))
        };
        if meant(&self.excluded).is_some() {
            return None;
        }
        if self.rules.is_empty() { equivalents.first().copied() } else { meant(&self.rules) }
    }

    fn selects_namespace(&self, attempt: &Attempt<'_>) -> bool {
        let Some(selector) = &self.namespaces else { return true };
        match attempt.labelled_namespace() {
            Some(namespace) => has_labels(selector, namespace),
            // What lives in no namespace is not kept out by a selector of namespaces.
            None => true,
        }
    }

    fn selects_object(&self, attempt: &Attempt<'_>) -> bool {
        let Some(selector) = &self.objects else { return true };
        [attempt.object, attempt.old].into_iter().flatten().any(|object| has_labels(selector, object))
    }
}

fn has_labels(selector: &LabelSelector, object: &Object) -> bool {
    let labels = object.metadata().map("labels");
    selector.matches(|key| labels.and_then(|labels| labels.get(key)?.as_str()))
}

impl Rule {
    fn read(rule: &Value) -> Rule {
        let list = |key: &str| -> Vec<String> {
            rule.list(key).iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let resources = list("resources").into_iter().map(|resource| match resource.split_once('/') {
            Some((resource, below)) => (resource.to_owned(), below.to_owned()),
            None => (resource, String::new()),
        });
        Rule {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: resources.collect(),
            scope: rule.text("scope").to_owned(),
            names: list("resourceNames"),
        }
    }

    fn matches(&self, attempt: &Attempt<'_>, resource: &Resource) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|word| word == "*" || word == wanted);
        let is = |pattern: &str, found: &str| pattern == "*" || pattern == found;
        let is_in_scope = match self.scope.as_str() {
            "Namespaced" => resource.is_namespaced,
            "Cluster" => !resource.is_namespaced,
            _ => true,
        };
        is_in_scope
            && has(&self.operations, attempt.operation.word())
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.resources.iter().any(|(name, below)| is(name, &resource.plural) && is(below, attempt.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == attempt.name))
    }
}
