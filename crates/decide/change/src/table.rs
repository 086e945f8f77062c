//! Tables: the objects of some kinds in memory, for previews and for commands that read a whole cluster once.
//!
//! - There is one table for each group and kind, of one Rust type and so of one version.
//! - An object is found by namespace and name in constant time, so that N writes take N steps. As many steps as there are objects
//!   take the index, which the first lookup makes, and a removal, which keeps the order of the others.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, OnceLock};

use kube::Resource;
use kube::core::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::object::ObjectRef;
use crate::resource::{ResourceType, Scope};

/// The objects of one kind.
pub trait Table: Any + Debug + Send + Sync {
    /// The kind.
    fn resource(&self) -> &ResourceType;
    /// The object with the namespace and name of this one.
    fn get(&self, object: &ObjectRef) -> Option<Value>;
    /// The metadata of the object with the namespace and name of this one. Unlike `get` it converts nothing.
    fn metadata(&self, object: &ObjectRef) -> Option<&ObjectMeta>;
    /// Whether there is an object with the namespace and name of this one.
    fn contains(&self, object: &ObjectRef) -> bool {
        self.metadata(object).is_some()
    }
    /// Stores an object in the place of the one with its name. Returns whether it differs from that.
    ///
    /// # Errors
    ///
    /// If it is not of this kind.
    fn put(&mut self, object: Value) -> Result<bool, serde_json::Error>;
    /// Sets the resource version of an object.
    fn set_resource_version(&mut self, object: &ObjectRef, resource_version: String);
    /// Adds an object that has no other of its name here, from JSON.
    ///
    /// # Errors
    ///
    /// If it is not of this kind.
    fn push_json(&mut self, text: &str) -> Result<(), serde_json::Error>;
    /// Removes the object with the namespace and name of this one. Returns whether there was one.
    fn remove(&mut self, object: &ObjectRef) -> bool;
    fn boxed_clone(&self) -> Box<dyn Table>;
}

/// The objects of one Rust type, in the order in which they were added: which object a message names must not depend on what was
/// removed before.
#[derive(Clone, Debug)]
pub struct ObjectTable<K> {
    resource: ResourceType,
    objects: Vec<Arc<K>>,
    /// Where each object is, by namespace (empty without one) and name. Made by the first lookup, since most tables are only
    /// read as a whole.
    positions: OnceLock<HashMap<String, HashMap<String, usize>>>,
}

impl<K> ObjectTable<K>
where
    K: Resource<DynamicType = ()>,
    K::Scope: Scope,
{
    fn new() -> ObjectTable<K> {
        ObjectTable { resource: ResourceType::of::<K>(), objects: Vec::new(), positions: OnceLock::new() }
    }

    fn named(&self, name: &str) -> Option<&Arc<K>> {
        self.objects.get(self.position(None, name)?)
    }

    fn insert(&mut self, object: Arc<K>) -> bool
    where
        K: PartialEq,
    {
        let ObjectMeta { namespace, name, .. } = object.meta();
        match self.position(namespace.as_deref(), name.as_deref().unwrap_or_default()) {
            Some(at) if self.objects[at] == object => false,
            Some(at) => {
                self.objects[at] = object;
                true
            }
            None => {
                if let Some(positions) = self.positions.get_mut() {
                    index(positions, &*object, self.objects.len());
                }
                self.objects.push(object);
                true
            }
        }
    }

    fn position(&self, namespace: Option<&str>, name: &str) -> Option<usize> {
        let positions = self.positions.get_or_init(|| {
            let mut positions = HashMap::new();
            self.objects.iter().enumerate().for_each(|(at, object)| index(&mut positions, &**object, at));
            positions
        });
        positions.get(namespace_of::<K>(namespace))?.get(name).copied()
    }
}

