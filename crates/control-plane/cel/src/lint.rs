//! Lint: expressions that are well typed and still can never work: literals a function always refuses, lists of mixed
//! literals, formats that do not fit their arguments.

use crate::ast::{Expr, ExprKind};
use crate::check::Checked;
use crate::error::Report;
use crate::library::format;
use crate::types::Type;
use crate::value::Val;

/// Looks at a checked expression for literals that can never work.
pub(crate) fn lint(checked: &Checked, report: &mut Report<'_>) {
    // The second is whether the expression is part of the arguments of `format`, which takes mixed lists.
    let mut pending = vec![(&checked.expr, false)];
    while let Some((expr, mixed)) = pending.pop() {
        match &expr.kind {
            ExprKind::Select { operand, .. } => pending.push((operand, mixed)),
            ExprKind::Call { function, target, args } => {
                if let (Some(arg), "duration" | "timestamp" | "matches") = (args.first(), function.as_str())
                    && let ExprKind::Literal(value) = &arg.kind
                    && !literal_works(function, value)
                {
                    report.at(arg.offset, format!("invalid {function} argument"));
                }
                if let ("format", Some(target), [list]) = (function.as_str(), target, args.as_slice()) {
                    lint_format(checked, expr, target, list, report);
                }
                let mixed = mixed || function == "format";
                pending.extend(target.iter().map(|target| &**target).chain(args).map(|part| (part, mixed)));
            }
            ExprKind::List { items, optional } => {
                let mut first: Option<&Type> = None;
                for (item, optional) in items.iter().zip(optional) {
                    let ty = checked.ty(item);
                    let ty = match ty {
                        Type::Optional(of) if *optional => of,
                        ty => ty,
                    };
                    match first {
                        None => first = Some(ty),
                        Some(first) if !mixed && !first.same(ty) => {
                            report.at(item.offset, format!("expected type '{first}' but found '{ty}'"));
                            break;
                        }
                        Some(_) => {}
                    }
                }
                pending.extend(items.iter().map(|item| (item, mixed)));
            }
            ExprKind::Map(entries) => {
                let mut first: Option<(&Type, &Type)> = None;
                for entry in entries {
                    let key = checked.ty(&entry.key);
                    let value = match checked.ty(&entry.value) {
                        Type::Optional(of) if entry.optional => of,
                        ty => ty,
                    };
                    let (keys, values) = *first.get_or_insert((key, value));
                    if !mixed && !keys.same(key) {
                        report.at(entry.key.offset, format!("expected type '{keys}' but found '{key}'"));
                    }
                    if !mixed && !values.same(value) {
                        report.at(entry.value.offset, format!("expected type '{values}' but found '{value}'"));
                    }
                    pending.extend([(&entry.key, mixed), (&entry.value, mixed)]);
                }
            }
            ExprKind::Fold(fold) => {
                let parts = [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result];
                pending.extend(parts.map(|part| (part, mixed)));
            }
            ExprKind::Broken | ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Message { .. } => {}
        }
    }
}

fn literal_works(function: &str, value: &Val<'static>) -> bool {
    match (function, value) {
        ("matches", Val::String(text)) => crate::library::pattern::compile(text).is_ok(),
        ("matches", _) => true,
        _ => crate::library::find(function).is_none_or(|native| native(std::slice::from_ref(value)).is_ok()),
    }
}

/// Holds a format that is written out against arguments that are.
fn lint_format(checked: &Checked, call: &Expr, target: &Expr, list: &Expr, report: &mut Report<'_>) {
    let (ExprKind::Literal(Val::String(text)), ExprKind::List { items, .. }) = (&target.kind, &list.kind) else {
        return;
    };
    let outcome = format::drive(text, items.len(), false, |index, clause| {
        let bad = match clause.verb {
            's' => unprintable(checked, &items[index]),
            verb => (!suits(verb, checked.ty(&items[index]))).then_some(&items[index]),
        };
        match bad {
            None => Ok(String::new()),
            Some(item) => {
                let message = format::unsuitable(clause.verb, &short_name(checked.ty(item)));
                Err(format::Problem { message, at: Some(item.offset) })
            }
        }
    });
    match outcome {
        Err(problem) => report.at(problem.at.unwrap_or(call.offset), problem.message),
        Ok((_, used)) if items.len() > used => {
            let given = items.len();
            let message = format!("too many arguments supplied to string.format (expected {used}, got {given})");
            report.at(call.offset, message);
        }
        Ok(_) => {}
    }
}

fn suits(verb: char, ty: &Type) -> bool {
    matches!(
        (verb, ty),
        (_, Type::Dyn)
            | ('d' | 'o' | 'b' | 'x' | 'X', Type::Int | Type::Uint)
            | ('f' | 'e', Type::Double | Type::String)
            | ('b', Type::Bool)
            | ('x' | 'X', Type::String | Type::Bytes)
    )
}

/// The first part of an expression that has no text form.
fn unprintable<'e>(checked: &Checked, expr: &'e Expr) -> Option<&'e Expr> {
    if matches!(
        checked.ty(expr),
        Type::Object(_)
            | Type::Library(_)
            | Type::Opaque(_)
            | Type::Optional(_)
            | Type::Error
            | Type::Var(_)
            | Type::Param(_)
    ) {
        return Some(expr);
    }
    match &expr.kind {
        ExprKind::List { items, .. } => items.iter().find_map(|item| unprintable(checked, item)),
        ExprKind::Map(entries) => {
            entries.iter().flat_map(|entry| [&entry.key, &entry.value]).find_map(|part| unprintable(checked, part))
        }
        _ => None,
    }
}

/// A type's name without its parameters.
fn short_name(ty: &Type) -> String {
    let name = ty.runtime_name();
    name.split('(').next().unwrap_or(&name).to_owned()
}
