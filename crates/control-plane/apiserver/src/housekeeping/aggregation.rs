//! Aggregated cluster roles: a role with an aggregation rule has the rules of all roles that its selectors match.

use std::collections::HashSet;

use seaworthy_store::{Change, CommitError, Expect};
use serde_json::Value;
use tracing::warn;

use crate::object::field_access::FieldAccess;
use crate::object::{self, Metadata, Object};
use crate::selector::LabelSelector;
use crate::server::{Server, decode};

/// Where cluster roles are stored.
const CLUSTER_ROLES: &str = "rbac.authorization.k8s.io/clusterroles";

/// An aggregated role may be part of another one. More steps than this mean a cycle.
const MAX_AGGREGATION_STEPS: usize = 8;

/// Updates the rules of all aggregated roles, and the access policy.
pub async fn settle(server: &Server) {
    for _ in 0..MAX_AGGREGATION_STEPS {
        let records = server.store().list(CLUSTER_ROLES, None).records;
        let roles: Vec<Object> = records.iter().map(|record| decode(record)).collect();
        let mut changes = Vec::new();
        for (record, role) in records.iter().zip(&roles) {
            let Some(rules) = aggregated(role, &roles).filter(|rules| role.get("rules") != Some(rules)) else {
                continue;
            };
            let mut next = role.clone();
            next.insert("rules".to_owned(), rules);
            let body = object::encode(&next);
            changes.push(Change::Put { key: record.key.clone(), expected: Expect::Revision(record.revision), body });
        }
        if changes.is_empty() {
            return;
        }
        match server.store().commit(changes).await {
            Ok(committed) => committed.records.iter().for_each(|record| _ = server.refresh_policy_of(&record.key)),
            // A concurrent write changed one of the roles: the next pass computes the rules again.
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => return warn!(%error, "cannot update aggregated cluster roles"),
        }
    }
}

/// The rules that a role should have; none if it is not aggregated.
fn aggregated(role: &Object, roles: &[Object]) -> Option<Value> {
    let rule = role.get("aggregationRule").filter(|rule| !rule.is_null())?;
    let selectors: Vec<LabelSelector> =
        rule.list("clusterRoleSelectors").iter().filter_map(LabelSelector::of_object).collect();
    let is_part = |other: &&Object| {
        let labels = other.metadata().map("labels");
        let label = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
        other.name() != role.name() && selectors.iter().any(|selector| selector.matches(label))
    };
    let mut parts: Vec<&Object> = roles.iter().filter(is_part).collect();
    parts.sort_by_key(|part| part.name());
    // A rule that several parts have is collected once. Rules are compared as they are written, never by what they
    // allow: a short one can have more combinations of verbs, groups and resources than there is memory.
    let mut seen = HashSet::new();
    let rules = parts.iter().flat_map(|part| part.list("rules")).filter(|rule| seen.insert(*rule));
    Some(rules.cloned().collect::<Vec<_>>().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(name: &str, label: &str, verb: &str) -> Object {
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
        json!({"metadata": {"name": name, "labels": {"to": label}}, "rules": rules}).as_object().unwrap().clone()
    }

    #[test]
    fn role_has_the_rules_of_all_that_match_once_and_by_name() {
        let mut all = role("all", "x", "none");
        all.insert("aggregationRule".to_owned(), json!({"clusterRoleSelectors": [{"matchLabels": {"to": "x"}}]}));
        let roles = [
            role("b", "x", "list"),
            role("a", "x", "get"),
            role("c", "x", "get"),
            role("d", "y", "delete"),
            all.clone(),
        ];
        let rules = aggregated(&all, &roles).unwrap();
        let verbs: Vec<&str> = rules.as_array().unwrap().iter().filter_map(|rule| rule["verbs"][0].as_str()).collect();
        assert_eq!(verbs, ["get", "list"]);
        assert_eq!(aggregated(&roles[0], &roles), None);
    }
}
