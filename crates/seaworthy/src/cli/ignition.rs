//! The command line of `ignition`.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Subcommand, ValueHint};
use seaworthy_ignition::Version;

use super::examples::*;
use super::format::ReportFormat;

#[derive(Debug, Subcommand)]
pub enum Ignition {
    /// Translate an Ignition config to another version
    ///
    /// Reads a config of version 2.0 to 2.2 or 3.0 to 3.5. What the wanted version cannot say is an error that names the
    /// place.
    ///
    /// Exit code: 0 when it is translated; 1 when it is not valid, or the wanted version cannot say the same; 2 when the
    /// command line or the config cannot be understood.
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert {
        /// The wanted version: 3.5.0, 3.4.0, 3.3.0, 3.2.0, 3.1.0 or 2.2.0
        #[arg(long, value_name = "VERSION", value_parser = TargetVersion, hide_possible_values = true)]
        to: String,
        /// The config, or - for standard input
        #[arg(short = 'f', long = "filename", value_name = "FILE|-", default_value = "-", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Check an Ignition config
    ///
    /// Exit code: 0 when it is valid, 1 when it is not, 2 when it cannot be read.
    #[command(after_help = VALIDATE_EXAMPLES)]
    Validate {
        /// The config, or - for standard input
        #[arg(short = 'f', long = "filename", value_name = "FILE|-", default_value = "-", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// How to print the result
        #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
        output: ReportFormat,
    },
}

/// Takes any text for a version, as the command knows better words for a wrong one, and offers the right ones to shells.
#[derive(Clone)]
struct TargetVersion;

impl TypedValueParser for TargetVersion {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Version::WRITABLE.into_iter().rev().map(|version| PossibleValue::new(version.as_str()))))
    }
}
