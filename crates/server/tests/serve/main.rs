//! The server over real sockets: black-box tests of the Remote Execution API, with a gRPC library of
//! others, with raw HTTP/2 where such a library sends only what is right, and with the engine's own
//! client.
//!
//! | file | what it tests |
//! |---|---|
//! | `bed` | a server on a free port, clients, blobs |
//! | `raw` | calls as bytes, cut where a test wants |
//! | `capabilities` | what clients are offered |
//! | `batches` | many blobs in one message |
//! | `streams` | one blob as a stream: names, offsets, compression, early answers |
//! | `resume` | interrupted writes |
//! | `chunks` | split, splice, trees |
//! | `actions` | action results |
//! | `cuts` | requests that are cut or stall |
//! | `every_byte` | requests of every kind, cut at every byte |
//! | `idle` | streams that declare much and send nothing |
//! | `clients` | the limits of one client |
//! | `windows` | receive windows, as far as the memory pays them |
//! | `stall` | clients that send or take too little for too long |
//! | `failures` | a full store, damaged bytes |
//! | `engine` | files that go through the server and come back |
//! | `upstream` | what another cache fills |
//! | `asset` | blobs of other servers |
//! | `plain` | HTTP, the health of the server, its end |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod actions;
mod asset;
mod batches;
mod bed;
mod capabilities;
mod chunks;
mod clients;
mod cuts;
mod engine;
mod every_byte;
mod failures;
mod idle;
mod plain;
mod raw;
mod resume;
mod stall;
mod streams;
mod upstream;
mod windows;
