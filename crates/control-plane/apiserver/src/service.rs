//! How a request travels: authenticate, find the resource, authorise, act, answer.
//!
//! The same way for a socket and for a client inside the process, which brings its identity along.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;

use crate::access::{Action, Identity};
use crate::authentication::impersonation;
use crate::body::Body;
use crate::call::{Answer, Call};
use crate::decode::MAX_BODY;
use crate::media::{self, Accepted, Format};
use crate::options::Query;
use crate::request::{ResourcePath, Target, Verb};
use crate::resource::Resource;
use crate::selector::FieldSelector;
use crate::server::Server;
use crate::status::{Failure, Named};
use crate::{discovery, openapi, subresource, swagger, verb, version};

/// The server as a tower service.
impl<B> tower_service::Service<Request<B>> for Server
where
    B: HttpBody + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display,
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
    /// Answers a request. Whatever goes wrong is an answer too.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Error: std::fmt::Display,
    {
        match self.handle(request).await {
            Ok(response) => response,
            Err(failure) => failure.into_response(&[]),
        }
    }

    async fn handle<B>(&self, request: Request<B>) -> Result<Response<Body>, Failure>
    where
        B: HttpBody + Send,
        B::Error: std::fmt::Display,
    {
        let (parts, body) = request.into_parts();
        let identity = match parts.extensions.get::<Identity>() {
            Some(identity) => identity.clone(),
            None => self.authenticate(&parts)?,
        };
        match Target::parse(parts.uri.path()) {
            Target::Other(path) => {
                let verb = parts.method.as_str().to_ascii_lowercase();
                let action = Action { verb: &verb, path: Some(&path), ..Action::default() };
                let identity = impersonation::acting(&self.policy(), identity, &parts.headers, &action)?;
                self.authorise(&identity, &action)?;
                self.other(&parts.method, &path, &parts.headers)
            }
            Target::Resource(path) => {
                let query = Query::parse(parts.uri.query());
                let is_watch = query.flag("watch").unwrap_or(false);
                let verb = path.verb(&parts.method, is_watch);
                let one = asked_name(verb, &query);
                let action = Action { name: one.as_deref().unwrap_or(&path.name), ..action(verb, &path) };
                let identity = impersonation::acting(&self.policy(), identity, &parts.headers, &action)?;
                self.authorise(&identity, &action)?;
                let registry = self.registry();
                let is_served = registry.find(&path.group, &path.version, &path.resource).is_some();
                if !is_served && !registry.has_built_in(&path.group) {
                    return Ok(no_page());
                }
                let found = registry.find(&path.group, &path.version, &path.resource);
                let is_all = matches!(verb, Verb::List | Verb::Watch);
                let is_misplaced =
                    found.filter(|found| found.is_custom()).is_some_and(|found| match found.is_namespaced {
                        true => path.namespace.is_empty() && !is_all,
                        false => !path.namespace.is_empty(),
                    });
                if is_misplaced {
                    return Ok(no_page());
                }
                let resource = self.find(&path, verb)?;
                if path.is_watch_path && !matches!(parts.method, Method::GET | Method::HEAD) {
                    return Err(Failure::method_not_allowed());
                }
                // Compat: only users' kinds are looked at without being read.
                if parts.method == Method::HEAD && !resource.is_custom() {
                    return Err(Failure::method_not_allowed());
                }
                check_name(&path.name)?;
                let accepted = Accepted::choose(&parts.headers, true)?;
                let body = match verb {
                    Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
                        read(body).await?
                    }
                    Verb::Get | Verb::List | Verb::Watch | Verb::Other => Bytes::new(),
                };
                let headers = parts.headers;
                let warnings: Vec<String> = resource.warning().map(str::to_owned).into_iter().collect();
                let call = Call { server: self.clone(), resource, path, query, headers, identity, accepted, body };
                Ok(match act(call, verb).await {
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
        }
    }

    pub(crate) fn authorise(&self, identity: &Identity, action: &Action<'_>) -> Result<(), Failure> {
        if self.policy().allows(identity, action) {
            return Ok(());
        }
        let named = Named { group: action.group, word: action.resource };
        Err(Failure::forbidden(named, action.name, &action.refusal(identity)))
    }

    /// The resource of a path, if it is served and has the verb.
    fn find(&self, path: &ResourcePath, verb: Verb) -> Result<Arc<Resource>, Failure> {
        let registry = self.registry();
        let resource = registry.find(&path.group, &path.version, &path.resource).ok_or_else(Failure::unknown_path)?;
        if !resource.is_namespaced && !path.namespace.is_empty() {
            return Err(Failure::unknown_path());
        }
        let verbs = match path.subresource.as_str() {
            "" => resource.verbs,
            below => match resource.below().into_iter().find(|offered| offered.name == below) {
                Some(offered) => offered.verbs,
                None if resource.is_custom() => return Err(Failure::not_found(resource.named(), &path.name)),
                None => return Err(Failure::unknown_path()),
            },
        };
        if resource.is_custom() && path.subresource.is_empty() {
            let is_nameless = path.name.is_empty() && matches!(verb, Verb::Update | Verb::Patch);
            return match verb {
                Verb::Other => Err(Failure::method_not_supported(resource.named(), "")),
                _ if is_nameless => Err(Failure::bad_request("name must be provided")),
                _ => Ok(resource.clone()),
            };
        }
        let is_creation = verb == Verb::Create && path.subresource.is_empty();
        // One object or all of a namespace can be written or removed; nothing can be across namespaces.
        let lacks_namespace = resource.is_namespaced && path.namespace.is_empty();
        let is_misplaced = match verb {
            Verb::Create => (is_creation && !path.name.is_empty()) || lacks_namespace,
            Verb::Update | Verb::Patch | Verb::Delete => path.name.is_empty() || lacks_namespace,
            Verb::DeleteCollection => lacks_namespace,
            Verb::Get | Verb::List | Verb::Watch | Verb::Other => false,
        };
        if !verbs.contains(&verb) || is_misplaced {
            return Err(Failure::method_not_allowed());
        }
        Ok(resource.clone())
    }

    /// Everything that is no resource.
    fn other(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<Response<Body>, Failure> {
        if path.starts_with("//") {
            return Ok(no_page());
        }
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let registry = self.registry();
        let found = match parts.as_slice() {
            _ if path.contains("//") => None,
            ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", "ping"] => {
                return Ok(answered("text/plain; charset=utf-8", "ok"));
            }
            ["version"] => Some(version::version()),
            ["api"] | ["apis"] if Accepted::choose(headers, false)?.aggregated => {
                let list = discovery::aggregated(&registry, parts == ["api"]);
                return Ok(answered(discovery::AGGREGATED, list.to_string()));
            }
            ["openapi", "v2"] => {
                return Ok(match media::chooses(headers, &[swagger::PROTOBUF, swagger::PROTOBUF_BEFORE])? {
                    true => answered(swagger::PROTOBUF, swagger::binary(&registry)),
                    false => answered(Format::Json.content_type(), swagger::document(&registry)),
                });
            }
            ["openapi", "v3"] => return Ok(answered(Format::Json.content_type(), registry.openapi_index())),
            ["openapi", "v3", "api", version] => openapi::document(&registry, "", version),
            ["openapi", "v3", "apis", group, version] => openapi::document(&registry, group, version),
            ["api"] => Some(discovery::core_versions()),
            ["apis"] => Some(discovery::groups(&registry)),
            ["api", version] => discovery::resources(&registry, "", version),
            ["apis", group] => discovery::group(&registry, group),
            ["apis", group, version] => discovery::resources(&registry, group, version),
            _ => None,
        };
        // Compat: what is no resource is answered whatever the method is, these excepted.
        let is_strict = matches!(parts.as_slice(), ["version"] | ["api", ..] | ["apis", _, _]);
        match (found, parts.as_slice()) {
            (Some(_), _) if is_strict && *method != Method::GET => Err(Failure::method_not_allowed()),
            (Some(found), _) => Ok(answered(Format::Json.content_type(), found.to_string())),
            (None, ["api", ..]) => Err(Failure::unknown_path()),
            (None, ["apis", group, ..]) if registry.has_built_in(group) => Err(Failure::unknown_path()),
            (None, _) => Ok(no_page()),
        }
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

/// The answer outside of the served groups, where the real server is a plain web server: clients that get no
/// `Status` make one themselves, which names what they asked for.
fn no_page() -> Response<Body> {
    let mut response = answered("text/plain; charset=utf-8", "404 page not found\n");
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn answered(content_type: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::from(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

async fn act(call: Call, verb: Verb) -> Result<Answer, Failure> {
    if let Some(deed) = subresource::deed(&call) {
        return subresource::act(&call, verb, &deed).await;
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

impl Call {
    /// Whether who changes something that is missing may also create it: a change alone takes another right.
    pub fn check_creation(&self) -> Result<(), Failure> {
        self.server.authorise(&self.identity, &action(Verb::Create, &self.path))
    }
}

/// What access rules say about the request: a namespace is in its own namespace.
fn action(verb: Verb, path: &ResourcePath) -> Action<'_> {
    let is_namespace = path.group.is_empty() && path.resource == "namespaces" && path.namespace.is_empty();
    Action {
        verb: verb.word(),
        group: &path.group,
        resource: &path.resource,
        subresource: &path.subresource,
        namespace: if is_namespace { &path.name } else { &path.namespace },
        name: &path.name,
        path: None,
    }
}

/// The one name that a list or a watch asks for: a right to that name is enough for it.
fn asked_name(verb: Verb, query: &Query) -> Option<String> {
    if !matches!(verb, Verb::List | Verb::Watch) {
        return None;
    }
    let selector = FieldSelector::parse(query.get("fieldSelector")?).ok()?;
    let name = selector.required("metadata.name")?;
    // What can be no part of a path is no name of an object.
    let is_name = !name.is_empty() && !matches!(name, "." | "..") && !name.contains(['/', '%']);
    is_name.then(|| name.to_owned())
}

/// Reads a body, as long as it is not too large.
async fn read<B>(body: B) -> Result<Bytes, Failure>
where
    B: HttpBody + Send,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::bad_request(format!("the body cannot be read: {error}")))?;
        if let Ok(mut data) = frame.into_data() {
            if bytes.len() + data.remaining() > MAX_BODY {
                return Err(Failure::too_large(MAX_BODY));
            }
            while data.has_remaining() {
                let chunk = data.chunk();
                bytes.extend_from_slice(chunk);
                let length = chunk.len();
                data.advance(length);
            }
        }
    }
    Ok(bytes.into())
}
