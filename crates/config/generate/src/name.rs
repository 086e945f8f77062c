//! Names of generated MachineConfigs: `99-<pool>-generated-<word>` for the first object of a pool, `…-1` to `…-9` for
//! the next ones.
//!
//! - Later names win when a pool is rendered, so the number is the precedence. It is one digit: two digits would sort
//!   between the others.
//! - The number is kept in an annotation of the object, one for all its pools. Whoever decides gives the same number to
//!   the same object, in whatever order the objects are looked at: numbers follow the time of creation, then the name.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The highest number.
const HIGHEST: u32 = 9;

/// How the MachineConfigs of a kind are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    /// The last word of the name.
    pub word: &'static str,
    /// What the objects are called in the message that there are too many.
    pub noun: &'static str,
    /// Endings of names that older releases gave, behind `99-<pool>-`.
    pub legacy: &'static [&'static str],
}

/// Why there is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// All numbers above those in use are taken.
    #[error(
        "max number of supported {noun} (10) has been reached. Pool {pool} is selected by {}; delete one of them, or merge \
         their settings", .users.join(", ")
    )]
    TooMany {
        /// What the objects are called.
        noun: &'static str,
        /// The pool.
        pool: String,
        /// The objects that have a number.
        users: Vec<String>,
    },
    /// Another object's annotation holds no number, so the next one is not known.
    #[error(
        "error converting {found:?} to int: the annotation of {object} that numbers its MachineConfigs must be empty or a \
         number; correct it or take it off"
    )]
    NotANumber {
        /// The object.
        object: String,
        /// What it says.
        found: String,
    },
    /// The object's own annotation makes no name.
    #[error(
        "the annotation that numbers its MachineConfigs is {found:?}; accepted are lower-case letters, digits and \
         '-': correct it or take it off"
    )]
    Unusable {
        /// What it says.
        found: String,
    },
    /// An object of another kind has the name.
    #[error("MachineConfig {name} belongs to {kind} {owner}; rename or delete it")]
    Foreign {
        /// The name.
        name: String,
        /// The kind of its owner.
        kind: String,
        /// Its owner.
        owner: String,
    },
    /// Somebody's own MachineConfig has the name.
    #[error(
        "MachineConfig {name} is somebody's own, and nothing is written over it; save it under another name (`kubectl get \
         mc {name} -o yaml`), then `kubectl delete mc {name}`"
    )]
    Taken {
        /// The name.
        name: String,
    },
}

/// An object as far as names depend on it.
#[derive(Debug, Clone)]
pub(crate) struct Claimant<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) created: Option<&'a Time>,
    /// The annotation.
    pub(crate) suffix: Option<&'a str>,
    pub(crate) finalizers: &'a [String],
    /// The pools that it selects.
    pub(crate) pools: BTreeSet<&'a str>,
}

/// An existing MachineConfig as far as names depend on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Existing<'a> {
    /// The object of the kind in question that owns it, by uid.
    pub(crate) owner: Option<&'a str>,
}

/// The names that an object's MachineConfigs have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// For the annotation.
    pub(crate) suffix: String,
    /// By pool.
    pub(crate) names: BTreeMap<String, Result<String, NameError>>,
}

// === impl Scheme ===

impl Scheme {
    /// The name with a suffix.
    pub fn name(&self, pool: &str, suffix: &str) -> String {
        let dash = if suffix.is_empty() { "" } else { "-" };
        format!("99-{pool}-generated-{}{dash}{suffix}", self.word)
    }

