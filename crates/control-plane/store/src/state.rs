//! [`State`]: the current objects and the recent events, from which all reads are answered.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::feed::Feed;
use crate::record::ByKey;
use crate::{Event, EventKind, EventWindow, Key, ReadError, Record, Tags};

/// The objects at one revision: of one resource in the order of their keys, of all in no order.
#[derive(Clone, Debug)]
pub struct RecordList {
    /// Every change up to this revision is included, none after it.
    pub revision: u64,
    pub records: Vec<Arc<Record>>,
}

/// A part of the objects at one revision, in the order of their keys.
#[derive(Clone, Debug)]
pub struct Page {
    /// Every change up to this revision is included, none after it.
    pub revision: u64,
    /// The objects of this part. The next part comes after the key of the last one.
    pub records: Vec<Arc<Record>>,
    /// How many objects follow.
    pub remaining: usize,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) revision: u64,
    /// Set once, at the end.
    pub(crate) is_closed: bool,
    objects: HashSet<ByKey>,
    resources: HashMap<Arc<str>, Resource>,
    all: Feed,
    /// Events up to this revision were not in the log when the state was loaded.
    floor: u64,
    limits: EventWindow,
    weight: usize,
    /// The events whose encoded lines are cached, the latest last.
    recent: VecDeque<Arc<Event>>,
    /// The size of their lines, whether or not they are encoded yet, so that the limit holds when all are.
    recent_bytes: usize,
}

/// Limit of the cached lines: those that all watchers are about to read. For a watcher that is further behind, lines are
/// encoded again.
const MAX_CACHED_LINE_BYTES: usize = 4 << 20;

#[derive(Debug)]
struct Resource {
    objects: BTreeSet<ByKey>,
    feed: Feed,
}

