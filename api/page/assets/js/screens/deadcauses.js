// What items have died of: a row for each cause. It is live: figures change in
// place, a new cause comes on top, and rows stay where they are until the list is
// sorted anew.

import { attr, h, keyed, put, show, text } from '../dom.js';
import { get, isAbort, stream } from '../api.js';
import { live } from '../live.js';
import { ago, count, firstLine, now, plural, setAgo } from '../format.js';
import { go, href } from '../router.js';
import { button, empty, problem, select } from '../ui.js';
import { keys, walk } from '../keys.js';
import { bulk } from './bulk.js';
import { fill, fillTypes, whenQuiet } from './dead.js';

const MAX_CAUSES = 200; // rows; the engine tells up to 5,000 apart
const MAX_NOTED = 500; // causes whose growth is known
const SOON = 700; // ms between looks
const LATELY = 15 * 60_000; // ms for which a cause is called new or growing
const SORTS = [['last', 'last death'], ['dead', 'most dead'], ['count', 'most deaths'], ['first', 'newest cause']];

export function causesView({ place, tools, note, signal }) {
  let query = {};
  let order = []; // causes as they are shown
  let before = -1;
  const noted = new Map();
  const type = select([['', 'any']], '', { onchange: () => change('type', type.value) });
  const sort = select(SORTS, 'last', { onchange: () => change('sort', sort.value) });
  const all = h('input', { type: 'checkbox', onchange: () => change('all', all.checked ? '1' : '') });
  const body = h('tbody');
  const table = h('table', { class: 'folds causes' }, h('thead', null, h('tr', null, ['Cause', 'Type', 'Dead now', 'Deaths', 'Since', 'Last'].map((c) => h('th', { scope: 'col', class: c === 'Dead now' || c === 'Deaths' ? 'num' : null }, c)))), body);
  const none = h('div');
  const more = h('p', { class: 'panel-body hint', hidden: true });
  const change = (name, value) => go(href(['dead'], { ...query, [name]: value }));
  const selection = () => ({ type: query.type });
  const said = () => (query.type ? `Everything dead of type ${query.type}.` : 'Everything dead, of every type.');
  put(tools, button('Replay all …', () => bulk('replay', selection(), said(), load)), button('Purge all …', () => bulk('purge', selection(), said(), load), { kind: 'danger' }), button('Refresh', refresh, { key: 'r' }));
  place.append(h('form', { class: 'filters', 'aria-label': 'Filters', onsubmit: (ev) => ev.preventDefault() }, h('label', null, 'Type', type), h('label', null, 'Sorted by', sort), h('label', { class: 'check' }, all, ' include causes with nothing dead now')),
    h('section', { class: 'panel', 'aria-label': 'Causes of death' }, h('div', { class: 'scroll-x' }, table), none, more));
  keys('r', 'Refresh', refresh, { signal });
  walk(body, 'a.row-link', signal);

  function refresh() { order = []; return load(); }
  const soon = whenQuiet(load, SOON, signal);
  live.on('stats', (stats) => {
    const dead = (stats.types ?? []).reduce((n, t) => n + (t.states?.dead ?? 0), 0);
    if (dead !== before && before >= 0) soon();
    before = dead;
    fillTypes(type, query.type);
  }, signal);
  live.on('anew', refresh, signal);
  follow();

  // follow hears of causes that are new or grow fast: the engine notes both.
  async function follow() {
    for (let wait = 1000; !signal.aborted; wait = Math.min(wait * 2, 30_000)) {
      try {
        await stream('api/v1/events', { query: { kind: 'cause_noted', since: '15m' }, signal, on: { open: () => { wait = 1000; }, event: ({ event, data }) => {
          if (event !== 'cause_noted') return;
          const ev = JSON.parse(data);
          noted.delete(ev.data.cause);
          noted.set(ev.data.cause, { why: ev.data.why, at: Date.parse(ev.at), window: ev.data.window });
          if (noted.size > MAX_NOTED) noted.delete(noted.keys().next().value);
          soon();
        } } });
      } catch (err) {
        if (isAbort(err)) return;
      }
      await new Promise((done) => { setTimeout(done, wait); signal.addEventListener('abort', done, { once: true }); });
    }
  }

  async function load() {
    try {
      const r = await get('api/v1/causes', { query: { type: query.type, sort: query.sort, all: query.all ? 'true' : '', limit: MAX_CAUSES }, signal });
      draw(r);
    } catch (err) {
      if (isAbort(err)) return;
      keyed(body, [], String);
      fill(table, none, 0, () => problem(err, load));
    }
  }

  function draw({ causes, total }) {
    const rank = new Map(order.map((c, i) => [c, i]));
    const list = order.length ? [...causes].sort((a, b) => (rank.get(a.cause) ?? -1) - (rank.get(b.cause) ?? -1)) : causes;
    order = list.map((c) => c.cause);
    const dead = causes.reduce((n, c) => n + c.dead, 0);
    text(note, causes.length ? `${plural(dead, 'item')} dead of ${plural(total, 'cause')}` : '');
    keyed(body, list, (c) => c.cause, row, (tr, c) => tr.set(c, noted.get(c.cause)));
    show(text(more, `The first ${count(causes.length)} of ${count(total)} causes: narrow them by type.`), total > causes.length);
    fill(table, none, list.length, () => (query.type
      ? empty('Nothing of this type is dead', 'What fails for good lands here, with its params, log and errors.')
      : empty('Nothing is dead', 'What fails for good lands here, grouped by cause, with its params, log and errors, ready to be corrected and replayed.')));
  }

  return {
    show(route) {
      query = { type: route.query.get('type') ?? '', sort: route.query.get('sort') ?? '', all: route.query.get('all') ?? '' };
      fillTypes(type, query.type);
      sort.value = query.sort || 'last';
      all.checked = query.all !== '';
      refresh();
    },
  };
}

