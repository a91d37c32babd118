//! The oracle for hostile servers: the deliveries that it accepts and refuses.

use tidegate_testkit::hostile::{Delivered, HostileServer, Name, Scenario, Sum, Wanted, judge};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The port of the server that the URL names.
const PORT: u16 = 7000;

/// Manners of a server that sends all metadata.
const TELLING: [&str; 6] = [
    "server: Http, TLS false, tags Strong",
    "framing Length",
    "ranges true",
    "total true",
    "preconditions true",
    "route Direct",
];

/// The first scenario without deviations whose words hold all of these, of a blob worth cutting.
fn scenario(words: &[&str]) -> Scenario {
    let fits = |scenario: &Scenario| {
        let text = scenario.words();
        let is_long = scenario.contents().iter().all(|content| content.bytes().len() > 1000);
        is_long && !text.contains("deviation") && words.iter().all(|word| text.contains(word))
    };
    (0..100_000).map(Scenario::new).find(fits).unwrap()
}

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    TELLING.iter().chain(more).copied().collect()
}

/// The body of a response that is framed by its length.
async fn get(server: &HostileServer, range: Option<&str>) -> Vec<u8> {
    let mut stream = server.connect(PORT).unwrap();
    let range = range.map(|range| format!("Range: bytes={range}\r\n")).unwrap_or_default();
    let request = format!("GET /bucket/blob HTTP/1.1\r\nHost: localhost\r\n{range}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    body
}

fn delivered(bytes: Vec<u8>) -> Delivered {
    Delivered {
        wanted: Wanted::All,
        pinned: None,
        given: Vec::new(),
        bytes,
        named: None,
        verified: Vec::new(),
    }
}

fn verdict(server: &HostileServer, delivered: &Delivered) -> Result<(), String> {
    judge(server.scenario(), &server.exchanges(), delivered)
}

#[tokio::test]
async fn the_whole_blob_is_right_and_nothing_else_is() {
    let server = HostileServer::new(scenario(&with(&["the blob stays A", "\"sha256\""])), None);
    let whole = get(&server, None).await;
    assert_eq!(whole, server.scenario().contents()[0].bytes()[..]);
    verdict(&server, &delivered(whole.clone())).unwrap();
    let mut flipped = whole.clone();
    flipped[500] ^= 1;
    let longer = [&whole[..], &[0]].concat();
    let wrong = [flipped, longer, whole[1..].to_vec(), whole[..999].to_vec(), Vec::new()];
    for wrong in wrong {
        verdict(&server, &delivered(wrong)).unwrap_err();
    }
}

#[tokio::test]
async fn only_what_was_asked_for_is_right() {
    let server = HostileServer::new(scenario(&with(&["the blob stays A"])), None);
    let part = get(&server, Some("100-299")).await;
    let of = |wanted| Delivered { wanted, ..delivered(part.clone()) };
    verdict(&server, &of(Wanted::Bounded(100..300))).unwrap();
    for wanted in [Wanted::Bounded(100..301), Wanted::From(100), Wanted::Last(200), Wanted::All] {
        verdict(&server, &of(wanted)).unwrap_err();
    }
}

#[tokio::test]
async fn parts_of_two_versions_are_wrong() {
    let server = HostileServer::new(scenario(&with(&["the blob is B from response 1 on\n"])), None);
    let first = get(&server, Some("0-499")).await;
    let second = get(&server, Some("500-")).await;
    verdict(&server, &delivered([first, second].concat())).unwrap_err();
    let again = get(&server, Some("0-499")).await;
    let b = [&again, &server.scenario().contents()[1].bytes()[500..]].concat();
    verdict(&server, &delivered(b)).unwrap();
}

#[tokio::test]
async fn parts_without_a_version_are_wrong() {
    let nameless = ["tags Weak", "the blob stays A", "framing Length", "ranges true", "Direct"];
    let server = HostileServer::new(scenario(&[&nameless[..], &["server: Http"]].concat()), None);
    let first = get(&server, Some("0-499")).await;
    let second = get(&server, Some("500-")).await;
    let both = [first, second].concat();
    assert_eq!(both, server.scenario().contents()[0].bytes()[..]);
    verdict(&server, &delivered(both)).unwrap_err();
}

#[tokio::test]
async fn a_version_or_checksum_that_was_not_sent_must_not_be_claimed() {
    let server = HostileServer::new(scenario(&with(&["the blob stays A", "checksums []"])), None);
    let whole = get(&server, None).await;
    let sum = Sum::Sha256.of(&whole);
    let right = delivered(whole);
    let named = |tag: &str| Delivered { named: Some(Name::Tag(tag.to_owned())), ..right.clone() };
    verdict(&server, &named("\"a\"")).unwrap();
    verdict(&server, &named("\"zzz\"")).unwrap_err();
    let verified = vec![("sha256".to_owned(), sum.clone())];
    let claimed = Delivered { verified, ..right.clone() };
    verdict(&server, &claimed).unwrap_err();
    let given = vec![(Sum::Sha256, sum)];
    verdict(&server, &Delivered { given, ..claimed }).unwrap();
    let given = vec![(Sum::Sha256, Sum::Sha256.of(b"something else"))];
    verdict(&server, &Delivered { given, ..right.clone() }).unwrap_err();
    let pinned = Some(Name::Tag("\"zzz\"".to_owned()));
    verdict(&server, &Delivered { pinned, ..right }).unwrap_err();
}
