//! Everything that is not a config: files, fragments, key files, certificates.

use rstest::rstest;
use seaworthy_fetch::{Compression, ContentKind};
use seaworthy_render::keys;
use serde_json::{Value, json};

use crate::remote::{Web, referring, sources, urls};
use crate::support::*;

#[test]
fn every_body_becomes_a_part_of_the_config_and_nothing_else_is_left_of_its_reference() {
    let body = |name: &str| {
        json!({
            "source": format!("https://h/{name}"),
            "compression": "gzip",
            "verification": {"hash": format!("sha256-{}", "ab".repeat(32))},
            "httpHeaders": [{"name": "A", "value": "secret"}],
        })
    };
    let input = ign(
        "00",
        json!({
            "ignition": {"security": {"tls": {"certificateAuthorities": [body("ca")]}}},
            "storage": {
                "files": [{"path": "/a", "contents": body("a"), "append": [body("b"), {"source": "data:,c"}]}],
                "luks": [{"name": "l", "device": "/d", "keyFile": body("key")}],
            },
        }),
    );
    let web = ["ca", "a", "b", "key"]
        .into_iter()
        .fold(Web::default(), |web, name| web.with(&format!("https://h/{name}"), format!("the-{name}")));
    let (outcome, rounds) = web.try_render(&[input]);
    let outcome = outcome.unwrap();
    let embedded = |text: &str| json!({"source": text, "compression": ""});
    assert_eq!(
        *outcome.config(),
        json!({
            "ignition": {
                "version": "3.5.0",
                "security": {"tls": {"certificateAuthorities": [embedded("data:,the-ca")]}},
            },
            "storage": {
                "files": [{
                    "path": "/a",
                    "contents": embedded("data:,the-a"),
                    "append": [embedded("data:,the-b"), {"source": "data:,c"}],
                    "overwrite": true,
                }],
                "luks": [{"name": "l", "device": "/d", "keyFile": embedded("data:,the-key")}],
            },
        })
    );
    let text = outcome.spec.to_string();
    for gone in ["http", "verification", "httpHeaders", "secret", "gzip"] {
        assert!(!text.contains(gone), "{gone} is left: {text}");
    }
    for wanted in rounds.iter().flatten() {
        assert_eq!(wanted.request.accept, ContentKind::Resource);
        assert_eq!(wanted.request.compression, Some(Compression::Gzip));
        assert_eq!(wanted.request.headers, [("A".to_owned(), "secret".to_owned())]);
        assert!(wanted.request.verification.is_some());
    }
}

#[test]
fn all_bodies_of_a_config_are_asked_for_at_once() {
    let input = ign("00", files(json!([file("/a", "https://h/a"), file("/b", "https://h/b"), file("/c", "data:,c")])));
    let web = Web::default().with("https://h/a", "a").with("https://h/b", "b");
    let (outcome, rounds) = web.try_render(&[input]);
    assert_eq!(urls(&rounds), [["https://h/a", "https://h/b"]]);
    assert_eq!(
        sources(&outcome.unwrap()).into_iter().collect::<Vec<_>>(),
        [("/a", "data:,a"), ("/b", "data:,b"), ("/c", "data:,c")]
    );
}

#[test]
fn one_url_is_asked_for_once() {
    let input = ign("00", files(json!([file("/a", "https://h/x"), file("/b", "https://h/x")])));
    let (outcome, rounds) = Web::default().with("https://h/x", "x").try_render(&[input]);
    assert_eq!(urls(&rounds), [["https://h/x"]]);
    assert_eq!(sources(&outcome.unwrap())["/b"], "data:,x");
}

#[rstest]
#[case(b"", "data:,")]
#[case(b"plain-text", "data:,plain-text")]
#[case(b"\x00\xff\xfe", "data:;base64,AP/+")]
fn any_bytes_are_embedded(#[case] bytes: &[u8], #[case] source: &str) {
    let web = Web::default().with("https://h/x", bytes);
    let outcome = web.render(&[ign("00", files(json!([file("/a", "https://h/x")])))]);
    let found = sources(&outcome)["/a"].to_owned();
    assert_eq!(seaworthy_ignition::data_url::decode(&found).unwrap().as_ref(), bytes);
    assert_eq!(found, source);
}

