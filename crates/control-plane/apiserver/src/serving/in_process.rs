//! In-process service: the server as one user calls it from the same process, without socket and TLS.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body as HttpBody;

use crate::access::Identity;
use crate::response::Body;
use crate::server::Server;

/// The server for one user in the same process. Access rules apply as for other clients.
#[derive(Clone, Debug)]
pub struct InProcessService {
    server: Server,
    identity: Identity,
}

impl Server {
    /// A service that sends requests as this user.
    pub fn in_process(&self, identity: Identity) -> InProcessService {
        InProcessService { server: self.clone(), identity }
    }
}

impl<B> tower_service::Service<Request<B>> for InProcessService
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
