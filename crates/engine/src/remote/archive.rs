//! [`Archived`]: the refusal to read a blob that is in an archive. Pure.
//!
//! The blob is there, and the credentials are right. Reading fails until the blob is restored, which
//! takes minutes to days and costs money. So it is never retried, and the error names the request
//! that restores.
//!
//! Google Cloud Storage reads its class `ARCHIVE` at once, so it has no such refusal.
//!
//! Sources: "Working with archived objects" of Amazon S3; "Blob rehydration from the archive tier"
//! of Azure.

use crate::error::{Error, ErrorKind, Operation};

/// See the module docs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Archived {
    /// An object of S3 in this storage class, if the service named it.
    S3 { class: Option<String> },
    /// A blob in Azure's archive tier.
    Azure,
    /// A blob of Azure that is on its way out of the archive tier.
    AzureRehydrating,
}

impl Archived {
    /// The refusal of this code, with this document.
    pub(super) fn of(code: &str, document: &str) -> Option<Self> {
        Some(match code {
            "InvalidObjectState" => Self::S3 { class: class(document) },
            "BlobArchived" => Self::Azure,
            "BlobBeingRehydrated" => Self::AzureRehydrating,
            _ => return None,
        })
    }

    /// The error for an operation on `target`, such as `s3://bucket/key`.
    pub(super) fn error(&self, operation: Operation, target: &str) -> Error {
        let (message, hint) = match self {
            Self::S3 { class } => {
                let place = match class {
                    Some(class) => format!("the storage class {class}"),
                    None => "an archive".to_owned(),
                };
                // The service refuses a number of days for this class.
                let is_tiering = class.as_deref() == Some("INTELLIGENT_TIERING");
                let request = if is_tiering { "'{}'" } else { "Days=7" };
                let (bucket, key) = parts(target);
                (
                    format!("it is in {place}, and must be restored first"),
                    format!(
                        "restore it, which takes minutes to days, and then run the same command \
                         again: `aws s3api restore-object --bucket {bucket} --key {key} \
                         --restore-request {request}`"
                    ),
                )
            }
            Self::Azure => {
                let (container, name) = parts(target);
                (
                    "it is in the access tier Archive, and must be rehydrated first".to_owned(),
                    format!(
                        "rehydrate it, which takes hours, and then run the same command again: `az \
                         storage blob set-tier --container-name {container} --name {name} --tier \
                         Hot`"
                    ),
                )
            }
            Self::AzureRehydrating => (
                "it is being rehydrated from the access tier Archive".to_owned(),
                "run the same command again once it is done, which takes hours".to_owned(),
            ),
        };
        Error::new(ErrorKind::Archived, operation, target, message).with_hint(hint)
    }
}

/// The storage class in a document of S3.
fn class(document: &str) -> Option<String> {
    let (_, rest) = document.split_once("<StorageClass>")?;
    let (class, _) = rest.split_once("</StorageClass>")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (class.len() <= 64 && !class.is_empty() && class.chars().all(is_plain))
        .then(|| class.to_owned())
}

/// The bucket and the key of a target, as words of a shell.
fn parts(target: &str) -> (String, String) {
    let (_, rest) = target.split_once("://").unwrap_or(("", target));
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    (word(bucket), word(key))
}

fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:@+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archived_object_names_its_class_and_the_restore() {
        let document = "<Error><Code>InvalidObjectState</Code>\
                        <StorageClass>DEEP_ARCHIVE</StorageClass></Error>";
        let found = Archived::of("InvalidObjectState", document).unwrap();
        let error = found.error(Operation::Read, "s3://bucket/a b/it's");
        assert_eq!(error.kind(), ErrorKind::Archived);
        assert!(error.to_string().contains("the storage class DEEP_ARCHIVE"), "{error}");
        let hint = error.hint().unwrap();
        let request = r"--bucket bucket --key 'a b/it'\''s' --restore-request Days=7";
        assert!(hint.contains(request), "{hint}");
    }

    #[test]
    fn a_class_without_days_and_one_that_is_not_named() {
        let tiering = "<StorageClass>INTELLIGENT_TIERING</StorageClass>";
        let error = Archived::of("InvalidObjectState", tiering).unwrap();
        let error = error.error(Operation::Read, "s3://bucket/key");
        assert!(error.hint().unwrap().contains("--restore-request '{}'"), "{error:?}");
        for document in ["", "<StorageClass>x`y</StorageClass>", "<StorageClass></StorageClass>"] {
            let found = Archived::of("InvalidObjectState", document);
            assert_eq!(found, Some(Archived::S3 { class: None }), "{document}");
        }
        assert_eq!(Archived::of("AccessDenied", tiering), None);
    }

    #[test]
    fn a_blob_of_azure_names_its_tier() {
        let error = Archived::of("BlobArchived", "").unwrap();
        let error = error.error(Operation::Read, "az://container/k");
        let request = "az storage blob set-tier --container-name container --name k --tier Hot";
        assert!(error.hint().unwrap().contains(request), "{error:?}");
        let error = Archived::of("BlobBeingRehydrated", "").unwrap();
        let error = error.error(Operation::Read, "az://container/k");
        assert!(error.to_string().contains("being rehydrated"), "{error}");
    }
}
