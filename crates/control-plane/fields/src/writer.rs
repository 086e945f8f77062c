//! Writers: the context of a write that tracks owners, and what updates and applies have in common.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::compare::Comparison;
use crate::conflict::Conflicts;
use crate::managers::{Manager, Managers, Operation};
use crate::object_type::ObjectType;
use crate::reconcile::reconcile;
use crate::set::Set;
use crate::typed::{Duplicates, TypeError, TypeErrors, check};

/// Fields without an owner: they identify the object, or the server alone writes them.
pub(crate) static UNOWNED: LazyLock<Set> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let mut set = Set::of_fields([["apiVersion"].as_slice(), ["kind"].as_slice(), ["metadata"].as_slice()]);
    for name in metadata {
        set = set.union(Set::of_fields([["metadata", name].as_slice()]));
    }
    set
});

/// Other versions of a kind, for managers that wrote in one of them.
pub trait Versions {
    /// A version's type, and the fields that its writers cannot set; none if there is no such version any more, and
    /// with it no owner.
    fn kind(&self, api_version: &str) -> Option<(ObjectType<'_>, Option<&Set>)>;

    /// Why nothing can be tracked while a manager owns fields in this version. Where there is no reason, owners in
    /// versions that are gone are forgotten.
    fn refusal(&self, _api_version: &str) -> Option<String> {
        None
    }

    /// The object in a version; none if it cannot be had.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;
}

/// A way to write objects of a kind: a resource or subresource in one version.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The type of the objects.
    pub kind: ObjectType<'a>,
    /// Their version, such as `apps/v1`.
    pub api_version: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that writes through here cannot set, such as `.status`: they get no owner.
    pub ignored: Option<&'a Set>,
    /// Other versions. Without them, what was owned in another version is taken to be the same in this one.
    pub versions: Option<&'a dyn Versions>,
}

impl<'a> Writer<'a> {
    pub(crate) fn manager(&self, name: &str, operation: Operation) -> Manager {
        let name = if name.is_empty() { "unknown" } else { name };
        Manager {
            name: name.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            time: None,
            subresource: self.subresource.to_owned(),
            fields: Set::default(),
        }
    }

    fn kind_at(&self, api_version: &str) -> Option<(ObjectType<'a>, Option<&'a Set>)> {
        match self.versions {
            Some(versions) if api_version != self.api_version => versions.kind(api_version),
            _ => Some((self.kind, self.ignored)),
        }
    }

    /// An object in a version, and its type there.
    ///
    /// Differs: elements with the same key do not stop a conversion, because they do not stop anything else; the real
    /// server then loses track of all owners.
    pub(crate) fn at<'o>(&self, object: &'o Value, api_version: &str) -> Option<(Cow<'o, Value>, ObjectType<'a>)> {
        let (kind, _) = self.kind_at(api_version)?;
        let is_there = object.get("apiVersion").and_then(Value::as_str).is_none_or(|version| version == api_version);
        match self.versions {
            Some(versions) if !is_there => Some((Cow::Owned(versions.convert(object, api_version)?), kind)),
            _ => Some((Cow::Borrowed(object), kind)),
        }
    }

    /// Brings what managers own in line with the schemas of today, and drops managers of versions that are gone.
    pub(crate) fn reconcile(&self, managers: &mut Managers) {
        managers.0.retain_mut(|manager| {
            let Some((kind, _)) = self.kind_at(&manager.api_version) else { return false };
            if let Some(fields) = reconcile(&manager.fields, &kind) {
                manager.fields = fields;
            }
            true
        });
    }

    /// Whether objects can be walked in every version in which a manager owns fields of them: a version may lack fields
    /// that another one has.
    pub(crate) fn check_versions(
        &self,
        managers: &Managers,
        last: Option<&Manager>,
        objects: &[&Value],
    ) -> Result<(), TypeErrors> {
        let mut checked = vec![self.api_version];
        for manager in managers.0.iter().chain(last) {
            if self.versions.is_none() || checked.contains(&manager.api_version.as_str()) {
                continue;
            }
            checked.push(&manager.api_version);
            if let Some(message) = self.versions.and_then(|versions| versions.refusal(&manager.api_version)) {
                return Err(TypeErrors(vec![TypeError { path: String::new(), message }]));
            }
            for object in objects {
                if let Some((converted, kind)) = self.at(object, &manager.api_version) {
                    check(&kind, &converted, Duplicates::Allowed)?;
                }
            }
        }
        Ok(())
    }

    /// Takes from all managers but one what changes from one object to another. If the changes may not be forced, a
    /// manager that would lose more than what is removed is a conflict.
    pub(crate) fn take(
        &self,
        old: &Value,
        new: &Value,
        managers: &mut Managers,
        except: Option<&Manager>,
        force: bool,
    ) -> Result<Comparison, Conflicts> {
        let own = self.compared(&self.kind, self.ignored, old, new);
        let mut versions = HashMap::new();
        versions.insert(self.api_version.to_owned(), Some(Changed::from(own.clone())));
        for manager in &managers.0 {
            if self.versions.is_some() && !versions.contains_key(&manager.api_version) {
                let changed = self.compared_at(&manager.api_version, old, new).map(Changed::from);
                versions.insert(manager.api_version.clone(), changed);
            }
        }
        let changed_for = |manager: &Manager| -> Option<&Changed> {
            let version = if self.versions.is_some() { &manager.api_version } else { self.api_version };
            versions.get(version)?.as_ref()
        };
        let is_excepted = |manager: &Manager| except.is_some_and(|except| except.is_same(manager));
        if !force {
            let mut conflicts = Vec::new();
            for manager in managers.0.iter().filter(|manager| !is_excepted(manager)) {
                let Some(changed) = changed_for(manager) else { continue };
                let fields = manager.fields.intersection(&changed.written);
                if !fields.is_empty() {
                    conflicts.push(Manager { fields, time: None, ..manager.clone() });
                }
            }
            if let Some(conflicts) = Conflicts::with(conflicts) {
                return Err(conflicts);
            }
        }
        managers.0.retain_mut(|manager| {
            if !is_excepted(manager) {
                let Some(changed) = changed_for(manager) else { return false };
                let fields = std::mem::take(&mut manager.fields);
                manager.fields = fields.difference(&changed.written).difference(&changed.removed);
            }
            !manager.fields.is_empty()
        });
        Ok(own)
    }

    fn compared(&self, kind: &ObjectType<'_>, ignored: Option<&Set>, old: &Value, new: &Value) -> Comparison {
        let comparison = Comparison::of(kind, old, new);
        match ignored {
            Some(ignored) => comparison.without(ignored),
            None => comparison,
        }
    }

    fn compared_at(&self, api_version: &str, old: &Value, new: &Value) -> Option<Comparison> {
        let (kind, ignored) = self.kind_at(api_version)?;
        let (old, new) = (self.at(old, api_version)?.0, self.at(new, api_version)?.0);
        Some(self.compared(&kind, ignored, &old, &new))
    }
}

/// What a change does to the owners of fields.
struct Changed {
    written: Set,
    removed: Set,
}

impl From<Comparison> for Changed {
    fn from(comparison: Comparison) -> Self {
        Changed { written: comparison.modified.union(comparison.added), removed: comparison.removed }
    }
}
