//! Faults at every second request, from seeds. They pass, so each upload ends with the right blob.

use tidegate::RetryPolicy;
use tidegate_testkit::{FaultMix, Flavour};

use super::play::{retry, upload};
use super::way::{WAYS, Way};
use crate::bed::{Bed, noise};

/// A seed takes some milliseconds of each way.
const SEEDS: std::ops::Range<u64> = 0..24;

#[tokio::test]
async fn uploads_survive_many_faults_at_once() {
    // The ids of blocks are random, so a seed does not decide their faults.
    let is_seeded = |way: &&Way| way.flavour != Flavour::Azure || way.parts() == 0;
    let ways: Vec<&Way> = WAYS.iter().filter(is_seeded).collect();
    // A question about a lost response counts as an attempt, and may meet two faults itself.
    let patient = RetryPolicy { attempts_max: 8, ..retry() };
    let mut applied = 0;
    for way in &ways {
        let bytes = noise(way.len);
        for seed in SEEDS {
            let bed = Bed::new(way.flavour).await.trusting();
            let path = bed.file(&bytes);
            bed.server.script().random(seed, FaultMix::recoverable(0.5));
            let outcome = upload(&bed, &bed.client, way, &path, patient.clone()).await;
            outcome.unwrap_or_else(|error| panic!("{} {seed}: {}", way.name, error.chain()));
            let stored = bed.stored().unwrap();
            assert!(stored.bytes.as_ref() == Some(&bytes), "{} {seed}", way.name);
            assert_eq!(bed.server.paths(), [bed.path()], "{} {seed}", way.name);
            applied += bed.server.script().applied();
        }
    }
    assert!(applied > SEEDS.end * ways.len() as u64, "{applied} faults");
}
