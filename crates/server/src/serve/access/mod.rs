//! Who may do what: credentials, the role that each request needs, and TLS.
//!
//! | file | idea |
//! |---|---|
//! | `role` | [`Role`]: what a caller may do |
//! | `caller` | [`Caller`]: one whose credentials were checked: role, tenant, instances |
//! | `credentials` | the file of tokens and certificates |
//! | `presented` | the token of a request |
//! | `door` | [`Door`]: lets a request in, or refuses it; the credentials are read again when they change |
//! | `quota` | [`Quotas`]: bytes that an instance may write in a day |
//! | `tls` | certificates of the server and of clients, read again when they change |
//! | `watch` | when a file has changed |
//!
//! Invariants:
//! - `route` asks the door before any handler runs, and a request without the role that it needs
//!   reaches none.
//! - A token is kept and compared as its SHA-256. It is in no log and in no message.
//! - A file that is changed into one with an error changes nothing: the last good one counts, and
//!   the log says why.

mod caller;
mod credentials;
mod door;
mod presented;
mod quota;
mod role;
mod tls;
mod watch;

pub use self::caller::{Caller, Tenant};
pub(super) use self::door::{Door, Need, Refusal};
pub(super) use self::quota::Quotas;
pub use self::quota::{Quota, QuotaUsed};
pub use self::role::Role;
pub use self::tls::TlsFiles;
pub(super) use self::tls::{PeerCertificate, Tls};
