//! Who may do what, over real sockets: roles, tenants, instances, quotas, TLS.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

mod bed;
mod refresh;
mod roles;
mod tenants;
mod tls;
