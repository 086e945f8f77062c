//! A ValidatingAdmissionPolicy, compiled, and what it says about one write.

use seaworthy_cel::{Budget, MATCH_CONDITIONS_LIMIT, PER_CALL_LIMIT, Type, Val};
use seaworthy_schema::Cause;
use serde_json::Value;

use crate::object::reach::Reach;
use crate::object::{Metadata, Object};

use super::environment::{Scene, environment};
use super::matching::Constraints;
use super::program::{Expression, MAX_VARIABLES, Run, Trouble, Variable};

/// The longest message that an expression may compute, in bytes.
const MESSAGE_LENGTH: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// A policy, ready to be asked.
#[derive(Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// What tells its states apart: uid and generation.
    pub state: (String, i64),
    /// Which writes it is about.
    pub constraints: Constraints,
    /// The kind of the objects that it is set up by: apiVersion and kind.
    pub param_kind: Option<(String, String)>,
    /// Whether a write passes when the policy fails.
    pub ignores_failures: bool,
    conditions: Vec<Expression>,
    variables: Vec<Variable>,
    validations: Vec<Validation>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: Reason,
}

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reason {
    /// Who asks is unknown.
    Unauthorized,
    /// It may not be.
    Forbidden,
    /// The object is not as it should be: what is not said otherwise.
    #[default]
    Invalid,
    /// It is too large.
    TooLarge,
}

impl Reason {
    fn read(word: &str) -> Reason {
        match word {
            "Unauthorized" => Reason::Unauthorized,
            "Forbidden" => Reason::Forbidden,
            "RequestEntityTooLarge" => Reason::TooLarge,
            _ => Reason::Invalid,
        }
    }

    /// Its word and the HTTP status.
    pub fn word_and_code(self) -> (&'static str, u16) {
        match self {
            Reason::Unauthorized => ("Unauthorized", 401),
            Reason::Forbidden => ("Forbidden", 403),
            Reason::Invalid => ("Invalid", 422),
            Reason::TooLarge => ("RequestEntityTooLarge", 413),
        }
    }
}

/// What a policy has against a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// What people read.
    pub message: String,
    /// The kind of the refusal.
    pub reason: Reason,
}

impl Policy {
    /// Compiles a policy. What is wrong with an expression is said when it is needed.
    pub fn compile(object: &Object) -> Policy {
        let param_kind = object.at("spec.paramKind").filter(|kind| !kind.is_null());
        let mut env = environment(param_kind.is_some(), true);
        let conditions = object.list("spec.matchConditions").iter();
        let conditions =
            conditions.map(|one| Expression::compile(&env, one.text("expression"), Some(&Type::Bool), &[]));
        let conditions = conditions.collect();
        let mut message_env = environment(param_kind.is_some(), false);
        let wanted = || object.list("spec.variables").iter().map(|one| (one.text("name"), one.text("expression")));
        let variables = Variable::compile_all(&mut env, wanted());
        for variable in &variables {
            message_env = variable.declared(message_env);
        }
        let validations = object.list("spec.validations").iter().map(|one| Validation {
            expression: Expression::compile(&env, one.text("expression"), Some(&Type::Bool), &variables),
            message: one.text("message").trim().to_owned(),
            message_expression: Some(one.text("messageExpression"))
                .filter(|text| !text.trim().is_empty())
                .map(|text| Expression::compile(&message_env, text, Some(&Type::String), &variables)),
            reason: Reason::read(one.text("reason")),
        });
        Policy {
            name: object.name().to_owned(),
            state: (object.uid().to_owned(), object.generation()),
            constraints: Constraints::read(object.at("spec.matchConstraints").unwrap_or(&Value::Null)),
            param_kind: param_kind.map(|kind| (kind.text("apiVersion").to_owned(), kind.text("kind").to_owned())),
            ignores_failures: object.text("spec.failurePolicy") == "Ignore",
            conditions,
            validations: validations.collect(),
            variables,
        }
    }

