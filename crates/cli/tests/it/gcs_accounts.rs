//! Credentials for Google Cloud from files of each type.

use serde_json::{Value, json};
use tidegate_testkit::{Fault, Rule};
use tokio::process::Command;

use crate::bed::{Bed, Ran, SHARD, command, finish};
use crate::token_service::TokenService;

const LEN: usize = 300_000;

struct Stage {
    bed: Bed,
    bytes: Vec<u8>,
    service: TokenService,
}

/// Answers as Google's services do: the token names the service and the number of the request.
fn answer(number: usize, request: &str) -> (u16, String) {
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = match path.as_str() {
        "/token" => json!({ "access_token": format!("user-{number}"), "expires_in": 3599 }),
        "/sts" => json!({ "access_token": format!("federated-{number}"), "expires_in": 3599,
                          "token_type": "Bearer" }),
        "/subject" => json!({ "id_token": "subject" }),
        _ => json!({ "accessToken": format!("impersonated-{number}"),
                     "expireTime": "2999-01-01T00:00:00Z" }),
    };
    (200, body.to_string())
}

impl Stage {
    async fn new(answer: impl Fn(usize, &str) -> (u16, String) + Send + 'static) -> Self {
        let bed = Bed::gcs().await;
        let bytes = bed.put("/bucket/blob", LEN);
        Self { bed, bytes, service: TokenService::start(answer).await }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.service.url)
    }

    fn user(&self) -> Value {
        json!({ "type": "authorized_user", "client_id": "me", "client_secret": "s3cret",
                "refresh_token": "s3cret-refresh", "token_uri": self.url("/token") })
    }

    fn external(&self, source: &Value) -> Value {
        json!({ "type": "external_account", "audience": "//iam/pool", "token_url": self.url("/sts"),
                "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                "credential_source": source })
    }

    async fn run(&self, account: &Value) -> Ran {
        finish(self.command(account)).await
    }

    fn command(&self, account: &Value) -> Command {
        std::fs::write(self.bed.path("account.json"), account.to_string()).unwrap();
        let mut command = command(self.bed.folder.path());
        command.args(["cp", "--json", "--shard-size", SHARD, "--window", "2"]);
        command.args(["gs://bucket/blob", "out", "--endpoint", &self.bed.server.endpoint()]);
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.bed.path("account.json"));
        command
    }

    /// The values of `Authorization` that the store got, each once.
    fn tokens(&self) -> Vec<String> {
        let log = self.bed.server.log();
        let values = log.iter().filter_map(|logged| logged.header("authorization"));
        let mut values: Vec<String> = values.map(str::to_owned).collect();
        values.sort();
        values.dedup();
        values
    }

    fn error(ran: &Ran) -> String {
        let error = ran.ends(6).json()["error"].clone();
        assert!(!error.to_string().contains("s3cret"), "{error}");
        let message = error["message"].as_str().unwrap().to_owned();
        assert!(!message.contains('\n'), "{message}");
        message
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_exchanges_a_refresh_token() {
    let stage = Stage::new(answer).await;
    stage.run(&stage.user()).await.ends(0);
    assert!(stage.bed.read("out") == stage.bytes);
    assert_eq!(stage.tokens(), ["Bearer user-0"]);
    let requests = stage.service.requests();
    assert_eq!(requests.len(), 1);
    let form =
        "grant_type=refresh_token&client_id=me&client_secret=s3cret&refresh_token=s3cret-ref";
    assert!(requests[0].contains(form), "{}", requests[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_token_is_replaced_in_mid_transfer() {
    let stage = Stage::new(answer).await;
    let rule = Rule::new(Fault::status(401)).field("authorization", "user-0");
    stage.bed.server.script().push(rule.nth(4).always());
    stage.run(&stage.user()).await.ends(0);
    assert!(stage.bed.read("out") == stage.bytes);
    assert_eq!(stage.tokens(), ["Bearer user-0", "Bearer user-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_impersonates_a_service_account() {
    let stage = Stage::new(answer).await;
    let account = json!({ "type": "impersonated_service_account", "delegates": ["between"],
        "service_account_impersonation_url": stage.url("/v1/sa:generateAccessToken"),
        "source_credentials": stage.user() });
    stage.run(&account).await.ends(0);
    assert_eq!(stage.tokens(), ["Bearer impersonated-1"]);
    let requests = stage.service.requests();
    assert_eq!(requests.len(), 2);
    let asked = requests[1].to_ascii_lowercase();
    assert!(asked.starts_with("post /v1/sa:generateaccesstoken "), "{asked}");
    assert!(asked.contains("authorization: bearer user-0"), "{asked}");
    assert!(requests[1].contains("\"delegates\":[\"between\"]"), "{}", requests[1]);
    assert!(requests[1].contains("https://www.googleapis.com/auth/cloud-platform"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_account_exchanges_the_token_of_a_file() {
    let stage = Stage::new(answer).await;
    std::fs::write(stage.bed.path("jwt"), "subject\n").unwrap();
    stage.run(&stage.external(&json!({ "file": stage.bed.path("jwt") }))).await.ends(0);
    assert!(stage.bed.read("out") == stage.bytes);
    assert_eq!(stage.tokens(), ["Bearer federated-0"]);
    let request = stage.service.requests()[0].clone();
    for part in [
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange",
        "audience=%2F%2Fiam%2Fpool",
        "subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt",
        "subject_token=subject",
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_account_exchanges_the_token_of_a_url_and_impersonates() {
    let stage = Stage::new(answer).await;
    let mut account = stage.external(&json!({ "url": stage.url("/subject"),
        "headers": { "Metadata": "True" },
        "format": { "type": "json", "subject_token_field_name": "id_token" } }));
    account["service_account_impersonation_url"] = stage.url("/v1/sa:generateAccessToken").into();
    stage.run(&account).await.ends(0);
    assert_eq!(stage.tokens(), ["Bearer impersonated-2"]);
    let requests = stage.service.requests();
    assert_eq!(requests.len(), 3, "{requests:?}");
    let asked = requests[0].to_ascii_lowercase();
    assert!(asked.starts_with("get /subject ") && asked.contains("metadata: true"), "{asked}");
    assert!(requests[1].contains("subject_token=subject"), "{}", requests[1]);
    assert!(requests[2].to_ascii_lowercase().contains("authorization: bearer federated-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_account_runs_a_program_only_if_it_may() {
    let stage = Stage::new(answer).await;
    let script = r#"test "$GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE" = //iam/pool || exit 9
printf '{"version":1,"success":true,"token_type":"urn:ietf:params:oauth:token-type:jwt",
         "id_token":"subject","expiration_time":32503680000}'"#;
    std::fs::write(stage.bed.path("give"), script).unwrap();
    let command = format!("sh {}", stage.bed.arg("give"));
    let account = stage.external(&json!({ "executable": { "command": command } }));
    let message = Stage::error(&stage.run(&account).await);
    assert!(message.contains("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1"), "{message}");
    let run = |account: &Value| {
        let mut command = stage.command(account);
        command.env("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1");
        finish(command)
    };
    run(&account).await.ends(0);
    assert_eq!(stage.tokens(), ["Bearer federated-0"]);
    assert!(stage.service.requests()[0].contains("subject_token=subject"));
    let denied = r#"echo '{"version":1,"success":false,"code":"401","message":"log in"}'"#;
    std::fs::write(stage.bed.path("give"), denied).unwrap();
    let message = Stage::error(&run(&account).await);
    assert!(message.contains("credential_source: 401: log in"), "{message}");
}

/// The token is signed here: nothing is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_signs_its_token() {
    let stage = Stage::new(answer).await;
    let account = json!({ "type": "service_account", "private_key_id": "1",
        "client_email": "me@project.example",
        "private_key": include_str!("service_account_key.pem") });
    stage.run(&account).await.ends(0);
    let is_signed =
        |token: &String| token.starts_with("Bearer ey") && token.split('.').count() == 3;
    assert!(stage.tokens().iter().all(is_signed), "{:?}", stage.tokens());
    assert!(stage.service.requests().is_empty());
    std::fs::remove_file(stage.bed.path("out")).unwrap();
    let impersonated = json!({ "type": "impersonated_service_account",
        "service_account_impersonation_url": stage.url("/v1/sa:generateAccessToken"),
        "source_credentials": account });
    stage.run(&impersonated).await.ends(0);
    let requests = stage.service.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].to_ascii_lowercase().contains("authorization: bearer ey"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_one_line_without_secrets() {
    for (body, part) in [
        (
            r#"{"error":"invalid_grant","error_description":"Token has been\n revoked."}"#,
            "answered 400: invalid_grant: Token has been revoked.",
        ),
        (r#"{"error":{"status":"PERMISSION_DENIED","message":"no"}}"#, "PERMISSION_DENIED: no"),
        ("<html>s3cret", "answered 400"),
    ] {
        let stage = Stage::new(move |_, _| (400, body.to_owned())).await;
        let message = Stage::error(&stage.run(&stage.user()).await);
        assert!(message.contains("account.json (authorized_user)"), "{message}");
        assert!(message.contains(part), "{message}");
        assert_eq!(stage.bed.server.requests(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_supported_is_refused_by_name() {
    let stage = Stage::new(answer).await;
    let mut plain = stage.user();
    plain["token_uri"] = "http://tokens.example/".into();
    let cases = [
        (json!({ "type": "gdch_service_account" }), "the type gdch_service_account"),
        (json!({ "client_id": "s3cret" }), "has no type"),
        (json!({ "type": "authorized_user", "client_id": "s3cret" }), "missing field"),
        (json!({ "type": "service_account", "private_key": "s3cret" }), "is not valid"),
        (stage.external(&json!({ "environment_id": "aws1" })), "environment_id"),
        (plain, "tokens.example in the credentials is not https"),
    ];
    for (account, part) in cases {
        let message = Stage::error(&stage.run(&account).await);
        assert!(message.contains(part), "{message}");
    }
    assert!(stage.service.requests().is_empty());
}