/// Adds an object's place to an index.
fn index<K>(positions: &mut HashMap<String, HashMap<String, usize>>, object: &K, at: usize)
where
    K: Resource<DynamicType = ()>,
    K::Scope: Scope,
{
    let ObjectMeta { namespace, name, .. } = object.meta();
    let namespace = namespace_of::<K>(namespace.as_deref());
    if !positions.contains_key(namespace) {
        positions.insert(namespace.to_owned(), HashMap::new());
    }
    if let Some(names) = positions.get_mut(namespace) {
        names.insert(name.clone().unwrap_or_default(), at);
    }
}

/// The namespace that distinguishes objects of this kind. A manifest may name one although its kind has none.
fn namespace_of<K>(namespace: Option<&str>) -> &str
where
    K: Resource<DynamicType = ()>,
    K::Scope: Scope,
{
    namespace.filter(|_| K::Scope::IS_NAMESPACED).unwrap_or_default()
}

impl<K> Table for ObjectTable<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static,
    K::Scope: Scope,
{
    fn resource(&self) -> &ResourceType {
        &self.resource
    }

    fn get(&self, object: &ObjectRef) -> Option<Value> {
        let at = self.position(object.namespace.as_deref(), &object.name)?;
        serde_json::to_value(&*self.objects[at]).ok()
    }

    fn metadata(&self, object: &ObjectRef) -> Option<&ObjectMeta> {
        Some(self.objects[self.position(object.namespace.as_deref(), &object.name)?].meta())
    }

    fn put(&mut self, object: Value) -> Result<bool, serde_json::Error> {
        Ok(self.insert(Arc::new(serde_json::from_value(object)?)))
    }

    fn set_resource_version(&mut self, object: &ObjectRef, resource_version: String) {
        if let Some(at) = self.position(object.namespace.as_deref(), &object.name) {
            Arc::make_mut(&mut self.objects[at]).meta_mut().resource_version = Some(resource_version);
        }
    }

    fn push_json(&mut self, text: &str) -> Result<(), serde_json::Error> {
        self.objects.push(Arc::new(serde_json::from_str(text)?));
        self.positions.take();
        Ok(())
    }

    fn remove(&mut self, object: &ObjectRef) -> bool {
        let Some(at) = self.position(object.namespace.as_deref(), &object.name) else { return false };
        let Some(positions) = self.positions.get_mut() else { return false };
        if let Some(names) = positions.get_mut(namespace_of::<K>(object.namespace.as_deref())) {
            names.remove(&object.name);
        }
        self.objects.remove(at);
        for position in positions.values_mut().flat_map(HashMap::values_mut) {
            *position -= usize::from(*position > at);
        }
        true
    }

    fn boxed_clone(&self) -> Box<dyn Table> {
        Box::new(self.clone())
    }
}

/// Two tables of one group and kind that differ in their version or their Rust type: one would not see what the other one has.
#[derive(Debug, PartialEq, Eq)]
pub struct TableConflict {
    pub first: ResourceType,
    pub second: ResourceType,
}

impl fmt::Display for TableConflict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableConflict { first, second } = self;
        let (kind, first, second) = (&first.kind, first.api_version(), second.api_version());
        write!(
            out,
            "objects of kind {kind} have two types in this program, of {first} and of {second}; use one of them"
        )
    }
}

impl std::error::Error for TableConflict {}

/// The objects of several kinds, one table each.
#[derive(Debug, Default)]
pub struct Tables(Vec<Box<dyn Table>>);

impl Clone for Tables {
    fn clone(&self) -> Tables {
        Tables(self.0.iter().map(|table| table.boxed_clone()).collect())
    }
}

impl Tables {
    /// With a table of this kind: the one that is there, or an empty one.
    #[must_use]
    pub fn with<K>(mut self) -> Tables
    where
        ObjectTable<K>: Table,
        K: Resource<DynamicType = ()> + 'static,
        K::Scope: Scope,
    {
        self.add::<K>();
        self
    }

