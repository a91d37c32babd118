//! Roles of AWS that are assumed with other keys: `role_arn` with `source_profile` or
//! `credential_source`.

use serde_json::Value;
use tidegate_testkit::{Blob, Fault, Flavour, Rule, Server, ServerOptions};
use tokio::process::Command;

use crate::bed::{Bed, SHARD, command, finish};
use crate::token_service::TokenService;

const LEN: usize = 300_000;

const KEYS: &str = "aws_access_key_id = BASE\naws_secret_access_key = s3cret\n";

/// The keys of the role with this number.
fn keys(number: usize) -> (u16, String) {
    let body = format!(
        "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult>\
         <AssumedRoleUser><Arn>arn:x</Arn></AssumedRoleUser><Credentials>\
         <AccessKeyId>ROLE-{number}</AccessKeyId><SecretAccessKey>s3cret</SecretAccessKey>\
         <SessionToken>token-{number}</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>\
         </Credentials></AssumeRoleResult><ResponseMetadata/></AssumeRoleResponse>"
    );
    (200, body)
}

struct Stage {
    bed: Bed,
    bytes: Vec<u8>,
    service: TokenService,
}

impl Stage {
    async fn new(answer: impl Fn(usize, &str) -> (u16, String) + Send + 'static) -> Self {
        let bed = Bed::new(ServerOptions::of(Flavour::S3)).await;
        let bytes = bed.put("/bucket/blob", LEN);
        Self { bed, bytes, service: TokenService::start(answer).await }
    }

    fn profiles(&self, text: &str) {
        std::fs::write(self.bed.path("profiles"), text).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = command(self.bed.folder.path());
        command.args(["cp", "--json", "--shard-size", SHARD, "--window", "2"]);
        command.args(["s3://bucket/blob", "out", "--endpoint", &self.bed.server.endpoint()]);
        command
            .env("AWS_CONFIG_FILE", self.bed.path("profiles"))
            .env("AWS_PROFILE", "work")
            .env("AWS_ENDPOINT_URL_STS", &self.service.url);
        command
    }

