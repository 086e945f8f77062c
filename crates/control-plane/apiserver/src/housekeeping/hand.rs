//! How housekeeping changes objects: by the same verbs as clients, under the names that it has in a real cluster.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use seaworthy_store::Key;
use serde_json::Value;

use crate::access::Identity;
use crate::builtin::core::namespace::IMMORTAL;
use crate::object::meta::{FOREGROUND, ORPHAN};
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::ResourcePath;
use crate::request::media::{Accepted, Format, Shape};
use crate::request::options::{DeleteOptions, FieldValidation, Preconditions, Propagation, Query, WriteOptions};
use crate::resource::Resource;
use crate::response::status::Failure;
use crate::server::Server;
use crate::write::{Proposal, change, delete_object};

use super::namespaces::NAMESPACES;
use super::ties::{Owner, Parting};

/// The manager of the fields that housekeeping writes.
const MANAGER: &str = "kube-controller-manager";

/// One change of one object that housekeeping decided on.
pub struct Deed {
    /// The object's resource.
    pub resource: Arc<Resource>,
    /// The object.
    pub key: Key,
    /// Its identity: another object by that name is not meant.
    pub uid: String,
    /// What to do with it.
    pub act: Act,
}

/// What to do with an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Delete it, if it is still at this revision; none for any.
    Delete(Propagation, Option<u64>),
    /// Remove references to owners.
    Loosen(Vec<Owner>),
    /// Let no owner wait for it.
    Unblock,
    /// Remove the finalizer of an owner that took leave.
    Release(Parting),
    /// Report in `status.conditions`.
    Report(Value),
    /// Let a namespace go that is empty.
    Finalize(&'static str),
}

impl Deed {
    /// Does it. That there is no such object any more is success.
    pub async fn perform(self, server: &Server) -> Result<(), Failure> {
        let is_immortal = &*self.key.resource == NAMESPACES && IMMORTAL.contains(&&*self.key.name);
        let result = match &self.act {
            // Whoever gave it an owner that is gone: some namespaces are there as long as the server is.
            Act::Delete(..) if is_immortal => Ok(()),
            Act::Delete(propagation, revision) => {
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
            act => self.change(server, act).await,
        };
        match result {
            Err(failure) if failure.code == 404 => Ok(()),
            other => other,
        }
    }

    async fn change(&self, server: &Server, act: &Act) -> Result<(), Failure> {
        let (subresource, account) = match act {
            Act::Report(_) => ("status", "namespace-controller"),
            Act::Finalize(_) => ("finalize", "namespace-controller"),
            Act::Delete(..) | Act::Loosen(_) | Act::Unblock | Act::Release(_) => ("", "generic-garbage-collector"),
        };
        let call = Call {
            server: server.clone(),
            registry: server.registry(),
            resource: self.resource.clone(),
            below: self.resource.below().into_iter().find(|below| below.name == subresource),
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
            accepted: Accepted { format: Format::Json, shape: Shape::Whole, aggregated: false, is_beta: false },
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
                return Err(Failure::not_found(self.resource.named(), &self.key.name));
            }
            let mut object = old.clone();
            act.apply(&mut object);
            Ok(Proposal { object, has_managers: false, warnings: Vec::new() })
        });
        made.await.map(|_| ())
    }
}

impl Act {
    /// Makes the change to an object. A deletion is none.
    fn apply(&self, object: &mut Object) {
        match self {
            Act::Delete(..) => {}
            Act::Loosen(owners) => {
                let kept = object.owners().iter().filter(|reference| owners.iter().all(|owner| !owner.is(reference)));
                let kept: Vec<Value> = kept.cloned().collect();
                set_list(object, "ownerReferences", kept);
            }
            Act::Unblock => {
                let mut references = object.owners().to_vec();
                for reference in &mut references {
                    reference["blockOwnerDeletion"] = false.into();
                }
                set_list(object, "ownerReferences", references);
            }
            Act::Release(parting) => {
                let finalizer = match parting {
                    Parting::Foreground => FOREGROUND,
                    Parting::Orphan => ORPHAN,
                };
                let kept = object.finalizers().filter(|name| *name != finalizer).map(Value::from).collect();
                set_list(object, "finalizers", kept);
            }
            Act::Report(conditions) => {
                let status = object.entry("status").or_insert_with(|| Object::new().into());
                if let Some(status) = status.as_object_mut() {
                    status.insert("conditions".to_owned(), conditions.clone());
                }
            }
            Act::Finalize(finalizer) => {
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
