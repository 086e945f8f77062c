//! Bootstrap data (rows 22 to 37).

use rstest::rstest;
use seaworthy_api::vocabulary::cluster::Contract;
use serde_json::{Value, json};

use super::world::{GenericBootstrapConfig, World};

const MARK: &str = "seaworthy.dev/bootstrap-data-secret";

fn bootstrap(world: &World) -> Value {
    world.pool()["spec"]["template"]["spec"]["bootstrap"].clone()
}

fn created(world: &World) -> Value {
    world.status()["initialization"]["bootstrapDataSecretCreated"].clone()
}

fn edit_bootstrap(world: &mut World, patch: Value) {
    world.edit(json!({"spec": {"template": {"spec": {"bootstrap": patch}}}}));
}

/// A pool without configRef.
fn alone(secret: Value) -> World {
    let mut world = World::new(1);
    edit_bootstrap(&mut world, json!({"configRef": null, "dataSecretName": secret}));
    world
}

#[test]
fn row_22_copied_name_follows_the_object_that_is_referred_to() {
    let mut world = World::running(1);
    world.create::<GenericBootstrapConfig>(
        json!({"metadata": {"name": "bc2"}, "status": {"ready": true, "dataSecretName": "data-new"}}),
    );
    edit_bootstrap(&mut world, json!({"configRef": {"name": "bc2"}}));
    world.settle();
    assert_eq!(bootstrap(&world)["dataSecretName"], "data-new");
    assert_eq!((created(&world), world.phase().as_str()), (json!(true), "Running"));
    assert_eq!(world.pool()["metadata"]["annotations"][MARK], "GenericBootstrapConfig/bc2:data-new");
}

#[test]
fn row_23_name_stays_until_the_new_object_is_ready() {
    let mut world = World::running(1);
    world.create::<GenericBootstrapConfig>(
        json!({"metadata": {"name": "bc2"}, "status": {"ready": false, "dataSecretName": "data-new"}}),
    );
    edit_bootstrap(&mut world, json!({"configRef": {"name": "bc2"}}));
    world.settle();
    assert_eq!(bootstrap(&world)["dataSecretName"], "data");
    assert_eq!((created(&world), world.phase().as_str()), (json!(false), "Running"));
    assert_eq!(world.old("BootstrapReady"), "False WaitingForDataSecret Info");
}

#[rstest]
#[case::row_24_ready(json!({"ready": true, "dataSecretName": "data"}), json!(true), json!("data"), 0)]
#[case::row_25_no_name(json!({"ready": true}), Value::Null, Value::Null, 1)]
#[case::empty_name(json!({"ready": true, "dataSecretName": ""}), Value::Null, Value::Null, 1)]
#[case::row_26_no_status(json!({}), json!(false), Value::Null, 0)]
#[case::name_is_published_early(json!({"dataSecretName": "data"}), json!(false), Value::Null, 0)]
#[case::row_36_text(json!({"ready": "true", "dataSecretName": "data"}), Value::Null, Value::Null, 1)]
#[case::name_is_no_text(json!({"ready": true, "dataSecretName": 5}), Value::Null, Value::Null, 1)]
#[case::name_is_too_long(json!({"ready": true, "dataSecretName": "x".repeat(254)}), Value::Null, Value::Null, 1)]
fn name_is_copied_once_the_object_is_ready(
    #[case] status: Value,
    #[case] is_created: Value,
    #[case] secret: Value,
    #[case] problems: usize,
) {
    let mut world = World::new(1);
    world.patch::<GenericBootstrapConfig>("bc", json!({ "status": status }));
    let report = world.settle();
    assert_eq!((created(&world), bootstrap(&world)["dataSecretName"].clone()), (is_created, secret));
    assert_eq!(report.problems.len(), problems, "{:?}", report.problems);
    // A pass with an error has not processed its generation.
    assert_eq!(world.status().get("observedGeneration").is_some(), problems == 0);
}

#[test]
fn row_36_error_names_object_path_and_what_is_accepted() {
    let mut world = World::new(1);
    world.patch::<GenericBootstrapConfig>("bc", json!({"status": {"ready": "true"}}));
    world.settle();
    let message = "GenericBootstrapConfig ns/bc: status.ready is the string \"true\"; expected true or false; its provider has \
                   to correct it";
    assert_eq!(world.problems(), [message]);
    assert_eq!(world.condition("BootstrapConfigReady"), "False InvalidProviderObject");
    assert_eq!(world.message("BootstrapConfigReady"), message);
    assert_eq!(world.old("BootstrapReady"), "False InvalidProviderObject Error");
}

