//! CustomResourceDefinition controller: accepts the names of definitions that do not conflict and serves them, and
//! deletes the objects of terminating definitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use seaworthy_store::{Change, CommitError, Expect, Record};
use serde_json::{Value, json};
use tracing::warn;

use crate::builtin::custom_resource_definition::{FINALIZER, set_terminating};
use crate::builtin::{self, KINDS};
use crate::clock;
use crate::object::field_access::FieldAccess;
use crate::object::{self, Metadata, Object};
use crate::resource::custom;
use crate::server::{Server, decode};
use crate::write::deletion;
use crate::write::track_status_write;

use super::DEFINITIONS;

/// Objects that are deleted in one commit.
const BATCH_SIZE: usize = 256;

/// How often the deletion of objects is retried after conflicts.
const MAX_DELETE_ATTEMPTS: usize = 64;

/// The result of checking the names of a definition for conflicts.
#[derive(Debug, Clone, PartialEq)]
pub struct NameCheck {
    /// The accepted names.
    pub accepted: Value,
    /// Reason and message of the condition `NamesAccepted`.
    pub conflict: Option<(&'static str, String)>,
}

/// Checks the names of a definition against those of the built-in kinds and the accepted names of other definitions in
/// its group.
///
/// Differs: the real server compares with other definitions only, because there a built-in kind has a storage of its
/// own and its paths are served before those of definitions. Here a definition's storage is named like that of the
/// built-in kind, so the names of built-in kinds are taken.
pub fn check_names<'o>(definition: &Object, others: impl IntoIterator<Item = &'o Object>) -> NameCheck {
    let wanted = definition.get("spec").and_then(|spec| spec.get("names")).cloned().unwrap_or_default();
    let mut accepted = definition
        .get("status")
        .and_then(|status| status.get("acceptedNames"))
        .cloned()
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}));
    let text = |names: &Value, key: &str| names.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let texts = |names: &Value, key: &str| -> Vec<String> {
        let list = names.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    let group = definition.text("spec.group");
    for built_in in KINDS.iter().filter(|kind| kind.group == group) {
        resources.extend([built_in.plural, built_in.singular].map(str::to_owned));
        resources.extend(built_in.short_names.iter().map(|name| (*name).to_owned()));
        kinds.extend([built_in.kind.to_owned(), built_in.list_kind()]);
    }
    for other in others {
        let names = other.get("status").and_then(|status| status.get("acceptedNames")).unwrap_or(&Value::Null);
        resources.extend([text(names, "plural"), text(names, "singular")]);
        resources.extend(texts(names, "shortNames"));
        kinds.extend([text(names, "kind"), text(names, "listKind")]);
    }
    let mut conflict = None;
    let mut take = |key: &'static str, reason: &'static str, taken: &BTreeSet<String>| {
        let name = text(&wanted, key);
        if !name.is_empty() && taken.contains(&name) {
            conflict = Some((reason, format!("{name:?} is already in use")));
        } else if !name.is_empty() {
            accepted[key] = name.into();
        }
    };
    take("plural", "PluralConflict", &resources);
    take("singular", "SingularConflict", &resources);
    let short = texts(&wanted, "shortNames");
    let taken: Vec<&String> = short.iter().filter(|name| resources.contains(*name)).collect();
    match taken.first() {
        Some(name) => {
            conflict = Some(("ShortNamesConflict", format!("{name:?} is already in use")));
        }
        None if short.is_empty() => {
            if let Some(names) = accepted.as_object_mut() {
                names.remove("shortNames");
            }
        }
        None => accepted["shortNames"] = short.into(),
    }
    let mut take = |key: &'static str, reason: &'static str| {
        let name = text(&wanted, key);
        if !name.is_empty() && kinds.contains(&name) {
            conflict = Some((reason, format!("{name:?} is already in use")));
        } else if !name.is_empty() {
            accepted[key] = name.into();
        }
    };
    take("kind", "KindConflict");
    take("listKind", "ListKindConflict");
    if let Some(names) = accepted.as_object_mut() {
        for key in ["kind", "plural"] {
            names.entry(key).or_insert_with(|| "".into());
        }
    }
    let categories = texts(&wanted, "categories");
    match categories.is_empty() {
        false => accepted["categories"] = categories.into(),
        true => {
            if let Some(names) = accepted.as_object_mut() {
                names.remove("categories");
            }
        }
    }
    NameCheck { accepted, conflict }
}

