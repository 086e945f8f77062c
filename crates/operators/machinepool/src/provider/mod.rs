//! Objects of providers: kinds that are known at run time only, each watched while a pool refers to it.

mod provider_cache;
mod provider_caches;
mod provider_definition;
mod provider_object;

pub use provider_cache::ProviderCache;
pub use provider_caches::{GroupKind, KindState, ProviderCaches};
pub use provider_definition::ProviderDefinition;
pub use provider_object::ProviderObject;