function row(cause) {
  const [error, flags, dead, deaths] = [h('a', { class: 'row-link cause-error', href: href(['dead'], { cause: cause.cause, type: cause.type }) }), h('span'), h('td', { class: 'num c-dead', 'data-label': 'dead now' }), h('td', { class: 'num c-deaths', 'data-label': 'deaths' })];
  const [first, last] = [h('td', { class: 'nowrap', 'data-label': 'since' }, ago(cause.first)), h('td', { class: 'nowrap', 'data-label': 'last' }, ago(cause.last))];
  const tr = h('tr', { 'data-cause': cause.cause }, h('td', { class: 'c-main' }, error, h('div', { class: 'row-tags' }, h('span', { class: 'tag tag-bad' }, cause.code || 'no code'), ' ', h('span', { class: 'tag' }, cause.reason.replaceAll('_', ' ')), ' ', flags)), h('td', { class: 'c-type' }, cause.type), dead, deaths, first, last);
  tr.addEventListener('click', (ev) => { if (!ev.target.closest('a, button') && !getSelection().toString()) error.click(); });
  tr.set = (c, growth) => {
    text(error, c.cause.startsWith('other-') ? 'Various: too many kinds of error to tell apart' : firstLine(c.error ?? '') || 'no error text');
    text(dead, count(c.dead));
    attr(dead, 'class', `num c-dead${c.dead ? ' bad' : ' muted'}`);
    text(deaths, count(c.count));
    setAgo(first.firstChild, c.first);
    setAgo(last.firstChild, c.last);
    const grows = growth?.why === 'growing' && now() - growth.at < LATELY;
    const fresh = now() - Date.parse(c.first) < LATELY;
    const flag = grows ? `growing: ${plural(growth.window, 'death')} within 5 minutes` : fresh ? 'new' : '';
    if (flags.dataset.said !== flag) {
      flags.dataset.said = flag;
      put(flags, flag && h('span', { class: 'tag tag-warn' }, flag));
    }
  };
  return tr;
}