    /// The access keys that signed the requests for the blob, each once.
    fn signers(&self) -> Vec<String> {
        let log = self.bed.server.log();
        let mut keys: Vec<String> = log
            .iter()
            .filter_map(|logged| logged.header("authorization")?.split_once("Credential="))
            .filter_map(|(_, rest)| Some(rest.split_once('/')?.0.to_owned()))
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_is_assumed_with_the_keys_of_another_profile() {
    let stage = Stage::new(|number, _| keys(number)).await;
    stage.profiles(&format!(
        "[profile work]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n\
         external_id = ext=1\nrole_session_name = me\nduration_seconds = 900\n\
         region = eu-test-7\n[profile base]\n{KEYS}"
    ));
    finish(stage.command()).await.ends(0);
    assert!(stage.bed.read("out") == stage.bytes);
    assert_eq!(stage.signers(), ["ROLE-0"]);
    let requests = stage.service.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    for part in [
        "POST / HTTP/1.1",
        "Credential=BASE/",
        "/eu-test-7/sts/aws4_request",
        "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&",
        "RoleSessionName=me&ExternalId=ext%3D1&DurationSeconds=900",
    ] {
        assert!(requests[0].contains(part), "{part}: {}", requests[0]);
    }
    let tokens: Vec<_> = stage
        .bed
        .server
        .log()
        .iter()
        .map(|logged| logged.header("x-amz-security-token").map(str::to_owned))
        .collect();
    assert!(tokens.iter().all(|token| token.as_deref() == Some("token-0")), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_is_assumed_with_the_keys_of_another_role() {
    let stage = Stage::new(|number, _| keys(number)).await;
    stage.profiles(&format!(
        "[profile work]\nrole_arn = arn:last\nsource_profile = between\n\
         [profile between]\nrole_arn = arn:first\nsource_profile = between\n{KEYS}"
    ));
    finish(stage.command()).await.ends(0);
    assert_eq!(stage.signers(), ["ROLE-1"]);
    let requests = stage.service.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(requests[0].contains("Credential=BASE/") && requests[0].contains("arn%3Afirst"));
    assert!(requests[1].contains("Credential=ROLE-0/") && requests[1].contains("arn%3Alast"));
    assert!(requests[1].contains("x-amz-security-token: token-0"), "{}", requests[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_is_assumed_again_when_its_keys_are_rejected() {
    let stage = Stage::new(|number, _| keys(number)).await;
    stage.profiles(&format!(
        "[profile work]\nrole_arn = arn:r\nsource_profile = base\n[profile base]\n{KEYS}"
    ));
    let rejection = Fault::Coded { status: 400, code: "ExpiredToken" };
    let rule = Rule::new(rejection).field("x-amz-security-token", "token-0");
    stage.bed.server.script().push(rule.nth(4).always());
    finish(stage.command()).await.ends(0);
    assert!(stage.bed.read("out") == stage.bytes);
    assert_eq!(stage.signers(), ["ROLE-0", "ROLE-1"]);
    assert_eq!(stage.service.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_role_is_one_line_without_keys() {
    let answers = [
        (
            403,
            "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
             <Message>not\n authorized</Message></Error></ErrorResponse>",
            "AWS profile work cannot assume arn:r: AccessDenied: not authorized",
        ),
        (503, "busy", "the token service answered 503"),
        (200, "<AssumeRoleResponse><s3cret>", "has no keys"),
    ];
    for (status, body, part) in answers {
        let stage = Stage::new(move |_, _| (status, body.to_owned())).await;
        stage.profiles(&format!(
            "[profile work]\nrole_arn = arn:r\nsource_profile = base\n[profile base]\n{KEYS}"
        ));
        let ran = finish(stage.command()).await;
        let error: Value = ran.ends(6).json()["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(part) && !message.contains('\n'), "{message}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
        assert_eq!(stage.bed.server.requests(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_is_assumed_with_the_keys_of_the_platform() {
    let stage = Stage::new(|number, _| keys(number)).await;
    let container = Server::start(ServerOptions::default()).await.unwrap();
    container.put(
        "/keys",
        Blob::new(
            r#"{"AccessKeyId":"CONTAINER","SecretAccessKey":"s","Token":"t",
                "Expiration":"2999-01-01T00:00:00Z"}"#,
        ),
    );
    std::fs::write(stage.bed.path("token"), "x").unwrap();
    stage.profiles("[profile work]\nrole_arn = arn:r\ncredential_source = EcsContainer\n");
    let mut command = stage.command();
    command
        .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.url("/keys"))
        .env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", stage.bed.path("token"));
    finish(command).await.ends(0);
    assert!(stage.service.requests()[0].contains("Credential=CONTAINER/"));
    // With keys in the environment no profile is used, and without them this one has no source.
    std::fs::remove_file(stage.bed.path("out")).unwrap();
    stage.profiles("[profile work]\nrole_arn = arn:r\ncredential_source = Environment\n");
    std::fs::write(stage.bed.path("c.toml"), "[url.\"s3://\"]\nprofile = \"work\"\n").unwrap();
    let by_file = || {
        let mut command = stage.command();
        command.args(["--config", "c.toml"]).env("AWS_PROFILE", "");
        command
    };
    let message = finish(by_file()).await.ends(6).json()["error"]["message"].to_string();
    assert!(message.contains("AWS_ACCESS_KEY_ID is not set"), "{message}");
    assert_eq!(stage.service.requests().len(), 1, "nothing is asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_of_a_device_is_refused_by_name() {
    let stage = Stage::new(|number, _| keys(number)).await;
    stage.profiles(&format!(
        "[profile work]\nrole_arn = arn:r\nsource_profile = base\nmfa_serial = arn:m\n\
         [profile base]\n{KEYS}"
    ));
    let ran = finish(stage.command()).await;
    let error = ran.ends(6).json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("mfa_serial"), "{error}");
    assert!(stage.service.requests().is_empty());
}
