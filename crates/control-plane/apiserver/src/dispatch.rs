//! Request dispatch: authenticates a request, resolves its resource, authorises it, runs its verb and answers.
//!
//! Requests from a socket and from inside the process take the same path; the latter bring their identity along.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::access::{AccessRequest, Identity};
use crate::authentication::impersonation;
use crate::discovery;
use crate::request::decode::MAX_BODY_SIZE;
use crate::request::media::NegotiatedFormat;
use crate::request::options::Query;
use crate::request::{Call, RequestPath, ResourcePath, Verb};
use crate::resource::registry::Registry;
use crate::resource::{Resource, ServedSubresource};
use crate::response::status::{Failure, GroupResource};
use crate::response::{Answer, Body};
use crate::selector::FieldSelector;
use crate::server::Server;
use crate::{subresource, verb};

/// The error of a request's body, as [`Limited`] takes it.
type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The server as a tower service.
impl<B> tower_service::Service<Request<B>> for Server
where
    B: HttpBody + Send + 'static,
    B::Data: Send,
    B::Error: Into<BodyError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}

impl Server {
    /// Answers a request. A failure is an answer too.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Error: Into<BodyError>,
    {
        match self.dispatch(request).await {
            Ok(response) => response,
            Err(failure) => failure.into_response(&[]),
        }
    }

    async fn dispatch<B>(&self, request: Request<B>) -> Result<Response<Body>, Failure>
    where
        B: HttpBody + Send,
        B::Error: Into<BodyError>,
    {
        let (parts, body) = request.into_parts();
        let identity = match parts.extensions.get::<Identity>() {
            Some(identity) => identity.clone(),
            None => self.authenticate(&parts)?,
        };
        match RequestPath::parse(parts.uri.path()) {
            RequestPath::NonResource(path) => self.dispatch_non_resource(&parts, identity, &path),
            RequestPath::Resource(path) => self.dispatch_resource(parts, body, identity, path).await,
        }
    }

    fn dispatch_non_resource(&self, parts: &Parts, identity: Identity, path: &str) -> Result<Response<Body>, Failure> {
        let verb = parts.method.as_str().to_ascii_lowercase();
        let request = AccessRequest { verb: &verb, path: Some(path), ..AccessRequest::default() };
        let identity = impersonation::acting(&self.policy(), identity, &parts.headers, &request)?;
        self.authorise(&identity, &request)?;
        discovery::serve(&self.registry(), &parts.method, path, &parts.headers)
    }

    async fn dispatch_resource<B>(
        &self,
        parts: Parts,
        body: B,
        identity: Identity,
        path: ResourcePath,
    ) -> Result<Response<Body>, Failure>
    where
        B: HttpBody + Send,
        B::Error: Into<BodyError>,
    {
        let query = Query::parse(parts.uri.query());
        let is_watch = query.flag("watch").unwrap_or(false);
        let verb = path.verb(&parts.method, is_watch);
        let selected = selected_name(verb, &query);
        let request = AccessRequest { name: selected.as_deref().unwrap_or(&path.name), ..access_request(verb, &path) };
        let identity = impersonation::acting(&self.policy(), identity, &parts.headers, &request)?;
        self.authorise(&identity, &request)?;
        let registry = self.registry();
        let Some(Resolved { resource, subresource }) = resolve(&registry, &path, verb)? else {
            return Ok(discovery::not_found_page());
        };
        if path.is_watch_path && !matches!(parts.method, Method::GET | Method::HEAD) {
            return Err(Failure::method_not_allowed());
        }
        // Compat: HEAD is served for custom resources only.
        if parts.method == Method::HEAD && !resource.is_custom() {
            return Err(Failure::method_not_allowed());
        }
        check_name(&path.name)?;
        let accepted = NegotiatedFormat::choose(&parts.headers, true)?;
        let body = match verb {
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
                read_body(body).await?
            }
            Verb::Get | Verb::List | Verb::Watch | Verb::Other => Bytes::new(),
        };
        let headers = parts.headers;
        let warnings: Vec<String> = resource.deprecation_warning().map(str::to_owned).into_iter().collect();
        let server = self.clone();
        let call = Call { server, registry, resource, subresource, path, query, headers, identity, accepted, body };
        Ok(match run_verb(call, verb).await {
            Ok(mut answer) => {
                answer.warnings.splice(0..0, warnings);
                answer.into_response()
            }
            Err(mut failure) => {
                let warnings: Vec<String> = warnings.into_iter().chain(failure.warnings.drain(..)).collect();
                failure.into_response(&warnings)
            }
        })
    }

    pub(crate) fn authorise(&self, identity: &Identity, request: &AccessRequest<'_>) -> Result<(), Failure> {
        if self.policy().allows(identity, request) {
            return Ok(());
        }
        let named = GroupResource { group: request.group, resource: request.resource };
        Err(Failure::forbidden(named, request.name, &request.refusal(identity)))
    }
}

impl Call {
    /// Checks that the user may create the object as well: a write to a missing object creates it, which takes
    /// another right.
    pub fn check_creation(&self) -> Result<(), Failure> {
        self.server.authorise(&self.identity, &access_request(Verb::Create, &self.path))
    }
}

/// The result of the one look-up in the registry that a request makes.
struct Resolved {
    resource: Arc<Resource>,
    subresource: Option<ServedSubresource>,
}

