//! Building blocks of random configs.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::Value;

pub type Json = BoxedStrategy<Value>;
pub type Field = (&'static str, BoxedStrategy<Option<Value>>);

pub fn one<T: Clone + std::fmt::Debug + Into<Value> + 'static>(values: &[T]) -> Json {
    select(values.to_vec()).prop_map(Into::into).boxed()
}

pub fn flag() -> Json {
    any::<bool>().prop_map(Value::from).boxed()
}

/// A field that is there half of the time.
pub fn maybe(name: &'static str, value: Json) -> Field {
    (name, prop::option::of(value).boxed())
}

pub fn always(name: &'static str, value: impl Into<Value>) -> Field {
    (name, Just(Some(value.into())).boxed())
}

/// An object of some of these fields, in any order.
pub fn object(fields: Vec<Field>) -> Json {
    let (names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    values
        .prop_map(move |values| {
            let present = names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
            Value::Object(present.collect())
        })
        .boxed()
}

/// A list with one entry for some of these keys, in any order.
pub fn keyed(keys: &[&'static str], entry: impl Fn(&'static str) -> Json + 'static) -> Json {
    subsequence(keys.to_vec(), 0..=keys.len())
        .prop_shuffle()
        .prop_flat_map(move |keys| keys.into_iter().map(&entry).collect::<Vec<_>>())
        .prop_map(Value::from)
        .boxed()
}

/// A list of some of these texts, each once, in any order.
pub fn set(texts: &[&'static str]) -> Json {
    keyed(texts, |text| Just(Value::from(text)).boxed())
}

/// A list of some of these texts, in any order and number.
pub fn list(texts: &[&'static str]) -> Json {
    prop::collection::vec(select(texts.to_vec()), 0..4).prop_map(Value::from).boxed()
}
