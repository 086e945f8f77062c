//! Everything of a MachineConfig beside its Ignition config, and the names that come of it.

use seaworthy_ignition::Severity;
use seaworthy_render::{Context, keys};
use serde_json::{Value, json};

use crate::support::*;

/// The kernel arguments, extensions and so on of inputs that are called 00, 01, …
fn specs(specs: &[Value]) -> Vec<Value> {
    specs.iter().enumerate().map(|(nth, spec)| mc(&format!("{nth:02}"), spec.clone())).collect()
}

#[test]
fn row_01_one_input_with_fips_has_the_recorded_spec_and_name() {
    let mut context = context();
    context.controller_config.os_image = "newformatURL".to_owned();
    let outcome = rendered_in(&worker(), &[mc("00", json!({"fips": true}))], &context);
    assert_eq!(
        outcome.spec,
        json!({
            "baseOSExtensionsContainerImage": "",
            "config": {"ignition": {"version": "3.5.0"}},
            "extensions": [],
            "fips": true,
            "kernelArguments": [],
            "kernelType": "default",
            "osImageURL": "newformatURL",
        })
    );
    assert_eq!(outcome.name, "rendered-worker-552a0f58ccdcced4c68ca23fe3db7b58");
}

#[test]
fn row_02_one_empty_input_has_the_recorded_name() {
    let context = Context::default();
    for spec in [json!({}), json!(null), json!({"config": null, "kernelArguments": null, "kernelType": ""})] {
        let outcome = rendered_in(&worker(), &[mc("00", spec)], &context);
        assert_eq!(outcome.name, "rendered-worker-6da92b29d98fcd722bbf117520c22ee4");
    }
}

#[test]
fn row_07_nine_inputs_become_one() {
    let core = |core: Value| json!({"config": with_version("3.5.0", json!({"passwd": {"users": [core]}}))});
    let outcome = rendered(
        &worker(),
        &specs(&[
            json!({"osImageURL": "img@sha256:bb"}),
            json!({"kernelArguments": ["nosmt"]}),
            json!({"kernelType": "realtime"}),
            json!({"extensions": ["usbguard"]}),
            json!({"fips": true}),
            core(json!({"name": "core", "sshAuthorizedKeys": ["5678"]})),
            core(json!({"name": "core", "sshAuthorizedKeys": ["1234"]})),
            core(json!({"name": "core", "passwordHash": "hash"})),
            json!({"config": with_version("2.2.0", json!({}))}),
        ]),
    );
    assert_eq!(
        outcome.spec,
        json!({
            "baseOSExtensionsContainerImage": "",
            "config": {
                "ignition": {"version": "3.5.0"},
                "passwd": {"users": [{"name": "core", "passwordHash": "hash", "sshAuthorizedKeys": ["5678", "1234"]}]},
            },
            "extensions": ["usbguard"],
            "fips": true,
            "kernelArguments": ["nosmt"],
            "kernelType": "realtime",
            "osImageURL": "img@sha256:bb",
        })
    );
}

#[test]
fn row_08_kernel_arguments_are_put_one_after_the_other_as_they_are() {
    let outcome = rendered(
        &worker(),
        &specs(&[
            json!({"kernelArguments": ["a", "nosmt"]}),
            json!({"kernelArguments": ["b", "a"]}),
            json!({"kernelArguments": ["loglevel=7 quiet"]}),
        ]),
    );
    assert_eq!(outcome.spec["kernelArguments"], json!(["a", "nosmt", "b", "a", "loglevel=7 quiet"]));
}

#[test]
fn row_09_the_last_special_kernel_wins_and_a_later_default_does_not_reset_it() {
    let outcome = rendered(
        &worker(),
        &specs(&["realtime", "64k-pages", "default", ""].map(|kernel| json!({"kernelType": kernel}))),
    );
    assert_eq!(outcome.spec["kernelType"], "64k-pages");
}

#[test]
fn row_10_a_default_of_infra_does_not_reset_the_workers_kernel() {
    let inputs = [mc("aa", json!({"kernelType": "realtime"})), mc_of("infra", "zz", json!({"kernelType": "default"}))];
    assert_eq!(rendered(&infra(), &inputs).spec["kernelType"], "realtime");
}

#[test]
fn row_11_an_unknown_kernel_is_refused_by_name_and_path() {
    let findings = refused(&worker(), &[mc("00", json!({})), mc("x", json!({"kernelType": "rt"}))]);
    let finding = one(&findings);
    assert_eq!((finding.code, finding.pool.as_deref()), ("kernel-type", Some("worker")));
    assert_eq!(places(finding), ["x spec.kernelType"]);
    assert!(finding.message.starts_with("kernelType=rt is invalid; expected one of"), "{finding}");
}

