//! Boot state: image, kernel, kernel arguments and packages of a boot, and the change from a boot to another state.
//!
//! A machine may boot into part of a change. The next change, forward or back, starts from what is booted: nothing is added
//! twice, and nothing is taken for old because it was booted.

use std::collections::BTreeSet;

use seaworthy_host::{Boot, BootChange, BootDriver, Kernel};
use serde::{Deserialize, Serialize};

/// The state of a boot, actual or desired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    pub arguments: Vec<String>,
    pub kernel: Kernel,
    /// Packages that were added by request.
    pub packages: Vec<String>,
    /// The image that packages come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions_image: Option<String>,
}

impl From<&Boot> for BootState {
    fn from(boot: &Boot) -> Self {
        BootState {
            image: boot.image.clone(),
            arguments: boot.arguments.clone(),
            kernel: boot.kernel,
            packages: boot.packages.clone(),
            extensions_image: None,
        }
    }
}

impl BootState {
    /// The state after a change.
    pub fn after(mut self, change: &BootChange) -> Self {
        if change.image.is_some() {
            self.image = change.image.clone();
        }
        for gone in &change.delete {
            if let Some(at) = self.arguments.iter().position(|argument| argument == gone) {
                self.arguments.remove(at);
            }
        }
        self.arguments.extend(change.append.iter().cloned());
        if let Some((_, kernel)) = change.kernel {
            self.kernel = kernel;
        }
        self.packages.retain(|package| !change.uninstall.contains(package));
        self.packages.extend(change.install.iter().cloned());
        self.extensions_image = change.extensions_image.clone();
        self
    }
}

/// The parts of the goal that a boot lacks, each in words. Only parts that `scope` changes are compared.
pub fn missing_parts(boot: &Boot, goal: &BootState, scope: &BootChange) -> Vec<String> {
    let mut missing = Vec::new();
    if let Some(image) = goal.image.as_ref().filter(|_| scope.image.is_some() && boot.image != goal.image) {
        missing.push(format!("image {image}"));
    }
    missing.extend(missing_arguments(boot, goal, scope));
    if scope.kernel.is_some() && boot.kernel != goal.kernel {
        missing.push(format!("kernel {:?}", goal.kernel));
    }
    let (install, uninstall) = packages(boot, goal, scope);
    missing.extend(install.iter().map(|it| format!("package {it}")));
    missing.extend(uninstall.iter().map(|it| format!("a boot without package {it}")));
    missing
}

/// The change from a boot to the goal, limited to the parts that `scope` changes; empty if nothing is missing.
pub fn change_towards(boot: &Boot, goal: &BootState, scope: &BootChange) -> BootChange {
    if missing_parts(boot, goal, scope).is_empty() {
        return BootChange::default();
    }
    let image = goal.image.clone().filter(|_| scope.image.is_some() && boot.image != goal.image);
    let (mut delete, mut append) = (Vec::new(), Vec::new());
    if !missing_arguments(boot, goal, scope).is_empty() {
        // All that are booted are deleted and all of the goal are appended, so that none is doubled and the order is right.
        let ours = arguments(scope);
        let of = |list: &[String]| list.iter().filter(|argument| ours.contains(argument)).cloned().collect();
        (delete, append) = (of(&boot.arguments), of(&goal.arguments));
    }
    let is_kernel_new = boot.kernel != goal.kernel || (image.is_some() && goal.kernel != Kernel::Default);
    let kernel = (scope.kernel.is_some() && is_kernel_new).then_some((boot.kernel, goal.kernel));
    let (install, uninstall) = packages(boot, goal, scope);
    let mut change = BootChange { image, delete, append, kernel, install, uninstall, extensions_image: None };
    if needs_packages(&change) {
        change.extensions_image = goal.extensions_image.clone();
    }
    change
}

/// Whether a change composes the machine's packages again.
pub fn needs_packages(change: &BootChange) -> bool {
    change.image.is_some() || change.kernel.is_some() || !(change.install.is_empty() && change.uninstall.is_empty())
}

/// Whether a driver stages a change relative to what is booted. A boot loader's menu is changed relative to the menu.
pub fn starts_from_boot(driver: BootDriver) -> bool {
    matches!(driver, BootDriver::RpmOstree | BootDriver::Bootc)
}

/// The arguments that a change deletes or appends.
fn arguments(scope: &BootChange) -> BTreeSet<&String> {
    scope.delete.iter().chain(&scope.append).collect()
}

