//! Text interner: one copy of every text that several objects in a cache have.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use seaworthy_api::text::Text;

/// Interns the texts of objects in a cache.
#[derive(Default)]
pub struct TextInterner(Mutex<Known>);

#[derive(Default)]
struct Known {
    texts: HashSet<Arc<str>>,
    /// Their size in memory, about.
    bytes: usize,
    sweep_at: usize,
}

impl TextInterner {
    /// Below this many bytes, removing unused texts is not worth its cost.
    const MIN_SWEEP_BYTES: usize = 256 << 10;

    /// Replaces each text by the shared copy.
    pub fn intern<'t>(&self, texts: impl IntoIterator<Item = &'t mut Text>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for text in texts {
            match known.texts.get(text.as_str()) {
                Some(shared) => *text = Arc::clone(shared).into(),
                None => {
                    known.sweep();
                    known.bytes += cost(text);
                    known.texts.insert(Arc::clone(text.as_arc()));
                }
            }
        }
    }
}

impl Known {
    /// Removes texts that no object holds, so that memory stays proportional to what is held. Doubling before the next time
    /// makes the cost per text constant.
    fn sweep(&mut self) {
        if self.bytes >= self.sweep_at.max(TextInterner::MIN_SWEEP_BYTES) {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.bytes = self.texts.iter().map(|text| cost(text)).sum();
            self.sweep_at = self.bytes * 2;
        }
    }
}

/// About the size of a text in memory: itself, its counts, and its slot in the set.
fn cost(text: &str) -> usize {
    text.len() + 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_become_one_and_unused_ones_are_removed() {
        let texts = TextInterner::default();
        let mut equal: [Text; 2] = ["alike".into(), "alike".into()];
        texts.intern(&mut equal);
        assert!(Arc::ptr_eq(equal[0].as_arc(), equal[1].as_arc()));
        for length in [1, 1000, 100_000] {
            let text = |n: usize| Text::from(format!("{n:9}{}", "x".repeat(length)));
            for n in 0..TextInterner::MIN_SWEEP_BYTES * 4 / cost(&text(0)) {
                texts.intern([&mut text(n)]);
            }
            let known = texts.0.lock().unwrap();
            let held: usize = known.texts.iter().map(|text| cost(text)).sum();
            assert!(held <= TextInterner::MIN_SWEEP_BYTES + cost(&text(0)), "{held}");
            assert_eq!(held, known.bytes);
        }
        let mut again = Text::from("alike");
        texts.intern([&mut again]);
        assert!(Arc::ptr_eq(again.as_arc(), equal[0].as_arc()));
    }
}
