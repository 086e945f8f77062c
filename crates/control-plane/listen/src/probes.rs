//! Probes of a running process: metrics, liveness and readiness, without TLS and with nothing secret in them.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

/// How long a client may take to send the headers of a request, idle time before them included.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(60);

/// How long to wait after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves `/metrics`, `/healthz` and `/readyz` for as long as it is polled.
///
/// `page` gives all metrics, `is_ready` the state of `/readyz`, and `report` the lines of `/readyz?verbose`.
pub async fn serve(
    listener: TcpListener,
    page: impl Fn() -> Result<String, fmt::Error> + Clone + Send + Sync + 'static,
    is_ready: impl Fn() -> bool + Clone + Send + Sync + 'static,
    report: impl Fn() -> String + Clone + Send + Sync + 'static,
) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for the probes; retrying");
                // Mostly "too many open files": waiting lets some of them be closed.
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let (page, is_ready, report) = (page.clone(), is_ready.clone(), report.clone());
        tokio::spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let response = answer(request.uri(), &page, &is_ready, &report);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS_TIMEOUT)
                .serve_connection(TokioIo::new(stream), answer);
            // A client that hangs up has seen enough.
            let _ = connection.await;
        });
    }
}

fn answer(
    uri: &Uri,
    page: impl Fn() -> Result<String, fmt::Error>,
    is_ready: impl Fn() -> bool,
    report: impl Fn() -> String,
) -> Response<Full<Bytes>> {
    let is_verbose =
        uri.query().is_some_and(|query| query.split('&').any(|part| part == "verbose" || part.starts_with("verbose=")));
    let (status, text) = match uri.path() {
        "/metrics" => match page() {
            Ok(page) => (StatusCode::OK, page),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => match (is_ready(), is_verbose) {
            (true, false) => (StatusCode::OK, "ok\n".to_owned()),
            (true, true) => (StatusCode::OK, format!("{}readyz check passed\n", report())),
            (false, _) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}readyz check failed\n", report())),
        },
        _ => (StatusCode::NOT_FOUND, "not found; available are /metrics, /healthz and /readyz\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use hyper::Uri;

    use super::answer;

    #[test]
    fn readiness_is_that_of_the_caches() {
        let status = |path: &'static str, is_ready: bool| {
            answer(&Uri::from_static(path), || Ok(String::new()), || is_ready, String::new).status()
        };
        assert_eq!(status("/readyz", false), 503);
        assert_eq!(status("/readyz", true), 200);
        assert_eq!(status("/healthz", false), 200);
        assert_eq!(status("/metrics", false), 200);
        assert_eq!(status("/", true), 404);
    }

    #[tokio::test]
    async fn verbose_readiness_has_a_line_for_each_check() {
        let text = async |path: &'static str, is_ready: bool| {
            let report = || "[+]machineconfig ok\n".to_owned();
            let answer = answer(&Uri::from_static(path), || Ok(String::new()), || is_ready, report);
            String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
        };
        assert_eq!(text("/readyz", true).await, "ok\n");
        assert_eq!(text("/readyz?verbose", true).await, "[+]machineconfig ok\nreadyz check passed\n");
        assert_eq!(text("/readyz", false).await, "[+]machineconfig ok\nreadyz check failed\n");
    }
}