/// One occurrence is enough for several wanted, since some boot loaders keep no second one. Surplus occurrences always count.
fn missing_arguments(boot: &Boot, goal: &BootState, scope: &BootChange) -> Vec<String> {
    let count = |list: &[String], one: &String| list.iter().filter(|it| *it == one).count();
    let mut missing = Vec::new();
    for argument in arguments(scope) {
        let (booted, wanted) = (count(&boot.arguments, argument), count(&goal.arguments, argument));
        if booted == 0 && wanted > 0 {
            missing.push(format!("kernel argument {argument}"));
        } else if booted > wanted {
            missing.push(format!("a boot without kernel argument {argument}"));
        }
    }
    missing
}

/// The packages to install and to uninstall.
fn packages(boot: &Boot, goal: &BootState, scope: &BootChange) -> (Vec<String>, Vec<String>) {
    let ours: BTreeSet<&String> = scope.install.iter().chain(&scope.uninstall).collect();
    let only = |here: &[String], not_there: &[String]| {
        here.iter().filter(|package| ours.contains(package) && !not_there.contains(package)).cloned().collect()
    };
    (only(&goal.packages, &boot.packages), only(&boot.packages, &goal.packages))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    fn boot(image: &str, arguments: &[&str], kernel: Kernel, packages: &[&str]) -> Boot {
        Boot {
            id: "1".to_owned(),
            driver: BootDriver::RpmOstree,
            image: Some(image.to_owned()),
            arguments: texts(arguments),
            kernel,
            packages: texts(packages),
            is_fips: false,
        }
    }

    fn change() -> BootChange {
        BootChange {
            image: Some("new".to_owned()),
            delete: texts(&["a=1"]),
            append: texts(&["b=2", "c=3"]),
            kernel: Some((Kernel::Default, Kernel::Realtime)),
            install: texts(&["sysstat"]),
            uninstall: texts(&["usbguard"]),
            extensions_image: Some("new-extensions".to_owned()),
        }
    }

    fn old() -> Boot {
        boot("old", &["root", "a=1"], Kernel::Default, &["vim", "usbguard"])
    }

    #[test]
    fn on_from_part_of_a_change_only_the_rest_comes_and_nothing_twice() {
        let (change, goal) = (change(), BootState::from(&old()).after(&change()));
        let part = boot("new", &["root", "b=2"], Kernel::Default, &["vim", "sysstat", "usbguard"]);
        let rest = change_towards(&part, &goal, &change);
        assert_eq!((rest.image, rest.kernel), (None, Some((Kernel::Default, Kernel::Realtime))));
        assert_eq!((rest.delete, rest.append), (texts(&["b=2"]), texts(&["b=2", "c=3"])));
        assert_eq!((rest.install, rest.uninstall), (texts(&[]), texts(&["usbguard"])));
        assert_eq!(rest.extensions_image.as_deref(), Some("new-extensions"));
    }

    #[test]
    fn back_from_part_of_a_change_exactly_that_part_goes() {
        let (change, mut goal) = (change(), BootState::from(&old()));
        goal.extensions_image = Some("old-extensions".to_owned());
        let part = boot("new", &["root", "b=2"], Kernel::Realtime, &["vim", "sysstat"]);
        let back = change_towards(&part, &goal, &change);
        assert_eq!((back.image.as_deref(), back.kernel), (Some("old"), Some((Kernel::Realtime, Kernel::Default))));
        assert_eq!((back.delete, back.append), (texts(&["b=2"]), texts(&["a=1"])));
        assert_eq!((back.install, back.uninstall), (texts(&["usbguard"]), texts(&["sysstat"])));
        assert_eq!(back.extensions_image.as_deref(), Some("old-extensions"));
        assert!(change_towards(&old(), &goal, &change).is_empty());
    }

    #[test]
    fn what_a_change_does_not_touch_is_not_compared() {
        let scope = BootChange { append: texts(&["b=2"]), ..BootChange::default() };
        let goal = BootState::from(&old()).after(&scope);
        let other = boot("other", &["root", "x", "b=2"], Kernel::Pages64k, &[]);
        assert_eq!(missing_parts(&other, &goal, &scope), texts(&[]));
        assert!(change_towards(&other, &goal, &scope).is_empty());
    }

    #[test]
    fn a_second_one_of_the_same_argument_is_too_many_and_one_for_two_is_enough() {
        let scope = BootChange { append: texts(&["quiet"]), ..BootChange::default() };
        let goal = BootState { arguments: texts(&["quiet", "quiet"]), ..BootState::default() };
        assert!(missing_parts(&boot("i", &["quiet"], Kernel::Default, &[]), &goal, &scope).is_empty());
        assert!(!missing_parts(&boot("i", &["quiet"; 3], Kernel::Default, &[]), &goal, &scope).is_empty());
        assert!(!missing_parts(&boot("i", &[], Kernel::Default, &[]), &goal, &scope).is_empty());
    }
}