/// The definition with its status updated from the name check.
fn with_status<'o>(definition: &Object, others: impl IntoIterator<Item = &'o Object>, now: &str) -> Object {
    let check = check_names(definition, others);
    let mut next = definition.clone();
    let old = definition.get("status").cloned().unwrap_or_else(|| json!({}));
    let mut status = old.clone();
    status["acceptedNames"] = check.accepted;
    let was_established = condition(&old, "Established").is_some_and(|(status, _)| status == "True");
    let (names, established) = match check.conflict {
        None => (
            ("True", "NoConflicts", "no conflicts found".to_owned()),
            ("True", "InitialNamesAccepted", "the initial names have been accepted".to_owned()),
        ),
        Some((reason, message)) => {
            (("False", reason, message), ("False", "NotAccepted", "not all names are accepted".to_owned()))
        }
    };
    set_condition(&mut status, "NamesAccepted", names, now);
    // An established definition stays established, even if another one takes its names later. One in the place of a
    // built-in kind is not served, whatever its status was so far.
    let is_served = !builtin::is_built_in(definition.text("spec.group"), definition.text("spec.names.plural"));
    if !was_established || !is_served {
        set_condition(&mut status, "Established", established, now);
    }
    let stored = stored_version(definition);
    let mut versions: Vec<Value> = old.get("storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    if !versions.iter().any(|version| version.as_str() == Some(&stored)) {
        versions.push(stored.into());
    }
    status["storedVersions"] = versions.into();
    next.insert("status".to_owned(), status);
    next
}

