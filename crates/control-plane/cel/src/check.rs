//! Type checker: gives every part of an expression a type and every call its overloads, or reports problems.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Expr, ExprKind, Fold};
use crate::env::Env;
use crate::error::Report;
use crate::functions::Overload;
use crate::types::{Substitution, Type, more_general};
use crate::value::Val;

/// An expression with what the checker found, by node id.
#[derive(Debug)]
pub(crate) struct Checked {
    pub expr: Expr,
    pub types: Vec<Type>,
    pub overloads: Vec<Vec<&'static str>>,
    /// Idents that are the name of a type, and which.
    pub type_names: HashMap<usize, String>,
}

impl Checked {
    pub(crate) fn ty(&self, expr: &Expr) -> &Type {
        &self.types[expr.id]
    }

    pub(crate) fn overloads(&self, expr: &Expr) -> &[&'static str] {
        &self.overloads[expr.id]
    }
}

/// Checks the expression; problems go to the report.
pub(crate) fn check(env: &Env, mut expr: Expr, ids: usize, report: &mut Report<'_>) -> Checked {
    let mut checker = Checker {
        env,
        report,
        substitution: Substitution::default(),
        types: vec![Type::Error; ids],
        overloads: vec![Vec::new(); ids],
        type_names: HashMap::new(),
        scopes: Vec::new(),
    };
    checker.expr(&mut expr);
    let types = checker.types.iter().map(|ty| checker.substitution.resolve(ty, true)).collect();
    Checked { types, overloads: checker.overloads, type_names: checker.type_names, expr }
}

struct Checker<'e, 'r, 's> {
    env: &'e Env,
    report: &'r mut Report<'s>,
    substitution: Substitution,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    type_names: HashMap<usize, String>,
    /// Variables of the comprehensions around, innermost last.
    scopes: Vec<(String, Type)>,
}

