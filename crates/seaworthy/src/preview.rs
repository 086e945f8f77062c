//! Preview with the controllers of this build, for the commands that show what they would do.

use std::sync::Arc;

use jiff::Timestamp;
use seaworthy_controllers::{OperatorOptions, operators};
use seaworthy_generate::base::Templates;
use seaworthy_machineconfig::operator::MachineConfigOptions;
use seaworthy_machineconfig::preview::PreviewInputs;
use seaworthy_machineconfig::render::render_pool::Remote;
use seaworthy_preview::PreviewPart;
use seaworthy_runtime::build;

/// The preview parts of all operators.
pub fn parts(templates: Templates) -> Vec<Box<dyn PreviewPart>> {
    let machineconfig = MachineConfigOptions { templates: Arc::new(templates), ..MachineConfigOptions::default() };
    operators::preview_parts(OperatorOptions { machineconfig })
}

/// The inputs of a preview, for a cluster or for manifests alone.
pub fn inputs(remote: Remote, parts: Vec<Box<dyn PreviewPart>>, now: Timestamp, is_cluster: bool) -> PreviewInputs {
    PreviewInputs { parts, remote, build: build(), now, is_cluster }
}
