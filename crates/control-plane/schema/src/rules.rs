//! Validation rules of a schema, `x-kubernetes-validations`: compiled once, evaluated on values.
//!
//! - A rule that mentions `oldSelf` runs only where there is an old value to compare with: in fields and keys of the
//!   same name, and in elements of keyed lists; unless it says that it can do without.
//! - A rule that does not mention it is not held against a value that did not change.
//! - All rules together have a budget. When it is used up that is reported, and further rules are not run.

use std::sync::OnceLock;

use seaworthy_cel::{Bindings, Decl, Env, Program, Sizes, Type, Val};
use serde_json::Value;

use crate::cause::{Cause, ShownValue};
use crate::correlation::{OldElements, is_unchanged};
use crate::definition::{Props, follow};
use crate::document::Schema;
use crate::node::{Rule, Type as NodeType};
use crate::path::Path;

/// The longest message that an expression may compute, in bytes.
const MAX_MESSAGE_LENGTH: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The rules of one schema with all that is needed to compile them.
#[derive(Debug)]
pub(crate) struct RuleSet {
    schema: Value,
    is_object: bool,
    compiled: OnceLock<Option<Compiled>>,
}

/// Rules and the declaration through which they see values.
#[derive(Debug)]
pub(crate) struct Compiled {
    decl: Decl,
    pub(crate) rules: Vec<CompiledRule>,
}

/// A rule after compilation.
#[derive(Debug, Default)]
pub(crate) struct CompiledRule {
    program: Option<Program>,
    message: Option<Program>,
    field: Option<String>,
    /// Why it does not compile.
    pub(crate) mistake: Option<String>,
    pub(crate) message_mistake: Option<String>,
    pub(crate) uses_old_self: bool,
    /// The most that it can cost on one value.
    pub(crate) cost: u64,
    pub(crate) message_cost: Option<u64>,
    /// How many values there can be when nothing but the size of a request bounds them.
    pub(crate) cardinality: u64,
}

impl RuleSet {
    /// `is_object` says that the values are whole objects, whose type and name rules can see.
    pub(crate) fn new(schema: Value, is_object: bool) -> RuleSet {
        RuleSet { schema, is_object, compiled: OnceLock::new() }
    }

    fn compiled(&self, rules: &[Rule]) -> Option<&Compiled> {
        self.compiled.get_or_init(|| compile(&self.schema, self.is_object, rules, &|_| true)).as_ref()
    }

    /// Compiles again, to validate a definition. Stored expressions may use functions of other versions.
    pub(crate) fn compile(&self, rules: &[Rule], is_stored: &dyn Fn(&str) -> bool) -> Option<Compiled> {
        compile(&self.schema, self.is_object, rules, is_stored)
    }
}

/// None when rules cannot see values of such a schema at all.
fn compile(schema: &Value, is_object: bool, rules: &[Rule], is_stored: &dyn Fn(&str) -> bool) -> Option<Compiled> {
    let decl = Decl::from_schema(schema, "selfType", is_object)?;
    let ty = decl.ty();
    let environment = |rule: &Rule, expression: &str| {
        let old = if rule.optional_old_self == Some(true) { Type::optional(ty.clone()) } else { ty.clone() };
        let env = Env::new().with("self", ty.clone()).with("oldSelf", old);
        if is_stored(expression) { env.stored() } else { env }
    };
    let sizes = Sizes::of(&decl);
    let rules = rules
        .iter()
        .map(|rule| {
            let mut compiled = CompiledRule { cardinality: decl.max_cardinality(), ..CompiledRule::default() };
            if rule.rule.trim().is_empty() {
                return compiled;
            }
            let program = match environment(rule, &rule.rule).compile(&rule.rule) {
                Ok(program) if *program.result_type() == Type::Bool => program,
                Ok(_) => {
                    compiled.mistake = Some("cel expression must evaluate to a bool".to_owned());
                    return compiled;
                }
                Err(errors) => {
                    let what = if errors.is_instantiation() { "program instantiation" } else { "compilation" };
                    compiled.mistake = Some(format!("{what} failed: {errors}"));
                    return compiled;
                }
            };
            compiled.uses_old_self = program.uses("oldSelf");
            compiled.cost = program.estimate(&sizes).max;
            compiled.program = Some(program);
            if let Some(expression) = rule.message_expression.as_deref().filter(|expression| !expression.is_empty()) {
                match environment(rule, expression).compile(expression) {
                    Ok(program) if *program.result_type() == Type::String => {
                        compiled.message_cost = Some(program.estimate(&sizes).max);
                        compiled.message = Some(program);
                    }
                    Ok(_) => {
                        compiled.message_mistake = Some("messageExpression must evaluate to a string".to_owned());
                    }
                    Err(errors) => {
                        let what = if errors.is_instantiation() { "instantiation" } else { "compilation" };
                        compiled.message_mistake = Some(format!("messageExpression {what} failed: {errors}"));
                    }
                }
            }
            if let Some(field) = rule.field_path.as_deref().filter(|field| !field.is_empty()) {
                let found = Props::of(schema).and_then(|schema| follow(field, schema, true).ok());
                compiled.field = found.map(|found| found.text);
            }
            compiled
        })
        .collect();
    Some(Compiled { decl, rules })
}

