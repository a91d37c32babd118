//! The command line: one definition for parsing, `--help`, man pages and completions. Values are
//! checked here, so that a wrong value is a usage error before the command starts work.

mod authorities;
mod bucket;
mod cache;
mod cacheprog;
mod check;
mod chunk;
mod config;
mod definition;
mod examples;
mod foreign;
mod header;
mod netrc;
mod presign;
mod proxy;
mod remote;
mod remove;
mod serve;
mod store;
mod transfer;
mod upload;
mod version;

pub(crate) use bucket::{MbArgs, RbArgs};
pub(crate) use cache::{CacheArgs, ChunkingArg};
pub(crate) use cacheprog::CacheprogArgs;
pub(crate) use check::{CheckArgs, Reference};
pub(crate) use chunk::ChunkArgs;
pub(crate) use config::{ConfigArgs, FileOnlyArgs, UrlArgs};
pub(crate) use definition::definition;
use definition::short_definition;
pub(crate) use presign::PresignArgs;
pub(crate) use remote::RemoteArgs;
pub(crate) use remove::{RmArgs, UploadsAbortArgs, UploadsCommand, UploadsListArgs};
pub(crate) use serve::{LevelArg, ServeArgs};
pub(crate) use store::{
    ReplayArgs, StoreArgs, StoreCheckArgs, StoreCommand, StoreImportArgs, StorePurgeArgs,
};
pub(crate) use transfer::{FileArgs, TransferArgs};
pub(crate) use upload::UploadArgs;
pub(crate) use version::VersionArgs;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use tidegate_core::ByteRange;
use tidegate_core::printable::{escaped, is_control};

use tidegate::{Error, ErrorKind, Operation};

use crate::config::{Config, Given, Settings, serve_arguments};
use crate::size;

/// Move large blobs between object storage and disk: fast, resumable, every byte verified.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    max_term_width = 100,
    long_about = examples::ABOUT,
    arg_required_else_help = true,
    after_help = examples::TOP
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// The flags that were given, without their defaults.
    #[arg(skip)]
    pub(crate) given: Given,
}

