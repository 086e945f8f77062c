//! Stubs: the Ignition configs that point machines to the endpoint.

use rstest::rstest;
use seaworthy_ignition::{Node, Version, parse};
use seaworthy_serve::Token;
use seaworthy_serve::stub::{Stub, VERSION};
use serde_json::json;

const PLAIN: Stub<'_> = Stub { server: "boot.example", pool: "worker", authority: None, token: None, version: VERSION };

#[test]
fn stub_leads_to_the_pool_with_the_authority_and_the_token() {
    let token = Token::new("hunter2").unwrap();
    let stub = Stub { authority: Some(b"pem"), token: Some(&token), ..PLAIN };
    let config = stub.config().unwrap();
    let wanted = json!({"ignition": {
        "version": "3.1.0",
        "config": {"merge": [{
            "source": "https://boot.example:22623/config/worker",
            "httpHeaders": [{"name": "Authorization", "value": "Bearer hunter2"}],
        }]},
        "security": {"tls": {"certificateAuthorities": [{"source": "data:,pem"}]}},
    }});
    assert_eq!(config, wanted);
    assert!(!format!("{stub:?}").contains("hunter2"));
}

#[test]
fn stub_is_valid_in_every_version_that_it_can_be_written_in() {
    let token = Token::new("hunter2").unwrap();
    for version in seaworthy_serve::stub::versions() {
        let config = Stub { authority: Some(b"pem"), token: Some(&token), version, ..PLAIN }.config().unwrap();
        let parsed = parse(&Node::from_json(&config)).map(|parsed| parsed.version);
        assert_eq!(parsed.unwrap(), version);
    }
}

#[rstest]
#[case("boot.example", "boot.example:22623")]
#[case("boot.example:443", "boot.example:443")]
#[case("10.0.0.1", "10.0.0.1:22623")]
#[case("10.0.0.1:80", "10.0.0.1:80")]
#[case("2001:db8::1", "[2001:db8::1]:22623")]
#[case("[2001:db8::1]", "[2001:db8::1]:22623")]
#[case("[2001:db8::1]:80", "[2001:db8::1]:80")]
fn server_may_be_written_in_many_ways(#[case] server: &str, #[case] written: &str) {
    let config = Stub { server, ..PLAIN }.config().unwrap();
    let source = format!("https://{written}/config/worker");
    assert_eq!(config["ignition"]["config"]["merge"], json!([{"source": source}]));
}

#[rstest]
fn what_is_no_host_is_refused(
    #[values(
        "",
        "https://boot.example",
        "boot example",
        "boot.example:x",
        "boot.example:99999",
        "a@b",
        "a/b",
        "[::1",
        ":80"
    )]
    server: &str,
) {
    let error = Stub { server, ..PLAIN }.config().unwrap_err().to_string();
    assert!(error.contains("is not a host; expected"), "{error}");
}

#[rstest]
fn what_is_no_pool_is_refused(#[values("", "../worker", "Worker", "a/b", "wörker", "-a", "a.")] pool: &str) {
    let error = Stub { pool, ..PLAIN }.config().unwrap_err().to_string();
    assert!(error.contains("is not a pool name; expected"), "{error}");
}

#[test]
fn version_that_knows_no_headers_is_refused() {
    let error = Stub { version: Version::V2_2, ..PLAIN }.config().unwrap_err().to_string();
    assert_eq!(
        error,
        "a pointer config cannot be written in version 2.2.0; expected one of 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0"
    );
}
