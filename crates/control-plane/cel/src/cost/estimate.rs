//! Cost estimates of expressions: the most one can cost, from the sizes its data can have. They decide whether a rule
//! is accepted.

use std::collections::HashMap;

use super::call::{Argument, estimate_call};
pub use super::range::CostRange;
use super::range::SizeRange;
use super::{LIST_COST, MAP_COST};
use crate::ast::{ACCU, Expr, ExprKind, Fold};
use crate::check::Checked;
use crate::decl::{Decl, DeclKind};
use crate::types::Type;
use crate::value::Val;

/// The most a rule may cost at most, times how often it may be evaluated.
pub const MAX_RULE_COST: u64 = 10_000_000;
/// The most all rules of a CustomResourceDefinition may cost together.
pub const MAX_DEFINITION_COST: u64 = 100_000_000;

/// The error message for a cost over its limit; nothing when it is within. `what` is what costs so much, such as
/// `estimated rule cost`.
pub fn cost_problem(what: &str, cost: u64, limit: u64) -> Option<String> {
    if cost <= limit {
        return None;
    }
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // One digit would read as "by factor of 1.0x".
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    Some(format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    ))
}

/// How large the variables of an expression can be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sizes<'d> {
    root: Option<&'d Decl>,
}

impl<'d> Sizes<'d> {
    /// Nothing is known.
    pub fn unknown() -> Self {
        Sizes::default()
    }

    /// All variables have this declaration, as `self` and `oldSelf` do.
    pub fn of(root: &'d Decl) -> Self {
        Sizes { root: Some(root) }
    }

    /// The size of what a path from a variable leads to.
    pub(super) fn at(&self, path: &[String]) -> Option<SizeRange> {
        let (_, steps) = path.split_first()?;
        let mut current = self.root?;
        for (index, step) in steps.iter().enumerate() {
            current = match (step.as_str(), current.kind()) {
                ("@items" | "@values", DeclKind::List { items, .. }) => items,
                ("@items" | "@values", DeclKind::Map(values)) => values,
                // The size of a key is not bounded by a schema, and counts as nothing.
                ("@keys", DeclKind::Map(_)) if index + 1 == steps.len() => return Some(SizeRange::ZERO),
                (field, DeclKind::Object(object)) => &object.field(field)?.decl,
                _ => return None,
            };
        }
        Some(SizeRange { min: 0, max: current.max_elements() })
    }
}

