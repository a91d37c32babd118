//! Tests of the credential process: real programs, started through `sh`.

use std::time::Duration;

use super::*;
use crate::remote::credential_program::SHOWN_CHARS_MAX;

fn process(script: &str) -> CredentialProcess {
    CredentialProcess::new("AWS profile work", &format!("sh -c '{script}'")).unwrap()
}

async fn reason(process: &CredentialProcess) -> String {
    process.get_credential().await.unwrap_err().to_string()
}

const KEYS: &str = r#"{\"Version\":1,\"AccessKeyId\":\"AK\",\"SecretAccessKey\":\"hidden\"}"#;

#[tokio::test]
async fn keys_without_expiry_are_asked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let process = process(&format!("echo x >> {}; echo \"{KEYS}\"", runs.display()));
    let all = (0..8).map(|_| process.get_credential());
    for credential in futures_util::future::join_all(all).await {
        assert_eq!(credential.unwrap().key_id, "AK");
    }
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "x\n");
}

#[tokio::test]
async fn requests_that_fail_together_share_one_failure() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let process = process(&format!("echo x >> {}; exit 3", runs.display()));
    let all = (0..8).map(|_| reason(&process));
    for reason in futures_util::future::join_all(all).await {
        assert!(reason.contains("AWS profile work failed: exit status: 3"), "{reason}");
    }
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "x\n");
}

#[tokio::test]
async fn a_failure_shows_one_line_of_standard_error_and_no_output() {
    let script =
        format!("echo \"{KEYS}\"; printf \"\\n\\033[31mlog in\\nsecond\\n\" >&2; exit 255");
    let reason = reason(&process(&script)).await;
    assert!(reason.contains("exit status: 255: \\u{1b}[31mlog in"), "{reason}");
    assert!(!reason.contains("hidden") && !reason.contains("second"), "{reason}");
}

#[tokio::test]
async fn long_standard_error_is_drained_and_cut() {
    let script = "head -c 300000 /dev/zero | tr \"\\0\" x >&2; exit 1";
    let reason = reason(&process(script)).await;
    assert!(reason.ends_with(&"x".repeat(SHOWN_CHARS_MAX)), "{}", reason.len());
    assert!(!reason.contains(&"x".repeat(SHOWN_CHARS_MAX + 1)));
}

#[tokio::test]
async fn output_and_time_are_limited() {
    let reason_endless = reason(&process("exec yes hidden")).await;
    assert!(reason_endless.contains("more than 1048576 bytes"), "{reason_endless}");
    assert!(!reason_endless.contains("hidden"));
    let mut stuck = process("exec sleep infinity");
    stuck.program.time_max = Duration::from_millis(20);
    let reason = reason(&stuck).await;
    assert!(reason.contains("did not end within"), "{reason}");
}

/// The program holds a named pipe open, whose reader sees the end when the program ends.
#[tokio::test]
async fn an_abandoned_program_is_killed() {
    use std::io::Read as _;

    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let script = format!("exec 3> {}; echo >&3; exec sleep infinity", pipe.display());
    let (started, has_started) = tokio::sync::oneshot::channel();
    let (ended, has_ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut pipe = std::fs::File::open(pipe).unwrap();
        let _ = started.send(pipe.read_exact(&mut [0]));
        let _ = ended.send(pipe.read_to_end(&mut Vec::new()));
    });
    let process = process(&script);
    tokio::select! {
        _ = process.get_credential() => panic!("the program ended"),
        read = has_started => read.unwrap().unwrap(),
    }
    let ended = tokio::time::timeout(Duration::from_secs(10), has_ended).await;
    ended.expect("the program still runs").unwrap().unwrap();
}

#[tokio::test]
async fn standard_input_is_empty() {
    let process = process(&format!("cat; echo \"{KEYS}\""));
    assert!(process.get_credential().await.is_ok());
}

#[tokio::test]
async fn a_missing_program_and_expired_keys_are_errors() {
    let missing =
        CredentialProcess::new("AWS profile work", "/no/such/program -secret hidden").unwrap();
    let text = reason(&missing).await;
    assert!(text.contains("cannot be started") && !text.contains("hidden"), "{text}");
    assert!(!format!("{missing:?}").contains("hidden"));
    let old = KEYS.replace('}', r#",\"Expiration\":\"2020-01-01T00:00:00Z\"}"#);
    let text = reason(&process(&format!("echo \"{old}\""))).await;
    assert!(text.contains("already expired"), "{text}");
}

#[test]
fn a_command_needs_a_program() {
    assert_eq!(CredentialProcess::new("AWS profile work", "  ").err(), Some("it is empty"));
    assert!(CredentialProcess::new("AWS profile work", "a 'b").is_err());
}