fn stored_version(definition: &Object) -> String {
    let versions = definition.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    let stored = versions.into_iter().flatten().find(|version| version.get("storage") == Some(&Value::Bool(true)));
    stored.and_then(|version| version.get("name")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn condition<'s>(status: &'s Value, kind: &str) -> Option<(&'s str, &'s str)> {
    let conditions = status.get("conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))?;
    let text = |key: &str| found.get(key).and_then(Value::as_str).unwrap_or_default();
    Some((text("status"), text("reason")))
}

fn set_condition(status: &mut Value, kind: &str, value: (&str, &str, String), now: &str) {
    let (state, reason, message) = value;
    if condition(status, kind) == Some((state, reason)) {
        return;
    }
    let is_turned = condition(status, kind).is_none_or(|(old, _)| old != state);
    let mut conditions = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let position = conditions.iter().position(|entry| entry.get("type").and_then(Value::as_str) == Some(kind));
    let time = match position {
        Some(at) if !is_turned => conditions[at]["lastTransitionTime"].clone(),
        _ => now.into(),
    };
    let entry = json!({
        "type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": time,
    });
    match position {
        Some(at) => conditions[at] = entry,
        None => conditions.push(entry),
    }
    status["conditions"] = conditions.into();
}

/// Updates the status of every definition. One that is deleted frees its names for others.
pub async fn settle(server: &Server) {
    // Serialised: of two definitions with one name, the second must see that the first has it.
    let _turn = server.definitions_lock().lock().await;
    while settle_once(server).await {}
}

/// Returns whether a definition was deleted.
async fn settle_once(server: &Server) -> bool {
    let mut has_one_gone = false;
    let records = server.store().list(DEFINITIONS, None).records;
    let mut objects: Vec<Object> = records.iter().map(|record| decode(record)).collect();
    for (at, record) in records.iter().enumerate() {
        let definition = &objects[at];
        let result = if definition.is_deleting() {
            clear(server, record, definition).await.map(|is_gone| has_one_gone |= is_gone)
        } else {
            let group = |object: &Object| object.text("spec.group").to_owned();
            let own = group(definition);
            let others = objects.iter().enumerate().filter(|(other, object)| *other != at && group(object) == own);
            let others = others.map(|(_, object)| object);
            let next = with_status(definition, others, &clock::rfc3339(server.clock().now()));
            match next == *definition {
                true => Ok(()),
                false => {
                    let result = put(server, record, &next).await.map(|_| ());
                    objects[at] = next;
                    result
                }
            }
        };
        // After a conflict, the write that caused it runs `settle` again.
        if let Err(error) = result {
            warn!(definition = %record.key.name, %error, "cannot update a CustomResourceDefinition");
        }
    }
    has_one_gone
}

async fn put(server: &Server, record: &Arc<Record>, next: &Object) -> Result<Arc<Record>, CommitError> {
    let time = clock::rfc3339(server.clock().now());
    let registry = server.registry();
    let next = match registry.of_storage(DEFINITIONS) {
        Some(resource) => {
            let mut live = decode(record);
            // The real server writes the list from the start, empty.
            if let Some(status) = live.get_mut("status").and_then(Value::as_object_mut) {
                status.entry("conditions").or_insert_with(|| json!([]));
            }
            track_status_write(resource, &live, next.clone(), &time)
        }
        None => next.clone(),
    };
    let body = object::encode(&next);
    let change = Change::Put { key: record.key.clone(), expected: Expect::Revision(record.revision), body };
    // One change has one record.
    server.store().commit(vec![change]).await.map(|committed| committed.records[0].clone())
}

/// Deletes the objects of a terminating definition, and removes its finalizer once none is left. Returns whether the
/// definition was deleted.
async fn clear(server: &Server, record: &Arc<Record>, definition: &Object) -> Result<bool, CommitError> {
    if definition.finalizers().all(|name| name != FINALIZER) {
        return Ok(false);
    }
    let (mut record, mut definition) = (record.clone(), definition.clone());
    let mut next = definition.clone();
    let now = clock::rfc3339(server.clock().now());
    set_terminating(&mut next, "InstanceDeletionInProgress", "CustomResource deletion is in progress", &now);
    if next != definition {
        record = put(server, &record, &next).await?;
        definition = decode(&record);
        // Before its objects are listed: from now on, creations are refused or undone.
        server.refresh_registry();
    }
    let storage = format!("{}/{}", definition.text("spec.group"), definition.text("spec.names.plural"));
    if !delete_all(server, &storage, &definition).await? {
        return Ok(false);
    }
    let mut last = definition.clone();
    let left: Vec<Value> = definition.finalizers().filter(|name| *name != FINALIZER).map(Value::from).collect();
    let is_free = left.is_empty();
    last.set_meta("finalizers", left);
    if !is_free {
        return put(server, &record, &last).await.map(|_| false);
    }
    let body = object::encode(&last);
    let change = Change::Delete { key: record.key.clone(), expected: Expect::Revision(record.revision), body };
    server.store().commit(vec![change]).await.map(|_| true)
}

/// Deletes all objects of a definition. Those with finalizers are only marked. Returns whether none is left.
async fn delete_all(server: &Server, storage: &str, definition: &Object) -> Result<bool, CommitError> {
    let registry = server.registry();
    // The objects there are not those of the definition, which was never served: all ClusterRoles would be deleted with
    // a definition that names itself like them.
    if registry.is_built_in_storage(storage) {
        return Ok(true);
    }
    let served = registry.versions_in_storage(storage).iter().find(|resource| resource.is_stored_version()).cloned();
    // A version that is no longer served may still have objects.
    let Some(resource) = served.or_else(|| custom::stored_resource(definition)) else {
        return Ok(server.store().count(storage) == 0);
    };
    for attempt in 1.. {
        let mut is_disturbed = false;
        for records in server.store().list(storage, None).records.chunks(BATCH_SIZE) {
            let changes: Vec<Change> =
                records.iter().filter_map(|record| deletion(server, &resource, record)).collect();
            if changes.is_empty() {
                continue;
            }
            match server.store().commit(changes).await {
                Ok(_) => {}
                // A concurrent write changed some of them: try again.
                Err(CommitError::Conflict { .. }) if attempt < MAX_DELETE_ATTEMPTS => is_disturbed = true,
                Err(error) => return Err(error),
            }
        }
        if !is_disturbed {
            break;
        }
    }
    Ok(server.store().count(storage) == 0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn definition(plural: &str, kind: &str, short: &[&str]) -> Object {
        let names = json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
            "listKind": format!("{kind}List"), "shortNames": short});
        let versions = json!([{"name": "v1", "storage": true}]);
        json!({"spec": {"group": "g", "names": names, "versions": versions}}).as_object().unwrap().clone()
    }

    fn accepted(definition: &Object) -> Object {
        with_status(definition, [], "2026-01-01T00:00:00Z")
    }

    #[test]
    fn free_names_are_accepted() {
        let next = accepted(&definition("widgets", "Widget", &["wd"]));
        assert_eq!(next["status"]["acceptedNames"]["shortNames"], json!(["wd"]));
        assert_eq!(condition(&next["status"], "Established"), Some(("True", "InitialNamesAccepted")));
        assert_eq!(next["status"]["storedVersions"], json!(["v1"]));
    }

    #[test]
    fn kind_that_is_taken_keeps_a_definition_from_being_served() {
        let others = [accepted(&definition("widgets", "Widget", &[]))];
        let mut second = definition("gizmos", "Widget", &[]);
        second["spec"]["names"]["singular"] = "gizmo".into();
        let next = with_status(&second, &others, "2026-01-01T00:00:00Z");
        assert_eq!(condition(&next["status"], "NamesAccepted"), Some(("False", "ListKindConflict")));
        assert_eq!(condition(&next["status"], "Established"), Some(("False", "NotAccepted")));
    }

    #[test]
    fn short_name_that_is_taken_is_not_among_the_accepted_ones() {
        let others = [accepted(&definition("widgets", "Widget", &["wd"]))];
        let check = check_names(&definition("gadgets", "Gadget", &["wd"]), &others);
        assert_eq!(check.conflict.map(|(reason, _)| reason), Some("ShortNamesConflict"));
        assert_eq!(check.accepted.get("shortNames"), None);
    }

    /// A definition in the group of the built-in roles.
    fn sneak(names: Value) -> Object {
        let mut all = json!({"plural": "sneaks", "singular": "sneak", "kind": "Sneak", "listKind": "SneakList"});
        all.as_object_mut().unwrap().extend(names.as_object().unwrap().clone());
        let mut sneak = definition("sneaks", "Sneak", &[]);
        sneak["spec"]["group"] = "rbac.authorization.k8s.io".into();
        sneak["spec"]["names"] = all;
        sneak
    }

    #[rstest]
    #[case(json!({"plural": "clusterroles"}), "PluralConflict", "\"clusterroles\" is already in use")]
    #[case(json!({"singular": "clusterrole"}), "SingularConflict", "\"clusterrole\" is already in use")]
    #[case(json!({"singular": "clusterroles"}), "SingularConflict", "\"clusterroles\" is already in use")]
    #[case(json!({"shortNames": ["x", "roles"]}), "ShortNamesConflict", "\"roles\" is already in use")]
    #[case(json!({"kind": "RoleBinding"}), "KindConflict", "\"RoleBinding\" is already in use")]
    #[case(json!({"listKind": "RoleList"}), "ListKindConflict", "\"RoleList\" is already in use")]
    fn names_of_built_in_kinds_of_the_group_are_taken(
        #[case] names: Value,
        #[case] reason: &'static str,
        #[case] message: &str,
    ) {
        let next = accepted(&sneak(names));
        assert_eq!(condition(&next["status"], "NamesAccepted"), Some(("False", reason)));
        assert_eq!(condition(&next["status"], "Established"), Some(("False", "NotAccepted")));
        assert_eq!(next["status"]["conditions"][0]["message"], message);
    }

    #[test]
    fn short_name_of_a_built_in_kind_is_taken() {
        let mut sneak = sneak(json!({"shortNames": ["crd"]}));
        sneak["spec"]["group"] = "apiextensions.k8s.io".into();
        assert_eq!(check_names(&sneak, []).conflict.map(|(reason, _)| reason), Some("ShortNamesConflict"));
    }

    #[test]
    fn other_names_are_free_in_the_group_of_built_in_kinds() {
        assert_eq!(check_names(&sneak(json!({})), []).conflict, None);
    }

    #[test]
    fn names_of_built_in_kinds_of_other_groups_are_free() {
        assert_eq!(check_names(&definition("clusterroles", "ClusterRole", &["crd"]), []).conflict, None);
    }

    #[test]
    fn definition_in_the_place_of_a_built_in_kind_does_not_stay_established() {
        let mut sneak = sneak(json!({"plural": "clusterroles"}));
        let established = json!({"type": "Established", "status": "True", "reason": "InitialNamesAccepted"});
        sneak.insert("status".to_owned(), json!({"conditions": [established]}));
        assert_eq!(condition(&accepted(&sneak)["status"], "Established"), Some(("False", "NotAccepted")));
    }

    #[test]
    fn settled_definition_stays_as_it_is() {
        let once = accepted(&definition("widgets", "Widget", &[]));
        assert_eq!(with_status(&once, [], "2030-01-01T00:00:00Z"), once);
    }
}