#[test]
fn embedded_contents_inherit_no_compression() {
    let packed = "data:;base64,H4sIAAAAAAACA6sAAIMW3IwBAAAA";
    let inputs = [
        ign("00", files(json!([{"path": "/a", "contents": {"source": packed, "compression": "gzip"}}]))),
        ign("01", files(json!([file("/a", "https://h/a")]))),
    ];
    let outcome = Web::default().with("https://h/a", "new").render(&inputs);
    assert_eq!(outcome.files()[0]["contents"], json!({"source": "data:,new", "compression": ""}));
    // Nor does what rendering fills in pretend to have overridden anything.
    for line in outcome.provenance.iter().filter(|line| line.set_by.is_none()) {
        assert_eq!(line.overrode, [], "{line:?}");
    }
}

#[test]
fn compression_of_an_embedded_body_is_explicit_whatever_else_is_merged() {
    let inputs = [
        ign("00", files(json!([file("/a", "https://h/a")]))),
        ign("01", files(json!([{"path": "/a", "mode": 384}, file("/b", "https://h/b")]))),
    ];
    let outcome = Web::default().with("https://h/a", "a").with("https://h/b", "b").render(&inputs);
    for (nth, text) in ["data:,a", "data:,b"].into_iter().enumerate() {
        assert_eq!(outcome.files()[nth]["contents"], json!({"source": text, "compression": ""}));
    }
}

#[test]
fn tftp_is_refused_with_what_to_use_instead() {
    for scheme in ["tftp", "TFTP"] {
        let source = format!("{scheme}://h/a");
        let (outcome, rounds) = Web::default().try_render(&[ign("00", files(json!([file("/a", &source)])))]);
        let findings = outcome.unwrap_err();
        assert_eq!(one(&findings).code, "remote-scheme");
        assert_eq!(places(&findings[0]), ["00 spec.config.storage.files[0].contents.source"]);
        assert!(findings[0].message.contains("https"), "{}", findings[0]);
        assert_eq!(rounds.len(), 0);
    }
}

#[test]
fn gzip_is_refused_where_it_is_not_allowed() {
    for source in ["s3://b/k", "arn:aws:s3:::b/k"] {
        let body = json!({"source": source, "compression": "gzip"});
        let (outcome, rounds) =
            Web::default().try_render(&[ign("00", files(json!([{"path": "/a", "contents": body}])))]);
        let findings = outcome.unwrap_err();
        assert_eq!(one(&findings).code, "remote-scheme");
        assert!(findings[0].message.contains(source) && findings[0].message.contains("gzip"), "{}", findings[0]);
        assert_eq!(rounds.len(), 0);
    }
}

#[test]
fn a_flood_of_bodies_is_refused() {
    let flood = |count: usize| {
        let all: Vec<Value> = (0..count).map(|nth| file(&format!("/{nth}"), &format!("https://h/{nth}"))).collect();
        try_render_with(&worker(), &[ign("00", files(json!(all)))], &context(), &|_| Ok(b"x".to_vec())).0
    };
    assert_eq!(flood(1000).unwrap().files().as_array().unwrap().len(), 1000);
    let findings = flood(1001).unwrap_err();
    assert_eq!(one(&findings).code, "remote-count");
    assert_eq!(places(&findings[0]), ["00 spec.config.storage.files[1000].contents.source"]);
}

#[test]
fn a_flood_of_bodies_that_cannot_be_fetched_is_not_a_flood_of_errors() {
    let all: Vec<Value> = (0..5000).map(|nth| file(&format!("/{nth}"), "tftp://h/x")).collect();
    let findings = Web::default().refused(&[ign("00", files(json!(all)))]);
    assert_eq!(findings.len(), 1001);
    assert_eq!(findings[1000].code, "remote-count");
}

