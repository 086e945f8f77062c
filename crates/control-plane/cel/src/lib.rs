//! The expression language of Kubernetes rules (CEL): parse, check against types, estimate the cost, evaluate.
//!
//! ```
//! use seaworthy_cel::{Bindings, CostBudget, Decl, Env, Val};
//!
//! let schema = serde_json::json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
//! let decl = Decl::from_schema(&schema, "selfType", false).expect("a schema expressions can see");
//! let program = Env::new().with("self", decl.ty()).compile("self.replicas <= 10").expect("a rule that compiles");
//! let object = serde_json::json!({"replicas": 3});
//! let bindings = Bindings::new().with("self", Val::bind(&object, &decl));
//! let value = program.evaluate(&bindings, &mut CostBudget::for_object());
//! assert!(matches!(value, Ok(Val::Bool(true))));
//! ```
//!
//! * A [`Decl`] describes data, usually from a schema; [`Env`] names variables and compiles; a [`Program`] estimates
//!   and evaluates; [`Val::bind`] sees JSON through its declaration without copying.
//! * Nothing here reads a clock, does I/O or panics on bad input; every evaluation is bounded by a [`CostBudget`].
//! * Results, wording and costs are those of the Kubernetes API server; `tests/recorded` holds what it answers.
//!   What differs on purpose is marked `Differs:` where it does.

mod ast;
mod budget;
mod check;
mod collection;
mod compare;
mod cost;
mod decl;
mod env;
mod error;
mod escape;
mod eval;
mod functions;
mod library;
mod lint;
mod macros;
mod number;
mod parse;
mod plan;
mod program;
mod source;
mod syntax_error;
mod time;
mod token;
mod types;
mod value;

pub use budget::{CostBudget, MAX_COST_PER_CALL, MAX_COST_PER_OBJECT, MAX_MATCH_CONDITIONS_COST};
pub use collection::{Entries, Key, List, Map};
pub use cost::estimate::{CostRange, MAX_DEFINITION_COST, MAX_RULE_COST, Sizes, cost_problem};
pub use decl::{Decl, DeclKind, FieldDecl, ListType, MAX_REQUEST_BYTES, ObjectDecl};
pub use env::Env;
pub use error::{CompileError, CompileErrors, EvalError};
pub use escape::{escape, unescape};
pub use library::authz::{AuthorizationCheck, AuthorizationDecision, Authorizer, Question};
pub use library::named_format::NamedFormat;
pub use library::net::Cidr;
pub use library::quantity::Quantity;
pub use library::semver::Semver;
pub use library::url::Url;
pub use program::{Bindings, IntoOutcome, Program};
pub use source::Location;
pub use time::Timestamp;
pub use types::Type;
pub use value::{Opaque, Str, Val};
