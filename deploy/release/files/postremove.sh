#!/bin/sh
# After the removal. The data stay in /var/lib/isr, unless Debian purges the package.
set -e
if [ "$1" = purge ]; then
  rm -rf "$DPKG_ROOT/var/lib/isr" "$DPKG_ROOT/var/lib/private/isr"
fi
if [ -n "$DPKG_ROOT" ] || [ ! -d /run/systemd/system ]; then
  exit 0
fi
systemctl daemon-reload || true
