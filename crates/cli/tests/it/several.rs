//! Several blobs with one command.

use crate::bed::Bed;

async fn bed_of(names: &[&str]) -> (Bed, Vec<String>) {
    let bed = Bed::http().await;
    for name in names {
        bed.put(name, 1000);
    }
    let urls = names.iter().map(|name| bed.server.url(name)).collect();
    (bed, urls)
}

#[tokio::test(flavor = "multi_thread")]
async fn several_blobs_are_downloaded_into_a_folder() {
    let (bed, urls) = bed_of(&["/f/a", "/f/b", "/f/c"]).await;
    let ran = bed.run(&["cp", "--json", &urls[0], &urls[1], &urls[2], "."]).await;
    let json = ran.ends(0).json();
    assert_eq!((&json["bytes"], &json["failed"]), (&3000.into(), &0.into()));
    assert!(json.get("error").is_none());
    let sources: Vec<&str> =
        json["blobs"].as_array().unwrap().iter().map(|b| b["source"].as_str().unwrap()).collect();
    assert_eq!(sources, urls, "in the order given");
    assert_eq!(json["blobs"][1]["target"], "./b");
    assert_eq!(bed.names(), ["a", "b", "c"]);
    let ran = bed.run(&["cp", &urls[0], &urls[1], "/dev/null"]).await;
    ran.ends(0).says("2 of 2 blobs  1.95 KiB in ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_blob_does_not_stop_the_others() {
    let (bed, urls) = bed_of(&["/f/a", "/f/b"]).await;
    let missing = bed.server.url("/f/missing");
    let args = ["cp", &urls[0], &missing, &urls[1], "."];
    bed.run(&args).await.ends(3).says("missing").says("hint: ").says("2 of 3 blobs");
    assert_eq!(bed.names(), ["a", "b"]);
    let json = bed.run(&[&args[..], &["--json"]].concat()).await.ends(3).json();
    assert_eq!((&json["failed"], &json["error"]["kind"]), (&1.into(), &"not_found".into()));
    assert_eq!(json["blobs"][1]["error"]["kind"], "not_found");
    assert_eq!(json["blobs"][2]["bytes"], 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_arguments_are_reported_before_the_first_request() {
    let (bed, urls) = bed_of(&["/f/a", "/g/a"]).await;
    std::fs::write(bed.path("file"), "old").unwrap();
    let two = ["cp", &urls[0], &urls[1]];
    let run = async |more: &[&str]| bed.run(&[&two[..], more].concat()).await;
    run(&["."]).await.ends(2).says("same name");
    run(&["missing"]).await.ends(1).says("no such folder").says("several sources need");
    run(&["file"]).await.ends(1).says("not a folder");
    run(&["-"]).await.ends(1).says("several sources need");
    let md5 = "900150983cd24fb0d6963f7d28e17f72";
    run(&[".", "--md5", md5]).await.ends(2).says("several sources");
    bed.run(&["cp", &urls[0], "nosuch://x/y", "."]).await.ends(2).says("unsupported scheme");
    assert_eq!((bed.server.requests(), bed.names()), (0, vec!["file".to_owned()]));
}
