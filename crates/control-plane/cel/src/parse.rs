//! Parser: turns the tokens of an expression into a tree, expanding macros on the way.
//!
//! Wording and places of problems are those clients of a Kubernetes API server know. After a syntax error reading
//! stops, so that one mistake is one problem; a character that is no token at all is reported beside it.

mod operand;

use crate::ast::{Expr, ExprKind};
use crate::error::Report;
use crate::syntax_error::{self, Enclosing};
use crate::token::{self, Token, TokenKind as T};
use crate::value::Val;

/// Longest expression, in code points.
const MAX_CODE_POINTS: usize = 100_000;
/// Deepest nesting of brackets and of operators.
const MAX_DEPTH: u16 = 250;
/// Deepest tree once macros are expanded.
///
/// Differs: upstream has no such limit because its stacks grow; here the checker, the planner and the evaluator
/// recurse on a thread's fixed stack, and no rule a human wrote comes near.
const MAX_EXPANDED_DEPTH: u16 = 400;

const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Operators and their functions, from those that bind loosest.
const LEVELS: [&[(&str, &str)]; 5] = [
    &[("||", "_||_")],
    &[("&&", "_&&_")],
    &[("<", "_<_"), ("<=", "_<=_"), (">=", "_>=_"), (">", "_>_"), ("==", "_==_"), ("!=", "_!=_"), ("in", "@in")],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

fn level_is_logic(function: &str) -> bool {
    matches!(function, "_&&_" | "_||_")
}

/// Marks that a syntax error was reported and reading ends.
pub(crate) struct Stop;
pub(crate) type Parsed<T> = Result<T, Stop>;

/// The tree and how many ids it uses, or nothing when a problem was reported.
pub(crate) fn parse(text: &str, report: &mut Report<'_>) -> Option<(Expr, usize)> {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() > MAX_CODE_POINTS {
        let size = chars.len();
        report.whole(format!("expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}"));
        return None;
    }
    let tokens = token::tokens(&chars, report);
    let mut parser = Parser { chars: &chars, tokens, at: 0, nesting: 0, ids: 0, around: Vec::new(), report };
    let expr = parser.start().ok()?;
    let ids = parser.ids;
    report.is_empty().then_some((expr, ids))
}

pub(crate) struct Parser<'t, 'r, 's> {
    chars: &'t [char],
    tokens: Vec<Token>,
    at: usize,
    nesting: u16,
    ids: usize,
    /// What surrounds the expression being read, outermost first.
    pub(crate) around: Vec<Enclosing>,
    pub(crate) report: &'r mut Report<'s>,
}

