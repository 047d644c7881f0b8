// A schedule is made or changed: when it ticks, with a preview of the next ticks, and
// what its items are.

import { h, put, show, text } from '../dom.js';
import { get, getText, isAbort, send } from '../api.js';
import { now } from '../format.js';
import { href } from '../router.js';
import { dialog, failed, field, select, toast } from '../ui.js';
import { complain, optionFields, paramsField, readAll, reveal, typeField } from '../itemform.js';
import { parseDuration, writeDuration } from '../units.js';
import { indent, memberOf, withTexts } from '../jsontext.js';
import { whenQuiet } from './dead.js';

const SOON = 400; // ms after a key until the preview is asked for
const NAME = /^[a-z0-9]+([-_][a-z0-9]+)*$/;
const MISSED = [['one', 'one item for all (default)'], ['skip', 'none'], ['all', 'one item for each']];
const OVERLAP = [['distinct', 'both run (default)'], ['merge', 'the new item is merged into it'], ['defer', 'the new item waits for it'], ['supersede', 'the new item replaces it']];
// What the reply has beside what was set.
const STATE = ['source', 'next', 'last_tick', 'last_item', 'last_state', 'last_error', 'params'];

// scheduleForm asks for a schedule and sets it: a new one, or the one of a name as
// it is then. done is called once it is set.
export async function scheduleForm({ name = '', type = '', done = () => {} } = {}) {
  let [had, params] = [{}, undefined];
  if (name) {
    try {
      const doc = await getText(`api/v1/schedules/${encodeURIComponent(name)}`, { most: 1 << 20 });
      had = JSON.parse(doc);
      params = memberOf(doc, 'params');
    } catch (err) {
      failed(err);
      return false;
    }
  }
  if (document.querySelector('dialog[open]')) return false; // pressed twice while it was fetched
  const ended = new AbortController();
  const asked = ask(name, had, params, type, ended.signal, done);
  asked.finally(() => ended.abort());
  return asked;
}

