//! Durations in human-readable form.

/// Seconds with their two largest units: `40 s`, `14 min`, `3 h 5 min`, `2 d 4 h`.
pub fn short(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let two = |large: i64, unit: &str, rest: i64, small: &str| match rest {
        0 => format!("{large} {unit}"),
        rest => format!("{large} {unit} {rest} {small}"),
    };
    match seconds.max(0) {
        seconds if seconds < MINUTE => format!("{seconds} s"),
        seconds if seconds < HOUR => format!("{} min", seconds / MINUTE),
        seconds if seconds < DAY => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "min"),
        seconds => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn the_two_largest_units_are_shown() {
        let reported =
            [-1, 0, 59, 60, 14 * 60 + 59, 3600, 3 * 3600 + 300, 86_400, 2 * 86_400 + 4 * 3600 + 7].map(short);
        assert_eq!(reported, ["0 s", "0 s", "59 s", "1 min", "14 min", "1 h", "3 h 5 min", "1 d", "2 d 4 h"]);
    }
}
