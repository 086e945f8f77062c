//! Timeouts, proxies and certificate authorities of a config apply to what it refers to.

use std::time::Duration;

use seaworthy_fetch::{FetchSettings, Proxy};
use serde_json::{Value, json};

use crate::remote::{Web, merging, urls};
use crate::support::*;

fn settings_of<'w>(rounds: &'w Rounds, url: &str) -> &'w FetchSettings {
    let wanted = rounds.iter().flatten().find(|wanted| wanted.request.url == url);
    &wanted.unwrap_or_else(|| panic!("{url} was not asked for")).request.settings
}

/// Sections with settings, which refer to other configs and have a file.
fn with_settings(settings: Value, references: &[&str], file_at: &str) -> Value {
    let mut sections = merging(references);
    for (key, value) in settings.as_object().unwrap() {
        sections["ignition"][key] = value.clone();
    }
    // Each at a path of its own: what another config replaces is not fetched.
    let path = &file_at[file_at.rfind('/').unwrap()..];
    sections["storage"]["files"] = json!([file(path, file_at)]);
    sections
}

fn authorities(sources: &[&str]) -> Value {
    let list: Vec<Value> = sources.iter().map(|source| json!({"source": source})).collect();
    json!({"security": {"tls": {"certificateAuthorities": list}}})
}

/// The authorities that a request trusts.
fn trusted(rounds: &Rounds, url: &str) -> Vec<Vec<u8>> {
    settings_of(rounds, url).certificate_authorities.iter().map(|bundle| bundle.to_vec()).collect()
}

#[test]
fn without_settings_the_defaults_are_used() {
    let (outcome, rounds) =
        Web::default().with("https://h/a", "a").try_render(&[ign("00", files(json!([file("/a", "https://h/a")])))]);
    outcome.unwrap();
    assert_eq!(*settings_of(&rounds, "https://h/a"), FetchSettings::default());
}

#[test]
fn settings_of_a_config_apply_to_its_own_bodies_and_references_and_below() {
    let outer = json!({
        "timeouts": {"httpResponseHeaders": 3, "httpTotal": 20},
        "proxy": {"httpsProxy": "https://proxy.outer", "noProxy": ["a", "b"]},
    });
    let web = Web::default()
        .config("https://h/r", with_settings(json!({}), &[], "https://h/inner-file"))
        .with("https://h/outer-file", "1")
        .with("https://h/inner-file", "2");
    let (outcome, rounds) =
        web.try_render(&[ign("00", with_settings(outer, &["https://h/r"], "https://h/outer-file"))]);
    outcome.unwrap();
    let expected = FetchSettings {
        response_headers_timeout: Some(Duration::from_secs(3)),
        total_timeout: Some(Duration::from_secs(20)),
        proxy: Proxy {
            http: None,
            https: Some("https://proxy.outer".to_owned()),
            no_proxy: vec!["a".to_owned(), "b".to_owned()],
        },
        certificate_authorities: Vec::new(),
    };
    for url in ["https://h/r", "https://h/outer-file", "https://h/inner-file"] {
        assert_eq!(*settings_of(&rounds, url), expected, "{url}");
    }
}

#[test]
fn settings_of_the_config_referred_to_apply_to_what_is_nested_in_it_and_nowhere_else() {
    let outer = json!({"timeouts": {"httpResponseHeaders": 3, "httpTotal": 20}});
    let inner = json!({"timeouts": {"httpTotal": 7}, "proxy": {"httpProxy": "http://proxy.inner"}});
    let web = Web::default()
        .config("https://h/r", with_settings(inner, &["https://h/below"], "https://h/inner-file"))
        .config("https://h/below", with_settings(json!({}), &[], "https://h/below-file"))
        .config("https://h/other", with_settings(json!({}), &[], "https://h/other-file"))
        .with("https://h/outer-file", "1")
        .with("https://h/inner-file", "2")
        .with("https://h/below-file", "3")
        .with("https://h/other-file", "4");
    let (outcome, rounds) =
        web.try_render(&[ign("00", with_settings(outer, &["https://h/r", "https://h/other"], "https://h/outer-file"))]);
    outcome.unwrap();
    let seconds = |number| Some(Duration::from_secs(number));
    for url in ["https://h/r", "https://h/other", "https://h/outer-file", "https://h/other-file"] {
        let settings = settings_of(&rounds, url);
        assert_eq!((settings.response_headers_timeout, settings.total_timeout), (seconds(3), seconds(20)), "{url}");
        assert_eq!(settings.proxy, Proxy::default(), "{url}");
    }
    for url in ["https://h/inner-file", "https://h/below", "https://h/below-file"] {
        let settings = settings_of(&rounds, url);
        // What the inner one does not set it inherits.
        assert_eq!((settings.response_headers_timeout, settings.total_timeout), (seconds(3), seconds(7)), "{url}");
        assert_eq!(settings.proxy.http.as_deref(), Some("http://proxy.inner"), "{url}");
    }
}

