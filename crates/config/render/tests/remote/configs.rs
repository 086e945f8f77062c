//! Configs that refer to configs.

use rstest::rstest;
use seaworthy_fetch::{ContentKind, FailureKind};
use serde_json::{Value, json};

use crate::remote::{Web, failure, merging, referring, sources, urls};
use crate::support::*;

#[test]
fn the_config_referred_to_wins_over_the_one_that_refers() {
    let web = Web::default()
        .config("https://h/r", files(json!([file("/a", "data:,remote"), {"path": "/local", "mode": 384}])));
    let input = referring(&["https://h/r"], json!({"files": [file("/a", "data:,local"), file("/local", "data:,x")]}));
    let outcome = web.render(&[input]);
    assert_eq!(
        *outcome.files(),
        json!([
            {"path": "/a", "contents": {"source": "data:,remote"}, "overwrite": true},
            {"path": "/local", "contents": {"source": "data:,x"}, "mode": 384, "overwrite": true},
        ])
    );
    assert_eq!(outcome.config()["ignition"], json!({"version": "3.5.0"}));
}

#[test]
fn several_configs_are_merged_in_their_order() {
    let one = |text: &str| files(json!([file("/a", &format!("data:,{text}")), file(&format!("/{text}"), "data:,")]));
    let web = Web::default().config("https://h/1", one("1")).config("https://h/2", one("2"));
    let forth = web.render(&[referring(&["https://h/1", "https://h/2"], json!({}))]);
    assert_eq!(sources(&forth)["/a"], "data:,2");
    let back = web.render(&[referring(&["https://h/2", "https://h/1"], json!({}))]);
    assert_eq!(sources(&back)["/a"], "data:,1");
    let paths = |outcome: &Outcome| -> Vec<String> {
        outcome.files().as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(paths(&forth), ["/a", "/1", "/2"]);
    assert_eq!(paths(&back), ["/a", "/2", "/1"]);
}

#[test]
fn a_replacement_takes_the_place_of_the_whole_config_and_of_nothing_else() {
    let web = Web::default().config("https://h/r", files(json!([file("/r", "data:,r")])));
    let mut input = ign(
        "00",
        json!({
            "ignition": {
                "config": {"replace": {"source": "https://h/r"}, "merge": [{"source": "https://h/never"}]},
                "timeouts": {"httpTotal": 5},
            },
            "storage": {"files": [file("/local", "https://h/never-either")]},
            "systemd": {"units": [{"name": "a.service"}]},
        }),
    );
    input["spec"]["kernelArguments"] = json!(["x"]);
    input["spec"]["fips"] = true.into();
    let (outcome, rounds) = web.try_render(&[input]);
    let outcome = outcome.unwrap();
    assert_eq!(
        *outcome.config(),
        json!({
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": "/r", "contents": {"source": "data:,r"}, "overwrite": true}]},
        })
    );
    assert_eq!((&outcome.spec["kernelArguments"], &outcome.spec["fips"]), (&json!(["x"]), &json!(true)));
    assert_eq!(urls(&rounds), [["https://h/r"]]);
}

#[test]
fn configs_are_asked_for_as_configs_and_with_everything_the_reference_says() {
    let hash = format!("sha512-{}", "ab".repeat(64));
    let reference = json!({
        "source": "https://h/r",
        "compression": "gzip",
        "verification": {"hash": hash},
        "httpHeaders": [{"name": "Authorization", "value": "Bearer t"}, {"name": "X", "value": "y"}],
    });
    let web = Web::default().config("https://h/r", json!({}));
    for references in [json!({"merge": [reference]}), json!({"replace": reference})] {
        let (outcome, rounds) = web.try_render(&[ign("00", json!({"ignition": {"config": references}}))]);
        assert_eq!(*outcome.unwrap().config(), json!({"ignition": {"version": "3.5.0"}}));
        let wanted = &rounds[0][0];
        assert_eq!(wanted.request.accept, ContentKind::Config);
        assert_eq!(wanted.request.compression, Some(seaworthy_fetch::Compression::Gzip));
        assert_eq!(wanted.request.verification.as_ref().unwrap().to_string(), hash);
        let headers = [("Authorization", "Bearer t"), ("X", "y")];
        assert_eq!(wanted.request.headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}

/// A chain of configs `https://h/1`, `https://h/2`, … of which the last one has a file.
fn chain(length: usize) -> Web {
    (1..=length).fold(Web::default(), |web, nth| {
        let sections = match nth == length {
            true => files(json!([file("/end", "data:,end")])),
            false => merging(&[&format!("https://h/{}", nth + 1)]),
        };
        web.config(&format!("https://h/{nth}"), sections)
    })
}

#[test]
fn references_are_followed_eight_deep() {
    let (outcome, rounds) = chain(8).try_render(&[referring(&["https://h/1"], json!({}))]);
    assert_eq!(sources(&outcome.unwrap())["/end"], "data:,end");
    assert_eq!(rounds.len(), 8);
}

#[test]
fn the_ninth_reference_in_a_row_is_refused() {
    let (outcome, rounds) = chain(9).try_render(&[referring(&["https://h/1"], json!({}))]);
    let findings = outcome.unwrap_err();
    let finding = one(&findings);
    assert_eq!(finding.code, "remote-depth");
    assert_eq!(places(finding), ["00 ignition.config.merge[0].source (https://h/8)"]);
    assert!(finding.message.contains("https://h/9") && finding.message.contains("at most 8"), "{finding}");
    assert_eq!(rounds.len(), 8, "the ninth is not even asked for");
}

#[test]
fn a_config_that_refers_to_itself_is_refused() {
    let web = Web::default().config("https://u:secret@h/r", merging(&["https://u:secret@h/r"]));
    let findings = web.refused(&[referring(&["https://u:secret@h/r"], json!({}))]);
    let finding = one(&findings);
    assert_eq!(finding.code, "remote-cycle");
    assert_eq!(places(finding), ["00 ignition.config.merge[0].source (https://h/r)"]);
    assert!(finding.message.ends_with("https://h/r → https://h/r"), "{finding}");
}

#[test]
fn a_circle_of_configs_is_refused_with_the_way_around() {
    let web = Web::default()
        .config("https://h/a", merging(&["https://h/b"]))
        .config("https://h/b", json!({"ignition": {"config": {"replace": {"source": "https://h/c"}}}}))
        .config("https://h/c", merging(&["https://h/a"]));
    let findings = web.refused(&[referring(&["https://h/a"], json!({}))]);
    let finding = one(&findings);
    assert_eq!(finding.code, "remote-cycle");
    let circle = "https://h/a → https://h/b → https://h/c → https://h/a";
    assert!(finding.message.ends_with(circle), "{finding}");
    assert_eq!(places(finding), ["00 ignition.config.merge[0].source (https://h/c)"]);
}

#[test]
fn a_config_reached_on_two_ways_is_no_circle() {
    let web = Web::default()
        .config("https://h/a", merging(&["https://h/c"]))
        .config("https://h/b", merging(&["https://h/c"]))
        .config("https://h/c", files(json!([file("/c", "data:,c")])));
    let (outcome, rounds) = web.try_render(&[referring(&["https://h/a", "https://h/b"], json!({}))]);
    assert_eq!(sources(&outcome.unwrap())["/c"], "data:,c");
    // It is asked for once.
    assert_eq!(urls(&rounds), [vec!["https://h/a", "https://h/b"], vec!["https://h/c"]]);
}

#[test]
fn a_flood_of_references_is_refused() {
    let many: Vec<String> = (0..101).map(|nth| format!("https://h/{nth}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    // Each of ten configs refers to 101 more: 1020 in all.
    let tops: Vec<String> = (0..10).map(|nth| format!("https://top/{nth}")).collect();
    let tops: Vec<&str> = tops.iter().map(String::as_str).collect();
    let web = tops.iter().fold(Web::default(), |web, top| web.config(top, merging(&many)));
    let web = many.iter().fold(web, |web, url| web.config(url, json!({})));
    let findings = web.refused(&[referring(&tops, json!({}))]);
    // Reported once, however many there are.
    assert_eq!(one(&findings).code, "remote-count");
    assert!(findings[0].message.contains("1000"), "{}", findings[0]);
    // 999 are fine.
    let web = many.iter().fold(Web::default(), |web, url| web.config(url, json!({})));
    web.render(&[referring(&many, json!({}))]);
}

// === Configs that the reference itself carries ===

fn data_url(text: &str) -> String {
    let body: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("data:,{body}")
}

#[test]
fn a_config_in_a_data_url_is_merged_like_any_other() {
    let config = with_version("3.1.0", files(json!([file("/a", "data:,inner")]))).to_string();
    let input = referring(&[&data_url(&config)], json!({"files": [file("/a", "data:,outer")]}));
    let (outcome, rounds) = Web::default().try_render(&[input]);
    let outcome = outcome.unwrap();
    assert_eq!(sources(&outcome)["/a"], "data:,inner");
    assert_eq!(outcome.config()["ignition"], json!({"version": "3.5.0"}));
    assert_eq!(rounds.len(), 0, "nothing is fetched");
    assert_eq!(outcome.annotations.get(seaworthy_render::keys::REMOTE_CONTENT), None);
}

/// `{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"packed.service"}]}}`
const PACKED: &str = "data:;base64,H4sIAAAAAAACA6tWykzPyyzJzM9TsqpWKkstKgYzlYz1TPUMlGp1lIori0tSc1NAsqVAhcVKVtHVSnmJualARQWJydmpKXrFqUVlmcmpSrWxtbUAj4lyyFAAAAA=";

#[test]
fn a_packed_config_in_a_data_url_is_unpacked_and_verified() {
    let text = r#"{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"packed.service"}]}}"#;
    let hash = seaworthy_fetch::Digest::sha256(text.as_bytes()).to_string();
    let input = |hash: &str| {
        let reference = json!({"source": PACKED, "compression": "gzip", "verification": {"hash": hash}});
        ign("00", json!({"ignition": {"config": {"merge": [reference]}}}))
    };
    let outcome = Web::default().render(&[input(&hash)]);
    assert_eq!(*outcome.units(), json!([{"name": "packed.service"}]));

    let wrong = format!("sha256-{}", "00".repeat(32));
    let findings = Web::default().refused(&[input(&wrong)]);
    let finding = one(&findings);
    assert_eq!(finding.code, "RemoteVerificationFailed");
    assert_eq!(places(finding), ["00 spec.config.ignition.config.merge[0].source"]);
    assert!(finding.message.contains(&hash) && finding.message.contains(&wrong), "{finding}");
}

#[test]
fn a_data_url_that_is_not_packed_as_it_says_is_refused() {
    let reference = json!({"source": "data:,plain", "compression": "gzip"});
    let findings = Web::default().refused(&[ign("00", json!({"ignition": {"config": {"replace": reference}}}))]);
    assert_eq!(one(&findings).code, "remote-gzip");
    assert_eq!(places(&findings[0]), ["00 spec.config.ignition.config.replace.source"]);
}

// === Versions, and what is not a config ===

#[rstest]
#[case("2.2.0")]
#[case("2.0.0")]
fn a_config_of_spec_2_is_converted(#[case] version: &str) {
    let file = json!({"filesystem": "root", "path": "/old", "mode": 384, "contents": {"source": "data:,old"}});
    let config = with_version(version, files(json!([file])));
    let web = Web::default().with("https://h/r", config.to_string());
    let outcome = web.render(&[referring(&["https://h/r"], json!({"files": [file_of("/new")]}))]);
    assert_eq!(sources(&outcome)["/old"], "data:,old");
    assert_eq!(outcome.config()["ignition"]["version"], "3.5.0");
    // And the other way around: a config of spec 2 that refers to one of spec 3.
    let web = Web::default().config("https://h/r", files(json!([file_of("/new")])));
    let append = json!({"ignition": {"config": {"append": [{"source": "https://h/r"}]}}});
    let outcome = web.render(&[mc("00", json!({"config": with_version(version, append)}))]);
    assert_eq!(sources(&outcome)["/new"], "data:,new");
    assert_eq!(outcome.config()["ignition"], json!({"version": "3.5.0"}));
}

fn file_of(path: &str) -> Value {
    file(path, "data:,new")
}

#[rstest]
#[case::unknown_version(r#"{"ignition":{"version":"3.9.0"}}"#, "version-unknown", "not valid at ignition.version")]
#[case::relative(
    r#"{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/ok"},{"path":"a"}]}}"#,
    "path-not-absolute",
    "not valid at storage.files[1].path"
)]
#[case::key_as_written(
    r#"{"ignition":{"version":"3.5.0"},"Storage":{"FILES":[{"path":"a"}]}}"#,
    "path-not-absolute",
    "not valid at Storage.FILES[0].path"
)]
#[case::page(
    "\n<!DOCTYPE html><title>Log in</title>",
    "remote-config",
    "starts with \"<!DOCTYPE\" was found; check the URL"
)]
#[case::butane("variant: fcos\nversion: 1.5.0\n", "remote-config", "a Butane config was found")]
#[case::yaml("ignition:\n  version: 3.5.0\n", "remote-config", "an Ignition config is JSON, and YAML was found")]
#[case::secret("hunter2", "remote-config", "7 bytes of something else were found")]
#[case::broken("{", "remote-config", "cannot be read: EOF")]
#[case::twice(r#"{"ignition":{"version":"3.5.0"},"ignition":{}}"#, "remote-config", "given twice")]
#[case::empty("", "remote-config", "it is empty")]
#[case::list("[]", "version-invalid", "not valid at ignition.version")]
fn what_is_no_valid_config_is_refused_with_place_and_url(
    #[case] body: &str,
    #[case] code: &str,
    #[case] message: &str,
) {
    let url = "https://user:secret@h/r?token=secret";
    let web = Web::default().with(url, body);
    let findings = web.refused(&[ign("00", json!({})), ign("50-remote", merging(&[url]))]);
    let finding = one(&findings);
    assert!(finding.is_error());
    assert_eq!(finding.code, code, "{finding}");
    assert_eq!(places(finding), ["50-remote spec.config.ignition.config.merge[0].source"]);
    assert!(finding.message.contains(message), "{finding}");
    assert!(finding.message.contains("https://h/r?token=…"), "{finding}");
    assert!(!finding.to_string().contains("secret"), "{finding}");
}