function ask(name, had, doc, type, signal, done) {
  const call = field('Name', h('input', { name: 'name', value: name, 'aria-required': 'true', readonly: Boolean(name), autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', maxlength: 63, placeholder: 'nightly-report' }),
    { hint: name ? 'A schedule keeps its name.' : 'a-z and 0-9, with single - or _ between them' });
  const params = paramsField(name ? doc === undefined ? '' : indent(doc) : undefined);
  const types = typeField(had.type ?? type, { changed: (t) => { if (!name) params.start(t); } });
  const timing = timingFields(had, signal);
  const options = optionFields(had);
  const missed = field('Missed ticks', select(MISSED, had.missed || 'one', { name: 'missed' }), { hint: 'while no engine ran, or it was paused' });
  const overlap = field('Overlap', select(OVERLAP, had.overlap || 'distinct', { name: 'overlap' }), { hint: 'when a tick comes before the last item has ended' });
  const paused = h('input', { type: 'checkbox', name: 'paused', checked: Boolean(had.paused) });
  const fields = { name: call, type: types.el, params: params.el, missed, overlap, ...timing.all, ...options.all };
  if (!name) params.start(type);
  return dialog({
    title: name ? `Edit ${name}` : 'New schedule', action: name ? 'Save' : 'Create', wide: true,
    body: [h('div', { class: 'form-grid' }, call, types.el), timing.el, params.el,
      h('details', { class: 'options', open: Boolean(name && (had.priority !== undefined || had.tenant || had.labels || had.timeout_ms || had.max_attempts || (had.missed ?? 'one') !== 'one' || (had.overlap ?? 'distinct') !== 'distinct')) }, h('summary', null, 'Options'),
        h('div', { class: 'form-grid' }, missed, overlap, options.els)),
      h('label', { class: 'check' }, paused, 'Paused: no ticks until resumed')],
    async act() {
      for (const el of Object.values(fields)) el.setError('');
      if (await params.loading()) { params.input.focus(); return false; } // nobody has seen them yet
      const called = call.querySelector('input').value.trim();
      const said = name ? '' : await nameFault(called);
      call.setError(said);
      if (said) { reveal(call); return false; }
      if (await types.check()) { reveal(types.el); return false; }
      if (params.check()) { reveal(params.el); return false; }
      const set = { type: types.name(), missed: missed.querySelector('select').value, overlap: overlap.querySelector('select').value, ...(paused.checked ? { paused: true } : {}) };
      const read = timing.read(set);
      if (!options.read(set) || !read) return false;
      try {
        await send('PUT', `api/v1/schedules/${encodeURIComponent(called)}`, withTexts({ ...unknown(had), ...set }, { params: params.text() }));
      } catch (err) {
        if (complain(err, fields, WORDS)) return false;
        throw err;
      }
      toast(name ? `${name} is saved.` : `${called} is set.`, name ? {} : { link: { href: href(['schedules', called]), text: 'View' } });
      done();
      return true;
    },
  });
}

// WORDS are what the engine calls the fields where it does not name them.
const WORDS = { name: 'name of a schedule', cron: 'cron|field|expression|moment', every: 'every(_ms)?|interval', zone: '(time )?zone', anchor: 'anchor', timeout_ms: 'timeout(_ms)?', labels: 'labels?', params: 'params' };

// unknown are the settings that this form has no field for: saving keeps them.
function unknown(had) {
  const mine = new Set([...STATE, 'name', 'type', 'cron', 'every_ms', 'anchor', 'zone', 'missed', 'overlap', 'priority', 'tenant', 'labels', 'max_attempts', 'timeout_ms', 'paused']);
  return Object.fromEntries(Object.entries(had).filter(([k]) => !mine.has(k)));
}

// nameFault says what is wrong with the name of a new schedule: setting one that is
// there would replace it.
async function nameFault(name) {
  if (!NAME.test(name)) return name ? `“${name}” is not a schedule name: use a-z and 0-9, with single - or _ between them.` : 'Enter a name.';
  const { schedules } = await get('api/v1/schedules');
  return schedules.some((s) => s.name === name) ? `Schedule ${name} exists already: choose another name, or edit that one.` : '';
}

// timingFields ask when it ticks, and show when that is.
function timingFields(had, signal) {
  const kind = select([['cron', 'by a cron expression'], ['every', 'at an interval']], had.every_ms ? 'every' : 'cron', { name: 'kind' });
  const zones = h('datalist', { id: 'zones' }, (Intl.supportedValuesOf?.('timeZone') ?? []).map((z) => h('option', { value: z })));
  const one = (name, label, hint, value, more) => [name, field(label, h('input', { name, value, autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', maxlength: 256, ...more }), { hint })];
  const all = Object.fromEntries([
    one('cron', 'Cron expression', 'minute hour day-of-month month day-of-week; or @hourly, @daily …', had.cron ?? '', { class: 'mono', placeholder: '0 3 * * *' }),
    one('zone', 'Time zone', 'an IANA name; empty: UTC', had.cron ? had.zone ?? '' : had.name ? '' : Intl.DateTimeFormat().resolvedOptions().timeZone ?? '', { list: 'zones', placeholder: 'UTC' }),
    one('every', 'Interval', 'as 90s, 15m or 1h30m; at least 1s', had.every_ms ? writeDuration(had.every_ms) : '', { placeholder: '15m' }),
    one('anchor', 'Anchor', 'a tick to count from, such as 2026-01-01T00:00:00Z; empty: when it is set', had.anchor ?? '', { placeholder: 'when it is set' }),
  ]);
  const uses = { cron: 'cron', zone: 'cron', every: 'every', anchor: 'every' };
  const value = (name) => (uses[name] === kind.value ? all[name].querySelector('input').value.trim() : '');
  const readers = { cron: String, zone: String, every: parseDuration, anchor: String };
  const asQuery = (into) => {
    if (into.every !== undefined) into.every_ms = into.every;
    delete into.every;
    return into;
  };
  const list = h('ol', { class: 'ticks', 'aria-label': 'Next ticks' });
  const status = h('p', { class: 'hint', role: 'status' });
  let turn = 0;
  const preview = async () => {
    const mine = ++turn;
    const query = {};
    try {
      for (const [name, read] of Object.entries(readers)) if (value(name)) query[name] = read(value(name));
    } catch { return; } // half written: said when it is left, or saved
    if (!query.cron && !query.every) { put(list); text(status, ''); return; }
    try {
      const { ticks } = await get('api/v1/ticks', { query: asQuery(query), plain: true, signal });
      if (mine !== turn) return;
      for (const el of Object.values(all)) el.setError('');
      text(status, `Next ticks${query.cron ? `, in ${query.zone || 'UTC'}` : ', in UTC'}:`);
      put(list, ticks.map((t) => h('li', { class: 'mono' }, tickText(t), h('span', { class: 'muted' }, ` ${ahead(t)}`))));
    } catch (err) {
      if (isAbort(err) || mine !== turn) return;
      put(list);
      text(status, '');
      for (const el of Object.values(all)) el.setError('');
      const at = err.status === 400 && Object.keys(all).filter((n) => uses[n] === kind.value && new RegExp(`(^|[^a-z])(${WORDS[n]})(?![a-z])`, 'i').test(err.message)).at(-1);
      if (at) all[at].setError(err.message);
      else text(status, err.message);
    }
  };
  const soon = whenQuiet(preview, SOON, signal);
  const follow = () => {
    for (const [name, el] of Object.entries(all)) show(el, uses[name] === kind.value);
    preview();
  };
  kind.addEventListener('change', follow);
  for (const el of Object.values(all)) el.querySelector('input').addEventListener('input', soon);
  follow();
  return {
    all, el: h('div', { class: 'timing' }, h('div', { class: 'form-grid' }, field('Ticks', kind), Object.values(all)), zones, h('div', { class: 'preview' }, status, list)),
    read(set) {
      const into = {};
      if (!readAll(all, readers, value, into)) return false;
      if (!into.cron && !into.every) {
        all[kind.value].setError(kind.value === 'cron' ? 'Enter an expression.' : 'Enter an interval.');
        reveal(all[kind.value]);
        return false;
      }
      Object.assign(set, asQuery(into));
      return true;
    },
  };
}

// tickText is a tick (RFC 3339) as its own zone writes it: Tue 2026-11-24 03:00 +01:00.
export function tickText(t) {
  const [, date, time, sec, zone] = /^(\S{10})T(\d\d:\d\d)(:\d\d)(?:\.\d+)?(.*)$/.exec(t);
  const day = new Date(`${date}T00:00:00Z`).toLocaleDateString('en', { weekday: 'short', timeZone: 'UTC' });
  return `${day} ${date} ${time}${sec === ':00' ? '' : sec} ${zone === 'Z' ? 'UTC' : zone}`;
}

const UNITS = [[86_400_000, 'd'], [3_600_000, 'h'], [60_000, 'min'], [1000, 's']];

function ahead(t) {
  const ms = Math.max(Date.parse(t) - now(), 0);
  const [size, unit] = UNITS.find(([n]) => ms >= n) ?? UNITS.at(-1);
  return `in ${Math.floor(ms / size)} ${unit}`;
}
