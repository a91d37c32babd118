# shellcheck shell=bash
# Requirements for every cache: runs the suites of `crates/conformance` for stores and for remotes
# against a real server.

# stores_conform URL: the test is built with the features of all tests, so that it is built once.
stores_conform() {
  local code=0
  (cd "$repository" && TIDEGATE_CONFORMANCE_STORES=$1 cargo test --quiet --locked --workspace \
    --all-features --test store_suite --test remote -- real_servers --nocapture) >messages 2>&1 || code=$?
  expect_equal 'exit code' "$code" 0
  # Nothing was skipped.
  grep -q "$1, seed" messages || fail 'the suite for stores did not run'
  grep -q "$1 as a remote" messages || fail 'the suite for remotes did not run'
}
