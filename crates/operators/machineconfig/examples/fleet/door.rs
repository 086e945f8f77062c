//! The way into the embedded server: it counts what is written, and tells the machines of their orders.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use kube::client::Body;
use seaworthy_apiserver::{Identity, Server};
use tokio::sync::mpsc::UnboundedSender;

/// A door for one user. Cloning shares what it counts.
#[derive(Clone)]
pub struct Door {
    server: Server,
    identity: Identity,
    writes: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Gets the name of every node that is written to.
    nodes: Option<UnboundedSender<String>>,
}

impl Door {
    /// A door for this user, who may do everything.
    pub fn new(server: &Server, user: &str, nodes: Option<UnboundedSender<String>>) -> Door {
        let identity = Identity::authenticated(user, ["system:masters".to_owned()]);
        Door { server: server.clone(), identity, writes: Arc::default(), nodes }
    }

    /// How often was written, by what was written and how.
    pub fn writes(&self) -> BTreeMap<String, u64> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request.
    pub async fn send(&self, mut request: Request<Body>) -> Response<seaworthy_apiserver::Body> {
        request.extensions_mut().insert(self.identity.clone());
        let written = (request.method() != Method::GET).then(|| Written::of(request.uri().path()));
        let method = request.method().clone();
        let response = self.server.answer(request).await;
        if let Some(Written { what, name }) = written {
            let refused = if response.status().is_success() { "" } else { ", refused" };
            let count = format!("{method} {what}{refused}");
            *self.writes.lock().unwrap_or_else(PoisonError::into_inner).entry(count).or_default() += 1;
            if let Some(nodes) = self.nodes.as_ref().filter(|_| what == "nodes") {
                // Nobody listens any more once all is over.
                let _ = nodes.send(name);
            }
        }
        response
    }
}

impl tower_service::Service<Request<Body>> for Door {
    type Response = Response<seaworthy_apiserver::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let door = self.clone();
        Box::pin(async move { Ok(door.send(request).await) })
    }
}

/// What a path writes to.
struct Written {
    /// The resource, with the subresource where there is one.
    what: String,
    name: String,
}

impl Written {
    fn of(path: &str) -> Written {
        let mut words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
        words.drain(..words.len().min(if words.first() == Some(&"api") { 2 } else { 3 }));
        if words.len() > 2 && words[0] == "namespaces" {
            words.drain(..2);
        }
        let word = |nth: usize| words.get(nth).copied().unwrap_or_default();
        let what = if words.len() > 2 { format!("{}/{}", word(0), word(2)) } else { word(0).to_owned() };
        Written { what, name: word(1).to_owned() }
    }
}
