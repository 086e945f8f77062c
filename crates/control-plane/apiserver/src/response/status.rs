//! `Status` answers of failed requests, worded as the real server words them.
//!
//! Clients evaluate `code`, `reason` and `details`; users read `message`. All are built here, so that a failure is
//! reported the same by every verb.

use serde_json::{Map, Value, json};

/// The reason of a failure because the name is taken.
pub const ALREADY_EXISTS: &str = "AlreadyExists";

/// A failed request, with the fields of its `Status`.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable word, empty for none.
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// Seconds after which a client may try again.
    pub retry_after: Option<u32>,
    pub warnings: Vec<String>,
    /// The continue token of an expired list.
    pub continue_token: Option<String>,
}

/// `details` of a `Status`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Details {
    /// The object's name, empty for none.
    pub name: String,
    /// The API group, empty for the core group.
    pub group: String,
    /// The kind, or the resource where the real server says that.
    pub kind: String,
    pub causes: Vec<Cause>,
}

/// An entry of `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid` and its like.
    pub reason: &'static str,
    pub message: String,
    /// Where, as a path of field names; empty for none.
    pub field: String,
}

/// A group with a resource or kind, as messages name it.
#[derive(Debug, Clone, Copy)]
pub struct GroupResource<'a> {
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// Plural name or kind.
    pub resource: &'a str,
}

impl GroupResource<'_> {
    fn qualified(self) -> String {
        if self.group.is_empty() { self.resource.to_owned() } else { format!("{}.{}", self.resource, self.group) }
    }

    fn details(self, name: &str) -> Details {
        Details {
            name: name.to_owned(),
            group: self.group.to_owned(),
            kind: self.resource.to_owned(),
            causes: Vec::new(),
        }
    }
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Failure {
        Failure {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
            warnings: Vec::new(),
            continue_token: None,
        }
    }

    /// The failure with additional warnings.
    pub fn with_warnings(mut self, warnings: &[String]) -> Failure {
        self.warnings.extend_from_slice(warnings);
        self
    }

    fn about(mut self, details: Details) -> Failure {
        self.details = Some(Box::new(details));
        self
    }

    /// 404 for an unknown path.
    pub fn unknown_path() -> Failure {
        Failure::new(404, "NotFound", "the server could not find the requested resource").about(Details::default())
    }

    /// The object does not exist.
    pub fn not_found(resource: GroupResource<'_>, name: &str) -> Failure {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Failure::new(404, "NotFound", message).about(resource.details(name))
    }

    /// The name is taken.
    pub fn already_exists(resource: GroupResource<'_>, name: &str) -> Failure {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Failure::new(409, ALREADY_EXISTS, message).about(resource.details(name))
    }

    /// The name is taken by an object that is being deleted.
    pub fn already_exists_deleting(resource: GroupResource<'_>, name: &str) -> Failure {
        let mut failure = Failure::already_exists(resource, name);
        failure.message = format!("object is being deleted: {}", failure.message);
        failure
    }

    /// The generated name is taken, after all attempts.
    pub fn no_unique_name(resource: GroupResource<'_>, name: &str) -> Failure {
        let mut failure = Failure::already_exists(resource, name);
        failure.message += ", the server was not able to generate a unique name for the object";
        failure.retry_after = Some(1);
        failure
    }

    pub fn conflict(named: GroupResource<'_>, name: &str, why: &str) -> Failure {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", named.qualified());
        Failure::new(409, "Conflict", message).about(named.details(name))
    }

    /// The object was changed since the client read it.
    pub fn modified(resource: GroupResource<'_>, name: &str) -> Failure {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Failure::conflict(resource, name, why)
    }

    /// Other managers own fields that an apply would change.
    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Failure {
        Failure::new(409, "Conflict", message).about(Details { causes, ..Details::default() })
    }

    /// The object breaks the rules of its kind.
    pub fn invalid(kind: GroupResource<'_>, name: &str, causes: Vec<seaworthy_schema::Cause>) -> Failure {
        let message = format!("{} \"{name}\" is invalid: {}", kind.qualified(), seaworthy_schema::summary(&causes));
        let causes = causes.into_iter().map(Cause::from).collect();
        Failure::new(422, "Invalid", message).about(Details { causes, ..kind.details(name) })
    }

    pub fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(400, "BadRequest", message)
    }

    pub fn unprocessable(message: impl Into<String>) -> Failure {
        Failure::new(422, "Invalid", message).about(Details::default())
    }

    /// The identity is unknown.
    pub fn unauthorized() -> Failure {
        Failure::new(401, "Unauthorized", "Unauthorized")
    }

    /// The identity may not do that, or a rule forbids it.
    pub fn forbidden(resource: GroupResource<'_>, name: &str, why: &str) -> Failure {
        let subject = match (resource.resource, name) {
            ("", _) => "forbidden".to_owned(),
            (_, "") => format!("{} is forbidden", resource.qualified()),
            _ => format!("{} \"{name}\" is forbidden", resource.qualified()),
        };
        Failure::new(403, "Forbidden", format!("{subject}: {why}")).about(resource.details(name))
    }

    /// The resource has no such verb.
    pub fn method_not_allowed() -> Failure {
        let message = "the server does not allow this method on the requested resource";
        Failure::new(405, "MethodNotAllowed", message).about(Details::default())
    }

    /// The resource has the verb in general, but this object refuses it.
    pub fn method_not_supported(resource: GroupResource<'_>, verb: &str) -> Failure {
        let message = format!("{verb} is not supported on resources of kind \"{}\"", resource.qualified());
        Failure::new(405, "MethodNotAllowed", message).about(resource.details(""))
    }

    /// None of the representations that the client accepts.
    pub fn not_acceptable(message: impl Into<String>) -> Failure {
        Failure::new(406, "NotAcceptable", message)
    }

    /// The body is in no format that is understood here.
    pub fn unsupported_media_type(accepted: &str) -> Failure {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Failure::new(415, "UnsupportedMediaType", message)
    }

    /// The body is in a format that no patch has.
    pub fn unsupported_patch() -> Failure {
        Failure::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").about(Details::default())
    }

    /// The body is larger than the server takes.
    pub fn too_large(limit: usize) -> Failure {
        Failure::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// The revision is older than what is kept.
    pub fn expired(message: impl Into<String>) -> Failure {
        Failure::new(410, "Expired", message)
    }

    /// The revision is newer than anything there is.
    pub fn revision_too_large(asked: u64, newest: u64) -> Failure {
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let message = format!("Timeout: Too large resource version: {asked}, current: {newest}");
        let mut failure =
            Failure::new(504, "Timeout", message).about(Details { causes: vec![cause], ..Details::default() });
        failure.retry_after = Some(1);
        failure
    }

    /// The request timed out.
    pub fn timed_out() -> Failure {
        Failure::new(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
            .about(Details::default())
    }

    pub fn too_many_requests(message: impl Into<String>, seconds: u32) -> Failure {
        let mut failure = Failure::new(429, "TooManyRequests", message).about(Details::default());
        failure.retry_after = Some(seconds);
        failure
    }

    /// The store cannot write: a full or failing disk. Reads still work.
    pub fn storage(message: impl Into<String>) -> Failure {
        Failure::new(507, "InsufficientStorage", message)
    }

    /// The failure for an error of the store.
    pub fn of_commit(error: &seaworthy_store::CommitError) -> Failure {
        use seaworthy_store::CommitError;
        match error {
            CommitError::Unavailable { is_full: true, .. } => Failure::storage(format!(
                "{error}; nothing was changed, reads still work; free space on the disk of the data folder and try again"
            )),
            CommitError::Unavailable { is_full: false, .. } => Failure::internal(format!(
                "{error}; nothing was changed, reads still work; check the disk of the data folder (it may be read-only or \
                 failing) and try again"
            )),
            other => Failure::internal(other),
        }
    }

    /// An internal error. The message must not quote the request's content.
    pub fn internal(message: impl std::fmt::Display) -> Failure {
        let cause = Cause { reason: "", message: message.to_string(), field: String::new() };
        Failure::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .about(Details { causes: vec![cause], ..Details::default() })
    }

    /// A 500 without reason, which kube-apiserver answers to some invalid requests.
    pub fn unexplained(message: impl Into<String>) -> Failure {
        Failure::new(500, "", message)
    }

    /// The `Status` as JSON.
    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_json(self.retry_after);
        }
        status
    }
}

