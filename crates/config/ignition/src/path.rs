//! Paths into a JSON tree, written as in Kubernetes: `storage.files[3].mode`.

use std::fmt;

/// One step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// A key of an object.
    Key(String),
    /// A place in a list, counted from 0.
    Index(usize),
}

/// A place in a JSON tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// The path of a list of keys.
    pub fn of(keys: &[&str]) -> Self {
        Path(keys.iter().map(|key| Step::Key((*key).to_owned())).collect())
    }

    /// Parses a text such as `storage.files[3].mode`; of a text that is no path, as much as can be read.
    pub fn parse(text: &str) -> Self {
        let mut path = Path::default();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let Some(end) = closing(after) else { break };
                let inside = &after[..end];
                rest = &after[end + 1..];
                path = match inside.parse::<usize>() {
                    Ok(index) => path.index(index),
                    Err(_) => path.key(serde_json::from_str::<String>(inside).unwrap_or_else(|_| inside.to_owned())),
                };
            } else {
                rest = rest.strip_prefix('.').unwrap_or(rest);
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                if end > 0 && &rest[..end] != "$" {
                    path.0.push(Step::Key(rest[..end].to_owned()));
                }
                if end == 0 && !rest.starts_with('[') {
                    break;
                }
                rest = &rest[end..];
            }
        }
        path
    }

    /// This path and a key below it.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.push(Step::Key(key.into()));
        self
    }

    /// This path and a place in the list there.
    #[must_use]
    pub fn index(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }

    /// This path and another one below it.
    #[must_use]
    pub fn join(mut self, below: &Path) -> Self {
        self.0.extend(below.0.iter().cloned());
        self
    }

    /// The path one step up; `None` at the root.
    pub fn parent(&self) -> Option<Path> {
        let (_, rest) = self.0.split_last()?;
        Some(Path(rest.to_vec()))
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last step, when it is a key.
    pub fn last_key(&self) -> Option<&str> {
        match self.0.last() {
            Some(Step::Key(key)) => Some(key),
            _ => None,
        }
    }
}

/// The place of the bracket that closes: brackets inside quotes do not count.
fn closing(text: &str) -> Option<usize> {
    let mut in_quotes = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_quotes => escaped = true,
            '"' => in_quotes = !in_quotes,
            ']' if !in_quotes => return Some(at),
            _ => {}
        }
    }
    None
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("$");
        }
        for (nth, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                // A key of a list may be a URL, and a path is something that is shown.
                Step::Key(key) if key.contains("://") => write!(f, "[{:?}]", crate::url::shown(key))?,
                Step::Key(key) if key.is_empty() || key.contains(['.', '[', ']', '"', ' ', '/']) => {
                    write!(f, "[{key:?}]")?;
                }
                Step::Key(key) if nth == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_like_field_paths_of_kubernetes() {
        assert_eq!(Path::of(&["storage", "files"]).index(3).key("mode").to_string(), "storage.files[3].mode");
        assert_eq!(Path::default().to_string(), "$");
        assert_eq!(Path::of(&["labels", "a.b/c"]).to_string(), r#"labels["a.b/c"]"#);
        assert_eq!(Path::of(&["merge", "http://u:p@h/a?b=c"]).to_string(), r#"merge["http://h/a?b=…"]"#);
        assert_eq!(Path::default().index(0).key("x").to_string(), "[0].x");
    }

    #[test]
    fn paths_are_read_as_they_are_written() {
        for text in ["spec.config.storage.files[3].mode", "metadata.labels[\"a.b/c\"]", "items[0]", "[0].x", "a"] {
            assert_eq!(Path::parse(text).to_string(), text);
        }
        assert!(Path::parse("$").is_root());
        assert!(Path::parse("").is_root());
    }
}
