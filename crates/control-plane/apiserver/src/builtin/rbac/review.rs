//! Reviews: questions to the server about who somebody is and what they may do. Answered, never stored.

use seaworthy_schema::Cause;
use serde_json::{Map, Value, json};

use crate::access::{Action, Identity};
use crate::authentication::{AUDIENCE, Accepted};
use crate::clock;
use crate::object::reach::Reach;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::Verb;
use crate::resource::kind::{Kind, Review};
use crate::response::status::{Failure, Named};
use crate::write;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

const REVIEW: Kind = Kind { group: AUTHORIZATION, is_namespaced: false, verbs: &[Verb::Create], ..Kind::BASE };

/// Who has this token?
pub static TOKEN_REVIEW: Kind = Kind {
    group: AUTHENTICATION,
    plural: "tokenreviews",
    singular: "tokenreview",
    kind: "TokenReview",
    definition: "io.k8s.api.authentication.v1.TokenReview",
    review: Some(whose_token),
    ..REVIEW
};

/// Who am I?
pub static SELF_SUBJECT_REVIEW: Kind = Kind {
    group: AUTHENTICATION,
    plural: "selfsubjectreviews",
    singular: "selfsubjectreview",
    kind: "SelfSubjectReview",
    definition: "io.k8s.api.authentication.v1.SelfSubjectReview",
    review: Some(|call, mut review| {
        // The answer repeats nothing of the question.
        review.insert("metadata".to_owned(), json!({}));
        review.set_meta("creationTimestamp", clock::written(call.server.world().now()));
        Ok(answered(review, json!({"userInfo": call.identity.to_json()})))
    }),
    ..REVIEW
};

/// May they do that?
pub static SUBJECT_ACCESS_REVIEW: Kind = Kind {
    plural: "subjectaccessreviews",
    singular: "subjectaccessreview",
    kind: "SubjectAccessReview",
    definition: "io.k8s.api.authorization.v1.SubjectAccessReview",
    review: Some(|call, review| {
        let mut causes = judge_attributes(&review);
        causes.extend(judge_subject(&review));
        decided(call, review, causes, None)
    }),
    ..REVIEW
};

/// May I do that?
pub static SELF_SUBJECT_ACCESS_REVIEW: Kind = Kind {
    plural: "selfsubjectaccessreviews",
    singular: "selfsubjectaccessreview",
    kind: "SelfSubjectAccessReview",
    definition: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    review: Some(|call, review| {
        let causes = judge_attributes(&review);
        decided(call, review, causes, Some(&call.identity))
    }),
    ..REVIEW
};

/// May they do that in this namespace?
pub static LOCAL_SUBJECT_ACCESS_REVIEW: Kind = Kind {
    plural: "localsubjectaccessreviews",
    singular: "localsubjectaccessreview",
    kind: "LocalSubjectAccessReview",
    is_namespaced: true,
    definition: "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    review: Some(|call, review| {
        let mut causes = judge_attributes(&review);
        causes.extend(judge_subject(&review));
        let namespace = review.text("spec.resourceAttributes.namespace");
        if review.at("spec.nonResourceAttributes").is_some() {
            let why = "disallowed on this kind of request";
            causes.push(Cause::invalid("spec.nonResourceAttributes", seaworthy_schema::Shown::OMITTED, why));
        } else if namespace != call.path.namespace {
            let why = "must match metadata.namespace";
            causes.push(Cause::invalid("spec.resourceAttributes.namespace", namespace, why));
        }
        decided(call, review, causes, None)
    }),
    ..REVIEW
};

/// What may I do here?
pub static SELF_SUBJECT_RULES_REVIEW: Kind = Kind {
    plural: "selfsubjectrulesreviews",
    singular: "selfsubjectrulesreview",
    kind: "SelfSubjectRulesReview",
    definition: "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    review: Some(rules),
    ..REVIEW
};

fn answered(mut review: Object, status: Value) -> Object {
    review.insert("status".to_owned(), status);
    review
}

