//! The list of operators, and their manifests.

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

/// The definitions, rights and policies of every operator, for an installation in `namespace`.
pub fn manifests(namespace: &str) -> Vec<OperatorManifest> {
    let account = controllers_account(namespace);
    all(OperatorOptions::default()).iter().map(|operator| operator.manifest(&account)).collect()
}
