//! Kernel arguments: split, compared with the running ones, and turned into a change of the next boot.

use seaworthy_host::arguments;

/// The arguments in a list whose items may hold several. Blanks separate them; double quotes protect blanks and are kept.
pub fn split(items: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    items.into_iter().flat_map(|item| arguments(item.as_ref())).collect()
}

/// The arguments to delete and to append: all of the old ones and all of the new ones, in order; none if the lists are equal.
///
/// Compat: machine-config-operator deletes and appends all, so that the order on the command line is the configuration's.
pub fn change(old: &[String], new: &[String]) -> (Vec<String>, Vec<String>) {
    if old == new { (Vec::new(), Vec::new()) } else { (old.to_vec(), new.to_vec()) }
}

/// The wanted arguments that the running kernel has, in the order in which it has them; each counts as often as it is there.
pub fn present(wanted: &[String], running: &[String]) -> Vec<String> {
    let mut left = wanted.to_vec();
    let mut present = Vec::new();
    for argument in running {
        if let Some(at) = left.iter().position(|wanted| wanted == argument) {
            present.push(left.remove(at));
        }
    }
    present
}

/// The wanted arguments that the running kernel lacks; order and repetition do not count.
pub fn missing<'w>(wanted: &'w [String], running: &[String]) -> Vec<&'w str> {
    wanted.iter().filter(|argument| !running.contains(argument)).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn d12_an_argument_that_comes_is_appended() {
        assert_eq!(change(&[], &texts(&["hello=world"])), (vec![], texts(&["hello=world"])));
    }

    #[test]
    fn d13_an_argument_that_goes_is_deleted() {
        assert_eq!(change(&texts(&["hello=world"]), &[]), (texts(&["hello=world"]), vec![]));
    }

    #[test]
    fn d14_all_old_arguments_are_deleted_and_all_new_ones_appended() {
        let old = split(["foo", "bar=1 hello=world", "baz"]);
        let new = split(["foo", "bar=1", "hello=world"]);
        let (delete, append) = change(&old, &new);
        assert_eq!((delete.len(), append.len()), (4, 3));
        assert_eq!(delete, ["foo", "bar=1", "hello=world", "baz"]);
        assert_eq!(append, ["foo", "bar=1", "hello=world"]);
    }

    #[test]
    fn d15_quotes_protect_blanks_and_stay() {
        assert_eq!(split([" baz=test bar=\"hello world\""]), ["baz=test", "bar=\"hello world\""]);
    }

    #[test]
    fn d16_repeated_arguments_stay_in_order() {
        let hugepages = ["hugepagesz=1G hugepages=4", "hugepagesz=2M hugepages=4"];
        assert_eq!(split(hugepages), ["hugepagesz=1G", "hugepages=4", "hugepagesz=2M", "hugepages=4"]);
    }

    #[rstest]
    #[case(&["a", "b"], &["x", "a", "b"], true)]
    #[case(&["a", "b"], &["b", "a"], false)]
    #[case(&["a", "a"], &["a"], false)]
    #[case(&["a"], &["a", "a"], true)]
    fn d33_the_running_arguments_are_those_that_are_wanted_in_their_order(
        #[case] wanted: &[&str],
        #[case] running: &[&str],
        #[case] is_same: bool,
    ) {
        assert_eq!(present(&texts(wanted), &texts(running)) == texts(wanted), is_same);
    }
}
