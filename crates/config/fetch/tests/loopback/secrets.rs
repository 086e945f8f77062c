//! Secrets: no secret of a request appears in errors, logs or `Debug` output.

use std::time::Duration;

use seaworthy_fetch::{Compression, Digest, Request};

use crate::loopback::support::server::{Reply, Server, ok, redirect, response};
use crate::loopback::support::{failure, fetcher, fetcher_with, policy};

#[tokio::test]
async fn no_failure_shows_a_secret() {
    let server = Server::start(|seen, _| match seen.target.split('?').next().unwrap() {
        "/missing" => response(404, &[], b"SECRET"),
        "/denied" => response(403, &[("www-authenticate", "SECRET")], b"SECRET"),
        "/broken" => Reply::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nSECRET".into()),
        "/stalled" => Reply::Stall(b"SECRET".into()),
        "/loop" => redirect("/loop?token=SECRET#SECRET"),
        "/scheme" => redirect("ftp://me:SECRET@host/?SECRET"),
        "/away" => redirect("http://me:SECRET@missing.invalid/?SECRET"),
        _ => ok("SECRET"),
    })
    .await;
    let mut shown = Vec::new();
    for path in ["/missing", "/denied", "/broken", "/stalled", "/loop", "/scheme", "/away", "/hash", "/gzip"] {
        let place = format!("{path}?X-Amz-Signature=SECRET&SECRET#SECRET");
        let url = server.url_as("http", "me:SECRET@origin.test", &place);
        let mut request = Request::resource(url);
        request.headers = vec![("Authorization".into(), "Bearer SECRET".into())];
        request.settings.total_timeout = Some(Duration::from_millis(300));
        match path {
            "/hash" => request.verification = Some(Digest::sha256(b"")),
            "/gzip" => request.compression = Some(Compression::Gzip),
            _ => {}
        }
        let error = failure(&fetcher(), &request).await;
        shown.push(format!("{error}\n{error:?}\n{request:?}"));
        let error = failure(&fetcher_with(policy(&[])), &request).await;
        shown.push(format!("{error}\n{error:?}"));
        request.settings.proxy.http = Some("http://me:SECRET@proxy.invalid/?SECRET".into());
        let error = failure(&fetcher(), &request).await;
        shown.push(format!("{error}\n{error:?}\n{request:?}"));
    }
    for text in [
        "tftp://me:SECRET@host/?SECRET",
        "me:SECRET@host",
        "http://me:SECRET@ho st/?SECRET",
        "s3://me:SECRET@bucket/?a=SECRET",
        "arn:aws:s3:::b/?a=SECRET",
    ] {
        let error = failure(&fetcher(), &Request::resource(text)).await;
        shown.push(format!("{error}\n{error:?}"));
    }
    for text in shown {
        assert!(!text.contains("SECRET"), "{text}");
    }
}
