//! The list of operators, and their manifests.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use seaworthy_deploy::rule::named_rule;
use seaworthy_deploy::{OperatorManifest, controllers_account};
use seaworthy_machineconfig::MachineConfigOperator;
use seaworthy_machineconfig::operator::MachineConfigOptions;
use seaworthy_machinepool::MachinePoolOperator;
use seaworthy_preview::{Admission, PreviewPart};
use seaworthy_runtime::{NAMESPACE, Operator};

/// Options of the operators that have some.
#[derive(Clone, Default)]
pub struct OperatorOptions {
    pub machineconfig: MachineConfigOptions,
}

/// Every operator, one row each.
pub fn all(options: OperatorOptions) -> Vec<Box<dyn Operator>> {
    vec![Box::new(MachineConfigOperator { options: options.machineconfig }), Box::new(MachinePoolOperator)]
}

/// The preview parts of every operator.
pub fn preview_parts(options: OperatorOptions) -> Vec<Box<dyn PreviewPart>> {
    all(options).iter().flat_map(|operator| operator.preview_parts()).collect()
}

/// The admission of manifests: the definitions and the rules of every operator.
pub fn admission() -> Admission {
    let rules = all(OperatorOptions::default()).iter().flat_map(|operator| operator.admission_rules()).collect();
    Admission::of(definitions(), rules)
}

/// The definitions of the kinds of every operator.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    manifests(NAMESPACE).into_iter().flat_map(|manifest| manifest.definitions).collect()
}

/// The definitions, rights and policies of every operator, for an installation in `namespace`.
pub fn manifests(namespace: &str) -> Vec<OperatorManifest> {
    let account = controllers_account(namespace);
    let manifest = |operator: &dyn Operator| {
        let mut manifest = operator.manifest(&account);
        manifest.namespace_rules.push(named_rule(
            "coordination.k8s.io",
            &["leases"],
            &[&operator.lease()],
            &["get", "update"],
        ));
        manifest
    };
    all(OperatorOptions::default()).iter().map(|operator| manifest(&**operator)).collect()
}