    /// Adds an empty table of this kind, unless there is one.
    pub fn add<K>(&mut self)
    where
        ObjectTable<K>: Table,
        K: Resource<DynamicType = ()> + 'static,
        K::Scope: Scope,
    {
        self.table_of::<K>();
    }

    /// With these objects beside those that are there; one with the name of another takes its place.
    #[must_use]
    pub fn with_objects<K>(mut self, objects: Vec<Arc<K>>) -> Tables
    where
        ObjectTable<K>: Table,
        K: Resource<DynamicType = ()> + PartialEq + 'static,
        K::Scope: Scope,
    {
        let table = self.table_of::<K>();
        for object in objects {
            table.insert(object);
        }
        self
    }

    /// Adds the tables of kinds that have none here.
    ///
    /// # Errors
    ///
    /// If one is of a kind that has a table of another version or Rust type.
    pub fn extend(&mut self, others: Tables) -> Result<(), TableConflict> {
        for other in others.0 {
            let resource = other.resource();
            let found = self.0.iter().find(|table| is_kind(table.resource(), &resource.group, &resource.kind));
            match found {
                None => self.0.push(other),
                Some(found) if (&**found as &dyn Any).type_id() == (&*other as &dyn Any).type_id() => {}
                Some(found) => {
                    return Err(TableConflict { first: found.resource().clone(), second: resource.clone() });
                }
            }
        }
        Ok(())
    }

    /// Whether a resource type has a table here.
    pub fn has(&self, resource: &ResourceType) -> bool {
        self.0.iter().any(|table| table.resource() == resource)
    }

    /// Whether every kind of these others has a table here.
    pub fn has_all_of(&self, others: &Tables) -> bool {
        others.0.iter().all(|other| self.has(other.resource()))
    }

    /// The objects of a kind; `None` if it has no table.
    pub fn get<K: 'static>(&self) -> Option<&[Arc<K>]> {
        Some(self.find::<K>()?.objects.as_slice())
    }

    /// The objects of a kind; none if it has no table.
    pub fn of<K: 'static>(&self) -> &[Arc<K>] {
        self.get().unwrap_or_default()
    }

    /// The object of a kind of the whole cluster with this name.
    pub fn named<K>(&self, name: &str) -> Option<&Arc<K>>
    where
        K: Resource<DynamicType = ()> + 'static,
        K::Scope: Scope,
    {
        self.find::<K>()?.named(name)
    }

    /// The objects of a kind, whose table is added if it is missing.
    pub fn of_mut<K>(&mut self) -> &mut Vec<Arc<K>>
    where
        ObjectTable<K>: Table,
        K: Resource<DynamicType = ()> + 'static,
        K::Scope: Scope,
    {
        let table = self.table_of::<K>();
        // Objects may be moved and renamed.
        table.positions.take();
        &mut table.objects
    }

    /// Without the objects of a kind, and without its table.
    #[must_use]
    pub fn without<K: 'static>(mut self) -> Tables {
        self.retain(|table| !(table as &dyn Any).is::<ObjectTable<K>>());
        self
    }

    /// Keeps the tables for which this holds.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&dyn Table) -> bool) {
        self.0.retain(|table| is_kept(&**table));
    }

    /// The resource type of a kind that has a table, by the names in a manifest.
    pub fn resource_of_kind(&self, group: &str, kind: &str) -> Option<&ResourceType> {
        self.0.iter().map(|table| table.resource()).find(|resource| is_kind(resource, group, kind))
    }

    /// The table of a resource type.
    pub fn table_mut(&mut self, resource: &ResourceType) -> Option<&mut dyn Table> {
        let found = self.0.iter_mut().find(|table| table.resource() == resource)?;
        Some(&mut **found)
    }

    /// The table of a kind in any version, by the names in a manifest.
    pub fn of_kind_mut(&mut self, group: &str, kind: &str) -> Option<&mut dyn Table> {
        let found = self.0.iter_mut().find(|table| is_kind(table.resource(), group, kind))?;
        Some(&mut **found)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut dyn Table> {
        self.0.iter_mut().map(|table| &mut **table as &mut dyn Table)
    }

    fn find<K: 'static>(&self) -> Option<&ObjectTable<K>> {
        self.0.iter().find_map(|table| (&**table as &dyn Any).downcast_ref())
    }

    /// The table of a kind, which is added if it is missing.
    fn table_of<K>(&mut self) -> &mut ObjectTable<K>
    where
        ObjectTable<K>: Table,
        K: Resource<DynamicType = ()> + 'static,
        K::Scope: Scope,
    {
        let mut tables = self.0.iter().map(|table| &**table as &dyn Any);
        let at = tables.position(|table| table.is::<ObjectTable<K>>()).unwrap_or_else(|| {
            self.0.push(Box::new(ObjectTable::<K>::new()));
            self.0.len() - 1
        });
        let table: &mut dyn Any = &mut *self.0[at];
        // The position was found by this type, or pushed with it.
        table.downcast_mut().unwrap_or_else(|| unreachable!("the table at {at} has another type"))
    }
}

