//! Macros: calls that are rewritten into comprehensions while an expression is parsed.

use crate::ast::{ACCU, Expr, ExprKind, Fold, UNUSED};
use crate::parse::Parser;
use crate::value::Val;

/// Where and why the arguments do not fit the macro.
type StaticMacroError = (u32, &'static str);
type Expander = fn(&mut Parser<'_, '_, '_>, u32, Option<Expr>, Vec<Expr>) -> Result<Expr, MacroError>;
type MacroError = (u32, String);

/// The macro for a call of this shape.
pub(crate) fn find(name: &str, args: usize, receiver: bool) -> Option<Expander> {
    let make: Expander = match (name, args, receiver) {
        ("has", 1, false) => has,
        ("all", 2 | 3, true) => |p, at, target, args| quantifier(p, at, target, args, Quantifier::All),
        ("exists", 2 | 3, true) => |p, at, target, args| quantifier(p, at, target, args, Quantifier::Exists),
        // With one variable only the old spelling is known.
        ("exists_one", 2 | 3, true) | ("existsOne", 3, true) => {
            |p, at, target, args| quantifier(p, at, target, args, Quantifier::One)
        }
        ("map", 2 | 3, true) => map,
        ("filter", 2, true) => filter,
        ("transformList", 3 | 4, true) => transform_list,
        ("transformMap", 3 | 4, true) => transform_map,
        ("transformMapEntry", 3 | 4, true) => transform_map_entry,
        ("optMap", 2, true) => |p, at, target, args| opt_map(p, at, target, args, false),
        ("optFlatMap", 2, true) => |p, at, target, args| opt_map(p, at, target, args, true),
        ("sortBy", 2, true) => sort_by,
        _ => return None,
    };
    Some(make)
}

enum Quantifier {
    All,
    Exists,
    One,
}

fn refuse<T>(refusal: StaticMacroError) -> Result<T, MacroError> {
    Err((refusal.0, refusal.1.to_owned()))
}

fn name_of(arg: &Expr, problem: &'static str) -> Result<String, MacroError> {
    match &arg.kind {
        ExprKind::Ident(name) if name == ACCU || name == "__result__" => {
            refuse((arg.offset, "iteration variable overwrites accumulator variable"))
        }
        ExprKind::Ident(name) => Ok(name.clone()),
        _ => refuse((arg.offset, problem)),
    }
}

fn two_names(first: &Expr, second: &Expr) -> Result<(String, String), MacroError> {
    const PROBLEM: &str = "argument must be a simple name";
    let ident = |arg: &Expr| match &arg.kind {
        ExprKind::Ident(name) => Ok(name.clone()),
        _ => refuse((arg.offset, PROBLEM)),
    };
    let (one, two) = (ident(first)?, ident(second)?);
    if one == two {
        return Err((second.offset, format!("duplicate variable name: {one}")));
    }
    name_of(first, PROBLEM)?;
    name_of(second, PROBLEM)?;
    Ok((one, two))
}

/// Builds the nodes of expanded macros, at the offset of the call.
struct NodeBuilder<'p, 't, 'r, 's> {
    parser: &'p mut Parser<'t, 'r, 's>,
    at: u32,
}

impl NodeBuilder<'_, '_, '_, '_> {
    fn ident(&mut self, name: &str) -> Expr {
        self.parser.node(self.at, ExprKind::Ident(name.to_owned()))
    }

    fn accu(&mut self) -> Expr {
        self.ident(ACCU)
    }

    fn literal(&mut self, value: Val<'static>) -> Expr {
        self.parser.node(self.at, ExprKind::Literal(value))
    }

    fn list(&mut self, items: Vec<Expr>) -> Expr {
        let optional = vec![false; items.len()];
        self.parser.node(self.at, ExprKind::List { items, optional })
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.parser.call(self.at, function, args)
    }

    fn member(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let target = Some(Box::new(target));
        self.parser.node(self.at, ExprKind::Call { function: function.to_owned(), target, args })
    }

    fn fold(&mut self, fold: Fold) -> Expr {
        self.parser.node(self.at, ExprKind::Fold(Box::new(fold)))
    }

    /// Binds `name` to `value` inside `body`.
    fn bind(&mut self, name: &str, value: Expr, body: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Val::Bool(false));
        let step = self.ident(name);
        let (var, accu) = (UNUSED.to_owned(), name.to_owned());
        self.fold(Fold { range, var, var2: None, accu, init: value, condition, step, result: body })
    }

    /// `step` where the filter holds, the accumulator elsewhere.
    fn filtered(&mut self, filter: Option<Expr>, step: Expr) -> Expr {
        match filter {
            None => step,
            Some(filter) => {
                let accu = self.accu();
                self.call("_?_:_", vec![filter, step, accu])
            }
        }
    }

    fn gather(&mut self, range: Expr, var: String, var2: Option<String>, init: Expr, step: Expr) -> Expr {
        let condition = self.literal(Val::Bool(true));
        let result = self.accu();
        self.fold(Fold { range, var, var2, accu: ACCU.to_owned(), init, condition, step, result })
    }
}

/// The receiver of a macro `find` only gives out for receivers.
fn receiver(target: Option<Expr>, at: u32) -> Result<Expr, MacroError> {
    target.ok_or_else(|| (at, "macro needs a receiver".to_owned()))
}

fn has(parser: &mut Parser<'_, '_, '_>, at: u32, _: Option<Expr>, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
    let Some(arg) = args.pop() else { return refuse((at, "invalid argument to has() macro")) };
    match arg.kind {
        ExprKind::Select { operand, field, .. } => Ok(parser.node(at, ExprKind::Select { operand, field, test: true })),
        _ => refuse((arg.offset, "invalid argument to has() macro")),
    }
}

fn quantifier(
    parser: &mut Parser<'_, '_, '_>,
    at: u32,
    target: Option<Expr>,
    mut args: Vec<Expr>,
    kind: Quantifier,
) -> Result<Expr, MacroError> {
    let range = receiver(target, at)?;
    let (var, var2) = if args.len() == 3 {
        let (one, two) = two_names(&args[0], &args[1])?;
        (one, Some(two))
    } else {
        (name_of(&args[0], "argument must be a simple name")?, None)
    };
    let Some(predicate) = args.pop() else { return refuse((at, "macro needs a predicate")) };
    let mut make = NodeBuilder { parser, at };
    let (init, condition, step, result);
    match kind {
        Quantifier::All => {
            init = make.literal(Val::Bool(true));
            let accu = make.accu();
            condition = make.call("@not_strictly_false", vec![accu]);
            let accu = make.accu();
            step = make.call("_&&_", vec![accu, predicate]);
            result = make.accu();
        }
        Quantifier::Exists => {
            init = make.literal(Val::Bool(false));
            let accu = make.accu();
            let not = make.call("!_", vec![accu]);
            condition = make.call("@not_strictly_false", vec![not]);
            let accu = make.accu();
            step = make.call("_||_", vec![accu, predicate]);
            result = make.accu();
        }
        Quantifier::One => {
            init = make.literal(Val::Int(0));
            condition = make.literal(Val::Bool(true));
            let (accu, one) = (make.accu(), make.literal(Val::Int(1)));
            let more = make.call("_+_", vec![accu, one]);
            step = make.filtered(Some(predicate), more);
            let (accu, one) = (make.accu(), make.literal(Val::Int(1)));
            result = make.call("_==_", vec![accu, one]);
        }
    }
    Ok(make.fold(Fold { range, var, var2, accu: ACCU.to_owned(), init, condition, step, result }))
}

fn map(parser: &mut Parser<'_, '_, '_>, at: u32, target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, MacroError> {
    let range = receiver(target, at)?;
    let mut args = args.into_iter();
    let var = match args.next() {
        Some(arg) => name_of(&arg, "argument is not an identifier")?,
        None => return refuse((at, "argument is not an identifier")),
    };
    let mut rest: Vec<Expr> = args.collect();
    let Some(transform) = rest.pop() else { return refuse((at, "map() needs an expression")) };
    let mut make = NodeBuilder { parser, at };
    let init = make.list(Vec::new());
    let (accu, item) = (make.accu(), make.list(vec![transform]));
    let step = make.call("_+_", vec![accu, item]);
    let step = make.filtered(rest.pop(), step);
    Ok(make.gather(range, var, None, init, step))
}

fn filter(parser: &mut Parser<'_, '_, '_>, at: u32, target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, MacroError> {
    let range = receiver(target, at)?;
    let mut args = args.into_iter();
    let (Some(item), Some(predicate)) = (args.next(), args.next()) else {
        return refuse((at, "filter() needs a variable and a predicate"));
    };
    let var = name_of(&item, "argument is not an identifier")?;
    let mut make = NodeBuilder { parser, at };
    let init = make.list(Vec::new());
    let (accu, item) = (make.accu(), make.list(vec![item]));
    let step = make.call("_+_", vec![accu, item]);
    let step = make.filtered(Some(predicate), step);
    Ok(make.gather(range, var, None, init, step))
}

/// The two variables, the filter if there is one, and the transformation.
fn transform_parts(at: u32, args: Vec<Expr>) -> Result<(String, String, Option<Expr>, Expr), MacroError> {
    let (one, two) = two_names(&args[0], &args[1])?;
    let mut rest: Vec<Expr> = args.into_iter().skip(2).collect();
    match rest.pop() {
        Some(transform) => Ok((one, two, rest.pop(), transform)),
        None => refuse((at, "macro needs an expression")),
    }
}

fn transform_list(
    parser: &mut Parser<'_, '_, '_>,
    at: u32,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    let range = receiver(target, at)?;
    let (var, var2, filter, transform) = transform_parts(at, args)?;
    let mut make = NodeBuilder { parser, at };
    let (accu, item) = (make.accu(), make.list(vec![transform]));
    let step = make.call("_+_", vec![accu, item]);
    let step = make.filtered(filter, step);
    let init = make.list(Vec::new());
    Ok(make.gather(range, var, Some(var2), init, step))
}

fn transform_map(
    parser: &mut Parser<'_, '_, '_>,
    at: u32,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    let range = receiver(target, at)?;
    let (var, var2, filter, transform) = transform_parts(at, args)?;
    let mut make = NodeBuilder { parser, at };
    let (accu, key) = (make.accu(), make.ident(&var));
    let step = make.call("cel.@mapInsert", vec![accu, key, transform]);
    let step = make.filtered(filter, step);
    let init = make.parser.node(at, ExprKind::Map(Vec::new()));
    Ok(make.gather(range, var, Some(var2), init, step))
}

fn transform_map_entry(
    parser: &mut Parser<'_, '_, '_>,
    at: u32,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    let range = receiver(target, at)?;
    let (var, var2, filter, transform) = transform_parts(at, args)?;
    let mut make = NodeBuilder { parser, at };
    let accu = make.accu();
    let step = make.call("cel.@mapInsert", vec![accu, transform]);
    let step = make.filtered(filter, step);
    let init = make.parser.node(at, ExprKind::Map(Vec::new()));
    Ok(make.gather(range, var, Some(var2), init, step))
}

fn opt_map(
    parser: &mut Parser<'_, '_, '_>,
    at: u32,
    target: Option<Expr>,
    args: Vec<Expr>,
    flat: bool,
) -> Result<Expr, MacroError> {
    let target = receiver(target, at)?;
    let mut args = args.into_iter();
    let (Some(var), Some(body)) = (args.next(), args.next()) else {
        return refuse((at, "macro needs a variable and an expression"));
    };
    let ExprKind::Ident(name) = &var.kind else {
        let macro_name = if flat { "optFlatMap" } else { "optMap" };
        return Err((var.offset, format!("{macro_name}() variable name must be a simple identifier")));
    };
    let copy = parser.copy(&target);
    let mut make = NodeBuilder { parser, at };
    let present = make.member("hasValue", target, Vec::new());
    let value = make.member("value", copy, Vec::new());
    let bound = make.bind(name, value, body);
    let some = if flat { bound } else { make.call("optional.of", vec![bound]) };
    let none = make.call("optional.none", Vec::new());
    Ok(make.call("_?_:_", vec![present, some, none]))
}

fn sort_by(
    parser: &mut Parser<'_, '_, '_>,
    at: u32,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    const INPUT: &str = "@__sortBy_input__";
    let target = receiver(target, at)?;
    if !matches!(
        target.kind,
        ExprKind::List { .. }
            | ExprKind::Select { .. }
            | ExprKind::Ident(_)
            | ExprKind::Fold(_)
            | ExprKind::Call { .. }
            | ExprKind::Broken
    ) {
        return refuse((
            target.offset,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        ));
    }
    let input = NodeBuilder { parser, at }.ident(INPUT);
    let keys = map(parser, at, Some(input), args)?;
    let mut make = NodeBuilder { parser, at };
    let input = make.ident(INPUT);
    let sorted = make.member("@sortByAssociatedKeys", input, vec![keys]);
    Ok(make.bind(INPUT, target, sorted))
}
