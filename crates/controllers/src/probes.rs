//! What others ask a running plane: its numbers, whether it lives, whether it is ready.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use seaworthy_runtime::Metrics;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Answers `/metrics`, `/healthz` and `/readyz` for as long as it is polled.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>, ready: watch::Receiver<bool>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection for the probes could not be accepted");
                // It may be that there are no more file descriptors: others have to close theirs first.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let (metrics, ready) = (Arc::clone(&metrics), ready.clone());
        tokio::spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let response = answer(request.uri().path(), &metrics, *ready.borrow());
                async move { Ok::<_, Infallible>(response) }
            });
            // Whoever hangs up has seen enough.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

fn answer(path: &str, metrics: &Metrics, is_ready: bool) -> Response<Full<Bytes>> {
    let (status, text) = match path {
        "/metrics" => match metrics.encode() {
            Ok(page) => (StatusCode::OK, page),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
        "/readyz" if is_ready => (StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "the caches are not filled yet\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_that_of_the_caches() {
        let metrics = Metrics::default();
        assert_eq!(answer("/readyz", &metrics, false).status(), 503);
        assert_eq!(answer("/readyz", &metrics, true).status(), 200);
        assert_eq!(answer("/healthz", &metrics, false).status(), 200);
        assert_eq!(answer("/metrics", &metrics, false).status(), 200);
        assert_eq!(answer("/", &metrics, true).status(), 404);
    }
}