impl Details {
    fn to_json(&self, retry_after: Option<u32>) -> Value {
        let mut json = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind)] {
            if !text.is_empty() {
                json.insert(key.to_owned(), text.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            json.insert("causes".to_owned(), self.causes.iter().map(Cause::to_json).collect());
        }
        if let Some(seconds) = retry_after {
            json.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        json.into()
    }
}

impl From<seaworthy_schema::Cause> for Cause {
    fn from(cause: seaworthy_schema::Cause) -> Cause {
        Cause { reason: cause.reason.as_str(), message: cause.message, field: cause.field }
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut json = Map::new();
        for (key, text) in [("reason", self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                json.insert(key.to_owned(), text.into());
            }
        }
        json.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG_MAPS: GroupResource<'static> = GroupResource { group: "", resource: "configmaps" };
    const WIDGET: GroupResource<'static> = GroupResource { group: "example.com", resource: "Widget" };

    #[test]
    fn several_causes_are_listed_in_brackets_and_all_of_them_are_details() {
        let causes = vec![seaworthy_schema::Cause::required("a", ""), seaworthy_schema::Cause::forbidden("b", "no")];
        let failure = Failure::invalid(WIDGET, "x", causes);
        assert_eq!(failure.message, "Widget.example.com \"x\" is invalid: [a: Required value, b: Forbidden: no]");
        assert_eq!(failure.details.unwrap().causes.len(), 2);
    }

    #[test]
    fn core_group_is_left_out_of_messages_and_details() {
        let json = Failure::not_found(CONFIG_MAPS, "a").to_json();
        assert_eq!(json["message"], "configmaps \"a\" not found");
        assert_eq!(json["details"], json!({"kind": "configmaps", "name": "a"}));
    }

    #[test]
    fn details_of_an_unknown_path_are_there_but_empty() {
        assert_eq!(Failure::unknown_path().to_json()["details"], json!({}));
        assert_eq!(Failure::bad_request("x").to_json().get("details"), None);
    }
}
