//! Version negotiation and requests: recorded answers of upstream, and its numbered behaviours.

use rstest::rstest;
use seaworthy_ignition::{Node, Version, parse, translate_down};
use seaworthy_serve::version_negotiation::{RequestedVersion, entries, negotiate, served_version};
use serde_json::{Value, json};

use crate::support::{accepts, ask, endpoint, versions};

const GOLDEN: &str = include_str!("../golden/negotiation.json");
const OLD: &str = "application/vnd.coreos.ignition+json; version=2.4.0, \
                   application/vnd.coreos.ignition+json; version=1; q=0.5, */*; q=0.1";

/// The one recorded answer to a header that is a defect: 3.0 cannot be served, and that is not the server's failure.
const THREE_ZERO: &str = "application/vnd.coreos.ignition+json;version=3.0.0";

#[test]
fn recorded_headers_are_answered_as_upstream_does() {
    let rows: Vec<Value> = serde_json::from_str(GOLDEN).unwrap();
    let rows: Vec<&Value> = rows.iter().filter(|row| row.get("accept").is_some()).collect();
    assert_eq!(rows.len(), 32);
    for row in rows {
        let headers: Vec<(&str, &str)> = row["accept"].as_str().map(|accept| ("accept", accept)).into_iter().collect();
        let reply = ask(&endpoint(), "GET", "/config/master", &headers);
        if row["accept"] == THREE_ZERO {
            assert_eq!(row["status"], 500);
            assert_eq!((reply.status, reply.body.len()), (400, 0));
            continue;
        }
        assert_eq!(json!(reply.status), row["status"], "{row}");
        assert_eq!(json!(reply.version()), row["version"], "{row}");
    }
}

#[test]
fn recorded_methods_and_paths_are_answered_as_upstream_does() {
    let rows: Vec<Value> = serde_json::from_str(GOLDEN).unwrap();
    let rows: Vec<&Value> = rows.iter().filter(|row| row.get("method").is_some()).collect();
    assert_eq!(rows.len(), 10);
    for row in rows {
        let reply = ask(&endpoint(), row["method"].as_str().unwrap(), row["path"].as_str().unwrap(), &[]);
        assert_eq!(json!(reply.status), row["status"], "{row}");
        assert_eq!(json!(reply.body.is_empty()), row["bodyEmpty"], "{row}");
    }
}

#[test]
fn s_01_old_ignition_gets_the_empty_config_of_2_2() {
    let reply = ask(&endpoint(), "GET", "/config/master", &[("accept", OLD)]);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.header("content-length"), "32");
    assert_eq!(&reply.body[..], br#"{"ignition":{"version":"2.2.0"}}"#);
}

#[test]
fn s_02_head_has_the_length_and_no_body() {
    let reply = ask(&endpoint(), "HEAD", "/config/master", &[("accept", OLD)]);
    assert_eq!((reply.status, reply.header("content-length"), reply.body.len()), (200, "32", 0));
}

#[test]
fn s_03_post_is_not_allowed() {
    let reply = ask(&endpoint(), "POST", "/config/master", &[]);
    assert_eq!((reply.status, reply.header("content-length"), reply.body.len()), (405, "0", 0));
    assert_eq!(reply.header("allow"), "GET, HEAD");
}

#[rstest]
fn s_04_pool_that_cannot_be_served_fails_without_a_body(#[values("GET", "HEAD")] method: &str) {
    let reply = ask(&endpoint(), method, "/config/broken", &[]);
    assert_eq!((reply.status, reply.header("content-length"), reply.body.len()), (500, "0", 0));
    assert_eq!(reply.header("seaworthy-reason"), "MachineConfig x: it is broken");
}

#[rstest]
fn s_05_each_minor_version_gets_its_own(#[values("3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0")] version: &str) {
    let reply = ask(&endpoint(), "GET", "/config/master", &[("accept", &accepts(version))]);
    assert_eq!((reply.status, reply.version().as_deref()), (200, Some(version)));
}

#[test]
fn s_06_later_minor_version_gets_the_newest() {
    let reply = ask(&endpoint(), "GET", "/config/master", &[("accept", &accepts("3.99.0"))]);
    assert_eq!((reply.status, reply.version().as_deref()), (200, Some("3.5.0")));
}

