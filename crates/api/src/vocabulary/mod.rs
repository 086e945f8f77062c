//! Vocabulary: labels, annotations, taints, finalizers, condition types, reasons and states. Every word that two programs must
//! spell alike is defined once.
//!
//! Keys are constants of a type that says where the key belongs, so an annotation cannot be looked up among labels.
//! Sets of words (condition types, reasons, states) are enums made with [`words!`](crate::words!).
//!
//! One file for each API group, and not one for each kind of word: an operator adds one file, and imports its words from one place;
//! docs/reference has them by kind of word.

pub mod cluster;
pub mod compliance;
pub mod key;
pub mod kmm;
pub mod machineconfiguration;
pub mod seaworthy;

pub use key::{Annotation, Finalizer, Label, Taint};
