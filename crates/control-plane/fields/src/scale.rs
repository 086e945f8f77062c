//! Scale ownership: maps owners of the replicas field of an object to owners of its `Scale`, and back.
//!
//! A scale has one field of its own. The owners of the replicas field of the object, in any version, own it; a manager
//! that comes to own it through the scale takes that field from all others.

use crate::managers::{Manager, Managers, Operation};
use crate::path::PathElement;
use crate::set::Set;

/// Where the number is, by version of the object: a path of field names, none if the version cannot be scaled.
pub type ReplicasPaths = Vec<(String, Option<Vec<String>>)>;

/// The version of a `Scale`.
const SCALE: &str = "autoscaling/v1";

/// The number in a `Scale`.
fn number() -> [String; 2] {
    ["spec".to_owned(), "replicas".to_owned()]
}

fn path_in<'p>(paths: &'p ReplicasPaths, manager: &Manager) -> Option<Option<&'p [String]>> {
    let (_, path) = paths.iter().find(|(version, _)| *version == manager.api_version)?;
    Some(path.as_deref())
}

fn elements(path: &[String]) -> Vec<PathElement> {
    path.iter().map(|name| PathElement::field(name)).collect()
}

fn only(path: &[String]) -> Set {
    let mut set = Set::default();
    set.insert(elements(path));
    set
}

/// Whether two entries are of one applier. Updaters are distinguished by version, and that of a scale is another one.
fn is_same(one: &Manager, other: &Manager) -> bool {
    one.operation == Operation::Apply && one.is_same(other)
}

impl Managers {
    /// The managers of the scale of an object with these.
    pub fn of_scale(&self, paths: &ReplicasPaths) -> Managers {
        let number = number();
        let owns = |manager: &&Manager| {
            path_in(paths, manager).flatten().is_some_and(|path| manager.fields.has(&elements(path)))
        };
        let entry =
            |manager: &Manager| Manager { api_version: SCALE.to_owned(), fields: only(&number), ..manager.clone() };
        Managers(self.0.iter().filter(owns).map(entry).collect())
    }

    /// The managers of an object with these after its scale, in one version, was written and has those.
    pub fn with_scale(self, scale: Managers, paths: &ReplicasPaths, api_version: &str) -> Managers {
        let number = elements(&number());
        let mut scale: Vec<Manager> = scale.0.into_iter().filter(|manager| manager.fields.has(&number)).collect();
        let mut kept = Vec::new();
        for manager in self.0 {
            // An entry of a version that no longer exists is dropped.
            let Some(path) = path_in(paths, &manager) else { continue };
            let Some(path) = path.filter(|path| manager.fields.has(&elements(path))) else {
                kept.push(manager);
                continue;
            };
            match scale.iter().position(|own| is_same(own, &manager)) {
                Some(at) => {
                    let own = scale.remove(at);
                    kept.push(Manager { time: own.time.or(manager.time), ..manager });
                }
                None => {
                    let fields = manager.fields.difference(&only(path));
                    if !fields.is_empty() {
                        kept.push(Manager { fields, ..manager });
                    }
                }
            }
        }
        let own = paths.iter().find(|(version, _)| version == api_version).and_then(|(_, path)| path.as_deref());
        if let Some(path) = own {
            let new = |manager: Manager| Manager { api_version: api_version.to_owned(), fields: only(path), ..manager };
            kept.extend(scale.into_iter().map(new));
        }
        Managers(kept)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn managers(entries: Value) -> Managers {
        Managers::of_object(&json!({"metadata": {"managedFields": entries}})).unwrap()
    }

    fn entry(name: &str, subresource: &str, version: &str, fields: Value) -> Value {
        json!({"manager": name, "operation": "Update", "apiVersion": version, "subresource": subresource,
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn paths() -> ReplicasPaths {
        let path = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        vec![("g/v1".to_owned(), path(&["spec", "replicas"])), ("g/v2".to_owned(), path(&["spec", "n"]))]
    }

    #[test]
    fn owner_of_the_field_in_any_version_owns_the_number() {
        let own = managers(json!([
            entry("a", "", "g/v1", json!({"f:spec": {"f:replicas": {}, "f:x": {}}})),
            entry("b", "scale", "g/v2", json!({"f:spec": {"f:n": {}}})),
            entry("c", "", "g/v2", json!({"f:spec": {"f:replicas": {}}})),
        ]));
        let scale = own.of_scale(&paths());
        let names: Vec<_> = scale.0.iter().map(|manager| manager.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn writing_the_scale_takes_the_field_from_all_other_managers() {
        let own = managers(json!([
            entry("a", "", "g/v1", json!({"f:spec": {"f:replicas": {}, "f:x": {}}})),
            entry("b", "scale", "g/v2", json!({"f:spec": {"f:n": {}}})),
        ]));
        let scale = managers(json!([entry("c", "scale", SCALE, json!({"f:spec": {"f:replicas": {}}}))]));
        let after = own.with_scale(scale, &paths(), "g/v1");
        let left: Vec<_> = after.0.iter().map(|manager| (manager.name.as_str(), manager.fields.encode())).collect();
        assert_eq!(left, [("a", json!({"f:spec": {"f:x": {}}})), ("c", json!({"f:spec": {"f:replicas": {}}})),]);
    }
}
