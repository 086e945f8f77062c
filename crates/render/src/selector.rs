//! Label selectors.

use seaworthy_ignition::node::Node;

use crate::machine_config::MachineConfig;

/// A label selector that is known to be well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads a selector; the error is a path below it and what is wrong there.
    pub fn read(node: &Node<'_>) -> Result<Self, (String, String)> {
        if node.as_map().is_none() {
            let message =
                format!("found {}; accepted is an object with matchLabels or matchExpressions", node.describe());
            return Err((String::new(), message));
        }
        let mut requirements = Vec::new();
        if let Some(labels) = node.get("matchLabels").filter(|labels| !labels.is_null()) {
            let Some(labels) = labels.as_map() else {
                return Err((
                    ".matchLabels".to_owned(),
                    format!("found {}; accepted is an object of strings", labels.describe()),
                ));
            };
            for (key, value) in labels.iter() {
                let Some(value) = value.as_str() else {
                    let message = format!("found {}; accepted is a string; quote it", value.describe());
                    return Err((format!(".matchLabels[{key:?}]"), message));
                };
                requirements.push(Requirement { key: key.to_owned(), operator: Operator::In(vec![value.to_owned()]) });
            }
        }
        let expressions = node.get("matchExpressions").filter(|expressions| !expressions.is_null());
        if let Some(expressions) = expressions {
            let Some(list) = expressions.as_list() else {
                return Err((
                    ".matchExpressions".to_owned(),
                    format!("found {}; accepted is a list", expressions.describe()),
                ));
            };
            for (index, expression) in list.iter().enumerate() {
                requirements.push(Requirement::read(expression, &format!(".matchExpressions[{index}]"))?);
            }
        }
        Ok(Selector { requirements })
    }

    /// Whether it names no label at all. Such a selector means "everything" in Kubernetes and nothing here.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether a MachineConfig has the labels.
    pub fn matches(&self, machine_config: &MachineConfig<'_>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = machine_config.label(&requirement.key);
            match &requirement.operator {
                Operator::In(values) => value.is_some_and(|value| values.iter().any(|wanted| wanted == value)),
                Operator::NotIn(values) => value.is_none_or(|value| values.iter().all(|unwanted| unwanted != value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

impl Requirement {
    fn read(node: &Node<'_>, path: &str) -> Result<Self, (String, String)> {
        let key = node.text_of("key");
        if key.is_empty() {
            return Err((format!("{path}.key"), "a label selector needs a key".to_owned()));
        }
        if let Some(values) = node.get("values").filter(|values| !values.is_null() && values.as_list().is_none()) {
            let message = format!("found {}; accepted is a list of strings", values.describe());
            return Err((format!("{path}.values"), message));
        }
        let values: Vec<String> = node.list_of("values").iter().filter_map(Node::as_str).map(str::to_owned).collect();
        if values.len() != node.list_of("values").len() {
            return Err((format!("{path}.values"), "accepted are strings; quote them".to_owned()));
        }
        let wants_values = |values: Vec<String>| match values.is_empty() {
            true => Err((format!("{path}.values"), "In and NotIn need at least one value".to_owned())),
            false => Ok(values),
        };
        let wants_none = |values: Vec<String>| match values.is_empty() {
            true => Ok(()),
            false => Err((format!("{path}.values"), "Exists and DoesNotExist take no values".to_owned())),
        };
        let operator = match node.text_of("operator") {
            "In" => Operator::In(wants_values(values)?),
            "NotIn" => Operator::NotIn(wants_values(values)?),
            "Exists" => wants_none(values).map(|()| Operator::Exists)?,
            "DoesNotExist" => wants_none(values).map(|()| Operator::DoesNotExist)?,
            other => {
                let message =
                    format!("invalid label selector operator {other:?}; accepted are In, NotIn, Exists, DoesNotExist");
                return Err((format!("{path}.operator"), message));
            }
        };
        Ok(Requirement { key: key.to_owned(), operator })
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (nth, Requirement { key, operator }) in self.requirements.iter().enumerate() {
            if nth > 0 {
                f.write_str(",")?;
            }
            match operator {
                Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Operator::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}
