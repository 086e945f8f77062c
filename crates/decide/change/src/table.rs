//! Tables: the objects of some kinds in memory, for previews and for commands that read a whole cluster once.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::object::ObjectRef;
use crate::resource::{ResourceType, Scope};

/// The objects of one kind.
pub trait Table: Any + Debug + Send + Sync {
    /// The kind.
    fn resource(&self) -> ResourceType;
    /// The object with the namespace and name of this one.
    fn get(&self, object: &ObjectRef) -> Option<Value>;
    /// Stores an object in the place of the one with its name.
    ///
    /// # Errors
    ///
    /// If it is not of this kind.
    fn put(&mut self, object: Value) -> Result<(), serde_json::Error>;
    /// Adds an object that has no other of its name here, from JSON.
    ///
    /// # Errors
    ///
    /// If it is not of this kind.
    fn push_json(&mut self, text: &str) -> Result<(), serde_json::Error>;
    /// Removes the object with the namespace and name of this one.
    fn remove(&mut self, object: &ObjectRef);
    fn boxed_clone(&self) -> Box<dyn Table>;
}

impl<K> Table for Vec<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
    K::Scope: Scope,
{
    fn resource(&self) -> ResourceType {
        ResourceType::of::<K>()
    }

    fn get(&self, object: &ObjectRef) -> Option<Value> {
        let found = self.iter().find(|found| is_it(&***found, object))?;
        serde_json::to_value(&**found).ok()
    }

    fn put(&mut self, object: Value) -> Result<(), serde_json::Error> {
        let object: K = serde_json::from_value(object)?;
        let key = ObjectRef::of(&object);
        match self.iter_mut().find(|found| is_it(&***found, &key)) {
            Some(found) => *found = Arc::new(object),
            None => self.push(Arc::new(object)),
        }
        Ok(())
    }

    fn push_json(&mut self, text: &str) -> Result<(), serde_json::Error> {
        self.push(Arc::new(serde_json::from_str(text)?));
        Ok(())
    }

    fn remove(&mut self, object: &ObjectRef) {
        self.retain(|found| !is_it(&**found, object));
    }

    fn boxed_clone(&self) -> Box<dyn Table> {
        Box::new(self.clone())
    }
}

/// Whether an object has this namespace and name. A manifest may name a namespace although its kind has none.
fn is_it<K>(found: &K, object: &ObjectRef) -> bool
where
    K: Resource<DynamicType = ()>,
    K::Scope: Scope,
{
    let metadata = found.meta();
    let is_namespace = !K::Scope::IS_NAMESPACED || metadata.namespace == object.namespace;
    is_namespace && metadata.name.as_deref() == Some(&*object.name)
}

/// The objects of several kinds, one table each.
#[derive(Debug, Default)]
pub struct Tables(Vec<Box<dyn Table>>);

impl Clone for Tables {
    fn clone(&self) -> Tables {
        Tables(self.0.iter().map(|table| table.boxed_clone()).collect())
    }
}

impl Tables {
    /// With an empty table of a further kind.
    #[must_use]
    pub fn with<K>(self) -> Tables
    where
        Vec<Arc<K>>: Table,
        K: 'static,
    {
        self.with_objects(Vec::<Arc<K>>::new())
    }

    /// With these objects of a further kind.
    #[must_use]
    pub fn with_objects<K>(mut self, objects: Vec<Arc<K>>) -> Tables
    where
        Vec<Arc<K>>: Table,
        K: 'static,
    {
        *self.of_mut::<K>() = objects;
        self
    }

    /// Adds the tables of kinds that have none here.
    pub fn extend(&mut self, others: Tables) {
        for other in others.0 {
            let resource = other.resource();
            if self.0.iter().all(|table| table.resource() != resource) {
                self.0.push(other);
            }
        }
    }

    /// The objects of a kind; `None` if it has no table.
    pub fn get<K: 'static>(&self) -> Option<&[Arc<K>]> {
        self.0.iter().find_map(|table| (&**table as &dyn Any).downcast_ref::<Vec<Arc<K>>>().map(Vec::as_slice))
    }

    /// The objects of a kind; none if it has no table.
    pub fn of<K: 'static>(&self) -> &[Arc<K>] {
        self.get().unwrap_or_default()
    }

    /// The table of a kind, which is added if it is missing.
    pub fn of_mut<K>(&mut self) -> &mut Vec<Arc<K>>
    where
        Vec<Arc<K>>: Table,
        K: 'static,
    {
        let mut tables = self.0.iter().map(|table| &**table as &dyn Any);
        let at = tables.position(|table| table.is::<Vec<Arc<K>>>()).unwrap_or_else(|| {
            self.0.push(Box::new(Vec::<Arc<K>>::new()));
            self.0.len() - 1
        });
        let table: &mut dyn Any = &mut *self.0[at];
        // The position was found by this type, or pushed with it.
        table.downcast_mut().unwrap_or_else(|| unreachable!("the table at {at} has another type"))
    }

    /// Without the objects of a kind, and without its table.
    #[must_use]
    pub fn without<K: 'static>(mut self) -> Tables {
        self.0.retain(|table| !(&**table as &dyn Any).is::<Vec<Arc<K>>>());
        self
    }

    /// The table of a resource type.
    pub fn table_mut(&mut self, resource: &ResourceType) -> Option<&mut dyn Table> {
        let found = self.0.iter_mut().find(|table| table.resource() == *resource)?;
        Some(&mut **found)
    }

    /// The table of a kind in any version, by the names in a manifest.
    pub fn of_kind_mut(&mut self, group: &str, kind: &str) -> Option<&mut dyn Table> {
        let is_it = |resource: &ResourceType| resource.group == group && resource.kind == kind;
        let found = self.0.iter_mut().find(|table| is_it(&table.resource()))?;
        Some(&mut **found)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut dyn Table> {
        self.0.iter_mut().map(|table| &mut **table as &mut dyn Table)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::json;

    use super::*;

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
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "w1"}})).unwrap();
        let mut tables = Tables::default().with_objects(vec![Arc::new(node)]);
        tables.extend(Tables::default().with::<Node>().with::<Pod>());
        assert_eq!((tables.of::<Node>().len(), tables.get::<Pod>().map(<[_]>::len)), (1, Some(0)));
    }
}