#[test]
fn s_07_later_major_version_is_refused_with_what_is_accepted() {
    let reply = ask(&endpoint(), "GET", "/config/master", &[("accept", &accepts("4.0.0"))]);
    assert_eq!((reply.status, reply.header("content-length"), reply.body.len()), (400, "0", 0));
    let reason = "Ignition 4.0 cannot be served; expected 2.2 or a later 2.x, or 3.1 or a later 3.x";
    assert_eq!(reply.header("seaworthy-reason"), reason);
}

#[rstest]
#[case("text/plain")]
#[case("an-invalid-accept-header")]
#[case("application/vnd.coreos.ignition+json")]
fn s_08_client_that_names_no_version_gets_2_2(#[case] header: &str) {
    assert_eq!(negotiate(header), Ok(Version::V2_2));
}

#[test]
fn s_09_header_is_read_entry_by_entry() {
    let entries = entries(OLD);
    let weights: Vec<f64> = entries.iter().map(|entry| entry.weight).collect();
    assert_eq!(weights, [1.0, 0.5, 0.1]);
    let versions: Vec<Option<RequestedVersion>> = entries.iter().map(|entry| entry.version).collect();
    assert_eq!(versions, [Some(RequestedVersion { major: 2, minor: 4 }), None, None]);
    assert_eq!((entries[2].family, entries[2].subtype), ("*", "*"));
}

#[test]
fn s_10_supported_minor_versions_and_no_others() {
    let of = |major, minor| served_version(RequestedVersion { major, minor }).ok();
    assert_eq!(of(2, 2), Some(Version::V2_2));
    assert_eq!(of(3, 1), Some(Version::V3_1));
    assert_eq!(of(3, 5), Some(Version::V3_5));
    assert_eq!(negotiate(&accepts("3.5.2")), Ok(Version::V3_5));
    assert_eq!(of(3, 0), None);
    assert_eq!(of(7, 7), None);
    assert_eq!(of(0, 0), None);
}

#[test]
fn s_11_newest_version_goes_down_to_each_and_2_2_goes_up() {
    let newest = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [{"path": "/a", "mode": 420}]}});
    let node = Node::from_json(&newest);
    for version in versions() {
        let lowered = translate_down(&node, version).unwrap().to_json();
        assert_eq!(lowered["ignition"]["version"], version.as_str());
    }
    let old = json!({"ignition": {"version": "2.2.0"},
        "storage": {"files": [{"filesystem": "root", "path": "/a", "mode": 420}]}});
    assert_eq!(parse(&Node::from_json(&old)).unwrap().config.to_json()["ignition"]["version"], "3.5.0");
}

#[rstest]
#[case("GET", 200)]
#[case("HEAD", 200)]
#[case("POST", 405)]
fn s_12_health_is_answered_without_a_body(#[case] method: &str, #[case] status: u16) {
    let reply = ask(&endpoint(), method, "/healthz", &[]);
    assert_eq!((reply.status, reply.header("content-length"), reply.body.len()), (status, "0", 0));
}

#[rstest]
#[case("GET", 404)]
#[case("HEAD", 404)]
#[case("POST", 405)]
fn s_13_root_is_not_found(#[case] method: &str, #[case] status: u16) {
    let reply = ask(&endpoint(), method, "/", &[]);
    assert_eq!((reply.status, reply.header("content-length"), reply.body.len()), (status, "0", 0));
}

#[test]
fn s_26_unknown_pool_is_not_found() {
    let reply = ask(&endpoint(), "GET", "/config/nowhere", &[]);
    assert_eq!((reply.status, reply.header("content-length"), reply.body.len()), (404, "0", 0));
    assert_eq!(reply.header("seaworthy-reason"), "there is no pool nowhere");
}

