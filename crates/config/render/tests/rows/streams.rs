//! OS image streams, and the container runtime that some of them lack.

use std::collections::BTreeMap;

use seaworthy_ignition::{Node, Severity};
use seaworthy_render::controller_config::OsImages;
use seaworthy_render::{Context, OsImageStreams, Pool};
use serde_json::{Value, json};

use crate::support::*;

fn offering(worker_stream: Option<&str>) -> Context {
    let images = |name: &str| OsImages { os: format!("{name}-os"), extensions: format!("{name}-ext") };
    let streams: BTreeMap<_, _> =
        ["rhel-9", "rhel-10", "centos-10"].map(|name| (name.to_owned(), images(name))).into_iter().collect();
    Context {
        streams: Some(OsImageStreams { default: "rhel-9".to_owned(), streams }),
        worker_stream: worker_stream.map(str::to_owned),
        ..context()
    }
}

fn asking(mut pool: Pool, stream: &str) -> Pool {
    pool.os_image_stream = Some(stream.to_owned());
    pool
}

#[test]
fn row_18_an_os_image_and_a_stream_exclude_each_other() {
    let findings = refused_in(
        &asking(worker(), "rhel-10"),
        &[mc("00", json!({})), mc("x", json!({"osImageURL": "img@sha256:bb"}))],
        &offering(None),
    );
    let finding = one(&findings);
    assert_eq!(finding.code, "os-image-and-stream");
    assert_eq!(places(finding), ["x spec.osImageURL", "worker spec.osImageStream.name"]);
    // Without a stream of its own the pool takes the image.
    let outcome = rendered_in(&worker(), &[mc("x", json!({"osImageURL": "img@sha256:bb"}))], &offering(None));
    assert_eq!(outcome.spec["osImageURL"], "img@sha256:bb");
}

#[test]
fn row_120_a_pool_takes_its_own_stream_or_the_workers_or_the_default() {
    let images = |pool: &Pool, worker_stream: Option<&str>| {
        let outcome = rendered_in(pool, &[mc("00", json!({}))], &offering(worker_stream));
        assert_eq!(outcome.annotations.get(seaworthy_render::keys::OS_IMAGE_OVERRIDDEN), None);
        let text = |key: &str| outcome.spec[key].as_str().unwrap().to_owned();
        (text("osImageURL"), text("baseOSExtensionsContainerImage"))
    };
    let of = |name: &str| (format!("{name}-os"), format!("{name}-ext"));
    assert_eq!(images(&asking(infra(), "rhel-10"), Some("rhel-9")), of("rhel-10"));
    assert_eq!(images(&infra(), Some("rhel-10")), of("rhel-10"));
    assert_eq!(images(&infra(), None), of("rhel-9"));
    assert_eq!(images(&worker(), None), of("rhel-9"));
    // What the workers ask for is no default for the masters.
    let master = pool("master", json!({"matchLabels": {seaworthy_render::keys::ROLE: "worker"}}));
    assert_eq!(images(&master, Some("rhel-10")), of("rhel-9"));
}

#[test]
fn row_120_streams_are_read_from_their_manifest() {
    let object = json!({
        "metadata": {"name": "cluster"},
        "status": {
            "defaultStream": "rhel-9",
            "availableStreams": [
                {"name": "rhel-9", "osImage": "os9", "osExtensionsImage": "ext9"},
                {"name": "rhel-10", "osImage": "os10", "osExtensionsImage": "ext10"},
            ],
        },
    });
    let streams = OsImageStreams::read(&Node::from_json(&object)).unwrap();
    assert_eq!(streams.default, "rhel-9");
    assert_eq!(streams.streams["rhel-10"], OsImages { os: "os10".to_owned(), extensions: "ext10".to_owned() });
    let context = Context { streams: Some(streams), ..context() };
    assert_eq!(rendered_in(&worker(), &[mc("00", json!({}))], &context).spec["osImageURL"], "os9");
}