    /// The suffix of a name, if it is one of this pool.
    pub fn suffix<'n>(&self, pool: &str, name: &'n str) -> Option<&'n str> {
        let rest = name.strip_prefix("99-")?.strip_prefix(pool)?.strip_prefix("-generated-")?;
        suffix_behind(rest.strip_prefix(self.word)?)
    }

    /// Whether a name is one of any pool.
    pub fn is_name(&self, name: &str) -> bool {
        let Some((_, rest)) = name.strip_prefix("99-").and_then(|rest| rest.rsplit_once("-generated-")) else {
            return false;
        };
        rest.strip_prefix(self.word).and_then(suffix_behind).is_some()
    }

    /// The names that older releases gave to the first MachineConfig of a pool.
    pub fn legacy_names(&self, pool: &str, uid: &str) -> Vec<String> {
        let by_uid = (!uid.is_empty()).then(|| format!("99-{pool}-{uid}-{}", self.word));
        by_uid.into_iter().chain(self.legacy.iter().map(|ending| format!("99-{pool}-{ending}"))).collect()
    }

    /// Gives an object its names. `all` has every live object of the kind, this one included.
    pub(crate) fn assign(
        &self,
        me: &Claimant<'_>,
        all: &[Claimant<'_>],
        existing: &BTreeMap<&str, Existing<'_>>,
    ) -> Result<Assignment, NameError> {
        let suffix = match me.suffix {
            Some(suffix) => suffix.to_owned(),
            None => self.suffix_for(me, all, existing)?,
        };
        if !suffix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            || suffix.ends_with('-')
        {
            return Err(NameError::Unusable { found: suffix });
        }
        let names =
            me.pools.iter().map(|pool| ((*pool).to_owned(), self.name_in(pool, &suffix, me, all, existing))).collect();
        Ok(Assignment { suffix, names })
    }

    /// The suffix of an object that has no annotation yet.
    fn suffix_for(
        &self,
        me: &Claimant<'_>,
        all: &[Claimant<'_>],
        existing: &BTreeMap<&str, Existing<'_>>,
    ) -> Result<String, NameError> {
        let mut in_order: Vec<&Claimant<'_>> = all.iter().collect();
        in_order.sort_by(|a, b| order(a, b));
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        for claimant in &in_order {
            match self.number_of(claimant, existing) {
                Some(Ok(number)) => drop(numbers.insert(claimant.name, number)),
                Some(Err(error)) if !claimant.pools.is_disjoint(&me.pools) => return Err(error),
                _ => {}
            }
        }
        // Differs: upstream gives numbers in the order in which objects happen to be looked at, so the older of two may
        // win over the newer. Here everyone who has no number yet is given one in the order of creation.
        for claimant in in_order.iter().filter(|claimant| self.number_of(claimant, existing).is_none()) {
            let shares =
                |other: &&&Claimant<'_>| other.name != claimant.name && !other.pools.is_disjoint(&claimant.pools);
            let rivals: Vec<&&Claimant<'_>> = in_order.iter().filter(shares).collect();
            let above = |rivals: &mut dyn Iterator<Item = &&&Claimant<'_>>| {
                rivals.filter_map(|rival| numbers.get(rival.name)).max().map_or(0, |highest| highest + 1)
            };
            let mut number = above(&mut rivals.iter().filter(|rival| order(rival, claimant) == Ordering::Less));
            if rivals.iter().any(|rival| numbers.get(rival.name) == Some(&number)) {
                number = above(&mut rivals.iter());
            }
            if number > HIGHEST {
                if claimant.name == me.name {
                    return Err(self.too_many(me, &rivals, &numbers));
                }
                continue;
            }
            numbers.insert(claimant.name, number);
        }
        Ok(numbers.get(me.name).filter(|number| **number > 0).map(u32::to_string).unwrap_or_default())
    }

    /// The number that an object has already: by its annotation, or by a finalizer that names an existing
    /// MachineConfig. `None` if it has none.
    fn number_of(
        &self,
        claimant: &Claimant<'_>,
        existing: &BTreeMap<&str, Existing<'_>>,
    ) -> Option<Result<u32, NameError>> {
        if let Some(suffix) = claimant.suffix {
            return Some(
                number(suffix).ok_or_else(|| NameError::NotANumber {
                    object: claimant.name.to_owned(),
                    found: suffix.to_owned(),
                }),
            );
        }
        let of_finalizer = |finalizer: &String| {
            let found = existing.get(finalizer.as_str())?;
            let is_others = found.owner.is_some_and(|owner| owner != claimant.uid);
            let suffix = claimant.pools.iter().find_map(|pool| self.suffix(pool, finalizer))?;
            number(suffix).filter(|_| !is_others)
        };
        claimant.finalizers.iter().filter_map(of_finalizer).max().map(Ok)
    }

    /// The name in one pool.
    fn name_in(
        &self,
        pool: &str,
        suffix: &str,
        me: &Claimant<'_>,
        all: &[Claimant<'_>],
        existing: &BTreeMap<&str, Existing<'_>>,
    ) -> Result<String, NameError> {
        let rivals: Vec<&Claimant<'_>> =
            all.iter().filter(|other| other.name != me.name && other.pools.contains(pool)).collect();
        let name = self.name(pool, suffix);
        let owner = existing.get(name.as_str()).and_then(|found| found.owner).filter(|owner| !owner.is_empty());
        let is_taken = match owner {
            Some(owner) => owner != me.uid && rivals.iter().any(|rival| rival.uid == owner),
            None => rivals.iter().any(|rival| rival.suffix == Some(suffix) && order(rival, me) == Ordering::Less),
        };
        if !is_taken {
            return Ok(name);
        }
        // Differs: upstream lets both objects write the one MachineConfig in turns. It happens when a pool gets a label
        // that an object selects whose number somebody has in that pool already.
        let mine = |(name, found): (&&str, &Existing<'_>)| {
            let suffix = self.suffix(pool, name).filter(|_| found.owner == Some(me.uid))?;
            number(suffix).map(|number| (number, (*name).to_owned()))
        };
        if let Some((_, name)) = existing.iter().filter_map(mine).max() {
            return Ok(name);
        }
        let in_use = existing.iter().filter_map(|(name, found)| {
            let is_rival = found.owner.is_some_and(|owner| rivals.iter().any(|rival| rival.uid == owner));
            number(self.suffix(pool, name)?).filter(|_| is_rival)
        });
        let numbered = rivals.iter().filter_map(|rival| number(rival.suffix?));
        let next = in_use.chain(numbered).max().map_or(0, |highest| highest + 1);
        if next > HIGHEST {
            let users = rivals.iter().map(|rival| rival.name.to_owned()).collect();
            return Err(NameError::TooMany { noun: self.noun, pool: pool.to_owned(), users });
        }
        Ok(self.name(pool, &next.to_string()))
    }

    fn too_many(&self, me: &Claimant<'_>, rivals: &[&&Claimant<'_>], numbers: &BTreeMap<&str, u32>) -> NameError {
        let numbered = rivals.iter().filter(|rival| numbers.contains_key(rival.name));
        let pool = me.pools.iter().find(|pool| rivals.iter().any(|rival| rival.pools.contains(**pool)));
        NameError::TooMany {
            noun: self.noun,
            pool: pool.map(|pool| (*pool).to_owned()).unwrap_or_default(),
            users: numbered.map(|rival| rival.name.to_owned()).collect(),
        }
    }
}

