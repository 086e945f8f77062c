//! Conflicts: fields that other managers own and that an apply would change.

use std::fmt;

use crate::managers::Manager;
use crate::path::{PathElement, display_path};

/// One field of another manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it, as messages show it: `"kubectl-edit" using v1`.
    pub manager: String,
    /// Where it is.
    pub path: Vec<PathElement>,
}

impl Conflict {
    /// The path as in a cause's `field`.
    pub fn field(&self) -> String {
        display_path(&self.path)
    }

    /// What a cause of reason `FieldManagerConflict` says.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// All conflicts of an apply, by manager, at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    /// The conflicts with these managers' fields; none if there are none.
    pub(crate) fn with(mut managers: Vec<Manager>) -> Option<Conflicts> {
        managers.retain(|manager| !manager.fields.is_empty());
        managers.sort_by_cached_key(Manager::identifier);
        let conflicts: Vec<Conflict> = managers
            .iter()
            .flat_map(|manager| {
                let shown = manager.shown();
                manager.fields.paths().into_iter().map(move |path| Conflict { manager: shown.clone(), path })
            })
            .collect();
        (!conflicts.is_empty()).then_some(Conflicts(conflicts))
    }
}

/// The message of the whole refusal, in the real server's words.
impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", only.message(), only.field());
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (position, same) in self.0.chunk_by(|left, right| left.manager == right.manager).enumerate() {
            let line = if position > 0 { "\n" } else { "" };
            write!(f, "{line}conflicts with {}:", same[0].manager)?;
            same.iter().try_for_each(|conflict| write!(f, "\n- {}", conflict.field()))?;
        }
        Ok(())
    }
}
