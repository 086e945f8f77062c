//! Events: what happened, told once, on the object it happened to.
//!
//! A decision says what happened, on transitions only; kube's recorder counts what has the same reason instead of writing
//! it again, and leaves the sentence as it was. What follows soon is not even counted: waves of a roll-out would say the same
//! many times a second. An Event that cannot be written is logged and forgotten: it never holds up the work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};

use tokio::time::Instant;

use crate::leadership::Leadership;

/// How long the same thing about the same object is not told again.
const REPEAT: Duration = Duration::from_secs(10);

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// As intended.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Writes the events of one controller.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    leadership: Leadership,
    /// What was told lately: of which object, and the reason.
    told: Arc<Mutex<BTreeMap<[String; 2], Instant>>>,
}

impl Events {
    /// Events told by `controller`.
    pub fn new(client: Client, controller: &str, leadership: Leadership) -> Events {
        Events {
            recorder: Recorder::new(client, Reporter::from(controller.to_owned())),
            leadership,
            told: Arc::default(),
        }
    }

    /// Whether this was not told a moment ago; from now on it was.
    fn is_new(&self, said: [String; 2]) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, since| since.elapsed() < REPEAT);
        if told.contains_key(&said) {
            return false;
        }
        told.insert(said, Instant::now());
        true
    }

    /// Tells what happened to `object`.
    pub async fn tell<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        gravity: Gravity,
        reason: &str,
        message: impl Into<String>,
    ) {
        let about = object.object_ref(&());
        let uid = about.uid.clone().or_else(|| about.name.clone()).unwrap_or_default();
        if !self.leadership.holds() || !self.is_new([uid, reason.to_owned()]) {
            return;
        }
        let event = Event {
            type_: match gravity {
                Gravity::Normal => EventType::Normal,
                Gravity::Warning => EventType::Warning,
            },
            reason: reason.to_owned(),
            note: Some(shorten(message.into())),
            action: reason.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &about).await {
            tracing::debug!(reason, %error, "an event could not be written");
        }
    }
}

/// The API server refuses longer notes.
const LONGEST_NOTE: usize = 1024;

fn shorten(mut note: String) -> String {
    if note.len() > LONGEST_NOTE {
        let mut end = LONGEST_NOTE - "…".len();
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
        note.push('…');
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_note_is_cut_at_a_character() {
        let short = "é".repeat(10);
        assert_eq!(shorten(short.clone()), short);
        let cut = shorten("é".repeat(2000));
        assert!(cut.len() <= LONGEST_NOTE && cut.ends_with('…'));
    }
}
