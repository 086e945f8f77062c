//! `storage.conf`, changed in place: comments and unknown keys stay where they are.

use seaworthy_api::machineconfiguration::container_runtime_config::ContainerRuntimeConfiguration;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::{crio, validate};

/// Where the storage of images and containers is configured.
pub const STORAGE_CONF: &str = "/etc/containers/storage.conf";

/// What to do when a pool has no file of its own.
pub(super) const BUILT_IN: &str = "[storage]\ndriver = \"overlay\"\nrunroot = \"/run/containers/storage\"\n\
                                   graphroot = \"/var/lib/containers/storage\"\n";

/// Whether the object has anything to say on storage.
pub(super) fn is_needed(settings: &ContainerRuntimeConfiguration, has_stores: bool) -> Result<bool, String> {
    let size = settings.overlay_size.as_ref().map(|size| validate::value(size, "overlaySize")).transpose()?;
    let lists = [&settings.additional_layer_stores, &settings.additional_image_stores];
    let has_lists = lists.iter().any(|list| list.as_ref().is_some_and(|list| !list.is_empty()));
    Ok(size.is_some_and(|size| size != 0) || has_stores && has_lists)
}

/// The file with the object's settings in it.
pub(super) fn changed(
    base: &[u8],
    settings: &ContainerRuntimeConfiguration,
    has_stores: bool,
) -> Result<String, String> {
    let undecodable = |why: String| format!("could not decode original Container Runtime config: {why}");
    let text = std::str::from_utf8(base).map_err(|error| undecodable(error.to_string()))?;
    if text.trim().is_empty() {
        return Err("original Container Runtime config is empty".to_owned());
    }
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| undecodable(error.to_string()))?;
    let options = table(document.as_table_mut(), "storage").and_then(|storage| table(storage, "options"));
    let options = options
        .map_err(|key| format!("could not update container runtime config with new changes: {key} is not a table"))?;
    if let Some(size) = &settings.overlay_size
        && validate::value(size, "overlaySize")? != 0
    {
        set(options, "size", value(size.to_string()));
    }
    if has_stores {
        if let Some(stores) = settings.additional_layer_stores.as_deref().filter(|stores| !stores.is_empty()) {
            let by_reference =
                |path: &str| if path.ends_with(":ref") { path.to_owned() } else { format!("{path}:ref") };
            set(options, "additionallayerstores", value(crio::paths(stores).map(by_reference).collect::<Array>()));
        }
        if let Some(stores) = settings.additional_image_stores.as_deref().filter(|stores| !stores.is_empty()) {
            set(options, "additionalimagestores", value(crio::paths(stores).collect::<Array>()));
        }
    }
    Ok(document.to_string())
}

/// The table under a key, made if there is none. The error is the key that holds something else.
fn table<'t>(parent: &'t mut dyn TableLike, key: &'static str) -> Result<&'t mut dyn TableLike, &'static str> {
    let item = parent.entry(key).or_insert_with(|| Item::Table(Table::new()));
    item.as_table_like_mut().ok_or(key)
}

/// Sets a key; one that is there keeps its place and the comments around it.
fn set(table: &mut dyn TableLike, key: &str, mut item: Item) {
    match table.get_mut(key) {
        Some(old) => {
            if let (Some(old), Some(new)) = (old.as_value(), item.as_value_mut()) {
                *new.decor_mut() = old.decor().clone();
            }
            *old = item;
        }
        None => {
            table.insert(key, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Objects that were stored before paths were checked may have it.
    #[test]
    fn cr_22_a_reference_is_not_made_twice() {
        let settings = serde_json::from_value(json!({"additionalLayerStores": [{"path": "/l:ref"}, {"path": "/m"}]}));
        let text = changed(b"[storage.options]\n", &settings.unwrap(), true).unwrap();
        assert_eq!(text, "[storage.options]\nadditionallayerstores = [\"/l:ref\", \"/m:ref\"]\n");
    }
}
