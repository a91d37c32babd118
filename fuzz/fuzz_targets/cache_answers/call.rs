//! The calls, and what must hold after each for every response.

use std::sync::Arc;

use arbitrary::Arbitrary;
use futures_util::StreamExt as _;
use tidegate::chunked::{ChunkStore, Manifest, PutRequest, PutSession, SendProgress};
use tidegate_core::digest::Digest;
use tidegate::{Budget, Error};

use crate::blobs::{blobs, chosen, name};

#[derive(Arbitrary, Debug)]
pub(crate) enum Call {
    Missing,
    Get { blob: u8, offset: u16 },
    GetBatch,
    Put { blob: u8, resume: bool },
    PutBatch,
    Manifest { blob: u8 },
    Register,
}

pub(crate) fn assert_shown(error: &Error) {
    let chain = error.chain();
    assert!(!chain.is_empty() && !chain.chars().any(char::is_control), "{chain:?}");
}

pub(crate) async fn call(cache: &dyn ChunkStore, call: &Call) {
    let all = blobs();
    let names: Vec<Digest> = all.iter().map(|bytes| name(bytes)).collect();
    let outcome = match call {
        Call::Missing => cache.missing(&names).await.map(|missing| {
            assert!(missing.iter().all(|one| names.contains(one) && one.len > 0));
            assert!(missing.len() < names.len());
        }),
        Call::Get { blob, offset } => get(cache, &name(&chosen(*blob)), u64::from(*offset)).await,
        Call::GetBatch => cache.get_batch(&names, &Budget::default()).await.map(|answers| {
            assert_eq!(answers.len(), names.len());
            for (answer, name) in answers.into_iter().zip(&names) {
                match answer {
                    Ok(Some(bytes)) => assert_eq!(bytes.len() as u64, name.len),
                    Ok(None) => {}
                    Err(error) => assert_shown(&error),
                }
            }
        }),
        Call::Put { blob, resume } => {
            let bytes = chosen(*blob);
            let request = PutRequest {
                digest: name(&bytes),
                session: PutSession::default(),
                resume: *resume,
                source: Arc::new(bytes),
                progress: SendProgress::default(),
            };
            cache.put(&request).await
        }
        Call::PutBatch => {
            let chunks: Vec<_> = names.iter().copied().zip(all).collect();
            cache.put_batch(&chunks, &SendProgress::default()).await.map(|answers| {
                assert_eq!(answers.len(), chunks.len());
                answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(assert_shown);
            })
        }
        Call::Manifest { blob } => {
            let name = name(&chosen(*blob));
            cache.manifest(&name, None, &Budget::default()).await.map(|manifest| {
                let Some(manifest) = manifest else { return };
                assert_eq!(manifest.blob(), &name);
                let sum: u64 = manifest.chunks().iter().map(|chunk| chunk.len).sum();
                assert_eq!(sum, name.len);
                assert!(manifest.chunks().iter().all(|chunk| chunk.len > 0));
            })
        }
        Call::Register => {
            let manifest = Manifest::new(names[3], vec![names[3]], None).unwrap();
            cache.register(&manifest).await.map(|_| ())
        }
    };
    if let Err(error) = outcome {
        assert_shown(&error);
    }
}

async fn get(cache: &dyn ChunkStore, name: &Digest, offset: u64) -> tidegate::Result<()> {
    let asked = name.len - offset.min(name.len);
    let mut body = cache.get(name, offset, &Budget::default()).await?;
    let mut came = 0;
    while let Some(piece) = body.next().await {
        let piece = piece?;
        came += piece.len() as u64;
        assert!(!piece.is_empty() && came <= asked, "{came} of {asked}");
    }
    assert_eq!(came, asked, "a body that ends without an error is whole");
    Ok(())
}
