#!/bin/sh
# Before the removal, and in an upgrade: Debian passes "upgrade" then, RPM passes 1.
set -e
case "$1" in upgrade | 1) exit 0 ;; esac
if [ -n "$DPKG_ROOT" ] || [ ! -d /run/systemd/system ]; then
  exit 0
fi
systemctl disable --now isr.socket isr.service || true
