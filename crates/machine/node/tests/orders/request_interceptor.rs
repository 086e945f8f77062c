//! Request interceptor: a client service that runs a hook before each request, and forwards or refuses it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;

type HookFuture = Pin<Box<dyn Future<Output = bool> + Send>>;
type RequestHook = dyn Fn(&Request<Body>) -> HookFuture + Send + Sync;
type Answer = Result<Response<Body>, Box<dyn std::error::Error + Send + Sync>>;

/// Forwards requests to a client as its hook decides.
#[derive(Clone)]
pub struct RequestInterceptor {
    client: Client,
    hook: Arc<RequestHook>,
}

impl RequestInterceptor {
    /// A client whose requests wait for `hook`, and are forwarded if it returns true.
    pub fn client(to: &Client, hook: impl Fn(&Request<Body>) -> HookFuture + Send + Sync + 'static) -> Client {
        Client::new(RequestInterceptor { client: to.clone(), hook: Arc::new(hook) }, "default")
    }
}

impl tower_service::Service<Request<Body>> for RequestInterceptor {
    type Response = Response<Body>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, is_forwarded) = (self.client.clone(), (self.hook)(&request));
        Box::pin(async move {
            match is_forwarded.await {
                true => Ok(client.send(request).await?),
                false => Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
            }
        })
    }
}
