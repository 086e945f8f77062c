//! Authorization library: checks in admission expressions, answered by the caller.

use std::fmt;
use std::sync::Arc;

use super::{Native, overload_mismatch};
use crate::value::{Opaque, Outcome, Val};

/// Answers whether the user of a request, or a service account, may do something.
pub trait Authorizer: Send + Sync {
    /// The answer to one question.
    fn check(&self, question: &Question) -> AuthorizationDecision;
}

/// What is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// A service account's namespace and name; nothing means the user of the request.
    pub service_account: Option<(String, String)>,
    /// What may or may not be done.
    pub verb: String,
    /// A path that is no resource.
    pub path: Option<String>,
    /// The API group of the resource.
    pub group: String,
    pub resource: String,
    /// The subresource, if not empty.
    pub subresource: String,
    /// The namespace, if not empty.
    pub namespace: String,
    /// The object, if not empty.
    pub name: String,
    /// The field selector as written, if not empty.
    pub field_selector: String,
    /// The label selector as written, if not empty.
    pub label_selector: String,
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationDecision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong while deciding, if something did.
    pub error: Option<String>,
}

/// A question being put together, or its answer.
#[derive(Clone)]
pub struct AuthorizationCheck<'a> {
    authorizer: &'a dyn Authorizer,
    stage: Stage,
    question: Question,
    decision: AuthorizationDecision,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Authorizer,
    Path,
    Group,
    Resource,
    Decision,
}

impl fmt::Debug for AuthorizationCheck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationCheck")
            .field("stage", &self.stage)
            .field("question", &self.question)
            .finish_non_exhaustive()
    }
}

impl<'a> AuthorizationCheck<'a> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Authorizer => "kubernetes.authorization.Authorizer",
            Stage::Path => "kubernetes.authorization.PathCheck",
            Stage::Group => "kubernetes.authorization.GroupCheck",
            Stage::Resource => "kubernetes.authorization.ResourceCheck",
            Stage::Decision => "kubernetes.authorization.Decision",
        }
    }
}

impl<'a> Val<'a> {
    /// The variable `authorizer`.
    pub fn authorizer(authorizer: &'a dyn Authorizer) -> Val<'a> {
        wrap(AuthorizationCheck {
            authorizer,
            stage: Stage::Authorizer,
            question: Question::default(),
            decision: AuthorizationDecision::default(),
        })
    }

    /// The variable `authorizer.requestResource`: the resource of the request.
    pub fn request_resource(authorizer: &'a dyn Authorizer, question: Question) -> Val<'a> {
        wrap(AuthorizationCheck {
            authorizer,
            stage: Stage::Resource,
            question,
            decision: AuthorizationDecision::default(),
        })
    }
}

fn wrap(check: AuthorizationCheck<'_>) -> Val<'_> {
    Val::Opaque(Opaque::Authz(Arc::new(check)))
}

pub(super) fn find(function: &str) -> Option<Native> {
    let native: Native = match function {
        "path" => |args| refine(args, Stage::Authorizer, Stage::Path, |q, path| q.path = Some(path)),
        "group" => |args| refine(args, Stage::Authorizer, Stage::Group, |q, group| q.group = group),
        "serviceAccount" => service_account,
        "resource" => |args| refine(args, Stage::Group, Stage::Resource, |q, resource| q.resource = resource),
        "subresource" => |args| refine(args, Stage::Resource, Stage::Resource, |q, value| q.subresource = value),
        "namespace" => |args| refine(args, Stage::Resource, Stage::Resource, |q, value| q.namespace = value),
        "name" => |args| refine(args, Stage::Resource, Stage::Resource, |q, value| q.name = value),
        "fieldSelector" => |args| refine(args, Stage::Resource, Stage::Resource, |q, value| q.field_selector = value),
        "labelSelector" => |args| refine(args, Stage::Resource, Stage::Resource, |q, value| q.label_selector = value),
        "check" => check,
        "allowed" => |args| answer(args, |decision| Val::Bool(decision.allowed)),
        "errored" => |args| answer(args, |decision| Val::Bool(decision.error.is_some())),
        "error" => |args| answer(args, |decision| Val::string(decision.error.as_deref().unwrap_or_default())),
        "reason" => |args| answer(args, |decision| Val::string(decision.reason.as_str())),
        _ => return None,
    };
    Some(native)
}

fn refine<'a>(args: &[Val<'a>], from: Stage, to: Stage, change: fn(&mut Question, String)) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Authz(check)), Val::String(value)] if check.stage == from => {
            let mut check = (**check).clone();
            check.stage = to;
            change(&mut check.question, value.to_string());
            Ok(wrap(check))
        }
        _ => overload_mismatch(),
    }
}

fn service_account<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Authz(check)), Val::String(namespace), Val::String(name)]
            if check.stage == Stage::Authorizer =>
        {
            let mut check = (**check).clone();
            check.question.service_account = Some((namespace.to_string(), name.to_string()));
            Ok(wrap(check))
        }
        _ => overload_mismatch(),
    }
}

fn check<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Authz(check)), Val::String(verb)]
            if matches!(check.stage, Stage::Path | Stage::Resource) =>
        {
            let mut check = (**check).clone();
            check.question.verb = verb.to_string();
            check.decision = check.authorizer.check(&check.question);
            check.stage = Stage::Decision;
            Ok(wrap(check))
        }
        _ => overload_mismatch(),
    }
}

fn answer<'a>(args: &[Val<'a>], apply: fn(&AuthorizationDecision) -> Val<'a>) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Authz(check))] if check.stage == Stage::Decision => Ok(apply(&check.decision)),
        _ => overload_mismatch(),
    }
}
