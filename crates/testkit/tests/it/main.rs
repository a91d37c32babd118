//! What goes over the wire, seen by a client that takes nothing for granted.
//!
//! | promise | test |
//! |---|---|
//! | without a fault the server keeps to RFC 9110 | `manners`, `conditions` |
//! | each fault does on the wire what it says | `faults` |
//! | random faults repeat with their seed | `random` |
//! | each flavour speaks as its cloud does | `clouds`, `keys` |
//! | the server owns its tasks, and its counts are true | `lifecycle` |
//! | TLS, and how a cut looks under it | `tls` |
//! | the oracle for hostile servers knows right from wrong | `hostile` |
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
