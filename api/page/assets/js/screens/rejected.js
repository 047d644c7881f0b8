// Submissions that became no item: a list, and one with its original bytes, to be
// corrected and submitted anew, or purged.

import { h, keyed, put, text } from '../dom.js';
import { get, isAbort, send } from '../api.js';
import { live } from '../live.js';
import { ago, bytes, setAgo } from '../format.js';
import { go, href } from '../router.js';
import { button, confirm, copyButton, dialog, empty, facts, field, panel, problem, select, toast } from '../ui.js';
import { keys, walk } from '../keys.js';
import { PAGE, pager } from '../pager.js';
import { faultOf } from '../jsontext.js';
import { fill, fillTypes } from './dead.js';
import { once } from './newitem.js';

const MAX_SHOWN = 65_536; // bytes of an original that are shown; the engine keeps as many
const MAX_DUMP = 2048; // bytes that are shown one by one
const one = (seq) => `api/v1/rejected/${encodeURIComponent(seq)}`;

export const rejectedView = { list, one: detail };

function list({ place, tools, note, signal }) {
  let query = {};
  let shown = -1;
  const change = (name, value) => { if (query[name] !== value) go(href(['dead'], { show: 'rejected', ...query, [name]: value })); };
  const type = select([['', 'any']], '', { onchange: () => change('type', type.value) });
  const code = h('input', { name: 'code', autocomplete: 'off', spellcheck: 'false', maxlength: 64, placeholder: 'bad_params', onchange: () => change('code', code.value.trim()) });
  const body = h('tbody');
  const table = h('table', { class: 'folds rejected' }, h('thead', null, h('tr', null, ['Submission', 'Type', 'Why', 'Size', 'When'].map((c) => h('th', { scope: 'col', class: c === 'Size' ? 'num' : null }, c)))), body);
  const none = h('div');
  const pages = pager({ address: (cursor) => href(['dead'], { show: 'rejected', ...query, cursor }), signal, what: 'submission' });
  put(tools, button('Refresh', load, { key: 'r' }));
  place.append(h('form', { class: 'filters', 'aria-label': 'Filters', onsubmit: (ev) => { ev.preventDefault(); document.activeElement.blur(); } }, h('label', null, 'Type', type), h('label', null, 'Code', code), h('input', { type: 'submit', class: 'sr', value: 'Apply the filters', tabindex: -1 })),
    h('section', { class: 'panel', 'aria-label': 'Rejected submissions' }, h('div', { class: 'scroll-x' }, table), none, pages.el));
  keys('r', 'Refresh', load, { signal });
  walk(body, 'a.row-link', signal);
  live.on('anew', load, signal);
  live.on('stats', (stats) => { if (shown >= 0 && stats.rejected !== shown) text(note, 'Changed since – refresh to see'); }, signal);
  async function load() {
    try {
      const r = await get('api/v1/rejected', { query: { ...query, limit: PAGE, cursor: pages.cursor }, signal });
      const rows = r.rejected ?? [];
      shown = live.stats?.rejected ?? -1;
      text(note, '');
      keyed(body, rows, (x) => x.seq, row, (tr, x) => setAgo(tr.lastChild.firstChild, x.at));
      fill(table, none, rows.length, () => (query.type || query.code ? empty('None match', 'No rejected submission has this type and code.')
        : empty('No submission has been rejected', 'A published message that can’t become an item (invalid JSON, a bad header, too large) is kept here with its original bytes.')));
      pages.draw(rows.length, r.next_cursor);
    } catch (err) {
      if (isAbort(err)) return;
      keyed(body, [], String);
      fill(table, none, 0, () => problem(err, load));
    }
  }
  return {
    show(route) {
      query = { type: route.query.get('type') ?? '', code: route.query.get('code') ?? '' };
      pages.set(route);
      fillTypes(type, query.type);
      code.value = query.code;
      load();
    },
  };
}

function row(x) {
  const link = h('a', { class: 'row-link mono', href: href(['dead'], { show: 'rejected', seq: x.seq }) }, `#${x.seq}`);
  const tr = h('tr', { 'data-seq': x.seq }, h('td', { class: 'c-item' }, link), h('td', { class: 'c-type' }, x.type || h('span', { class: 'muted' }, 'unknown')),
    h('td', { class: 'c-say' }, h('span', { class: 'tag tag-bad' }, x.code), ' ', x.message), h('td', { class: 'num c-size' }, bytes(x.size)), h('td', { class: 'nowrap c-died' }, ago(x.at)));
  tr.addEventListener('click', (ev) => { if (!ev.target.closest('a, button') && !getSelection().toString()) link.click(); });
  return tr;
}

