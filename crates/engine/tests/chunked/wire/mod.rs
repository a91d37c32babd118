//! Chunked transfers against a cache that misbehaves as scripted: what arrives, what it costs, and
//! what is left after a failure.
//!
//! | promise | test |
//! |---|---|
//! | a transient fault is survived, a permanent fault is an error, and wrong bytes never get the target's name | `down_faults` |
//! | the same for uploads; a failed upload registers nothing | `up_faults` |
//! | each chunk is fetched once; only missing chunks are sent | `down_faults::every_chunk_is_fetched_once`, `up_faults::only_missing_chunks_are_sent` |
//! | a manifest that cannot be right is not used | `lies` |
//! | faults that other chunked clients and servers are known for | `known_faults` |
//! | faults of many kinds at once, from seeds | `chaos` |
//! | a transfer that ends at any of its calls can be continued | `everywhere` |
//! | after a cancellation, a drop or an error nothing is in flight, and the next attempt fetches the rest | `cancel` |
//! | a slow or stalled server costs time and not bytes; the deadline and the stall limit hold | `pace`, `stall` |
//! | a connection that goes silent does not end a transfer | `silence` |
//! | a slow chunk delays only itself, and an ordered target holds no more than the budget grants | `head` |
//! | compressed chunks arrive unchanged | `packed` |
//! | transfers share chunks within a client and within one set of credentials, and nowhere else | `clients`, `callers` |
//! | a successful upload has the digest that was given; on request the cache is asked again at the end | `confirm` |
//! | nothing is in flight or held after any transfer | `bed`, for every test |

mod bed;
mod callers;
mod cancel;
mod chaos;
mod clients;
mod confirm;
mod down_faults;
mod everywhere;
mod head;
mod known_faults;
mod lies;
mod pace;
mod packed;
mod silence;
mod stall;
mod up_faults;
