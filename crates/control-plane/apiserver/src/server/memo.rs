//! What was made of stored objects, kept until they change: reading thousands anew for each that changes is too much.

use std::collections::HashMap;
use std::sync::Arc;

use seaworthy_store::{Key, Record};

/// What was made of each object, and at which revision.
#[derive(Debug)]
pub struct Memo<T>(HashMap<Key, (u64, T)>);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Memo(HashMap::new())
    }
}

impl<T: Clone> Memo<T> {
    /// What is made of each of these objects, and of no others from now on.
    pub fn renew(&mut self, records: &[Arc<Record>], mut make: impl FnMut(&Record) -> T) -> Vec<T> {
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
        let (mut memo, mut made) = (Memo::default(), Vec::new());
        let mut renew = |records: &[Arc<Record>]| {
            made.clear();
            memo.renew(records, |record| {
                made.push(record.key.name.to_string());
                record.revision
            });
            (made.clone(), memo.0.len())
        };
        assert_eq!(renew(&[record("a", 1), record("b", 2)]), (vec!["a".to_owned(), "b".to_owned()], 2));
        assert_eq!(renew(&[record("a", 1), record("b", 3)]), (vec!["b".to_owned()], 2));
        assert_eq!(renew(&[record("b", 3)]), (vec![], 1));
        assert_eq!(renew(&[record("a", 1)]), (vec!["a".to_owned()], 1));
    }
}
