//! Provider contracts and seed examples (rows 100, 101, 106).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use rstest::rstest;
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_api::vocabulary::cluster::Contract;
use seaworthy_plan::machinepool::PoolIndex;
use seaworthy_plan::machinepool::provider_contract::{ContractVersion, resolve};
use serde_json::{Value, json};

use super::world::{GenericBootstrapConfig, World, node, pool};

fn definition(labels: &[(&str, &str)], stored: Option<&str>) -> CustomResourceDefinition {
    let mut definition = CustomResourceDefinition::default();
    definition.metadata.name = Some("devmachinepools.example.com".to_owned());
    let labels =
        labels.iter().map(|(contract, versions)| (format!("cluster.x-k8s.io/{contract}"), (*versions).to_owned()));
    definition.metadata.labels = Some(labels.collect::<BTreeMap<_, _>>());
    definition.spec.versions = ["v1alpha1", "v1alpha3"]
        .into_iter()
        .map(|name| CustomResourceDefinitionVersion {
            name: name.to_owned(),
            storage: Some(name) == stored,
            ..CustomResourceDefinitionVersion::default()
        })
        .collect();
    definition
}

#[rstest]
#[case::row_101_none(&[], "v1alpha3", None)]
#[case::row_101_newest(&[("v1beta2", "v1alpha3_v1alpha4")], "v1alpha4", Some(Contract::V1Beta2))]
#[case::row_101_older(&[("v1beta1", "v1alpha1_v1alpha2")], "v1alpha2", Some(Contract::V1Beta1))]
#[case::row_101_both(
    &[("v1beta1", "v1alpha1_v1alpha2"), ("v1beta2", "v1alpha3_v1alpha4")],
    "v1alpha4",
    Some(Contract::V1Beta2)
)]
#[case::empty_label(&[("v1beta2", ""), ("v1beta1", "v1beta1")], "v1beta1", Some(Contract::V1Beta1))]
#[case::before_v1beta1(&[("v1alpha3", "v1_v1beta1")], "v1", Some(Contract::V1Alpha3))]
fn newest_contract_names_the_version(
    #[case] labels: &[(&str, &str)],
    #[case] version: &str,
    #[case] contract: Option<Contract>,
) {
    let expected = ContractVersion { version: version.to_owned(), contract };
    assert_eq!(resolve(&definition(labels, Some("v1alpha3"))), Ok(expected));
}

#[test]
fn definition_without_label_and_stored_version_is_an_error() {
    let error = resolve(&definition(&[], None)).unwrap_err().to_string();
    assert!(error.starts_with("CustomResourceDefinition devmachinepools.example.com: it has no label"), "{error}");
    assert!(error.contains("expected a label such as cluster.x-k8s.io/v1beta2"), "{error}");
}

#[rstest]
#[case::row_100_two_nodes(json!({"nodeRefs": [{"name": "a"}, {"name": "b"}]}), "b", "", true)]
#[case::row_100_no_nodes(json!({}), "b", "", false)]
#[case::row_100_empty_id(json!({}), "x", "", false)]
#[case::row_100_first_id(json!({}), "x", "id-1", true)]
#[case::row_100_second_id(json!({}), "x", "id-2", true)]
#[case::other_id(json!({}), "x", "id-3", false)]
fn pools_are_found_by_node_and_by_provider_id(
    #[case] status: Value,
    #[case] name: &str,
    #[case] provider_id: &str,
    #[case] is_found: bool,
) {
    let mut object = pool("pool", 1);
    object["spec"]["providerIDList"] = json!(["", "id-1", "id-2"]);
    object["status"] = status;
    let object: MachinePool = serde_json::from_value(object).unwrap();
    let mut index = PoolIndex::default();
    index.set(&object);
    assert_eq!(index.pools_of_node(name, provider_id).contains("pool"), is_found);
    index.remove("pool");
    assert!(index.pools_of_node(name, provider_id).is_empty());
}

/// §9, 15: upstream drops a Node that two pools may know.
#[test]
fn node_that_concerns_two_pools_wakes_both() {
    let mut index = PoolIndex::default();
    for (name, ids, nodes) in [("a", json!(["id-1"]), json!([])), ("b", json!([]), json!([{"name": "n"}]))] {
        let mut object = pool(name, 1);
        object["spec"]["providerIDList"] = ids;
        object["status"] = json!({ "nodeRefs": nodes });
        index.set(&serde_json::from_value(object).unwrap());
    }
    assert_eq!(index.pools_of_node("n", "id-1").into_iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(index.others_listing("id-1", "b").collect::<Vec<_>>(), ["a"]);
    assert_eq!(index.others_listing("id-1", "a").count(), 0);
}

#[test]
fn row_106_objects_of_the_first_providers_make_a_running_pool() {
    let mut world = World::new(2);
    world.contract = None;
    let ids = ["cloud:////my-cloud-provider-id-0", "cloud:////my-cloud-provider-id-1"];
    world.patch::<GenericBootstrapConfig>(
        "bc",
        json!({"status": {"ready": true, "dataSecretName": "MyBootstrapSecret"}}),
    );
    world.infrastructure(json!({"spec": {"providerIDList": ids}, "status": {"ready": true}}));
    for (number, id) in ids.iter().enumerate() {
        world.create::<Node>(node(&format!("node-{number}"), id));
    }
    let decided = world.decide();
    let events: Vec<_> =
        decided.management.changes().filter_map(|change| change.event().map(|event| event.reason)).collect();
    assert_eq!(events, ["NoContractLabel", "NoContractLabel", "SuccessfulSetNodeRefs"]);
    world.settle();
    assert_eq!(world.pool()["spec"]["template"]["spec"]["bootstrap"]["dataSecretName"], "MyBootstrapSecret");
    assert_eq!((world.list(), world.refs().len()), (ids.map(str::to_owned).to_vec(), 2));
    assert_eq!((world.status()["readyReplicas"].clone(), world.phase().as_str()), (json!(2), "Running"));
}
