//! [`Tags`]: labels and selectable fields of a record, for selectors, as sorted pairs of shared texts.

use std::collections::HashSet;
use std::sync::Arc;

use crate::Key;

/// Computes a record's tags from its bytes, on the task that commits it and once more for every record at start.
///
/// It must depend on its arguments alone. If its configuration changes (a definition that makes a field selectable),
/// call [`Store::reindex`](crate::Store::reindex). The bytes may lack the revision (see [`Body`](crate::Body)). It must
/// not hold a `Store`, or the store never closes.
pub type Indexer = Arc<dyn Fn(&Key, &[u8]) -> Tags + Send + Sync>;

type Pair = (Arc<str>, Arc<str>);

/// The labels and the selectable fields of one record. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tags {
    labels: Arc<[Pair]>,
    fields: Arc<[Pair]>,
}

impl Default for Tags {
    fn default() -> Self {
        Tags::new([], [])
    }
}

impl Tags {
    /// Tags from labels and fields in any order. Of two pairs with one name, the later one counts.
    pub fn new<'a>(
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        Tags { labels: sorted(labels), fields: sorted(fields) }
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        find(&self.labels, name)
    }

    /// The value of a selectable field, by its path.
    pub fn field(&self, path: &str) -> Option<&str> {
        find(&self.fields, path)
    }

    /// All labels in order.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(name, value)| (&**name, &**value))
    }

    /// All selectable fields in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(path, value)| (&**path, &**value))
    }
}

fn sorted<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Arc<[Pair]> {
    let mut pairs: Vec<(&str, &str)> = pairs.into_iter().collect();
    // Stable, and read backwards below: the later of two equal names is met first and kept.
    pairs.sort_by_key(|(name, _)| *name);
    let mut kept: Vec<Pair> = Vec::with_capacity(pairs.len());
    for (name, value) in pairs.into_iter().rev() {
        if kept.last().is_none_or(|(last, _)| &**last != name) {
            kept.push((name.into(), value.into()));
        }
    }
    kept.reverse();
    kept.into()
}

fn find<'a>(pairs: &'a [Pair], name: &str) -> Option<&'a str> {
    let at = pairs.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
    Some(&pairs[at].1)
}

/// One copy of every text that occurs in keys and tags: ten thousand objects share a few hundred label names.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    texts: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Interner {
    /// Below this number of texts a sweep is not worth its time.
    const MIN_SWEEP: usize = 4096;

    pub(crate) fn text(&mut self, text: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        if self.texts.len() >= self.sweep_at.max(Self::MIN_SWEEP) {
            // A text with one owner is not in use. Doubling before the next sweep makes the cost per text constant.
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.texts.shrink_to(self.texts.len() * 2);
            self.sweep_at = self.texts.len() * 2;
        }
        self.texts.insert(text.clone());
        text.clone()
    }

    pub(crate) fn key(&mut self, key: &Key) -> Key {
        // Names are not shared: most occur once, and the store has one copy of each key anyway.
        Key { resource: self.text(&key.resource), namespace: self.text(&key.namespace), name: key.name.clone() }
    }

    /// The same tags out of shared texts; the ones of the `previous` state if nothing changed, the usual case.
    pub(crate) fn tags(&mut self, tags: Tags, previous: Option<&Tags>) -> Tags {
        if let Some(previous) = previous.filter(|previous| **previous == tags) {
            return previous.clone();
        }
        let mut shared =
            |pairs: &[Pair]| pairs.iter().map(|(name, value)| (self.text(name), self.text(value))).collect();
        Tags { labels: shared(&tags.labels), fields: shared(&tags.fields) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_sorted_and_the_later_of_two_equal_names_counts() {
        let tags = Tags::new([("b", "1"), ("a", "2"), ("b", "3")], [("spec.x", "y")]);
        assert_eq!(tags.labels().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert_eq!((tags.label("b"), tags.label("c"), tags.field("spec.x")), (Some("3"), None, Some("y")));
    }

    #[test]
    fn interner_shares_texts_and_drops_unused_ones() {
        let mut interner = Interner::default();
        let kept = interner.text(&"kept".into());
        assert!(Arc::ptr_eq(&kept, &interner.text(&"kept".into())));
        for n in 0..Interner::MIN_SWEEP * 4 {
            interner.text(&n.to_string().into());
        }
        assert!(interner.texts.len() <= Interner::MIN_SWEEP);
        assert!(Arc::ptr_eq(&kept, &interner.text(&"kept".into())));
    }
}
