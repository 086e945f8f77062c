//! Server-side apply: a manager that applies a field owns it, shares it with those that applied the same value, and
//! removes it by no longer applying it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::conflict::{Conflict, Conflicts};
use crate::managers::{Manager, Managers, ManagersError, Operation, managed_fields, remove_managed_fields};
use crate::merge::merge;
use crate::object_type::ObjectType;
use crate::path::same;
use crate::remove::remove;
use crate::set::Set;
use crate::typed::{Duplicates, TypeErrors, check, field_set, with_named_fields};
use crate::update::check_depth;
use crate::writer::{UNOWNED, Writer};

/// Why a configuration is not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Others own what it would change.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// It says who owns what, which is not its business.
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    /// It does not fit the schema.
    #[error("failed to create typed patch object ({0}): {1}")]
    Config(String, TypeErrors),
    /// The live object does not fit the schema.
    #[error("failed to create typed live object ({0}): {1}")]
    Live(String, TypeErrors),
    /// The object does not fit another version in which a manager owns fields of it.
    #[error("failed to convert new object: {0}")]
    Versions(TypeErrors),
    /// The live object's owners cannot be read.
    #[error("failed to decode managed fields: {0}")]
    Managers(#[from] ManagersError),
}

impl Writer<'_> {
    /// Whether a configuration can be applied at all, whatever it is applied to.
    pub fn check_applied(&self, config: &Value) -> Result<(), ApplyError> {
        if managed_fields(config).is_some_and(Value::is_array) {
            return Err(ApplyError::ManagedFields);
        }
        check_depth(config).map_err(|error| ApplyError::Config(shown(config), error))?;
        check(&self.kind, config, Duplicates::Refused).map_err(|error| ApplyError::Config(shown(config), error))
    }

    /// The object that results from applying a configuration, with its owners.
    ///
    /// - `live` is the object as it is; none if it is to be created.
    /// - `force` takes over what others own instead of failing.
    /// - `time` is now, in RFC 3339. It is stored only if the object changes.
    ///
    /// That the configuration names the right kind, version and object is the caller's to check.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        manager: &str,
        force: bool,
        time: &str,
    ) -> Result<Value, ApplyError> {
        if managed_fields(config).is_some_and(Value::is_array) {
            return Err(ApplyError::ManagedFields);
        }
        let empty = Value::Object(Map::new());
        let live = live.unwrap_or(&empty);
        let mut managers = Managers::of_object(live)?;
        check_depth(config).map_err(|error| ApplyError::Config(shown(config), error))?;
        check_depth(live).map_err(|error| ApplyError::Live(shown(live), error))?;
        if managers.0.is_empty() {
            // The writers of the present fields are not known.
            managers = self
                .track_update(&empty, live, managers, "before-first-apply", time)
                .map_err(|error| ApplyError::Live(shown(live), error))?;
        }
        if manager != "kubectl" {
            return self.apply_tracked(live, config, managers, manager, force, time);
        }
        // The manager may have used client-side apply before, which left a record of it in an
        // annotation: what was written that way is its own.
        let applied = self.apply_tracked(live, config, managers.clone(), manager, force, time);
        let mut object = match applied {
            Err(ApplyError::Conflicts(conflicts)) => match self.last_applied(live) {
                Some(own) => {
                    let others: Vec<Conflict> =
                        conflicts.0.into_iter().filter(|conflict| !own.has(&conflict.path)).collect();
                    if !others.is_empty() {
                        return Err(Conflicts(others).into());
                    }
                    self.apply_tracked(live, config, managers, manager, true, time)?
                }
                None => return Err(conflicts.into()),
            },
            applied => applied?,
        };
        record_last_applied(&mut object, config);
        Ok(object)
    }

    fn apply_tracked(
        &self,
        live: &Value,
        config: &Value,
        mut managers: Managers,
        name: &str,
        force: bool,
        time: &str,
    ) -> Result<Value, ApplyError> {
        check(&self.kind, config, Duplicates::Refused).map_err(|error| ApplyError::Config(shown(config), error))?;
        check(&self.kind, live, Duplicates::Allowed).map_err(|error| ApplyError::Live(shown(live), error))?;
        self.check_versions(&managers, None, &[]).map_err(ApplyError::Versions)?;
        self.reconcile(&mut managers);
        let mut applier = self.manager(name, Operation::Apply);
        let last = managers.remove(&applier);
        applier.time = last.as_ref().and_then(|last| last.time.clone());
        applier.fields = field_set(&self.kind, config);
        if let Some(ignored) = self.ignored {
            applier.fields = applier.fields.recursive_difference(ignored);
        }
        let mut new = merge(&self.kind, live, config);
        self.check_versions(&managers, last.as_ref(), &[live, &new]).map_err(ApplyError::Versions)?;
        // Nearly always nothing is given up, and then nothing can be taken away. Only what is applied empty may, oddly,
        // lose fields without an owner in it.
        let gives_up = |last: &Manager| {
            last.api_version != self.api_version || !last.fields.is_subset(&applier.fields) || has_empty_parts(config)
        };
        if let Some(last) = last.filter(gives_up) {
            new = self.prune(new, &managers, &applier, &last);
        }
        self.take(live, &new, &mut managers, Some(&applier), force)?;
        let fields = std::mem::take(&mut applier.fields).difference(&UNOWNED);
        if !fields.is_empty() {
            if !is_same_but_for_managers(live, &new) {
                applier.time = Some(time.to_owned());
            }
            managers.0.push(Manager { fields, ..applier });
        }
        remove_managed_fields(&mut new);
        managers.write_into(&mut new);
        Ok(new)
    }

    /// Takes away what the manager applied last time and not now, unless another manager owns it.
    fn prune(&self, merged: Value, managers: &Managers, applier: &Manager, last: &Manager) -> Value {
        if last.fields.is_empty() {
            return merged;
        }
        let Some((base, kind)) = self.at(&merged, &last.api_version) else { return merged };
        let last_fields = with_named_fields(&last.fields, &kind);
        let pruned = remove(&kind, base.clone().into_owned(), &last_fields);
        let pruned = self.add_back_owned(&base, pruned, managers, applier, &last.api_version);
        let Some((pruned, _)) = self.at(&pruned, &last.api_version) else { return self.back(base.into_owned()) };
        // Fields without an owner below something that was removed stay: only what the manager itself had is
        // its to take.
        let gone = named_fields(&kind, &base).difference(&named_fields(&kind, &pruned)).intersection(&last_fields);
        self.back(remove(&kind, base.into_owned(), &gone))
    }

    /// The merged object without what the pruned one lacks and no manager owns.
    fn add_back_owned(
        &self,
        merged: &Value,
        mut pruned: Value,
        managers: &Managers,
        applier: &Manager,
        first: &str,
    ) -> Value {
        let mut owned: Vec<(&str, Set)> = Vec::new();
        for manager in managers.0.iter().chain([applier]) {
            let at = if self.versions.is_some() { &manager.api_version } else { self.api_version };
            match owned.iter_mut().find(|(version, _)| *version == at) {
                Some((_, fields)) => *fields = std::mem::take(fields).union(manager.fields.clone()),
                None => owned.push((at, manager.fields.clone())),
            }
        }
        // The version that was pruned comes first: others may need what it has to be converted at all.
        owned.sort_by_key(|(version, _)| *version != first);
        let mut merged = Cow::Borrowed(merged);
        for (version, fields) in owned {
            let Some((at_version, kind)) = self.at(&merged, version) else { continue };
            let Some((pruned_at_version, _)) = self.at(&pruned, version) else { continue };
            let kept = named_fields(&kind, &pruned_at_version).union(with_named_fields(&fields, &kind));
            let gone = named_fields(&kind, &at_version).difference(&kept);
            pruned = remove(&kind, at_version.clone().into_owned(), &gone);
            let converted = match at_version {
                Cow::Owned(converted) => Some(converted),
                Cow::Borrowed(_) => None,
            };
            if let Some(converted) = converted {
                merged = Cow::Owned(converted);
            }
        }
        pruned
    }

    /// The object in the version that is applied.
    fn back(&self, object: Value) -> Value {
        match self.at(&object, self.api_version) {
            Some((Cow::Owned(converted), _)) => converted,
            _ => object,
        }
    }

    /// The fields that a client-side apply wrote last and that still have the values that it wrote.
    fn last_applied(&self, live: &Value) -> Option<Set> {
        let text = live.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
        let applied: Value = serde_json::from_str(text).ok()?;
        if applied.get("apiVersion").and_then(Value::as_str) != Some(self.api_version) {
            return None;
        }
        check(&self.kind, live, Duplicates::Refused).ok()?;
        check(&self.kind, &applied, Duplicates::Refused).ok()?;
        let comparison = crate::compare::Comparison::of(&self.kind, &applied, live);
        let fields = field_set(&self.kind, &applied).difference(&comparison.modified);
        Some(fields.difference(&comparison.added).difference(&comparison.removed))
    }
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How long all annotations of an object may be together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Keeps the annotation of client-side apply, if there is one, true to what was applied, so that both can be mixed.
fn record_last_applied(object: &mut Value, config: &Value) {
    let annotations = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else { return };
    if annotations.get(LAST_APPLIED).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    let in_config = config.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(in_config) = in_config.and_then(Value::as_object_mut) {
        in_config.remove(LAST_APPLIED);
    }
    // Markup is escaped, as everywhere in what the real server writes.
    let text = config.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    annotations.insert(LAST_APPLIED.to_owned(), Value::String(text + "\n"));
    let length: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if length > MAX_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    }
}

