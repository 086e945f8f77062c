//! Somebody between a client and the server: he sees every request, and may do something first, or let it go nowhere.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;

type Doing = Pin<Box<dyn Future<Output = bool> + Send>>;
type Hands = dyn Fn(&Request<Body>) -> Doing + Send + Sync;
type Answer = Result<Response<Body>, Box<dyn std::error::Error + Send + Sync>>;

/// The way to the server through somebody's hands.
#[derive(Clone)]
pub struct Between {
    client: Client,
    does: Arc<Hands>,
}

impl Between {
    /// A client whose every request waits for what `does` does, and arrives if that says so.
    pub fn client(to: &Client, does: impl Fn(&Request<Body>) -> Doing + Send + Sync + 'static) -> Client {
        Client::new(Between { client: to.clone(), does: Arc::new(does) }, "default")
    }
}

impl tower_service::Service<Request<Body>> for Between {
    type Response = Response<Body>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, doing) = (self.client.clone(), (self.does)(&request));
        Box::pin(async move {
            match doing.await {
                true => Ok(client.send(request).await?),
                false => Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
            }
        })
    }
}
