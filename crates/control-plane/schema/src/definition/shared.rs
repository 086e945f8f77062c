//! Parts that all versions of a definition share.

use serde_json::{Map, Value};

use super::props::Props;

/// The parts of versions that are the same in all of them.
pub(super) struct Shared<'a> {
    pub(super) schema: Option<&'a Value>,
    pub(super) subresources: Option<&'a Value>,
    pub(super) columns: Option<&'a Value>,
    pub(super) fields: Option<&'a Value>,
    /// The versions without those parts.
    pub(super) versions: Vec<Map<String, Value>>,
}

impl<'a> Shared<'a> {
    pub(super) fn of(spec: Props<'a>) -> Shared<'a> {
        let versions = spec.alternatives("versions");
        let mut rest: Vec<Map<String, Value>> = versions.iter().map(|version| version.0.clone()).collect();
        let mut take = |key: &str| -> Option<&'a Value> {
            let first = part(*versions.first()?, key);
            if versions.iter().any(|version| part(*version, key) != first) {
                return None;
            }
            for version in &mut rest {
                version.remove(key);
            }
            first
        };
        let schema = take("schema");
        let subresources = take("subresources");
        let columns = take("additionalPrinterColumns");
        let fields = take("selectableFields");
        Shared { schema, subresources, columns, fields, versions: rest }
    }

    /// The schema of one version.
    pub(super) fn schema_of(version: Props<'a>) -> Option<Props<'a>> {
        Props::of(version.get("schema")?.get("openAPIV3Schema")?)
    }
}

/// A part of a version; an empty list is as good as none.
fn part<'a>(version: Props<'a>, key: &str) -> Option<&'a Value> {
    version.get(key).filter(|value| value.as_array().is_none_or(|list| !list.is_empty()))
}