impl Parser<'_, '_, '_> {
    fn start(&mut self) -> Parsed<Expr> {
        let expr = self.expr()?;
        if self.token().kind != T::End {
            let word = if self.ahead(1).kind == T::End { "extraneous" } else { "mismatched" };
            return self.unexpected(word, "<EOF>");
        }
        Ok(expr)
    }

    // === tokens ===

    pub(crate) fn token(&self) -> Token {
        self.ahead(0)
    }

    pub(crate) fn ahead(&self, count: usize) -> Token {
        // The last token is the end, and nothing moves past it.
        self.tokens[(self.at + count).min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token {
        let token = self.token();
        self.at += 1;
        token
    }

    /// The text from the start of one token to the end of another, with what is between them.
    pub(crate) fn span(&self, first: Token, last: Token) -> String {
        self.chars[first.start as usize..last.end as usize].iter().collect()
    }

    fn is(&self, sign: &'static str) -> bool {
        self.token().kind == T::Sign(sign)
    }

    pub(crate) fn eat(&mut self, sign: &'static str) -> Option<Token> {
        self.is(sign).then(|| self.next())
    }

    pub(crate) fn text(&self, token: Token) -> String {
        if token.kind == T::End {
            return "<EOF>".to_owned();
        }
        self.chars[token.start as usize..token.end as usize].iter().collect()
    }

    // === nodes ===

    pub(crate) fn node(&mut self, offset: u32, kind: ExprKind) -> Expr {
        let id = self.ids;
        self.ids += 1;
        Expr { id, offset, depth: depth_of(&kind), expanded: expanded_of(&kind), kind }
    }

    /// A node whose depth counts against the limit.
    fn deeper(&mut self, offset: u32, kind: ExprKind) -> Parsed<Expr> {
        let mut expr = self.node(offset, kind);
        expr.depth += 1;
        if expr.depth > MAX_DEPTH || expr.expanded > MAX_EXPANDED_DEPTH {
            self.report.whole("max recursion depth exceeded");
            return Err(Stop);
        }
        Ok(expr)
    }

    pub(crate) fn call(&mut self, offset: u32, function: &str, args: Vec<Expr>) -> Expr {
        self.node(offset, ExprKind::Call { function: function.to_owned(), target: None, args })
    }

    /// A copy with ids of its own.
    pub(crate) fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        expr.id = self.ids;
        self.ids += 1;
        match &mut expr.kind {
            ExprKind::Broken | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => self.renumber(operand),
            ExprKind::Call { target, args, .. } => {
                target.iter_mut().map(|t| &mut **t).chain(args).for_each(|e| self.renumber(e))
            }
            ExprKind::List { items, .. } => items.iter_mut().for_each(|item| self.renumber(item)),
            ExprKind::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key);
                    self.renumber(&mut entry.value);
                }
            }
            ExprKind::Message { fields, .. } => fields.iter_mut().for_each(|(_, value)| self.renumber(value)),
            ExprKind::Fold(fold) => {
                for part in [&mut fold.range, &mut fold.init, &mut fold.condition, &mut fold.step, &mut fold.result] {
                    self.renumber(part);
                }
            }
        }
    }

    fn broken(&mut self, offset: u32, message: impl Into<String>) -> Expr {
        self.report.at(offset, message);
        self.node(offset, ExprKind::Broken)
    }

    // === grammar ===

    fn expr(&mut self) -> Parsed<Expr> {
        self.nesting += 1;
        if self.nesting > MAX_DEPTH {
            self.report.whole(format!("expression recursion limit exceeded: {MAX_DEPTH}"));
            return Err(Stop);
        }
        let condition = self.binary(0)?;
        let expr = match self.eat("?") {
            Some(op) => self.choice(op, condition),
            None => Ok(condition),
        };
        self.nesting -= 1;
        expr
    }

    fn choice(&mut self, op: Token, condition: Expr) -> Parsed<Expr> {
        self.around.push(Enclosing::Choice);
        let yes = self.binary(0)?;
        self.around.pop();
        self.colon()?;
        let no = self.expr()?;
        let kind = ExprKind::Call { function: "_?_:_".to_owned(), target: None, args: vec![condition, yes, no] };
        self.deeper(op.start, kind)
    }

    /// Operators from this level of [`LEVELS`] up; all are read from the left.
    fn binary(&mut self, lowest: usize) -> Parsed<Expr> {
        let mut left = self.unary()?;
        while let Some((level, function)) = self.operator().filter(|(level, _)| *level >= lowest) {
            let op = self.next();
            let right = self.binary(level + 1)?;
            left = self.combined(op, function, left, right)?;
        }
        Ok(left)
    }

    /// The binary operator that comes next: how tightly it binds, and its function.
    fn operator(&self) -> Option<(usize, &'static str)> {
        let T::Sign(sign) = self.token().kind else { return None };
        LEVELS.iter().enumerate().find_map(|(level, operators)| {
            operators.iter().find(|(operator, _)| *operator == sign).map(|(_, function)| (level, *function))
        })
    }

    fn combined(&mut self, op: Token, function: &'static str, left: Expr, right: Expr) -> Parsed<Expr> {
        if level_is_logic(function) {
            return Ok(self.joined(op, function, left, right));
        }
        self.deeper(op.start, ExprKind::Call { function: function.to_owned(), target: None, args: vec![left, right] })
    }

    /// Terms of `&&` and `||` are gathered into one call: a long chain is no deep tree.
    fn joined(&mut self, op: Token, function: &'static str, mut left: Expr, right: Expr) -> Expr {
        let depth = (left.depth.max(right.depth), left.expanded.max(right.expanded + 1));
        match &mut left.kind {
            ExprKind::Call { function: before, args, .. } if before == function => {
                args.push(right);
                (left.depth, left.expanded) = depth;
                left
            }
            _ => self.call(op.start, function, vec![left, right]),
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let (sign, function) = match self.token().kind {
            T::Sign("!") => ("!", "!_"),
            // One minus before a number belongs to the number.
            T::Sign("-") if !matches!(self.ahead(1).kind, T::Int | T::Double) => ("-", "-_"),
            _ => return self.member(),
        };
        let first = self.next();
        let mut count = 1;
        while self.eat(sign).is_some() {
            count += 1;
        }
        if !syntax_error::starts_operand(self.token().kind) {
            return self.no_operand_after(first);
        }
        let operand = self.member()?;
        if count % 2 == 0 { Ok(operand) } else { Ok(self.call(first.start, function, vec![operand])) }
    }

    fn member(&mut self) -> Parsed<Expr> {
        let mut expr = self.primary()?;
        loop {
            if let Some(dot) = self.eat(".") {
                expr = self.select(expr, dot)?;
            } else if let Some(open) = self.eat("[") {
                let optional = self.eat("?").is_some();
                if !optional {
                    self.operand_or(&["?"])?;
                }
                let index = self.within(Enclosing::Index)?;
                self.close("]", &["]"])?;
                let function = if optional { "_[?_]" } else { "_[_]" };
                let kind = ExprKind::Call { function: function.to_owned(), target: None, args: vec![expr, index] };
                expr = self.deeper(open.start, kind)?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn select(&mut self, operand: Expr, dot: Token) -> Parsed<Expr> {
        let optional = self.eat("?").is_some();
        let name = self.token();
        let field = match name.kind {
            T::Ident => self.text(name),
            T::Quoted => self.text(name).trim_matches('`').to_owned(),
            _ => return self.no_field(dot, optional),
        };
        self.next();
        if optional {
            let literal = self.node(name.start, ExprKind::Literal(Val::string(field)));
            return self.deeper(
                dot.start,
                ExprKind::Call { function: "_?._".to_owned(), target: None, args: vec![operand, literal] },
            );
        }
        if name.kind == T::Ident
            && let Some(open) = self.eat("(")
        {
            let args = self.arguments()?;
            let expr = self.expand(open.start, &field, Some(operand), args)?;
            return self.counted(expr);
        }
        self.deeper(dot.start, ExprKind::Select { operand: Box::new(operand), field, test: false })
    }

    /// Counts a node the macros made like one that was written.
    fn counted(&mut self, mut expr: Expr) -> Parsed<Expr> {
        expr.depth += 1;
        if expr.depth > MAX_DEPTH || expr.expanded > MAX_EXPANDED_DEPTH {
            self.report.whole("max recursion depth exceeded");
            return Err(Stop);
        }
        Ok(expr)
    }

    /// A call or what the macro of that name makes of it.
    fn expand(&mut self, offset: u32, name: &str, target: Option<Expr>, args: Vec<Expr>) -> Parsed<Expr> {
        let receiver = target.is_some();
        match crate::macros::find(name, args.len(), receiver) {
            None => {
                let target = target.map(Box::new);
                Ok(self.node(offset, ExprKind::Call { function: name.to_owned(), target, args }))
            }
            Some(make) => match make(self, offset, target, args) {
                Ok(expr) => self.counted(expr).map(|mut expr| {
                    expr.depth -= 1;
                    expr
                }),
                Err((at, message)) => Ok(self.broken(at, message)),
            },
        }
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        if self.eat(")").is_some() {
            return Ok(Vec::new());
        }
        self.operand_or(&[")"])?;
        let mut args = vec![self.within(Enclosing::Arguments)?];
        while self.eat(",").is_some() {
            args.push(self.within(Enclosing::Arguments)?);
        }
        self.close(")", &[")"])?;
        Ok(args)
    }

    fn within(&mut self, around: Enclosing) -> Parsed<Expr> {
        self.around.push(around);
        let expr = self.expr()?;
        self.around.pop();
        Ok(expr)
    }
}

fn parts(kind: &ExprKind) -> Vec<&Expr> {
    match kind {
        ExprKind::Broken | ExprKind::Literal(_) | ExprKind::Ident(_) => Vec::new(),
        ExprKind::Select { operand, .. } => vec![operand],
        ExprKind::Call { target, args, .. } => target.iter().map(|t| &**t).chain(args).collect(),
        ExprKind::List { items, .. } => items.iter().collect(),
        ExprKind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
        ExprKind::Message { fields, .. } => fields.iter().map(|(_, value)| value).collect(),
        ExprKind::Fold(fold) => vec![&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result],
    }
}

fn depth_of(kind: &ExprKind) -> u16 {
    parts(kind).into_iter().map(|part| part.depth).max().unwrap_or(0)
}

fn expanded_of(kind: &ExprKind) -> u16 {
    parts(kind).into_iter().map(|part| part.expanded).max().unwrap_or(0) + 1
}
