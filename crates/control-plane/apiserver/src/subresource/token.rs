//! `serviceaccounts/token`: issues a token for a service account, with an expiry and audiences.

use http::StatusCode;
use jiff::SignedDuration;
use seaworthy_schema::Cause;
use seaworthy_store::Key;
use serde_json::{Value, json};

use crate::admission;
use crate::authentication::{AUDIENCE, Claims};
use crate::clock;
use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::response::Answer;
use crate::response::present;
use crate::response::status::{Failure, GroupResource};
use crate::server::decode;
use crate::write;

use super::sent;

const TOKEN_REQUEST: GroupResource<'static> =
    GroupResource { group: "authentication.k8s.io", resource: "TokenRequest" };

/// The shortest lifetime, in seconds: clients need time to renew a token.
const MIN_TOKEN_EXPIRATION_SECONDS: i64 = 600;
/// The longest lifetime, in seconds.
const MAX_TOKEN_EXPIRATION_SECONDS: i64 = 1 << 32;
/// The default lifetime, in seconds.
const DEFAULT_TOKEN_EXPIRATION_SECONDS: i64 = 3600;

/// Issues a token.
pub fn request(call: &Call) -> Result<Answer, Failure> {
    let mut request = sent(call, "TokenRequest", &["authentication.k8s.io/v1"])?;
    let name = &call.path.name;
    if !request.name().is_empty() && request.name() != name {
        let why = "must match the service account name if specified";
        let cause = Cause::invalid("metadata.name", request.name(), why);
        return Err(Failure::invalid(TOKEN_REQUEST, name, vec![cause]));
    }
    let seconds = request.number("spec.expirationSeconds").unwrap_or(DEFAULT_TOKEN_EXPIRATION_SECONDS);
    let mut causes = Vec::new();
    if seconds < MIN_TOKEN_EXPIRATION_SECONDS {
        let why = "may not specify a duration less than 10 minutes";
        causes.push(Cause::invalid("spec.expirationSeconds", seconds, why));
    } else if seconds > MAX_TOKEN_EXPIRATION_SECONDS {
        let why = "may not specify a duration larger than 2^32 seconds";
        causes.push(Cause::invalid("spec.expirationSeconds", seconds, why));
    }
    if !causes.is_empty() {
        return Err(Failure::invalid(TOKEN_REQUEST, "", causes));
    }
    let account = call.server.store().get(&write::object_key(call, name)).map(|record| decode(&record));
    let account = account.ok_or_else(|| Failure::not_found(call.resource.group_resource(), name))?;
    let bound = bound(call, &request)?;
    let warnings = admission::review_subresource(call, &request, false)?;
    let audiences: Vec<String> =
        request.list("spec.audiences").iter().filter_map(|audience| audience.as_str().map(str::to_owned)).collect();
    let audiences = if audiences.is_empty() { vec![AUDIENCE.to_owned()] } else { audiences };
    let now = call.server.clock().now();
    let claims = Claims {
        namespace: call.path.namespace.clone(),
        name: name.clone(),
        uid: account.uid().to_owned(),
        audiences: audiences.clone(),
        from: now.as_second(),
        until: now.as_second() + seconds,
        bound,
        id: clock::uid(call.server.clock()),
    };
    let token = call.server.signing_key().sign(&claims).map_err(Failure::internal)?;
    let reference = request.at("spec.boundObjectRef").cloned().unwrap_or_default();
    request.insert("kind".to_owned(), "TokenRequest".into());
    request.insert("apiVersion".to_owned(), "authentication.k8s.io/v1".into());
    request.set_meta("name", name.as_str());
    request.set_meta("namespace", call.path.namespace.as_str());
    request.set_meta("uid", account.uid());
    request.set_meta("creationTimestamp", clock::rfc3339(now));
    let spec = json!({"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference});
    request.insert("spec".to_owned(), spec);
    let end = clock::rfc3339(now + SignedDuration::from_secs(seconds));
    request.insert("status".to_owned(), json!({"token": token, "expirationTimestamp": end}));
    let format = call.accepted.format;
    let body = present::text(&Value::Object(request), format);
    Ok(Answer { status: StatusCode::CREATED, warnings, ..Answer::ok(format, body) })
}

/// The object that the token is bound to. It must exist.
fn bound(call: &Call, request: &Object) -> Result<Option<(String, String, String)>, Failure> {
    let Some(reference) = request.at("spec.boundObjectRef").filter(|reference| !reference.is_null()) else {
        return Ok(None);
    };
    let (kind, name, uid) = (reference.text("kind"), reference.text("name"), reference.text("uid"));
    let (word, namespace) = match (kind, reference.text("apiVersion")) {
        ("Pod", "v1") => ("pod", call.path.namespace.as_str()),
        ("Secret", "v1") => ("secret", call.path.namespace.as_str()),
        ("Node", "v1") => ("node", ""),
        (kind, version) => {
            return Err(Failure::bad_request(format!(
                "cannot bind token to object of type {version}, Kind={kind}: a pod, a secret or a node is accepted"
            )));
        }
    };
    let resources = format!("{word}s");
    let named = GroupResource { group: "", resource: &resources };
    let found = call.server.store().get(&Key::new(format!("core/{resources}"), namespace, name));
    let object = found.map(|record| decode(&record)).ok_or_else(|| Failure::not_found(named, name))?;
    if !uid.is_empty() && uid != object.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(Failure::conflict(GroupResource { group: "", resource: kind }, name, &why));
    }
    let account = object.text("spec.serviceAccountName");
    if kind == "Pod" && account != call.path.name {
        return Err(Failure::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            call.path.name
        )));
    }
    Ok(Some((word.to_owned(), name.to_owned(), object.uid().to_owned())))
}
