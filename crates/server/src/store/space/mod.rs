//! The limit in bytes.
//!
//! | file | idea |
//! |---|---|
//! | `account` | what takes space, and reservations as bytes arrive |
//! | `histogram` | bytes by age, and the age from which entries go |
//! | `policy` | how much to evict, which pack to clean; pure |

mod account;
mod histogram;
mod policy;

pub(crate) use account::{FILE_BLOCK_BYTES, Reservation, Space};
pub(crate) use histogram::AgeHistogram;
pub(crate) use policy::{PackUse, Plan, Usage, plan};
