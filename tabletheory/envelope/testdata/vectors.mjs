// Writes vectors.json next to this file: node vectors.mjs. It implements the format of
// the package comment with Node's crypto and shares no code with the Go package, so the
// tests that read its output prove that two implementations agree.
import { createCipheriv } from 'node:crypto';
import { writeFileSync } from 'node:fs';

const u32 = (n) => { const b = Buffer.alloc(4); b.writeUInt32BE(n); return b; };
const lp = (x) => { const b = Buffer.from(x); return Buffer.concat([u32(b.length), b]); };

function additionalData(table, key, attribute) {
  const parts = [u32(1), lp(table), u32(key.length)];
  for (const { name, type, value } of key) {
    parts.push(lp(name), lp(type), lp(type === 'B' ? Buffer.from(value, 'base64') : value));
  }
  return Buffer.concat([...parts, lp(attribute)]);
}

// JSON.stringify formats strings as RFC 8785 requires. Only the order of members is left.
function canonical(value) {
  const [[type, v]] = Object.entries(value);
  if (type === 'M') {
    const members = Object.keys(v).sort().map((name) => `${JSON.stringify(name)}:${canonical(v[name])}`);
    return `{"M":{${members.join(',')}}}`;
  }
  if (type === 'L') return `{"L":[${v.map(canonical).join(',')}]}`;
  if (['SS', 'NS', 'BS'].includes(type)) return `{"${type}":${JSON.stringify([...v].sort())}}`;
  return JSON.stringify(value);
}

function vector(about, { table, key, attribute, value }, i) {
  const dataKey = Buffer.alloc(32, i + 1);
  const nonce = Buffer.alloc(12, 0xa0 + i);
  const ad = additionalData(table, key, attribute);
  const plaintext = canonical(value);
  const cipher = createCipheriv('aes-256-gcm', dataKey, nonce).setAAD(ad);
  const ct = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  return {
    about, table, key, attribute, value,
    dataKey: dataKey.toString('hex'),
    additionalData: ad.toString('hex'),
    plaintext,
    stored: { M: {
      v: { N: '1' },
      edk: { B: Buffer.from(`sealed ${i}`).toString('base64') },
      nonce: { B: nonce.toString('base64') },
      ct: { B: ct.toString('base64') },
    } },
  };
}

const pk = { name: 'pk', type: 'S', value: 'USER#1' };
const sk = { name: 'sk', type: 'S', value: 'PROFILE' };
const place = { table: 'users', key: [pk, sk], attribute: 'email' };

const vectors = Object.entries({
  'a string': { ...place, value: { S: 'ada@example.com' } },
  'a table without a sort key': { ...place, key: [pk], value: { S: 'x' } },
  'a number as sort key': { ...place, key: [pk, { name: 'n', type: 'N', value: '-0.5' }], value: { N: '12345678901234567890.5' } },
  'binary keys': { ...place, key: [{ name: 'p', type: 'B', value: 'AP8=' }, { name: 's', type: 'B', value: 'gA==' }], value: { B: '//79' } },
  'names beyond ASCII': { table: 'users', key: [{ name: 'schlüssel', type: 'S', value: 'ключ' }], attribute: '名前', value: { S: 'Ünï€😀' } },
  'every character that is escaped, and some that are not': { ...place, value: { S: '"\\\b\t\n\u000b\f\r\u0000\u001f\u007f/<>&\u2028' } },
  'empty values': { ...place, value: { L: [{ S: '' }, { B: '' }, { M: {} }, { L: [] }] } },
  'truth and nothing': { ...place, value: { L: [{ BOOL: true }, { BOOL: false }, { NULL: true }] } },
  'sets in order': { ...place, value: { L: [{ SS: ['b', 'a', '\ufb01', '😀'] }, { NS: ['10', '9', '-1'] }, { BS: ['/w==', 'AA=='] }] } },
  'members in order of UTF-16': { ...place, value: { M: { b: { N: '1' }, a: { M: { z: { S: 'y' } } }, '\ufb01': { S: 'ligature' }, '😀': { S: 'surrogates' } } } },
}).map(([about, v], i) => vector(about, v, i));

writeFileSync(new URL('vectors.json', import.meta.url), `${JSON.stringify(vectors, null, 2)}\n`);
