# shellcheck shell=bash
# S3, served by versitygw from a folder: signatures, multipart objects, CRC64-NVME of the full
# object as current SDKs store it, and the same over TLS.

s3_suite() {
  local port tls_port
  read -r port tls_port <<<"$(free_ports 2)"
  export AWS_ACCESS_KEY_ID=interop AWS_SECRET_ACCESS_KEY=interop-secret AWS_REGION=us-east-1
  mkdir -p "$work/s3/bench" "$work/s3/public" "$work/s3/suites" "$work/s3/uploads"
  # Keys are passed in the environment: arguments are visible to all users of the machine.
  ROOT_ACCESS_KEY_ID=$AWS_ACCESS_KEY_ID ROOT_SECRET_ACCESS_KEY=$AWS_SECRET_ACCESS_KEY \
    serve versitygw "http://127.0.0.1:$port/" "$cache/bin/versitygw" --quiet --keep-alive \
    --port "127.0.0.1:$port" posix "$work/s3"
  ROOT_ACCESS_KEY_ID=$AWS_ACCESS_KEY_ID ROOT_SECRET_ACCESS_KEY=$AWS_SECRET_ACCESS_KEY \
    serve versitygw-tls "https://127.0.0.1:$tls_port/" "$cache/bin/versitygw" --quiet --keep-alive \
    --cert "$authority/server.pem" --key "$authority/server.key" \
    --port "127.0.0.1:$tls_port" posix "$work/s3"
  s3=http://127.0.0.1:$port
  s3_prepare >"$work/s3.prepare" 2>&1 || {
    tail -n 20 "$work/s3.prepare" >&2
    return 1
  }
  export AWS_ENDPOINT_URL=$s3
  conformance s3 s3://bench
  local blob
  for blob in small large parts; do
    check "s3: the stored CRC64-NVME of $blob is verified, and reported" s3_verifies "$blob"
  done
  check 's3: a multipart object' copies s3://bench/parts large
  check 's3: the composite that boto3 stores by default is verified' s3_composite boto3 crc32
  check 's3: a composite of unequal parts is verified' s3_composite unequal sha256
  check 's3: a composite of parts that look equal is verified' s3_composite like-equal crc32c
  check 's3: damage under a composite is found' s3_composite_damage
  check 's3: stat shows the checksum' s3_shows_checksum
  check 's3: damage in storage is found, nothing is delivered' s3_finds_damage
  check 's3: a wrong secret is no access' s3_wrong_secret
  check 's3: no signature is no access' s3_anonymous_refused
  check 's3: a public bucket without credentials' s3_anonymous
  check 's3: a profile from the shared files' s3_profile
  check "s3: the library's suites for every remote that is written" keeps_promises_of_writers \
    s3://suites -- "$cache/venv/bin/python" "$interop/s3_client.py" "$s3" follow suites
  uploads_cases
  service_copies_cases s3
  check 's3: the service copies a blob in parts' service_copies_in_parts crc64nvme
  unset AWS_ENDPOINT_URL
  check 's3: by --endpoint' copies s3://bench/small small --endpoint "$s3"
  check 's3: over TLS' copies s3://bench/large large --endpoint "https://127.0.0.1:$tls_port" \
    --ca-cert "$authority/authority.pem"
  check 's3: over TLS from an unknown authority is refused' \
    tls_refused s3://bench/small --endpoint "https://127.0.0.1:$tls_port"
  unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION
}

s3_prepare() {
  local blob
  for blob in "${blob_names[@]}"; do
    s3_client put bench "$blob" "$blobs/$blob" || return 1
  done
  s3_client put-parts bench parts "$blobs/large" $((16 * 1024 * 1024)) || return 1
  local mib=$((1024 * 1024))
  s3_client put-composite bench boto3 "$blobs/large" CRC32 || return 1
  s3_client put-composite bench unequal "$blobs/large" SHA256 \
    $((16 * mib)) $((5 * mib)) $((20 * mib)) $((64 * mib)) || return 1
  s3_client put-composite bench like-equal "$blobs/large" CRC32C \
    $((64 * mib)) $((32 * mib)) $((96 * mib)) $((64 * mib)) || return 1
  s3_client put-composite bench composite-damaged "$blobs/large" CRC32C $((16 * mib)) || return 1
  printf '\xa5\x5a\xa5' |
    dd of="$work/s3/bench/composite-damaged" bs=1 seek=150000000 conv=notrunc status=none
  s3_client put bench damaged "$blobs/large" || return 1
  # Changes one byte in the middle, directly in the server's folder.
  printf '\x00' | dd of="$work/s3/bench/damaged" bs=1 seek=150000000 conv=notrunc status=none
  ! cmp -s "$work/s3/bench/damaged" "$blobs/large" ||
    printf '\x01' | dd of="$work/s3/bench/damaged" bs=1 seek=150000000 conv=notrunc status=none
  s3_client put public small "$blobs/small" || return 1
  s3_client make-public public
}

s3_client() {
  "$cache/venv/bin/python" "$interop/s3_client.py" "$s3" "$@"
}

s3_verifies() {
  mkdir out
  expect_exit 0 tg cp --json "s3://bench/$1" out/target >report.json
  expect_verified report.json crc64nvme
}

# s3_composite KEY ALGORITHM: the blob arrives, verified by its parts.
s3_composite() {
  mkdir out
  expect_exit 0 tg cp --json "s3://bench/$1" out/target >report.json
  cmp out/target "$blobs/large" || fail 'other bytes'
  [[ $(field report.json verified) == *"$2 of "*" parts"* ]] || fail "$(cat report.json)"
}

s3_composite_damage() {
  mkdir out
  expect_exit 5 tg cp --json s3://bench/composite-damaged out/target >report.json 2>error
  expect_equal kind "$(field report.json error.kind)" integrity
  expect_clean out
}

s3_shows_checksum() {
  local stored
  stored=$(s3_client show bench small)
  tg stat --json s3://bench/small >stat.json
  expect_equal crc64nvme "$(field stat.json checksums.crc64nvme)" \
    "$(base64 --decode <<<"${stored##* }" | od -An -tx1 | tr -d ' \n')"
}

s3_finds_damage() {
  mkdir out
  echo old >out/target
  expect_exit 5 tg cp --json s3://bench/damaged out/target >report.json 2>error
  expect_equal kind "$(field report.json error.kind)" integrity
  expect_equal 'the old file' "$(cat out/target)" old
}

s3_wrong_secret() {
  export AWS_SECRET_ACCESS_KEY=another-secret
  mkdir out
  expect_exit 6 tg cp --json s3://bench/small out/target >report.json 2>error
  ! grep -q another-secret report.json error || fail 'the secret is shown'
  expect_clean out
  expect_exit 6 tg stat s3://bench/small 2>error
}

s3_anonymous_refused() {
  mkdir out
  expect_exit 6 tg cp --json --anonymous s3://bench/small out/target >report.json 2>error
  expect_clean out
}

s3_anonymous() {
  unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
  copies s3://public/small small --anonymous
}

s3_profile() {
  printf '[profile interop]\nregion = us-east-1\n' >config
  printf '[interop]\naws_access_key_id = %s\naws_secret_access_key = %s\n' \
    "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" >credentials
  unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION
  export AWS_CONFIG_FILE=$PWD/config AWS_SHARED_CREDENTIALS_FILE=$PWD/credentials
  export AWS_PROFILE=interop
  copies s3://bench/small small
}