impl Checker<'_, '_, '_> {
    fn set(&mut self, expr: &Expr, ty: Type) {
        self.types[expr.id] = ty;
    }

    fn ty(&self, expr: &Expr) -> Type {
        self.types[expr.id].clone()
    }

    fn expr(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Broken => self.set(expr, Type::Error),
            ExprKind::Literal(value) => {
                let ty = literal_type(value);
                self.set(expr, ty);
            }
            ExprKind::Ident(_) => self.ident(expr),
            ExprKind::Select { .. } => self.select(expr),
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::List { .. } => self.list(expr),
            ExprKind::Map(_) => self.map(expr),
            ExprKind::Message { name, .. } => {
                let message = format!("undeclared reference to '{name}' (in container '')");
                self.report.at(expr.offset, message);
                self.set(expr, Type::Error);
            }
            ExprKind::Fold(_) => self.fold(expr),
        }
    }

    fn undeclared(&mut self, expr: &Expr, name: &str) {
        self.report.at(expr.offset, format!("undeclared reference to '{name}' (in container '')"));
        self.set(expr, Type::Error);
    }

    fn local(&self, name: &str) -> Option<Type> {
        self.scopes.iter().rev().find(|(local, _)| local == name).map(|(_, ty)| ty.clone())
    }

    /// The type of a name that is no local variable, noting names of types.
    fn global(&mut self, id: usize, name: &str) -> Option<Type> {
        if let Some(ty) = self.env.variable(name) {
            return Some(ty.clone());
        }
        let ty = named_type(name)?;
        self.type_names.insert(id, name.to_owned());
        Some(Type::Type(Some(Arc::new(ty))))
    }

    fn ident(&mut self, expr: &mut Expr) {
        let ExprKind::Ident(name) = &expr.kind else { return };
        let found = match name.strip_prefix('.') {
            Some(name) => self.global(expr.id, name),
            None => match self.local(name) {
                Some(ty) => Some(ty),
                None => self.global(expr.id, &name.clone()),
            },
        };
        match found {
            Some(ty) => self.set(expr, ty),
            None => self.undeclared(expr, &name.clone()),
        }
    }

    fn select(&mut self, expr: &mut Expr) {
        if let Some(name) = expr.qualified_name() {
            let first = name.split('.').next().unwrap_or(&name);
            if self.local(first).is_none()
                && let Some(ty) = self.global(expr.id, name.trim_start_matches('.'))
            {
                expr.kind = ExprKind::Ident(name);
                self.set(expr, ty);
                return;
            }
        }
        let offset = expr.offset;
        let ExprKind::Select { operand, field, test } = &mut expr.kind else { return };
        let (field, test) = (field.clone(), *test);
        let ty = self.field(operand, &field, offset, false);
        let ty = if test { Type::Bool } else { self.substitution.resolve(&ty, false) };
        self.set(expr, ty);
    }

    fn field(&mut self, operand: &mut Expr, field: &str, offset: u32, optional: bool) -> Type {
        self.expr(operand);
        let operand_type = self.substitution.resolve(&self.ty(operand), false);
        let (target, is_optional) = match &operand_type {
            Type::Optional(of) => ((**of).clone(), true),
            other => (other.clone(), false),
        };
        let ty = match &target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(object) => match object.field(field).or_else(|| object.field(&format!("__{field}__"))) {
                Some(found) => found.decl.ty(),
                None => {
                    self.report.at(offset, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Library(name) => {
                self.report.at(offset, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            Type::Var(_) => {
                self.substitution.fits(&Type::Dyn, &target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.report.at(offset, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if is_optional || optional { Type::optional(ty) } else { ty }
    }

    fn call(&mut self, expr: &mut Expr) {
        let (id, offset) = (expr.id, expr.offset);
        let ExprKind::Call { function, target, args } = &mut expr.kind else { return };
        if function == "_?._" {
            let [operand, field] = args.as_mut_slice() else { return };
            let ExprKind::Literal(Val::String(name)) = &field.kind else { return };
            let name = name.to_string();
            let ty = self.field(operand, &name, offset, true);
            self.types[field.id] = Type::String;
            self.types[id] = self.substitution.resolve(&ty, false);
            self.overloads[id] = vec!["select_optional_field"];
            return;
        }
        for arg in args.iter_mut() {
            self.expr(arg);
        }
        let Some(receiver) = target else {
            let name = function.trim_start_matches('.').to_owned();
            match self.env.function(&name) {
                Some((own, overloads)) => {
                    *function = own.to_owned();
                    self.resolve(expr, own, overloads);
                }
                None => {
                    let function = function.clone();
                    self.undeclared(expr, &function);
                }
            }
            return;
        };
        // `a.b.c(…)` calls the function `a.b.c` if there is one, else `c` on `a.b`.
        if let Some(prefix) = receiver.qualified_name()
            && let Some((own, overloads)) = self.env.function(&format!("{}.{function}", prefix.trim_start_matches('.')))
        {
            *function = own.to_owned();
            *target = None;
            self.resolve(expr, own, overloads);
            return;
        }
        self.expr(receiver);
        match self.env.function(function) {
            Some((own, overloads)) => self.resolve(expr, own, overloads),
            None => {
                let function = function.clone();
                self.undeclared(expr, &function);
            }
        }
    }

    fn resolve(&mut self, expr: &Expr, name: &'static str, overloads: &[Overload]) {
        let ExprKind::Call { target, args, .. } = &expr.kind else { return };
        let member = target.is_some();
        if matches!(name, "_&&_" | "_||_") {
            self.logic(expr, args, overloads[0].id);
            return;
        }
        let mut arg_types: Vec<Type> = target.iter().map(|target| self.ty(target)).collect();
        arg_types.extend(args.iter().map(|arg| self.ty(arg)));
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let fresh: Vec<(char, Type)> =
                overload.generics.iter().map(|name| (*name, self.substitution.fresh())).collect();
            let params: Vec<Type> = overload.params.iter().map(|param| instantiate(param, &fresh)).collect();
            if !self.substitution.all_fit(&arg_types, &params) {
                continue;
            }
            self.overloads[expr.id].push(overload.id);
            let this = self.substitution.resolve(&instantiate(&overload.result, &fresh), false);
            result = Some(match result {
                None => this,
                Some(Type::Dyn) => Type::Dyn,
                Some(first) if first.same(&this) => first,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(ty) => self.set(expr, ty),
            None => {
                let types: Vec<String> =
                    arg_types.iter().map(|ty| self.substitution.resolve(ty, true).to_string()).collect();
                let signature = match (member, types.split_first()) {
                    (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
                    _ => format!("({})", types.join(", ")),
                };
                self.report
                    .at(expr.offset, format!("found no matching overload for '{name}' applied to '{signature}'"));
                self.set(expr, Type::Error);
            }
        }
    }

    fn logic(&mut self, expr: &Expr, args: &[Expr], overload: &'static str) {
        let mut ok = true;
        for arg in args {
            let ty = self.ty(arg);
            if !self.substitution.fits(&ty, &Type::Bool) {
                self.mismatch(arg.offset, &Type::Bool, &ty);
                ok = false;
            }
        }
        self.set(expr, if ok { Type::Bool } else { Type::Error });
        if ok {
            self.overloads[expr.id] = vec![overload];
        }
    }

    fn mismatch(&mut self, offset: u32, expected: &Type, found: &Type) {
        self.report.at(offset, format!("expected type '{expected}' but found '{found}'"));
    }

    fn list(&mut self, expr: &mut Expr) {
        let ExprKind::List { items, optional } = &mut expr.kind else { return };
        let mut joined: Option<Type> = None;
        for (item, optional) in items.iter_mut().zip(optional.iter()) {
            self.expr(item);
            let ty = self.unwrapped(item, *optional);
            joined = Some(self.join(joined, ty));
        }
        let item = joined.unwrap_or_else(|| self.substitution.fresh());
        self.set(expr, Type::list(item));
    }

    /// The type of an item or entry, without the optional if it is marked as one.
    fn unwrapped(&mut self, expr: &Expr, optional: bool) -> Type {
        let ty = self.ty(expr);
        if !optional {
            return ty;
        }
        match &ty {
            Type::Optional(of) => (**of).clone(),
            Type::Dyn => ty,
            other => {
                self.mismatch(expr.offset, &Type::optional(other.clone()), other);
                ty
            }
        }
    }

    fn join(&mut self, before: Option<Type>, ty: Type) -> Type {
        let Some(before) = before else { return ty };
        if self.substitution.fits(&before, &ty) {
            return more_general(&before, &ty);
        }
        // A mixed literal is refused later, unless a function that takes such lists gets it.
        Type::Dyn
    }

    fn map(&mut self, expr: &mut Expr) {
        let ExprKind::Map(entries) = &mut expr.kind else { return };
        let (mut keys, mut values): (Option<Type>, Option<Type>) = (None, None);
        for entry in entries.iter_mut() {
            self.expr(&mut entry.key);
            let key = self.ty(&entry.key);
            keys = Some(self.join(keys, key));
            self.expr(&mut entry.value);
            let value = self.unwrapped(&entry.value, entry.optional);
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.substitution.fresh());
        let value = values.unwrap_or_else(|| self.substitution.fresh());
        self.set(expr, Type::map(key, value));
    }

    fn fold(&mut self, expr: &mut Expr) {
        let ExprKind::Fold(fold) = &mut expr.kind else { return };
        let Fold { range, var, var2, accu, init, condition, step, result } = &mut **fold;
        self.expr(range);
        self.expr(init);
        let range_type = self.substitution.resolve(&self.ty(range), false);
        let accu_type = self.ty(init);
        let (one, two) = match &range_type {
            Type::List(item) if var2.is_some() => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.substitution.fits(&Type::Dyn, &range_type);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                self.report.at(
                    range.offset,
                    format!(
                        "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                    ),
                );
                (Type::Error, Type::Error)
            }
        };
        let depth = self.scopes.len();
        self.scopes.push((accu.clone(), accu_type.clone()));
        self.scopes.push((var.clone(), one));
        if let Some(var2) = var2 {
            self.scopes.push((var2.clone(), two));
        }
        self.expr(condition);
        self.demand(condition, &Type::Bool);
        self.expr(step);
        self.demand(step, &accu_type);
        self.scopes.truncate(depth + 1);
        self.expr(result);
        self.scopes.truncate(depth);
        let ty = self.substitution.resolve(&self.ty(result), false);
        self.set(expr, ty);
    }

    fn demand(&mut self, expr: &Expr, wanted: &Type) {
        let ty = self.ty(expr);
        if !self.substitution.fits(wanted, &ty) {
            self.mismatch(expr.offset, wanted, &ty);
        }
    }
}

fn literal_type(value: &Val<'_>) -> Type {
    match value {
        Val::Null => Type::Null,
        Val::Bool(_) => Type::Bool,
        Val::Int(_) => Type::Int,
        Val::Uint(_) => Type::Uint,
        Val::Double(_) => Type::Double,
        Val::String(_) => Type::String,
        Val::Bytes(_) => Type::Bytes,
        _ => Type::Error,
    }
}

fn instantiate(ty: &Type, fresh: &[(char, Type)]) -> Type {
    match ty {
        Type::Param(name) => {
            fresh.iter().find(|(generic, _)| generic == name).map_or(Type::Error, |(_, var)| var.clone())
        }
        Type::List(of) => Type::list(instantiate(of, fresh)),
        Type::Optional(of) => Type::optional(instantiate(of, fresh)),
        Type::Type(Some(of)) => Type::Type(Some(Arc::new(instantiate(of, fresh)))),
        Type::Map(entry) => Type::map(instantiate(&entry.0, fresh), instantiate(&entry.1, fresh)),
        other => other.clone(),
    }
}

/// The type of that name, if there is one.
fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "string" => Type::String,
        "uint" => Type::Uint,
        "null_type" => Type::Null,
        "type" => Type::Type(None),
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "optional_type" => Type::optional(Type::Dyn),
        // The short names are known to the checker only; a program that uses them cannot be made.
        "google.protobuf.Timestamp" | "timestamp" => Type::Timestamp,
        "google.protobuf.Duration" | "duration" => Type::Duration,
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        _ => return None,
    })
}
