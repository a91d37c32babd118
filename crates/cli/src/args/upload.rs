//! Options of an upload to a bucket or a web server.

use clap::{Args, ValueEnum};
use tidegate::remote::{Precondition, Version, WriteOptions};
use tidegate::{Error, ErrorKind, Location, OnFailure, Operation, Result, UploadBuilder};

use crate::size;

/// What happens to the stored parts of an upload that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailureArg {
    /// They stay, and the same command goes on with them
    #[default]
    Keep,
    /// They are removed
    Abort,
}

/// See the module docs.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Upload options")]
pub(crate) struct UploadArgs {
    /// Fail if the target exists. Of several writers at once, only one succeeds
    #[arg(long)]
    pub(crate) no_clobber: bool,
    /// Replace the target only if it has this version: an ETag, or a generation of gs://
    #[arg(long, value_name = "VERSION", conflicts_with = "no_clobber")]
    pub(crate) if_version: Option<String>,
    /// The media type; by default by the name of the target
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// The coding of the bytes, such as gzip, if they are stored compressed
    #[arg(long, value_name = "CODING")]
    pub(crate) content_encoding: Option<String>,
    /// How long caches may keep the blob, such as 'max-age=3600'
    #[arg(long, value_name = "VALUE")]
    pub(crate) cache_control: Option<String>,
    /// The class of storage, in the remote's own words
    #[arg(long, value_name = "CLASS")]
    pub(crate) storage_class: Option<String>,
    /// A name and value that the remote keeps with the blob; repeat it for more
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) metadata: Vec<(String, String)>,
    /// A tag of the blob (s3:// and az://); repeat it for more
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) tag: Vec<(String, String)>,
    /// Length of the parts of a long blob, such as 64MiB; by default 8 MiB, and more above 78 GiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) part_size: Option<u64>,
    /// About how long standard input will be: decides the length of its parts
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) expected_size: Option<u64>,
    /// What happens to the parts that are stored when an upload of a file fails
    #[arg(long, value_name = "ACTION", default_value = "keep")]
    pub(crate) on_failure: OnFailureArg,
}

fn pair(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

impl UploadArgs {
    /// The first flag that was given, if there is one.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let flags = [
            (self.no_clobber, "--no-clobber"),
            (self.if_version.is_some(), "--if-version"),
            (self.content_type.is_some(), "--content-type"),
            (self.content_encoding.is_some(), "--content-encoding"),
            (self.cache_control.is_some(), "--cache-control"),
            (self.storage_class.is_some(), "--storage-class"),
            (!self.metadata.is_empty(), "--metadata"),
            (!self.tag.is_empty(), "--tag"),
            (self.part_size.is_some(), "--part-size"),
            (self.expected_size.is_some(), "--expected-size"),
            (self.on_failure != OnFailureArg::default(), "--on-failure"),
        ];
        flags.into_iter().find_map(|(is_given, flag)| is_given.then_some(flag))
    }

    /// The conditions and the description of this blob.
    fn write(&self, target: &Location) -> Result<WriteOptions> {
        let mut options = WriteOptions::default();
        options.precondition = match &self.if_version {
            Some(text) => Precondition::Version(version(text, target)?),
            None if self.no_clobber => Precondition::Absent,
            None => Precondition::None,
        };
        let by_name = || mime_guess::from_path(&target.blob).first_raw().map(str::to_owned);
        options.content_type = self.content_type.clone().or_else(by_name);
        options.content_encoding.clone_from(&self.content_encoding);
        options.cache_control.clone_from(&self.cache_control);
        options.storage_class.clone_from(&self.storage_class);
        options.metadata.clone_from(&self.metadata);
        options.tags.clone_from(&self.tag);
        Ok(options)
    }

    /// The upload of this blob with these options.
    pub(crate) fn upload(&self, target: &Location, upload: UploadBuilder) -> Result<UploadBuilder> {
        let mut upload = upload.write(self.write(target)?).on_failure(match self.on_failure {
            OnFailureArg::Keep => OnFailure::Keep,
            OnFailureArg::Abort => OnFailure::Abort,
        });
        if let Some(bytes) = self.part_size {
            upload = upload.part_bytes(bytes);
        }
        if let Some(bytes) = self.expected_size {
            upload = upload.expected_bytes(bytes);
        }
        Ok(upload)
    }
}

/// In Google Cloud Storage a number is a generation; anything else is an entity tag, with or without
/// its quotes.
fn version(text: &str, target: &Location) -> Result<Version> {
    let is_google = target.display().starts_with("gs://");
    if is_google && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Version::Generation(text.to_owned()));
    }
    let quoted = if text.starts_with('"') { text.to_owned() } else { format!("\"{text}\"") };
    Version::from_etag(&quoted).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, Operation::Locate, "--if-version", "it is no entity tag")
            .with_hint("take it from `tidegate stat URL`")
    })
}
