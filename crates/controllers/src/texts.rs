//! One copy of every text that objects in a cache say alike.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use seaworthy_api::text::Text;

/// Texts that are shared.
#[derive(Default)]
pub struct Texts(Mutex<Known>);

#[derive(Default)]
struct Known {
    texts: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Texts {
    /// Below this many texts it is not worth looking for those that nobody says any more.
    const SMALLEST_SWEEP: usize = 1024;

    /// Makes each of these texts the copy that all who say the same share.
    pub fn share<'t>(&self, texts: impl IntoIterator<Item = &'t mut Text>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for text in texts {
            match known.texts.get(text.as_str()) {
                Some(shared) => *text = Arc::clone(shared).into(),
                None => {
                    known.sweep();
                    known.texts.insert(Arc::clone(text.as_arc()));
                }
            }
        }
    }
}

impl Known {
    /// Forgets what nobody else holds. Doubling before the next time makes the cost per text constant.
    fn sweep(&mut self) {
        if self.texts.len() >= self.sweep_at.max(Texts::SMALLEST_SWEEP) {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = self.texts.len() * 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_become_one_and_those_that_nobody_says_are_forgotten() {
        let texts = Texts::default();
        let mut said: [Text; 2] = ["alike".into(), "alike".into()];
        texts.share(&mut said);
        assert!(Arc::ptr_eq(said[0].as_arc(), said[1].as_arc()));
        for n in 0..Texts::SMALLEST_SWEEP * 4 {
            texts.share([&mut Text::from(n.to_string())]);
        }
        assert!(texts.0.lock().unwrap().texts.len() <= Texts::SMALLEST_SWEEP);
        let mut again = Text::from("alike");
        texts.share([&mut again]);
        assert!(Arc::ptr_eq(again.as_arc(), said[0].as_arc()));
    }
}
