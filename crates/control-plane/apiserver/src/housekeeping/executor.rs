//! Action executor: applies the changes of housekeeping through the same verbs as clients, as the service accounts of a
//! real cluster.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use seaworthy_store::Key;
use serde_json::Value;

use crate::access::Identity;
use crate::builtin::core::namespace::PROTECTED_NAMESPACES;
use crate::object::meta::{FOREGROUND, ORPHAN};
use crate::object::{self, Metadata, Object};
use crate::request::Call;
use crate::request::ResourcePath;
use crate::request::media::{Format, NegotiatedFormat, Shape};
use crate::request::options::{DeleteOptions, FieldValidation, Preconditions, Propagation, Query, WriteOptions};
use crate::resource::Resource;
use crate::response::status::Failure;
use crate::server::Server;
use crate::write::{Proposal, change, delete_object};

use super::namespaces::NAMESPACES;
use super::owner_refs::{DeletionMode, OwnerReference};

/// The manager of the fields that housekeeping writes.
const MANAGER: &str = "kube-controller-manager";

/// A change of one object that housekeeping decided on.
pub struct Action {
    pub resource: Arc<Resource>,
    pub key: Key,
    /// Guards against another object with the same name.
    pub uid: String,
    pub kind: ActionKind,
}

/// The kinds of actions.
#[derive(Debug, Clone, PartialEq)]
pub enum ActionKind {
    /// Delete the object, if it is still at this revision; `None` for any revision.
    Delete(Propagation, Option<u64>),
    /// Remove these owner references.
    RemoveOwners(Vec<OwnerReference>),
    /// Set `blockOwnerDeletion` to false in all owner references.
    Unblock,
    /// Remove the deletion finalizer of an owner whose dependents are done.
    RemoveFinalizer(DeletionMode),
    /// Set `status.conditions`.
    SetConditions(Value),
    /// Remove a finalizer from `spec.finalizers` of an empty namespace.
    Finalize(&'static str),
}

impl Action {
    /// Executes the action. A missing object counts as success.
    pub async fn execute(self, server: &Server) -> Result<(), Failure> {
        let is_protected = &*self.key.resource == NAMESPACES && PROTECTED_NAMESPACES.contains(&&*self.key.name);
        let result = match &self.kind {
            // Even if its owner is gone: these namespaces are never deleted.
            ActionKind::Delete(..) if is_protected => Ok(()),
            ActionKind::Delete(propagation, revision) => {
                let options = DeleteOptions {
                    propagation: Some(*propagation),
                    preconditions: Preconditions {
                        uid: Some(self.uid.clone()),
                        revision: revision.map(|revision| revision.to_string()),
                    },
                    ..DeleteOptions::default()
                };
                delete_object(server, &self.resource, &self.key, &options).await.map(|_| ())
            }
            kind => self.change(server, kind).await,
        };
        match result {
            Err(failure) if failure.code == 404 => Ok(()),
            other => other,
        }
    }

    async fn change(&self, server: &Server, kind: &ActionKind) -> Result<(), Failure> {
        let (subresource, account) = match kind {
            ActionKind::SetConditions(_) => ("status", "namespace-controller"),
            ActionKind::Finalize(_) => ("finalize", "namespace-controller"),
            ActionKind::Delete(..)
            | ActionKind::RemoveOwners(_)
            | ActionKind::Unblock
            | ActionKind::RemoveFinalizer(_) => ("", "generic-garbage-collector"),
        };
        let call = Call {
            server: server.clone(),
            registry: server.registry(),
            resource: self.resource.clone(),
            subresource: self.resource.subresources().into_iter().find(|own| own.name == subresource),
            path: ResourcePath {
                group: self.resource.group.to_string(),
                version: self.resource.version.to_string(),
                namespace: self.key.namespace.to_string(),
                resource: self.resource.plural.to_string(),
                name: self.key.name.to_string(),
                subresource: subresource.to_owned(),
                is_watch_path: false,
            },
            query: Query::default(),
            headers: HeaderMap::new(),
            identity: Identity::service_account("kube-system", account, ""),
            accepted: NegotiatedFormat { format: Format::Json, shape: Shape::Whole, aggregated: false, is_beta: false },
            body: Bytes::new(),
        };
        let options = WriteOptions {
            is_dry_run: false,
            manager: MANAGER.to_owned(),
            validation: FieldValidation::Ignore,
            force: false,
        };
        let made = change(&call, &options, |old| {
            if old.uid() != self.uid {
                return Err(Failure::not_found(self.resource.group_resource(), &self.key.name));
            }
            let mut object = object::fields(old).clone();
            kind.apply(&mut object);
            Ok(Proposal { object: Value::Object(object), has_managers: false, warnings: Vec::new() })
        });
        made.await.map(|_| ())
    }
}

impl ActionKind {
    /// Applies the change to an object. A deletion changes nothing.
    fn apply(&self, object: &mut Object) {
        match self {
            ActionKind::Delete(..) => {}
            ActionKind::RemoveOwners(owners) => {
                let kept = object.owners().iter().filter(|reference| owners.iter().all(|owner| !owner.is(reference)));
                let kept: Vec<Value> = kept.cloned().collect();
                set_list(object, "ownerReferences", kept);
            }
            ActionKind::Unblock => {
                let mut references = object.owners().to_vec();
                for reference in &mut references {
                    reference["blockOwnerDeletion"] = false.into();
                }
                set_list(object, "ownerReferences", references);
            }
            ActionKind::RemoveFinalizer(deletion_mode) => {
                let finalizer = match deletion_mode {
                    DeletionMode::Foreground => FOREGROUND,
                    DeletionMode::Orphan => ORPHAN,
                };
                let kept = object.finalizers().filter(|name| *name != finalizer).map(Value::from).collect();
                set_list(object, "finalizers", kept);
            }
            ActionKind::SetConditions(conditions) => {
                let status = object.entry("status").or_insert_with(|| Object::new().into());
                if let Some(status) = status.as_object_mut() {
                    status.insert("conditions".to_owned(), conditions.clone());
                }
            }
            ActionKind::Finalize(finalizer) => {
                let list = object.get_mut("spec").and_then(|spec| spec.get_mut("finalizers"));
                if let Some(list) = list.and_then(Value::as_array_mut) {
                    list.retain(|name| name != finalizer);
                }
            }
        }
    }
}

fn set_list(object: &mut Object, key: &str, list: Vec<Value>) {
    match list.is_empty() {
        true => {
            object.metadata_mut().remove(key);
        }
        false => object.set_meta(key, list),
    }
}
