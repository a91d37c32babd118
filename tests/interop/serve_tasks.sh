# shellcheck shell=bash
# Cases of `serve_all.sh` for the runners of tasks: Turborepo, Nx and moon. Each has a workspace with
# one task, runs it in a copy of the workspace, and again in another copy.

# serve_in_copy NAME COMMAND...: runs in the copy NAME of the workspace with a home of its own; messages
# in NAME.log. No variable of a CI service says where the caches are.
serve_in_copy() {
  local name=$1
  shift
  cp -r workspace "$name"
  mkdir -p "$name.home"
  (cd "$name" && env -u CI HOME="$PWD/../$name.home" TMPDIR="$PWD/../$name.home" NO_COLOR=1 DO_NOT_TRACK=1 \
    npm_config_update_notifier=false timeout --kill-after=5 120 "$@") >"$name.log" 2>&1 || {
    tail -n 30 "$name.log" >&2
    fail "$1 failed, $name"
  }
}

# serve_npm_workspace: an npm workspace with the package `a`.
serve_npm_workspace() {
  mkdir -p workspace/packages/a
  printf '{"name":"root","private":true,"packageManager":"npm@11.0.0","workspaces":["packages/*"]}' \
    >workspace/package.json
  cat >workspace/package-lock.json <<'JSON'
{"name":"root","lockfileVersion":3,"requires":true,"packages":{
"":{"name":"root","workspaces":["packages/*"]},
"node_modules/a":{"resolved":"packages/a","link":true},"packages/a":{"version":"1.0.0"}}}
JSON
}

serve_turborepo() {
  local command=(env TURBO_TELEMETRY_DISABLED=1 "TURBO_API=http://$cache_address" TURBO_TOKEN=token
    TURBO_TEAM=team "$cache/npm-serve/node_modules/.bin/turbo" run build)
  serve_npm_workspace
  printf '{"tasks":{"build":{"outputs":["dist/**"]}}}' >workspace/turbo.json
  printf '{"name":"a","version":"1.0.0","scripts":{"build":"mkdir -p dist && seq 10000 > dist/out"}}' \
    >workspace/packages/a/package.json
  serve_in_copy cold "${command[@]}"
  expect_mentions cold.log 'Remote caching enabled'
  expect_mentions cold.log 'Cached: +0 cached, 1 total'
  serve_in_copy warm "${command[@]}"
  expect_mentions warm.log 'Cached: +1 cached, 1 total'
  expect_same_file warm/packages/a/dist/out cold/packages/a/dist/out
}

serve_nx() {
  # Without CI, Nx does not write to the remote cache.
  local command=(env CI=1 NX_DAEMON=false NX_ISOLATE_PLUGINS=false NX_NO_CLOUD=true
    "NX_SELF_HOSTED_REMOTE_CACHE_SERVER=http://$cache_address"
    NX_SELF_HOSTED_REMOTE_CACHE_ACCESS_TOKEN=token node_modules/.bin/nx run a:build)
  serve_npm_workspace
  ln -s "$cache/npm-serve/node_modules" workspace/node_modules
  printf '{}' >workspace/nx.json
  cat >workspace/packages/a/project.json <<'JSON'
{"name":"a","root":"packages/a","targets":{"build":{"cache":true,"outputs":["{projectRoot}/dist"],
"command":"mkdir -p packages/a/dist && seq 10000 > packages/a/dist/out"}}}
JSON
  serve_in_copy cold "${command[@]}"
  expect_mentions cold.log 'Cache: +0/1 hit'
  serve_in_copy warm "${command[@]}"
  expect_mentions warm.log 'nx run a:build  \[remote cache\]'
  expect_mentions warm.log 'Cache: +1/1 hit'
  expect_same_file warm/packages/a/dist/out cold/packages/a/dist/out
}

# serve_moon http|grpc
serve_moon() {
  local command=("$cache/npm-serve/node_modules/.bin/moon" run a:build)
  mkdir -p workspace/.moon workspace/a
  cat >workspace/.moon/workspace.yml <<YAML
projects: ['a']
telemetry: false
remote:
  host: '$1://$cache_address'
  api: '$1'
YAML
  cat >workspace/a/moon.yml <<'YAML'
tasks:
  build:
    command: 'cp in out'
    toolchains: ['system']
    inputs: ['in']
    outputs: ['out']
YAML
  seq 10000 >workspace/a/in
  echo "$1" >>workspace/a/in
  git -C workspace init --quiet --initial-branch main
  git -C workspace -c user.name=test -c user.email=test@localhost add --all
  git -C workspace -c user.name=test -c user.email=test@localhost commit --quiet --message workspace
  serve_in_copy cold "${command[@]}"
  expect_mentions cold.log 'Tasks: 1 completed$'
  serve_in_copy warm "${command[@]}"
  expect_mentions warm.log 'a:build \(cached from remote'
  expect_mentions warm.log 'Tasks: 1 completed \(1 cached\)'
  expect_same_file warm/a/out workspace/a/in
}
