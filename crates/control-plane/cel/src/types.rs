//! Types of the checker, and their unification.

use std::fmt;
use std::sync::Arc;

use crate::decl::ObjectDecl;

/// The type of an expression or a variable.
#[derive(Debug, Clone)]
pub enum Type {
    /// `null`.
    Null,
    /// `true` and `false`.
    Bool,
    /// 64-bit signed.
    Int,
    /// 64-bit unsigned.
    Uint,
    /// 64-bit floating point.
    Double,
    /// Text.
    String,
    /// Raw bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A span of time.
    Duration,
    /// Checked only when evaluated.
    Dyn,
    /// A list of one type.
    List(Arc<Type>),
    /// A map from keys of one type to values of one type.
    Map(Arc<(Type, Type)>),
    /// An object with known fields; two are the same type when their names are.
    Object(Arc<ObjectDecl>),
    /// A Kubernetes library type that behaves like an object without fields, such as `kubernetes.Quantity`.
    Library(&'static str),
    /// A library type that behaves like no other, such as `net.IP`.
    Opaque(&'static str),
    /// The type of types; the parameter is the type that the value denotes, where it is known.
    Type(Option<Arc<Type>>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// What a broken part has; fits everywhere so that one problem is reported once.
    Error,
    /// A type not yet known while checking.
    #[doc(hidden)]
    Var(u32),
    /// A type parameter of a function's signature.
    #[doc(hidden)]
    Param(char),
}

impl Type {
    pub fn list(items: Type) -> Type {
        Type::List(Arc::new(items))
    }

    /// A map with these types.
    pub fn map(keys: Type, values: Type) -> Type {
        Type::Map(Arc::new((keys, values)))
    }

    pub fn optional(value: Type) -> Type {
        Type::Optional(Arc::new(value))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// Whether two types are the same to the last parameter.
    pub(crate) fn same(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a.same(b),
            (Type::Map(a), Type::Map(b)) => a.0.same(&b.0) && a.1.same(&b.1),
            (Type::Object(a), Type::Object(b)) => Arc::ptr_eq(a, b) || a.name() == b.name(),
            (Type::Library(a), Type::Library(b)) | (Type::Opaque(a), Type::Opaque(b)) => a == b,
            (Type::Type(a), Type::Type(b)) => match (a, b) {
                (Some(a), Some(b)) => a.same(b),
                (None, None) => true,
                _ => false,
            },
            (Type::Var(a), Type::Var(b)) => a == b,
            (Type::Param(a), Type::Param(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// The text of a result type as programs of the Kubernetes API server print it.
    pub fn runtime_name(&self) -> String {
        match self {
            Type::Null => "null_type".to_owned(),
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Type::Duration => "google.protobuf.Duration".to_owned(),
            Type::List(item) => format!("list({})", item.runtime_name()),
            Type::Map(entry) => format!("map({}, {})", entry.0.runtime_name(), entry.1.runtime_name()),
            Type::Optional(value) => format!("optional_type({})", value.runtime_name()),
            Type::Type(Some(of)) => format!("type({})", of.runtime_name()),
            other => other.to_string(),
        }
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Type) -> bool {
        self.same(other)
    }
}

/// As problems print types.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Duration => f.write_str("duration"),
            Type::Dyn => f.write_str("dyn"),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Type::Object(object) => f.write_str(object.name()),
            Type::Library(name) | Type::Opaque(name) => f.write_str(name),
            Type::Type(None) => f.write_str("type"),
            Type::Type(Some(of)) => write!(f, "type({of})"),
            Type::Optional(value) => write!(f, "optional_type({value})"),
            Type::Error => f.write_str("!error!"),
            Type::Var(number) => write!(f, "_var{number}"),
            Type::Param(name) => write!(f, "{name}"),
        }
    }
}

/// Bindings of type variables while checking, and the rules by which types fit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Substitution {
    known: Vec<Option<Type>>,
}

impl Substitution {
    pub(crate) fn fresh(&mut self) -> Type {
        self.known.push(None);
        Type::Var(self.known.len() as u32 - 1)
    }

    fn find(&self, ty: &Type) -> Option<&Type> {
        match ty {
            Type::Var(number) => self.known.get(*number as usize).and_then(Option::as_ref),
            _ => None,
        }
    }

    fn learn(&mut self, var: &Type, ty: Type) {
        if let Type::Var(number) = var
            && let Some(slot) = self.known.get_mut(*number as usize)
        {
            *slot = Some(ty);
        }
    }

    /// Whether a value of `from` fits where `to` is wanted; what is learnt stays only if it does.
    pub(crate) fn fits(&mut self, from: &Type, to: &Type) -> bool {
        let before = self.known.clone();
        let fits = self.unify(from, to);
        if !fits {
            self.known = before;
        }
        fits
    }

    /// The same for a list of arguments.
    pub(crate) fn all_fit(&mut self, from: &[Type], to: &[Type]) -> bool {
        if from.len() != to.len() {
            return false;
        }
        let before = self.known.clone();
        let fits = from.iter().zip(to).all(|(from, to)| self.unify(from, to));
        if !fits {
            self.known = before;
        }
        fits
    }

    fn unify(&mut self, one: &Type, two: &Type) -> bool {
        if matches!(two, Type::Var(_)) {
            let (valid, known) = self.substitutes(one, two);
            if valid {
                return true;
            }
            if known {
                return false;
            }
        }
        if matches!(one, Type::Var(_)) {
            return self.substitutes(two, one).0;
        }
        if one.is_dyn_or_error() || two.is_dyn_or_error() {
            return true;
        }
        match (one, two) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Opaque(_)
                    | Type::Optional(_)
                    | Type::Object(_)
                    | Type::Library(_)
                    | Type::Duration
                    | Type::Timestamp
            ),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.unify(a, b),
            (Type::Map(a), Type::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            _ => one.same(two),
        }
    }

    /// Whether the unknown `var` can be `ty`, and whether anything was known of it before.
    fn substitutes(&mut self, ty: &Type, var: &Type) -> (bool, bool) {
        if ty.same(var) {
            return (true, true);
        }
        if let Some(known) = self.find(var).cloned() {
            if ty.same(&known) {
                return (true, true);
            }
            if self.unify(ty, &known) {
                let general = more_general(ty, &known);
                if !self.occurs(var, &general) {
                    self.learn(var, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.occurs(var, ty) {
            return (false, false);
        }
        self.learn(var, ty.clone());
        (true, false)
    }

    /// Whether `var` is part of `ty`, directly or through what is known.
    fn occurs(&self, var: &Type, ty: &Type) -> bool {
        if var.same(ty) {
            return true;
        }
        match ty {
            Type::Var(_) => self.find(ty).is_some_and(|known| self.occurs(var, known)),
            Type::List(of) | Type::Optional(of) | Type::Type(Some(of)) => self.occurs(var, of),
            Type::Map(entry) => self.occurs(var, &entry.0) || self.occurs(var, &entry.1),
            _ => false,
        }
    }

    /// The type with everything known put in; what stays unknown becomes dyn if `finish`.
    pub(crate) fn resolve(&self, ty: &Type, finish: bool) -> Type {
        if let Some(known) = self.find(ty) {
            return self.resolve(known, finish);
        }
        match ty {
            Type::Var(_) if finish => Type::Dyn,
            Type::List(of) => Type::list(self.resolve(of, finish)),
            Type::Optional(of) => Type::optional(self.resolve(of, finish)),
            Type::Map(entry) => Type::map(self.resolve(&entry.0, finish), self.resolve(&entry.1, finish)),
            Type::Type(Some(of)) => Type::Type(Some(Arc::new(self.resolve(of, finish)))),
            other => other.clone(),
        }
    }
}

/// The less specific of two types that fit each other.
pub(crate) fn more_general(one: &Type, two: &Type) -> Type {
    if is_as_general(one, two) { one.clone() } else { two.clone() }
}

fn is_as_general(one: &Type, two: &Type) -> bool {
    if matches!(one, Type::Dyn | Type::Var(_)) {
        return true;
    }
    if matches!(two, Type::Dyn | Type::Var(_)) {
        return false;
    }
    match (one, two) {
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_as_general(a, b),
        (Type::Map(a), Type::Map(b)) => is_as_general(&a.0, &b.0) && is_as_general(&a.1, &b.1),
        (Type::Type(_), Type::Type(_)) => true,
        _ => one.same(two),
    }
}
