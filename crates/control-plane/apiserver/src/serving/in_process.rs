//! The way into the server for a client in the same process: no socket, no handshake.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body as HttpBody;

use crate::access::Identity;
use crate::response::Body;
use crate::server::Server;

/// The server as one user reaches it from within the process. What this user may do is decided as for everybody else.
#[derive(Clone, Debug)]
pub struct Inside {
    server: Server,
    identity: Identity,
}

impl Server {
    /// The way in for a user.
    pub fn inside(&self, identity: Identity) -> Inside {
        Inside { server: self.clone(), identity }
    }
}

impl<B> tower_service::Service<Request<B>> for Inside
where
    B: HttpBody + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        tower_service::Service::<Request<B>>::poll_ready(&mut self.server, cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.identity.clone());
        self.server.call(request)
    }
}
