//! Word enums: closed sets of words (enum values, condition types, reasons) as Rust enums that know their spelling.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A closed set of words; defined with [`words!`](crate::words!).
pub trait Word: Copy + FromStr<Err = UnknownWord> + 'static {
    /// What the set is called in messages.
    const SET: &'static str;
    /// Every word, in the order in which the set defines them.
    const ALL: &'static [Self];

    /// The word as it is written in an object.
    fn as_str(&self) -> &'static str;
}

/// A text that is not a word of the set it was read for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a {set}; expected one of {accepted}")]
pub struct UnknownWord {
    pub set: &'static str,
    pub found: String,
    /// The accepted words, separated by commas.
    pub accepted: String,
}

impl UnknownWord {
    /// An error for `found` that lists the words of `W`.
    pub fn of<W: Word>(found: &str) -> Self {
        let accepted: Vec<String> = W::ALL.iter().map(|word| format!("`{}`", word.as_str())).collect();
        Self { set: W::SET, found: found.to_owned(), accepted: accepted.join(", ") }
    }
}

/// Defines an enum of words: `as_str`, `Display`, `FromStr`, serde and schema all use the spelling beside each variant.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// The word as it is written in an object.
            pub const fn as_str(&self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl $crate::words::Word for $name {
            const SET: &'static str = stringify!($name);
            const ALL: &'static [Self] = &[$(Self::$variant,)+];

            fn as_str(&self) -> &'static str {
                $name::as_str(self)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::words::UnknownWord::of::<Self>(text)),
                }
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <::std::borrow::Cow<'de, str> as ::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }
    };
}

/// A field whose schema is an enum, read tolerantly: a word of a newer upstream is kept, not refused.
///
/// The API server enforces the enum on write; a reader that failed on an unknown word would lose sight of the whole
/// object because of one status field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Open<W> {
    /// A word of the set.
    Known(W),
    /// Any other text, as it was read.
    Other(String),
}

impl<W: Word> Open<W> {
    /// The text as it is written in the object.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(word) => word.as_str(),
            Self::Other(text) => text,
        }
    }

    /// The word, if it is one of the set.
    pub fn known(&self) -> Option<W> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Other(_) => None,
        }
    }
}

impl<W: Word> From<W> for Open<W> {
    fn from(word: W) -> Self {
        Self::Known(word)
    }
}

impl<W: Word + PartialEq> PartialEq<W> for Open<W> {
    fn eq(&self, other: &W) -> bool {
        self.known().as_ref() == Some(other)
    }
}

impl<W: Word> fmt::Display for Open<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl<W: Word> Serialize for Open<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, W: Word> Deserialize<'de> for Open<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(text.parse().map_or(Self::Other(text), Self::Known))
    }
}

impl<W: Word> JsonSchema for Open<W> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        W::SET.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = W::ALL.iter().map(Word::as_str).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}
