//! Budget: how many nodes of a pool may be unavailable at a time.

use seaworthy_api::meta::IntOrString;
use seaworthy_api::vocabulary::machineconfiguration::{ARBITER, MASTER};

/// A maxUnavailable that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "MachineConfigPool {pool}: spec.maxUnavailable is {found:?}; expected a whole number such as 2, without quotes, or a \
     percentage such as \"10%\"; no node is given a new configuration until it is corrected"
)]
pub struct BudgetError {
    pub pool: String,
    /// What was found.
    pub found: String,
}

/// How many nodes of a pool may be unavailable: one where the pool does not set it.
///
/// A percentage is rounded down, and zero becomes one: a pool that never moves is made by pausing it. A negative number
/// means "never", as upstream takes it.
pub fn max_unavailable(pool: &str, value: Option<&IntOrString>, nodes: usize) -> Result<i64, BudgetError> {
    // One node keeps quorum with the control plane; whatever the pool says, it is never more than one.
    if pool == ARBITER {
        return Ok(1);
    }
    let most = match value {
        None => 1,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok());
            let percent = percent.ok_or_else(|| BudgetError { pool: pool.to_owned(), found: text.clone() })?;
            // No fleet is so large that the product of the two does not fit.
            percent.saturating_mul(i64::try_from(nodes).unwrap_or(i64::MAX)).div_euclid(100)
        }
    };
    Ok(if most == 0 { 1 } else { most })
}

/// A remark about a maxUnavailable that does not mean what it seems to.
pub fn remark(pool: &str, value: Option<&IntOrString>, nodes: usize) -> Option<String> {
    let most = max_unavailable(pool, Some(value?), nodes).ok()?;
    let shown = match value? {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => format!("{text:?}"),
    };
    let is_nothing =
        matches!(value?, IntOrString::Int(0)) || matches!(value?, IntOrString::String(text) if text == "0%");
    match usize::try_from(most) {
        _ if is_nothing => {
            Some(format!("spec.maxUnavailable is {shown}, which counts as 1; to stop updates, pause the pool"))
        }
        Ok(most) if nodes > 1 && most >= nodes => Some(format!(
            "spec.maxUnavailable is {shown}: all {nodes} nodes of the pool may be unavailable at the same time"
        )),
        // With two control-plane nodes there is no majority when either is unavailable.
        Ok(most) if pool == MASTER && nodes > 2 && most > (nodes - 1) / 2 => Some(format!(
            "spec.maxUnavailable is {shown}: {most} of {nodes} control-plane nodes may be unavailable at the same time, and the \
             control plane would lose quorum; set it to {} at most",
            (nodes - 1) / 2
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    // Row 91.
    #[rstest]
    #[case(None, 1)]
    #[case(Some(2.into()), 2)]
    #[case(Some(0.into()), 1)]
    #[case(Some("50%".into()), 2)]
    #[case(Some("60%".into()), 2)]
    #[case(Some("5%".into()), 1)]
    #[case(Some("150%".into()), 6)]
    #[case(Some((-1).into()), -1)]
    fn of_four_nodes(#[case] value: Option<IntOrString>, #[case] most: i64) {
        assert_eq!(max_unavailable("worker", value.as_ref(), 4), Ok(most));
    }

    #[rstest]
    #[case(None, 4, "")]
    #[case(Some(0.into()), 4, "counts as 1")]
    #[case(Some("0%".into()), 4, "counts as 1")]
    #[case(Some("150%".into()), 3, "all 3 nodes")]
    #[case(Some(3.into()), 3, "all 3 nodes")]
    #[case(Some(2.into()), 3, "")]
    #[case(Some(1.into()), 1, "")]
    #[case(Some((-1).into()), 3, "")]
    #[case(Some("x".into()), 3, "")]
    fn surprising_max_unavailable_is_remarked_on(
        #[case] value: Option<IntOrString>,
        #[case] nodes: usize,
        #[case] reported: &str,
    ) {
        let found = remark("worker", value.as_ref(), nodes).unwrap_or_default();
        assert!(found.contains(reported) && found.is_empty() == reported.is_empty(), "{found}");
    }

    #[rstest]
    #[case(1.into(), 3, "")]
    #[case(2.into(), 3, "2 of 3 control-plane nodes may be unavailable at the same time, and the control plane would lose quorum; set it to 1 at most")]
    #[case(3.into(), 3, "all 3 nodes")]
    #[case("40%".into(), 5, "")]
    #[case("60%".into(), 5, "3 of 5 control-plane nodes")]
    #[case(1.into(), 1, "")]
    #[case(1.into(), 2, "")]
    fn budget_that_costs_the_control_plane_its_majority_is_remarked_on(
        #[case] value: IntOrString,
        #[case] nodes: usize,
        #[case] reported: &str,
    ) {
        let found = remark(MASTER, Some(&value), nodes).unwrap_or_default();
        assert!(found.contains(reported) && found.is_empty() == reported.is_empty(), "{found}");
    }

    // Row 92.
    #[rstest]
    #[case("50 percent")]
    #[case("60")]
    #[case("40 %")]
    #[case("%")]
    #[case("")]
    fn what_is_no_percentage_is_refused_by_name(#[case] text: &str) {
        let error = max_unavailable("worker", Some(&text.into()), 4).unwrap_err();
        assert!(error.to_string().starts_with(&format!("MachineConfigPool worker: spec.maxUnavailable is {text:?}; ")));
    }

    #[test]
    fn an_arbiter_is_alone_whatever_its_pool_says() {
        assert_eq!(max_unavailable("arbiter", Some(&5.into()), 4), Ok(1));
        assert_eq!(max_unavailable("arbiter", Some(&"x".into()), 4), Ok(1));
    }

    #[test]
    fn a_percentage_beyond_all_bounds_is_no_overflow() {
        assert!(max_unavailable("worker", Some(&"9223372036854775807%".into()), 5000).is_ok());
        assert!(max_unavailable("worker", Some(&"92233720368547758070%".into()), 5000).is_err());
    }
}