fn whose_token(call: &Call, review: Object) -> Result<Object, Failure> {
    let token = review.text("spec.token");
    if token.is_empty() {
        return Err(Failure::bad_request("token is required for TokenReview in authentication"));
    }
    let wanted: Vec<&str> = review.list("spec.audiences").iter().filter_map(Value::as_str).collect();
    let audiences = if wanted.is_empty() { vec![AUDIENCE] } else { wanted };
    let status = match call.server.identify(token, &audiences) {
        Some(Accepted { identity, audiences }) => {
            json!({"authenticated": true, "user": identity.to_json(), "audiences": audiences})
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    };
    Ok(answered(review, status))
}

fn judge_attributes(review: &Object) -> Vec<Cause> {
    let (on, off) = (review.at("spec.resourceAttributes"), review.at("spec.nonResourceAttributes"));
    if on.is_some() != off.is_some() {
        return Vec::new();
    }
    let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    vec![Cause::invalid("spec", off.unwrap_or(&Value::Null), why)]
}

fn judge_subject(review: &Object) -> Option<Cause> {
    let is_nobody = review.text("spec.user").is_empty() && review.list("spec.groups").is_empty();
    let why = "at least one of user or group must be specified";
    is_nobody.then(|| Cause::invalid("spec.user", review.text("spec.user"), why))
}

/// Whether somebody may do what the review asks: the given one, or the one that it names.
fn decided(call: &Call, review: Object, mut causes: Vec<Cause>, who: Option<&Identity>) -> Result<Object, Failure> {
    // A question has no name.
    if review.metadata().keys().any(|key| !matches!(key.as_str(), "managedFields" | "namespace")) {
        let shown = review.get("metadata").unwrap_or(&Value::Null);
        causes.push(Cause::invalid("metadata", shown, "must be empty"));
    }
    if !causes.is_empty() {
        return Err(Failure::invalid(Named { group: AUTHORIZATION, word: "" }, "", causes));
    }
    let named;
    let who = match who {
        Some(who) => who,
        None => {
            let groups = review.list("spec.groups").iter().filter_map(|group| group.as_str().map(str::to_owned));
            let (user, uid) = (review.text("spec.user").to_owned(), review.text("spec.uid").to_owned());
            named = Identity { user, uid, groups: groups.collect(), ..Identity::default() };
            &named
        }
    };
    let action = match (review.at("spec.resourceAttributes"), review.at("spec.nonResourceAttributes")) {
        (Some(wanted), _) => Action {
            verb: wanted.text("verb"),
            group: wanted.text("group"),
            resource: wanted.text("resource"),
            subresource: wanted.text("subresource"),
            namespace: wanted.text("namespace"),
            name: wanted.text("name"),
            path: None,
        },
        (None, Some(wanted)) => {
            Action { verb: wanted.text("verb"), path: Some(wanted.text("path")), ..Action::default() }
        }
        // Judged above.
        (None, None) => Action::default(),
    };
    let (allowed, reason) = call.server.policy().decision(who, &action);
    let mut status = json!({"allowed": allowed});
    if let Some(reason) = reason {
        status["reason"] = reason.into();
    }
    let odd = odd_selectors(&review);
    if !odd.is_empty() {
        status["evaluationError"] = odd.join("; ").into();
    }
    Ok(answered(review, status))
}

/// Selectors that cannot be read, which are as good as none.
fn odd_selectors(review: &Object) -> Vec<String> {
    let mut odd = Vec::new();
    for key in ["fieldSelector", "labelSelector"] {
        let Some(selector) = review.at(&format!("spec.resourceAttributes.{key}")) else { continue };
        let raw = selector.text("rawSelector");
        let is_odd_text = match key {
            "labelSelector" => crate::selector::LabelSelector::parse(raw).is_err(),
            _ => crate::selector::FieldSelector::parse(raw).is_err(),
        };
        let known = ["In", "NotIn", "Exists", "DoesNotExist"];
        let is_odd = |wanted: &Value| !known.contains(&wanted.text("operator"));
        if is_odd_text || selector.list("requirements").iter().any(is_odd) {
            odd.push(format!("spec.resourceAttributes.{key} ignored due to parse error"));
        }
    }
    odd
}

fn rules(call: &Call, review: Object) -> Result<Object, Failure> {
    let namespace = review.text("spec.namespace");
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let policy = call.server.policy();
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in policy.held(&call.identity, namespace) {
        let list = if rule.paths.is_empty() { &mut resources } else { &mut paths };
        list.push(rule.to_json());
    }
    let mut status = Map::new();
    status.insert("resourceRules".to_owned(), resources.into());
    status.insert("nonResourceRules".to_owned(), paths.into());
    status.insert("incomplete".to_owned(), false.into());
    // The answer repeats nothing of the question.
    let mut review = review;
    review.remove("metadata");
    review.insert("metadata".to_owned(), json!({}));
    review.insert("spec".to_owned(), json!({}));
    Ok(answered(review, status.into()))
}

/// Reads, answers and completes a review.
pub fn answer(call: &Call, mut review: Object, how: Review, manager: &str) -> Result<Object, Failure> {
    write::place(call, &mut review)?;
    review.metadata_mut();
    how(call, write::own_written(call, None, review, manager))
}
