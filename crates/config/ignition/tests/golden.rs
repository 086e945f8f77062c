//! The configs that the upstream server serves, in every version that a machine may ask for.

use seaworthy_ignition::{Node, Version, take_kernel_arguments, translate_down};
use serde_json::Value;

use crate::recorded::rows;

#[test]
fn served_configs_are_translated_as_upstream_does() {
    let all = rows("golden/translations.jsonl");
    assert_eq!(all.len(), 60);
    let mut compared = 0;
    for (line, row) in all.iter().enumerate() {
        let answers = row["answers"].as_object().unwrap();
        assert_eq!(answers.len(), Version::WRITABLE.len());
        for (version, answer) in answers {
            let version = Version::parse(version).unwrap();
            let mut config = Node::from_json(&row["config"]);
            if version < Version::V3_3 {
                take_kernel_arguments(&mut config);
            }
            let ours = translate_down(&config, version).map(|config| config.to_json());
            let ours = ours.unwrap_or_else(|problems| panic!("line {line} to {version}: {problems:?}"));
            assert_eq!(answer["status"], 200);
            assert_eq!(ours, answer["config"], "line {line} to {version}");
            compared += 1;
        }
    }
    assert_eq!(compared, 360);
}

#[test]
fn kernel_arguments_are_moved_out_and_removals_stay() {
    let json: Value = serde_json::json!({
        "ignition": {"version": "3.5.0"},
        "kernelArguments": {"shouldExist": ["a", "b=1"], "shouldNotExist": ["c"]},
    });
    let mut config = Node::from_json(&json);
    assert_eq!(take_kernel_arguments(&mut config), ["a", "b=1"]);
    assert_eq!(take_kernel_arguments(&mut config), Vec::<String>::new());
    let problems = translate_down(&config, Version::V3_2).unwrap_err();
    assert_eq!(problems[0].path.to_string(), "kernelArguments");
    assert!(translate_down(&config, Version::V3_3).is_ok());
}
