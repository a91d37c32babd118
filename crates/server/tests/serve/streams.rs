//! One blob as a stream: names, offsets, compression, early answers.

use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::bytestream::{QueryWriteStatusRequest, WriteRequest};
use tonic::Code;

use crate::bed::{
    Bed, UPLOAD, blob_name, messages, noise, refused, sha256, text, upload_name, zstd,
};

#[tokio::test(flavor = "multi_thread")]
async fn blobs_of_every_length_come_back() {
    let bed = Bed::new().await;
    for len in [1, 100, 4096, 65_536, 65_537, 300_000, 3 << 20] {
        let bytes = noise(len, len as u64);
        let digest = sha256(&bytes);
        let written = bed.write_all(&upload_name(&digest), &bytes, 70_000).await.unwrap();
        assert_eq!(usize::try_from(written), Ok(len));
        assert!(bed.read(&blob_name(&digest), 0, 0).await.unwrap() == bytes, "{len}");
    }
    assert_eq!(bed.budget.held_bytes(), 0);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_exact() {
    let bed = Bed::new().await;
    let bytes = noise(1 << 20, 5);
    let name = blob_name(&bed.put(&[&bytes]).await[0]);
    for (offset, limit, expected) in [
        (0, 10, 0..10),
        (5, 0, 5..1 << 20),
        (300_000, 300_000, 300_000..600_000),
        (1_048_570, 100, 1_048_570..1 << 20),
        (1 << 20, 0, 0..0),
        (1 << 20, 7, 0..0),
    ] {
        let read = bed.read(&name, offset, limit).await.unwrap();
        assert!(read == bytes[expected], "{offset} {limit}");
    }
    refused(bed.read(&name, -1, 0).await, Code::OutOfRange);
    refused(bed.read(&name, (1 << 20) + 1, 0).await, Code::OutOfRange);
    refused(bed.read(&name, 0, -1).await, Code::InvalidArgument);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_have_many_forms() {
    let bed = Bed::new().await;
    let bytes = noise(1000, 1);
    let hash = sha256(&bytes).checksum().hex();
    for prefix in ["", "/", "main/", "a/b/c/"] {
        let name = format!("{prefix}uploads/{UPLOAD}/blobs/{hash}/1000/out/a.o");
        assert_eq!(bed.write_all(&name, &bytes, 400).await.unwrap(), 1000, "{name}");
        for infix in ["", "sha256/"] {
            let name = format!("{prefix}blobs/{infix}{hash}/1000");
            assert_eq!(bed.read(&name, 0, 0).await.unwrap(), bytes, "{name}");
        }
    }
    let other = noise(70_000, 2);
    let digest = Digest::of(DigestFunction::Blake3, &other);
    let tail = format!("blobs/blake3/{}/70000", digest.checksum().hex());
    let written = bed.write_all(&format!("uploads/{UPLOAD}/{tail}"), &other, 9000).await;
    assert_eq!(written.unwrap(), 70_000);
    assert_eq!(bed.read(&tail, 0, 0).await.unwrap(), other);
    for name in ["", "blobs", &hash, "blobs/x/1", &format!("blobs/{hash}/01")] {
        refused(bed.read(name, 0, 0).await, Code::InvalidArgument);
    }
    for name in [format!("blobs/{hash}/1000"), format!("uploads/x/blobs/{hash}/1000")] {
        refused(bed.write_all(&name, &bytes, 400).await, Code::InvalidArgument);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_not_found_and_the_empty_blob_never_is() {
    let bed = Bed::new().await;
    let status = refused(bed.read(&blob_name(&sha256(b"x")), 0, 0).await, Code::NotFound);
    assert!(status.message().contains(&sha256(b"x").checksum().hex()));
    assert_eq!(bed.read(&blob_name(&sha256(b"")), 0, 0).await.unwrap(), b"");
    let written = bed
        .write(vec![WriteRequest {
            resource_name: upload_name(&sha256(b"")),
            finish_write: true,
            ..Default::default()
        }])
        .await;
    assert_eq!(written.unwrap(), 0);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_streams_are_the_same_blobs() {
    let bed = Bed::new().await;
    for (bytes, seed) in [(text(5000, 1), 1), (text(3 << 20, 2), 2), (noise(2 << 20, 3), 3)] {
        let digest = sha256(&bytes);
        let (packed, tail) = (zstd(&bytes), blob_name(&digest));
        let tail = tail.strip_prefix("blobs/").unwrap();
        let upload = format!("uploads/{UPLOAD}/compressed-blobs/zstd/{tail}");
        let written = bed.write_all(&upload, &packed, 100_000).await.unwrap();
        assert_eq!(usize::try_from(written), Ok(packed.len()), "{seed}");
        assert!(bed.read(&blob_name(&digest), 0, 0).await.unwrap() == bytes, "{seed}");
        // It is there now, so the answer comes early.
        assert_eq!(bed.write_all(&upload, &packed, 100_000).await.unwrap(), -1);
        let name = format!("compressed-blobs/zstd/{tail}");
        for offset in [0, 1000] {
            let read = bed.read(&name, i64::try_from(offset).unwrap(), 0).await.unwrap();
            let read = zstd::stream::decode_all(&read[..]).unwrap();
            assert!(read == bytes[offset..], "{seed} from {offset}");
        }
        refused(bed.read(&name, 0, 5).await, Code::InvalidArgument);
    }
    // A blob that came plain is compressed when it is asked for.
    let bytes = text(100_000, 9);
    let digest = bed.put(&[&bytes]).await[0];
    let name = format!("compressed-{}", blob_name(&digest).replacen('/', "/zstd/", 1));
    let packed = bed.read(&name, 0, 0).await.unwrap();
    assert!(packed.len() < 10_000);
    assert_eq!(zstd::stream::decode_all(&packed[..]).unwrap(), bytes);
    let empty = blob_name(&sha256(b"")).replacen("blobs/", "compressed-blobs/zstd/", 1);
    let packed = bed.read(&empty, 0, 0).await.unwrap();
    assert_eq!(zstd::stream::decode_all(&packed[..]).unwrap(), b"");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_is_there_is_answered_before_its_bytes() {
    let bed = Bed::new().await;
    let bytes = noise(1 << 20, 1);
    let digest = bed.put(&[&bytes]).await[0];
    let first = WriteRequest {
        resource_name: upload_name(&digest),
        data: bytes[..10].to_vec().into(),
        ..Default::default()
    };
    // The request never ends.
    let endless = futures_util::StreamExt::chain(
        futures_util::stream::iter([first]),
        futures_util::stream::pending(),
    );
    let response = crate::bed::within(bed.streams().await.write(endless)).await.unwrap();
    assert_eq!(response.into_inner().committed_size, 1 << 20);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_another_client_has_sent_meanwhile_is_answered_before_its_end() {
    let bed = Bed::new().await;
    let bytes = noise(8 << 20, 1);
    let digest = sha256(&bytes);
    let name = upload_name(&digest);
    let mut parts = messages(&name, &bytes, 1 << 20, 0).into_iter();
    let (sender, queue) = tokio::sync::mpsc::channel(1);
    let request = futures_util::stream::unfold(queue, async |mut queue| {
        queue.recv().await.map(|part| (part, queue))
    });
    let mut client = bed.streams().await;
    let first = tokio::spawn(async move { client.write(Box::pin(request)).await });
    // These do not fit into the windows and buffers, so the server takes some of them.
    for part in parts.by_ref().take(6) {
        crate::bed::within(sender.send(part)).await.unwrap();
    }
    assert!(!bed.has(&digest).await);
    assert_eq!(bed.write_all(&name, &bytes, 1 << 20).await.unwrap(), 8 << 20);
    sender.send(parts.next().unwrap()).await.unwrap();
    // The last part is not sent.
    let answered = crate::bed::within(first).await.unwrap().unwrap();
    assert_eq!(answered.into_inner().committed_size, 8 << 20);
    assert!(bed.read(&blob_name(&digest), 0, 0).await.unwrap() == bytes);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_differ_name_nothing() {
    let bed = Bed::new().await;
    for len in [1000, 200_000] {
        let bytes = noise(len, 1);
        let digest = sha256(&bytes);
        let name = upload_name(&digest);
        let wrong = noise(len, 2);
        let longer = [&bytes[..], b"x"].concat();
        for sent in [&wrong[..], &bytes[..len - 1], &longer] {
            refused(bed.write_all(&name, sent, 70_000).await, Code::InvalidArgument);
        }
        let zstd_name = name.replacen("blobs/", "compressed-blobs/zstd/", 1);
        let frame = zstd(&bytes);
        for sent in [&zstd(&wrong)[..], &bytes, &frame[..frame.len() - 1], &zstd(&longer)] {
            refused(bed.write_all(&zstd_name, sent, 70_000).await, Code::InvalidArgument);
        }
        assert!(!bed.has(&digest).await);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_is_refused() {
    let bed = Bed::new().await;
    let bomb = zstd(&vec![0; 64 << 20]);
    let digest = Digest { len: 100_000, ..sha256(b"x") };
    let name = upload_name(&digest).replacen("blobs/", "compressed-blobs/zstd/", 1);
    refused(bed.write_all(&name, &bomb, 1000).await, Code::InvalidArgument);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_contradict_each_other_are_refused() {
    let bed = Bed::new().await;
    for len in [3000, 300_000] {
        let bytes = noise(len, 1);
        let digest = sha256(&bytes);
        let sound = messages(&upload_name(&digest), &bytes, len / 3, 0);
        let with = |change: &dyn Fn(&mut Vec<WriteRequest>)| {
            let mut messages = sound.clone();
            change(&mut messages);
            messages
        };
        for (flaw, messages) in [
            ("another name", with(&|m| m[1].resource_name = upload_name(&sha256(b"y")))),
            ("a gap", with(&|m| m[1].write_offset += 1)),
            ("an offset of zero", with(&|m| m[2].write_offset = 0)),
            ("a negative offset", with(&|m| m[0].write_offset = -1)),
            ("no name", with(&|m| m[0].resource_name.clear())),
            ("an early end", with(&|m| m[1].finish_write = true)),
            ("a start in the middle", with(&|m| drop(m.remove(0)))),
        ] {
            let outcome = bed.write(messages).await;
            assert_eq!(outcome.unwrap_err().code(), Code::InvalidArgument, "{flaw}");
        }
        refused(bed.write(Vec::new()).await, Code::InvalidArgument);
        assert!(!bed.has(&digest).await);
        // A name in each message is fine.
        let named =
            with(&|m| m.iter_mut().for_each(|one| one.resource_name = upload_name(&digest)));
        assert_eq!(usize::try_from(bed.write(named).await.unwrap()), Ok(len));
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_a_write_is_that_of_its_blob() {
    let bed = Bed::new().await;
    let bytes = noise(1000, 1);
    let query = async |name: String| {
        let request = QueryWriteStatusRequest { resource_name: name };
        let response = bed.streams().await.query_write_status(request).await.unwrap();
        let response = response.into_inner();
        (response.committed_size, response.complete)
    };
    assert_eq!(query(upload_name(&sha256(&bytes))).await, (0, false));
    bed.put(&[&bytes]).await;
    assert_eq!(query(upload_name(&sha256(&bytes))).await, (1000, true));
    bed.end().await;
}