/// Looks up the resource and the subresource of a path, and checks that they have the verb. None where the real server
/// answers a plain page: outside of the built-in groups, and in a scope that a custom resource does not have.
fn resolve(registry: &Registry, path: &ResourcePath, verb: Verb) -> Result<Option<Resolved>, Failure> {
    let Some(resource) = registry.find(&path.group, &path.version, &path.resource) else {
        return match registry.has_built_in(&path.group) {
            true => Err(Failure::unknown_path()),
            false => Ok(None),
        };
    };
    let is_out_of_scope = match resource.is_namespaced {
        true => path.namespace.is_empty() && !matches!(verb, Verb::List | Verb::Watch),
        false => !path.namespace.is_empty(),
    };
    if resource.is_custom() && is_out_of_scope {
        return Ok(None);
    }
    if !resource.is_namespaced && !path.namespace.is_empty() {
        return Err(Failure::unknown_path());
    }
    let subresource = match path.subresource.as_str() {
        "" => None,
        name => match resource.subresources().into_iter().find(|subresource| subresource.name == name) {
            Some(subresource) => Some(subresource),
            None if resource.is_custom() => return Err(Failure::not_found(resource.group_resource(), &path.name)),
            None => return Err(Failure::unknown_path()),
        },
    };
    check_verb(resource, subresource.as_ref(), path, verb)?;
    Ok(Some(Resolved { resource: resource.clone(), subresource }))
}

/// Refuses a verb that the resource does not have, or not at this path.
fn check_verb(
    resource: &Resource,
    subresource: Option<&ServedSubresource>,
    path: &ResourcePath,
    verb: Verb,
) -> Result<(), Failure> {
    if resource.is_custom() && subresource.is_none() {
        let is_nameless = path.name.is_empty() && matches!(verb, Verb::Update | Verb::Patch);
        return match verb {
            Verb::Other => Err(Failure::method_not_supported(resource.group_resource(), "")),
            _ if is_nameless => Err(Failure::bad_request("name must be provided")),
            _ => Ok(()),
        };
    }
    // One object, or all of a namespace, can be written or removed; nothing can be across namespaces.
    let lacks_namespace = resource.is_namespaced && path.namespace.is_empty();
    let is_misplaced = match verb {
        Verb::Create => (subresource.is_none() && !path.name.is_empty()) || lacks_namespace,
        Verb::Update | Verb::Patch | Verb::Delete => path.name.is_empty() || lacks_namespace,
        Verb::DeleteCollection => lacks_namespace,
        Verb::Get | Verb::List | Verb::Watch | Verb::Other => false,
    };
    let verbs = subresource.map_or(resource.verbs, |subresource| subresource.verbs);
    match verbs.contains(&verb) && !is_misplaced {
        true => Ok(()),
        false => Err(Failure::method_not_allowed()),
    }
}

/// Refuses names that a path cannot have.
fn check_name(name: &str) -> Result<(), Failure> {
    let why = match name {
        "." | ".." => format!("may not be '{name}'"),
        name if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    Err(Failure::bad_request(format!("Name parameter invalid: {name:?}: {why}")))
}

/// Runs the verb, or the action of the subresource that the path names.
async fn run_verb(call: Call, verb: Verb) -> Result<Answer, Failure> {
    if let Some(action) = subresource::action(&call) {
        return subresource::execute(&call, verb, &action).await;
    }
    match verb {
        Verb::Get => verb::get(&call),
        Verb::List => verb::list(&call),
        Verb::Watch => verb::watch(call),
        Verb::Create => verb::create(&call).await,
        Verb::Update => verb::update(&call).await,
        Verb::Patch => verb::patch(&call).await,
        Verb::Delete => verb::delete(&call).await,
        Verb::DeleteCollection => verb::delete_collection(&call).await,
        Verb::Other => Err(Failure::method_not_allowed()),
    }
}

/// The access request of a path. A Namespace object is in its own namespace.
fn access_request(verb: Verb, path: &ResourcePath) -> AccessRequest<'_> {
    let is_namespace = path.group.is_empty() && path.resource == "namespaces" && path.namespace.is_empty();
    AccessRequest {
        verb: verb.as_str(),
        group: &path.group,
        resource: &path.resource,
        subresource: &path.subresource,
        namespace: if is_namespace { &path.name } else { &path.namespace },
        name: &path.name,
        path: None,
    }
}

/// The one name that the field selector of a list or a watch allows: access to that name is enough for it.
fn selected_name(verb: Verb, query: &Query) -> Option<String> {
    if !matches!(verb, Verb::List | Verb::Watch) {
        return None;
    }
    let selector = FieldSelector::parse(query.get("fieldSelector")?).ok()?;
    let name = selector.required("metadata.name")?;
    // A text that cannot be part of a path is no name of an object.
    let is_name = !name.is_empty() && !matches!(name, "." | "..") && !name.contains(['/', '%']);
    is_name.then(|| name.to_owned())
}

/// Reads a body of at most [`MAX_BODY_SIZE`] bytes.
async fn read_body<B>(body: B) -> Result<Bytes, Failure>
where
    B: HttpBody + Send,
    B::Error: Into<BodyError>,
{
    match Limited::new(body, MAX_BODY_SIZE).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::too_large(MAX_BODY_SIZE)),
        Err(error) => Err(Failure::bad_request(format!("cannot read the request body: {error}"))),
    }
}
