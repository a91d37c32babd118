//! The command as its users run it: the real binary, run against the testkit's server.
//!
//! | promise | test |
//! |---|---|
//! | **commands** | |
//! | `cp`: one blob to one target; several blobs side by side | `cp`, `several` |
//! | `--checksums`: every blob is compared with its line of a list | `checksums` |
//! | `--mirror`: one blob from several places | `mirrors` |
//! | `cat`: a blob to standard output, in order | `cat` |
//! | `stat`: facts, as text and as JSON | `stat` |
//! | `presign`: URLs for one request | `presign` |
//! | `mb`, `rb`: buckets | `buckets` |
//! | `stat`, `rm`: one version of a blob | `versions` |
//! | blobs in an archive name their restore | `archive` |
//! | `check`: what is the same, what differs, what is not known | `check` |
//! | `chunk`: where files are cut | `chunk` |
//! | `serve`: files survive the server and its end, refusals | `serve` |
//! | `store`: hit rates of simulated stores, damage, files into a store and back | `store` |
//! | `cacheprog`: the protocol of the `go` command | `cacheprog` |
//! | `demo` verifies both ways and leaves nothing | `demo` |
//! | help, man pages and completions are as checked in | `help`, `generate` |
//! | caches: files into them and out again | `caches` |
//! | targets that are there already | `present` |
//! | local sources that are streams, pipes, or of unknown length | `local` |
//! | **request headers and credentials** | |
//! | headers, keys, payer and version are sent as given | `headers` |
//! | rejected credentials are renewed once | `credentials` |
//! | credentials for Google Cloud from files of each type | `gcs_accounts` |
//! | roles of AWS that are assumed with other keys | `roles` |
//! | settings by the prefixes of URLs | `config` |
//! | passwords by host, and authorities that the environment names | `netrc` |
//! | proxies of the environment and of `--proxy` | `proxy` |
//! | every command of the pages does what the page says | `documented` |
//! | **failures** | |
//! | each failure has its exit code and a message that says what to do | `errors`, `usage` |
//! | a target that cannot be written is reported before a request, or loses nothing | `disk`, `limits` |
//! | an output that is full, closed or not ready | `output` |
//! | an interrupted run is resumed by the next | `interrupt` |
//! | **terminal output** | |
//! | no secret in any output or on disk | `secrets` |
//! | no control character from a name or a server reaches the terminal | `names` |
//! | `--debug` and `RUST_LOG`: requests and restarts as lines | `debug` |
//! | `--progress`: JSON for programs, or none | `progress_json` |
//! | the bar, the result and binary data on a terminal, at several widths | `terminal`, `screen` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod archive;
mod bed;
mod buckets;
mod cacheprog;
mod caches;
mod cat;
mod check;
mod checksums;
mod chunk;
mod config;
mod cp;
mod credentials;
mod debug;
mod demo;
mod disk;
mod documented;
mod errors;
mod gcs_accounts;
mod generate;
mod headers;
mod help;
mod interrupt;
mod limits;
mod local;
mod mirrors;
mod names;
mod netrc;
mod output;
mod present;
mod presign;
mod progress_json;
mod proxy;
mod roles;
mod screen;
mod secrets;
mod serve;
mod several;
mod stat;
mod store;
mod terminal;
mod token_service;
mod upload;
mod upload_described;
mod upload_killed;
mod usage;
mod versions;
