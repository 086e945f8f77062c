//! Content from an object store: a real S3 implementation that checks signatures.

use std::net::SocketAddr;
use std::path::Path;

use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::program::{Outcome, Program};
use crate::remote::{files, hash, manifest};

/// Serves the folders in `root` as buckets, as long as the runtime lives.
fn serve(runtime: &Runtime, root: &Path) -> SocketAddr {
    let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
    builder.set_auth(SimpleAuth::from_single("reader", "hunter2"));
    let service = builder.build();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await
            });
        }
    });
    address
}

fn render(program: &Program, address: SocketAddr, source: &str, secret: &str) -> Outcome {
    let contents = json!({"source": source, "verification": {"hash": hash(b"from a bucket\n")}});
    program.file(
        "manifest.json",
        manifest(json!({"timeouts": {"httpTotal": 5}}), json!([{"path": "/etc/motd", "contents": contents}])),
    );
    let mut command = program.command(["render", "-f", "manifest.json", "-o", "json", "--allow-host", "127.0.0.1"]);
    command.env("AWS_ENDPOINT_URL", format!("http://{address}")).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_REGION", "us-east-1").env("AWS_ACCESS_KEY_ID", "reader").env("AWS_SECRET_ACCESS_KEY", secret);
    Outcome::of(command.output().unwrap())
}

#[test]
fn objects_are_fetched_with_the_callers_credentials() {
    let program = Program::new();
    program.file("buckets/fleet/etc/motd", "from a bucket\n");
    let runtime = Runtime::new().unwrap();
    let address = serve(&runtime, &program.path("buckets"));
    for source in ["s3://fleet/etc/motd", "arn:aws:s3:::fleet/etc/motd"] {
        let outcome = render(&program, address, source, "hunter2").expect(0);
        assert_eq!(files(&outcome)[0].1, "from a bucket\n", "{source}");
        assert!(!outcome.stdout.contains("hunter2"));
    }
    let outcome = render(&program, address, "s3://fleet/etc/issue", "hunter2").expect(1);
    outcome.says(&["MachineConfig 50-worker", "s3://fleet/etc/issue", "not found"]);
    let outcome = render(&program, address, "s3://fleet/etc/motd?versionId=gone", "wrong-hunter2").expect(1);
    assert!(!outcome.stderr.contains("hunter2"), "{}", outcome.stderr);
    outcome.says(&["MachineConfig 50-worker", "s3://fleet/etc/motd"]);
}
