#!/bin/bash
# Installs what a fresh Debian 12 lacks to build, test and measure Loquet. Safe to run again: what is there is left
# alone, and then nothing is asked of the network.
#
# usage: deploy/install-deps.sh [build] [test] [bench]     (no group: all of them)
#
# Packages come from the sources that the system's own apt is set up with. Needs root, or sudo.
set -euo pipefail

build=(gcc libc6-dev make cmake pkg-config libuv1-dev libsodium-dev libxxhash-dev libconfig-dev libjansson-dev
    libunistring-dev)
test=(check libsubunit-dev valgrind libc6-dbg clang clang-tidy clang-format libclang-rt-dev python3 netcat-openbsd
    shellcheck git procps iproute2)
bench=(libhiredis-dev redis-server python3)

say() {
    echo "install-deps: $*" >&2
}

give_up() {
    say "$*"
    exit 1
}

usage() {
    sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"
}

# Prints those of its arguments that are not installed.
missing_of() {
    local there
    there=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
    printf '%s\n' "$@" | sort -u | while read -r package; do
        grep -qx "installed $package" <<<"$there" || echo "$package"
    done
}

# A package may start its service when it is installed. We want the program alone: no service is started or enabled
# because of us, and one that was there before is not touched.
install_without_services() {
    local policy=/usr/sbin/policy-rc.d ours=no status=0
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
        "${root[@]}" chmod 755 "$policy"
        ours=yes
    fi
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >"$log" 2>&1 ||
        status=$?
    if [ "$ours" = yes ]; then
        "${root[@]}" rm -f "$policy"
    fi
    return "$status"
}

disable_redis() {
    "${root[@]}" deb-systemd-helper disable redis-server.service >/dev/null 2>&1 || true
    "${root[@]}" update-rc.d redis-server disable >/dev/null 2>&1 || true
    # The other name of the service, which the helper leaves.
    if [ "$(readlink /etc/systemd/system/redis.service)" = /lib/systemd/system/redis-server.service ]; then
        "${root[@]}" rm -f /etc/systemd/system/redis.service
    fi
}

groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(build test bench)
wanted=()
for group in "${groups[@]}"; do
    case $group in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    bench) wanted+=("${bench[@]}") ;;
    -h | --help) usage && exit 0 ;;
    *) give_up "no group is called '$group': give build, test or bench" ;;
    esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    give_up "this is for Debian and its kin. On other systems install what these packages hold: ${wanted[*]}"
fi

mapfile -t missing < <(missing_of "${wanted[@]}")
[ ${#missing[@]} -gt 0 ] || exit 0

root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
        give_up "needs root or sudo. As root: apt-get install ${missing[*]}"
    root=(sudo)
    [ -t 0 ] || root=(sudo -n) # nobody there to type a password
    "${root[@]}" true ||
        give_up "sudo does not let us. Run deploy/install-deps.sh by hand, or as root: apt-get install ${missing[*]}"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "installing ${missing[*]}"
if ! "${root[@]}" apt-get update -o APT::Update::Error-Mode=any >"$log" 2>&1; then
    grep -E '^(E|Err|W):' "$log" | head -5 >&2
    say "apt-get update had trouble (no network, or a broken package source); trying with the lists that are there"
fi
if ! install_without_services "${missing[@]}"; then
    tail -20 "$log" >&2
    give_up "apt-get could not install ${missing[*]}: see above. Without network, install them by other means"
fi
case " ${missing[*]} " in
*" redis-server "*) disable_redis ;;
esac
mapfile -t missing < <(missing_of "${wanted[@]}")
[ ${#missing[@]} -eq 0 ] || give_up "apt-get ended well, but these are still missing: ${missing[*]}"