    /// What it has against a write.
    pub fn objections(&self, scene: &Scene<'_>) -> Vec<Objection> {
        match self.is_concerned(scene) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(message) => return self.failed(message),
        }
        let mut run = Run::new(scene.bindings(), &self.variables, Budget::for_object());
        let mut objections = Vec::new();
        for validation in &self.validations {
            match run.value(&validation.expression) {
                Ok(Val::Bool(true)) => continue,
                Ok(_) => {}
                Err(Trouble::Failed(message)) => {
                    objections.extend(self.failed(message));
                    continue;
                }
                Err(Trouble::Exhausted) => return self.failed(OUT_OF_BUDGET.to_owned()),
            }
            match validation.said(&mut run) {
                Ok(message) => objections.push(Objection { message, reason: validation.reason }),
                Err(()) => return self.failed(OUT_OF_BUDGET.to_owned()),
            }
        }
        objections
    }

    /// The objection to a write that the policy could not judge; none if such writes pass.
    pub fn failed(&self, message: String) -> Vec<Objection> {
        match self.ignores_failures {
            true => Vec::new(),
            false => vec![Objection { message, reason: Reason::default() }],
        }
    }

    /// Whether all conditions hold. One that does not hold decides, even if others fail.
    fn is_concerned(&self, scene: &Scene<'_>) -> Result<bool, String> {
        let budget = Budget::new(PER_CALL_LIMIT, MATCH_CONDITIONS_LIMIT);
        let mut run = Run::new(scene.bindings(), &[], budget);
        let mut failures = Vec::new();
        for condition in &self.conditions {
            match run.value(condition) {
                Ok(Val::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(Trouble::Failed(message)) => failures.push(message),
                Err(Trouble::Exhausted) => return Err(OUT_OF_BUDGET.to_owned()),
            }
        }
        match failures.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    /// What is wrong with the expressions of a policy that is to be stored.
    pub fn mistakes(object: &Object) -> Vec<Cause> {
        let policy = Policy::compile(object);
        let mut causes = Vec::new();
        let mut judge = |list: &str, at: usize, key: &str, expression: &Expression| {
            if let Some(mistake) = expression.mistake().filter(|_| !expression.text.trim().is_empty()) {
                let field = format!("spec.{list}[{at}].{key}");
                causes.push(Cause::invalid(field, expression.text.as_str(), mistake));
            }
        };
        for (at, condition) in policy.conditions.iter().enumerate() {
            judge("matchConditions", at, "expression", condition);
        }
        for (at, variable) in policy.variables.iter().enumerate() {
            judge("variables", at, "expression", variable.expression());
        }
        for (at, validation) in policy.validations.iter().enumerate() {
            judge("validations", at, "expression", &validation.expression);
            if let Some(message) = &validation.message_expression {
                judge("validations", at, "messageExpression", message);
            }
        }
        let count = object.list("spec.variables").len();
        if count > MAX_VARIABLES {
            causes.push(Cause::too_many("spec.variables", count as i64, MAX_VARIABLES as i64));
        }
        causes
    }
}

impl Validation {
    /// The message of a refusal: computed, written, or the expression. An error ends it all.
    fn said<'a>(&'a self, run: &mut Run<'a>) -> Result<String, ()> {
        let computed = match self.message_expression.as_ref().map(|expression| run.value(expression)) {
            Some(Ok(Val::String(text))) => {
                let text = text.trim();
                let is_fit = !text.is_empty() && text.len() <= MESSAGE_LENGTH && !text.contains('\n');
                is_fit.then(|| text.to_owned())
            }
            Some(Err(Trouble::Exhausted)) => return Err(()),
            // Whatever else it comes to is no message.
            Some(_) | None => None,
        };
        let written = (!self.message.is_empty()).then(|| self.message.clone());
        Ok(computed.or(written).unwrap_or_else(|| format!("failed expression: {}", self.expression.text.trim())))
    }
}
