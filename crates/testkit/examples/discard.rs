//! A server of S3 that counts and checks what it receives, and keeps none of it: for uploads of any
//! length. `discard PORT` runs until its standard input ends, then prints the length and the
//! CRC-64/NVME of `/bucket/huge`, and how many uploads are unfinished.

#![expect(clippy::print_stdout, reason = "the output is its result")]

use std::io::{self, Read};

use tidegate_testkit::{Flavour, Server, ServerOptions, WriteEtags, WriteOptions};

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(0);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // MD5s would take most of the time.
    let writes =
        WriteOptions { discard: true, etags: WriteEtags::Opaque, ..WriteOptions::default() };
    let options = ServerOptions { port, writes, ..ServerOptions::of(Flavour::S3) };
    let server = runtime.block_on(Server::start(options))?;
    io::stdin().read_to_end(&mut Vec::new())?;
    let (len, crc) = server
        .object("/bucket/huge")
        .map_or((0, 0), |stored| (stored.len_bytes, stored.crc64_nvme));
    println!("{len} {crc:016x} {}", server.unfinished_uploads().len());
    Ok(())
}
