import type { GatewayOptions } from './gateway.js';
import { Front } from './handler.js';

/**
 * Makes the pages of older builds stale at `isr serve` when a process starts, also one that is
 * asked for no page because the servers in front have all of them: export it from
 * `instrumentation.js`. It returns at once, and does nothing in the edge runtime.
 */
export function register(options: GatewayOptions & { distDir?: string } = {}): void {
  if (typeof process?.getBuiltinModule !== 'function') return;
  const { distDir = '.next', ...others } = options;
  const { resolve } = process.getBuiltinModule('node:path');
  new Front(others).open({ serverDistDir: resolve(distDir, 'server') });
}
