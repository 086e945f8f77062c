//! The list of operators: their definitions and manifests.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use seaworthy_deploy::{OperatorManifest, controllers_account};
use seaworthy_machineconfig::MachineConfigOperator;
use seaworthy_machineconfig::operator::MachineConfigOptions;
use seaworthy_runtime::Operator;

/// Options of the operators that have some.
#[derive(Clone, Default)]
pub struct OperatorOptions {
    pub machineconfig: MachineConfigOptions,
}

/// Every operator, one row each.
pub fn all(options: OperatorOptions) -> Vec<Box<dyn Operator>> {
    vec![Box::new(MachineConfigOperator { options: options.machineconfig })]
}

pub fn definitions(operators: &[Box<dyn Operator>]) -> Vec<CustomResourceDefinition> {
    operators.iter().flat_map(|operator| operator.definitions()).collect()
}

/// The definitions, rights and policies of every operator, for an installation in `namespace`.
pub fn manifests(namespace: &str) -> Vec<OperatorManifest> {
    let account = controllers_account(namespace);
    all(OperatorOptions::default()).iter().map(|operator| operator.manifest(&account)).collect()
}
