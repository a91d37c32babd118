//! [`ProvedConditions`]: which conditions a service keeps when writers race, as far as it is known.
//!
//! Amazon S3 and Google Cloud Storage document that of several writers with a condition one
//! succeeds. Many services that imitate S3 ignore conditions, or compare first and write afterwards.
//! Their answers to one request after the other are right, so each service without such a document
//! races once for each kind of condition and each way to write, before the first write.
//!
//! The results are kept in memory and not on the disk: a service can be replaced, or get a second
//! server, from one process to the next.
//!
//! Sources: "How to prevent object overwrites with conditional writes" in the S3 user guide, for
//! `If-None-Match` and `If-Match` at `PutObject` and `CompleteMultipartUpload`; "Request
//! preconditions" of Google Cloud Storage.

use std::collections::HashMap;

use tokio::sync::Mutex;
use url::Url;

use super::race::{Race, RaceVerdict};
use super::{XmlDialect, XmlWriter};
use crate::error::{Error, ErrorKind, Operation, Result, Setting};
use crate::remote::write::{Precondition, WriteOptions, WriteWay};

/// The domains of Amazon's own endpoints.
const OF_AMAZON: [&str; 3] = [".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu"];

/// S3 on Outposts runs on the customer's machines, and its documentation names no conditional writes.
const OUTPOSTS: &str = ".s3-outposts.";

/// A kind of condition and a way to write.
type Question = (bool, WriteWay);

/// See the module docs.
#[derive(Debug, Default)]
pub(super) struct ProvedConditions {
    is_trusted: bool,
    /// The flaw of the service; `None` if it has none. Held during the race, so that writers that
    /// begin together race once.
    known: Mutex<HashMap<Question, Option<String>>>,
}

impl ProvedConditions {
    /// Every condition is kept.
    #[cfg(feature = "s3")]
    pub(super) fn trusted() -> Self {
        Self { is_trusted: true, ..Self::default() }
    }

    /// See [`Write::prove`](crate::remote::Write::prove).
    pub(super) async fn prove(
        &self,
        writer: &XmlWriter,
        blob: &str,
        options: &WriteOptions,
        way: WriteWay,
    ) -> Result<Option<String>> {
        let is_absent = match &options.precondition {
            Precondition::None => return Ok(None),
            Precondition::Absent => true,
            Precondition::Version(_) => false,
        };
        if self.is_trusted || writer.dialect != XmlDialect::S3 || is_amazon(writer.client.base()) {
            return Ok(None);
        }
        let mut known = self.known.lock().await;
        let (flaw, note) = if let Some(flaw) = known.get(&(is_absent, way)) {
            (flaw.clone(), None)
        } else {
            let race = Box::pin(Race::new(writer, blob, options, way).run());
            let RaceVerdict { flaw, note } = race.await?;
            known.insert((is_absent, way), flaw.clone());
            (flaw, note)
        };
        match flaw {
            None => Ok(note),
            Some(flaw) => {
                let left = note.map(|note| format!("; {note}")).unwrap_or_default();
                let message = format!("the service does not keep conditions: {flaw}{left}");
                let target = writer.client.target(blob);
                Err(Error::new(ErrorKind::Unsupported, Operation::Locate, target, message)
                    .with_hint(Setting::Conditions))
            }
        }
    }
}

/// Whether the bucket is at an endpoint of Amazon, over TLS.
fn is_amazon(base: &str) -> bool {
    let Ok(url) = Url::parse(base) else { return false };
    let host = url.host_str().unwrap_or_default();
    url.scheme() == "https"
        && OF_AMAZON.iter().any(|domain| host.ends_with(domain))
        && !host.contains(OUTPOSTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_amazons_own_endpoints_are_known() {
        for (base, expected) in [
            ("https://s3.eu-west-1.amazonaws.com/bucket", true),
            ("https://bucket.s3.us-east-1.amazonaws.com", true),
            ("https://s3.cn-north-1.amazonaws.com.cn/bucket", true),
            ("http://s3.eu-west-1.amazonaws.com/bucket", false),
            ("https://amazonaws.com.example/bucket", false),
            ("https://notamazonaws.com/bucket", false),
            ("https://a.123.s3-outposts.us-east-1.amazonaws.com/bucket", false),
            ("https://account.r2.cloudflarestorage.com/bucket", false),
            ("http://127.0.0.1:9000/bucket", false),
        ] {
            assert_eq!(is_amazon(base), expected, "{base}");
        }
    }
}