#[test]
fn every_mistake_of_every_config_is_reported() {
    let web =
        Web::default().config("https://h/1", files(json!([{"path": "a"}, {"path": "b"}]))).with("https://h/2", "{");
    let findings = web.refused(&[referring(&["https://h/1", "https://h/2", "https://h/3"], json!({}))]);
    let all: Vec<_> = findings.iter().map(|finding| (finding.code, places(finding).remove(0))).collect();
    let at = |nth: usize| format!("00 spec.config.ignition.config.merge[{nth}].source");
    assert_eq!(
        all,
        [
            ("path-not-absolute", at(0)),
            ("path-not-absolute", at(0)),
            ("remote-config", at(1)),
            ("RemoteFetchFailed", at(2)),
        ]
    );
}

#[test]
fn a_failed_fetch_names_the_reference_and_the_reason() {
    let digest = |text: &str| Box::new(seaworthy_fetch::Digest::sha256(text.as_bytes()));
    let kinds = [
        (FailureKind::NotFound, "RemoteFetchFailed", "not found (404)"),
        (
            FailureKind::Verification { expected: digest("a"), found: digest("b") },
            "RemoteVerificationFailed",
            "sha256-3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d",
        ),
    ];
    for (kind, code, text) in kinds {
        let input = [referring(&["https://u:secret@h/r"], json!({}))];
        let (outcome, _) =
            try_render_with(&worker(), &input, &context(), &|wanted| Err(failure(&wanted.request.url, kind.clone())));
        let findings = outcome.unwrap_err();
        let finding = one(&findings);
        assert_eq!(finding.code, code);
        assert_eq!(places(finding), ["00 spec.config.ignition.config.merge[0].source"]);
        assert!(finding.message.contains("https://h/r") && finding.message.contains(text), "{finding}");
        assert!(!finding.to_string().contains("secret"), "{finding}");
    }
}

