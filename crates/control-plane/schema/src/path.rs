//! Paths of values in an object.
//!
//! A path is a chain on the stack that becomes text only when there is something to report.

use std::fmt;

/// The maximum length of a path in messages; longer ones are cut.
const MAX_TEXT_LENGTH: usize = 4096;

/// A place in an object.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    /// A declared field, or several joined by dots.
    Name(&'a str),
    /// A key of a map.
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// The object itself. Reports call it `<nil>`.
    pub const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    /// A declared field of the value here.
    pub fn name(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Name(name) }
    }

    /// A key of the map here.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    /// An element of the list here.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// Whether this is the object itself.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// The path as schema checks write it: map keys look like fields (`map.key`), and the root is empty.
    pub(crate) fn dotted(&self) -> String {
        self.text(|out, key| {
            out.push('.');
            out.push_str(key);
        })
    }

    fn text(&self, write_key: impl Fn(&mut String, &str)) -> String {
        let mut steps = Vec::new();
        let mut here = Some(self);
        while let Some(path) = here {
            steps.push(path.step);
            here = path.parent;
        }
        let mut out = String::new();
        for step in steps.into_iter().rev() {
            // Keys may be as long as the object, and every mistake below one repeats it.
            if out.len() > MAX_TEXT_LENGTH {
                let end = out.floor_char_boundary(MAX_TEXT_LENGTH);
                out.truncate(end);
                out.push('…');
                return out;
            }
            match step {
                Step::Root => {}
                Step::Name(name) => {
                    if !out.is_empty() {
                        out.push('.');
                    }
                    out.push_str(name);
                }
                Step::Key(key) => write_key(&mut out, key),
                Step::Index(index) => {
                    out.push('[');
                    out.push_str(&index.to_string());
                    out.push(']');
                }
            }
        }
        out
    }
}

impl fmt::Display for Path<'_> {
    /// The path as field errors write it: map keys are in brackets (`map[key]`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let out = self.text(|out, key| {
            out.push('[');
            out.push_str(key);
            out.push(']');
        });
        f.write_str(if out.is_empty() { "<nil>" } else { &out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_keys_differ_between_the_two_forms() {
        let spec = Path::ROOT.name("spec");
        let map = spec.name("map");
        let key = map.key("a.b");
        let item = key.index(3);
        assert_eq!(item.to_string(), "spec.map[a.b][3]");
        assert_eq!(item.dotted(), "spec.map.a.b[3]");
    }

    #[test]
    fn root_is_called_nil() {
        assert_eq!(Path::ROOT.to_string(), "<nil>");
        assert_eq!(Path::ROOT.dotted(), "");
    }
}
