//! [`CountingService`]: a client service of the embedded server that counts writes and reports written nodes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use kube::client::Body;
use seaworthy_apiserver::{Identity, Server};
use tokio::sync::mpsc::UnboundedSender;

/// The service of one user. Clones share the counts.
#[derive(Clone)]
pub struct CountingService {
    server: Server,
    identity: Identity,
    writes: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Receives the name of every node that is written to.
    nodes: Option<UnboundedSender<String>>,
}

impl CountingService {
    /// The service of this user, who has all rights.
    pub fn new(server: &Server, user: &str, nodes: Option<UnboundedSender<String>>) -> CountingService {
        let identity = Identity::authenticated(user, ["system:masters".to_owned()]);
        CountingService { server: server.clone(), identity, writes: Arc::default(), nodes }
    }

    /// The number of writes by method and resource.
    pub fn writes(&self) -> BTreeMap<String, u64> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request.
    pub async fn send(&self, mut request: Request<Body>) -> Response<seaworthy_apiserver::Body> {
        request.extensions_mut().insert(self.identity.clone());
        let written = (request.method() != Method::GET).then(|| WriteTarget::of(request.uri().path()));
        let method = request.method().clone();
        let response = self.server.answer(request).await;
        if let Some(WriteTarget { resource, name }) = written {
            let refused = if response.status().is_success() { "" } else { ", refused" };
            let count = format!("{method} {resource}{refused}");
            *self.writes.lock().unwrap_or_else(PoisonError::into_inner).entry(count).or_default() += 1;
            if let Some(nodes) = self.nodes.as_ref().filter(|_| resource == "nodes") {
                // The receiver is gone at the end of the run.
                let _ = nodes.send(name);
            }
        }
        response
    }
}

impl tower_service::Service<Request<Body>> for CountingService {
    type Response = Response<seaworthy_apiserver::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.send(request).await) })
    }
}

/// What a path writes to.
struct WriteTarget {
    /// The resource, with the subresource where there is one.
    resource: String,
    name: String,
}

impl WriteTarget {
    fn of(path: &str) -> WriteTarget {
        let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        segments.drain(..segments.len().min(if segments.first() == Some(&"api") { 2 } else { 3 }));
        if segments.len() > 2 && segments[0] == "namespaces" {
            segments.drain(..2);
        }
        let segment = |nth: usize| segments.get(nth).copied().unwrap_or_default();
        let resource =
            if segments.len() > 2 { format!("{}/{}", segment(0), segment(2)) } else { segment(0).to_owned() };
        WriteTarget { resource, name: segment(1).to_owned() }
    }
}
