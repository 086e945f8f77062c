//! Pairs: labels or annotations, however they are stored.

use std::collections::BTreeMap;
use std::fmt;

use crate::text::Text;

/// Keys and values of an object's metadata.
#[derive(Clone, Copy)]
pub enum Pairs<'a> {
    /// As the API's types have them.
    Map(Option<&'a BTreeMap<String, String>>),
    /// As a list by key, whose texts are shared with those of other objects. Going through it takes less than searching it: keys
    /// mostly differ in length, and the lengths stand in the list itself.
    List(&'a [(Text, Text)]),
}

impl<'a> Pairs<'a> {
    pub fn get(self, key: &str) -> Option<&'a str> {
        match self {
            Pairs::Map(map) => map?.get(key).map(String::as_str),
            Pairs::List(list) => list.iter().find(|(found, _)| found.as_str() == key).map(|(_, value)| value.as_str()),
        }
    }

    fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let (map, list) = match self {
            Pairs::Map(map) => (map, None),
            Pairs::List(list) => (None, Some(list)),
        };
        let of_map = map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
        of_map.chain(list.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())))
    }
}

impl fmt::Debug for Pairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a> From<Option<&'a BTreeMap<String, String>>> for Pairs<'a> {
    fn from(map: Option<&'a BTreeMap<String, String>>) -> Self {
        Pairs::Map(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_and_map_show_the_same() {
        let map = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())]);
        let list: Vec<(Text, Text)> =
            map.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
        let (map, list) = (Pairs::from(Some(&map)), Pairs::List(&list));
        for key in ["a", "b", "c", ""] {
            assert_eq!(map.get(key), list.get(key), "{key}");
        }
        assert_eq!(format!("{map:?}"), format!("{list:?}"));
    }
}
