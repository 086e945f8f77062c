//! Ranges of sizes and costs, with saturating arithmetic.

/// The least and the most of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostRange {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

/// Sizes use the same arithmetic.
pub(crate) type SizeRange = CostRange;

impl CostRange {
    pub(crate) const ZERO: CostRange = CostRange::fixed(0);
    pub(crate) const ONE: CostRange = CostRange::fixed(1);
    pub(crate) const UNKNOWN: CostRange = CostRange { min: 0, max: u64::MAX };
    /// What nothing is smaller or larger than: the start of a union.
    pub(crate) const NONE: CostRange = CostRange { min: u64::MAX, max: 0 };

    pub(crate) const fn fixed(value: u64) -> CostRange {
        CostRange { min: value, max: value }
    }

    pub(crate) fn add(self, other: CostRange) -> CostRange {
        CostRange { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(crate) fn times(self, other: CostRange) -> CostRange {
        CostRange { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Times a factor, rounded up.
    pub(crate) fn scaled(self, factor: f64) -> CostRange {
        CostRange { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    pub(crate) fn union(self, other: CostRange) -> CostRange {
        CostRange { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

fn scale(value: u64, factor: f64) -> u64 {
    // Beyond the largest number the conversion stays there.
    (value as f64 * factor).ceil() as u64
}
