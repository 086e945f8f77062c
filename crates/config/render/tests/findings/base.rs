//! The base: the generated MachineConfigs that users' MachineConfigs build upon.

use seaworthy_ignition::Severity;
use serde_json::json;

use crate::findings::{assert_gist, platform};
use crate::support::*;

#[test]
fn a_user_wins_over_the_platform_whatever_the_names() {
    let user = ign("0-x", files(json!([file("/a", "data:,user")])));
    let template = ign("00-worker", files(json!([file("/a", "data:,platform")])));
    // By name alone the user would come first, and lose.
    let outcome = rendered(&worker(), &[user.clone(), template.clone()]);
    assert_eq!(outcome.inputs, ["0-x", "00-worker"]);
    assert_eq!(outcome.files()[0]["contents"]["source"], "data:,platform");

    for platform_made in [platform(template.clone()), generated_by("b", template)] {
        let outcome = rendered(&worker(), &[user.clone(), platform_made]);
        assert_eq!(outcome.inputs, ["00-worker", "0-x"]);
        assert_eq!(outcome.files()[0]["contents"]["source"], "data:,user");
        assert_gist(
            outcome.only("conflict"),
            Severity::Info,
            "file /a",
            &[
                "0-x spec.config.storage.files[0].contents.source",
                "00-worker spec.config.storage.files[0].contents.source",
            ],
        );
    }
}

#[test]
fn what_is_generated_from_a_users_object_keeps_its_place_among_the_users() {
    let kubelet = generated_by("b", mc("99-worker-generated-kubelet", json!({})));
    for kubelet in [kubelet.clone(), owned_by("KubeletConfig", kubelet)] {
        let inputs = [
            platform(mc("00-worker", json!({}))),
            mc("50-user", json!({})),
            kubelet,
            mc("99-worker-ssh", json!({})),
            mc("0-x", json!({})),
        ];
        let outcome = rendered(&worker(), &inputs);
        assert_eq!(outcome.inputs, ["00-worker", "0-x", "50-user", "99-worker-generated-kubelet", "99-worker-ssh"]);
    }
}

#[test]
fn the_platforms_base_of_a_custom_pool_lies_below_the_workers_own_configs() {
    let inputs = [
        mc("50-user", json!({})),
        platform(mc_of("infra", "00-infra", json!({}))),
        platform(mc("01-worker-kubelet", json!({}))),
        mc_of("infra", "10-infra-user", json!({})),
    ];
    let outcome = rendered(&infra(), &inputs);
    assert_eq!(outcome.inputs, ["01-worker-kubelet", "00-infra", "50-user", "10-infra-user"]);
}