#[test]
fn warnings_of_a_remote_config_are_reported_with_their_location() {
    let web = Web::default().config(
        "https://h/r",
        json!({"storage": {"Files": [{"path": "/a", "note": 1, "contents": {"source": "http://h/plain"}}]}}),
    );
    let web = web.with("http://h/plain", "x");
    let outcome = web.render(&[referring(&["https://h/r"], json!({}))]);
    let mut all: Vec<_> = outcome.findings.iter().map(|finding| (finding.code, places(finding).remove(0))).collect();
    all.sort();
    let at = |path: &str| format!("00 storage.Files{path} (https://h/r)");
    assert_eq!(
        all,
        [("key-case", at("")), ("plain-http-without-hash", at("[0].contents.source")), ("unknown-key", at("[0].note")),]
    );
}

#[test]
fn a_file_of_a_remote_config_has_no_special_mode_bits_either() {
    let file = json!({"path": "/a", "mode": 0o4755, "contents": {"source": "data:,"}});
    let web = Web::default().config("https://h/r", files(json!([file])));
    let findings = web.refused(&[referring(&["https://h/r"], json!({}))]);
    let errors: Vec<_> = findings.into_iter().filter(seaworthy_render::Finding::is_error).collect();
    assert_eq!(one(&errors).code, "file-mode");
    assert_eq!(places(&errors[0]), ["00 storage.files[0].mode (https://h/r)"]);
}

