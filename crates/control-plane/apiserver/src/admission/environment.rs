//! What the expressions of a policy can see, and of which type it is.

use std::sync::{Arc, LazyLock};

use seaworthy_cel::{
    Authorizer, Bindings, Decision, Decl, DeclKind, Env, Map, Object as ObjectDecl, Question, Type, Uniqueness, Val,
};
use serde_json::Value;

use crate::access::{Action, Identity, Policy as Access};
use crate::object::Object;

use super::attempt::Attempt;

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
    Decl::new(DeclKind::List { items: Arc::new(items), uniqueness: Uniqueness::Atomic })
}

fn map(values: Decl) -> Decl {
    Decl::new(DeclKind::Map(Arc::new(values)))
}

fn object<const N: usize>(name: &str, fields: [(&str, Decl); N]) -> Decl {
    let fields = fields.into_iter().map(|(name, decl)| (name.to_owned(), decl));
    Decl::new(DeclKind::Object(Arc::new(ObjectDecl::new(name, fields))))
}

/// The variables of a policy's expressions. The policy's own ones are added as they are compiled.
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

/// Everything that the expressions of one policy see of one write.
pub struct Scene<'a> {
    /// The object as it would be, in the version that the policy is about.
    pub object: Option<&'a Object>,
    /// The object as it is.
    pub old: Option<&'a Object>,
    /// The request.
    pub request: &'a Value,
    /// The object that the policy is set up by.
    pub params: Option<&'a Object>,
    /// The namespace.
    pub namespace: Option<&'a Value>,
    /// Answers questions about rights.
    pub authorizer: &'a dyn Authorizer,
    /// The write itself as such a question.
    pub question: Question,
}

impl<'a> Scene<'a> {
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

/// Answers questions about rights by the access rules of this moment.
pub struct Asker<'a> {
    /// The rules.
    pub access: &'a Access,
    /// Who writes.
    pub identity: &'a Identity,
}

impl Authorizer for Asker<'_> {
    fn check(&self, question: &Question) -> Decision {
        let account = question.service_account.as_ref();
        let account = account.map(|(namespace, name)| Identity::service_account(namespace, name, ""));
        let action = match question.path.as_deref() {
            Some(path) => Action { verb: &question.verb, path: Some(path), ..Action::default() },
            None => Action {
                verb: &question.verb,
                group: &question.group,
                resource: &question.resource,
                subresource: &question.subresource,
                namespace: &question.namespace,
                name: &question.name,
                path: None,
            },
        };
        let allowed = self.access.allows(account.as_ref().unwrap_or(self.identity), &action);
        Decision { allowed, ..Decision::default() }
    }
}

/// The write as a question about rights.
pub fn question(attempt: &Attempt<'_>) -> Question {
    Question {
        group: attempt.resource.group.to_string(),
        resource: attempt.resource.plural.to_string(),
        subresource: attempt.subresource.to_owned(),
        namespace: attempt.namespace.to_owned(),
        name: attempt.name.to_owned(),
        ..Question::default()
    }
}
