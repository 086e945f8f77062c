//! Admission requests: a write as admission policies see it.

use std::cell::OnceCell;
use std::sync::Arc;

use seaworthy_store::Key;
use serde_json::{Map, Value, json};

use crate::object::Object;
use crate::request::Call;
use crate::request::media::PatchKind;
use crate::resource::Resource;
use crate::server::decode;

/// The operation of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A creation, or the action of a subresource such as an eviction.
    Create,
    /// An update, patch or apply.
    Update,
    /// A deletion.
    Delete,
}

impl Operation {
    /// The word in rules and expressions.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// A write that is not committed yet.
pub struct AdmissionRequest<'a> {
    /// What is done.
    pub operation: Operation,
    /// The object as it would be; none when it is deleted.
    pub object: Option<&'a Object>,
    /// The object as it is; none when it is new.
    pub old: Option<&'a Object>,
    pub name: &'a str,
    /// Its namespace, empty for none.
    pub namespace: &'a str,
    /// The subresource, empty for the object itself.
    pub subresource: &'a str,
    pub resource: &'a Resource,
    /// Group, version and kind of what is sent.
    kind: (Arc<str>, Arc<str>, Arc<str>),
    call: &'a Call,
    is_dry_run: Option<bool>,
    /// Loaded when it is first needed, which is rare.
    namespace_object: OnceCell<Option<Object>>,
}

impl<'a> AdmissionRequest<'a> {
    /// The admission request of a call.
    pub fn new(
        call: &'a Call,
        operation: Operation,
        name: &'a str,
        object: Option<&'a Object>,
        old: Option<&'a Object>,
    ) -> AdmissionRequest<'a> {
        let resource = &*call.resource;
        let namespace = if resource.is_namespaced { call.path.namespace.as_str() } else { "" };
        let own = || (resource.group.clone(), resource.version.clone(), resource.kind.clone());
        let subresource = call.path.subresource.as_str();
        let kind = call.subresource.as_ref().map_or_else(own, |subresource| subresource.kind.clone());
        AdmissionRequest {
            operation,
            object,
            old,
            name,
            namespace,
            subresource,
            resource,
            kind,
            call,
            is_dry_run: None,
            namespace_object: OnceCell::new(),
        }
    }

    /// The same request, with the dry-run option from another source than the query.
    pub fn with_dry_run(self, is_dry_run: bool) -> AdmissionRequest<'a> {
        AdmissionRequest { is_dry_run: Some(is_dry_run), ..self }
    }

    /// The Namespace of the object; none for cluster-scoped objects.
    pub fn namespace_object(&self) -> Option<&Object> {
        let found = self.namespace_object.get_or_init(|| {
            let key = Key::new("core/namespaces", "", self.namespace);
            if self.namespace.is_empty() {
                None
            } else {
                self.call.server.store().get(&key).map(|found| decode(&found))
            }
        });
        found.as_ref()
    }

    /// The object whose labels a `namespaceSelector` matches.
    pub fn labelled_namespace(&self) -> Option<&Object> {
        if &*self.resource.storage == "core/namespaces" {
            return self.object.or(self.old);
        }
        self.namespace_object()
    }

    /// The variable `request`, for a policy that means the write by this resource.
    ///
    /// As in kube-apiserver, `uid` is left out: it identifies calls to webhooks, and there are none.
    pub fn request(&self, matched: &Resource) -> Value {
        let as_resource = |resource: &Resource| json!({"group": *resource.group, "version": *resource.version, "resource": *resource.plural});
        let (group, version, kind) = &self.kind;
        let sent = json!({"group": **group, "version": **version, "kind": **kind});
        let is_own = **group == *self.resource.group && **kind == *self.resource.kind;
        let seen = match is_own {
            true => json!({"group": *matched.group, "version": *matched.version, "kind": *matched.kind}),
            false => sent.clone(),
        };
        let (options, is_dry_run) = options(self.call, self.operation);
        let is_dry_run = self.is_dry_run.unwrap_or(is_dry_run);
        let mut request = json!({
            "kind": seen, "resource": as_resource(matched), "requestKind": sent,
            "requestResource": as_resource(self.resource), "operation": self.operation.as_str(),
            "userInfo": self.call.identity.to_json(), "dryRun": is_dry_run, "options": options,
        });
        let texts = [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            request[key] = text.into();
        }
        request
    }
}

/// The options of the request as an object, and whether it is a dry run.
fn options(call: &Call, operation: Operation) -> (Value, bool) {
    let is_patch = PatchKind::of_body(&call.headers).is_ok();
    let kind = match operation {
        Operation::Create => "CreateOptions",
        Operation::Update if is_patch => "PatchOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
    };
    let mut options = Map::new();
    if operation == Operation::Delete {
        // What the body cannot be read as was refused before.
        let sent = serde_json::from_slice::<Value>(&call.body).ok();
        options.extend(sent.as_ref().and_then(Value::as_object).cloned().unwrap_or_default());
    }
    options.insert("kind".to_owned(), kind.into());
    options.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
    for key in ["fieldManager", "fieldValidation", "propagationPolicy"] {
        if let Some(text) = call.query.get(key).filter(|text| !text.is_empty()) {
            options.entry(key).or_insert_with(|| text.into());
        }
    }
    let dry_run: Vec<&str> = call.query.all("dryRun").collect();
    if !dry_run.is_empty() {
        options.entry("dryRun").or_insert_with(|| dry_run.into());
    }
    if call.query.flag("force") == Some(true) {
        options.insert("force".to_owned(), true.into());
    }
    let is_dry_run = options.get("dryRun").and_then(Value::as_array).is_some_and(|words| words.contains(&"All".into()));
    (Value::Object(options), is_dry_run)
}
