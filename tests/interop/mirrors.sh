# shellcheck shell=bash
# Two nginx servers with the same blob. One is killed, or has other bytes.

mirrors_suite() {
  local one two other
  read -r one two other <<<"$(free_ports 3)"
  mkdir -p "$work/other"
  # The same length, but each byte is one higher.
  LC_ALL=C tr '\000-\377' '\001-\377\000' <"$blobs/large" >"$work/other/large"
  nginx_start mirror-one "
  server { listen 127.0.0.1:$one; root $blobs; }
  server { listen 127.0.0.1:$other; root $work/other; }
"
  local urls=("http://127.0.0.1:$one/large" "http://127.0.0.1:$two/large")
  check 'mirrors: both deliver' mirrors_share "$two" "${urls[@]}"
  check 'mirrors: one dies during the transfer' mirror_dies "$two" "${urls[@]}"
  check 'mirrors: the first one is not there' mirror_is_missing "${urls[@]}"
  check 'mirrors: none is there' mirrors_are_missing "${urls[1]}"
  check 'mirrors: other bytes' mirror_lies "${urls[0]}" "http://127.0.0.1:$other/large"
  check 'mirrors: without a checksum' mirrors_without_checksum "${urls[0]}" \
    "http://127.0.0.1:$other/large"
}

# mirror_start NAME PORT: the second server, as a process of the case.
mirror_start() {
  nginx_start "mirror-$1" "
  server { listen 127.0.0.1:$2; root $blobs; }
"
}

mirrors_share() {
  mirror_start shares "$1"
  expect_exit 0 tg cp --json --sha256 "$(sha256_of "$blobs/large")" --shard-size 1M \
    --mirror "$3" "$2" target >report.json
  expect_same_file target "$blobs/large"
  expect_verified report.json sha256
  (($(field report.json mirrors.0.bytes) > 0)) || fail 'the source delivered nothing'
  (($(field report.json mirrors.1.bytes) > 0)) || fail 'the mirror delivered nothing'
}

# The limit on the rate makes the transfer last for seconds, so the server dies in the middle. With few attempts it is
# given up before the end.
mirror_dies() {
  local size workers
  size=$(stat --format %s "$blobs/large")
  mirror_start dies "$1"
  spawn report.json tg cp --json --sha256 "$(sha256_of "$blobs/large")" --shard-size 1M --retries 2 \
    --limit-rate $((size / 4)) --mirror "$3" "$2" target
  local copy=$spawned_pid
  until_true 30 nginx_requests_done 3 || fail 'the mirror served nothing'
  # At once, with its workers.
  # `read` fails because the list does not end with a newline.
  read -ra workers <"/proc/$nginx_pid/task/$nginx_pid/children" || true
  kill -KILL "$nginx_pid" "${workers[@]}"
  expect_exit 0 wait "$copy"
  expect_same_file target "$blobs/large"
  (($(field report.json mirrors.1.bytes) > 0)) || fail 'the mirror delivered nothing'
  expect_equal 'bytes of both' \
    $(($(field report.json mirrors.0.bytes) + $(field report.json mirrors.1.bytes))) "$size"
  expect_mentions report.json '"unused":"gave up after'
  expect_clean . report.json target
}

mirror_is_missing() {
  expect_exit 0 tg cp --sha256 "$(sha256_of "$blobs/large")" --mirror "$1" "$2" target 2>messages
  expect_same_file target "$blobs/large"
  expect_mentions messages 'was not used: gave up after'
}

mirrors_are_missing() {
  expect_exit 7 tg cp --mirror "$1" "${1/large/small}" target 2>error
  expect_mentions error "all 2 mirrors failed: ${1/large/small}: .*; $1: "
  expect_clean . error
}

mirror_lies() {
  expect_exit 5 tg cp --sha256 "$(sha256_of "$blobs/large")" --shard-size 1M --mirror "$2" "$1" \
    target 2>error
  expect_mentions error "$1 \\([0-9]+ bytes\\), $2 \\([0-9]+ bytes\\)"
  expect_clean . error
}

mirrors_without_checksum() {
  expect_exit 0 tg cp --json --mirror "$2" "$1" target >report.json
  expect_same_file target "$blobs/large"
  expect_equal 'bytes of the mirror' "$(field report.json mirrors.1.bytes)" 0
}
