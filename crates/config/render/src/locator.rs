//! Locator: finds the object and the path that a value came from.

use std::collections::HashMap;

use seaworthy_ignition::Path;
use seaworthy_ignition::node::{Node, Origin};

use crate::finding::FieldLocation;
use crate::machine_config::MachineConfig;
use crate::prepare::{Prepared, RemoteConfig};

/// Knows the inputs of a pool by the documents and ranges that they were read from.
pub(crate) struct Locator<'r, 't> {
    /// Start and end of each input in its document, sorted.
    ranges: Vec<(u32, u32, u32, &'r Prepared<'t>)>,
    remotes: HashMap<u32, (&'r RemoteConfig, &'r Prepared<'t>)>,
}

/// A value that was found.
pub(crate) struct LocatedValue<'r, 't> {
    pub(crate) input: &'r Prepared<'t>,
    pub(crate) path: Path,
    pub(crate) remote: Option<&'r RemoteConfig>,
}

impl<'r, 't> Locator<'r, 't> {
    pub(crate) fn new(inputs: &[&'r Prepared<'t>]) -> Self {
        let mut ranges: Vec<_> = inputs
            .iter()
            .map(|input| {
                let object = input.source.object();
                (object.origin.doc, object.origin.at, object.end(), *input)
            })
            .collect();
        ranges.sort_by_key(|(doc, start, _, _)| (*doc, *start));
        let remotes = inputs
            .iter()
            .flat_map(|input| input.remotes.iter().map(move |remote| (remote.doc, (remote, *input))))
            .collect();
        Locator { ranges, remotes }
    }

    /// The input that a value came from, and its place there.
    pub(crate) fn find(&self, origin: Origin) -> Option<LocatedValue<'r, 't>> {
        if let Some((remote, input)) = self.remotes.get(&origin.doc) {
            let path = remote.tree.path_of(origin)?;
            return Some(LocatedValue { input, path, remote: Some(remote) });
        }
        let input = self.input(origin)?;
        let path = input.source.object().path_of(origin)?;
        Some(LocatedValue { input, path, remote: None })
    }

    /// The input that a value came from.
    pub(crate) fn input(&self, origin: Origin) -> Option<&'r Prepared<'t>> {
        let after = self.ranges.partition_point(|(doc, start, _, _)| (*doc, *start) <= (origin.doc, origin.at));
        let (doc, _, end, input) = self.ranges.get(after.checked_sub(1)?)?;
        if *doc == origin.doc && origin.at < *end {
            return Some(input);
        }
        self.remotes.get(&origin.doc).map(|(_, input)| *input)
    }

    /// The remote config that a value came from.
    pub(crate) fn remote(&self, origin: Origin) -> Option<&'r RemoteConfig> {
        self.remotes.get(&origin.doc).map(|(remote, _)| *remote)
    }

    /// The place of a value, for people.
    pub(crate) fn place(&self, origin: Origin) -> Option<FieldLocation> {
        let found = self.find(origin)?;
        let mut place = FieldLocation::machine_config(found.input.source.name(), &found.path);
        place.remote = found.remote.map(|remote| remote.url.clone());
        Some(place)
    }

    /// The value itself, as its author wrote it.
    pub(crate) fn value(&self, origin: Origin) -> Option<&'r Node<'r>>
    where
        't: 'r,
    {
        if let Some((remote, _)) = self.remotes.get(&origin.doc) {
            return remote.tree.find(origin).map(|(_, node)| node);
        }
        let source: &'r MachineConfig<'r> = self.input(origin)?.source;
        source.object().find(origin).map(|(_, node)| node)
    }
}
