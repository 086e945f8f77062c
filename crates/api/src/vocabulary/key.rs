//! Keys of metadata, each typed by the map or list it belongs to.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

macro_rules! key {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub &'static str);

        impl $name {
            /// The key as it is written in an object.
            pub const fn as_str(&self) -> &'static str {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.0)
            }
        }

        impl From<$name> for String {
            fn from(key: $name) -> Self {
                key.0.to_owned()
            }
        }
    };
}

key! {
    /// Key of a label.
    Label
}

key! {
    /// Key of an annotation.
    Annotation
}

key! {
    /// Name of a finalizer.
    Finalizer
}

/// Key and effect of a node taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    pub key: &'static str,
    /// What the taint does to pods that do not tolerate it.
    pub effect: &'static str,
}

impl Label {
    /// The value of this label on an object.
    pub fn of<'a>(&self, metadata: &'a ObjectMeta) -> Option<&'a str> {
        metadata.labels.as_ref()?.get(self.0).map(String::as_str)
    }

    /// Sets this label on an object.
    pub fn set(&self, metadata: &mut ObjectMeta, value: impl Into<String>) {
        metadata.labels.get_or_insert_default().insert(self.0.to_owned(), value.into());
    }
}

impl Annotation {
    /// The value of this annotation on an object.
    pub fn of<'a>(&self, metadata: &'a ObjectMeta) -> Option<&'a str> {
        metadata.annotations.as_ref()?.get(self.0).map(String::as_str)
    }

    /// Sets this annotation on an object.
    pub fn set(&self, metadata: &mut ObjectMeta, value: impl Into<String>) {
        metadata.annotations.get_or_insert_default().insert(self.0.to_owned(), value.into());
    }
}

impl Finalizer {
    /// Whether this finalizer holds back the deletion of an object.
    pub fn is_on(&self, metadata: &ObjectMeta) -> bool {
        metadata.finalizers.iter().flatten().any(|finalizer| finalizer == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_not_an_annotation() {
        let mut metadata = ObjectMeta::default();
        Label("a").set(&mut metadata, "1");
        assert_eq!(Label("a").of(&metadata), Some("1"));
        assert_eq!(Annotation("a").of(&metadata), None);
        Annotation("a").set(&mut metadata, "2");
        assert_eq!(Label("a").of(&metadata), Some("1"));
        assert_eq!(Annotation("a").of(&metadata), Some("2"));
    }

    #[test]
    fn a_finalizer_is_found_by_its_whole_name() {
        let metadata = ObjectMeta { finalizers: Some(vec!["a/bc".into()]), ..ObjectMeta::default() };
        assert!(Finalizer("a/bc").is_on(&metadata));
        assert!(!Finalizer("a/b").is_on(&metadata));
    }
}
