//! Options of `ignition`.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};
use seaworthy_ignition::Version;

use super::examples::*;
use super::format::ReportFormat;

#[derive(Debug, Subcommand)]
pub enum Ignition {
    /// Translate an Ignition config to another version
    ///
    /// Reads a config of version 2.0 to 2.2 or 3.0 to 3.5. Fails, naming the field, if the target version cannot
    /// express something in the config.
    ///
    /// Exit code: 0 on success; 1 if the config is invalid or the target version cannot express it; 2 if the command
    /// line or the config cannot be parsed.
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert {
        /// Target version: 3.5.0, 3.4.0, 3.3.0, 3.2.0, 3.1.0 or 2.2.0
        #[arg(long, value_name = "VERSION", value_parser = TargetVersion, hide_possible_values = true)]
        to: String,
        /// Ignition config, or - for standard input
        #[arg(short = 'f', long = "filename", value_name = "FILE|-", default_value = "-", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Print the pointer config that a new machine boots with
    ///
    /// The pointer config makes Ignition fetch the pool's config from the endpoint. Pass it to the machine as user
    /// data, or write it into its image. With --token-file it contains a secret.
    ///
    /// Exit code: 0 on success; 2 if the command line or a file is invalid.
    #[command(after_help = STUB_EXAMPLES)]
    Stub(Stub),
    /// Check an Ignition config
    ///
    /// Exit code: 0 if the config is valid; 1 if it is not; 2 if it cannot be read.
    #[command(after_help = VALIDATE_EXAMPLES)]
    Validate {
        /// Ignition config, or - for standard input
        #[arg(short = 'f', long = "filename", value_name = "FILE|-", default_value = "-", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Output format
        #[arg(short = 'o', long, value_enum, default_value_t = ReportFormat::Text)]
        output: ReportFormat,
    },
}

/// Options of `ignition stub`.
#[derive(Debug, Args)]
pub struct Stub {
    /// Pool that the machine joins
    #[arg(long, value_name = "POOL")]
    pub pool: String,
    /// Host name or address of the endpoint, with a port unless it is 22623
    #[arg(long, value_name = "HOST[:PORT]")]
    pub server: String,
    /// CA certificates that sign the endpoint's certificate [default: the machine's trust store]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// File with the token that the machine presents (the first one in it), or - for standard input
    #[arg(long, value_name = "FILE|-", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Ignition version of the pointer config; every Ignition release that supports HTTP headers reads 3.1.0
    #[arg(long, value_name = "VERSION", default_value = "3.1.0", value_parser = TargetVersion, hide_possible_values = true)]
    pub ignition_version: String,
}

/// Accepts any text as a version, because the command reports an invalid one better than clap; offers the valid ones to
/// shell completion.
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
