//! The memory that a memory store uses.

use tidegate::store::{BlobStore, MemoryStore};
use tidegate::{Budget, BudgetOptions, ErrorKind, RetryClass};

use crate::{get, is_missing, noise, put};

#[tokio::test]
async fn a_full_store_refuses_and_keeps_what_it_has() {
    let store = MemoryStore::new(1 << 20);
    let (first, bytes) = noise(700_000, 1);
    put(&store, first, &bytes).await.unwrap();
    let (second, more) = noise(400_000, 2);
    let error = put(&store, second, &more).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Storage, &RetryClass::Never));
    assert!(is_missing(&store, &second).await);
    assert_eq!(get(&store, &first).await.unwrap(), bytes);
    // A blob larger than the limit is refused, too, even by an empty store.
    assert!(store.remove(&first));
    let (third, long) = noise((1 << 20) + 1, 3);
    assert_eq!(put(&store, third, &long).await.unwrap_err().kind(), ErrorKind::Storage);
    put(&store, second, &more).await.unwrap();
}

#[tokio::test]
async fn held_bytes_are_charged_to_the_budget() {
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
    let store = MemoryStore::in_budget(&budget);
    let (digest, bytes) = noise(100_000, 4);
    put(&store, digest, &bytes).await.unwrap();
    assert_eq!(budget.held_bytes(), 25 * 4096);
    // A second put of the same blob reserves nothing.
    put(&store, digest, &bytes).await.unwrap();
    assert_eq!(budget.held_bytes(), 25 * 4096);
    // A refused put releases its reservation.
    let (other, _) = noise(200_000, 5);
    put(&store, other, &noise(200_000, 6).1).await.unwrap_err();
    assert_eq!(budget.held_bytes(), 25 * 4096);
    let clone = store.clone();
    assert_eq!(clone.identity(), store.identity());
    drop(store);
    assert_eq!(budget.held_bytes(), 25 * 4096);
    drop(clone);
    assert_eq!(budget.held_bytes(), 0);
}
