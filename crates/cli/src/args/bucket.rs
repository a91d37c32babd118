//! The commands for whole buckets: `mb` and `rb`.

use clap::{Args, ValueHint};

use super::remote::RemoteArgs;

/// A comment could not have these URLs without brackets, which the help would show.
const BUCKET: &str = "The bucket: s3://BUCKET, gs://BUCKET or az://CONTAINER";

#[derive(Debug, Args)]
pub(crate) struct MbArgs {
    #[arg(value_name = "URL", value_hint = ValueHint::Url, help = BUCKET)]
    pub(crate) bucket: String,
    /// Where the bucket is: a region of S3, or a location of Google Cloud Storage [default: the region
    /// of the settings; the service's own]
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// The project that the bucket belongs to, in Google Cloud Storage [default: the variable
    /// `GOOGLE_CLOUD_PROJECT`]
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RbArgs {
    #[arg(value_name = "URL", value_hint = ValueHint::Url, help = BUCKET)]
    pub(crate) bucket: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
