//! Caches of the Remote Execution API, through the library's public interface, against a server
//! that misbehaves as scripted.
//!
//! | promise | test |
//! |---|---|
//! | facts, ranges and downloads work as with any remote | `blobs` |
//! | many small blobs share one request, and each fails alone | `batches` |
//! | a whole blob arrives under its name, is not sent twice, and a false acknowledgement is found | `puts` |
//! | missing blobs are asked for in messages that fit | `missing` |
//! | a manifest that is inconsistent is refused | `manifests` |
//! | responses that contradict themselves count as failures | `contradictions` |
//! | refusals keep the server's message, class and delay | `refusals` |
//! | compressed transfers deliver the same bytes within bounds | `compression` |
//! | connections are shared and replaced; a failure ends only the calls on its connection | `connections` |
//! | a silent connection is found in the configured time | `keep_alive` |
//! | TLS in both directions; tokens go with every request | `trust` |

mod batches;
mod bed;
mod blobs;
mod compression;
mod connections;
mod contradictions;
mod keep_alive;
mod manifests;
mod missing;
mod puts;
mod refusals;
mod trust;