#[test]
fn row_12_kernel_headers_for_another_kernel_are_refused_with_both_inputs() {
    let findings =
        refused(&worker(), &specs(&[json!({"extensions": ["kernel-devel"]}), json!({"kernelType": "realtime"})]));
    let finding = one(&findings);
    assert_eq!(finding.code, "kernel-devel");
    assert_eq!(places(finding), ["00 spec.extensions[0]", "01 spec.kernelType"]);
    assert!(finding.message.contains("not supported with kernelType: realtime"), "{finding}");
    let usual = specs(&[json!({"extensions": ["kernel-devel"]}), json!({"kernelType": "default"})]);
    assert_eq!(rendered(&worker(), &usual).spec["extensions"], json!(["kernel-devel"]));
}

#[test]
fn row_13_unknown_extensions_are_refused_together() {
    let spec = json!({"config": with_version("3.5.0", json!({})), "extensions": ["usbguard", "nope", "x"]});
    let findings = refused(&worker(), &[mc("e", spec)]);
    let finding = one(&findings);
    assert_eq!(finding.code, "extension");
    assert_eq!(places(finding), ["e spec.extensions[1]"]);
    assert!(finding.message.starts_with("invalid extensions found: [nope x]; expected any of"), "{finding}");
}

#[test]
fn row_13_every_known_extension_is_accepted() {
    let all =
        ["two-node-ha", "ipsec", "usbguard", "kerberos", "kernel-devel", "sandboxed-containers", "sysstat"].to_vec();
    let spec = json!({"config": with_version("3.5.0", json!({})), "extensions": all});
    let outcome = rendered(&worker(), &[mc("e", spec)]);
    assert_eq!(outcome.spec["extensions"], json!(all));
    assert_eq!(outcome.coded("extension").len(), 0);
}

/// Upstream looks at extensions only beside an Ignition config, so its clusters may have such an input.
#[test]
fn row_14_an_unknown_extension_without_a_config_is_kept_with_a_warning() {
    let outcome = rendered(&worker(), &[mc("e", json!({"extensions": ["nope"]}))]);
    assert_eq!(outcome.spec["extensions"], json!(["nope"]));
    let finding = outcome.only("extension");
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(places(finding), ["e spec.extensions[0]"]);
}

#[test]
fn row_15_extensions_are_put_one_after_the_other_as_they_are() {
    let outcome = rendered(
        &worker(),
        &specs(&[json!({"extensions": ["sysstat", "usbguard"]}), json!({"extensions": ["usbguard"]})]),
    );
    assert_eq!(outcome.spec["extensions"], json!(["sysstat", "usbguard", "usbguard"]));
}

#[test]
fn row_16_the_last_os_image_that_is_not_empty_wins_and_is_flagged() {
    let outcome = rendered(&worker(), &specs(&["A", "z:tag", ""].map(|image| json!({"osImageURL": image}))));
    assert_eq!(outcome.spec["osImageURL"], "z:tag");
    assert_eq!(outcome.annotations[keys::OS_IMAGE_OVERRIDDEN], "true");
    let plain = rendered(&worker(), &specs(&[json!({})]));
    assert_eq!(plain.spec["osImageURL"], BASE);
    assert_eq!(plain.annotations.get(keys::OS_IMAGE_OVERRIDDEN), None);
}

#[test]
fn row_17_images_of_generated_inputs_do_not_count() {
    let mut context = context();
    context.build = "b".to_owned();
    context.controller_config.extensions_image = "ext".to_owned();
    let spec = json!({"osImageURL": "other", "baseOSExtensionsContainerImage": "other"});
    let outcome = rendered_in(&worker(), &[generated_by("b", mc("00", spec.clone()))], &context);
    assert_eq!(outcome.spec["osImageURL"], BASE);
    assert_eq!(outcome.spec["baseOSExtensionsContainerImage"], "ext");
    assert_eq!(outcome.annotations.get(keys::OS_IMAGE_OVERRIDDEN), None);
    // An empty annotation does not mark a MachineConfig as generated.
    let outcome = rendered_in(&worker(), &[generated_by("", mc("00", spec))], &context);
    assert_eq!(outcome.spec["osImageURL"], "other");
}