/// What is left of the cost that all rules together may have.
pub(crate) struct RuleBudget {
    cost: seaworthy_cel::CostBudget,
    is_over: bool,
}

impl RuleBudget {
    pub(crate) fn full() -> RuleBudget {
        RuleBudget { cost: seaworthy_cel::CostBudget::for_object(), is_over: false }
    }
}

/// Judges an object by the rules of its schema and of all inside it. `old` is the object it takes the place of.
pub fn rule_mistakes(schema: Schema<'_>, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    judge_rules(schema, object, old).0
}

/// The same, and beside it what is excused because it was so before.
pub(crate) fn judge_rules(schema: Schema<'_>, object: &Value, old: Option<&Value>) -> (Vec<Cause>, Vec<Cause>) {
    let mut walk = Walk { budget: &mut RuleBudget::full(), found: Vec::new(), excused: Vec::new() };
    let past = old.map(|old| ValuePair { schema, new: object, old });
    walk.value(schema, object, old, OldValues { here: past, around: None }, &Path::ROOT);
    (walk.found, walk.excused)
}

/// Judges a value by the rules of its schema and of all inside it, changed or not.
pub(crate) fn check(
    schema: Schema<'_>,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    budget: &mut RuleBudget,
) -> Vec<Cause> {
    let mut walk = Walk { budget, found: Vec::new(), excused: Vec::new() };
    walk.value(schema, value, old, OldValues::default(), path);
    walk.found
}

/// A value and the one it takes the place of.
#[derive(Clone, Copy)]
struct ValuePair<'v> {
    schema: Schema<'v>,
    new: &'v Value,
    old: &'v Value,
}

/// What is known of a value's past: its own, or else that of the nearest value around it that has one.
#[derive(Clone, Copy, Default)]
struct OldValues<'v> {
    here: Option<ValuePair<'v>>,
    around: Option<ValuePair<'v>>,
}

impl<'v> OldValues<'v> {
    fn is_unchanged(self) -> bool {
        self.here.or(self.around).is_some_and(|pair| is_unchanged(pair.schema, pair.new, pair.old))
    }

    fn field(self, key: &str) -> OldValues<'v> {
        let Some(here) = self.here else { return self };
        // What an object is cannot be excused by its having been so.
        if self.around.is_none() && matches!(key, "apiVersion" | "kind") {
            return OldValues::default();
        }
        let child = || {
            let (new, old) = (here.new.get(key)?, here.old.as_object()?.get(key)?);
            Some(ValuePair { schema: here.schema.field(key)?, new, old })
        };
        OldValues { here: child(), around: Some(here) }
    }

    fn element(self, new: &'v Value, old: Option<&'v Value>) -> OldValues<'v> {
        let Some(here) = self.here else { return self };
        let child = || Some(ValuePair { schema: here.schema.items()?, new, old: old? });
        OldValues { here: child(), around: Some(here) }
    }
}

struct Walk<'b> {
    budget: &'b mut RuleBudget,
    found: Vec<Cause>,
    /// What is wrong and was so before.
    excused: Vec<Cause>,
}

