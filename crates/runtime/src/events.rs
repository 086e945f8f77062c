//! Events: what happened, told once, on the object it happened to.
//!
//! A decision says what happened, on transitions only; kube's recorder counts repetitions of the same sentence instead of
//! writing them again. An Event that cannot be written is logged and forgotten: it never holds up the work.

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};

use crate::leadership::Leadership;

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
}

impl Events {
    /// Events told by `controller`.
    pub fn new(client: Client, controller: &str, leadership: Leadership) -> Events {
        Events { recorder: Recorder::new(client, Reporter::from(controller.to_owned())), leadership }
    }

    /// Tells what happened to `object`.
    pub async fn tell<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        gravity: Gravity,
        reason: &str,
        message: impl Into<String>,
    ) {
        if !self.leadership.holds() {
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
        if let Err(error) = self.recorder.publish(&event, &object.object_ref(&())).await {
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