#[test]
fn row_19_the_last_extensions_image_wins() {
    let mut context = context();
    context.controller_config.extensions_image = "def".to_owned();
    let inputs = specs(&["e1", "e2"].map(|image| json!({"baseOSExtensionsContainerImage": image})));
    assert_eq!(rendered_in(&worker(), &inputs, &context).spec["baseOSExtensionsContainerImage"], "e2");
    let outcome = rendered_in(&worker(), &specs(&[json!({})]), &context);
    assert_eq!(outcome.spec["baseOSExtensionsContainerImage"], "def");
    // The extensions image alone is no override of the OS.
    assert_eq!(rendered_in(&worker(), &inputs, &context).annotations.get(keys::OS_IMAGE_OVERRIDDEN), None);
}

/// Differs: the upstream's render function refuses inputs of another build; here rendering takes what it is given, because
/// whether a cluster waits for its own generators is decided before (`plan::rendering::choice`), and a dump of a cluster renders
/// whichever build reads it. So it does with a ControllerConfig of another version (21), which rendering does not even read.
#[test]
fn row_20_inputs_of_other_builds_are_rendered() {
    let inputs = [generated_by("v1", mc("00", json!({}))), generated_by("b", mc("01", json!({})))];
    let context = Context { build: "b".to_owned(), ..context() };
    assert_eq!(rendered_in(&worker(), &inputs, &context).inputs, ["00", "01"]);
}

#[test]
fn row_22_fips_stays_on() {
    assert_eq!(rendered(&worker(), &specs(&[json!({"fips": true}), json!({"fips": false})])).spec["fips"], true);
    assert_eq!(rendered(&worker(), &specs(&[json!({"fips": false}), json!({"fips": true})])).spec["fips"], true);
    assert_eq!(rendered(&worker(), &specs(&[json!({"fips": false}), json!({})])).spec["fips"], false);
}

#[test]
fn row_54_a_config_that_is_null_is_none() {
    let outcome = rendered(&worker(), &[mc("00", json!({"config": null, "kernelArguments": ["x"]}))]);
    assert_eq!(outcome.spec["kernelArguments"], json!(["x"]));
    assert_eq!(*outcome.config(), json!({"ignition": {"version": "3.5.0"}}));
}

#[test]
fn every_broken_input_of_a_pool_is_reported_at_once() {
    let broken = json!({"config": with_version("3.5.0", files(json!([{"path": "a"}, {"path": "b"}])))});
    let inputs = [mc("z", json!({"kernelType": "rt"})), mc("good", json!({})), mc("a", broken)];
    let findings = refused(&worker(), &inputs);
    let all: Vec<String> = findings.iter().flat_map(places).collect();
    assert_eq!(
        all,
        ["a spec.config.storage.files[0].path", "a spec.config.storage.files[1].path", "z spec.kernelType"]
    );
}

#[test]
fn what_the_fields_and_the_configs_break_together_is_reported_at_once() {
    let mut pool = worker();
    pool.os_image_stream = Some("s".to_owned());
    let link = json!({"storage": {"links": [{"path": "/l", "target": "/t"}]}});
    let inputs = [
        mc("a", json!({"config": with_version("3.5.0", link), "extensions": ["kernel-devel"]})),
        mc("b", json!({"config": with_version("3.5.0", files(json!([file("/l/f", "data:,")]))), "osImageURL": "x"})),
        mc("c", json!({"kernelType": "realtime"})),
    ];
    let findings = refused(&pool, &inputs);
    let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes.len(), 3, "{}", shown(&findings));
    for code in ["kernel-devel", "os-image-and-stream"] {
        assert!(codes.contains(&code), "{}", shown(&findings));
    }
}

#[test]
fn fields_of_the_wrong_type_are_refused_at_their_paths() {
    let cases = [
        (json!({"config": "{}"}), "spec.config", "remove the quotes"),
        (json!({"config": []}), "spec.config", "an Ignition config as an object"),
        (json!({"kernelArguments": "a"}), "spec.kernelArguments", "a list of strings"),
        (json!({"kernelArguments": ["a", 1]}), "spec.kernelArguments[1]", "a string"),
        (json!({"extensions": [null]}), "spec.extensions[0]", "a string"),
        (json!({"fips": "true"}), "spec.fips", "true or false"),
        (json!({"kernelType": 64}), "spec.kernelType", "a string"),
        (json!({"osImageURL": {}}), "spec.osImageURL", "a string"),
        (json!({"baseOSExtensionsContainerImage": 1}), "spec.baseOSExtensionsContainerImage", "a string"),
        (json!([]), "spec", "an object"),
    ];
    for (spec, path, accepted) in cases {
        let findings = refused(&worker(), &[mc("m", spec.clone())]);
        let finding = findings.iter().find(|finding| finding.code == "wrong-type").expect("a finding of its type");
        assert_eq!(places(finding), [format!("m {path}")], "{spec}");
        assert!(finding.message.contains(accepted), "{finding}");
    }
}
