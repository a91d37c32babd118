//! An upload in parts. A part is an uncommitted block, and its id names the upload and the part.
//!
//! Azure has no uploads: blocks belong to the name of a blob, and two uploads to one name mix them.
//! So every block id begins with a random prefix, and ends with the part's number: `PREFIX00001`,
//! in base64. All ids of a blob must have the same length. The id of an [`Upload`] is the prefix,
//! with the algorithm of its checksums before it: `crc64nvme:PREFIX`.
//!
//! Number 0 is a block of one byte that no blob uses. It tells an upload without parts from an
//! upload that is unknown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Checksummer};
use uuid::Uuid;

use super::document::{self, BlockList};
use super::{AzureWriter, BLOCKS_MAX, CHECKSUMS};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::ObjectRequest;
use crate::remote::write::{
    CompleteRequest, PartNumber, Payload, StoredPart, Upload, UploadId, UploadPart, UploadState,
    Write, WriteOptions, Written,
};

/// The algorithm of an upload without checksums.
const NONE: &str = "none";

/// The digits of a number.
const DIGITS: usize = 5;

/// The byte of block 0.
const UNUSED: &[u8] = b"\0";

/// The algorithm of an upload's checksums.
pub(super) fn algorithm(upload: &Upload) -> Option<ChecksumAlgorithm> {
    let (name, _) = upload.id.as_str().split_once(':')?;
    CHECKSUMS.iter().copied().find(|algorithm| algorithm.name() == name)
}

fn prefix(upload: &Upload) -> &str {
    let id = upload.id.as_str();
    id.split_once(':').map_or(id, |(_, prefix)| prefix)
}

/// The id of an upload with this prefix.
pub(super) fn upload_id(prefix: &str, algorithm: Option<ChecksumAlgorithm>) -> UploadId {
    UploadId::new(format!("{}:{prefix}", algorithm.map_or(NONE, ChecksumAlgorithm::name)))
}

/// The id of a block.
pub(super) fn block_id(prefix: &str, number: u32) -> String {
    STANDARD.encode(format!("{prefix}{number:0DIGITS$}"))
}

/// The prefix and the number in a block's id; `None` if another program made it.
pub(super) fn parse(id: &str) -> Option<(String, u32)> {
    let mut text = String::from_utf8(STANDARD.decode(id).ok()?).ok()?;
    let digits =
        text.split_off(text.len().checked_sub(DIGITS).filter(|at| text.is_char_boundary(*at))?);
    let is_ours = Uuid::try_parse(&text).is_ok() && digits.bytes().all(|b| b.is_ascii_digit());
    Some((text, digits.parse().ok()?)).filter(|_| is_ours)
}

