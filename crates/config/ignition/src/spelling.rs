//! Spelling suggestions: the known word that is nearest to an unknown one.

use strsim::osa_distance;

/// Longer words are not compared: no name in a manifest is that long, and comparing costs the product of the lengths.
const MAX_WORD_LENGTH: usize = 64;

/// The known word that is nearest to a misspelt one, if one is near enough. Case is ignored.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = lower(word)?;
    // In a short word every slip of the finger is a good part of it.
    let most = match word.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6 => 2,
        _ => 3,
    };
    // Letters that are inserted, left out, changed, or swapped with their neighbour; none is edited twice.
    let distances = known.into_iter().filter_map(|known| Some((osa_distance(&word, &lower(known)?), known)));
    distances.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

fn lower(word: &str) -> Option<String> {
    (word.len() <= MAX_WORD_LENGTH).then(|| word.chars().flat_map(char::to_lowercase).collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("lables", Some("labels"))]
    #[case("wroker", Some("worker"))]
    #[case("MACHINECONFIGSELECTOR", Some("machineConfigSelector"))]
    #[case("kernelArgument", Some("kernelArguments"))]
    #[case("kernelargs", None)]
    #[case("fip", Some("fips"))]
    #[case("wrkr", None)]
    #[case("x", None)]
    #[case("", None)]
    #[case("master", None)]
    fn the_nearest_word_is_found_and_no_far_one(#[case] word: &str, #[case] meant: Option<&str>) {
        let known = ["labels", "worker", "machineConfigSelector", "kernelArguments", "fips"];
        assert_eq!(nearest(word, known), meant);
    }

    #[test]
    fn of_two_near_words_the_nearer_is_taken() {
        assert_eq!(nearest("dropin", ["dropsin", "dropins", "dropin"]), Some("dropin"));
    }

    #[test]
    fn an_endless_word_is_not_compared() {
        assert_eq!(nearest(&"a".repeat(1 << 20), ["a"]), None);
    }

    #[rstest]
    #[case("", "", 0)]
    #[case("abc", "", 3)]
    #[case("abc", "acb", 1)]
    #[case("abc", "abcd", 1)]
    #[case("abc", "xbc", 1)]
    #[case("ca", "abc", 3)]
    fn distances(#[case] from: &str, #[case] to: &str, #[case] expected: usize) {
        assert_eq!(osa_distance(from, to), expected);
        assert_eq!(osa_distance(to, from), expected);
    }
}
