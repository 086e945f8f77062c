//! The output of the YAML writer is YAML with the same content.

use proptest::collection::vec;
use proptest::prelude::*;
use seaworthy_ignition::Node;
use seaworthy_render::yaml;
use serde_json::{Map, Value};

/// Characters that make trouble in YAML more often than chance would have it.
fn text() -> impl Strategy<Value = String> {
    let trouble = prop::sample::select(vec![
        " ",
        "  ",
        "\n",
        "\n\n",
        "\t",
        "\r",
        "\r\n",
        ":",
        ": ",
        " #",
        "#",
        "-",
        "- ",
        "---",
        "...",
        "?",
        "? ",
        ",",
        "[",
        "]",
        "{",
        "}",
        "&",
        "*",
        "!",
        "|",
        ">",
        "'",
        "''",
        "\"",
        "%",
        "@",
        "`",
        "~",
        "null",
        "yes",
        "0x1",
        "1e3",
        "1_0",
        ".5",
        "0o7",
        "12:30",
        "2001-01-01",
        "=",
        "<<",
        "\\",
        "\\n",
        "\u{0}",
        "\u{7}",
        "\u{1b}",
        "\u{7f}",
        "\u{80}",
        "\u{a0}",
        "\u{feff}",
        "\u{fffe}",
        "ü",
        "日本",
        "\u{1f600}",
        "word",
        "a longer piece of text that is here to be folded",
    ]);
    prop_oneof![
        2 => vec(trouble, 0..8).prop_map(|pieces| pieces.concat()),
        1 => "\\PC{0,200}",
        1 => "([a-z]{1,12} ){0,30}",
        1 => any::<String>(),
    ]
}

/// Whether readers of YAML 1.2 and 1.1 agree on a text: of these three characters the older makes line breaks.
fn is_the_same_in_both(text: &str) -> bool {
    !text.contains(['\u{85}', '\u{2028}', '\u{2029}'])
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        5 => text().prop_filter("the same to all", |text| is_the_same_in_both(text)).prop_map(Value::from),
    ];
    // A key `<<` is one that YAML 1.1 merges; the library that is followed here writes it bare all the same.
    let key = text().prop_filter("the same to all", |key| is_the_same_in_both(key) && key != "<<").boxed();
    leaf.prop_recursive(4, 30, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((key.clone(), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_written(text in prop_oneof![text(), any::<String>()]) {
        let json = serde_json::json!([text.clone(), {text: null}]);
        prop_assert!(yaml::to_string(&Node::from_json(&json)).ends_with('\n'));
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_value(value in any_value()) {
        let written = yaml::to_string(&Node::from_json(&value));
        let back: Result<Value, _> = serde_saphyr::from_str(&written);
        match back {
            Ok(back) => prop_assert_eq!(back, value, "{}", written),
            Err(error) => prop_assert!(false, "{error}\n{written:?}"),
        }
    }
}
