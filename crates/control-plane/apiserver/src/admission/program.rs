//! Compiled CEL expressions of a policy, and their evaluation.

use seaworthy_cel::{Bindings, CostBudget, Env, EvalError, Program, Type, Val};

/// The most variables that a policy may have.
///
/// Differs: the real server has no such limit, because it follows names as it meets them; here it is known beforehand
/// which variables an expression needs, at a price that grows with the square of their number.
pub const MAX_VARIABLES: usize = 1000;

/// A compiled expression, or its compile error.
#[derive(Debug)]
pub struct Expression {
    /// The source text.
    pub text: String,
    program: Result<Program, String>,
    /// The policy's variables that it uses, by index.
    needs: Vec<usize>,
}

#[derive(Debug)]
pub struct Variable {
    name: String,
    /// The name that expressions use.
    key: String,
    expression: Expression,
}

impl Expression {
    /// Compiles an expression whose value has this type; none for any.
    pub fn compile(env: &Env, text: &str, wanted: Option<&Type>, variables: &[Variable]) -> Expression {
        let program = match env.compile(text) {
            Ok(program) if wanted.is_none_or(|wanted| program.result_type() == wanted) => Ok(program),
            // Without a wanted type nothing is refused.
            Ok(_) => Err(format!("must evaluate to {}", wanted.map(ToString::to_string).unwrap_or_default())),
            Err(errors) => {
                let what = if errors.is_instantiation() { "program instantiation" } else { "compilation" };
                Err(format!("{what} failed: {errors}"))
            }
        };
        let needs = match &program {
            Ok(program) => (0..variables.len()).filter(|at| program.uses(&variables[*at].key)).collect(),
            Err(_) => Vec::new(),
        };
        Expression { text: text.to_owned(), program, needs }
    }

    /// The compile error.
    pub fn mistake(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }
}

impl Variable {
    /// Compiles the variables of a policy, each of which sees those before it, and declares them.
    pub fn compile_all<'p>(env: &mut Env, wanted: impl Iterator<Item = (&'p str, &'p str)>) -> Vec<Variable> {
        let mut variables = Vec::new();
        for (name, text) in wanted.take(MAX_VARIABLES) {
            let expression = Expression::compile(env, text, None, &variables);
            let variable = Variable { name: name.to_owned(), key: format!("variables.{name}"), expression };
            *env = variable.declared(std::mem::take(env));
            variables.push(variable);
        }
        variables
    }

    /// The environment with this variable declared.
    pub fn declared(&self, env: Env) -> Env {
        let ty = self.expression.program.as_ref().map_or(Type::Dyn, |program| program.result_type().clone());
        env.with(self.key.clone(), ty)
    }

    pub fn expression(&self) -> &Expression {
        &self.expression
    }
}

/// One evaluation of a policy: variables are evaluated when the first expression needs them, and then remembered.
pub struct Evaluation<'a> {
    given: Bindings<'a>,
    variables: &'a [Variable],
    values: Vec<Option<Result<Val<'a>, EvalError>>>,
    budget: CostBudget,
}

/// Why an evaluation has no result.
#[derive(Debug)]
pub enum EvaluationError {
    Failed(String),
    /// The cost budget of the policy is used up: nothing more is evaluated.
    Exhausted,
}

impl<'a> Evaluation<'a> {
    pub fn new(given: Bindings<'a>, variables: &'a [Variable], budget: CostBudget) -> Evaluation<'a> {
        Evaluation { given, variables, values: vec![None; variables.len()], budget }
    }

    pub fn value(&mut self, expression: &'a Expression) -> Result<Val<'a>, EvaluationError> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(mistake) => return Err(EvaluationError::Failed(format!("compilation error: {mistake}"))),
        };
        self.prepare(&expression.needs);
        let bindings = self.bindings(&expression.needs);
        let value = program.evaluate(&bindings, &mut self.budget);
        if self.budget.is_exhausted() {
            return Err(EvaluationError::Exhausted);
        }
        value.map_err(|error| {
            EvaluationError::Failed(format!("expression '{}' resulted in error: {error}", expression.text))
        })
    }

    fn bindings(&self, needs: &[usize]) -> Bindings<'a> {
        needs.iter().fold(self.given.clone(), |bindings, at| match &self.values[*at] {
            Some(value) => bindings.with(&self.variables[*at].key, value.clone()),
            // Everything that is needed was evaluated before.
            None => bindings,
        })
    }

    /// Evaluates what is needed and not known yet. A variable needs earlier ones only: marked from the last one on,
    /// evaluated from the first one on.
    fn prepare(&mut self, needs: &[usize]) {
        let mut needed = vec![false; self.variables.len()];
        for at in needs {
            needed[*at] = true;
        }
        for at in (0..needed.len()).rev().filter(|at| self.values[*at].is_none()) {
            if needed[at] {
                self.variables[at].expression.needs.iter().for_each(|earlier| needed[*earlier] = true);
            }
        }
        let variables = self.variables;
        for at in (0..needed.len()).filter(|at| needed[*at]) {
            if self.values[at].is_none() {
                self.values[at] = Some(self.variable(&variables[at]));
            }
        }
    }

    fn variable(&mut self, variable: &'a Variable) -> Result<Val<'a>, EvalError> {
        let Variable { name, expression, .. } = variable;
        let failed = |how: &str, why: &dyn std::fmt::Display| {
            EvalError::new(format!("composited variable {name:?} fails to {how}: {why}"))
        };
        let program = expression.program.as_ref().map_err(|mistake| failed("compile", mistake))?;
        let bindings = self.bindings(&expression.needs);
        program.evaluate(&bindings, &mut self.budget).map_err(|error| failed("evaluate", &error))
    }
}
