//! References of a config to other content. The resolver itself is tested in `tests/remote`.

use seaworthy_render::Context;
use serde_json::{Value, json};

use crate::support::*;

const HASH: &str = "sha256-abababababababababababababababababababababababababababababababab";

/// References stay as they are: only for looking at inputs.
fn keeping() -> Context {
    Context { keeps_references: true, ..context() }
}

#[test]
fn row_47_a_header_without_a_value_takes_the_parents_away() {
    let input = |name: &str, headers: Value| {
        let body = json!({"source": "https://h/a", "httpHeaders": headers});
        ign(name, files(json!([{"path": "/a", "contents": body}])))
    };
    let inputs = [
        input("00", json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])),
        input("01", json!([{"name": "A"}])),
    ];
    let outcome = rendered_in(&worker(), &inputs, &keeping());
    assert_eq!(outcome.files()[0]["contents"]["httpHeaders"], json!([{"name": "B", "value": "2"}]));
}

#[test]
fn row_48_references_to_configs_are_resolved_and_removed() {
    let config = |path: &str| with_version("3.5.0", files(json!([file(path, "data:,x")]))).to_string().into_bytes();
    let first = json!({"ignition": {"config": {"merge": [{"source": "https://h/u1"}]}}});
    let second = json!({"ignition": {"config": {
        "merge": [{"source": "https://h/u1"}, {"source": "https://h/u2"}],
        "replace": {"source": "https://h/r"},
    }}});
    let inputs = [ign("00", first), ign("01", second)];
    let (outcome, rounds) = try_render_with(&worker(), &inputs, &context(), &|wanted| {
        Ok(match wanted.request.url.as_str() {
            "https://h/u1" => config("/u1"),
            "https://h/r" => config("/r"),
            other => panic!("{other} is not needed"),
        })
    });
    let outcome = outcome.unwrap();
    assert_eq!(
        *outcome.config(),
        json!({
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [
                {"path": "/u1", "contents": {"source": "data:,x"}, "overwrite": true},
                {"path": "/r", "contents": {"source": "data:,x"}, "overwrite": true},
            ]},
        })
    );
    assert_eq!(rounds.len(), 2);
    // For looking at inputs they stay, merged by source as upstream does.
    let kept = rendered_in(&worker(), &inputs, &keeping());
    assert_eq!(
        kept.config()["ignition"]["config"],
        json!({
            "merge": [{"source": "https://h/u1"}, {"source": "https://h/u2"}],
            "replace": {"source": "https://h/r"},
        })
    );
}

#[test]
fn row_49_proxies_timeouts_and_authorities_are_merged() {
    let section = |proxy: Value, timeouts: Value, authority: &str| {
        json!({"ignition": {
            "proxy": {"noProxy": proxy},
            "timeouts": timeouts,
            "security": {"tls": {"certificateAuthorities": [{"source": authority}]}},
        }})
    };
    let inputs = [
        ign("00", section(json!(["a"]), json!({"httpTotal": 1}), "data:,1")),
        ign("01", section(json!(["b", "a"]), json!({"httpResponseHeaders": 2}), "data:,2")),
    ];
    assert_eq!(
        rendered(&worker(), &inputs).config()["ignition"],
        json!({
            "version": "3.5.0",
            "proxy": {"noProxy": ["a", "b"]},
            "timeouts": {"httpTotal": 1, "httpResponseHeaders": 2},
            "security": {"tls": {"certificateAuthorities": [{"source": "data:,1"}, {"source": "data:,2"}]}},
        })
    );
}

#[test]
fn row_50_a_remote_file_becomes_a_part_of_the_config() {
    let body = json!({
        "source": "https://h/a",
        "verification": {"hash": HASH},
        "httpHeaders": [{"name": "A", "value": "1"}],
    });
    let input = [ign("00", files(json!([{"path": "/a", "contents": body, "mode": 384}])))];
    let (outcome, rounds) = try_render_with(&worker(), &input, &context(), &|_| Ok(b"hello".to_vec()));
    assert_eq!(
        *outcome.unwrap().files(),
        json!([{
            "path": "/a", "mode": 384, "overwrite": true, "contents": {"source": "data:,hello", "compression": ""},
        }])
    );
    let request = &rounds[0][0].request;
    assert_eq!(request.verification.as_ref().unwrap().to_string(), HASH);
    assert_eq!(request.headers, [("A".to_owned(), "1".to_owned())]);
}

#[test]
fn row_71_every_scheme_of_3_5_is_read_and_tftp_is_not_fetched() {
    for source in ["s3://b/k", "arn:aws:s3:::b/k", "gs://b/k"] {
        let input = [ign("00", files(json!([file("/a", source)])))];
        let (outcome, rounds) = try_render_with(&worker(), &input, &context(), &|_| Ok(b"x".to_vec()));
        assert_eq!(outcome.unwrap().files()[0]["contents"]["source"], "data:,x", "{source}");
        assert_eq!(rounds[0][0].request.url, source);
    }
    let input = [ign("00", files(json!([file("/a", "tftp://h/a")])))];
    let (outcome, rounds) = try_render_with(&worker(), &input, &context(), &|_| Ok(Vec::new()));
    assert_eq!(rounds.len(), 0);
    // Offline rendering reports the same.
    for findings in [outcome.unwrap_err(), refused_in(&worker(), &input, &keeping())] {
        assert_eq!(one(&findings).code, "remote-scheme");
        assert_eq!(places(&findings[0]), ["00 spec.config.storage.files[0].contents.source"]);
        assert!(findings[0].message.contains("tftp") && findings[0].message.contains("https"), "{}", findings[0]);
    }
}

#[test]
fn row_71_an_arn_is_unknown_to_3_3() {
    let config = with_version("3.3.0", files(json!([file("/a", "arn:aws:s3:::b/k")])));
    let findings = refused(&worker(), &[mc("00", json!({"config": config}))]);
    assert_eq!(places(one(&findings)), ["00 spec.config.storage.files[0].contents.source"]);
    assert!(findings[0].message.starts_with("invalid url scheme \"arn\""), "{}", findings[0]);
}
