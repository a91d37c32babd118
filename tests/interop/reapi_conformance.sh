# shellcheck shell=bash
# The promises of the Remote Execution API, checked on `tidegate serve` and on two servers of others:
# buildbox-casd and BuildGrid's `bgd`. So the suite tests the protocol, not our reading of it. What the
# others do differently is listed in `crates/conformance/deviations`, with reasons. `--all` runs this
# suite.

reapi_conformance_suite() {
  install_parts pip_clients
  check 'api: tidegate serve keeps every promise' api_of_tidegate
  check 'api: buildbox-casd keeps the others' api_of_casd
  check "api: BuildGrid's server keeps the others" api_of_buildgrid
  check 'api: a deviation that a server does not show is reported' api_of_tidegate_with_deviations
}

# keeps_api_promises ADDRESS [FLAG...]: at least half of the promises were checked and kept.
keeps_api_promises() {
  expect_exit 0 timeout --kill-after=5 180 "$suites_binary" reapi "$@" >messages
  (($(grep -c '^kept: ' messages) > 40)) || fail 'too few promises were checked'
}

# api_deviations NAME: the file of a server's deviations.
api_deviations() {
  printf '%s/crates/conformance/deviations/%s.json' "$repository" "$1"
}

api_of_tidegate() {
  start_cache "$PWD/store"
  keeps_api_promises "$cache_address"
  keeps_api_promises "$cache_address" --instance team/main
}

api_of_tidegate_with_deviations() {
  start_cache "$PWD/store"
  expect_exit 1 timeout --kill-after=5 180 "$suites_binary" reapi "$cache_address" \
    --deviations "$(api_deviations buildgrid)" >messages
  expect_mentions messages 'it keeps, or was not asked for: a page token'
}

api_of_casd() {
  local port
  port=$(free_ports 1)
  spawn casd.log "$cache/casd/buildbox-casd" --bind "127.0.0.1:$port" --quota-high 4G \
    --reserved 1M "$PWD/casd"
  until_true 30 listens "$spawned_pid" "$port" || fail "casd did not start: $(cat casd.log)"
  keeps_api_promises "127.0.0.1:$port" --deviations "$(api_deviations buildbox-casd)"
}

api_of_buildgrid() {
  local port
  port=$(free_ports 1)
  write_buildgrid_settings "$port" "$PWD/bgd" >settings.yml
  spawn bgd.log "$cache/venv-serve/bin/bgd" server start settings.yml
  until_true 60 listens "$spawned_pid" "$port" || fail "bgd did not start: $(cat bgd.log)"
  keeps_api_promises "127.0.0.1:$port" --deviations "$(api_deviations buildgrid)"
}

# write_buildgrid_settings PORT FOLDER: the settings of a cache without execution.
write_buildgrid_settings() {
  cat <<SETTINGS
server:
  - !channel
    address: "127.0.0.1:$1"
    insecure-mode: true
authorization:
  method: none
storages:
  - !disk-storage &storage
    path: $2
caches:
  - !lru-action-cache &results
    storage: *storage
    max-cached-refs: 100000
    allow-updates: true
    cache-failed-actions: true
instances:
  - name: ''
    services:
      - !action-cache
        cache: *results
      - !cas
        storage: *storage
      - !bytestream
        storage: *storage
thread-pool-size: 30
SETTINGS
}
