//! Resolution: the remote content of several MachineConfigs, in rounds of what is needed next.

use std::collections::{BTreeMap, BTreeSet};

use seaworthy_fetch::{FetchError, Snapshot, SnapshotKey};

use super::{ContentRequest, FetchFailure, Resolver};
use crate::prepare::Prepared;

/// The inputs whose references are being replaced by what they refer to.
///
/// A round has the requests of all inputs, so that none waits for another's servers. A failed fetch becomes a finding of its
/// input, so that pools which do not select it are rendered all the same.
#[derive(Debug)]
pub struct Resolution<'i, 't> {
    inputs: Vec<&'i mut Prepared<'t>>,
    resolver: Resolver,
    references: BTreeMap<String, References>,
}

/// The remote content that one MachineConfig refers to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct References {
    pub keys: BTreeSet<SnapshotKey>,
    /// Whether some of it could not be obtained: what that refers to is not known.
    pub has_failed: bool,
}

impl<'i, 't> Resolution<'i, 't> {
    /// Of inputs that were read from this many documents.
    pub fn new(inputs: impl IntoIterator<Item = &'i mut Prepared<'t>>, documents: u32) -> Self {
        let mut inputs: Vec<&'i mut Prepared<'t>> = inputs.into_iter().collect();
        // By name: which content is one too many must not depend on the order of the inputs.
        inputs.sort_by_key(|input| input.source.name());
        Resolution { inputs, resolver: Resolver::new(documents), references: BTreeMap::new() }
    }

    /// What is to be obtained and answered before the next call; empty when every input is ready, or has findings that say why
    /// it never will be.
    pub fn needed(&mut self) -> Vec<ContentRequest> {
        let mut needed = Vec::new();
        for input in &mut self.inputs {
            let requests = self.resolver.resolve(input);
            let references = self.references.entry(input.source.name().to_owned()).or_default();
            references.keys.extend(requests.iter().map(|request| request.key));
            needed.extend(requests);
        }
        needed
    }

    /// Answers a request. The advice is appended to the message of a failure: what helps depends on the program.
    pub fn answer(
        &mut self,
        key: SnapshotKey,
        content: Result<Snapshot, FetchError>,
        advice: impl FnOnce(&FetchError) -> Option<String>,
    ) {
        if content.is_err() {
            let of_content = self.references.values_mut().filter(|references| references.keys.contains(&key));
            of_content.for_each(|references| references.has_failed = true);
        }
        let content = content.map_err(|error| {
            let advice = advice(&error);
            let mut failure = FetchFailure::from(error);
            failure.message.extend(advice);
            failure
        });
        self.resolver.answer(key, content);
    }

    /// What the inputs refer to as far as it is known by now, by name of the MachineConfig.
    pub fn references(&self) -> &BTreeMap<String, References> {
        &self.references
    }
}