impl State {
    /// An empty state whose events begin after `floor`.
    pub(crate) fn new(floor: u64, limits: EventWindow) -> Self {
        State {
            revision: floor,
            is_closed: false,
            objects: HashSet::new(),
            resources: HashMap::new(),
            all: Feed::new(floor),
            floor,
            limits,
            weight: 0,
            recent: VecDeque::new(),
            recent_bytes: 0,
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Record>> {
        self.objects.get(key).map(|found| &found.0)
    }

    pub(crate) fn list(&self, resource: &str, namespace: Option<&str>) -> RecordList {
        let records = match (self.resources.get(resource), namespace) {
            (None, _) => Vec::new(),
            // Of known length, so that the vector does not grow while the lock is held.
            (Some(found), None) => found.objects.iter().map(|record| record.0.clone()).collect(),
            (Some(found), Some(_)) => found.after(resource, namespace, None).cloned().collect(),
        };
        RecordList { revision: self.revision, records }
    }

    pub(crate) fn count(&self, resource: &str) -> usize {
        self.resources.get(resource).map_or(0, |found| found.objects.len())
    }

    pub(crate) fn all(&self) -> RecordList {
        RecordList { revision: self.revision, records: self.objects.iter().map(|record| record.0.clone()).collect() }
    }

    pub(crate) fn list_at(
        &self,
        resource: &str,
        namespace: Option<&str>,
        revision: u64,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Page, ReadError> {
        if revision > self.revision {
            return Err(ReadError::Future { newest: self.revision });
        }
        let mut page = Page { revision, records: Vec::new(), remaining: 0 };
        let Some(found) = self.resources.get(resource) else {
            return if revision < self.floor { Err(ReadError::Expired { oldest: self.floor }) } else { Ok(page) };
        };
        // The state then is the current one with the changes since undone: of each object changed since, the first of
        // these changes has the record before it.
        let mut then = BTreeMap::new();
        for event in found.feed.after(revision).map_err(|oldest| ReadError::Expired { oldest })? {
            let key = &event.record.key;
            let is_wanted =
                namespace.is_none_or(|namespace| namespace == &*key.namespace) && after.is_none_or(|after| key > after);
            if is_wanted && let Entry::Vacant(entry) = then.entry(key) {
                entry.insert(event.previous.as_ref());
            }
        }
        let unchanged = found.after(resource, namespace, after).filter(|record| !then.contains_key(&record.key));
        let restored = then.values().filter_map(|record| *record);
        for record in merged(unchanged, restored) {
            if page.records.len() < limit {
                page.records.push(record.clone());
            } else {
                page.remaining += 1;
            }
        }
        Ok(page)
    }

    /// The feed of one resource, or of all.
    pub(crate) fn feed(&self, resource: Option<&str>) -> Option<&Feed> {
        match resource {
            Some(resource) => self.resources.get(resource).map(|found| &found.feed),
            None => Some(&self.all),
        }
    }

    /// The feed of one resource, or of all, created if there is none yet.
    pub(crate) fn feed_or_new(&mut self, resource: Option<&Arc<str>>) -> &Feed {
        match resource {
            Some(resource) => &self.resource(resource).feed,
            None => &self.all,
        }
    }

    /// Adds an object without an event, from the compacted part of the log.
    pub(crate) fn restore(&mut self, record: Arc<Record>, is_deleted: bool) {
        self.revision = self.revision.max(record.revision);
        self.set(record, is_deleted);
    }

    /// Applies an event, and drops old ones if there are too many.
    pub(crate) fn apply(&mut self, event: Arc<Event>) {
        self.revision = event.revision();
        self.set(event.record.clone(), event.kind == EventKind::Deleted);
        self.weight += event.weight();
        self.recent_bytes += event.record.size();
        self.recent.push_back(event.clone());
        while self.recent.len() > 1 && self.recent_bytes > MAX_CACHED_LINE_BYTES {
            self.uncache_oldest_line();
        }
        self.resource(&event.record.key.resource).feed.push(event.clone());
        self.all.push(event);
        while self.limits.is_exceeded(self.all.len(), self.weight) {
            self.drop_oldest();
        }
    }

    /// Drops the events up to `revision`.
    pub(crate) fn forget(&mut self, revision: u64) {
        while self.all.oldest().is_some_and(|event| event.revision() <= revision) {
            self.drop_oldest();
        }
    }

    /// Replaces the tags of a resource's records, in the objects and in the events. `tags` has the ones that differ.
    pub(crate) fn retag(&mut self, resource: &Arc<str>, tags: &HashMap<*const Record, Tags>) {
        let mut made: HashMap<*const Record, Arc<Record>> = HashMap::new();
        let mut retagged = |record: &Arc<Record>| {
            let tags = tags.get(&Arc::as_ptr(record))?;
            let fresh = made.entry(Arc::as_ptr(record)).or_insert_with(|| {
                Arc::new(Record {
                    key: record.key.clone(),
                    revision: record.revision,
                    created_revision: record.created_revision,
                    body: record.body.clone(),
                    tags: tags.clone(),
                })
            });
            Some(fresh.clone())
        };
        let mut events: HashMap<u64, Arc<Event>> = HashMap::new();
        let mut objects = Vec::new();
        let Some(found) = self.resources.get(resource) else { return };
        for event in found.feed.after(found.feed.dropped()).into_iter().flatten() {
            let record = retagged(&event.record);
            let previous = event.previous.as_ref().and_then(&mut retagged);
            if record.is_some() || previous.is_some() {
                let record = record.unwrap_or_else(|| event.record.clone());
                let fresh = event.with(record, previous.or_else(|| event.previous.clone()));
                events.insert(event.revision(), Arc::new(fresh));
            }
        }
        objects.extend(found.objects.iter().filter_map(|object| retagged(&object.0)));
        for record in objects {
            self.set(record, false);
        }
        let with = |event: &Arc<Event>| events.get(&event.revision()).cloned();
        self.all.replace(with);
        self.resource(resource).feed.replace(with);
    }

    /// Every record of a resource that can still be read.
    pub(crate) fn records(&self, resource: &str) -> Vec<Arc<Record>> {
        let Some(found) = self.resources.get(resource) else { return Vec::new() };
        let events = found.feed.after(found.feed.dropped()).into_iter().flatten();
        let past = events.flat_map(|event| [Some(&event.record), event.previous.as_ref()]).flatten();
        found.objects.iter().map(|object| &object.0).chain(past).cloned().collect()
    }

    /// Wakes the watchers of these resources, and of all.
    pub(crate) fn notify<'a>(&self, resources: impl IntoIterator<Item = &'a Arc<str>>) {
        for resource in resources {
            if let Some(found) = self.resources.get(resource) {
                found.feed.notify();
            }
        }
        self.all.notify();
    }

    /// Ends all watches.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.notify(self.resources.keys());
    }

    fn resource(&mut self, resource: &Arc<str>) -> &mut Resource {
        let floor = self.floor;
        self.resources
            .entry(resource.clone())
            .or_insert_with(|| Resource { objects: BTreeSet::new(), feed: Feed::new(floor) })
    }

    fn set(&mut self, record: Arc<Record>, is_deleted: bool) {
        let record = ByKey(record);
        let resource = self.resource(&record.0.key.resource);
        if is_deleted {
            resource.objects.remove(&record);
            self.objects.remove(&record);
        } else {
            resource.objects.replace(record.clone());
            self.objects.replace(record);
        }
    }

    fn uncache_oldest_line(&mut self) {
        if let Some(event) = self.recent.pop_front() {
            self.recent_bytes -= event.record.size();
            event.uncache_line();
        }
    }

    fn drop_oldest(&mut self) {
        let Some(event) = self.all.drop_oldest() else { return };
        if self.recent.front().is_some_and(|recent| recent.revision() <= event.revision()) {
            self.uncache_oldest_line();
        }
        self.weight -= event.weight();
        // The oldest event of all is the oldest of its resource.
        self.resource(&event.record.key.resource).feed.drop_oldest();
    }
}

impl Resource {
    /// The objects after a key, in one namespace or in all. `resource` is this resource's name.
    fn after<'a>(
        &'a self,
        resource: &str,
        namespace: Option<&'a str>,
        after: Option<&Key>,
    ) -> impl Iterator<Item = &'a Arc<Record>> {
        // No name is empty, so this is before the first object of the namespace.
        let first = Key::new(resource, namespace.unwrap_or_default(), "");
        let start = after.filter(|after| **after > first).unwrap_or(&first);
        self.objects
            .range::<Key, _>((Bound::Excluded(start), Bound::Unbounded))
            .map(|record| &record.0)
            .take_while(move |record| namespace.is_none_or(|namespace| namespace == &*record.key.namespace))
    }
}

/// Merges two sequences in the order of keys.
fn merged<'a>(
    one: impl Iterator<Item = &'a Arc<Record>>,
    other: impl Iterator<Item = &'a Arc<Record>>,
) -> impl Iterator<Item = &'a Arc<Record>> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(left), Some(right)) if left.key > right.key => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}
