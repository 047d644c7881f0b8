// The fields of forms that say what an item is to be: its type, its params as text,
// and the options that are mostly left alone.

import { h, put, show, text } from './dom.js';
import { get, getText, isAbort } from './api.js';
import { live } from './live.js';
import { ago } from './format.js';
import { href } from './router.js';
import { BATCH } from './states.js';
import { button, field, select } from './ui.js';
import { parseCount, parseDuration, writeDuration } from './units.js';
import { faultOf, indent } from './jsontext.js';

const MAX_START = 256_000; // bytes of params that are taken over into a form
const WORDS = { 2: ', low', 5: ', medium', 8: ', high' };
let lists = 0;

// typeField asks for a type. known() gives a promise of the names there are, null if
// they can't be told; a name that is not among them must be confirmed by a tick.
export function typeField(first = '', { changed = () => {} } = {}) {
  const list = h('datalist', { id: `types${++lists}` });
  const input = h('input', { name: 'type', value: first, 'aria-required': 'true', autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', maxlength: 63, list: list.id });
  const el = field('Type', input);
  const sure = h('input', { type: 'checkbox', name: 'create' });
  const words = h('span');
  const ask = h('label', { class: 'check new-type', hidden: true }, sure, words);
  el.append(list, ask);
  const known = names().then((all) => {
    put(list, (all ?? []).map((t) => h('option', { value: t })));
    return all;
  });
  let told = null; // the name that the question is about
  const strange = async () => {
    const name = input.value.trim();
    const all = await known;
    const is = name !== '' && all !== null && !all.includes(name);
    if (is && told !== name) sure.checked = false;
    told = is ? name : null;
    text(words, is ? `Create the new type “${name}”` : '');
    show(ask, is);
    return is;
  };
  input.addEventListener('input', () => { el.setError(''); strange(); });
  input.addEventListener('change', () => { strange(); changed(input.value.trim()); });
  return {
    el, input, name: () => input.value.trim(),
    // check says what is wrong with it; empty if nothing is.
    async check() {
      const name = input.value.trim();
      const said = !name ? 'Enter a type.' : await strange() && !sure.checked ? `There is no type “${name}” yet: correct the name or tick the box.` : '';
      el.setError(said);
      return said;
    },
  };
}

// names are those of the types that there are, null if nobody says.
async function names() {
  try {
    return namesOf((await get('api/v1/types')).types);
  } catch {
    return live.stats ? namesOf(live.stats.types) : null;
  }
}

const namesOf = (types) => (types ?? []).map((t) => t.type).filter((name) => name !== BATCH).sort();

// paramsField is a document to edit. start(type) fills in the params of the item of
// the type that changed last, unless something has been typed.
export function paramsField(first, { optional = true } = {}) {
  const doc = h('textarea', { name: 'params', rows: 9, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'none', value: first ?? '' });
  const el = field('Params (JSON)', doc, { hint: 'Checked as you type; sent exactly as written.' });
  const from = h('p', { class: 'hint params-from', role: 'status' });
  el.append(from);
  let mine = first !== undefined; // typed, not taken over
  let asked = 0;
  const check = () => {
    const fault = doc.value.trim() === '' ? (optional ? '' : 'Enter the params.') : faultOf(doc.value);
    el.setError(fault);
    return fault;
  };
  doc.addEventListener('input', () => {
    if (!mine) { // what is on its way comes too late, and what is typed is nobody else's
      mine = true;
      asked++;
      put(from);
    }
    check();
  });
  let loading = null;
  function start(type, over = false) {
    asked++;
    loading = type && (over || !mine) ? take(type, over, asked) : null;
    if (!loading) put(from, type && button(`Copy the last ${type}`, () => start(type, true), { kind: 'quiet' }));
  }
  async function take(type, over, turn) {
    try {
      const item = (await get('api/v1/work', { query: { type, limit: 1 } })).items?.[0];
      const params = item && await getText(`api/v1/work/${encodeURIComponent(item.id)}/params`, { most: MAX_START, plain: true });
      if (turn !== asked || (mine && !over)) return;
      doc.value = (params ?? 'null') === 'null' ? '' : params.includes('\n') ? params : indent(params);
      mine = false;
      put(from, params === 'null' ? `The last item of ${type} had no params.` : item ? ['Taken from ', h('a', { class: 'mono', href: href(['work', item.id]), target: '_blank', title: item.id }, item.id), `, the ${type} item that changed last, `, ago(lastOf(item)), '.'] : '');
      check();
    } catch (err) {
      if (isAbort(err) || turn !== asked) return;
      if (!mine) doc.value = '';
      text(from, err.status === 404 ? `The last item of ${type} had no params.` : err.status === 403 ? '' : `Couldn’t load the params of the last item of ${type}: ${err.message}`);
    } finally {
      if (turn === asked) loading = null;
    }
  }
  return {
    el, input: doc, check, start,
    // loading waits for params that are on their way, unless some are typed; it says
    // whether any were.
    async loading() {
      const was = loading !== null && !mine;
      if (was) await loading;
      return was;
    },
    text: () => (doc.value.trim() === '' ? undefined : doc.value),
  };
}

const lastOf = (it) => it.finished_at ?? it.started_at ?? it.claimed_at ?? it.queued_at ?? it.created_at;

export const priorities = () => [...Array(10).keys()].reverse().map((p) => [p, `${p}${WORDS[p] ?? (p === 9 ? ', first' : p === 0 ? ', last' : '')}`]);

// optionFields are the fields of an item that have a default, as had says they are.
// read(into) puts those that are filled in into a request; it reports false, with
// the field's complaint shown, if one can't be read.
export function optionFields(had = {}) {
  const one = (name, label, hint, value, more = {}) => [name, field(label, h('input', { name, autocomplete: 'off', spellcheck: 'false', value, ...more }), { hint })];
  const labels = h('textarea', { name: 'labels', rows: 2, spellcheck: 'false', autocomplete: 'off', value: Object.entries(had.labels ?? {}).map(([k, v]) => `${k}=${v}`).join('\n') });
  const all = Object.fromEntries([
    ['priority', field('Priority', select([['', '5, medium (default)'], ...priorities()], had.priority ?? '', { name: 'priority' }))],
    one('max_attempts', 'Maximum attempts', 'empty: the type’s setting', had.max_attempts || '', { inputmode: 'numeric', maxlength: 8 }),
    one('timeout_ms', 'Timeout of an attempt', 'as 30s or 5m; empty: the type’s setting', had.timeout_ms ? writeDuration(had.timeout_ms) : '', { maxlength: 40 }),
    one('tenant', 'Tenant', 'for whom', had.tenant ?? '', { maxlength: 256 }),
    ['labels', field('Labels', labels, { hint: 'name=value, a line each' })],
  ]);
  const value = (name) => all[name].querySelector('input, select, textarea').value.trim();
  const readers = {
    priority: Number, tenant: String, max_attempts: (said) => positive(parseCount(said)), timeout_ms: (said) => positive(parseDuration(said)),
    labels: (said) => Object.fromEntries(said.split('\n').filter((l) => l.trim()).map((l) => {
      const at = l.indexOf('=');
      if (at < 1) throw new Error(`“${l.trim()}” is not a label: use name=value.`);
      return [l.slice(0, at).trim(), l.slice(at + 1).trim()];
    })),
  };
  return { all, els: Object.values(all), read: (into) => readAll(all, readers, value, into) };
}

// positive refuses the 0 of who means no limit, or the default.
function positive(n) {
  if (n === 0) throw new Error('It must be more than 0; leave the field empty for the type’s setting.');
  return n;
}

// readAll reads fields into a request; it reports whether all could be read.
export function readAll(all, readers, value, into) {
  let bad = null;
  for (const [name, read] of Object.entries(readers)) {
    all[name].setError('');
    const said = value(name);
    if (said === '') continue;
    try {
      into[name] = read(said);
    } catch (err) {
      all[name].setError(err.message);
      bad ??= all[name];
    }
  }
  if (bad) reveal(bad);
  return !bad;
}

// reveal brings a field into sight, and into focus.
export function reveal(el) {
  const folded = el.closest('details');
  if (folded) folded.open = true;
  el.querySelector('input:not([type=checkbox]), select, textarea').focus();
}

// BY_CODE are the fields that an error's code is about.
const BY_CODE = { bad_type: 'type', type_not_allowed: 'type', too_many_types: 'type', bad_params: 'params', bad_priority: 'priority' };

// complain shows what the engine refuses at the field that it is about: fields are
// by name, words are what the engine's texts call them. It reports false if it is
// about none of them.
export function complain(err, fields, words = {}) {
  const named = Object.keys(fields).filter((name) => new RegExp(`(^|[^a-z])(${words[name] ?? name})(?![a-z_])`, 'i').test(err.message)).sort((a, b) => b.length - a.length)[0];
  const el = fields[BY_CODE[err.code]] ?? fields[named];
  if (!el || !err.status || err.status === 401 || err.status === 403 || err.status >= 500) return false;
  el.setError(`${err.message} (${err.code})`);
  reveal(el);
  return true;
}
