# Sourced by run.sh and test.sh: installs what packages.txt names when it is missing and it may,
# configures build/ when that was not done yet. Afterwards: $root, $build, build_target.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
build="$root/build"
jobs="$(nproc 2>/dev/null || echo 2)"
export CCACHE_DIR="${CCACHE_DIR:-$root/.cache/ccache}"
export CCACHE_DEPEND=1  # what is not in the cache is not preprocessed twice
export CCACHE_SLOPPINESS=pch_defines,time_macros  # or nothing with precompiled headers is cached

say() { printf '%s\n' "assay: $*" >&2; }

install_packages() {
  command -v dpkg-query >/dev/null || return 0  # not Debian: CMake says what it does not find
  local wanted missing as_root=()
  wanted="$(sed 's/#.*//' "$root/checks/packages.txt")"
  # shellcheck disable=SC2086  # one argument a package
  missing="$(comm -23 <(printf '%s\n' $wanted | sort -u) \
    <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
      sed -n 's/^installed //p' | sort -u))"
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    else
      say "missing packages, and no right to install them; run as root: apt-get install" $missing
      exit 3
    fi
  fi
  say "installing" $missing
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o Acquire::Languages=none update </dev/null >&2 &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get -qq -y --no-install-recommends install $missing </dev/null >&2 ||
    { say "could not install" $missing; exit 3; }
}

configure() {
  # A build tree that was copied along with its checkout still names the old place.
  if [ -f "$build/build.ninja" ] &&
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
    return 0  # ninja itself configures again when a CMake file changed
  fi
  (cd "$root" && cmake --fresh --preset release -DASSAY_UNITY=ON) >&2
}

build_target() {
  cmake --build "$build" --parallel "$jobs" --target "$1" >&2
}

install_packages
configure
