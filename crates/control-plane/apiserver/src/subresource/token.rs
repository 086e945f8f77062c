//! `serviceaccounts/token`: a token that says who the account is, for a while and for some audiences.

use http::StatusCode;
use jiff::SignedDuration;
use seaworthy_schema::Cause;
use seaworthy_store::Key;
use serde_json::{Value, json};

use crate::admission;
use crate::authentication::{AUDIENCE, Claims};
use crate::clock;
use crate::object::reach::Reach;
use crate::object::{Metadata, Object};
use crate::request::Call;
use crate::response::Answer;
use crate::response::present;
use crate::response::status::{Failure, Named};
use crate::server::decode;
use crate::write;

use super::sent;

const REQUEST: Named<'static> = Named { group: "authentication.k8s.io", word: "TokenRequest" };

/// The least that a token lasts, in seconds: less, and clients cannot renew it in time.
const SHORTEST: i64 = 600;
/// The most.
const LONGEST: i64 = 1 << 32;
/// What is not said.
const USUAL: i64 = 3600;

/// Makes a token.
pub fn request(call: &Call) -> Result<Answer, Failure> {
    let mut request = sent(call, "TokenRequest", &["authentication.k8s.io/v1"])?;
    let name = &call.path.name;
    if !request.name().is_empty() && request.name() != name {
        let why = "must match the service account name if specified";
        let cause = Cause::invalid("metadata.name", request.name(), why);
        return Err(Failure::invalid(REQUEST, name, vec![cause]));
    }
    let seconds = request.number("spec.expirationSeconds").unwrap_or(USUAL);
    let mut causes = Vec::new();
    if seconds < SHORTEST {
        let why = "may not specify a duration less than 10 minutes";
        causes.push(Cause::invalid("spec.expirationSeconds", seconds, why));
    } else if seconds > LONGEST {
        let why = "may not specify a duration larger than 2^32 seconds";
        causes.push(Cause::invalid("spec.expirationSeconds", seconds, why));
    }
    if !causes.is_empty() {
        return Err(Failure::invalid(REQUEST, "", causes));
    }
    let account = call.server.store().get(&write::own_key(call, name)).map(|record| decode(&record));
    let account = account.ok_or_else(|| Failure::not_found(call.resource.named(), name))?;
    let bound = bound(call, &request)?;
    let warnings = admission::review_deed(call, &request, false)?;
    let audiences: Vec<String> =
        request.list("spec.audiences").iter().filter_map(|audience| audience.as_str().map(str::to_owned)).collect();
    let audiences = if audiences.is_empty() { vec![AUDIENCE.to_owned()] } else { audiences };
    let now = call.server.world().now();
    let claims = Claims {
        namespace: call.path.namespace.clone(),
        name: name.clone(),
        uid: account.uid().to_owned(),
        audiences: audiences.clone(),
        from: now.as_second(),
        until: now.as_second() + seconds,
        bound,
        id: clock::uid(call.server.world()),
    };
    let token = call.server.keys().sign(&claims).map_err(Failure::internal)?;
    let reference = request.at("spec.boundObjectRef").cloned().unwrap_or_default();
    request.insert("kind".to_owned(), "TokenRequest".into());
    request.insert("apiVersion".to_owned(), "authentication.k8s.io/v1".into());
    request.set_meta("name", name.as_str());
    request.set_meta("namespace", call.path.namespace.as_str());
    request.set_meta("uid", account.uid());
    request.set_meta("creationTimestamp", clock::written(now));
    let spec = json!({"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference});
    request.insert("spec".to_owned(), spec);
    let end = clock::written(now + SignedDuration::from_secs(seconds));
    request.insert("status".to_owned(), json!({"token": token, "expirationTimestamp": end}));
    let format = call.accepted.format;
    let body = present::text(&Value::Object(request), format);
    Ok(Answer { status: StatusCode::CREATED, warnings, ..Answer::ok(format, body) })
}

/// The object that the token is bound to: it must be there.
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
    let named = Named { group: "", word: &resources };
    let found = call.server.store().get(&Key::new(format!("core/{resources}"), namespace, name));
    let object = found.map(|record| decode(&record)).ok_or_else(|| Failure::not_found(named, name))?;
    if !uid.is_empty() && uid != object.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(Failure::conflict(Named { group: "", word: kind }, name, &why));
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
