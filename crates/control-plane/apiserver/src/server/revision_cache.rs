//! Cache of values derived from stored objects, by revision: decoding thousands of objects for each changed one is too
//! slow.

use std::collections::HashMap;
use std::sync::Arc;

use seaworthy_store::{Key, Record};

/// The derived value of each object, and its revision.
#[derive(Debug)]
pub struct RevisionCache<T>(HashMap<Key, (u64, T)>);

impl<T> Default for RevisionCache<T> {
    fn default() -> Self {
        RevisionCache(HashMap::new())
    }
}

impl<T: Clone> RevisionCache<T> {
    /// The derived values of these objects; entries of other objects are removed.
    pub fn refresh(&mut self, records: &[Arc<Record>], mut make: impl FnMut(&Record) -> T) -> Vec<T> {
        let mut known = std::mem::take(&mut self.0);
        let mut all = Vec::with_capacity(records.len());
        self.0.reserve(records.len());
        for record in records {
            let before = known.remove(&record.key).filter(|(revision, _)| *revision == record.revision);
            let made = before.map_or_else(|| make(record), |(_, made)| made);
            self.0.insert(record.key.clone(), (record.revision, made.clone()));
            all.push(made);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use seaworthy_store::Tags;

    use super::*;

    fn record(name: &str, revision: u64) -> Arc<Record> {
        let key = Key::new("core/things", "", name);
        Arc::new(Record::new(key, revision, 1, Bytes::new(), Tags::default()))
    }

    #[test]
    fn only_what_changed_is_made_again_and_what_is_gone_is_forgotten() {
        let (mut cache, mut made) = (RevisionCache::default(), Vec::new());
        let mut renew = |records: &[Arc<Record>]| {
            made.clear();
            cache.refresh(records, |record| {
                made.push(record.key.name.to_string());
                record.revision
            });
            (made.clone(), cache.0.len())
        };
        assert_eq!(renew(&[record("a", 1), record("b", 2)]), (vec!["a".to_owned(), "b".to_owned()], 2));
        assert_eq!(renew(&[record("a", 1), record("b", 3)]), (vec!["b".to_owned()], 2));
        assert_eq!(renew(&[record("b", 3)]), (vec![], 1));
        assert_eq!(renew(&[record("a", 1)]), (vec!["a".to_owned()], 1));
    }
}