impl Walk<'_> {
    fn value<'v>(
        &mut self,
        schema: Schema<'v>,
        value: &'v Value,
        old: Option<&'v Value>,
        past: OldValues<'v>,
        path: &Path<'_>,
    ) {
        if !schema.has_rules || value.is_null() || self.budget.is_over {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        if !schema.rules.is_empty() {
            self.rules(schema, value, old, past, path);
        }
        match value {
            Value::Array(items) => {
                let Some(each) = schema.items() else { return };
                let elements = OldElements::of(schema, old);
                for (index, item) in items.iter().enumerate() {
                    let old = elements.as_ref().and_then(|elements| elements.get(item));
                    self.value(each, item, old, past.element(item, old), &path.index(index));
                }
            }
            Value::Object(map) => {
                let before = old.and_then(Value::as_object);
                for (key, value) in map {
                    let old = before.and_then(|before| before.get(key));
                    if let Some(property) = schema.property(key) {
                        self.value(property, value, old, past.field(key), &path.name(key));
                    } else if let Some(each) = schema.additional() {
                        self.value(each, value, old, past.field(key), &path.key(key));
                    }
                }
            }
            _ => {}
        }
    }

    fn rules<'v>(
        &mut self,
        schema: Schema<'v>,
        value: &'v Value,
        old: Option<&'v Value>,
        past: OldValues<'v>,
        path: &Path<'_>,
    ) {
        let rules = &schema.node().rules;
        let Some(compiled) = schema.rule_set().and_then(|set| set.compiled(rules)) else { return };
        let kind = type_name(schema);
        if self.budget.cost.remaining() == 0 {
            self.found.push(Cause::invalid(path, kind, OUT_OF_BUDGET));
            self.budget.is_over = true;
            return;
        }
        let this = Val::bind(value, &compiled.decl);
        let before = old.map(|old| Val::bind(old, &compiled.decl));
        let mut bindings = Bindings::new().with("self", this.clone());
        if let Some(before) = &before {
            bindings = bindings.with("oldSelf", before.clone());
        }
        let optional = match &before {
            Some(Ok(before)) => Ok(Val::some(before.clone())),
            Some(Err(error)) => Err(error.clone()),
            None => Ok(Val::Optional(None)),
        };
        let optional_bindings = Bindings::new().with("self", this).with("oldSelf", optional);
        for (rule, source) in compiled.rules.iter().zip(rules) {
            let text = rule_text(source);
            if let Some(mistake) = &rule.mistake {
                self.found.push(Cause::invalid(path, kind, &format!("rule compile error: {mistake}")));
                continue;
            }
            let Some(program) = &rule.program else { continue };
            let is_optional = source.optional_old_self == Some(true);
            if rule.uses_old_self && old.is_none() && !is_optional {
                continue;
            }
            let outcome =
                program.evaluate(if is_optional { &optional_bindings } else { &bindings }, &mut self.budget.cost);
            if self.budget.cost.is_exhausted() {
                self.found.push(Cause::invalid(path, kind, OUT_OF_BUDGET));
                self.budget.is_over = true;
                return;
            }
            match outcome {
                Ok(Val::Bool(true)) => continue,
                Ok(_) => {}
                Err(error) if error.is_over_budget() => {
                    let error = error.message();
                    let detail = format!(
                        "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {text}"
                    );
                    self.found.push(Cause::invalid(path, kind, &detail));
                    self.budget.is_over = true;
                    return;
                }
                Err(error) => {
                    let error = error.message();
                    let detail = if error.starts_with("no such overload") {
                        format!(
                            "'{error}': call arguments did not match a supported operator, function or macro signature \
                             for rule: {text}"
                        )
                    } else {
                        format!("{error} evaluating rule: {text}")
                    };
                    self.found.push(Cause::invalid(path, kind, &detail));
                    continue;
                }
            }
            let is_excused = !rule.uses_old_self && past.is_unchanged();
            let message = match &rule.message {
                None => None,
                Some(message) => match self.message(message, source, &bindings) {
                    Ok(message) => message,
                    Err(detail) => {
                        if !is_excused {
                            self.found.push(Cause::invalid(blamed(rule, path).unwrap_or(*path), kind, &detail));
                        }
                        self.budget.is_over = true;
                        return;
                    }
                },
            };
            let detail = message.unwrap_or_else(|| match source.message.as_deref().filter(|text| !text.is_empty()) {
                Some(message) => message.trim().to_owned(),
                None => format!("failed rule: {text}"),
            });
            let shown = match value {
                _ if matches!(schema.kind, Some(NodeType::Object | NodeType::Array)) => ShownValue::OMITTED,
                value => value.into(),
            };
            let field = blamed(rule, path).unwrap_or(*path);
            let cause = match source.reason.as_deref() {
                Some("FieldValueForbidden") => Cause::forbidden(field, &detail),
                Some("FieldValueRequired") => Cause::required(field, &detail),
                Some("FieldValueDuplicate") => Cause::duplicate(field, shown),
                _ => Cause::invalid(field, shown, &detail),
            };
            if is_excused { &mut self.excused } else { &mut self.found }.push(cause);
        }
    }

    /// The message that an expression computes; none when it fails or is unfit. An error ends it all.
    fn message<'v>(
        &mut self,
        program: &'v Program,
        rule: &Rule,
        bindings: &Bindings<'v>,
    ) -> Result<Option<String>, String> {
        let outcome = program.evaluate(bindings, &mut self.budget.cost);
        if self.budget.cost.is_exhausted() {
            let detail = "messageExpression evaluation failed due to running out of cost budget, no further validation \
                          rules will be run";
            return Err(detail.to_owned());
        }
        match outcome {
            Ok(Val::String(text)) => {
                let text = text.trim();
                let is_fit = !text.is_empty() && text.len() <= MAX_MESSAGE_LENGTH && !text.contains('\n');
                Ok(is_fit.then(|| text.to_owned()))
            }
            Ok(_) => Ok(None),
            Err(error) if error.is_over_budget() => {
                let expression = crate::wording::quoted(rule.message_expression.as_deref().unwrap_or_default());
                Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: \
                     {expression}"
                ))
            }
            Err(_) => Ok(None),
        }
    }
}

/// The field that a rule blames.
fn blamed<'p>(rule: &'p CompiledRule, path: &'p Path<'p>) -> Option<Path<'p>> {
    rule.field.as_deref().map(|field| path.name(field))
}

/// A rule in a sentence: its message, or itself.
fn rule_text(rule: &Rule) -> &str {
    rule.message.as_deref().filter(|message| !message.is_empty()).unwrap_or(&rule.rule).trim()
}

fn type_name(schema: Schema<'_>) -> &'static str {
    if schema.is_int_or_string { "" } else { schema.types().first().copied().unwrap_or_default() }
}
