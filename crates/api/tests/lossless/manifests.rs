//! Manifests of the kinds' source documents (docs/reference/upstream-behaviour.md), read and written.

use std::path::Path;

use serde_json::Value;

use super::{first_difference, kinds};

#[test]
fn the_manifests_of_the_source_documents_survive_reading_and_writing() {
    let kinds = kinds::all();
    let mut count = 0;
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for document in documents {
            let at = format!("{}: {}", path.display(), document["metadata"]["name"]);
            let kind = kinds
                .iter()
                .find(|kind| document["apiVersion"] == *kind.api_version && document["kind"] == *kind.kind)
                .unwrap_or_else(|| panic!("{at}: unknown kind {}", document["kind"]));
            let written = (kind.lossless)(document.clone()).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(first_difference("", &document, &written), None, "{at}");
            (kind.typed)(document).unwrap_or_else(|error| panic!("{at}: {error}"));
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} manifests were found");
}