fn named_fields(kind: &ObjectType<'_>, object: &Value) -> Set {
    with_named_fields(&field_set(kind, object), kind)
}

fn has_empty_parts(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty() || fields.values().any(has_empty_parts),
        Value::Array(items) => items.iter().any(has_empty_parts),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whether two objects are the same, whatever the first one's owners; the second has none yet.
fn is_same_but_for_managers(live: &Value, new: &Value) -> bool {
    let (Value::Object(live), Value::Object(new)) = (live, new) else { return same(live, new) };
    let is_same_field = |key: &str, live: &Value, new: &Value| match (key, live, new) {
        ("metadata", Value::Object(live), Value::Object(new)) => {
            let counted = |fields: &Map<String, Value>| fields.keys().filter(|key| *key != "managedFields").count();
            counted(live) == counted(new)
                && live
                    .iter()
                    .filter(|(key, _)| *key != "managedFields")
                    .all(|(key, live)| new.get(key).is_some_and(|new| same(live, new)))
        }
        _ => same(live, new),
    };
    live.len() == new.len()
        && live.iter().all(|(key, live)| new.get(key).is_some_and(|new| is_same_field(key, live, new)))
}

/// An object as messages name it: `namespace/name; group/version, Kind=kind`.
fn shown(object: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = |key: &str| text(object.get("metadata").and_then(|metadata| metadata.get(key)));
    let version = text(object.get("apiVersion"));
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{}/{}; {slash}{version}, Kind={}", metadata("namespace"), metadata("name"), text(object.get("kind")))
}
