//! Whether a unit is started at boot, in systemd's words.

/// What `systemctl is-enabled` says of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// It is started at boot.
    Enabled,
    /// It is started until the next boot.
    EnabledRuntime,
    /// It is not.
    Disabled,
    /// It cannot be started.
    Masked,
    /// It cannot be started until the next boot.
    MaskedRuntime,
    /// Systemd knows no such unit.
    NotFound,
    /// It has no install section (`static`), is made by a program (`generated`), …
    Other(String),
}

impl UnitState {
    /// Reads systemd's word.
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

    /// Systemd's word.
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
