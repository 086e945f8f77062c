//! Watches of the daemon: its Node, for new orders, and the ControllerConfig, for certificates.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use seaworthy_api::machineconfiguration::ControllerConfig;
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, node as annotation};
use seaworthy_api::vocabulary::seaworthy::annotation::ADOPT;
use tokio::sync::Notify;

use super::reported_state::{CORRECTION_INTERVAL, ReportedState};
use crate::drift::certificates::{Certificates, required_files};

/// The certificates of the ControllerConfig.
pub(crate) type SharedCertificates = Arc<Mutex<Arc<Certificates>>>;

/// Notifies of every new order, and of changes of the reported state by another writer.
pub(crate) async fn watch_node(
    nodes: Api<Node>,
    config: watcher::Config,
    reported: ReportedState,
    changed: Arc<Notify>,
) {
    let mut changes = pin!(watcher(nodes, config).default_backoff().applied_objects());
    let mut last: Option<BTreeMap<String, String>> = None;
    // A correction that is due too soon after the last one is made later, without another change.
    let mut interval = tokio::time::interval(CORRECTION_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            _ = interval.tick() => {
                if reported.is_contradicted() {
                    changed.notify_one();
                }
                continue;
            }
        };
        let Some(change) = change else { return };
        // A watch that breaks off restarts by itself.
        let Ok(node) = change else { continue };
        // The kubelet writes its Node all the time; only orders matter here.
        let order = order_of(&node);
        if reported.observed(&node) || last.as_ref() != Some(&order) {
            last = Some(order);
            changed.notify_one();
        }
    }
}

/// Keeps the certificates of the ControllerConfig up to date. A cluster without one has none.
pub(crate) async fn watch_controller_config(
    configs: Api<ControllerConfig>,
    certificates: SharedCertificates,
    changed: Arc<Notify>,
) {
    let config = watcher::Config::default().fields(&format!("metadata.name={CONTROLLER_CONFIG}"));
    let mut changes = pin!(watcher(configs, config).default_backoff().applied_objects());
    while let Some(change) = changes.next().await {
        let Ok(config) = change else { continue };
        let files = required_files(&config.spec);
        let mut known = certificates.lock().unwrap_or_else(PoisonError::into_inner);
        // Most changes of the object are changes of its status.
        if known.version.is_none() || known.files != files {
            *known = Arc::new(Certificates { version: config.metadata.resource_version, files });
            changed.notify_one();
        }
    }
}

/// The annotations that other components write.
fn order_of(node: &Node) -> BTreeMap<String, String> {
    let ours = [
        annotation::DESIRED_CONFIG,
        annotation::DESIRED_IMAGE,
        annotation::LAST_APPLIED_DRAIN,
        annotation::DESIRED_DRAIN,
        annotation::CONTROL_PLANE_TOPOLOGY,
        annotation::CURRENT_CONFIG,
        ADOPT,
    ];
    let text = |key: &Annotation| Some((key.as_str().to_owned(), key.of(&node.metadata)?.to_owned()));
    ours.iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_annotation_of_an_order_is_watched_and_what_the_kubelet_writes_is_not() {
        let mut node = Node::default();
        let plain = order_of(&node);
        let mut annotate = |key: &str| {
            node.metadata.annotations = Some([(key.to_owned(), "x".to_owned())].into());
            order_of(&node)
        };
        for key in [annotation::DESIRED_CONFIG, annotation::LAST_APPLIED_DRAIN, ADOPT] {
            assert_ne!(annotate(key.as_str()), plain, "{}", key.as_str());
        }
        assert_eq!(annotate("volumes.kubernetes.io/controller-managed-attach-detach"), plain);
    }
}
