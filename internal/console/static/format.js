// Numbers, sizes and times as text.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

// count returns 12,345.
export const count = (n) => (Number.isFinite(n) ? whole.format(n) : '–');

// short returns 12.3K.
export const short = (n) => (Number.isFinite(n) ? compact.format(n) : '–');

// percent returns the share of a part, or a dash without a whole.
export function percent(part, of) {
  if (!of) return '–';
  const share = 100 * part / of;
  if (share > 0 && share < 0.1) return '<0.1%';
  return `${share >= 99.95 || share < 10 ? share.toFixed(1).replace(/\.0$/, '') : Math.round(share * 10) / 10}%`;
}

// bytes returns a size with binary units, as the commands of isr do.
export function bytes(n) {
  if (!Number.isFinite(n)) return '–';
  if (n < 1024) return `${whole.format(n)} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let size = n;
  let unit = '';
  for (unit of units) {
    size /= 1024;
    if (size < 1024) break;
  }
  return `${size < 10 ? size.toFixed(1) : whole.format(size)} ${unit}`;
}

// duration returns a time span in milliseconds with two units at most: 1.2 s, 3m 10s, 2d 4h.
export function duration(ms) {
  if (!Number.isFinite(ms)) return '–';
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms === 0) return '0 ms';
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const parts = [[365 * 86400, 'y'], [86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']];
  const first = parts.findIndex(([size]) => s >= size);
  const [size, unit] = parts[first];
  const next = parts[first + 1];
  const rest = next ? Math.floor((s % size) / next[0]) : 0;
  return `${Math.floor(s / size)}${unit}${rest > 0 ? ` ${rest}${next[1]}` : ''}`;
}

// seconds is duration of whole seconds.
export const seconds = (s) => (Number.isFinite(s) ? (s === 0 ? '0s' : s < 60 && s > -60 ? `${Math.round(s)}s` : duration(s * 1000)) : '–');

// zero reports whether a time of the API is missing; Go's zero time counts as missing.
export const zero = (time) => !time || time.startsWith('0001-');

// forever reports whether a time of the API is without end.
export const forever = (time) => Boolean(time) && time.startsWith('9999-');

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dated = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' });

// moment returns a local time, with the day unless it is today.
export function moment(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return '–';
  return (new Date().toDateString() === at.toDateString() ? clock : dated).format(at);
}

// ago returns how long ago a time was.
export function ago(time, now = Date.now()) {
  const ms = now - new Date(time).getTime();
  if (Number.isNaN(ms)) return '–';
  return ms < 1000 ? 'now' : `${seconds(Math.floor(ms / 1000))} ago`;
}

// generation shortens the id of a generation: its time, and the begin of its random part.
export function generation(id) {
  const match = /^\d{8}T(\d\d)(\d\d)(\d\d)(?:\.\d+)?Z-(\w{4})/.exec(id ?? '');
  return match ? `${match[1]}:${match[2]}:${match[3]}-${match[4]}` : (id ?? '').slice(0, 20) || '(none)';
}

// quoted returns an argument for a POSIX shell.
export function quoted(text) {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", "'\\''")}'`;
}

// command returns a command line of isr that talks to the server of this console. Arguments
// that are empty or false are left out.
export function command(...args) {
  return ['isr', ...args.filter((arg) => arg !== '' && arg !== false && arg != null), '--server', location.origin].map((arg) => quoted(String(arg))).join(' ');
}

// webAddress returns a link target of text from outside if it is an http(s) URL; otherwise null.
export function webAddress(text) {
  try {
    const url = new URL(text);
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
  } catch {
    return null;
  }
}
