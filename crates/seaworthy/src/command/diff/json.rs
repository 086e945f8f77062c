//! Differences as JSON.

use seaworthy_ignition::Change;
use seaworthy_ignition::diff::ChangeKind;
use seaworthy_ignition::node::Node;
use serde_json::{Value, json};

use super::pool_diff::{FieldDifference, PoolDiff, noun};
use crate::display::{secret, value};

pub fn of(reports: &[PoolDiff<'_>]) -> Value {
    let differs = reports.iter().any(PoolDiff::differs);
    let pools: Vec<Value> = reports.iter().map(report_json).collect();
    json!({"differs": differs, "pools": pools})
}

fn report_json(report: &PoolDiff<'_>) -> Value {
    let fields = report.fields.iter().map(field_json);
    json!({
        "pool": report.pool,
        "old": report.old.map(|outcome| outcome.name.as_str()),
        "new": report.new.map(|outcome| outcome.name.as_str()),
        "changes": fields.chain(report.changes.iter().map(change_json)).collect::<Vec<_>>(),
    })
}

fn field_json(field: &FieldDifference<'_>) -> Value {
    let value = |node: &Option<&Node<'_>>| node.map(Node::to_json);
    match field {
        FieldDifference::Scalar { field, old, new } => {
            json!({"subject": field, "change": "changed", "old": value(old), "new": value(new)})
        }
        FieldDifference::Item { list, sign, text } => {
            let change = if *sign == '+' { "added" } else { "removed" };
            json!({"subject": format!("{} {text}", noun(list)), "change": change})
        }
        FieldDifference::Order { list } => json!({"subject": list, "change": "reordered"}),
    }
}

fn change_json(change: &Change<'_>) -> Value {
    let subject = change.entry.to_string();
    let is_secret = secret::is_in(change);
    let whole = |node: &Node<'_>| value::json("", node, is_secret);
    let (mut json, old, new) = match &change.what {
        ChangeKind::Added(node) => {
            (json!({"subject": subject, "change": "added", "new": whole(node)}), None, Some(*node))
        }
        ChangeKind::Removed(node) => {
            (json!({"subject": subject, "change": "removed", "old": whole(node)}), Some(*node), None)
        }
        ChangeKind::Moved { from, to, old, new } => {
            let json = json!({
                "subject": subject, "change": "moved", "from": from, "to": to, "old": whole(old), "new": whole(new),
            });
            (json, Some(*old), Some(*new))
        }
        ChangeKind::Changed { old, new, fields } => {
            let field = |field: &seaworthy_ignition::diff::FieldChange<'_>| {
                let path = field.path.to_string();
                let of = |node: Option<&Node<'_>>| node.map(|node| value::json(&path, node, is_secret));
                json!({"path": path, "old": of(field.old), "new": of(field.new)})
            };
            let fields: Vec<Value> = fields.iter().map(field).collect();
            (json!({"subject": subject, "change": "changed", "fields": fields}), Some(*old), Some(*new))
        }
    };
    if is_secret {
        json["hidden"] = json!({"oldBytes": old.and_then(secret::size_of), "newBytes": new.and_then(secret::size_of)});
    }
    json
}
