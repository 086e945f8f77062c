//! The list of operators.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use seaworthy_deploy::{OperatorManifest, controllers_account};
use seaworthy_machineconfig::MachineConfigOperator;
use seaworthy_runtime::Operator;

/// Options of the operators that have some.
#[derive(Clone, Default)]
pub struct Options {
    pub machineconfig: seaworthy_machineconfig::operator::Options,
}

/// Every operator, one row each.
pub fn all(options: Options) -> Vec<Box<dyn Operator>> {
    vec![Box::new(MachineConfigOperator { options: options.machineconfig })]
}

/// The definitions of these operators.
pub fn definitions(operators: &[Box<dyn Operator>]) -> Vec<CustomResourceDefinition> {
    operators.iter().flat_map(|operator| operator.definitions()).collect()
}

/// What every operator needs in a cluster where Seaworthy is installed in `namespace`.
pub fn manifests(namespace: &str) -> Vec<OperatorManifest> {
    let account = controllers_account(namespace);
    all(Options::default()).iter().map(|operator| operator.manifest(&account)).collect()
}
