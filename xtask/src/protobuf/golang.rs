//! Go types: their JSON tags, which types are lists, which have a marshaller of their own.
//!
//! The sources are formatted by `gofmt`, so that a field is one line and a declaration ends with a brace at its start.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The types of a package.
#[derive(Default)]
pub struct Sources {
    /// What is declared, by name.
    pub types: BTreeMap<String, Declaration>,
    /// The types that write their JSON by themselves.
    pub marshallers: BTreeSet<String>,
}

/// A type.
#[derive(Debug, PartialEq)]
pub enum Declaration {
    /// A structure and those of its fields that are in protobuf.
    Struct(Vec<Tag>),
    /// A list.
    Slice,
}

/// What the tags of a field declare.
#[derive(Debug, PartialEq)]
pub struct Tag {
    /// Its number in protobuf.
    pub number: u32,
    /// Its name in protobuf; none if the tag does not repeat it.
    pub proto_name: Option<String>,
    /// Its name in JSON; empty if the tag says none.
    pub json_name: String,
    /// Whether it has no name in Go, so that without one in JSON its fields lie beside it.
    pub is_embedded: bool,
    /// `omitempty`.
    pub omits_empty: bool,
    /// `omitzero`.
    pub omits_zero: bool,
    /// Whether it is a pointer.
    pub is_pointer: bool,
}

impl Sources {
    /// Reads all sources in a folder but tests and what is generated.
    pub fn read(folder: &Path) -> Result<Sources> {
        let mut sources = Sources::default();
        let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_source = name.ends_with(".go") && !name.ends_with("_test.go");
            if is_source && !name.starts_with("generated.") && !name.starts_with("zz_generated.") {
                let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                sources.add(&text);
            }
        }
        Ok(sources)
    }

    fn add(&mut self, text: &str) {
        let mut current: Option<(String, Vec<Tag>)> = None;
        for line in text.lines() {
            if let Some((_, tags)) = &mut current {
                tags.extend(tag(line));
                if line == "}"
                    && let Some((name, tags)) = current.take()
                {
                    self.types.insert(name, Declaration::Struct(tags));
                }
            } else if let Some((name, declared)) = line.strip_prefix("type ").and_then(|line| line.split_once(' ')) {
                if declared == "struct {" {
                    current = Some((name.to_owned(), Vec::new()));
                } else if declared == "struct{}" {
                    self.types.insert(name.to_owned(), Declaration::Struct(Vec::new()));
                } else if declared.starts_with("[]") {
                    self.types.insert(name.to_owned(), Declaration::Slice);
                }
            } else if let Some((receiver, _)) = line.split_once(") MarshalJSON() (")
                && let Some(receiver) = receiver.strip_prefix("func (")
            {
                let name = receiver.rsplit([' ', '*']).next().unwrap_or_default();
                self.marshallers.insert(name.to_owned());
            }
        }
    }
}

/// The tags of a field, if this line is one that is in protobuf.
fn tag(line: &str) -> Option<Tag> {
    // What was planned and given up is left in comments.
    let line = line.trim();
    let mut parts = if line.starts_with("//") { return None } else { line.split('`') };
    let (declared, tags) = (parts.next()?, parts.next()?);
    let value = |key: &str| tags.split_once(&format!("{key}:\""))?.1.split('"').next();
    let mut protobuf = value("protobuf")?.split(',').skip(1);
    let number = protobuf.next()?.parse().ok()?;
    let proto_name = protobuf.find_map(|part| part.strip_prefix("name=")).map(str::to_owned);
    let mut json = value("json").unwrap_or_default().split(',');
    let json_name = json.next().unwrap_or_default().to_owned();
    let marks: Vec<&str> = json.collect();
    let words: Vec<&str> = declared.split_whitespace().collect();
    Some(Tag {
        number,
        proto_name,
        json_name,
        omits_empty: marks.contains(&"omitempty"),
        omits_zero: marks.contains(&"omitzero"),
        is_embedded: words.len() == 1,
        is_pointer: words.last()?.starts_with('*'),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tags_give_names_and_what_is_left_out() {
        let mut sources = Sources::default();
        sources.add(
            "type Boat struct {\n\tTypeMeta `json:\",inline\"`\n\t// Crew string `json:\"crew\" protobuf:\"bytes,2,opt,name=crew\"`\n\tHull `json:\",inline\" \
             protobuf:\"bytes,1,opt,name=hull\"`\n\tDraught *int32 `json:\"draft,omitempty\" \
             protobuf:\"varint,4,opt,name=draught\"`\n}\n\ntype Names []string\n\nfunc (b *Sail) MarshalJSON() ([]byte, error) {\n",
        );
        let Declaration::Struct(tags) = &sources.types["Boat"] else { panic!("no structure") };
        let read: Vec<_> = tags
            .iter()
            .map(|tag| (tag.number, tag.proto_name.as_deref(), &*tag.json_name, tag.is_embedded, tag.omits_empty))
            .collect();
        assert_eq!(read, [(1, Some("hull"), "", true, false), (4, Some("draught"), "draft", false, true)]);
        assert!(tags[1].is_pointer && !tags[0].is_pointer);
        assert_eq!(sources.types["Names"], Declaration::Slice);
        assert!(sources.marshallers.contains("Sail"));
    }
}
