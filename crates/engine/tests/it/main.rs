//! What users of the library rely on, through its public interface, against servers with scripted
//! faults.
//!
//! | promise | test |
//! |---|---|
//! | **what arrives** | |
//! | every remote into every target, whole and verified | `targets` |
//! | bytes that contradict a checksum never get the target's name | `verify` |
//! | checksums of an upload's parts are compared where the parts are known | `composite` |
//! | a blob that changes is never mixed | `change`, `headers::versions` |
//! | bytes fetched of one object are not used for another | `selection`, `keys` |
//! | responses that contradict themselves deliver right bytes or an error | `hostile`, `framing` |
//! | a server that ignores ranges does no harm | `ranges` |
//! | **faults** | |
//! | a transient fault costs its own requests; a permanent fault is an error after a bounded number | `faults`, `contact` |
//! | refusals and redirects of S3 are obeyed within bounds | `refusals` |
//! | a transfer from a silent or very slow server ends in time | `silence` |
//! | the deadline bounds a transfer as a whole | `deadline` |
//! | **interruptions** | |
//! | the next run continues where an interrupted run stopped | `resume` |
//! | a forged or damaged part file is not believed | `forged` |
//! | a file that is already the blob is not fetched again | `unchanged` |
//! | two blobs are compared without a transfer | `compare` |
//! | several mirrors of a blob deliver it together; one that fails is dropped | `mirrors` |
//! | **limits that blobs share** | |
//! | many blobs share a small budget; slow shards are split or raced | `concurrency` |
//! | small blobs do not wait for large ones | `fairness` |
//! | downloads wait for file descriptors | `descriptors` |
//! | connections are reused only if that is safe; TLS trusts only the configured authorities | `transport` |
//! | headers, keys and payers are sent only where the caller wants them | `headers` |
//! | **other interfaces** | |
//! | a channel: ranges, seeks, limits, capture, decoding, verification | `read`, by behaviour; `read_model`, against a model |
//! | a buffer that many writers fill | `buffer`, with a table of its own |
//! | a buffer that is read while a download fills it | `follow` |
//! | events of requests and restarts, for a subscriber | `events` |
//! | caches of the Remote Execution API | `reapi`, with a table of its own |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bed;
mod buffer;
#[path = "../call/mod.rs"]
mod call;
mod change;
mod compare;
mod composite;
mod concurrency;
mod contact;
mod deadline;
mod descriptors;
mod events;
mod fairness;
mod faults;
mod follow;
mod forged;
mod framing;
mod headers;
mod hostile;
mod keys;
mod mirrors;
mod ranges;
mod read;
mod read_model;
mod reapi;
mod refusals;
mod resume;
mod selection;
mod silence;
mod targets;
mod transport;
mod trial;
mod unchanged;
mod verify;
