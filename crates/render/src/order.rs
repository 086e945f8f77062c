//! Which MachineConfigs feed a pool, and the order in which they are merged.

use seaworthy_ignition::Severity;

use crate::finding::{Finding, Place};
use crate::keys;
use crate::pool::Pool;
use crate::prepare::Prepared;

/// The inputs of a pool in merge order: later ones win.
///
/// The platform's own come first, then the workers', then the rest; by name, byte by byte, in each.
///
/// Differs: upstream orders by role and name alone, because its platform configs happen to be called `00-…`; a user's
/// `0-x` would sort before them and lose. Where nobody does that the order is the same.
pub(crate) fn inputs<'r, 't>(pool: &Pool, all: &'r [Prepared<'t>]) -> Result<Vec<&'r Prepared<'t>>, Vec<Finding>> {
    let error = |code, message: String| {
        vec![Finding {
            severity: Severity::Error,
            code,
            pool: Some(pool.name.clone()),
            subject: String::new(),
            places: vec![Place::pool(&pool.name, "spec.machineConfigSelector")],
            message,
        }]
    };
    let Some(selector) = &pool.selector else {
        let message =
            "there is no machineConfigSelector, so no MachineConfigs are found; select some by label".to_owned();
        return Err(error("no-machine-configs", message));
    };
    if selector.is_empty() {
        let message = format!(
            "the machineConfigSelector is empty; it must select MachineConfigs by label, such as {}: {}",
            keys::ROLE,
            pool.name
        );
        return Err(error("empty-selector", message));
    }
    // Differs: upstream takes rendered configs for inputs when a selector matches them (`NotIn`, `DoesNotExist`) and
    // fails on them, because it never excludes its own results.
    let mut selected: Vec<&Prepared<'_>> =
        all.iter().filter(|input| !input.source.is_rendered() && selector.matches(input.source)).collect();
    if selected.is_empty() {
        let message =
            format!("no MachineConfigs found matching selector {selector}; label some, or change the selector");
        return Err(error("no-machine-configs", message));
    }
    let unlabelled: Vec<Finding> = selected
        .iter()
        .filter(|input| !input.source.has_labels())
        .map(|input| Finding {
            severity: Severity::Error,
            code: "no-role-label",
            pool: Some(pool.name.clone()),
            subject: String::new(),
            places: vec![Place {
                kind: "MachineConfig",
                name: input.source.name().to_owned(),
                path: "metadata.labels".to_owned(),
                remote: None,
            }],
            message: format!("cannot find label in MachineConfig {}: it needs {}", input.source.name(), keys::ROLE),
        })
        .collect();
    if !unlabelled.is_empty() {
        return Err(unlabelled);
    }
    selected.sort_by(|a, b| rank(a).cmp(&rank(b)));
    let twice: Vec<Finding> = selected
        .windows(2)
        .filter(|pair| pair[0].source.name() == pair[1].source.name())
        .map(|pair| Finding {
            severity: Severity::Error,
            code: "duplicate-name",
            pool: Some(pool.name.clone()),
            subject: String::new(),
            places: vec![Place {
                kind: "MachineConfig",
                name: pair[1].source.name().to_owned(),
                path: "metadata.name".to_owned(),
                remote: None,
            }],
            message: "two MachineConfigs in the input have this name; a cluster has one of them, remove the other"
                .to_owned(),
        })
        .collect();
    if twice.is_empty() { Ok(selected) } else { Err(twice) }
}

fn rank<'r>(input: &'r Prepared<'_>) -> (bool, bool, &'r str) {
    let source = input.source;
    (!source.is_platform(), source.role() != Some("worker"), source.name())
}
