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

# In a folder of their own: npm removes what an earlier command installed beside them.
install_npm_clients() {
  local folder=$cache/npm-serve
  local clients=("turbo@$turborepo_version" "nx@$nx_version" "@moonrepo/cli@$moon_version")
  [[ $(cat "$folder/clients" 2>/dev/null) == "${clients[*]}" ]] && return
  printf '      installing %s\n' "${clients[*]}"
  npm install --silent --no-fund --no-audit --no-save --prefix "$folder" "${clients[@]}" \
    >"$work/npm.log" 2>&1 || {
    tail -n 20 "$work/npm.log" >&2
    return 1
  }
  echo "${clients[*]}" >"$folder/clients"
}

# In an environment of their own: BuildGrid pins versions that the clouds' SDKs do not accept.
install_pip_clients() {
  local folder=$cache/venv-serve
  local clients=("sccache==$sccache_version" "BuildGrid==$buildgrid_version")
  [[ $(cat "$folder/clients" 2>/dev/null) == "${clients[*]}" ]] && return
  [[ -x $folder/bin/python ]] || python3 -m venv "$folder" || return 1
  printf '      installing %s\n' "${clients[*]}"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "${clients[@]}" &&
    echo "${clients[*]}" >"$folder/clients"
}