impl AzureWriter {
    pub(super) async fn begin_blocks(&self, blob: &str, options: &WriteOptions) -> Result<Upload> {
        self.check_name(blob)?;
        // Errors in the description are found now, not after all parts.
        self.description(blob, options)?;
        self.condition(blob, &options.precondition)?;
        let prefix = Uuid::new_v4().simple().to_string();
        loop {
            let algorithm = self.accepted.now();
            let sum = algorithm.and_then(|algorithm| Checksummer::of(algorithm, UNUSED).ok());
            let upload = Upload::new(blob, upload_id(&prefix, algorithm), options);
            let payload = Payload::from_bytes(UNUSED);
            let payload = match sum {
                Some(sum) => payload.with_checksum(sum),
                None => payload,
            };
            match self.send_block(&upload, 0, &payload).await {
                Ok(()) => return Ok(upload),
                // The service refused the checksum.
                Err(_) if self.accepted.now() != algorithm => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn send_block(&self, upload: &Upload, number: u32, payload: &Payload) -> Result<()> {
        let request = ObjectRequest::new(Method::PUT, Operation::Write, &upload.blob)
            .query("comp", "block")
            .query("blockid", block_id(prefix(upload), number));
        self.send_payload(&upload.blob, &upload.options, request, payload).await.map(drop)
    }

    pub(super) async fn store_block(
        &self,
        upload: &Upload,
        part: &UploadPart,
    ) -> Result<StoredPart> {
        if part.number.get() > BLOCKS_MAX {
            let message = format!("a blob has at most {BLOCKS_MAX} blocks");
            return Err(self.invalid(&upload.blob, message));
        }
        let mut stored = StoredPart::new(part.number, part.payload.len_bytes());
        if part.payload.len_bytes() == 0 {
            // The service takes no empty block, and the blob needs none.
            return Ok(stored);
        }
        self.send_block(upload, part.number.get(), &part.payload).await?;
        stored.tag = Some(block_id(prefix(upload), part.number.get()));
        stored.checksum = part.payload.checksum().cloned();
        Ok(stored)
    }

    pub(super) async fn list_blocks(&self, upload: &Upload) -> Result<UploadState> {
        let blocks = self.uncommitted(&upload.blob).await?.unwrap_or_default();
        let ours = prefix(upload);
        let mut is_known = false;
        let mut parts = Vec::new();
        for block in &blocks.uncommitted.blocks {
            let Some((theirs, number)) = parse(&block.name) else { continue };
            if theirs != ours {
                continue;
            }
            is_known = true;
            let number = PartNumber::new(number).filter(|number| number.get() <= BLOCKS_MAX);
            if let Some(number) = number {
                let mut part = StoredPart::new(number, block.size);
                part.tag = Some(block.name.clone());
                parts.push(part);
            }
        }
        if is_known {
            parts.sort_by_key(|part| part.number);
            parts.dedup_by_key(|part| part.number);
            return Ok(UploadState::Parts(parts));
        }
        if let Some(written) = self.landed(&upload.blob, &upload.options).await? {
            return Ok(UploadState::Completed(written));
        }
        let message =
            "the remote does not know the upload: it was completed, or its blocks were removed";
        let target = self.client.target(&upload.blob);
        Err(Error::new(ErrorKind::NotFound, Operation::Stat, target, message))
    }

    /// The uncommitted blocks of a name; `None` if there is nothing of that name.
    pub(super) async fn uncommitted(&self, blob: &str) -> Result<Option<BlockList>> {
        let request = ObjectRequest::new(Method::GET, Operation::Stat, blob)
            .query("comp", "blocklist")
            .query("blocklisttype", "uncommitted");
        match self.client.send(&request).await {
            Ok(answer) => {
                let target = self.client.target(blob);
                document::read(&answer.text, Operation::Stat, &target).map(Some)
            }
            Err(refusal) if refusal.status() == Some(404) && refusal.code() == "BlobNotFound" => {
                Ok(None)
            }
            Err(refusal) => Err(self.refused(blob, &WriteOptions::default(), refusal)),
        }
    }

    pub(super) async fn commit_blocks(
        &self,
        upload: &Upload,
        request: &CompleteRequest,
    ) -> Result<Written> {
        let Upload { blob, options, .. } = upload;
        if let Some(flaw) = flaw(request) {
            return Err(self.invalid(blob, flaw));
        }
        let filled = request.parts.iter().filter(|part| part.len_bytes > 0);
        let ids = filled.map(|part| block_id(prefix(upload), part.number.get()));
        let text = document::commitment(ids);
        let sum = algorithm(upload).and_then(|algorithm| self.sum(algorithm, &text));
        let payload = Payload::from_bytes(text.into_bytes());
        let payload = match sum {
            Some(sum) => payload.with_checksum(sum),
            None => payload,
        };
        let sent = ObjectRequest::new(Method::PUT, Operation::Commit, blob)
            .query("comp", "blocklist")
            .headers(self.description(blob, options)?)
            .headers(self.condition(blob, &options.precondition)?);
        let answer = self.send_payload(blob, options, sent, &payload).await?;
        Ok(Written { version: Self::version(&answer), ..Written::default() })
    }

    /// The checksum of a list, unless the service has refused the algorithm since.
    fn sum(&self, algorithm: ChecksumAlgorithm, text: &str) -> Option<Checksum> {
        (self.accepted.now() == Some(algorithm))
            .then(|| Checksummer::of(algorithm, text.as_bytes()).ok())
            .flatten()
    }
}

/// What is wrong with the parts of a blob. The service would make a blob of any of its blocks.
fn flaw(request: &CompleteRequest) -> Option<String> {
    let expected = 1..;
    let gap = expected.zip(&request.parts).find(|(number, part)| part.number.get() != *number);
    if let Some((number, _)) = gap {
        return Some(format!("part {number} is missing"));
    }
    if request.parts.is_empty() {
        return Some("there are no parts".to_owned());
    }
    let len_bytes: u64 = request.parts.iter().map(|part| part.len_bytes).sum();
    (len_bytes != request.len_bytes)
        .then(|| format!("expected {} bytes, but the parts have {len_bytes}", request.len_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_made_of_all_its_parts() {
        let part = |number| StoredPart::new(PartNumber::new(number).unwrap(), 10);
        assert_eq!(flaw(&CompleteRequest::new(vec![part(1), part(2)])), None);
        assert!(flaw(&CompleteRequest::new(vec![part(1), part(3)])).unwrap().contains("part 2"));
        assert!(flaw(&CompleteRequest::new(vec![part(2)])).unwrap().contains("part 1"));
        assert!(flaw(&CompleteRequest::new(vec![])).is_some());
        let mut short = CompleteRequest::new(vec![part(1)]);
        short.len_bytes = 11;
        assert!(flaw(&short).unwrap().contains("11 bytes"));
    }

    #[test]
    fn ids_of_one_upload_have_one_length_and_are_recognised() {
        let prefix = Uuid::new_v4().simple().to_string();
        let ids = [0, 1, 50_000].map(|number| block_id(&prefix, number));
        assert!(ids.iter().all(|id| id.len() == ids[0].len()));
        assert!(prefix.len() + DIGITS <= 64, "the service's limit");
        assert_eq!(parse(&ids[2]), Some((prefix, 50_000)));
        for foreign in ["", "AAAA", "!", &STANDARD.encode("00001"), &STANDARD.encode("\u{e4}0001")]
        {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }
}
