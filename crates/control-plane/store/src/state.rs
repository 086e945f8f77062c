//! Everything that reads answer from: the current objects and the recent events.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::feed::Feed;
use crate::record::ByKey;
use crate::{Event, EventKind, Key, ReadError, Record, Tags, Window};

/// The objects of one moment: of one resource in the order of their keys, of all in none.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The moment: every change up to this revision is in, none after it.
    pub revision: u64,
    /// The objects.
    pub records: Vec<Arc<Record>>,
}

/// A part of the objects of one moment, in the order of their keys.
#[derive(Clone, Debug)]
pub struct Page {
    /// The moment: every change up to this revision is in, none after it.
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
    /// History up to here was not there when the state was loaded.
    floor: u64,
    limits: Window,
    weight: usize,
    /// The events whose lines are kept, the latest last.
    recent: VecDeque<Arc<Event>>,
    /// What their lines cost, whether or not they were made yet, so that the bound holds when all are made.
    recent_bytes: usize,
}

/// The lines that are kept have at most so many bytes: what all watchers are about to ask for. One that is further behind
/// has lines made for itself.
const LINES: usize = 4 << 20;

#[derive(Debug)]
struct Resource {
    objects: BTreeSet<ByKey>,
    feed: Feed,
}

impl State {
    /// An empty state whose history begins after `floor`.
    pub(crate) fn new(floor: u64, limits: Window) -> Self {
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

    pub(crate) fn list(&self, resource: &str, namespace: Option<&str>) -> Snapshot {
        let records = match (self.resources.get(resource), namespace) {
            (None, _) => Vec::new(),
            // Known length, so no growing while others wait for the lock.
            (Some(found), None) => found.objects.iter().map(|record| record.0.clone()).collect(),
            (Some(found), Some(_)) => found.after(resource, namespace, None).cloned().collect(),
        };
        Snapshot { revision: self.revision, records }
    }

    pub(crate) fn count(&self, resource: &str) -> usize {
        self.resources.get(resource).map_or(0, |found| found.objects.len())
    }

    pub(crate) fn all(&self) -> Snapshot {
        Snapshot { revision: self.revision, records: self.objects.iter().map(|record| record.0.clone()).collect() }
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
        // What was then is what is now, with the changes since undone: of each object changed since, the first of
        // these changes knows what was there before.
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

    /// The feed of one resource, or of all, made if there is none yet.
    pub(crate) fn feed_or_new(&mut self, resource: Option<&Arc<str>>) -> &Feed {
        match resource {
            Some(resource) => &self.resource(resource).feed,
            None => &self.all,
        }
    }

    /// Takes over an object whose history is not known.
    pub(crate) fn restore(&mut self, record: Arc<Record>, is_deleted: bool) {
        self.revision = self.revision.max(record.revision);
        self.set(record, is_deleted);
    }

    /// Makes an event happen, and forgets old ones if there are too many.
    pub(crate) fn apply(&mut self, event: Arc<Event>) {
        self.revision = event.revision();
        self.set(event.record.clone(), event.kind == EventKind::Deleted);
        self.weight += event.weight();
        self.recent_bytes += event.record.size();
        self.recent.push_back(event.clone());
        while self.recent.len() > 1 && self.recent_bytes > LINES {
            self.age_oldest();
        }
        self.resource(&event.record.key.resource).feed.push(event.clone());
        self.all.push(event);
        while self.limits.is_exceeded(self.all.len(), self.weight) {
            self.forget_oldest();
        }
    }

    /// Forgets the events up to `revision`.
    pub(crate) fn forget(&mut self, revision: u64) {
        while self.all.oldest().is_some_and(|event| event.revision() <= revision) {
            self.forget_oldest();
        }
    }

    /// Gives the records of a resource, in the objects and in the events, new tags. `tags` knows the ones that differ.
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

    /// Every record of a resource that somebody may still read.
    pub(crate) fn records(&self, resource: &str) -> Vec<Arc<Record>> {
        let Some(found) = self.resources.get(resource) else { return Vec::new() };
        let events = found.feed.after(found.feed.dropped()).into_iter().flatten();
        let past = events.flat_map(|event| [Some(&event.record), event.previous.as_ref()]).flatten();
        found.objects.iter().map(|object| &object.0).chain(past).cloned().collect()
    }

    /// Wakes everybody who waits for events of these resources, or for any.
    pub(crate) fn ring<'a>(&self, resources: impl IntoIterator<Item = &'a Arc<str>>) {
        for resource in resources {
            if let Some(found) = self.resources.get(resource) {
                found.feed.ring();
            }
        }
        self.all.ring();
    }

    /// Tells everybody that there will be nothing more.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.ring(self.resources.keys());
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

    fn age_oldest(&mut self) {
        if let Some(event) = self.recent.pop_front() {
            self.recent_bytes -= event.record.size();
            event.age();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(event) = self.all.drop_oldest() else { return };
        if self.recent.front().is_some_and(|recent| recent.revision() <= event.revision()) {
            self.age_oldest();
        }
        self.weight -= event.weight();
        // The oldest of all is the oldest of its resource.
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

/// Two sequences in the order of keys as one.
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