/// An object in another namespace is not found: references are resolved in the pool's.
#[test]
fn row_27_missing_object_is_a_problem() {
    let mut world = World::new(1);
    world.delete::<GenericBootstrapConfig>("bc");
    let report = world.settle();
    assert!(report.problems[0].to_string().contains("GenericBootstrapConfig ns/bc, to which spec.template"));
    assert_eq!((created(&world), world.old("BootstrapReady").as_str()), (Value::Null, "absent"));
    assert_eq!(world.condition("BootstrapConfigReady"), "False ObjectDoesNotExist");
}

#[test]
fn row_29_name_that_a_user_has_set_stays() {
    let mut world = World::new(1);
    edit_bootstrap(&mut world, json!({"dataSecretName": "mine"}));
    world.bootstrap_ready("secret-data");
    world.settle();
    assert_eq!((bootstrap(&world)["dataSecretName"].clone(), created(&world)), (json!("mine"), json!(true)));
    assert_eq!(world.old("BootstrapReady"), "True");
    // §2.6, row 3: it does not depend on the object.
    world.delete::<GenericBootstrapConfig>("bc");
    let report = world.settle();
    assert_eq!((created(&world), report.problems.len()), (json!(true), 0));
}

#[test]
fn name_that_another_controller_has_copied_is_adopted_and_follows() {
    let mut world = World::new(1);
    edit_bootstrap(&mut world, json!({"dataSecretName": "data"}));
    world.bootstrap_ready("data");
    world.settle();
    assert_eq!(world.pool()["metadata"]["annotations"][MARK], "GenericBootstrapConfig/bc:data");
    world.bootstrap_ready("data-2");
    world.settle();
    assert_eq!(bootstrap(&world)["dataSecretName"], "data-2");
    // What a user sets afterwards is the user's.
    edit_bootstrap(&mut world, json!({"dataSecretName": "mine"}));
    world.settle();
    assert_eq!(bootstrap(&world)["dataSecretName"], "mine");
}

#[rstest]
#[case::row_30_secret(json!("data"), json!(true), "True", 0)]
#[case::row_31_no_data_is_needed(json!(""), json!(true), "True", 0)]
#[case::row_32_neither(Value::Null, Value::Null, "absent", 1)]
fn pool_without_a_reference_has_what_it_says(
    #[case] secret: Value,
    #[case] is_created: Value,
    #[case] old: &str,
    #[case] problems: usize,
) {
    let mut world = alone(secret.clone());
    let report = world.settle();
    assert_eq!((created(&world), world.old("BootstrapReady").as_str()), (is_created, old));
    assert_eq!(bootstrap(&world).get("dataSecretName").cloned().unwrap_or_default(), secret);
    assert_eq!(report.problems.len(), problems);
    assert_eq!(world.json::<GenericBootstrapConfig>("bc").unwrap()["metadata"].get("labels"), None);
}

#[rstest]
#[case::row_34_v1beta1(Some(Contract::V1Beta1), json!({"ready": true}), true)]
#[case::row_35_v1beta2_by_the_old_field(Some(Contract::V1Beta2), json!({"ready": true}), true)]
#[case::v1beta2(Some(Contract::V1Beta2), json!({"initialization": {"dataSecretCreated": true}}), true)]
#[case::v1beta2_its_own_field_wins(
    Some(Contract::V1Beta2),
    json!({"initialization": {"dataSecretCreated": false}, "ready": true}),
    false
)]
#[case::v1beta1_has_no_other_field(Some(Contract::V1Beta1), json!({"initialization": {"dataSecretCreated": true}}), false)]
#[case::v1alpha3(Some(Contract::V1Alpha3), json!({"ready": true}), true)]
#[case::no_label(None, json!({"ready": true}), true)]
#[case::not_ready(Some(Contract::V1Beta2), json!({"ready": false}), false)]
fn readiness_follows_the_contract(#[case] contract: Option<Contract>, #[case] status: Value, #[case] is_ready: bool) {
    let mut world = World::new(1);
    world.contract = contract;
    world.patch::<GenericBootstrapConfig>("bc", json!({"status": {"dataSecretName": "data"}}));
    world.patch::<GenericBootstrapConfig>("bc", json!({ "status": status }));
    world.settle();
    assert_eq!(created(&world), json!(is_ready));
}

#[test]
fn row_37_object_that_is_being_deleted_changes_nothing() {
    let mut world = World::running(1);
    let before = world.status();
    let gone = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["provider"], "labels": null}, "status": {"ready": false}});
    world.patch::<GenericBootstrapConfig>("bc", gone);
    let report = world.settle();
    assert_eq!(world.status(), before);
    assert_eq!(report.problems, []);
    assert_eq!(report.waiting[0].to_string(), "GenericBootstrapConfig ns/bc is being deleted");
    let labels = &world.json::<GenericBootstrapConfig>("bc").unwrap()["metadata"]["labels"];
    assert_eq!(*labels, json!({"cluster.x-k8s.io/cluster-name": "c"}));
}
