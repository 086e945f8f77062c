//! Preview parts: the controllers of operators in a preview.

use seaworthy_change::{TableConflict, Tables};

use crate::fixpoint::PreviewRound;

/// The controllers of an operator that make objects from other objects, in a preview.
pub trait PreviewPart: Send + Sync {
    /// Empty tables of the kinds that its decisions read or write.
    fn tables(&self) -> Tables;

    /// Decides about every object once, and performs the decisions.
    fn reconcile(&self, round: &mut PreviewRound<'_>);

    /// Empty tables of the kinds that `pending` reads. They are read again and again while a roll-out is watched, so pods, of which
    /// there may be very many, are not among them: a part with a table of Pods here is never asked.
    fn pending_tables(&self) -> Tables {
        Tables::default()
    }

    /// Why a pool's MachineConfigs are not yet what these objects ask for, as a message; `None` if they are.
    fn pending(&self, objects: &Tables, pool: &str) -> Option<String> {
        let (_, _) = (objects, pool);
        None
    }
}

/// Empty tables of the kinds that these parts read or write.
///
/// # Errors
///
/// If two parts have different types for a kind.
pub fn tables(parts: &[Box<dyn PreviewPart>]) -> Result<Tables, TableConflict> {
    union(parts.iter().map(|part| part.tables()))
}

/// Empty tables of the kinds that `pending` of these parts reads.
///
/// # Errors
///
/// If two parts have different types for a kind.
pub fn pending_tables(parts: &[Box<dyn PreviewPart>]) -> Result<Tables, TableConflict> {
    union(parts.iter().map(|part| part.pending_tables()))
}

/// What makes a pool wait for these parts, as a message; `None` if nothing does. A part whose kinds have no tables is not asked.
pub fn pending(parts: &[Box<dyn PreviewPart>], objects: &Tables, pool: &str) -> Option<String> {
    let mut parts = parts.iter().filter(|part| objects.has_all_of(&part.pending_tables()));
    parts.find_map(|part| part.pending(objects, pool))
}

fn union(all: impl Iterator<Item = Tables>) -> Result<Tables, TableConflict> {
    let mut union = Tables::default();
    for tables in all {
        union.extend(tables)?;
    }
    Ok(union)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;

    /// Waits for nodes, if it reads them.
    struct Waiter {
        reads_nodes: bool,
    }

    impl PreviewPart for Waiter {
        fn tables(&self) -> Tables {
            Tables::default().with::<Node>().with::<Pod>()
        }

        fn reconcile(&self, _: &mut PreviewRound<'_>) {}

        fn pending_tables(&self) -> Tables {
            if self.reads_nodes { Tables::default().with::<Node>() } else { Tables::default() }
        }

        fn pending(&self, _: &Tables, pool: &str) -> Option<String> {
            self.reads_nodes.then(|| format!("{pool} waits"))
        }
    }

    #[test]
    fn only_parts_whose_kinds_were_read_are_asked_what_is_pending() {
        let parts: [Box<dyn PreviewPart>; 2] =
            [Box::new(Waiter { reads_nodes: false }), Box::new(Waiter { reads_nodes: true })];
        let read = pending_tables(&parts).unwrap();
        assert!(read.get::<Node>().is_some() && read.get::<Pod>().is_none());
        assert_eq!(pending(&parts, &read, "infra").as_deref(), Some("infra waits"));
        assert_eq!(pending(&parts, &Tables::default(), "infra"), None);
    }
}
