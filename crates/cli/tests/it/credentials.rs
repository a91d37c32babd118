//! Credentials that are rejected in mid-transfer are requested once more, from any source.

use std::process::Output;

use tidegate_testkit::{Blob, Fault, Flavour, Gate, Rule, Server, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::bed::{Bed, Ran, SHARD, command, finish, within};

/// Five shards.
const LEN: usize = 300_000;

/// The path of S3's credentials, as in a container.
const CONTAINER: &str = "/credentials";
/// The path of Google's credentials.
const METADATA: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
/// The path of Azure's credentials, as in an app service.
const IDENTITY: &str = "/msi/token";

fn container(name: &str) -> Blob {
    Blob::new(format!(
        r#"{{"AccessKeyId":"ID-{name}","SecretAccessKey":"secret","Token":"token-{name}",
            "Expiration":"2999-01-01T00:00:00Z"}}"#
    ))
}

fn metadata(name: &str) -> Blob {
    let token = format!("token-{name}");
    Blob::new(format!(r#"{{"access_token":"{token}","expires_in":86400,"token_type":"Bearer"}}"#))
}

fn identity(name: &str) -> Blob {
    let token = format!("token-{name}");
    Blob::new(format!(
        r#"{{"access_token":"{token}","expires_on":"32503680000","token_type":"Bearer"}}"#
    ))
}

struct Case {
    flavour: Flavour,
    service_path: &'static str,
    credential: fn(&str) -> Blob,
    /// The field that carries the token.
    field: &'static str,
    rejection: Fault,
}

fn cases() -> [Case; 5] {
    let s3 = |status, code| Case {
        flavour: Flavour::S3,
        service_path: CONTAINER,
        credential: container,
        field: "x-amz-security-token",
        rejection: Fault::Coded { status, code },
    };
    [
        s3(400, "ExpiredToken"),
        s3(403, "InvalidToken"),
        s3(401, "Unauthorized"),
        Case {
            flavour: Flavour::Gcs,
            service_path: METADATA,
            credential: metadata,
            field: "authorization",
            rejection: Fault::status(401),
        },
        Case {
            flavour: Flavour::Azure,
            service_path: IDENTITY,
            credential: identity,
            field: "authorization",
            rejection: Fault::status(401),
        },
    ]
}

/// A store, and the service that gives credentials for it.
struct Stage {
    bed: Bed,
    bytes: Vec<u8>,
    service: Server,
    case: Case,
}

impl Stage {
    async fn new(case: Case) -> Self {
        let bed = Bed::new(ServerOptions::of(case.flavour)).await;
        let bytes = bed.put("/bucket/blob", LEN);
        let service = Server::start(ServerOptions::default()).await.unwrap();
        service.put(case.service_path, (case.credential)("old"));
        std::fs::write(bed.path("container-token"), "x").unwrap();
        Self { bed, bytes, service, case }
    }

    /// The store rejects this token from the `nth` request on.
    fn reject(&self, token: &str, nth: u64) {
        let rule = Rule::new(self.case.rejection.clone()).field(self.case.field, token);
        self.bed.server.script().push(rule.nth(nth).always());
    }

    fn command(&self) -> Command {
        let mut command = command(self.bed.folder.path());
        let scheme = match self.case.flavour {
            Flavour::S3 => "s3",
            Flavour::Azure => "az",
            _ => "gs",
        };
        command.args(["cp", "--json", "--shard-size", SHARD, "--window", "2"]);
        command.args([&format!("{scheme}://bucket/blob"), "out"]);
        command.args(["--endpoint", &self.bed.server.endpoint()]);
        command
            .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", self.service.url(CONTAINER))
            .env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", self.bed.path("container-token"))
            .env("GCE_METADATA_HOST", self.service.addr().to_string())
            .env("AZURE_STORAGE_ACCOUNT_NAME", "account")
            .env("IDENTITY_ENDPOINT", self.service.url(IDENTITY));
        command
    }

    async fn run(&self) -> Ran {
        finish(self.command()).await
    }

    fn count(&self, token: &str) -> usize {
        let has = |value: &str| value.contains(token);
        let log = self.bed.server.log();
        log.iter().filter(|logged| logged.header(self.case.field).is_some_and(has)).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_continues_with_renewed_credentials() {
    for case in cases() {
        let label = format!("{:?}", case.rejection);
        let stage = Stage::new(case).await;
        let new = (stage.case.credential)("new");
        let path = stage.case.service_path;
        stage.service.script().push(Rule::new(Fault::ChangedVersion(new)).path(path).nth(2));
        stage.reject("token-old", 4);
        stage.run().await.ends(0);
        assert!(stage.bed.read("out") == stage.bytes, "{label}");
        assert_eq!(stage.service.requests(), 2, "{label}: once, and once more");
        assert!(stage.count("token-old") >= 3 && stage.count("token-new") >= 1, "{label}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_rejection_of_credentials_is_an_error() {
    for case in cases() {
        let label = format!("{:?}", case.rejection);
        let stage = Stage::new(case).await;
        let new = (stage.case.credential)("new");
        let path = stage.case.service_path;
        stage.service.script().push(Rule::new(Fault::ChangedVersion(new)).path(path).nth(2));
        stage.reject("token", 4);
        let ran = stage.run().await;
        let error = ran.ends(6).json()["error"].clone();
        assert_eq!(error["kind"], "no_access", "{label}");
        assert!(error["hint"].as_str().unwrap().contains("new credentials"), "{label}: {error}");
        assert!(!stage.bed.path("out").exists());
        // Requests in flight when the second credential is rejected may ask again.
        assert!((2..=3).contains(&stage.service.requests()), "{label}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_stay_the_same_are_not_sent_again() {
    for case in cases() {
        let label = format!("{:?}", case.rejection);
        let stage = Stage::new(case).await;
        stage.reject("token-old", 1);
        let ran = stage.run().await;
        assert_eq!(ran.ends(6).json()["error"]["kind"], "no_access", "{label}");
        // S3's HEAD is in flight with the first GET.
        assert!(stage.bed.server.requests() <= 2, "{label}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_the_environment_are_not_renewed() {
    let [case, ..] = cases();
    let stage = Stage::new(case).await;
    stage.reject("token-old", 1);
    let mut command = stage.command();
    command
        .env("AWS_ACCESS_KEY_ID", "ID")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_SESSION_TOKEN", "token-old");
    let ran = finish(command).await;
    let error = ran.ends(6).json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("expired"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("aws sso login"), "{error}");
    assert_eq!(stage.service.requests(), 0);
    assert!(stage.bed.server.requests() <= 2);
}

/// Another process writes new keys into the file while the transfer runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_read_again() {
    let [case, ..] = cases();
    let stage = Stage::new(case).await;
    let write = |name: &str| {
        let text = format!(
            "[default]\naws_access_key_id = ID\naws_secret_access_key = secret\n\
             aws_session_token = token-{name}\n"
        );
        std::fs::write(stage.bed.path("profile"), text).unwrap();
    };
    write("old");
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 1000, gate: gate.clone() };
    stage.bed.server.script().push(Rule::new(hold).method("GET").times(2));
    let mut command = stage.command();
    command.env("AWS_SHARED_CREDENTIALS_FILE", stage.bed.path("profile"));
    let change = async {
        gate.reached(2).await;
        write("new");
        // The held responses fill the window. The shards after it are not requested yet.
        stage.reject("token-old", 1);
        gate.open();
    };
    let (output, ()) = within(async { tokio::join!(command.output(), change) }).await;
    let Output { status, stdout, stderr } = output.unwrap();
    Ran::new(status, stdout, &stderr).ends(0);
    assert!(stage.bed.read("out") == stage.bytes);
    assert!(stage.count("token-new") >= 3);
}

/// Writes a `credential_process` that gives new keys in each run, and the profile `work` with it.
fn write_process(bed: &Bed, script: &str) {
    use std::os::unix::fs::PermissionsExt;

    let program = bed.path("give keys");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let line = format!("credential_process = '{}' --for \"a b\" # 'c;d'", program.display());
    std::fs::write(bed.path("config"), format!("[profile work]\n{line}\n")).unwrap();
}

/// Prints keys with the number of this run as their token. The word with a space shows how the line
/// was split.
const GIVE_KEYS: &str = r#"echo run >> runs
test "$#-$2-$4" = "4-a b-c;d" || exit 9
printf '{"Version": 1, "AccessKeyId": "ID", "SecretAccessKey": "secret",
    "SessionToken": "token-%d", "Expiration": "2999-01-01T00:00:00+00:00"}' "$(grep -c run runs)""#;

fn with_process(mut command: Command, bed: &Bed) -> Command {
    command.env("AWS_PROFILE", "work").env("AWS_CONFIG_FILE", bed.path("config"));
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_process_runs_again_when_its_keys_are_rejected() {
    let [expired, invalid, unauthorized, ..] = cases();
    for case in [expired, invalid, unauthorized] {
        let label = format!("{:?}", case.rejection);
        let stage = Stage::new(case).await;
        write_process(&stage.bed, GIVE_KEYS);
        stage.reject("token-1", 4);
        finish(with_process(stage.command(), &stage.bed)).await.ends(0);
        assert!(stage.bed.read("out") == stage.bytes, "{label}");
        assert_eq!(stage.bed.read("runs"), b"run\nrun\n", "{label}: once, and once more");
        assert!(stage.count("token-1") >= 3 && stage.count("token-2") >= 1, "{label}");
        assert_eq!(stage.service.requests(), 0, "{label}: the container is not asked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_process_that_fails_is_named_without_its_output() {
    let [case, ..] = cases();
    let stage = Stage::new(case).await;
    let script = r#"echo run >> runs
echo '{"Version": 1, "SecretAccessKey": "hidden"}'
printf '\n\033[1mlog in again\nmore\n' >&2
exit 3"#;
    write_process(&stage.bed, script);
    let ran = finish(with_process(stage.command(), &stage.bed)).await;
    let error = ran.ends(6).json()["error"].clone();
    assert_eq!(error["kind"], "no_access");
    let message = error["message"].as_str().unwrap();
    let expected = "credential_process of AWS profile work failed: exit status: 3: ";
    assert!(message.contains(expected) && message.ends_with("log in again"), "{message}");
    assert!(error["hint"].as_str().unwrap().contains("aws sso login"), "{error}");
    assert!(!ran.stderr.contains("hidden") && !error.to_string().contains("hidden"), "{ran:?}");
    assert!(!ran.stderr.contains('\u{1b}'), "{ran:?}");
    assert_eq!(stage.bed.read("runs"), b"run\n");
    assert_eq!(stage.bed.server.requests(), 0);
}

/// Keys in the environment and `--anonymous` have priority.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_process_runs_only_if_its_keys_are_used() {
    let [case, ..] = cases();
    let stage = Stage::new(case).await;
    write_process(&stage.bed, GIVE_KEYS);
    let mut anonymous = with_process(stage.command(), &stage.bed);
    anonymous.arg("--anonymous");
    finish(anonymous).await.ends(0);
    std::fs::remove_file(stage.bed.path("out")).unwrap();
    let mut keyed = with_process(stage.command(), &stage.bed);
    keyed.env("AWS_ACCESS_KEY_ID", "ID").env("AWS_SECRET_ACCESS_KEY", "secret");
    finish(keyed).await.ends(0);
    assert!(!stage.bed.path("runs").exists());
}

/// Answers one request as AWS's token service does. Returns the head of the request.
async fn one_role(listener: &TcpListener) -> String {
    let keys = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
        <AccessKeyId>ID</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
        <SessionToken>token-role</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>\
        </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let length = keys.len();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{keys}");
    stream.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(head).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_identity_of_a_profile_is_used() {
    let [case, ..] = cases();
    let stage = Stage::new(case).await;
    std::fs::write(stage.bed.path("identity"), "jwt").unwrap();
    let profile = format!(
        "[profile work]\nrole_arn = arn:r\nweb_identity_token_file = {}\n",
        stage.bed.path("identity").display()
    );
    std::fs::write(stage.bed.path("config"), profile).unwrap();
    let mut command = with_process(stage.command(), &stage.bed);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    command.env("AWS_ENDPOINT_URL_STS", format!("http://{}", listener.local_addr().unwrap()));
    let (ran, request) = within(async { tokio::join!(finish(command), one_role(&listener)) }).await;
    ran.ends(0);
    for part in ["POST /?Action=AssumeRoleWithWebIdentity&", "RoleArn=arn", "WebIdentityToken=jwt"]
    {
        assert!(request.contains(part), "{request}");
    }
    assert!(stage.bed.read("out") == stage.bytes);
    assert!(stage.count("token-role") >= 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_needs_another_service_is_refused_with_a_way() {
    let [case, ..] = cases();
    let stage = Stage::new(case).await;
    for setting in
        ["sso_session = x", "role_arn = arn:r\nsource_profile = base\nmfa_serial = arn:m"]
    {
        std::fs::write(stage.bed.path("config"), format!("[profile work]\n{setting}\n")).unwrap();
        let ran = finish(with_process(stage.command(), &stage.bed)).await;
        let error = ran.ends(6).json()["error"].clone();
        let line = "credential_process = aws configure export-credentials --profile";
        assert!(error["hint"].as_str().unwrap().contains(line), "{error}");
        assert!(error["message"].as_str().unwrap().contains("not supported"), "{error}");
    }
    assert_eq!(stage.bed.server.requests() + stage.service.requests(), 0);
}

/// A signature covers the host, so the endpoint's signature is invalid at a redirect's target.
#[tokio::test(flavor = "multi_thread")]
async fn a_redirected_request_is_signed_for_where_it_goes() {
    let [case, ..] = cases();
    let stage = Stage::new(case).await;
    let regional = Bed::new(ServerOptions::of(Flavour::S3)).await;
    regional.put("/bucket/blob", LEN);
    let to = Fault::TemporaryRedirect(regional.server.url("/bucket/blob"));
    stage.bed.server.script().always(to);
    stage.run().await.ends(0);
    assert!(stage.bed.read("out") == stage.bytes);
    let signed = |server: &Server| -> Vec<(String, String)> {
        let log = server.log();
        let field =
            |logged: &tidegate_testkit::Logged, name| logged.header(name).unwrap().to_owned();
        log.iter().map(|logged| (field(logged, "host"), field(logged, "authorization"))).collect()
    };
    let (global, regional) = (signed(&stage.bed.server), signed(&regional.server));
    assert_eq!(global.len(), regional.len());
    for ((from, first), (to, second)) in global.iter().zip(&regional) {
        assert_ne!(from, to);
        assert!(first.contains("SignedHeaders=host;") && second.contains("SignedHeaders=host;"));
        let signature = |text: &str| text.rsplit("Signature=").next().unwrap().to_owned();
        assert_ne!(signature(first), signature(second));
    }
}

/// No source has any. The message names the sources that were asked, not the library that asked
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn missing_credentials_are_reported_by_their_sources() {
    let bed = Bed::http().await;
    let endpoint = bed.server.endpoint();
    let (uri, file) = (bed.server.url(CONTAINER), bed.arg("missing"));
    std::fs::write(bed.path("config"), "[profile work]\nregion = eu-west-1\n").unwrap();
    let config = bed.arg("config");
    let profile = [("AWS_PROFILE", "work"), ("AWS_CONFIG_FILE", &config)];
    let container = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*uri),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &file),
    ];
    let identity = [("AWS_WEB_IDENTITY_TOKEN_FILE", &*file), ("AWS_ROLE_ARN", "arn:r")];
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[], "environment, profile, instance role"),
        (&profile, "environment, profile work, instance role"),
        (&container, "environment, profile, container"),
        (&identity, "environment, profile, web identity"),
    ];
    for (variables, sources) in cases {
        let mut command = command(bed.folder.path());
        command.args(["stat", "s3://bucket/key"]).env("AWS_METADATA_ENDPOINT", &endpoint);
        command.envs(variables.iter().copied());
        let ran = finish(command).await;
        ran.ends(6).says(&format!("no credentials found (tried {sources})\n"));
        ran.says("hint: export AWS_ACCESS_KEY_ID");
        assert!(!ran.stderr.contains("Generic"), "{}", ran.stderr);
        assert!(!ran.stderr.contains(&endpoint), "{}", ran.stderr);
    }
}
