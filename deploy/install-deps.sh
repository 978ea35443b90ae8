#!/bin/bash
# Installs what a fresh Debian 12 lacks to build, test and measure Loquet. Safe to run again: what is there is left
# alone, and then nothing is asked of the network.
#
# usage: deploy/install-deps.sh [build] [test] [bench]     (no group: all of them)
#
# Packages come from the sources that the system's own apt is set up with. Only for a libraft that is new enough,
# Debian 12 needs its backports: where no source has them, the system's own entry is copied for them. Needs root, or sudo.
set -euo pipefail

raft='libraft-dev>=0.22.1'
build=(gcc libc6-dev make cmake pkg-config libuv1-dev libsodium-dev libxxhash-dev libconfig-dev libjansson-dev
    libunistring-dev liblz4-dev libmicrohttpd-dev libcurl4-openssl-dev python3 "$raft")
test=(check libsubunit-dev libsqlite3-dev g++ valgrind libc6-dbg clang clang-tidy clang-format libclang-rt-dev python3
    netcat-openbsd shellcheck git procps iproute2 nftables ethtool libfaketime zsh mandoc)
bench=(libhiredis-dev redis-server libnghttp2-dev etcd-server python3)

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

# new_enough VERSION WANTED: WANTED is a package, or package>=version.
new_enough() {
    case $2 in
    *'>='*) dpkg --compare-versions "$1" ge "${2#*>=}" ;;
    esac
}

# Prints those of its arguments that are not installed, or are too old.
missing_of() {
    local there wanted version
    there=$(dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' "${@%%>=*}" 2>/dev/null || true)
    printf '%s\n' "$@" | sort -u | while read -r wanted; do
        version=$(sed -n "s/^installed ${wanted%%>=*} //p" <<<"$there" | head -1)
        if [ -z "$version" ] || ! new_enough "$version" "$wanted"; then
            echo "$wanted"
        fi
    done
}

update_lists() {
    if ! "${root[@]}" apt-get update -o APT::Update::Error-Mode=any >"$log" 2>&1; then
        grep -E '^(E|Err|W):' "$log" | head -5 >&2
        say "apt-get update had trouble (no network, or a broken package source); trying with the lists that are there"
    fi
}

# Prints what to give to apt-get for package>=version: the name alone if it would take a version that is new enough,
# else name=version for the newest that is; fails if there is none.
choice_of() {
    local name=${1%%>=*} candidate version
    candidate=$(LC_ALL=C apt-cache policy "$name" | sed -n 's/^ *Candidate: //p')
    if [ -n "$candidate" ] && [ "$candidate" != '(none)' ] && new_enough "$candidate" "$1"; then
        echo "$name"
        return
    fi
    version=$(apt-cache madison "$name" | awk '$NF == "Packages" { print $3; exit }')
    [ -n "$version" ] && new_enough "$version" "$1" && echo "$name=$version"
}

# sources_of FILTER...: where apt has its entries for that, as file:number.
sources_of() {
    # shellcheck disable=SC2016 # the field's name is for apt
    apt-get indextargets --format '$(SOURCESENTRY)' 'Created-By: Packages' "$@" | sort -u
}

# entry_for RELEASE FILE:NUMBER: prints that entry without its comments, for another release. The number counts lines,
# and in .sources files paragraphs.
entry_for() {
    case $2 in
    *.sources:*)
        grep -v '^#' "${2%:*}" | awk -v RS= -v number="${2##*:}" 'NR == number' | awk -v release="$1" '
            tolower($1) == "suites:" { print "Suites: " release; in_suites = 1; next }
            in_suites && /^[ \t]/ { next }
            { in_suites = 0; print }'
        ;;
    *) sed -n -E "${2##*:}{s/ *#.*//; s/^(deb\s+(\[[^]]*\]\s+)?\S+\s+)\S+/\1$1/p}" "${2%:*}" ;;
    esac
}

# Makes apt know the backports of this Debian, from where it has Debian itself, unless it knows them already.
# Leaves the path of a file it wrote in $added.
add_backports() {
    local release backports at base=/etc/apt/sources.list.d/loquet-backports
    # shellcheck disable=SC1091
    release=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_CODENAME:-}") || return 0
    backports=$release-backports
    if [ -z "$release" ] || [ -n "$(sources_of "Release: $backports")$(sources_of "Codename: $backports")" ]; then
        return
    fi
    at=$(sources_of "Codename: $release" 'Origin: Debian' 'Component: main' | head -1)
    case $at in
    '') return ;;
    *.sources:*) added=$base.sources ;;
    *) added=$base.list ;;
    esac
    say "adding $backports to the package sources, in $added"
    entry_for "$backports" "$at" | "${root[@]}" tee "$added" >/dev/null
    update_lists
}

# Puts what apt-get is to install in place of package>=version in $missing.
choose_raft() {
    local added='' choice
    if ! choice=$(choice_of "$raft"); then
        add_backports
        if ! choice=$(choice_of "$raft"); then
            [ -z "$added" ] || "${root[@]}" rm -f "$added"
            give_up "no package source has ${raft%%>=*} ${raft#*>=} or later. Debian 12 has it in bookworm-backports," \
                "Debian 13 and Ubuntu 24.04 have it as it is; elsewhere install it by other means"
        fi
    fi
    missing=("${missing[@]/#"$raft"/$choice}")
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

# disable_service NAME ALIAS...
disable_service() {
    local name=$1.service alias
    "${root[@]}" deb-systemd-helper disable "$name" >/dev/null 2>&1 || true
    "${root[@]}" update-rc.d "$1" disable >/dev/null 2>&1 || true
    shift
    # Other names of the service, which the helper leaves.
    for alias; do
        if [ "$(readlink "/etc/systemd/system/$alias.service")" = "/lib/systemd/system/$name" ]; then
            "${root[@]}" rm -f "/etc/systemd/system/$alias.service"
        fi
    done
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
        give_up "needs root or sudo to install ${missing[*]}"
    root=(sudo)
    [ -t 0 ] || root=(sudo -n) # nobody there to type a password
    "${root[@]}" true ||
        give_up "sudo does not let us. Run deploy/install-deps.sh by hand, or as root, to install ${missing[*]}"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "installing ${missing[*]}"
update_lists
case " ${missing[*]} " in
*" $raft "*) choose_raft ;;
esac
if ! install_without_services "${missing[@]}"; then
    tail -20 "$log" >&2
    give_up "apt-get could not install ${missing[*]}: see above. Without network, install them by other means"
fi
case " ${missing[*]} " in
*" redis-server "*) disable_service redis-server redis ;;
esac
case " ${missing[*]} " in
*" etcd-server "*) disable_service etcd etcd2 ;;
esac
mapfile -t missing < <(missing_of "${wanted[@]}")
[ ${#missing[@]} -eq 0 ] || give_up "apt-get ended well, but these are still missing: ${missing[*]}"
