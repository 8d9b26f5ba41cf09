#!/bin/sh
# install_packages.sh WHY PACKAGE...: install packages of the system where we may; say how where we may not.
why=$1
shift
if command -v apt-get >/dev/null; then
    if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo -n"; fi
    if $as_root true 2>/dev/null; then
        echo "installing $*"
        $as_root apt-get -qq update >/dev/null 2>&1
        DEBIAN_FRONTEND=noninteractive $as_root apt-get -qq install --yes "$@" >/dev/null 2>&1 && exit 0
    fi
fi
echo "not installed: $*; $why; to install them: sudo apt-get install $*" >&2
