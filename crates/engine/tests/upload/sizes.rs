//! Blobs of every length around that of a part.

use tidegate::{Form, Verified};
use tidegate_testkit::Flavour;

use crate::bed::{Bed, PART, noise};

#[tokio::test]
async fn a_blob_of_any_length_is_stored_and_compared() {
    for len in [0, 1, PART - 1, PART, PART + 1, 2 * PART, 2 * PART + 1] {
        let bed = Bed::new(Flavour::S3).await;
        let bytes = noise(len);
        let report = bed.upload(bed.file(&bytes)).await.unwrap();
        bed.has(&bytes);
        assert_eq!(report.bytes, len as u64);
        let form = if len > PART { Form::Parts } else { Form::Whole };
        assert_eq!(report.form, form, "{len}");
        let Verified::By(checksums) = &report.verified else {
            panic!("{len}: {:?}", report.verified)
        };
        assert_eq!(checksums[0].algorithm().name(), "crc64nvme");
    }
}

#[tokio::test]
async fn the_parts_of_a_blob_are_equal_and_the_last_one_is_not_longer() {
    let bed = Bed::new(Flavour::S3).await;
    let bytes = noise(3 * PART + 1);
    bed.upload(bed.file(&bytes)).await.unwrap();
    assert_eq!(bed.stored().unwrap().part_lens, [PART as u64, PART as u64, PART as u64, 1]);
}

#[tokio::test]
async fn a_blob_in_memory_is_stored_like_a_file() {
    for len in [0, 17, PART + 17] {
        let bed = Bed::new(Flavour::S3).await;
        let bytes = noise(len);
        bed.upload(bytes.clone()).await.unwrap();
        bed.has(&bytes);
    }
}
