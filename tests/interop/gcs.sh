# shellcheck shell=bash
# Google Cloud Storage, emulated by fake-gcs-server: generations, x-goog-hash.

gcs_suite() {
  local port
  port=$(free_ports 1)
  gcs=http://127.0.0.1:$port
  # Without `-public-host`, its responses would name its own public host.
  serve fake-gcs-server "$gcs/storage/v1/b" "$cache/bin/fake-gcs-server" -scheme http \
    -host 127.0.0.1 -port "$port" -public-host "127.0.0.1:$port" -backend filesystem \
    -filesystem-root "$work/gcs" -log-level error
  gcs_prepare || return 1
  export STORAGE_EMULATOR_HOST=$gcs
  conformance gcs gs://bench
  check 'gcs: the stored CRC32C is verified, and reported' gcs_verifies
  check 'gcs: stat shows the generation' gcs_shows_generation
  check "gcs: the library's suites for every remote that is written" keeps_promises_of_writers \
    gs://suites --deviations "$repository/crates/conformance/deviations/fake-gcs-server.json" -- python3 "$interop/gcs_client.py" "$gcs" suites
  service_copies_cases gs
  export GOOGLE_CLOUD_PROJECT=mine
  check 'gcs: a bucket is made, full, empty and gone' bucket_life gs://made
  unset STORAGE_EMULATOR_HOST GOOGLE_CLOUD_PROJECT
  check 'gcs: by --endpoint and --anonymous' \
    copies gs://bench/small small --endpoint "$gcs" --anonymous
  check 'gcs: a bucket that is not there' \
    reports_not_found gs://absent/small --endpoint "$gcs" --anonymous
}

gcs_prepare() {
  local blob bucket
  for bucket in bench suites; do
    curl --silent --fail --output /dev/null --json "{\"name\": \"$bucket\"}" "$gcs/storage/v1/b" ||
      return 1
  done
  for blob in "${blob_names[@]}"; do
    curl --silent --fail --output /dev/null --header 'Content-Type: application/octet-stream' \
      --upload-file "$blobs/$blob" --request POST \
      "$gcs/upload/storage/v1/b/bench/o?uploadType=media&name=$blob" || return 1
  done
}

gcs_verifies() {
  mkdir out
  expect_exit 0 tg cp --json gs://bench/large out/target >report.json
  expect_verified report.json crc32c
}

gcs_shows_generation() {
  local generation
  generation=$(curl -s "$gcs/storage/v1/b/bench/o/small" | python3 -c \
    'import json, sys; print(json.load(sys.stdin)["generation"])')
  tg stat --json gs://bench/small >stat.json
  [[ $(field stat.json version) == *"$generation"* ]] || fail "version is not $generation"
}
