//! ValidatingAdmissionPolicy, compiled, and its violations for one write.

use seaworthy_cel::{CostBudget, MAX_COST_PER_CALL, MAX_MATCH_CONDITIONS_COST, Type, Val};
use seaworthy_schema::Cause;
use serde_json::Value;

use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};

use super::environment::{EvaluationInput, environment};
use super::matching::Constraints;
use super::program::{Evaluation, EvaluationError, Expression, MAX_VARIABLES, Variable};

/// The longest message that an expression may compute, in bytes.
const MAX_MESSAGE_LENGTH: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// A compiled policy.
#[derive(Debug)]
pub struct AdmissionPolicy {
    pub name: String,
    /// Identifies this state of the policy: uid and generation.
    pub state: (String, i64),
    /// The writes that it applies to.
    pub constraints: Constraints,
    /// `spec.paramKind`: apiVersion and kind.
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

/// The reason of a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reason {
    Unauthorized,
    Forbidden,
    /// The object is invalid: the default.
    #[default]
    Invalid,
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

    /// The reason and the HTTP status code.
    pub fn reason_and_code(self) -> (&'static str, u16) {
        match self {
            Reason::Unauthorized => ("Unauthorized", 401),
            Reason::Forbidden => ("Forbidden", 403),
            Reason::Invalid => ("Invalid", 422),
            Reason::TooLarge => ("RequestEntityTooLarge", 413),
        }
    }
}

/// A violation of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub message: String,
    pub reason: Reason,
}

impl AdmissionPolicy {
    /// Compiles a policy. Compile errors of an expression are reported when it is evaluated.
    pub fn compile(object: &Object) -> AdmissionPolicy {
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
        AdmissionPolicy {
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

    /// The violations of a write.
    pub fn violations(&self, scene: &EvaluationInput<'_>) -> Vec<Violation> {
        match self.is_concerned(scene) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(message) => return self.failed(message),
        }
        let mut run = Evaluation::new(scene.bindings(), &self.variables, CostBudget::for_object());
        let mut violations = Vec::new();
        for validation in &self.validations {
            match run.value(&validation.expression) {
                Ok(Val::Bool(true)) => continue,
                Ok(_) => {}
                Err(EvaluationError::Failed(message)) => {
                    violations.extend(self.failed(message));
                    continue;
                }
                Err(EvaluationError::Exhausted) => return self.failed(OUT_OF_BUDGET.to_owned()),
            }
            match validation.message_of(&mut run) {
                Ok(message) => violations.push(Violation { message, reason: validation.reason }),
                Err(()) => return self.failed(OUT_OF_BUDGET.to_owned()),
            }
        }
        violations
    }

    /// The violation for a write on which the evaluation failed; none if `failurePolicy` is `Ignore`.
    pub fn failed(&self, message: String) -> Vec<Violation> {
        match self.ignores_failures {
            true => Vec::new(),
            false => vec![Violation { message, reason: Reason::default() }],
        }
    }

    /// Whether all match conditions hold. One that is false decides, even if others fail.
    fn is_concerned(&self, scene: &EvaluationInput<'_>) -> Result<bool, String> {
        let budget = CostBudget::new(MAX_COST_PER_CALL, MAX_MATCH_CONDITIONS_COST);
        let mut run = Evaluation::new(scene.bindings(), &[], budget);
        let mut failures = Vec::new();
        for condition in &self.conditions {
            match run.value(condition) {
                Ok(Val::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(EvaluationError::Failed(message)) => failures.push(message),
                Err(EvaluationError::Exhausted) => return Err(OUT_OF_BUDGET.to_owned()),
            }
        }
        match failures.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    /// The invalid expressions of a policy.
    pub fn mistakes(object: &Object) -> Vec<Cause> {
        let policy = AdmissionPolicy::compile(object);
        let mut causes = Vec::new();
        let mut check = |list: &str, at: usize, key: &str, expression: &Expression| {
            if let Some(mistake) = expression.mistake().filter(|_| !expression.text.trim().is_empty()) {
                let field = format!("spec.{list}[{at}].{key}");
                causes.push(Cause::invalid(field, expression.text.as_str(), mistake));
            }
        };
        for (at, condition) in policy.conditions.iter().enumerate() {
            check("matchConditions", at, "expression", condition);
        }
        for (at, variable) in policy.variables.iter().enumerate() {
            check("variables", at, "expression", variable.expression());
        }
        for (at, validation) in policy.validations.iter().enumerate() {
            check("validations", at, "expression", &validation.expression);
            if let Some(message) = &validation.message_expression {
                check("validations", at, "messageExpression", message);
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
    /// The message of a denial: computed, configured, or the expression. Fails when the cost budget is exhausted.
    fn message_of<'a>(&'a self, run: &mut Evaluation<'a>) -> Result<String, ()> {
        let computed = match self.message_expression.as_ref().map(|expression| run.value(expression)) {
            Some(Ok(Val::String(text))) => {
                let text = text.trim();
                let is_fit = !text.is_empty() && text.len() <= MAX_MESSAGE_LENGTH && !text.contains('\n');
                is_fit.then(|| text.to_owned())
            }
            Some(Err(EvaluationError::Exhausted)) => return Err(()),
            // Any other result is ignored.
            Some(_) | None => None,
        };
        let written = (!self.message.is_empty()).then(|| self.message.clone());
        Ok(computed.or(written).unwrap_or_else(|| format!("failed expression: {}", self.expression.text.trim())))
    }
}
