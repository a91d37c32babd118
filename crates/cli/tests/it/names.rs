//! Untrusted names and texts. None of them reaches a terminal as a control sequence, and none
//! becomes a file's name.

use tidegate_testkit::reapi::{Code, GrpcStatus, ReapiFault, ReapiOptions, ReapiServer, Rpc};
use tidegate_testkit::{Blob, Fault, Flavour, ServerOptions};

use crate::bed::{Bed, Ran, run_in};

/// Clears a terminal's screen; sets its title, in 7 bits and in 8; reverses the text direction;
/// breaks lines; moves the cursor back; deletes.
const EVIL: &str =
    "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}2J\u{202e}\u{2066}\u{2028}a\nerror: b\rc\u{8}\u{7f}d";

#[track_caller]
fn is_harmless(ran: &Ran) -> &Ran {
    let out = ran.out();
    for text in [&out, &ran.stderr] {
        let evil = |c: char| {
            (c.is_control() && c != '\n')
                || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                    | '\u{2066}'..='\u{2069}')
        };
        assert!(!text.contains(evil), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("error: b")), "{text:?}");
    }
    ran
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_with_control_characters_are_shown_escaped() {
    for flavour in [Flavour::Gcs, Flavour::S3] {
        let bed = Bed::new(ServerOptions::of(flavour)).await;
        let scheme = if flavour == Flavour::Gcs { "gs" } else { "s3" };
        let url = &*format!("{scheme}://bucket/{EVIL}");
        for args in [
            &["cp", "-v", url, "out"][..],
            &["cp", "--json", url, "out"],
            &["cp", url, url, "/dev/null"],
            &["cp", "--json", url, url, "/dev/null"],
            &["cat", url],
            &["cat", "--json", url],
            &["stat", url],
            &["stat", "--json", url],
            &["cp", "out", url],
            &["stat", url, url],
            &["stat", "--json", url, url],
        ] {
            let ran = bed.gcs_run(args).await;
            assert_ne!(is_harmless(&ran).code, None, "{args:?}");
            assert!(
                ran.stderr.contains("u{1b}")
                    || ran.out().contains("u001b")
                    || ran.out().contains("u{1b}"),
                "{args:?}: {ran:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_control_characters_is_not_used_as_a_file_name() {
    let bed = Bed::gcs().await;
    for name in ["a\u{1b}[2Jb", "a\nb", "a\u{7f}", "a\u{85}b", "a\u{202e}gpj.exe", "\u{9b}2J"] {
        let url = format!("gs://bucket/k/{name}");
        let ran = bed.gcs_run(&["cp", &url, "."]).await;
        is_harmless(ran.ends(2)).says("control character").says("hint: ");
        let http = bed.server.url("/bucket/");
        let encoded: Vec<String> = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let encoded = encoded.concat();
        let ran = bed.run(&["cp", &format!("{http}{encoded}"), "."]).await;
        is_harmless(ran.ends(2)).says("control character").says("hint: name the target file");
    }
    assert_eq!((bed.server.requests(), bed.names()), (0, Vec::<String>::new()));
    bed.put("/bucket/k", 10);
    // A name that the user chooses is accepted.
    bed.gcs_run(&["cp", "gs://bucket/k", "a\u{1b}[2Jb"]).await;
    let ran = bed.gcs_run(&["cp", "gs://bucket/k", "a\u{1b}[2Jb"]).await;
    is_harmless(ran.ends(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_server_are_shown_escaped() {
    let bed = Bed::http().await;
    bed.server.put("/f/blob", Blob::new(vec![1; 10]));
    let url = &*bed.server.url("/f/blob");
    let elsewhere = format!("http://127.0.0.1:1/{}", "%1b%5b2J");
    for fault in [
        Fault::Redirect(elsewhere),
        Fault::Status { code: 400, retry_after: None, body: EVIL.to_owned() },
        Fault::Status { code: 403, retry_after: None, body: format!("<Code>{EVIL}</Code>") },
    ] {
        bed.server.script().clear();
        bed.server.script().always(fault);
        for args in [&["cp", "-v", "--retries", "1", url, "out"][..], &["stat", url]] {
            assert_ne!(is_harmless(&bed.run(args).await).code, Some(0));
        }
    }
    let cache = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let status = GrpcStatus::new(Code::PermissionDenied, EVIL);
    cache.script().always(Rpc::Capabilities, ReapiFault::Fail(status));
    let blob = format!("{}/sha256/{}/5", cache.url(), "0".repeat(64));
    for args in [&["cp", "-v", &blob, "out"][..], &["stat", &blob], &["stat", "--json", &blob]] {
        let ran = run_in(bed.folder.path(), args).await;
        assert_ne!(is_harmless(&ran).code, Some(0), "{args:?}");
    }
}

/// Files may have any name, but no name may deceive the user of the terminal.
#[tokio::test(flavor = "multi_thread")]
async fn control_characters_of_file_names_are_shown_escaped() {
    let bed = Bed::http().await;
    std::fs::write(bed.path(EVIL), "content").unwrap();
    let cache = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    for (args, code) in [
        (&["cp", EVIL, "out"][..], 0),
        (&["cp", "--json", EVIL, "out"], 0),
        (&["cp", "out", EVIL], 0),
        (&["stat", EVIL], 0),
        (&["chunk", EVIL, EVIL], 0),
        (&["chunk", "--json", EVIL, EVIL], 0),
        (&["cp", EVIL, EVIL], 2),
        (&["cp", EVIL, &cache.url()], 0),
        (&["cp", "--seed", EVIL, "out", "out2"], 2),
        (&["cp", "--window", EVIL, "out", "out2"], 2),
        (&["cp", "--json", "--window", EVIL, "out", "out2"], 2),
        (&["man", "--dir", EVIL], 1),
        (&[EVIL], 2),
    ] {
        let ran = bed.run(args).await;
        is_harmless(ran.ends(code));
    }
}
