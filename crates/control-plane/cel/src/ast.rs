//! Syntax tree of an expression after macro expansion.

use crate::value::Val;

/// A node. The id indexes what the checker learns about it; the offset is where its problems are reported.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub id: usize,
    pub offset: u32,
    /// How deeply operators and selections nest in it, as it was written.
    pub depth: u16,
    /// How deeply nodes nest in it, macros expanded.
    pub expanded: u16,
    pub kind: ExprKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ExprKind {
    /// A part that could not be read; the problem is already reported.
    Broken,
    Literal(Val<'static>),
    /// A leading dot means: not a local variable.
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List {
        items: Vec<Expr>,
        optional: Vec<bool>,
    },
    Map(Vec<Entry>),
    Message {
        name: String,
        fields: Vec<(String, Expr)>,
    },
    Fold(Box<Fold>),
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

/// A comprehension: every macro that walks a range or binds a name becomes one.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub range: Expr,
    pub var: String,
    /// The value beside an index or a key, in two-variable macros.
    pub var2: Option<String>,
    pub accu: String,
    pub init: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

/// The name of the accumulator: no identifier can be written like this.
pub(crate) const ACCU: &str = "@result";
/// The loop variable of folds that only bind a name.
pub(crate) const UNUSED: &str = "#unused";

impl Fold {
    /// Whether this only gives a name to a value: nothing is walked.
    pub(crate) fn is_bind(&self) -> bool {
        matches!(&self.range.kind, ExprKind::List { items, .. } if items.is_empty())
            && matches!(self.condition.kind, ExprKind::Literal(Val::Bool(false)))
            && self.accu != ACCU
    }
}

impl Expr {
    /// The dotted name this expression may be read as, such as `optional` in `optional.of(1)`.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.clone()),
            ExprKind::Select { operand, field, test: false } => {
                operand.qualified_name().map(|prefix| format!("{prefix}.{field}"))
            }
            _ => None,
        }
    }
}
