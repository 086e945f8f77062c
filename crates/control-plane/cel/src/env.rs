//! Environment: the variables an expression may use. Compiling in it gives a program.

use std::collections::BTreeMap;

use crate::check::check;
use crate::error::{CompileErrors, Report};
use crate::functions::{FUNCTIONS, Overload, STORED_ONLY};
use crate::lint::lint;
use crate::parse::parse;
use crate::plan::plan;
use crate::program::Program;
use crate::source::Source;
use crate::types::Type;

/// Variables and their types, beside the functions Kubernetes gives every expression.
#[derive(Debug, Clone, Default)]
pub struct Env {
    variables: BTreeMap<String, Type>,
    stored: bool,
}

impl Env {
    /// An environment without variables.
    pub fn new() -> Self {
        Env::default()
    }

    /// With a variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, ty: Type) -> Self {
        self.variables.insert(name.into(), ty);
        self
    }

    /// For expressions that are already stored: they may use functions a server one version older does not know, as
    /// they were accepted once.
    #[must_use]
    pub fn stored(mut self) -> Self {
        self.stored = true;
        self
    }

    /// Reads, checks and plans an expression.
    pub fn compile(&self, text: &str) -> Result<Program, CompileErrors> {
        let source = Source::new(text);
        let mut report = Report::new(&source);
        let Some((expr, ids)) = parse(text, &mut report) else { return Err(report.finish()) };
        let checked = check(self, expr, ids, &mut report);
        if report.is_empty() {
            lint(&checked, &mut report);
        }
        if !report.is_empty() {
            return Err(report.finish());
        }
        plan(checked).map_err(CompileErrors::instantiation)
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&Type> {
        self.variables.get(name)
    }

    pub(crate) fn function(&self, name: &str) -> Option<(&'static str, &'static [Overload])> {
        FUNCTIONS.get(name).or_else(|| if self.stored { STORED_ONLY.get(name) } else { None })
    }
}