pub(crate) fn estimate(checked: &Checked, sizes: &Sizes<'_>) -> CostRange {
    let mut estimator = Estimator {
        checked,
        sizes,
        paths: HashMap::new(),
        computed: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(&checked.expr)
}

/// The sizes of what a list or map holds.
#[derive(Debug, Clone, Copy)]
struct EntrySize {
    list: bool,
    key: SizeRange,
    value: SizeRange,
}

struct Local {
    name: String,
    path: Vec<String>,
    size: Option<SizeRange>,
    entries: Option<EntrySize>,
}

struct Estimator<'c, 's> {
    checked: &'c Checked,
    sizes: &'s Sizes<'s>,
    /// Where in the data a node's value comes from.
    paths: HashMap<usize, Vec<String>>,
    computed: HashMap<usize, SizeRange>,
    entries: HashMap<usize, EntrySize>,
    locals: Vec<Local>,
}

impl Estimator<'_, '_> {
    fn cost(&mut self, expr: &Expr) -> CostRange {
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Broken | ExprKind::Message { .. } => CostRange::ZERO,
            ExprKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                self.paths.insert(expr.id, path);
                CostRange::ONE
            }
            ExprKind::Select { operand, test: true, .. } => self.cost(operand),
            ExprKind::Select { operand, field, test: false } => {
                let mut sum = self.cost(operand);
                if matches!(self.checked.ty(operand), Type::Map(_) | Type::Object(_) | Type::Library(_)) {
                    sum = sum.add(CostRange::ONE);
                }
                let path = extended(self.path(operand), field);
                self.paths.insert(expr.id, path);
                sum
            }
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::List { items, .. } => {
                let mut sum = CostRange::ZERO;
                let mut value = if items.is_empty() { SizeRange::ZERO } else { SizeRange::NONE };
                for item in items {
                    sum = sum.add(self.cost(item));
                    value = value.union(self.size_or_unknown(item));
                }
                self.entries.insert(expr.id, EntrySize { list: true, key: SizeRange::ONE, value });
                sum.add(CostRange::fixed(LIST_COST))
            }
            ExprKind::Map(entries) => {
                let mut sum = CostRange::ZERO;
                let start = if entries.is_empty() { SizeRange::ZERO } else { SizeRange::NONE };
                let (mut key, mut value) = (start, start);
                for entry in entries {
                    sum = sum.add(self.cost(&entry.key)).add(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, EntrySize { list: false, key, value });
                sum.add(CostRange::fixed(MAP_COST))
            }
            ExprKind::Fold(fold) if fold.is_bind() => self.bind(expr, fold),
            ExprKind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> CostRange {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(arg);
            self.copy_sizes(expr, arg);
            return cost.add(CostRange::ONE);
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut parts = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            parts.push(self.part(arg));
        }
        let overloads = self.checked.overloads(expr);
        if overloads.is_empty() {
            return CostRange::ZERO;
        }
        let mut sum = CostRange::ZERO;
        let receiver = target.map(|target| {
            sum = self.cost(target);
            self.part(target)
        });
        let mut range = CostRange::NONE;
        let mut result: Option<SizeRange> = None;
        for overload in overloads {
            let (cost, size) = self.overload(expr, function, overload, receiver.as_ref(), args, &parts, &costs);
            range = range.union(cost);
            result = match (result, size) {
                (Some(before), Some(size)) => Some(before.union(size)),
                (before, size) => before.or(size),
            };
            match (*overload, args.first()) {
                ("index_list", Some(list)) => {
                    result = self.entry_size(list).map(|entry| entry.value);
                    self.paths.insert(expr.id, extended(self.path(list), "@items"));
                }
                ("index_map", Some(map)) => {
                    result = self.entry_size(map).map(|entry| entry.value);
                    self.paths.insert(expr.id, extended(self.path(map), "@values"));
                }
                _ => {}
            }
            if result.is_none() {
                result = self.size(expr);
            }
        }
        if let Some(size) = result {
            self.computed.insert(expr.id, size);
        }
        sum.add(range)
    }

    /// The cost of a call of one overload, arguments included, and the size of its result.
    #[allow(clippy::too_many_arguments)]
    fn overload(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Argument>,
        args: &[Expr],
        parts: &[Argument],
        costs: &[CostRange],
    ) -> (CostRange, Option<SizeRange>) {
        let all = costs.iter().fold(CostRange::ZERO, |sum, cost| sum.add(*cost));
        match (overload, costs) {
            // Only the first term is sure to be evaluated.
            ("logical_and" | "logical_or", [first, ..]) => (CostRange { min: first.min, max: all.max }, None),
            ("conditional", [condition, yes, no]) => {
                let size = parts[1].size_or_unknown().union(parts[2].size_or_unknown());
                if let (Some(yes), Some(no)) = (self.entry_size(&args[1]), self.entry_size(&args[2])) {
                    self.entries.insert(expr.id, joined(yes, no));
                }
                (condition.add(yes.union(*no)), Some(size))
            }
            _ => {
                if let ("add_string" | "add_bytes" | "add_list", [one, two]) = (overload, args)
                    && let (Some(one), Some(two)) = (self.entry_size(one), self.entry_size(two))
                {
                    self.entries.insert(expr.id, joined(one, two));
                }
                let (cost, size) = estimate_call(self.sizes, function, overload, target, parts);
                (cost.add(all), size)
            }
        }
    }

    fn bind(&mut self, expr: &Expr, fold: &Fold) -> CostRange {
        let mut sum = self.cost(&fold.range);
        sum = sum.add(self.cost(&fold.init));
        self.push_value(&fold.accu, &fold.init);
        sum = sum.add(self.cost(&fold.result));
        self.locals.pop();
        self.copy_sizes(expr, &fold.result);
        sum
    }

    fn fold(&mut self, expr: &Expr, fold: &Fold) -> CostRange {
        let mut sum = self.cost(&fold.range).add(self.cost(&fold.init));
        self.push_value(&fold.accu, &fold.init);
        let outer = self.locals.len();
        let entries = self.entry_size(&fold.range);
        let list = entries.map_or(matches!(self.checked.ty(&fold.range), Type::List(_)), |entries| entries.list);
        let path = self.path(&fold.range);
        let locals = &mut self.locals;
        let mut push = |name: &str, step: &str, size: Option<SizeRange>| {
            let path = extended(path.clone(), step);
            locals.push(Local { name: name.to_owned(), path, size, entries: None });
        };
        let (key, value) = (entries.map(|entries| entries.key), entries.map(|entries| entries.value));
        match &fold.var2 {
            None if list => push(&fold.var, "@items", value),
            None => push(&fold.var, "@keys", key),
            Some(second) => {
                let step = if list { "@items" } else { "@values" };
                // Compat: upstream adds both last steps to one growing array, and where that has room the second
                // replaces the first. Which rules a server accepts depends on it.
                let shared = !path.is_empty() && !path.len().is_power_of_two();
                let first = if list { "@indices" } else { "@keys" };
                push(&fold.var, if shared { step } else { first }, key);
                push(second, step, value);
            }
        }
        let loop_cost = self.cost(&fold.condition);
        let step = self.cost(&fold.step);
        self.locals.truncate(outer);
        sum = sum.add(self.cost(&fold.result));
        self.locals.pop();
        let count = self.size_or_unknown(&fold.range);
        sum = sum.add(count.times(step.add(loop_cost)));
        match &fold.init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.computed.insert(expr.id, size);
                }
            }
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.computed.insert(expr.id, count);
                if let Some(entries) = self.entry_size(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    fn push_value(&mut self, name: &str, value: &Expr) {
        let (path, size, entries) = (self.path(value), self.size(value), self.entry_size(value));
        self.locals.push(Local { name: name.to_owned(), path, size, entries });
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expr: &Expr) -> Vec<String> {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn part(&mut self, expr: &Expr) -> Argument {
        let mut path = self.path(expr);
        if path.first().is_some_and(|name| name == ACCU) {
            path.clear();
        }
        let literal = match &expr.kind {
            ExprKind::Literal(Val::Int(value)) => Some(*value),
            _ => None,
        };
        Argument { path, ty: self.checked.ty(expr).clone(), literal, size: self.size(expr) }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> SizeRange {
        self.size(expr).unwrap_or(SizeRange::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<SizeRange> {
        if let Some(size) = self.computed.get(&expr.id) {
            return Some(*size);
        }
        match &expr.kind {
            ExprKind::Literal(value) => return Some(SizeRange::fixed(value.size())),
            ExprKind::List { items, .. } => return Some(SizeRange::fixed(items.len() as u64)),
            ExprKind::Map(entries) => return Some(SizeRange::fixed(entries.len() as u64)),
            _ => {}
        }
        if let Some(size) = self.sizes.at(&self.path(expr)) {
            self.computed.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.ty(expr)) {
            return Some(SizeRange::ONE);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn entry_size(&self, expr: &Expr) -> Option<EntrySize> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.computed.insert(to.id, size);
        }
        if let Some(entries) = self.entry_size(from) {
            self.entries.insert(to.id, entries);
        }
    }
}

fn extended(mut path: Vec<String>, step: &str) -> Vec<String> {
    path.push(step.to_owned());
    path
}

fn joined(one: EntrySize, two: EntrySize) -> EntrySize {
    EntrySize { list: one.list, key: one.key.union(two.key), value: one.value.union(two.value) }
}

/// Whether values of a type all have the same size.
fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(of) => is_scalar(of),
        _ => false,
    }
}