#[test]
fn authorities_add_up_on_the_way_down() {
    let web = Web::default()
        .config("https://h/r", with_settings(authorities(&["data:,inner-ca"]), &[], "https://h/inner-file"))
        .with("https://h/outer-file", "1")
        .with("https://h/inner-file", "2");
    let input = ign("00", with_settings(authorities(&["data:,outer-ca"]), &["https://h/r"], "https://h/outer-file"));
    let (outcome, rounds) = web.try_render(&[input]);
    let outcome = outcome.unwrap();
    let trusted = |url: &str| trusted(&rounds, url);
    assert_eq!(trusted("https://h/r"), [b"outer-ca"]);
    assert_eq!(trusted("https://h/outer-file"), [b"outer-ca"]);
    assert_eq!(trusted("https://h/inner-file"), [b"outer-ca", b"inner-ca"]);
    assert_eq!(
        outcome.config()["ignition"]["security"]["tls"]["certificateAuthorities"],
        json!([{"source": "data:,outer-ca"}, {"source": "data:,inner-ca"}])
    );
}

#[test]
fn a_packed_authority_is_trusted_unpacked() {
    let packed = "data:;base64,H4sIAAAAAAACA6sAAIMW3IwBAAAA";
    let settings =
        json!({"security": {"tls": {"certificateAuthorities": [{"source": packed, "compression": "gzip"}]}}});
    let (outcome, rounds) =
        Web::default().with("https://h/f", "1").try_render(&[ign("00", with_settings(settings, &[], "https://h/f"))]);
    outcome.unwrap();
    assert_eq!(trusted(&rounds, "https://h/f"), [b"x"]);
}

/// Asked for without it, the server would not be trusted, and that answer would stay.
#[test]
fn a_remote_authority_is_fetched_before_anything_that_needs_it() {
    let web = Web::default()
        .with("https://public/ca", "the ca")
        .config("https://private/r", with_settings(json!({}), &[], "https://private/inner"))
        .with("https://private/file", "1")
        .with("https://private/inner", "2");
    let input =
        ign("00", with_settings(authorities(&["https://public/ca"]), &["https://private/r"], "https://private/file"));
    let (outcome, rounds) = web.try_render(&[input]);
    assert_eq!(
        urls(&rounds),
        [vec!["https://public/ca"], vec!["https://private/r"], vec!["https://private/file", "https://private/inner"]]
    );
    assert_eq!(trusted(&rounds, "https://public/ca"), Vec::<Vec<u8>>::new());
    for url in ["https://private/r", "https://private/file", "https://private/inner"] {
        assert_eq!(trusted(&rounds, url), [b"the ca"], "{url}");
    }
    let outcome = outcome.unwrap();
    assert_eq!(
        outcome.config()["ignition"]["security"]["tls"]["certificateAuthorities"],
        json!([{"source": "data:,the%20ca", "compression": ""}])
    );
}

#[test]
fn a_remote_authority_of_a_remote_config_is_fetched_before_what_is_nested_there() {
    let web = Web::default()
        .config("https://h/r", with_settings(authorities(&["https://h/ca"]), &[], "https://private/inner"))
        .with("https://h/ca", "ca")
        .with("https://private/inner", "1")
        .with("https://h/outer", "2");
    let (outcome, rounds) = web.try_render(&[ign("00", with_settings(json!({}), &["https://h/r"], "https://h/outer"))]);
    outcome.unwrap();
    assert_eq!(
        urls(&rounds),
        [vec!["https://h/r"], vec!["https://h/ca"], vec!["https://h/outer", "https://private/inner"]]
    );
}

#[test]
fn an_authority_that_cannot_be_had_is_the_only_thing_that_is_reported() {
    let input = ign("00", with_settings(authorities(&["https://h/ca"]), &["https://h/r"], "https://h/f"));
    let findings = Web::default().refused(&[input]);
    assert_eq!(places(one(&findings)), ["00 spec.config.ignition.security.tls.certificateAuthorities[0].source"]);
}
