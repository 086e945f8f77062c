//! First boots: nodes that booted with the configuration of a custom pool are given the labels of that pool.
//!
//! A machine can ask the config server for the configuration of any pool, but only labels on its Node make it a member.
//! Until they are there it would be taken for a worker, and be given the workers' configuration.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::meta::LabelSelector;
use seaworthy_api::vocabulary::machineconfiguration::{MASTER, WORKER};

use crate::fleet::NodeView;

/// The custom pools, and the rendered MachineConfigs that are theirs.
#[derive(Clone, Debug, Default)]
pub struct FirstBootPools<'a> {
    /// The pool that owns each rendered MachineConfig: the first owner reference.
    pub owners: BTreeMap<&'a str, &'a str>,
    /// The node selectors of the pools, by name.
    pub selectors: BTreeMap<&'a str, Option<&'a LabelSelector>>,
}

/// The labels that a node lacks to be a member of the pool that it booted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLabels<'a> {
    pub node: &'a str,
    /// The pool that it booted for.
    pub pool: &'a str,
    /// The labels that make it a member.
    pub labels: BTreeMap<String, String>,
}

/// A pool that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MachineConfigPool {pool} not found; create it, or label the node for another one")]
pub struct UnknownPool {
    /// Its name.
    pub pool: String,
}

impl<'a> FirstBootPools<'a> {
    /// Which pool each rendered MachineConfig was rendered for, and which nodes the pools select.
    pub fn of(
        pools: impl Iterator<Item = &'a MachineConfigPool>,
        rendered: impl Iterator<Item = &'a MachineConfig>,
    ) -> Self {
        let owners = rendered.filter_map(|object| {
            let owner = object.metadata.owner_references.as_ref()?.first()?;
            Some((object.metadata.name.as_deref()?, owner.name.as_str()))
        });
        let selectors =
            pools.map(|pool| (pool.metadata.name.as_deref().unwrap_or_default(), pool.spec.node_selector.as_ref()));
        Self { owners: owners.collect(), selectors: selectors.collect() }
    }

    /// The labels that a node still lacks to be a member of the pool that it booted for.
    ///
    /// A pool that is gone, or whose selector names no label that could be set, does not hold the node.
    pub fn missing_labels(&self, node: &NodeView<'a>) -> Option<MissingLabels<'a>> {
        let config = node.first_pivot_config.filter(|_| !node.has_pool_labels)?;
        let pool = *self.owners.get(config).filter(|pool| !matches!(**pool, MASTER | WORKER))?;
        let labels = self.labels(pool).ok().filter(|labels| !labels.is_empty())?;
        Some(MissingLabels { node: node.name, pool, labels })
    }

    /// The labels that make a node a member of a pool, as far as its selector says which.
    pub fn labels(&self, pool: &str) -> Result<BTreeMap<String, String>, UnknownPool> {
        let selector = self.selectors.get(pool).ok_or_else(|| UnknownPool { pool: pool.to_owned() })?;
        let Some(selector) = selector else { return Ok(BTreeMap::new()) };
        let mut labels = BTreeMap::new();
        for expression in selector.match_expressions.iter().flatten() {
            let value = match (expression.operator.as_str(), expression.values.as_deref().unwrap_or_default()) {
                ("Exists", _) => "",
                ("In", [value]) => value,
                _ => continue,
            };
            labels.insert(expression.key.clone(), value.to_owned());
        }
        labels.extend(selector.match_labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        Ok(labels)
    }
}