#[test]
fn what_is_broken_only_together_with_a_remote_config_names_both() {
    let web = Web::default().config("https://h/r", files(json!([file("/l/f", "data:,")])));
    let findings = web.refused(&[referring(&["https://h/r"], json!({"links": [{"path": "/l", "target": "/t"}]}))]);
    let mut named = places(one(&findings));
    named.sort();
    assert_eq!(named, ["00 spec.config.storage.links[0]", "00 storage.files[0] (https://h/r)"]);
}

// === Nothing is left ===

#[test]
fn an_unresolved_reference_is_refused() {
    for (references, path) in [
        (json!({"merge": [{"source": "https://u:secret@h/r"}]}), "merge[0].source"),
        (json!({"replace": {"source": "s3://bucket/key"}}), "replace.source"),
        (json!({"merge": [{"source": data_url(r#"{"ignition":{"version":"3.5.0"}}"#)}]}), "merge[0].source"),
    ] {
        // Straight to rendering, as a caller might who forgot the step between.
        let findings = refused(&worker(), &[ign("00", json!({"ignition": {"config": references}}))]);
        let finding = one(&findings);
        assert_eq!(finding.code, "RemoteFetchFailed");
        assert_eq!(places(finding), [format!("00 spec.config.ignition.config.{path}")]);
        assert!(!finding.to_string().contains("secret"), "{finding}");
    }
}

#[test]
fn an_input_without_references_is_left_alone() {
    let (outcome, rounds) = Web::default().try_render(&[ign("00", files(json!([file("/a", "data:,x")])))]);
    assert_eq!(rounds.len(), 0);
    assert_eq!(outcome.unwrap(), rendered(&worker(), &[ign("00", files(json!([file("/a", "data:,x")])))]));
}

#[test]
fn what_another_config_replaces_is_not_fetched() {
    let web = Web::default()
        .config("https://h/1", files(json!([file("/a", "data:,1"), file("/b", "https://h/gone-too")])))
        .config(
            "https://h/2",
            json!({"storage": {"files": [file("/b", "https://h/b")], "links": [{"path": "/l", "target": "/t"}]}}),
        )
        .with("https://h/b", "b");
    let local = json!({"files": [file("/a", "https://h/gone"), file("/l", "https://h/gone")]});
    let (outcome, rounds) = web.try_render(&[referring(&["https://h/1", "https://h/2"], local)]);
    let outcome = outcome.unwrap_or_else(|findings| panic!("{}", shown(&findings)));
    assert_eq!(urls(&rounds), [vec!["https://h/1", "https://h/2"], vec!["https://h/b"]]);
    let sources = sources(&outcome);
    assert_eq!(sources.keys().collect::<Vec<_>>(), [&"/a", &"/b"]);
    assert_eq!((sources["/a"], sources["/b"]), ("data:,1", "data:,b"));
}
