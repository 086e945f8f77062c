//! Test results: the `test result:` lines of cargo's test harness, added up over all binaries.
//!
//! The last binary of a run is often one without tests, so a reader of the closing lines would see "0 passed";
//! the sum, printed last in the same form, says what really ran.

use std::fmt;

/// The numbers of one `test result:` line, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestResult {
    /// Tests that ran and passed.
    pub passed: u64,
    /// Tests that ran and failed.
    pub failed: u64,
    /// Tests that are marked to be left out.
    pub ignored: u64,
    /// Benchmarks.
    pub measured: u64,
    /// Tests that a name filter left out.
    pub filtered: u64,
}

impl TestResult {
    /// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; …`; `None` for any other line.
    pub fn parse(line: &str) -> Option<Self> {
        let (_verdict, counts) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
        let count = |word: &str| {
            // The time at the end of the line has no count in front of its words.
            counts.split("; ").find_map(|part| part.strip_suffix(word)?.trim_end().parse::<u64>().ok())
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            ignored: count("ignored")?,
            measured: count("measured")?,
            filtered: count("filtered out")?,
        })
    }

    /// Adds another binary's numbers.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.measured += other.measured;
        self.filtered += other.filtered;
    }
}

impl fmt::Display for TestResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.failed == 0 { "ok" } else { "FAILED" };
        let Self { passed, failed, ignored, measured, filtered } = self;
        write!(f, "test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; ")?;
        write!(f, "{measured} measured; {filtered} filtered out")
    }
}

/// A test that the harness left out: its name, and the reason if one is written beside the mark.
pub fn ignored_test(line: &str) -> Option<(&str, &str)> {
    let (name, verdict) = line.trim().strip_prefix("test ")?.rsplit_once(" ... ignored")?;
    Some((name, verdict.strip_prefix(", ").unwrap_or("marked to be ignored")))
}

/// A test of which the harness says that it takes long.
pub fn slow_test(line: &str) -> Option<&str> {
    line.trim().strip_prefix("test ")?.split_once(" has been running for over ").map(|(name, _)| name)
}

/// A test that has ended, however.
pub fn ended_test(line: &str) -> Option<&str> {
    line.trim().strip_prefix("test ")?.rsplit_once(" ... ").map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::{TestResult, ended_test, ignored_test, slow_test};

    #[test]
    fn slow_tests_and_ended_ones_are_distinguished() {
        let slow = "test a::b has been running for over 60 seconds";
        assert_eq!((slow_test(slow), ended_test(slow)), (Some("a::b"), None));
        for ended in ["test a::b ... ok", "test a::b ... FAILED"] {
            assert_eq!((slow_test(ended), ended_test(ended)), (None, Some("a::b")));
        }
    }

    #[test]
    fn result_lines_add_up() {
        let lines = [
            "running 4 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ];
        let mut sum = TestResult::default();
        lines.iter().filter_map(|line| TestResult::parse(line)).for_each(|result| sum.add(result));
        assert_eq!(sum, TestResult { passed: 4, failed: 2, ignored: 1, measured: 0, filtered: 0 });
        assert_eq!(sum.to_string(), "test result: FAILED. 4 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out");
    }

    #[test]
    fn printed_result_reads_back() {
        let result = TestResult { passed: 7, failed: 0, ignored: 2, measured: 1, filtered: 3 };
        assert_eq!(TestResult::parse(&result.to_string()), Some(result));
    }

    #[test]
    fn other_lines_are_not_results() {
        assert_eq!(TestResult::parse("test result: ok. many passed"), None);
        assert_eq!(TestResult::parse("test tests::result ... ok"), None);
    }

    #[test]
    fn ignored_test_carries_its_reason() {
        assert_eq!(ignored_test("test a::b ... ignored, needs root"), Some(("a::b", "needs root")));
        assert_eq!(ignored_test("test a::b ... ignored"), Some(("a::b", "marked to be ignored")));
        assert_eq!(ignored_test("test a::b ... ok"), None);
    }
}
