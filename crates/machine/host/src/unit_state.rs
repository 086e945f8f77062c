//! Enablement state of a unit, with systemd's names.

/// The output of `systemctl is-enabled` for a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitState {
    Enabled,
    /// Enabled until the next boot.
    EnabledRuntime,
    Disabled,
    Masked,
    /// Masked until the next boot.
    MaskedRuntime,
    NotFound,
    /// `static`, `generated`, …
    Other(String),
}

impl UnitState {
    /// Parses systemd's name.
    pub fn parse(word: &str) -> Self {
        match word {
            "enabled" => Self::Enabled,
            "enabled-runtime" => Self::EnabledRuntime,
            "disabled" => Self::Disabled,
            "masked" => Self::Masked,
            "masked-runtime" => Self::MaskedRuntime,
            "not-found" | "" => Self::NotFound,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Systemd's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Enabled => "enabled",
            Self::EnabledRuntime => "enabled-runtime",
            Self::Disabled => "disabled",
            Self::Masked => "masked",
            Self::MaskedRuntime => "masked-runtime",
            Self::NotFound => "not-found",
            Self::Other(word) => word,
        }
    }
}
