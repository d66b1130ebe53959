#!/bin/sh
# After the installation and each upgrade. The service is not enabled: it needs a configuration.
set -e
# Without systemd, or in another root, there is nothing to reload.
if [ -n "$DPKG_ROOT" ] || [ ! -d /run/systemd/system ]; then
  exit 0
fi
systemctl daemon-reload || true
systemctl try-restart isr.service || true
