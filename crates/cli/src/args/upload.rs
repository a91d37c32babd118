//! Options of an upload to a bucket or a web server.

use clap::{Args, ValueEnum};
use tidegate::remote::{Precondition, Version, WriteOptions};
use tidegate::{
    ContentCoding, Error, ErrorKind, Location, OnFailure, Operation, Result, UploadBuilder,
};

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
    /// Compress with gzip on the way, at LEVEL 1 to 9 [default: 6]. The remote names the coding; an
    /// interrupted upload begins anew
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true,
          default_missing_value = "6", conflicts_with_all = ["content_encoding", "zstd"],
          value_parser = clap::value_parser!(u32).range(1..=9))]
    pub(crate) gzip: Option<u32>,
    /// The same with zstd, at LEVEL 1 to 19 [default: 3]
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true,
          default_missing_value = "3", conflicts_with = "content_encoding",
          value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) zstd: Option<i32>,
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
    /// How S3 encrypts the blob: AES256, aws:kms, aws:kms:KEY or aws:kms:dsse
    #[arg(long, value_name = "HOW", value_parser = encryption)]
    pub(crate) sse: Option<Encryption>,
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

/// How a service encrypts a blob with a key that it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encryption {
    algorithm: String,
    key: Option<String>,
}

fn encryption(text: &str) -> std::result::Result<Encryption, String> {
    let of = |algorithm: &str, key: Option<&str>| {
        Ok(Encryption { algorithm: algorithm.to_owned(), key: key.map(str::to_owned) })
    };
    match text {
        "AES256" | "aws:kms" | "aws:kms:dsse" => return of(text, None),
        _ => {}
    }
    // A key may be an ARN, which has colons.
    for algorithm in ["aws:kms:dsse", "aws:kms"] {
        let key = text.strip_prefix(algorithm).and_then(|rest| rest.strip_prefix(':'));
        if let Some(key) = key.filter(|key| !key.is_empty()) {
            return of(algorithm, Some(key));
        }
    }
    Err("expected AES256, aws:kms or aws:kms:dsse, the last two also with :KEY".to_owned())
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
            (self.gzip.is_some(), "--gzip"),
            (self.zstd.is_some(), "--zstd"),
            (self.cache_control.is_some(), "--cache-control"),
            (self.storage_class.is_some(), "--storage-class"),
            (!self.metadata.is_empty(), "--metadata"),
            (!self.tag.is_empty(), "--tag"),
            (self.sse.is_some(), "--sse"),
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
        if let Some(Encryption { algorithm, key }) = &self.sse {
            if !target.display().starts_with("s3://") {
                let message = "it is for s3://; other clouds take a --header";
                return Err(Error::new(ErrorKind::Invalid, Operation::Locate, "--sse", message));
            }
            let name = "x-amz-server-side-encryption";
            options.headers.push((name.to_owned(), algorithm.clone()));
            let key = key.iter().map(|key| (format!("{name}-aws-kms-key-id"), key.clone()));
            options.headers.extend(key);
        }
        Ok(options)
    }

    /// The upload of this blob with these options.
    pub(crate) fn upload(&self, target: &Location, upload: UploadBuilder) -> Result<UploadBuilder> {
        let mut upload = upload.write(self.write(target)?).on_failure(match self.on_failure {
            OnFailureArg::Keep => OnFailure::Keep,
            OnFailureArg::Abort => OnFailure::Abort,
        });
        let gzip = self.gzip.map(ContentCoding::gzip);
        if let Some(coding) = gzip.or_else(|| self.zstd.map(ContentCoding::zstd)) {
            upload = upload.compress(coding);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encryption_has_a_key_or_none() {
        let arn = "arn:aws:kms:eu-west-1:1:key/2";
        for (text, algorithm, key) in [
            ("AES256", "AES256", None),
            ("aws:kms", "aws:kms", None),
            ("aws:kms:dsse", "aws:kms:dsse", None),
            (&format!("aws:kms:{arn}"), "aws:kms", Some(arn)),
            ("aws:kms:dsse:k", "aws:kms:dsse", Some("k")),
        ] {
            let expected =
                Encryption { algorithm: algorithm.to_owned(), key: key.map(str::to_owned) };
            assert_eq!(encryption(text), Ok(expected), "{text}");
        }
        for text in ["", "aes256", "AES256:k", "aws:kms:", "kms"] {
            assert!(encryption(text).is_err(), "{text}");
        }
    }
}