/// What is said, and in which form.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct OutputArgs {
    /// Print errors only
    #[arg(long, short, global = true, conflicts_with_all = ["verbose", "debug"],
          display_order = 900)]
    pub(crate) quiet: bool,
    /// Print one JSON object; for cat, on standard error
    #[arg(long, global = true, display_order = 901)]
    pub(crate) json: bool,
    /// Show requests, versions, and each restart with its cause
    #[arg(long, short, global = true, display_order = 902)]
    pub(crate) verbose: bool,
    /// As -v, and show each request: its time, connection, status and bytes
    #[arg(long, global = true, display_order = 903)]
    pub(crate) debug: bool,
    /// Progress on standard error: a bar or lines, one JSON object a line, or none
    #[arg(long, global = true, value_name = "FORM", default_value = "auto", display_order = 904)]
    pub(crate) progress: ProgressArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressArg {
    // Doc comments here would make every `--help` longer.
    Auto,
    Json,
    None,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Copy blobs from a remote or to one, verified and resumable
    #[command(
        after_help = examples::CP,
        override_usage = "tidegate cp [OPTIONS] <SOURCE>... <TARGET>"
    )]
    Cp(Box<CpArgs>),
    /// Copy, and delete each source once its copy is complete
    #[command(
        after_help = examples::MV,
        override_usage = "tidegate mv [OPTIONS] <SOURCE>... <TARGET>"
    )]
    Mv(Box<CpArgs>),
    /// Delete blobs
    #[command(after_help = examples::RM)]
    Rm(Box<RmArgs>),
    /// Print a URL that allows one kind of request for a blob to everyone who has it
    #[command(after_help = examples::PRESIGN)]
    Presign(Box<PresignArgs>),
    /// Make a bucket
    #[command(after_help = examples::MB)]
    Mb(Box<MbArgs>),
    /// Remove an empty bucket
    #[command(after_help = examples::RB)]
    Rb(Box<RbArgs>),
    /// Show or end uploads that were not finished
    #[command(after_help = examples::UPLOADS, subcommand_required = true)]
    Uploads {
        #[command(subcommand)]
        command: UploadsCommand,
    },
    /// Write a blob, or a range of it, to standard output
    #[command(after_help = examples::CAT)]
    Cat(Box<CatArgs>),
    /// Show a blob's size, version and checksums
    #[command(after_help = examples::STAT)]
    Stat(Box<StatArgs>),
    /// Compare blobs with others, or with a list of checksums, without a transfer
    #[command(
        after_help = examples::CHECK,
        override_usage = "tidegate check [OPTIONS] <SOURCE>... <TARGET>"
    )]
    Check(Box<CheckArgs>),
    /// Show the settings that apply to a URL, and where they come from
    #[command(after_help = examples::CONFIG, subcommand_required = true)]
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Show where files are cut into chunks by their content, and what several of them share
    #[command(after_help = examples::CHUNK)]
    Chunk(ChunkArgs),
    /// Serve a folder as a cache for builds and for blobs as chunks
    #[command(after_help = examples::SERVE)]
    Serve(Box<ServeArgs>),
    /// Work on the store of a cache server
    #[command(after_help = examples::STORE)]
    Store(StoreArgs),
    /// Keep the build cache of the go command in a folder or on a server, as its GOCACHEPROG
    #[command(after_help = examples::CACHEPROG)]
    Cacheprog(CacheprogArgs),
    /// Fetch from a server of its own with a cloud's manners: one stream against many
    #[command(after_help = examples::DEMO)]
    Demo(DemoArgs),
    /// Print a completion script for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual, or write its pages into a folder
    #[command(after_help = examples::MAN)]
    Man {
        /// Write one page for each command into this folder, which is made where it is missing
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CpArgs {
    /// The blobs: URLs, paths, or - for standard input. Last, the target: a file, a folder, a URL, -
    /// for standard output, or /dev/null to verify only
    // With two lists, options could not stand between the sources and the target.
    #[arg(value_name = "SOURCE... TARGET", required = true, value_hint = ValueHint::AnyPath)]
    names: Vec<OsString>,
    /// A list of checksums that the blobs must have: a file or a URL, as `sha256sum` and the like
    /// write it. Each blob is found in it by its name
    #[arg(long, value_name = "LIST", value_hint = ValueHint::AnyPath)]
    pub(crate) checksums: Option<String>,
    /// Another place that holds the same blob; repeat it for more. Shards are spread over all places,
    /// and one that fails is dropped. The blob's checksum, given or provided by one of them, decides
    #[arg(long, value_name = "URL", value_hint = ValueHint::AnyPath)]
    pub(crate) mirror: Vec<String>,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
    #[command(flatten)]
    pub(crate) upload: UploadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CatArgs {
    /// The blob: a URL, a path, or - for standard input
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub(crate) source: String,
    /// Only these bytes, not verified: 0-99 is the first hundred, 100- all but them, -500 the last
    /// 500
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true, value_parser = range)]
    pub(crate) range: Option<ByteRange>,
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// The blob: a URL, a path, or - for standard input
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the settings that apply to a URL, and where they come from
    #[command(after_help = examples::CONFIG)]
    Show(Box<ShowArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The URL of a blob, or the beginning of one
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    pub(crate) command: Option<DemoCommand>,
    /// Size of the blob [default: 512MiB, less where the disk has no room for two of them]
    #[arg(long, value_name = "SIZE", value_parser = demo_size)]
    pub(crate) size: Option<u64>,
    /// Decides the blob's bytes and which connections are cut
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Put a file into a cache server as chunks, and an edited copy, and show what moved and what
    /// was stored
    #[command(after_help = examples::DEMO_SERVE)]
    Serve(DemoServeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DemoServeArgs {
    /// Size of the file
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = demo_size)]
    pub(crate) size: u64,
    /// Decides the file's bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Cli {
    /// Reads the process's own command line.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let cli =
            Self::parsed(std::env::args_os()).map_err(|error| foreign::tipped(printable(error)))?;
        match &cli.command {
            Command::Cp(args) if args.names.len() < 2 => Err(wrong("cp", "the target is missing")),
            Command::Cp(args) | Command::Mv(args) if args.sources().is_none() => {
                Err(wrong("cp", "a source is not valid UTF-8"))
            }
            Command::Chunk(args) => match args.chunking.chunking() {
                Ok(_) => Ok(cli),
                Err(message) => Err(wrong("chunk", &message)),
            },
            _ => Ok(cli),
        }
    }

    fn parsed(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let mut definition = definition();
        let matches = definition.try_get_matches_from_mut(&arguments).map_err(|error| {
            let is_short = error.kind() == clap::error::ErrorKind::DisplayHelp
                && arguments.iter().take_while(|text| *text != "--").any(|text| text == "-h");
            let short = || short_definition().try_get_matches_from(&arguments).err();
            is_short.then(short).flatten().unwrap_or(error)
        })?;
        let mut cli =
            Self::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))?;
        let mut innermost = &matches;
        while let Some((_, matches)) = innermost.subcommand() {
            innermost = matches;
        }
        cli.given = UrlArgs::given(innermost);
        Ok(cli)
    }
}

