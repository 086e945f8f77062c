//! Path tree: values at paths of a filesystem, looked up for everything below them.

use foldhash::{HashMap, HashMapExt as _};

/// A tree of paths, one level for each part between slashes.
///
/// Looking a path up costs its length, whatever the tree holds: a table of whole paths would hash every directory above
/// it from the root again.
pub(crate) struct Tree<'p, T> {
    /// The place below a place, by the name of the part.
    below: HashMap<(usize, &'p str), usize>,
    values: Vec<Option<T>>,
}

impl<T> Default for Tree<'_, T> {
    fn default() -> Self {
        Tree { below: HashMap::new(), values: vec![None] }
    }
}

impl<'p, T> Tree<'p, T> {
    /// Sets the value of a path; the last one of a path counts.
    pub(crate) fn insert(&mut self, path: &'p str, value: T) {
        let mut at = 0;
        for part in path.split('/') {
            let next = self.values.len();
            at = *self.below.entry((at, part)).or_insert(next);
            if at == next {
                self.values.push(None);
            }
        }
        self.values[at] = Some(value);
    }

    /// The values at the path and at every directory above it, each with its own path, the uppermost first.
    pub(crate) fn above<'s>(&'s self, path: &'s str) -> impl Iterator<Item = (&'s str, &'s T)> {
        let mut parts = path.split('/');
        let mut at = 0;
        let mut end = 0;
        std::iter::from_fn(move || {
            let part = parts.next()?;
            at = *self.below.get(&(at, part))?;
            end += part.len();
            let above = &path[..end];
            // The slash behind it.
            end += 1;
            Some((above, self.values[at].as_ref()))
        })
        .filter_map(|(above, value)| Some((above, value?)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_lies_above_is_found_by_whole_parts() {
        let mut tree = Tree::default();
        for path in ["/a", "/a/b/c", "/ab", "/a/b/x"] {
            tree.insert(path, ());
        }
        let above: Vec<_> = tree.above("/a/b/c/d").map(|(path, ())| path).collect();
        assert_eq!(above, ["/a", "/a/b/c"]);
        assert_eq!(tree.above("/abc").count(), 0);
    }

    proptest! {
        #[test]
        fn a_tree_finds_what_a_table_of_whole_paths_finds(
            paths in prop::collection::vec("[/ab]{0,6}", 0..6),
            path in "[/ab]{0,8}",
        ) {
            let mut tree = Tree::default();
            let mut table = BTreeMap::new();
            for (nth, path) in paths.iter().enumerate() {
                tree.insert(path, nth);
                table.insert(path.as_str(), nth);
            }
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            let expected: Vec<_> = ends.filter_map(|end| Some((&path[..end], table.get(&path[..end])?))).collect();
            prop_assert_eq!(tree.above(&path).collect::<Vec<_>>(), expected);
        }
    }
}
