/** Structured values of header fields (RFC 9651), as far as fields of responses need them. */

/** The value of an item; undefined for a type other than these, and for an inner list. */
export type ItemValue = number | boolean | string | undefined;

/** A string, which differs from the token of the same text. */
const string = '"(?:[ !#-\\[\\]-~]|\\\\["\\\\])*"';
const number = '-?(?:[0-9]{1,12}\\.[0-9]{1,3}|[0-9]{1,15})';
const base64 = ':(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?:';
const token = "[A-Za-z*][!#$%&'*+\\-.^_`|~0-9A-Za-z:/]*";
const displayString = '%"(?:[ !#$&-~]|%[0-9a-f]{2})*"';
const bare = `(?:${string}|${number}|${base64}|\\?[01]|@-?[0-9]{1,15}|${token}|${displayString})`;
const key = '[a-z*][a-z0-9_\\-.*]*';
const parameters = `(?:; *${key}(?:=${bare})?)*`;
const item = `${bare}${parameters}`;
const innerList = `\\( *(?:${item}(?: +${item})* *)?\\)`;

const dictionaryMember = new RegExp(`(${key})(?:=(${bare}|${innerList}))?${parameters}`, 'y');
const listMember = new RegExp(`(${bare}|${innerList})${parameters}`, 'y');
const separator = /[ \t]*,[ \t]*(?=.)/y;

/**
 * Parses a dictionary (section 4.2.2), without parameters. The last of repeated members counts. Undefined if the text is
 * none.
 */
export function parseDictionary(text: string): Map<string, ItemValue> | undefined {
  const members = membersOf(text, dictionaryMember);
  return members && new Map(members.map(([, name = '', value]) => [name, value === undefined ? true : itemOf(value)]));
}

/** Parses a list (section 4.2.1), without parameters; undefined if the text is none. */
export function parseList(text: string): ItemValue[] | undefined {
  return membersOf(text, listMember)?.map(([, value = '']) => itemOf(value));
}

function membersOf(text: string, member: RegExp): RegExpExecArray[] | undefined {
  const members: RegExpExecArray[] = [];
  const trimmed = text.replace(/^ +/, '').replace(/[ \t]+$/, '');
  for (let at = 0; at < trimmed.length; at = separator.lastIndex) {
    member.lastIndex = at;
    const found = member.exec(trimmed);
    if (!found) return undefined;
    members.push(found);
    if (member.lastIndex === trimmed.length) break;
    separator.lastIndex = member.lastIndex;
    if (!separator.test(trimmed)) return undefined;
  }
  return members;
}

function itemOf(text: string): ItemValue {
  if (text.startsWith('"')) return text.slice(1, -1).replace(/\\(.)/g, '$1');
  if (text.startsWith('?')) return text === '?1';
  return /^-?[0-9]+$/.test(text) ? Number(text) : undefined;
}