impl Command {
    /// Whether standard output carries a blob.
    pub(crate) fn writes_blob(&self) -> bool {
        match self {
            Self::Cat(_) => true,
            Self::Cp(args) => args.target() == Path::new("-"),
            _ => false,
        }
    }

    /// Adds the settings of the configuration file. Returns a warning about the file, if there is
    /// one.
    pub(crate) fn configure(&mut self, given: Given) -> tidegate::Result<Option<String>> {
        if let Self::Serve(args) = self {
            return args.configure().map(|()| None);
        }
        let remote = match self {
            Self::Cp(args) | Self::Mv(args) => &args.remote,
            Self::Rm(args) => &args.remote,
            Self::Uploads { command } => command.remote(),
            Self::Presign(args) => &args.remote,
            Self::Mb(args) => &args.remote,
            Self::Rb(args) => &args.remote,
            Self::Cat(args) => &args.remote,
            Self::Stat(args) => &args.remote,
            Self::Check(args) => &args.remote,
            _ => return Ok(None),
        };
        let config = Config::load(&remote.config)?;
        if config.is_empty() {
            return Ok(None);
        }
        let warning = config.warning();
        let settings = Arc::new(Settings::new(given, config));
        let UrlArgs { mut transfer, file, mut remote } = settings.process_args()?;
        transfer.settings = Some(Arc::clone(&settings));
        remote.settings = Some(settings);
        match self {
            Self::Cp(args) | Self::Mv(args) => {
                (args.transfer, args.file, args.remote) = (transfer, file, remote);
            }
            Self::Cat(args) => (args.transfer, args.remote) = (transfer, remote),
            Self::Stat(args) => args.remote = remote,
            Self::Rm(args) => args.remote = remote,
            Self::Uploads { command } => command.set_remote(remote),
            Self::Presign(args) => args.remote = remote,
            Self::Mb(args) => args.remote = remote,
            Self::Rb(args) => args.remote = remote,
            Self::Check(args) => args.remote = remote,
            _ => {}
        }
        Ok(warning)
    }
}

impl ServeArgs {
    /// Adds the settings of the file that they name.
    fn configure(&mut self) -> tidegate::Result<()> {
        let Some(path) = self.config.clone() else { return Ok(()) };
        let given: Vec<OsString> = std::env::args_os().collect();
        let more = serve_arguments(&path, &given)?;
        let parsed = Cli::parsed(given.into_iter().chain(more)).map_err(|error| {
            let message = config::reason(&error);
            let target = path.display().to_string();
            Error::new(ErrorKind::Invalid, Operation::Locate, target, message)
        })?;
        if let Command::Serve(args) = parsed.command {
            *self = *args;
        }
        Ok(())
    }
}

/// The same error with the control characters of the arguments escaped: the parser quotes them.
fn printable(error: clap::Error) -> clap::Error {
    let arguments = || std::env::args_os().map(|text| text.to_string_lossy().into_owned());
    if !arguments().any(|text| text.contains(is_control)) {
        return error;
    }
    let escaped = arguments().map(|text| escaped(&text).into_owned().into());
    Cli::parsed(escaped).err().unwrap_or(error)
}

/// A usage error that the parser cannot detect.
fn wrong(command: &str, message: &str) -> clap::Error {
    let mut top = definition();
    top.build();
    let kind = clap::error::ErrorKind::MissingRequiredArgument;
    match top.find_subcommand_mut(command) {
        Some(command) => command.error(kind, message),
        None => top.error(kind, message),
    }
}

impl CpArgs {
    /// The sources; `None` if any of them is not text.
    pub(crate) fn sources(&self) -> Option<Vec<&str>> {
        let (_, sources) = self.names.split_last()?;
        sources.iter().map(|name| name.to_str()).collect()
    }

    /// The target.
    pub(crate) fn target(&self) -> &Path {
        self.names.last().map_or(Path::new(""), Path::new)
    }
}

fn range(text: &str) -> Result<ByteRange, String> {
    text.parse().map_err(|error: tidegate_core::RangeError| error.to_string())
}

/// From one page to a size that a loopback server delivers in an acceptable time for a
/// demonstration.
fn demo_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 4096, 64 << 30)
}