#[test]
fn row_120_a_stream_that_does_not_exist_is_refused() {
    let findings = refused_in(&asking(worker(), "rhel-8"), &[mc("00", json!({}))], &offering(None));
    let finding = one(&findings);
    assert_eq!(finding.code, "unknown-stream");
    assert_eq!(places(finding), ["worker spec.osImageStream.name"]);
    assert!(finding.message.contains("\"rhel-8\"") && finding.message.contains("centos-10, rhel-10, rhel-9"));
}

fn crio(name: &str, dropin: &str, toml: &str) -> Value {
    let body: String = toml.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let path = format!("/etc/crio/crio.conf.d/{dropin}");
    ign(name, files(json!([file(&path, &format!("data:,{body}"))])))
}

const RUNC: &str = "[crio]\n[crio.runtime]\ndefault_runtime = \"runc\"\n";
const SOURCE_OF_99: &str = "99-r spec.config.storage.files[0].contents.source";
const CRUN: &str = "[crio.runtime]\n  default_runtime=\"crun\" # the default\n";

#[test]
fn row_121_runc_is_refused_where_the_os_does_not_have_it() {
    let inputs = [crio("00", "00-default", CRUN), crio("99-r", "01-runtime", RUNC)];
    for stream in ["rhel-10", "centos-10"] {
        let findings = refused_in(&asking(worker(), stream), &inputs, &offering(None));
        let finding = one(&findings);
        assert_eq!(finding.code, "runtime-not-in-stream");
        assert_eq!(places(finding), [SOURCE_OF_99]);
        assert_eq!(finding.subject, "file /etc/crio/crio.conf.d/01-runtime");
        assert!(finding.message.contains(stream), "{finding}");
    }
    assert_eq!(rendered_in(&asking(worker(), "rhel-9"), &inputs, &offering(None)).inputs.len(), 2);
    // Inherited streams count as well.
    assert_eq!(refused_in(&infra(), &inputs, &offering(Some("rhel-10"))).len(), 1);
}

#[test]
fn row_121_the_last_dropin_in_the_order_of_names_decides() {
    let inputs = [crio("00", "99-crun", CRUN), crio("99", "01-runc", RUNC)];
    assert_eq!(rendered_in(&asking(worker(), "rhel-10"), &inputs, &offering(None)).inputs.len(), 2);
}

#[test]
fn row_121_a_packed_dropin_is_looked_into() {
    let packed = "data:;base64,H4sIAAAAAAACA4tOLsrMj+WKBlF6RaV5JZm5qbFcKalpiaU5JfFQAQVbBSUgM1mJCwBtWl9NLwAAAA==";
    let body = json!({"source": packed, "compression": "gzip"});
    let input = ign("99-r", files(json!([{"path": "/etc/crio/crio.conf.d/01-runtime", "contents": body}])));
    let findings = refused_in(&asking(worker(), "rhel-10"), &[input], &offering(None));
    assert_eq!(one(&findings).code, "runtime-not-in-stream");
}

#[test]
fn row_121_a_dropin_that_is_not_toml_is_reported_and_refused_if_it_plainly_sets_runc() {
    let broken = "[crio.runtime]\nlog_level = info\ndefault_runtime = \"runc\"\n";
    let inputs = [crio("99-r", "01-runtime", broken)];
    let outcome = rendered_in(&asking(worker(), "rhel-9"), &inputs, &offering(None));
    let finding = outcome.only("invalid-crio-drop-in");
    assert_eq!((finding.severity, places(finding)), (Severity::Warning, vec![SOURCE_OF_99.to_owned()]));
    let start = "/etc/crio/crio.conf.d/01-runtime is not valid TOML, and CRI-O does not start with it: line 2: ";
    assert!(finding.message.starts_with(start), "{finding}");
    let findings = refused_in(&asking(worker(), "rhel-10"), &inputs, &offering(None));
    assert_eq!(one(&findings).code, "runtime-not-in-stream");
}

#[test]
fn row_121_of_an_image_of_the_users_own_nothing_is_known() {
    let inputs = [crio("00", "01", RUNC), mc("99", json!({"osImageURL": "img@sha256:bb"}))];
    let mut context = offering(Some("rhel-10"));
    context.streams.as_mut().unwrap().default = "rhel-10".to_owned();
    assert_eq!(rendered_in(&worker(), &inputs, &context).spec["osImageURL"], "img@sha256:bb");
}