#[test]
fn a_body_counts_as_often_as_it_is_embedded() {
    let copies: Vec<Value> = (0..6).map(|nth| file(&format!("/{nth}"), "https://h/large")).collect();
    let input = [ign("00", files(json!(copies)))];
    let (outcome, rounds) = try_render_with(&worker(), &input, &context(), &|_| Ok(vec![b'x'; 16 << 20]));
    // It is fetched once, and its fifth copy is too much.
    assert_eq!((rounds.len(), rounds[0].len()), (1, 1));
    let findings = outcome.unwrap_err();
    assert_eq!(one(&findings).code, "remote-size");
    assert_eq!(places(&findings[0]), ["00 spec.config.storage.files[4].contents.source"]);
}

#[test]
fn a_body_that_cannot_be_had_is_an_error_at_its_place() {
    let web = Web::default()
        .config("https://h/r", files(json!([file("/a", "data:,"), file("/b", "https://u:secret@h/missing?k=secret")])));
    let findings = web.refused(&[referring(&["https://h/r"], json!({"files": [file("/c", "https://h/gone")]}))]);
    let all: Vec<_> = findings.iter().map(|finding| (finding.code, places(finding).remove(0))).collect();
    assert_eq!(
        all,
        [
            ("RemoteFetchFailed", "00 spec.config.storage.files[0].contents.source".to_owned()),
            ("RemoteFetchFailed", "00 storage.files[1].contents.source (https://h/r)".to_owned()),
        ]
    );
    assert!(!shown(&findings).contains("secret"), "{}", shown(&findings));
}

#[test]
fn an_unresolved_body_is_refused() {
    let bodies = [
        files(json!([file("/a", "https://h/a")])),
        files(json!([{"path": "/a", "append": [{"source": "gs://b/k"}], "overwrite": false}])),
        json!({"storage": {"luks": [{"name": "l", "device": "/d", "keyFile": {"source": "s3://b/k"}}]}}),
        json!({"ignition": {"security": {"tls": {"certificateAuthorities": [{"source": "https://h/ca"}]}}}}),
    ];
    for sections in bodies {
        let findings = refused(&worker(), &[ign("00", sections.clone())]);
        assert_eq!(one(&findings).code, "RemoteFetchFailed", "{sections}");
        assert!(places(&findings[0])[0].ends_with(".source"), "{}", findings[0]);
    }
}

#[test]
fn what_was_fetched_is_recorded_on_the_rendered_object() {
    let web = Web::default()
        .config("https://u:secret@h/r?sig=secret", files(json!([file("/a", "https://h/a")])))
        .with("https://h/a", "content of a");
    let outcome = web.render(&[referring(&["https://u:secret@h/r?sig=secret"], json!({})), ign("01", json!({}))]);
    let record: Value = serde_json::from_str(&outcome.annotations[keys::REMOTE_CONTENT]).unwrap();
    let config = with_version("3.5.0", files(json!([file("/a", "https://h/a")]))).to_string();
    let digest = |text: &str| seaworthy_fetch::Digest::sha256(text.as_bytes()).to_string();
    assert_eq!(
        record,
        json!([
            {
                "machineConfig": "00",
                "path": "spec.config.ignition.config.merge[0].source",
                "url": "https://h/r?sig=…",
                "digest": digest(&config),
                "fetchedAt": 1_700_000_000,
            },
            {
                "machineConfig": "00",
                "path": "storage.files[0].contents.source",
                "remote": "https://h/r?sig=…",
                "url": "https://h/a",
                "digest": digest("content of a"),
                "fetchedAt": 1_700_000_000,
            },
        ])
    );
    assert_eq!(
        outcome.object["metadata"]["annotations"][keys::REMOTE_CONTENT],
        outcome.annotations[keys::REMOTE_CONTENT]
    );
    // Where nothing was fetched there is nothing to record.
    let plain = Web::default().render(&[ign("00", json!({}))]);
    assert_eq!(plain.annotations.get(keys::REMOTE_CONTENT), None);
}
