#!/bin/sh
# kcat is one of the real clients in tests/clients. Install it where we may; say how where we may not.
command -v kcat >/dev/null && exit 0
if command -v apt-get >/dev/null; then
    if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo -n"; fi
    if $as_root true 2>/dev/null; then
        echo "installing kcat"
        $as_root apt-get -qq update >/dev/null 2>&1
        DEBIAN_FRONTEND=noninteractive $as_root apt-get -qq install --yes kcat >/dev/null 2>&1 && exit 0
    fi
fi
echo "kcat is not installed, and its tests will fail; to install it: sudo apt-get install kcat" >&2
