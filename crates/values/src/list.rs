//! Lists in messages: the first items by name, the rest as a number.
//!
//! The length of a list is known before it is written, so that items which are left out are never made into text.

use std::fmt::{Display, Write as _};

/// Names, of many the first: `a, b and 3 more`.
pub fn listed<I>(names: I, max: usize) -> String
where
    I: IntoIterator<Item: Display, IntoIter: ExactSizeIterator>,
{
    first_of(names, max, ", ", " and ")
}

/// Clauses of a sentence, of many the first: `a is missing; b is empty; and 3 more`.
pub fn clauses<I>(clauses: I, max: usize) -> String
where
    I: IntoIterator<Item: Display, IntoIter: ExactSizeIterator>,
{
    first_of(clauses, max, "; ", "; and ")
}

/// Examples, where the number of the others says nothing: `a, b, …`.
pub fn examples<I>(items: I, max: usize) -> String
where
    I: IntoIterator<Item: Display, IntoIter: ExactSizeIterator>,
{
    let (mut text, more) = written(items, max, ", ");
    if more > 0 {
        text.push_str(", …");
    }
    text
}

/// The first `max` items with a separator, and the number of those that are left out behind the text `before_more`.
pub fn first_of<I>(items: I, max: usize, separator: &str, before_more: &str) -> String
where
    I: IntoIterator<Item: Display, IntoIter: ExactSizeIterator>,
{
    match written(items, max, separator) {
        (text, 0) => text,
        (text, more) => format!("{text}{before_more}{more} more"),
    }
}

/// As many items as take this many bytes, the first in any case, and the number of those that are left out behind the text
/// `before_more`.
pub fn within<I>(items: I, max_bytes: usize, separator: &str, before_more: &str) -> String
where
    I: IntoIterator<Item: Display, IntoIter: ExactSizeIterator>,
{
    let mut items = items.into_iter();
    let mut text = items.next().map(|first| first.to_string()).unwrap_or_default();
    loop {
        let left = items.len();
        let Some(item) = items.next() else { return text };
        let item = item.to_string();
        if text.len() + item.len() > max_bytes {
            return format!("{text}{before_more}{left} more");
        }
        text.push_str(separator);
        text.push_str(&item);
    }
}

/// The first items, and how many are left out.
fn written<I>(items: I, max: usize, separator: &str) -> (String, usize)
where
    I: IntoIterator<Item: Display, IntoIter: ExactSizeIterator>,
{
    let mut items = items.into_iter();
    let mut text = String::new();
    for (nth, item) in items.by_ref().take(max).enumerate() {
        let separator = if nth > 0 { separator } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{item}");
    }
    (text, items.len())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "", "", "")]
    #[case(1, "a", "a", "a")]
    #[case(2, "a, b", "a; b", "a, b")]
    #[case(3, "a, b and 1 more", "a; b; and 1 more", "a, b, …")]
    #[case(5, "a, b and 3 more", "a; b; and 3 more", "a, b, …")]
    fn only_what_is_left_out_is_counted(
        #[case] count: usize,
        #[case] names: &str,
        #[case] sentence: &str,
        #[case] some: &str,
    ) {
        let items = &["a", "b", "c", "d", "e"][..count];
        assert_eq!(listed(items, 2), names);
        assert_eq!(clauses(items, 2), sentence);
        assert_eq!(examples(items, 2), some);
    }

    #[rstest]
    #[case(&[], "")]
    #[case(&["abcdef"], "abcdef")]
    #[case(&["ab", "cd"], "ab, cd")]
    #[case(&["ab", "cd", "e"], "ab, cd, and 1 more")]
    #[case(&["abcdef", "b", "c"], "abcdef, and 2 more")]
    fn first_item_is_listed_whatever_its_length(#[case] items: &[&str], #[case] expected: &str) {
        assert_eq!(within(items, 6, ", ", ", and "), expected);
    }

    #[test]
    fn item_that_is_left_out_is_not_made() {
        let item = |number: i32| if number < 2 { number } else { panic!("{number}") };
        assert_eq!(listed([0, 1, 2, 3].into_iter().map(item), 2), "0, 1 and 2 more");
    }
}
