//! Preview problems: what a preview reports beside the rendering of pools.

use seaworthy_change::ObjectRef;
use seaworthy_change::memory::MemoryError;
use seaworthy_values::Severity;

/// The code of the problem that a change cannot be performed in memory.
pub(crate) const INCOMPLETE: &str = "preview";

/// A problem or a note that is not about one pool's rendering.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreviewProblem {
    pub severity: Severity,
    /// For programs.
    pub code: &'static str,
    pub object: Option<ObjectRef>,
    /// The path of the field; empty for the object as a whole.
    pub path: String,
    /// The object that causes it if that fails: then its failure is reported instead.
    pub caused_by: Option<ObjectRef>,
    /// For users; names the object.
    pub message: String,
    /// Whether the preview lacks something because of it, or shows what may not last.
    pub leaves_preview_incomplete: bool,
}

impl PreviewProblem {
    pub fn new(severity: Severity, code: &'static str, message: String) -> PreviewProblem {
        PreviewProblem {
            severity,
            code,
            object: None,
            path: String::new(),
            caused_by: None,
            message,
            leaves_preview_incomplete: false,
        }
    }

    /// A note that requires no action.
    pub fn note(code: &'static str, message: String) -> PreviewProblem {
        PreviewProblem::new(Severity::Info, code, message)
    }

    /// A change that cannot be performed in memory.
    pub fn unperformed(error: &MemoryError) -> PreviewProblem {
        let message = format!("the preview is incomplete, because a change cannot be performed in memory: {error}");
        PreviewProblem::new(Severity::Error, INCOMPLETE, message).incomplete()
    }

    /// The problem of an object.
    #[must_use]
    pub fn about(self, object: ObjectRef) -> PreviewProblem {
        PreviewProblem { object: Some(object), ..self }
    }

    /// The problem at a field.
    #[must_use]
    pub fn at(self, path: impl Into<String>) -> PreviewProblem {
        PreviewProblem { path: path.into(), ..self }
    }

    /// The problem as a consequence of another object's failure.
    #[must_use]
    pub fn caused_by(self, object: ObjectRef) -> PreviewProblem {
        PreviewProblem { caused_by: Some(object), ..self }
    }

    /// The problem as one that leaves the preview incomplete.
    #[must_use]
    pub fn incomplete(self) -> PreviewProblem {
        PreviewProblem { leaves_preview_incomplete: true, ..self }
    }
}