fn is_kind(resource: &ResourceType, group: &str, kind: &str) -> bool {
    resource.group == group && resource.kind == kind
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
    use kube::ResourceExt as _;
    use seaworthy_api::machineconfiguration::MachineConfigPool;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    fn node(name: &str, label: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {"a": label}}})
    }

    fn map(namespace: &str, name: &str) -> ObjectRef {
        let metadata =
            ObjectMeta { namespace: Some(namespace.to_owned()), name: Some(name.to_owned()), ..ObjectMeta::default() };
        ObjectRef::with(ResourceType::of::<ConfigMap>(), &metadata)
    }

    #[test]
    fn tables_are_found_by_type_and_by_kind() {
        let mut tables = Tables::default().with::<Node>();
        assert!(tables.get::<Pod>().is_none() && tables.of::<Pod>().is_empty());
        let table = tables.of_kind_mut("", "Node").unwrap();
        table.put(json!({"metadata": {"name": "w1"}})).unwrap();
        assert_eq!(tables.of::<Node>().len(), 1);
        assert!(tables.of_kind_mut("policy", "Node").is_none());
        let copy = tables.clone().without::<Node>();
        assert!(copy.get::<Node>().is_none() && tables.get::<Node>().is_some());
    }

    #[test]
    fn tables_that_are_there_keep_their_objects() {
        let object = |name: &str| Arc::new(serde_json::from_value::<Node>(node(name, "1")).unwrap());
        let mut tables = Tables::default().with_objects(vec![object("w1")]);
        tables.extend(Tables::default().with::<Node>().with::<Pod>()).unwrap();
        assert_eq!((tables.of::<Node>().len(), tables.get::<Pod>().map(<[_]>::len)), (1, Some(0)));
        let tables = tables.with::<Node>().with_objects(vec![object("w2")]);
        assert_eq!(tables.of::<Node>().iter().map(|node| node.name_any()).collect::<Vec<_>>(), ["w1", "w2"]);
    }

    #[test]
    fn objects_are_found_by_namespace_and_name_after_every_change() {
        let mut tables = Tables::default().with::<ConfigMap>();
        let table = tables.of_kind_mut("", "ConfigMap").unwrap();
        for (namespace, name) in [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")] {
            assert!(table.put(json!({"metadata": {"namespace": namespace, "name": name}})).unwrap());
        }
        assert!(table.remove(&map("a", "x")) && !table.remove(&map("a", "x")));
        let found = |table: &dyn Table| {
            let all = ["a", "b"].into_iter().flat_map(|namespace| ["x", "y"].map(|name| map(namespace, name)));
            all.filter(|object| table.contains(object)).map(|object| object.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found(table), ["ConfigMap a/y", "ConfigMap b/x", "ConfigMap b/y"]);
        assert!(table.remove(&map("b", "y")));
        for object in ["a/y", "b/x"] {
            let (namespace, name) = object.split_once('/').unwrap();
            assert_eq!(table.get(&map(namespace, name)).unwrap()["metadata"]["name"], name);
        }
        tables.of_mut::<ConfigMap>().reverse();
        let table = tables.of_kind_mut("", "ConfigMap").unwrap();
        assert_eq!(table.get(&map("a", "y")).unwrap()["metadata"]["namespace"], "a");
        table.push_json(r#"{"metadata": {"namespace": "c", "name": "x"}}"#).unwrap();
        assert!(table.contains(&map("c", "x")));
    }

    #[test]
    fn removal_keeps_the_order_of_the_others() {
        let mut tables = Tables::default().with::<ConfigMap>();
        let table = tables.of_kind_mut("", "ConfigMap").unwrap();
        for name in ["a", "b", "c", "d"] {
            table.put(json!({"metadata": {"namespace": "x", "name": name}})).unwrap();
        }
        assert!(table.remove(&map("x", "b")));
        assert_eq!(table.get(&map("x", "d")).unwrap()["metadata"]["name"], "d");
        assert!(table.remove(&map("x", "a")));
        table.put(json!({"metadata": {"namespace": "x", "name": "b"}})).unwrap();
        let names: Vec<String> = tables.of::<ConfigMap>().iter().map(|object| object.name_any()).collect();
        assert_eq!(names, ["c", "d", "b"]);
    }

    #[test]
    fn object_that_is_put_as_it_is_changes_nothing() {
        let mut tables = Tables::default().with::<Node>();
        let table = tables.of_kind_mut("", "Node").unwrap();
        assert!(table.put(node("w1", "1")).unwrap());
        let mut unknown = node("w1", "1");
        unknown["spec"] = json!({"unknown": 1});
        assert!(table.put(node("w1", "2")).unwrap() && table.put(unknown).unwrap());
        let mut unknown = node("w1", "1");
        unknown["spec"] = json!({"unknown": 2});
        assert!(!table.put(unknown).unwrap(), "the type does not have that field");
    }

    /// Pools as another operator may define them: the same kind, another version.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct NextPool {
        metadata: ObjectMeta,
    }

    impl Resource for NextPool {
        type DynamicType = ();
        type Scope = <MachineConfigPool as Resource>::Scope;

        fn kind((): &()) -> std::borrow::Cow<'_, str> {
            MachineConfigPool::kind(&())
        }

        fn group((): &()) -> std::borrow::Cow<'_, str> {
            MachineConfigPool::group(&())
        }

        fn version((): &()) -> std::borrow::Cow<'_, str> {
            "v2".into()
        }

        fn plural((): &()) -> std::borrow::Cow<'_, str> {
            MachineConfigPool::plural(&())
        }

        fn meta(&self) -> &ObjectMeta {
            &self.metadata
        }

        fn meta_mut(&mut self) -> &mut ObjectMeta {
            &mut self.metadata
        }
    }

    #[test]
    fn second_type_of_a_kind_is_a_conflict() {
        let mut tables = Tables::default().with::<MachineConfigPool>();
        assert_eq!(tables.extend(Tables::default().with::<MachineConfigPool>()), Ok(()));
        let conflict = tables.extend(Tables::default().with::<NextPool>()).unwrap_err();
        assert_eq!(
            conflict.to_string(),
            "objects of kind MachineConfigPool have two types in this program, of machineconfiguration.openshift.io/v1 and of \
             machineconfiguration.openshift.io/v2; use one of them"
        );
        // Also within the tables of one preview part.
        let both = Tables::default().with::<MachineConfigPool>().with::<NextPool>();
        assert!(Tables::default().extend(both).is_err());
        assert!(tables.has_all_of(&Tables::default().with::<MachineConfigPool>()));
        assert!(!tables.has_all_of(&Tables::default().with::<NextPool>()));
    }
}
