//! Status of a roll-out, as it is written onto MachineConfigPools and MachineConfigNodes.

pub mod node_status;
pub mod pool_status;
pub mod remark;
