//! Transports: a server inside this process, or over a connection.

use std::pin::Pin;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use seaworthy_apiserver::{Identity, Server};

/// An answer's body, as it comes.
pub type Stream = UnsyncBoxBody<Bytes, String>;
/// An answer to come.
pub type Exchange<'a> = Pin<Box<dyn Future<Output = Result<Response<Stream>, String>> + Send + 'a>>;

/// Carries a request to a server and brings the answer back; its body may still be on the way then.
pub trait Transport: Send + Sync {
    /// Sends a request.
    fn send(&self, request: Request<Full<Bytes>>) -> Exchange<'_>;
}

/// A server in this process.
pub struct InProcess(pub Server);

impl InProcess {
    /// The token of an administrator. It never reaches the server: the identity does, as it comes from
    /// clients in the process.
    pub const TOKEN: &str = "in-process";
}

impl Transport for InProcess {
    fn send(&self, mut request: Request<Full<Bytes>>) -> Exchange<'_> {
        let usual = format!("Bearer {}", Self::TOKEN);
        if request.headers().get(AUTHORIZATION).is_some_and(|value| value.as_bytes() == usual.as_bytes()) {
            request.headers_mut().remove(AUTHORIZATION);
            let admin = Identity::authenticated("admin", ["system:masters".to_owned()]);
            request.extensions_mut().insert(admin);
        }
        Box::pin(async move {
            let response = self.0.answer(request).await;
            Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
        })
    }
}
