//! Kinds whose `spec` may be missing.
//!
//! kube generates the root of a kind with a `spec` that must be present. Where the upstream's definition does not require
//! it, a manifest without `spec` is valid and has to be readable; [`optional_spec!`](crate::optional_spec!) reads a
//! missing or `null` spec as the default one.

/// Makes a spec struct readable from nothing. The struct must derive `Default` and carry `#[serde(remote = "Self")]`.
///
/// serde offers a missing key to the field's type as an absent option, so a type that asks for an option sees the absence.
#[macro_export]
macro_rules! optional_spec {
    ($spec:ident) => {
        impl ::serde::Serialize for $spec {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                // The inherent function that `remote = "Self"` derives.
                $spec::serialize(self, serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $spec {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Optional;

                impl<'de> ::serde::de::Visitor<'de> for Optional {
                    type Value = $spec;

                    fn expecting(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        formatter.write_str(concat!("an object (", stringify!($spec), ") or nothing"))
                    }

                    fn visit_none<E: ::serde::de::Error>(self) -> Result<Self::Value, E> {
                        Ok(Default::default())
                    }

                    fn visit_unit<E: ::serde::de::Error>(self) -> Result<Self::Value, E> {
                        Ok(Default::default())
                    }

                    fn visit_some<D: ::serde::Deserializer<'de>>(
                        self,
                        deserializer: D,
                    ) -> Result<Self::Value, D::Error> {
                        $spec::deserialize(deserializer)
                    }
                }

                deserializer.deserialize_option(Optional)
            }
        }
    };
}
