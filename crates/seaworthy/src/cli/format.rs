//! Output and log formats.

use clap::ValueEnum;

/// Output formats for objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// YAML
    Yaml,
    /// JSON
    Json,
    /// The names of the rendered MachineConfigs, one per line
    Name,
}

/// Output formats for manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DefinitionFormat {
    /// A stream of YAML documents
    Yaml,
    /// A JSON List
    Json,
}

/// Output formats for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Human-readable text
    #[value(alias = "table")]
    Text,
    /// JSON
    Json,
}

/// Log formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable text
    Text,
    /// One JSON object per line
    Json,
}