#[rstest]
fn paths_with_tricks_in_them_lead_nowhere(
    #[values(
        "/config",
        "/config/",
        "/config//master",
        "/config/./master",
        "/config/../config/master",
        "/config/%6daster",
        "/config/x%2fmaster",
        "/config/master%00",
        "/config/master/",
        "/config/master;v=1",
        "/config/MASTER",
        "/Config/master",
        "/config\\master",
        "//config/master",
        "/healthz/",
        "/config/..",
        "/config/master.."
    )]
    path: &str,
) {
    // Some are refused by the reader of requests already.
    let Ok(_) = path.parse::<http::Uri>() else { return };
    assert_eq!(ask(&endpoint(), "GET", path, &[]).status, 404, "{path}");
}

#[test]
fn query_changes_nothing() {
    assert_eq!(ask(&endpoint(), "GET", "/config/master?pool=broken", &[]).status, 200);
}

#[test]
fn best_entry_decides_even_if_it_cannot_be_served() {
    let header = format!("{}, application/vnd.coreos.ignition+json;version=4.0.0;q=2", accepts("3.4.0"));
    assert_eq!(ask(&endpoint(), "GET", "/config/master", &[("accept", &header)]).status, 400);
}

#[test]
fn several_headers_are_one() {
    let (first, second) = ("text/html", accepts("3.3.0"));
    let reply = ask(&endpoint(), "GET", "/config/master", &[("accept", first), ("accept", &second)]);
    assert_eq!(reply.version().as_deref(), Some("3.3.0"));
}

#[rstest]
#[case("application/vnd.coreos.ignition+json;version=3.4.0;q=nan")]
#[case("application/vnd.coreos.ignition+json;version=3.4.0;q=inf")]
#[case("application/vnd.coreos.ignition+json;version=x;version=3.4.0")]
#[case("application/vnd.coreos.ignition+json;version=3.4.0;version=3.1.0")]
#[case("application/vnd.coreos.ignition+json;version=3.4.99999+x-y")]
fn odd_parameters_are_passed_over(#[case] header: &str) {
    assert_eq!(negotiate(header), Ok(Version::V3_4));
}

#[rstest]
#[case("application/vnd.coreos.ignition+json;version=3.99999999999999999999.0")]
#[case("application/vnd.coreos.ignition+json;version=+3.4.0")]
#[case("application/vnd.coreos.ignition+json;version=3.4.0.0")]
#[case("application/vnd.coreos.ignition+json;version=3.-4.0")]
fn what_is_no_version_counts_as_none(#[case] header: &str) {
    assert_eq!(negotiate(header), Ok(Version::V2_2));
}

#[test]
fn unchanged_config_is_not_sent_again() {
    let reply = ask(&endpoint(), "GET", "/config/master", &[]);
    let tag = reply.header("etag");
    assert!(tag.len() > 32 && tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    let several = format!("\"other\", W/{tag}");
    for known in [tag, "*", &several] {
        let again = ask(&endpoint(), "GET", "/config/master", &[("if-none-match", known)]);
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, tag), "{known}");
    }
    let other = ask(&endpoint(), "GET", "/config/master", &[("if-none-match", tag), ("accept", &accepts("3.5.0"))]);
    assert_eq!(other.status, 200, "another version is another config");
    assert_ne!(other.header("etag"), tag);
}

#[test]
fn config_is_compressed_for_clients_that_accept_gzip() {
    let gzip = ask(&endpoint(), "GET", "/config/master", &[("accept-encoding", "deflate, gzip;q=0.5")]);
    assert_eq!((gzip.status, gzip.header("content-encoding")), (200, "gzip"));
    assert_eq!(gzip.header("content-length"), gzip.body.len().to_string());
    let plain = seaworthy_ignition::gzip::unpack(&gzip.body, 1000).unwrap();
    assert_eq!(plain, br#"{"ignition":{"version":"2.2.0"}}"#);
    for header in ["identity", "gzip;q=0", "*", ""] {
        let plain = ask(&endpoint(), "GET", "/config/master", &[("accept-encoding", header)]);
        assert_eq!((plain.header("content-encoding"), plain.body.len()), ("", 32), "{header}");
        assert_ne!(plain.header("etag"), gzip.header("etag"), "two bodies have two names");
    }
    let head = ask(&endpoint(), "HEAD", "/config/master", &[("accept-encoding", "gzip")]);
    assert_eq!((head.header("content-length"), head.body.len()), (gzip.header("content-length"), 0));
}