/// Earlier objects come first.
fn order(a: &Claimant<'_>, b: &Claimant<'_>) -> Ordering {
    // An object that was never stored is the newest.
    let time = |claimant: &Claimant<'_>| claimant.created.map(|time| time.0);
    match (time(a), time(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
    .then_with(|| a.name.cmp(b.name))
}

/// What stands behind the word of a name: nothing, or a dash and the suffix.
fn suffix_behind(rest: &str) -> Option<&str> {
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('-').filter(|suffix| !suffix.is_empty()) }
}

/// The number of a suffix; the empty one counts as 0.
fn number(suffix: &str) -> Option<u32> {
    if suffix.is_empty() { Some(0) } else { suffix.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEME: Scheme = Scheme { word: "kubelet", noun: "kubelet config", legacy: &["kubelet-managed"] };

    #[test]
    fn a_name_is_told_from_one_that_only_contains_it() {
        assert_eq!(SCHEME.suffix("worker", "99-worker-generated-kubelet"), Some(""));
        assert_eq!(SCHEME.suffix("worker", "99-worker-generated-kubelet-3"), Some("3"));
        assert_eq!(SCHEME.suffix("worker", "99-worker-generated-kubelets"), None);
        assert_eq!(SCHEME.suffix("work", "99-worker-generated-kubelet"), None);
        assert!(SCHEME.is_name("99-pool-1-generated-kubelet"));
        assert!(!SCHEME.is_name("98-worker-generated-kubelet"));
        assert!(!SCHEME.is_name("99-my-generated-kubelet.conf"));
        assert_eq!(SCHEME.legacy_names("w", "u"), ["99-w-u-kubelet", "99-w-kubelet-managed"]);
    }
}
