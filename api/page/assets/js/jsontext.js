// JSON as text. What a user types is sent as it stands: a document that went through
// JSON.parse would lose the digits of large numbers.

const MAX_INDENT = 200_000; // characters: longer documents are left as they are

const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const strict = /[ \t\n\r]*(?:([{}[\],:])|("[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*")|(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-]))/y;

// faultOf says what keeps a text from being JSON, and where; empty if nothing does.
export function faultOf(doc) {
  try {
    JSON.parse(doc);
    return '';
  } catch (err) {
    const before = doc.slice(0, faultAt(doc)).split('\n');
    const said = err.message.replace(/ (in JSON )?at (position|line) .*$/, '').replace(/^JSON\.parse: /, '').replace(/, (\.\.\.)?".*" is not valid JSON$/s, '');
    return `Not JSON: ${said} (line ${before.length}, column ${before.at(-1).length + 1})`;
  }
}

// faultAt is where a text ceases to be JSON: browsers say it of some faults only.
export function faultAt(doc) {
  const open = []; // the closing brackets that are still to come
  let want = 'value';
  const ended = () => { want = open.length ? 'more' : 'end'; };
  for (let at = 0; ;) {
    strict.lastIndex = at;
    const m = strict.exec(doc);
    if (!m) return at + /^[ \t\n\r]*/.exec(doc.slice(at))[0].length;
    const [whole, sign, words] = m;
    const here = strict.lastIndex - whole.trimStart().length;
    const first = want === 'first'; // of a list or an object, which may be empty
    if (sign === open.at(-1) && sign && (first || want === 'more')) {
      open.pop();
      ended();
    } else if (want === 'more' && sign === ',') want = open.at(-1) === '}' ? 'key' : 'value';
    else if (want === 'colon' && sign === ':') want = 'value';
    else if ((want === 'key' || (first && open.at(-1) === '}')) && words) want = 'colon';
    else if (want === 'value' || (first && open.at(-1) === ']')) {
      if (sign === '{' || sign === '[') {
        open.push(sign === '{' ? '}' : ']');
        want = 'first';
      } else if (sign) return here;
      else ended();
    } else return here;
    at = strict.lastIndex;
  }
}

// indent sets a document in lines. Nothing but blanks between its parts changes.
export function indent(doc) {
  if (doc.length > MAX_INDENT) return doc;
  let [out, depth, before] = ['', 0, ''];
  const line = () => `\n${'  '.repeat(depth)}`;
  for (const [t] of doc.matchAll(token)) {
    const empty = before === '{' || before === '[';
    if (t === '}' || t === ']') {
      depth--;
      out += empty ? t : line() + t;
    } else out += (empty || before === ',' ? line() : '') + (t === ':' ? ': ' : t);
    if (t === '{' || t === '[') depth++;
    before = t;
  }
  return out;
}

// memberOf is the text of a member of a document that is an object; undefined: it has none.
export function memberOf(doc, name) {
  let [depth, key, from, before] = [0, '', -1, ''];
  for (const m of doc.matchAll(token)) {
    const t = m[0];
    const ends = depth === 1 && (t === ',' || t === '}');
    if (ends && from >= 0 && key === name) return doc.slice(from, m.index).trimEnd();
    if (ends) from = -1;
    if (depth === 1 && t === ':' && from < 0) {
      key = JSON.parse(before);
      from = m.index + 1;
      while (/\s/.test(doc[from])) from++;
    }
    if (t === '{' || t === '[') depth++;
    if (t === '}' || t === ']') depth--;
    before = t;
  }
  return undefined;
}

// withTexts is the JSON of an object with further members, given as texts that are
// JSON already; one that is undefined is left out.
export function withTexts(object, texts) {
  const more = Object.entries(texts).filter(([, doc]) => doc !== undefined).map(([name, doc]) => `${JSON.stringify(name)}:${doc}`);
  const rest = JSON.stringify(object).slice(1, -1);
  return `{${[rest, ...more].filter(Boolean).join(',')}}`;
}
