//! Match constraints: the writes that a policy or a binding applies to.

use serde_json::Value;

use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::resource::Resource;
use crate::selector::LabelSelector;

use super::admission_request::AdmissionRequest;

/// `matchConstraints` of a policy, or `matchResources` of a binding.
#[derive(Debug, Default)]
pub struct Constraints {
    rules: Vec<ResourceRule>,
    excluded: Vec<ResourceRule>,
    namespaces: Option<LabelSelector>,
    objects: Option<LabelSelector>,
    is_exact: bool,
}

#[derive(Debug)]
struct ResourceRule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// With the subresource, empty for the object itself.
    resources: Vec<(String, String)>,
    scope: String,
    names: Vec<String>,
}

impl Constraints {
    /// Reads the constraints of a policy or binding.
    pub fn read(constraints: &Value) -> Constraints {
        let rules = |key: &str| constraints.list(key).iter().map(ResourceRule::read).collect();
        // An invalid selector selects everything: a policy that applies too often is noticed.
        let selector = |key: &str| constraints.at(key).and_then(LabelSelector::of_object);
        Constraints {
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            namespaces: selector("namespaceSelector").filter(|selector| !selector.is_everything()),
            objects: selector("objectSelector").filter(|selector| !selector.is_everything()),
            is_exact: constraints.text("matchPolicy") == "Exact",
        }
    }

    /// The resource that matches the write: its own, or, unless `matchPolicy` is `Exact`, another version of it.
    /// None if the write does not match.
    pub fn matched<'r>(&self, write: &AdmissionRequest<'_>, equivalents: &[&'r Resource]) -> Option<&'r Resource> {
        if !self.selects_namespace(write) || !self.selects_object(write) {
            return None;
        }
        let considered = if self.is_exact { &equivalents[..equivalents.len().min(1)] } else { equivalents };
        let meant = |rules: &[ResourceRule]| {
            considered.iter().copied().find(|resource| rules.iter().any(|rule| rule.matches(write, resource)))
        };
        if meant(&self.excluded).is_some() {
            return None;
        }
        if self.rules.is_empty() { equivalents.first().copied() } else { meant(&self.rules) }
    }

    fn selects_namespace(&self, write: &AdmissionRequest<'_>) -> bool {
        let Some(selector) = &self.namespaces else { return true };
        match write.labelled_namespace() {
            Some(namespace) => has_labels(selector, namespace),
            // A namespace selector does not exclude cluster-scoped objects.
            None => true,
        }
    }

    fn selects_object(&self, write: &AdmissionRequest<'_>) -> bool {
        let Some(selector) = &self.objects else { return true };
        [write.object, write.old].into_iter().flatten().any(|object| has_labels(selector, object))
    }
}

fn has_labels(selector: &LabelSelector, object: &Object) -> bool {
    let labels = object.metadata().map("labels");
    selector.matches(|key| labels.and_then(|labels| labels.get(key)?.as_str()))
}

impl ResourceRule {
    fn read(rule: &Value) -> ResourceRule {
        let list = |key: &str| -> Vec<String> {
            rule.list(key).iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let resources = list("resources").into_iter().map(|resource| match resource.split_once('/') {
            Some((resource, below)) => (resource.to_owned(), below.to_owned()),
            None => (resource, String::new()),
        });
        ResourceRule {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: resources.collect(),
            scope: rule.text("scope").to_owned(),
            names: list("resourceNames"),
        }
    }

    fn matches(&self, write: &AdmissionRequest<'_>, resource: &Resource) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|word| word == "*" || word == wanted);
        let is = |pattern: &str, found: &str| pattern == "*" || pattern == found;
        let is_in_scope = match self.scope.as_str() {
            "Namespaced" => resource.is_namespaced,
            "Cluster" => !resource.is_namespaced,
            _ => true,
        };
        is_in_scope
            && has(&self.operations, write.operation.as_str())
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.resources.iter().any(|(name, below)| is(name, &resource.plural) && is(below, write.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == write.name))
    }
}