// detail shows one, with its original.
function detail({ place, tools, signal }) {
  const back = href(['dead'], { show: 'rejected' });
  async function load(seq) {
    try {
      const x = await get(one(seq), { signal });
      put(tools, button('Correct and replay', () => correct(x), { kind: 'primary', key: 'e' }), button('Purge', () => purge(x), { kind: 'danger' }));
      keys('e', 'Correct and replay', () => correct(x), { signal });
      put(place, h('p', null, h('a', { href: back }, 'All rejected submissions')), panel(`Submission #${x.seq}`, { name: 'rejected', tools: [h('span', { class: 'tag tag-bad' }, x.code)] }, h('div', { class: 'panel-body' },
        h('pre', { class: 'error-text', tabindex: 0, 'aria-label': 'Why it was rejected' }, x.message),
        facts([['Type', x.type || 'could not be read'], ['When', ago(x.at)], ['Size', bytes(x.size)], ['Subject', x.subject && h('span', { class: 'mono' }, x.subject)], ['In the intake', x.intake_seq && String(x.intake_seq)]]))),
      panel('Original', { name: 'original', tools: copyButton(() => x.text ?? x.bytes ?? '', 'Copy the original') }, h('div', { class: 'panel-body' }, original(x))),
      panel('Headers', {}, h('div', { class: 'panel-body' }, headersOf(x).length ? facts(headersOf(x).map(([k, v]) => [k, h('span', { class: 'mono' }, v)])) : h('p', { class: 'muted' }, 'None.'))));
    } catch (err) {
      if (isAbort(err)) return;
      put(place, problem(err, () => load(seq)), h('p', null, h('a', { href: back }, 'All rejected submissions')));
    }
  }
  keys('u', 'Back to the list', () => go(back), { signal });
  const purge = (x) => confirm('Purge this submission?', 'It leaves the list and can’t be replayed. Its original stays in backups, and in the event log until that is cut (engine cut does so at once).', 'Purge', async () => {
    await send('DELETE', one(x.seq));
    toast('Purged.');
    setTimeout(() => go(back));
  });
  return { show: (route) => load(route.query.get('seq')) };
}

const headersOf = (x) => Object.entries(x.headers ?? {}).flatMap(([k, vs]) => vs.map((v) => [k, v]));

// original is the body as it was sent: text as text, other bytes one by one.
function original(x) {
  const cut = x.truncated && h('p', { class: 'hint' }, `Only part of its ${bytes(x.size)} is kept: to replay it, enter the params.`);
  if (x.text !== undefined) return [h('pre', { class: 'json', tabindex: 0, 'aria-label': 'Original body' }, x.text.slice(0, MAX_SHOWN)), cut];
  if (!x.bytes) return h('p', { class: 'muted' }, 'It had no body.');
  const raw = Uint8Array.from(atob(x.bytes), (c) => c.charCodeAt(0));
  return [h('pre', { class: 'json', tabindex: 0, 'aria-label': 'Original body, in hexadecimal' }, dump(raw.subarray(0, MAX_DUMP))), raw.length > MAX_DUMP && h('p', { class: 'hint' }, `The first ${bytes(MAX_DUMP)} of ${bytes(raw.length)}.`), cut];
}

// dump writes bytes in rows of 16: offset, hexadecimal, text.
function dump(raw) {
  const rows = [];
  for (let i = 0; i < raw.length; i += 16) {
    const part = [...raw.subarray(i, i + 16)];
    rows.push(`${i.toString(16).padStart(6, '0')}  ${part.map((b) => b.toString(16).padStart(2, '0')).join(' ').padEnd(47)}  ${part.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '.')).join('')}`);
  }
  return rows.join('\n');
}

// correct submits it anew: what is sent are only the corrections.
async function correct(x) {
  const type = h('input', { value: x.type ?? '', autocomplete: 'off', spellcheck: 'false', maxlength: 63 });
  const doc = h('textarea', { rows: 12, spellcheck: 'false', value: x.text ?? '' });
  const heads = h('textarea', { rows: 4, spellcheck: 'false', value: headersOf(x).map(([k, v]) => `${k}: ${v}`).join('\n') });
  const [typeField, docField, headField] = [field('Type', type), field('Params (JSON)', doc), field('Headers', heads, { hint: 'One header a line, Name: value. Remove a line to drop that header.' })];
  const sent = once();
  const check = () => {
    const fault = faultOf(doc.value);
    docField.setError(fault);
    return fault;
  };
  doc.addEventListener('input', check);
  check();
  await dialog({
    title: `Correct and replay #${x.seq}`, action: 'Submit again', wide: true, body: [h('p', { class: 'muted' }, `${x.code}: ${x.message}`), typeField, docField, headField],
    async act() {
      const headers = corrections(x, heads.value);
      headField.setError(headers === null ? 'Each line must be Name: value.' : '');
      if (check()) { doc.focus(); return false; }
      if (headers === null) { heads.focus(); return false; }
      const more = JSON.stringify({ ...(type.value.trim() !== (x.type ?? '') ? { type: type.value.trim() } : {}), ...(Object.keys(headers).length ? { headers } : {}) }).slice(1, -1);
      const r = await send('POST', `${one(x.seq)}/replay`, sent(`{"params":${doc.value}${more ? `,${more}` : ''}}`));
      toast('Submitted again.', { link: { href: href(['work', r.id]), text: 'View the item' } });
      return true;
    },
  });
}

// corrections are the headers that differ from the original's; an empty one drops
// it. null: a line is none.
function corrections(x, doc) {
  const now = new Map();
  for (const line of doc.split('\n').filter((l) => l.trim())) {
    const at = line.indexOf(':');
    if (at < 1) return null;
    now.set(line.slice(0, at).trim(), line.slice(at + 1).trim());
  }
  const out = {};
  const had = new Map(headersOf(x));
  for (const [k, v] of now) if (had.get(k) !== v) out[k] = v;
  for (const k of had.keys()) if (!now.has(k)) out[k] = '';
  return out;
}
