//! One copy of every text that objects in a cache say alike.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use seaworthy_api::text::Text;

/// Texts that objects in a cache share.
#[derive(Default)]
pub struct SharedTexts(Mutex<Known>);

#[derive(Default)]
struct Known {
    texts: HashSet<Arc<str>>,
    /// What they take, in bytes.
    bytes: usize,
    sweep_at: usize,
}

impl SharedTexts {
    /// Below this many bytes it is not worth looking for texts that nobody says any more.
    const SMALLEST_SWEEP: usize = 256 << 10;

    /// Makes each of these texts the copy that all who say the same share.
    pub fn share<'t>(&self, texts: impl IntoIterator<Item = &'t mut Text>) {
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
    /// Forgets what nobody else holds, so that it never takes much more than what somebody does. Doubling before the next time
    /// makes the cost per text constant.
    fn sweep(&mut self) {
        if self.bytes >= self.sweep_at.max(SharedTexts::SMALLEST_SWEEP) {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.bytes = self.texts.iter().map(|text| cost(text)).sum();
            self.sweep_at = self.bytes * 2;
        }
    }
}

/// About what a text takes: itself, its counts, and its place in the set.
fn cost(text: &str) -> usize {
    text.len() + 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_become_one_and_those_that_nobody_says_are_forgotten() {
        let texts = SharedTexts::default();
        let mut said: [Text; 2] = ["alike".into(), "alike".into()];
        texts.share(&mut said);
        assert!(Arc::ptr_eq(said[0].as_arc(), said[1].as_arc()));
        for length in [1, 1000, 100_000] {
            let text = |n: usize| Text::from(format!("{n:9}{}", "x".repeat(length)));
            for n in 0..SharedTexts::SMALLEST_SWEEP * 4 / cost(&text(0)) {
                texts.share([&mut text(n)]);
            }
            let known = texts.0.lock().unwrap();
            let held: usize = known.texts.iter().map(|text| cost(text)).sum();
            assert!(held <= SharedTexts::SMALLEST_SWEEP + cost(&text(0)), "{held}");
            assert_eq!(held, known.bytes);
        }
        let mut again = Text::from("alike");
        texts.share([&mut again]);
        assert!(Arc::ptr_eq(again.as_arc(), said[0].as_arc()));
    }
}
