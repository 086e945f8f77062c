//! How results are printed and logs are written.

use clap::ValueEnum;

/// How objects are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// YAML
    Yaml,
    /// JSON
    Json,
    /// The names of the rendered MachineConfigs, one a line
    Name,
}

/// How definitions are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DefinitionFormat {
    /// A stream of YAML documents
    Yaml,
    /// A JSON List
    Json,
}

/// How reports are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    #[value(alias = "table")]
    Text,
    /// For programs
    Json,
}

/// How a process logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}
