# shellcheck shell=bash
# Copies on btrfs and XFS, which clone files. Needs root, loop devices, mkfs.btrfs and mkfs.xfs
# (Debian: btrfs-progs, xfsprogs), so these cases run only by name.

reflink_suite() {
  check 'reflink: btrfs' reflinked mkfs.btrfs
  check 'reflink: XFS' reflinked mkfs.xfs
}

# reflinked MKFS: a copy within the file system shares its blocks; one from elsewhere is read back.
reflinked() {
  local free before
  truncate -s 2G image
  "$1" -q image >mkfs.log
  mkdir disk
  mount -o loop image disk
  # shellcheck disable=SC2064
  trap "umount '$PWD/disk'; stop_spawned" EXIT
  expect_exit 0 tg cp --json "$blobs/large" disk/one >report.json
  expect_mentions report.json 'read back'
  sync disk/one
  before=$(df --output=used -B1 disk | tail -n 1)
  expect_exit 0 tg cp --json disk/one disk/two >report.json
  expect_mentions report.json '"verified":\["reflink'
  sync disk/two
  free=$(($(df --output=used -B1 disk | tail -n 1) - before))
  ((free < $(stat -c %s "$blobs/large") / 4)) || fail "the copy took $free bytes"
  expect_same_file disk/two "$blobs/large"
  expect_exit 0 tg cp --json --sha256 "$(sha256_of disk/one)" disk/one disk/three >report.json
  expect_mentions report.json '"verified":\["sha256"'
  expect_clean disk one three two
}
