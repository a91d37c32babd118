//! The fault matrix over the command as it is installed: what arrives, how it exits, what it says,
//! how often it asks, and what it leaves behind.

mod faults;
mod run;
