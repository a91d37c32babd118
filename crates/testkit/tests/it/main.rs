//! Tests of the bytes on the wire, through a client that assumes nothing about them.
//!
//! | promise | test |
//! |---|---|
//! | without a fault the server keeps to RFC 9110 | `manners`, `conditions` |
//! | each fault does on the wire what it says | `faults` |
//! | random faults repeat with their seed | `random` |
//! | each flavour behaves like its cloud | `clouds`, `keys` |
//! | the server owns its tasks, and its counts are true | `lifecycle` |
//! | TLS, and the effect of a cut under it | `tls` |
//! | the oracle for hostile servers distinguishes right from wrong | `hostile` |
//! | uploads of each flavour, with their refusals, options and faults | `writes` |
//! | the cache of the Remote Execution API, its faults and its cutting | `reapi` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod client;
mod clouds;
mod conditions;
mod faults;
mod hostile;
mod keys;
mod lifecycle;
mod manners;
mod random;
mod reapi;
mod tls;
mod writes;
