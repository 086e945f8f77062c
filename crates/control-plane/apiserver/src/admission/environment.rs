//! CEL environment of admission policies: the variables of their expressions, and their types.

use std::sync::{Arc, LazyLock};

use seaworthy_cel::{
    AuthorizationDecision, Authorizer, Bindings, Decl, DeclKind, Env, ListType, Map, ObjectDecl, Question, Type, Val,
};
use serde_json::Value;

use crate::access::{AccessPolicy, AccessRequest, Identity};
use crate::object::Object;

use super::admission_request::AdmissionRequest;

/// The type of `request`.
static REQUEST: LazyLock<Decl> = LazyLock::new(|| {
    let kind = || object("kubernetes.GroupVersionKind", [("group", text()), ("version", text()), ("kind", text())]);
    let resource =
        || object("kubernetes.GroupVersionResource", [("group", text()), ("version", text()), ("resource", text())]);
    let user = object(
        "kubernetes.UserInfo",
        [("username", text()), ("uid", text()), ("groups", list(text())), ("extra", map(list(text())))],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Decl::new(DeclKind::Bool)),
            ("options", Decl::new(DeclKind::Dyn)),
        ],
    )
});

/// The type of `namespaceObject`.
static NAMESPACE: LazyLock<Decl> = LazyLock::new(|| {
    let time = || Decl::new(DeclKind::Timestamp { day: false });
    let number = || Decl::new(DeclKind::Int);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", map(text())),
            ("annotations", map(text())),
            ("UID", text()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", number()),
            ("deletionTimestamp", time()),
            ("generation", number()),
            ("resourceVersion", text()),
            ("finalizers", list(text())),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", [("finalizers", list(text()))]);
    let status = object("kubernetes.NamespaceStatus", [("phase", text())]);
    object("kubernetes.Namespace", [("metadata", metadata), ("spec", spec), ("status", status)])
});

fn text() -> Decl {
    Decl::new(DeclKind::String)
}

fn list(items: Decl) -> Decl {
    Decl::new(DeclKind::List { items: Arc::new(items), uniqueness: ListType::Atomic })
}

fn map(values: Decl) -> Decl {
    Decl::new(DeclKind::Map(Arc::new(values)))
}

fn object<const N: usize>(name: &str, fields: [(&str, Decl); N]) -> Decl {
    let fields = fields.into_iter().map(|(name, decl)| (name.to_owned(), decl));
    Decl::new(DeclKind::Object(Arc::new(ObjectDecl::new(name, fields))))
}

/// The predefined variables of a policy's expressions. The policy's own variables are added as they are compiled.
pub fn environment(has_params: bool, has_authorizer: bool) -> Env {
    let mut env = Env::new()
        .stored()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("request", REQUEST.ty())
        .with("namespaceObject", NAMESPACE.ty())
        // Nothing but the names behind the dot, each of which is a variable by itself.
        .with("variables", object("kubernetes.variables", []).ty());
    if has_params {
        env = env.with("params", Type::Dyn);
    }
    if has_authorizer {
        env = env
            .with("authorizer", Type::Library("kubernetes.authorization.Authorizer"))
            .with("authorizer.requestResource", Type::Library("kubernetes.authorization.ResourceCheck"));
    }
    env
}

/// The values of all variables for one evaluation.
pub struct EvaluationInput<'a> {
    /// The new object, in the version that the policy matches.
    pub object: Option<&'a Object>,
    /// The stored object.
    pub old: Option<&'a Object>,
    pub request: &'a Value,
    /// The parameter object.
    pub params: Option<&'a Object>,
    pub namespace: Option<&'a Value>,
    pub authorizer: &'a dyn Authorizer,
    /// The write itself as an authorisation question.
    pub question: Question,
}

impl<'a> EvaluationInput<'a> {
    /// The values of the variables.
    pub fn bindings(&self) -> Bindings<'a> {
        let whole = |object: Option<&'a Object>| object.map_or(Val::Null, |object| Val::Map(Map::Dyn(object)));
        let namespace = self.namespace.map_or(Ok(Val::Null), |namespace| Val::bind(namespace, &NAMESPACE));
        Bindings::new()
            .with("object", whole(self.object))
            .with("oldObject", whole(self.old))
            .with("request", Val::bind(self.request, &REQUEST))
            .with("params", whole(self.params))
            .with("namespaceObject", namespace)
            .with("authorizer", Val::authorizer(self.authorizer))
            .with("authorizer.requestResource", Val::request_resource(self.authorizer, self.question.clone()))
    }
}

/// Answers authorisation questions from the current access policy.
pub struct RbacAuthorizer<'a> {
    pub access: &'a AccessPolicy,
    /// The user of the write.
    pub identity: &'a Identity,
}

impl Authorizer for RbacAuthorizer<'_> {
    fn check(&self, question: &Question) -> AuthorizationDecision {
        let account = question.service_account.as_ref();
        let account = account.map(|(namespace, name)| Identity::service_account(namespace, name, ""));
        let request = match question.path.as_deref() {
            Some(path) => AccessRequest { verb: &question.verb, path: Some(path), ..AccessRequest::default() },
            None => AccessRequest {
                verb: &question.verb,
                group: &question.group,
                resource: &question.resource,
                subresource: &question.subresource,
                namespace: &question.namespace,
                name: &question.name,
                path: None,
            },
        };
        let allowed = self.access.allows(account.as_ref().unwrap_or(self.identity), &request);
        AuthorizationDecision { allowed, ..AuthorizationDecision::default() }
    }
}

/// The write as an authorisation question.
pub fn question(write: &AdmissionRequest<'_>) -> Question {
    Question {
        group: write.resource.group.to_string(),
        resource: write.resource.plural.to_string(),
        subresource: write.subresource.to_owned(),
        namespace: write.namespace.to_owned(),
        name: write.name.to_owned(),
        ..Question::default()
    }
}
