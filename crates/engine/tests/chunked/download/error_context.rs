//! A download error names the blob, the chunk, its range in the blob, the reason, and what to do.

use tidegate::ErrorKind;

use super::bed::{Bed, chunks};
use super::fake::{Act, Call, FakeStore, Fault};

#[tokio::test(start_paused = true)]
async fn an_error_names_the_blob_the_chunk_and_its_range() {
    let faults = [
        (Fault::Flipped, "expected sha256", ErrorKind::Integrity),
        (Fault::Broken, "as the script says", ErrorKind::Exhausted),
        (Fault::Refused, "as the script says", ErrorKind::NoAccess),
        (Fault::Missing, "", ErrorKind::NotFound),
        (Fault::EndAfter(0), "ended before the range did", ErrorKind::Exhausted),
    ];
    // In a request of its own, in a batch, and too long to be held.
    for lens in [[300_000; 4], [1000; 4], [1000, 2000, 2_000_000, 3000]] {
        for (fault, cause, kind) in &faults {
            if *fault == Fault::EndAfter(0) && lens[2] < 300_000 {
                // These chunks are not streamed.
                continue;
            }
            let mut bed = Bed::new(chunks(lens.into_iter().zip(1..))).with_budget(4 << 20, 4);
            bed.options.whole_fallback = false;
            let (bad, start) = (bed.digest(2), (lens[0] + lens[1]) as u64);
            let theirs = fault.clone();
            bed.store.script(move |_, digest, _| match digest {
                Some(digest) if *digest == bad => Act::fault(theirs.clone()),
                _ => Act::default(),
            });
            let error = bed.to_file().await.unwrap_err();
            let chain = error.chain();
            assert_eq!(error.kind(), *kind, "{chain}");
            assert_eq!(error.target(), bed.blob.to_string(), "{chain}");
            assert_eq!(error.range(), Some(start..start + lens[2] as u64), "{chain}");
            assert!(chain.contains(&format!("chunk {bad}")) && chain.contains(cause), "{chain}");
            assert!(error.hint().is_some(), "{chain}");
            assert!(chain.matches("attempts").count() <= 1, "{chain}");
        }
    }
}

/// The error of a whole batch names its first chunk, and the range of all its chunks.
#[tokio::test(start_paused = true)]
async fn an_error_of_a_batch_has_the_range_of_its_chunks() {
    let bed = Bed::new(chunks((0..4).map(|seed| (1000, seed))));
    bed.store.script(|call, _, _| match call {
        Call::Batch { .. } => Act::fault(Fault::Broken),
        _ => Act::default(),
    });
    let error = bed.to_file().await.unwrap_err();
    let chain = error.chain();
    assert_eq!((error.target(), error.range()), (&*bed.blob.to_string(), Some(0..4000)), "{chain}");
    let batch = format!("a batch of 4 chunks, the first {}: gave up", bed.digest(0));
    assert!(chain.contains(&batch), "{chain}");
    assert!(
        chain.contains("gave up after 8 attempts") && chain.matches("attempt").count() == 1,
        "{chain}"
    );
}

/// The error of a blob that is fetched whole has the range of the missing bytes.
#[tokio::test(start_paused = true)]
async fn the_error_of_a_whole_blob_has_the_missing_range() {
    let store = FakeStore::new().with_profile(|profile| profile.can_split = false);
    let bed = Bed::on(store, chunks([(3_000_000, 1)])).with_budget(4 << 20, 4);
    bed.store.script(|call, _, _| match call {
        Call::Get { offset: 0, .. } => Act::fault(Fault::CutAfter(1_000_000)),
        Call::Get { .. } => Act::fault(Fault::Broken),
        _ => Act::default(),
    });
    let error = bed.to_file().await.unwrap_err();
    let chain = error.chain();
    assert_eq!(error.target(), bed.blob.to_string(), "{chain}");
    assert_eq!(error.range(), Some(1_000_000..3_000_000), "{chain}");
}
