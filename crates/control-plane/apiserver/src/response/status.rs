//! The answer of a failed request: a `Status`, as the real server words it.
//!
//! Clients decide by `code`, `reason` and `details`, people read `message`. All of them are made here, so that the same
//! failure looks the same whichever verb met it.

use serde_json::{Map, Value, json};

/// The reason of a failure because the name is taken.
pub const ALREADY_EXISTS: &str = "AlreadyExists";

/// A request that failed, with everything its answer says.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable word, empty for none.
    pub reason: &'static str,
    /// What people read.
    pub message: String,
    /// What it is about, where the answer has details.
    pub details: Option<Box<Details>>,
    /// Seconds after which a client may try again.
    pub retry_after: Option<u32>,
    /// What the client should know beside.
    pub warnings: Vec<String>,
    /// Where a list that was cut short may go on.
    pub continue_token: Option<String>,
}

/// What a failure is about.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Details {
    /// The object's name, empty for none.
    pub name: String,
    /// The API group, empty for the core group.
    pub group: String,
    /// The kind, or the resource where the real server says that.
    pub kind: String,
    /// The single mistakes.
    pub causes: Vec<Cause>,
}

/// One mistake, as it is written into an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid` and its like.
    pub reason: &'static str,
    /// What is wrong.
    pub message: String,
    /// Where, as a path of field names; empty for none.
    pub field: String,
}

/// A resource or kind with its group, as messages name it.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// Plural name or kind.
    pub word: &'a str,
}

impl Named<'_> {
    fn qualified(self) -> String {
        if self.group.is_empty() { self.word.to_owned() } else { format!("{}.{}", self.word, self.group) }
    }

    fn details(self, name: &str) -> Details {
        Details { name: name.to_owned(), group: self.group.to_owned(), kind: self.word.to_owned(), causes: Vec::new() }
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

    /// The same, with what else there is to say about the request.
    pub fn warned(mut self, warnings: &[String]) -> Failure {
        self.warnings.extend_from_slice(warnings);
        self
    }

    fn about(mut self, details: Details) -> Failure {
        self.details = Some(Box::new(details));
        self
    }

    /// The path stands for nothing.
    pub fn unknown_path() -> Failure {
        Failure::new(404, "NotFound", "the server could not find the requested resource").about(Details::default())
    }

    /// The object does not exist.
    pub fn not_found(resource: Named<'_>, name: &str) -> Failure {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Failure::new(404, "NotFound", message).about(resource.details(name))
    }

    /// The name is taken.
    pub fn already_exists(resource: Named<'_>, name: &str) -> Failure {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Failure::new(409, ALREADY_EXISTS, message).about(resource.details(name))
    }

    /// The name is taken by an object that is on its way out.
    pub fn already_exists_deleting(resource: Named<'_>, name: &str) -> Failure {
        let mut failure = Failure::already_exists(resource, name);
        failure.message = format!("object is being deleted: {}", failure.message);
        failure
    }

    /// The name is taken, and so were all others that were made up.
    pub fn no_unique_name(resource: Named<'_>, name: &str) -> Failure {
        let mut failure = Failure::already_exists(resource, name);
        failure.message += ", the server was not able to generate a unique name for the object";
        failure.retry_after = Some(1);
        failure
    }

    /// The object is not as the request expects it.
    pub fn conflict(named: Named<'_>, name: &str, why: &str) -> Failure {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", named.qualified());
        Failure::new(409, "Conflict", message).about(named.details(name))
    }

    /// The object was changed since the client read it.
    pub fn modified(resource: Named<'_>, name: &str) -> Failure {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Failure::conflict(resource, name, why)
    }

    /// Other managers own fields that an apply would change.
    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Failure {
        Failure::new(409, "Conflict", message).about(Details { causes, ..Details::default() })
    }

    /// The object breaks the rules of its kind.
    pub fn invalid(kind: Named<'_>, name: &str, causes: Vec<seaworthy_schema::Cause>) -> Failure {
        let message = format!("{} \"{name}\" is invalid: {}", kind.qualified(), seaworthy_schema::summary(&causes));
        let causes = causes.into_iter().map(Cause::from).collect();
        Failure::new(422, "Invalid", message).about(Details { causes, ..kind.details(name) })
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(400, "BadRequest", message)
    }

    /// The request is understood and cannot be done.
    pub fn unprocessable(message: impl Into<String>) -> Failure {
        Failure::new(422, "Invalid", message).about(Details::default())
    }

    /// The identity is unknown.
    pub fn unauthorized() -> Failure {
        Failure::new(401, "Unauthorized", "Unauthorized")
    }

    /// The identity may not do that, or a rule forbids it.
    pub fn forbidden(resource: Named<'_>, name: &str, why: &str) -> Failure {
        let subject = match (resource.word, name) {
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
    pub fn method_not_supported(resource: Named<'_>, verb: &str) -> Failure {
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

    /// The answer takes too long.
    pub fn timed_out() -> Failure {
        Failure::new(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
            .about(Details::default())
    }

    /// The client should come back later.
    pub fn too_many_requests(message: impl Into<String>, seconds: u32) -> Failure {
        let mut failure = Failure::new(429, "TooManyRequests", message).about(Details::default());
        failure.retry_after = Some(seconds);
        failure
    }

    /// The store cannot write at the moment: a full or broken disk. Reads go on.
    pub fn storage(message: impl Into<String>) -> Failure {
        Failure::new(507, "InsufficientStorage", message)
    }

    /// What the store says when it does not write.
    pub fn of_commit(error: &seaworthy_store::CommitError) -> Failure {
        use seaworthy_store::CommitError;
        match error {
            CommitError::Unavailable { is_full: true, .. } => Failure::storage(format!(
                "{error}; nothing was changed, and reads go on; make room on the disk that holds the data folder and \
                 try again"
            )),
            CommitError::Unavailable { is_full: false, .. } => Failure::internal(format!(
                "{error}; nothing was changed, and reads go on; see to the disk that holds the data folder (it may be \
                 read-only or failing) and try again"
            )),
            other => Failure::internal(other),
        }
    }

    /// A fault of the server. The message must not carry anything of the request's content.
    pub fn internal(message: impl std::fmt::Display) -> Failure {
        let cause = Cause { reason: "", message: message.to_string(), field: String::new() };
        Failure::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .about(Details { causes: vec![cause], ..Details::default() })
    }

    /// A request that is wrong in a way that the real server calls its own fault, with no reason.
    pub fn unexplained(message: impl Into<String>) -> Failure {
        Failure::new(500, "", message)
    }

    /// The JSON of the answer.
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

    const CONFIG_MAPS: Named<'static> = Named { group: "", word: "configmaps" };
    const WIDGET: Named<'static> = Named { group: "example.com", word: "Widget" };

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
