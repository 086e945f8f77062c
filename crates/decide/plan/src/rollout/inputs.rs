//! Inputs of the roll-out decision, and the one place where they are gathered from the objects of a cluster.

use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{ARBITER, MASTER};

use super::hold::Hold;
use super::reservation::Reservation;
use crate::fleet::first_boot::FirstBootPools;
use crate::fleet::{ARBITER_TOPOLOGY, NodeView, PoolView};

/// Everything that the decision about a pool depends on.
#[derive(Clone, Copy, Debug)]
pub struct RolloutInputs<'a> {
    pub pool: PoolView<'a>,
    /// The nodes that take their configuration from it.
    pub nodes: &'a [&'a NodeView<'a>],
    /// What else asks nodes to wait.
    pub holds: &'a [Hold],
    /// The nodes that the pods of the controllers run on, one for each pod.
    pub operator_nodes: &'a [&'a str],
    /// Custom pools that nodes may have booted for.
    pub first_boot_pools: &'a FirstBootPools<'a>,
    /// The pool that keeps quorum together with this one: `arbiter` for `master` and the other way round, in a cluster
    /// with an arbiter. Both must be decided one after the other on the same objects, never at the same time.
    pub partner: Option<QuorumPartner<'a>>,
    /// The orders that an earlier decision was about to give. Those that may still arrive count as given.
    pub reservation: &'a Reservation,
    /// The time.
    pub now: Timestamp,
}

/// The pool that keeps quorum together with another one.
#[derive(Clone, Copy, Debug)]
pub struct QuorumPartner<'a> {
    pub pool: PoolView<'a>,
    pub nodes: &'a [&'a NodeView<'a>],
    /// Its reservation: a node that may be given an order at any moment counts as unavailable.
    pub reservation: &'a Reservation,
}

/// The state of a pool, with everything that a decision about it depends on.
///
/// The roll-out controller, the preview and `seaworthy rollout decide` all build their [`RolloutInputs`] from this, so none of
/// them can leave out what another takes into account.
#[derive(Clone, Debug)]
pub struct PoolState<'a> {
    pool: PoolView<'a>,
    nodes: &'a [&'a NodeView<'a>],
    operator_nodes: &'a [&'a str],
    first_boot_pools: FirstBootPools<'a>,
    reservation: Reservation,
    partner: Option<PartnerState<'a>>,
    now: Timestamp,
}

#[derive(Clone, Debug)]
struct PartnerState<'a> {
    pool: PoolView<'a>,
    nodes: &'a [&'a NodeView<'a>],
    reservation: Reservation,
}

impl<'a> PoolState<'a> {
    /// Gathers the state of one pool out of all pools and the rendered MachineConfigs of a cluster. `nodes_of` gives
    /// the members of a pool by its name; it is called for this pool and for the one that keeps quorum with it.
    pub fn of(
        pool: &'a MachineConfigPool,
        pools: impl Iterator<Item = &'a MachineConfigPool> + Clone,
        rendered: impl Iterator<Item = &'a MachineConfig>,
        nodes_of: impl Fn(&str) -> &'a [&'a NodeView<'a>],
        topology: Option<&str>,
        now: Timestamp,
    ) -> Self {
        let pool = PoolView::of(pool);
        let partner = quorum_partner(pool.name, topology)
            .and_then(|name| pools.clone().find(|pool| pool.metadata.name.as_deref() == Some(name)));
        let partner = partner.map(|object| {
            let pool = PoolView::of(object);
            PartnerState { pool, nodes: nodes_of(pool.name), reservation: Reservation::of(object) }
        });
        Self {
            pool,
            nodes: nodes_of(pool.name),
            operator_nodes: &[],
            first_boot_pools: FirstBootPools::of(pools, rendered),
            reservation: Reservation::of(pool.object),
            partner,
            now,
        }
    }

    /// With other reservations than those written on the pool and on its quorum partner: without those of nodes that were
    /// read again and turned out to be out of reach of an order.
    pub fn with_reservations(mut self, own: Reservation, of_partner: Reservation) -> Self {
        self.reservation = own;
        if let Some(partner) = &mut self.partner {
            partner.reservation = of_partner;
        }
        self
    }

    /// With the nodes that the pods of the controllers run on.
    pub fn with_operator_nodes(mut self, nodes: &'a [&'a str]) -> Self {
        self.operator_nodes = nodes;
        self
    }

    /// The inputs of the decision.
    pub fn inputs(&self) -> RolloutInputs<'_> {
        let partner = self.partner.as_ref();
        RolloutInputs {
            pool: self.pool,
            nodes: self.nodes,
            holds: &[],
            operator_nodes: self.operator_nodes,
            first_boot_pools: &self.first_boot_pools,
            partner: partner.map(|found| QuorumPartner {
                pool: found.pool,
                nodes: found.nodes,
                reservation: &found.reservation,
            }),
            reservation: &self.reservation,
            now: self.now,
        }
    }
}

/// The name of the pool whose nodes keep quorum together with those of this one, in a cluster of this control-plane
/// topology.
pub fn quorum_partner(pool: &str, topology: Option<&str>) -> Option<&'static str> {
    let partner = match pool {
        MASTER => ARBITER,
        ARBITER => MASTER,
        _ => return None,
    };
    (topology == Some(ARBITER_TOPOLOGY)).then_some(partner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str) -> MachineConfigPool {
        let mut pool = MachineConfigPool::default();
        pool.metadata.name = Some(name.to_owned());
        pool
    }

    #[test]
    fn control_plane_and_arbiter_keep_quorum_together_where_the_topology_has_an_arbiter() {
        let pools = [pool(MASTER), pool(ARBITER), pool("worker")];
        let partner_of = |nth: usize, topology| {
            let (rendered, now) = (std::iter::empty(), Timestamp::UNIX_EPOCH);
            let state = PoolState::of(&pools[nth], pools.iter(), rendered, |_| &[], topology, now);
            state.inputs().partner.map(|partner| partner.pool.name.to_owned())
        };
        assert_eq!(partner_of(0, Some(ARBITER_TOPOLOGY)).as_deref(), Some(ARBITER));
        assert_eq!(partner_of(1, Some(ARBITER_TOPOLOGY)).as_deref(), Some(MASTER));
        assert_eq!(partner_of(2, Some(ARBITER_TOPOLOGY)), None);
        assert_eq!(partner_of(0, Some("HighlyAvailable")), None);
        assert_eq!(partner_of(0, None), None);
    }
}
