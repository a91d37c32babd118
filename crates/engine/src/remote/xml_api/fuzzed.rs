//! The documents of the XML interface, for fuzz targets.

use http::StatusCode;
use serde::de::DeserializeOwned;

use super::document::{self, Made, ObjectsPage, PartsPage, UploadsPage};
use crate::error::Operation;
use crate::remote::object_client::Refusal;
use crate::remote::refusal::{Asked, Refused};
use crate::remote::response::{self, Dialect};
use crate::remote::write::{CompleteRequest, PartNumber, Precondition, StoredPart};
use crate::transport::ResponseHead;

fn read<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    document::read(text, Operation::Stat, "s3://bucket/blob").ok()
}

/// Reads the pages of parts, uploads and objects, and the response to a completion. The parts that a
/// page lists make a document of their own, whatever is in their tags.
pub fn xml_documents(text: &[u8]) {
    if let Some(page) = read::<PartsPage>(text) {
        let parts = page.parts.iter().filter_map(|listed| {
            let mut part = StoredPart::new(PartNumber::new(listed.part_number)?, 1);
            part.tag.clone_from(&listed.etag);
            part.checksum = listed.checksum();
            Some(part)
        });
        let request = CompleteRequest::new(parts.collect());
        let text = document::completion(&request, Some("CRC64NVME"));
        assert_eq!(text.matches("<Part>").count(), request.parts.len(), "{text}");
        assert!(text.ends_with("</CompleteMultipartUpload>"));
    }
    if let Some(page) = read::<UploadsPage>(text) {
        for upload in &page.uploads {
            let _ = upload.initiated.as_deref().and_then(super::listing::moment);
        }
    }
    if let Some(made) = read::<Made>(text) {
        let _ = made.checksum();
    }
    let _ = read::<ObjectsPage>(text);
    error_document(&String::from_utf8_lossy(text));
}

/// Explains a refusal. Nothing of the document is shown but a code of letters and digits.
fn error_document(text: &str) {
    let head = ResponseHead { status: StatusCode::BAD_REQUEST, ..ResponseHead::default() };
    let refused =
        Refused::of(&head, text, Asked { dialect: Dialect::S3, keyed: false, signed: true });
    let code = Some(refused.code().to_owned()).filter(|code| !code.is_empty());
    assert!(code.iter().flat_map(|code| code.chars()).all(|c| c.is_ascii_alphanumeric()));
    let target = "s3://bucket/blob";
    let error = refused.explain(response::refusal(&head, Operation::Write, target, false));
    let refusal = Refusal { head: Some(head), code, text: text.to_owned(), error };
    let error = super::refused::explain(refusal, &Precondition::Absent, target);
    assert!(!error.chain().contains('<'), "{}", error.chain());
}
