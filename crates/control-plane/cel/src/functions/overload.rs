//! Overloads: one way to call a function, read from its signature: `string.find(string, int) -> string`.

use std::sync::Arc;

use crate::types::Type;

/// One way to call a function.
#[derive(Debug, Clone)]
pub(crate) struct Overload {
    pub id: &'static str,
    /// Whether the first parameter is the receiver before the dot.
    pub member: bool,
    pub params: Vec<Type>,
    pub result: Type,
    /// The type parameters in the signature.
    pub generics: Vec<char>,
}

impl Overload {
    pub(super) fn parse(id: &'static str, signature: &str) -> Overload {
        // Signatures are constants of the table, and a test reads every one.
        let mut reader = Reader { rest: signature };
        let (mut params, member) = if signature.starts_with('(') {
            (Vec::new(), false)
        } else {
            let target = reader.ty();
            reader.skip(".");
            (vec![target], true)
        };
        reader.skip("(");
        while !reader.skip(")") {
            params.push(reader.ty());
            reader.skip(", ");
        }
        reader.skip(" -> ");
        let result = reader.ty();
        let mut generics = Vec::new();
        params.iter().chain([&result]).for_each(|ty| collect_generics(ty, &mut generics));
        Overload { id, member, params, result, generics }
    }
}

fn collect_generics(ty: &Type, out: &mut Vec<char>) {
    match ty {
        Type::Param(name) if !out.contains(name) => out.push(*name),
        Type::List(of) | Type::Optional(of) | Type::Type(Some(of)) => collect_generics(of, out),
        Type::Map(entry) => {
            collect_generics(&entry.0, out);
            collect_generics(&entry.1, out);
        }
        _ => {}
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn ty(&mut self) -> Type {
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(self.rest.len());
        // The dot before an argument list is no part of the name before it.
        let end = if self.rest[..end].ends_with('.') { end - 1 } else { end };
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let mut of = Vec::new();
        if matches!(name, "list" | "map" | "optional_type" | "type") && self.skip("(") {
            while !self.skip(")") {
                of.push(self.ty());
                self.skip(", ");
            }
        }
        match (name, of.as_slice()) {
            ("list", [item]) => Type::list(item.clone()),
            ("map", [key, value]) => Type::map(key.clone(), value.clone()),
            ("optional_type", [value]) => Type::optional(value.clone()),
            ("type", [of]) => Type::Type(Some(Arc::new(of.clone()))),
            _ => simple(name),
        }
    }
}

fn simple(name: &str) -> Type {
    const LIBRARY: [&str; 9] = [
        "kubernetes.Quantity",
        "kubernetes.URL",
        "kubernetes.Semver",
        "kubernetes.NamedFormat",
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    ];
    match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "dyn" => Type::Dyn,
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        name => match (LIBRARY.iter().find(|library| **library == name), name.chars().next()) {
            (Some(library), _) => Type::Library(library),
            (None, Some(letter)) if name.len() == 1 => Type::Param(letter),
            _ => Type::Error,
        },
    }
}
