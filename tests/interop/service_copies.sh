# shellcheck shell=bash
# `tidegate cp` from one bucket to another of the same service: the service copies by itself.

# service_copies_cases SCHEME [ARGUMENT...]: the buckets `bench`, with blobs, and `suites`.
service_copies_cases() {
  local scheme=$1
  check "$scheme: the service copies between buckets" service_copies "$@"
  check "$scheme: a copy keeps the description of its source" service_copies_description "$@"
  [[ $scheme == gs ]] || check "$scheme: a copy keeps the tags of its source" service_copies_tags "$@"
  check "$scheme: a copy with --no-clobber keeps what is there" service_copies_no_clobber "$@"
}

# copied_by_service REPORT: no byte passed through the process.
copied_by_service() {
  expect_equal copied_by_provider "$(field "$1" copied_by_provider)" true
}

service_copies() {
  local scheme=$1 blob
  shift
  for blob in "${blob_names[@]}"; do
    expect_exit 0 tg cp --json "$@" "$scheme://bench/$blob" "$scheme://suites/copies/$blob" >report.json
    copied_by_service report.json
    expect_exit 0 tg cp --quiet "$@" "$scheme://suites/copies/$blob" received
    expect_same_file received "$blobs/$blob"
    rm received
  done
}

service_copies_description() {
  local scheme=$1
  shift
  local source=$scheme://bench/described target=$scheme://suites/copies/described
  expect_exit 0 tg cp --quiet "$@" --content-type text/csv --metadata owner=me "$blobs/small" "$source"
  expect_exit 0 tg cp --json "$@" "$source" "$target" >report.json
  copied_by_service report.json
  tg stat --json "$@" "$target" >stat.json
  expect_equal 'media type' "$(field stat.json content_type)" text/csv
}

# service_copies_tags SCHEME [ARGUMENT...]: in one request, and, on S3, in parts.
service_copies_tags() {
  local scheme=$1 part_size
  shift
  local source=$scheme://bench/tagged target=$scheme://suites/copies/tagged
  expect_exit 0 tg cp --quiet "$@" --tag team=media --tag 'keep=a b' "$blobs/large" "$source"
  for part_size in 5MiB 5GiB; do
    expect_exit 0 tg cp --json "$@" --part-size "$part_size" "$source" "$target" >report.json
    copied_by_service report.json
    tg stat --json "$@" "$target" >stat.json
    expect_equal "tags, parts of $part_size" "$(field stat.json tags)" 2
  done
}

service_copies_no_clobber() {
  local scheme=$1
  shift
  local target=$scheme://suites/copies/kept
  expect_exit 0 tg cp --quiet "$@" "$blobs/byte" "$target"
  expect_exit 1 tg cp --json --no-clobber "$@" "$scheme://bench/small" "$target" >report.json 2>error
  expect_exit 0 tg cp --quiet "$@" "$target" received
  expect_same_file received "$blobs/byte"
}

# service_copies_in_parts [ALGORITHM]: the checksum that the service keeps of a copy in parts.
service_copies_in_parts() {
  local target=s3://suites/copies/parts
  expect_exit 0 tg cp --json --part-size 5MiB --no-clobber s3://bench/large "$target" >report.json
  copied_by_service report.json
  [[ -z ${1:-} ]] || expect_verified report.json "$1"
  expect_exit 0 tg cp --quiet "$target" received
  expect_same_file received "$blobs/large"
}
