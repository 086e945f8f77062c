//! Review kinds: requests that ask for an identity or for an access decision. They are answered and never stored.

use seaworthy_schema::Cause;
use serde_json::{Map, Value, json};

use crate::access::{AccessRequest, Identity};
use crate::authentication::{AUDIENCE, AuthenticatedToken};
use crate::clock;
use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::request::Verb;
use crate::resource::built_in_kind::{BuiltInKind, Review};
use crate::response::status::{Failure, GroupResource};
use crate::write;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

const REVIEW: BuiltInKind =
    BuiltInKind { group: AUTHORIZATION, is_namespaced: false, verbs: &[Verb::Create], ..BuiltInKind::BASE };

/// TokenReview: the identity of a token.
pub static TOKEN_REVIEW: BuiltInKind = BuiltInKind {
    group: AUTHENTICATION,
    plural: "tokenreviews",
    singular: "tokenreview",
    kind: "TokenReview",
    definition: "io.k8s.api.authentication.v1.TokenReview",
    review: Some(review_token),
    ..REVIEW
};

/// SelfSubjectReview: the identity of the client.
pub static SELF_SUBJECT_REVIEW: BuiltInKind = BuiltInKind {
    group: AUTHENTICATION,
    plural: "selfsubjectreviews",
    singular: "selfsubjectreview",
    kind: "SelfSubjectReview",
    definition: "io.k8s.api.authentication.v1.SelfSubjectReview",
    review: Some(|call, mut review| {
        // The answer repeats nothing of the question.
        review.insert("metadata".to_owned(), json!({}));
        review.set_meta("creationTimestamp", clock::rfc3339(call.server.clock().now()));
        Ok(answered(review, json!({"userInfo": call.identity.to_json()})))
    }),
    ..REVIEW
};

/// SubjectAccessReview: whether a user may do something.
pub static SUBJECT_ACCESS_REVIEW: BuiltInKind = BuiltInKind {
    plural: "subjectaccessreviews",
    singular: "subjectaccessreview",
    kind: "SubjectAccessReview",
    definition: "io.k8s.api.authorization.v1.SubjectAccessReview",
    review: Some(|call, review| {
        let mut causes = validate_attributes(&review);
        causes.extend(validate_subject(&review));
        review_access(call, review, causes, None)
    }),
    ..REVIEW
};

/// SelfSubjectAccessReview: whether the client may do something.
pub static SELF_SUBJECT_ACCESS_REVIEW: BuiltInKind = BuiltInKind {
    plural: "selfsubjectaccessreviews",
    singular: "selfsubjectaccessreview",
    kind: "SelfSubjectAccessReview",
    definition: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    review: Some(|call, review| {
        let causes = validate_attributes(&review);
        review_access(call, review, causes, Some(&call.identity))
    }),
    ..REVIEW
};

/// LocalSubjectAccessReview: whether a user may do something in a namespace.
pub static LOCAL_SUBJECT_ACCESS_REVIEW: BuiltInKind = BuiltInKind {
    plural: "localsubjectaccessreviews",
    singular: "localsubjectaccessreview",
    kind: "LocalSubjectAccessReview",
    is_namespaced: true,
    definition: "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    review: Some(|call, review| {
        let mut causes = validate_attributes(&review);
        causes.extend(validate_subject(&review));
        let namespace = review.text("spec.resourceAttributes.namespace");
        if review.at("spec.nonResourceAttributes").is_some() {
            let why = "disallowed on this kind of request";
            causes.push(Cause::invalid("spec.nonResourceAttributes", seaworthy_schema::ShownValue::OMITTED, why));
        } else if namespace != call.path.namespace {
            let why = "must match metadata.namespace";
            causes.push(Cause::invalid("spec.resourceAttributes.namespace", namespace, why));
        }
        review_access(call, review, causes, None)
    }),
    ..REVIEW
};

/// SelfSubjectRulesReview: the client's rules in a namespace.
pub static SELF_SUBJECT_RULES_REVIEW: BuiltInKind = BuiltInKind {
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

fn review_token(call: &Call, review: Object) -> Result<Object, Failure> {
    let token = review.text("spec.token");
    if token.is_empty() {
        return Err(Failure::bad_request("token is required for TokenReview in authentication"));
    }
    let wanted: Vec<&str> = review.list("spec.audiences").iter().filter_map(Value::as_str).collect();
    let audiences = if wanted.is_empty() { vec![AUDIENCE] } else { wanted };
    let status = match call.server.identify(token, &audiences) {
        Some(AuthenticatedToken { identity, audiences }) => {
            json!({"authenticated": true, "user": identity.to_json(), "audiences": audiences})
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    };
    Ok(answered(review, status))
}

fn validate_attributes(review: &Object) -> Vec<Cause> {
    let (on, off) = (review.at("spec.resourceAttributes"), review.at("spec.nonResourceAttributes"));
    if on.is_some() != off.is_some() {
        return Vec::new();
    }
    let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    vec![Cause::invalid("spec", off.unwrap_or(&Value::Null), why)]
}

fn validate_subject(review: &Object) -> Option<Cause> {
    let is_empty = review.text("spec.user").is_empty() && review.list("spec.groups").is_empty();
    let why = "at least one of user or group must be specified";
    is_empty.then(|| Cause::invalid("spec.user", review.text("spec.user"), why))
}

/// Decides an access review, for `who` or for the user in its spec.
fn review_access(
    call: &Call,
    review: Object,
    mut causes: Vec<Cause>,
    who: Option<&Identity>,
) -> Result<Object, Failure> {
    // Reviews must not have a name.
    if review.metadata().keys().any(|key| !matches!(key.as_str(), "managedFields" | "namespace")) {
        let shown = review.get("metadata").unwrap_or(&Value::Null);
        causes.push(Cause::invalid("metadata", shown, "must be empty"));
    }
    if !causes.is_empty() {
        return Err(Failure::invalid(GroupResource { group: AUTHORIZATION, resource: "" }, "", causes));
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
    let request = match (review.at("spec.resourceAttributes"), review.at("spec.nonResourceAttributes")) {
        (Some(wanted), _) => AccessRequest {
            verb: wanted.text("verb"),
            group: wanted.text("group"),
            resource: wanted.text("resource"),
            subresource: wanted.text("subresource"),
            namespace: wanted.text("namespace"),
            name: wanted.text("name"),
            path: None,
        },
        (None, Some(wanted)) => {
            AccessRequest { verb: wanted.text("verb"), path: Some(wanted.text("path")), ..AccessRequest::default() }
        }
        // Validated above.
        (None, None) => AccessRequest::default(),
    };
    let (allowed, reason) = call.server.policy().decision(who, &request);
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

/// Invalid selectors, which are ignored.
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
    for rule in policy.rules_for(&call.identity, namespace) {
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

/// Answers a review.
pub fn answer(call: &Call, mut review: Object, how: Review, manager: &str) -> Result<Object, Failure> {
    write::set_namespace(call, &mut review)?;
    review.metadata_mut();
    how(call, write::track_write(call, None, review, manager))
}
