// Dead letters: what items have died of, the items of a cause, and submissions
// that became no item. The address says which:
//
//   #/dead                        causes
//   #/dead?cause=K                items of a cause; also items=1 with filters
//   #/dead?show=rejected[&seq=N]  rejected submissions, or one

import { attr, frame, h, put, show, text } from '../dom.js';
import { live } from '../live.js';
import { count } from '../format.js';
import { href } from '../router.js';
import { causesView } from './deadcauses.js';
import { itemsView } from './deaditems.js';
import { rejectedView } from './rejected.js';

const kindOf = (q) => (q.get('show') === 'rejected' ? (q.get('seq') ? 'one' : 'rejected') : q.get('cause') || q.get('items') ? 'items' : 'causes');

export default {
  name: 'dead', title: 'Dead', icon: 'dead', path: ['dead'], key: 'd', match: (path) => path[0] === 'dead' && path.length === 1,
  mount(el, ctx) {
    const tabs = tabsOf();
    const tools = h('div', { class: 'tools' });
    const note = h('p', { class: 'hint', role: 'status', 'aria-live': 'polite' });
    const place = h('div', { class: 'screen' });
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Dead letters'), note, tools), tabs.el, place);
    let kind = '';
    let view = null;
    let leave = null;
    ctx.signal.addEventListener('abort', () => leave?.abort());
    live.on('stats', () => frame(tabs.counts), ctx.signal);
    const look = (route) => {
      const next = kindOf(route.query);
      ctx.title(next === 'rejected' || next === 'one' ? 'Rejected submissions' : 'Dead letters');
      tabs.set(next);
      if (next !== kind || next === 'one') {
        leave?.abort();
        leave = new AbortController();
        put(place);
        put(tools);
        text(note, '');
        const make = { causes: causesView, items: itemsView, rejected: rejectedView.list, one: rejectedView.one }[next];
        view = make({ place, tools, note, signal: leave.signal });
        kind = next;
      }
      view.show(route);
    };
    look(ctx.route);
    return look;
  },
};

// tabsOf are the links between the parts, with their figures.
function tabsOf() {
  const tab = (query, name) => h('a', { class: 'chip', href: href(['dead'], query) }, name, h('span', { class: 'chip-count' }));
  const all = { causes: tab({}, 'By cause'), items: tab({ items: 1 }, 'Items'), rejected: tab({ show: 'rejected' }, 'Rejected submissions') };
  const el = h('div', { class: 'chips tabs', role: 'navigation', 'aria-label': 'Dead letter views' }, Object.values(all));
  const counts = () => {
    if (!live.stats) return;
    const dead = (live.stats.types ?? []).reduce((n, t) => n + (t.states?.dead ?? 0), 0);
    text(all.items.lastChild, count(dead));
    text(all.rejected.lastChild, count(live.stats.rejected));
  };
  counts();
  return { el, counts, set: (kind) => { for (const [k, a] of Object.entries(all)) attr(a, 'aria-current', k === kind || (kind === 'one' && k === 'rejected') ? 'page' : null); } };
}

// typesNow are the names of the types, with one that is asked for.
export function typesNow(asked) {
  return [...new Set([...(live.stats?.types ?? []).map((t) => t.type), asked].filter(Boolean))].sort();
}

// fillTypes makes the options of a list of types.
export function fillTypes(select, asked, any = 'any') {
  const names = typesNow(asked);
  const said = [any, ...names].join();
  if (select.dataset.said !== said) {
    select.dataset.said = said;
    put(select, h('option', { value: '' }, any), names.map((t) => h('option', { value: t }, t)));
  }
  select.value = asked ?? '';
}

// whenQuiet runs f after something has happened, at most once in so many
// milliseconds, and never while it still runs.
export function whenQuiet(f, ms, signal) {
  let timer = 0;
  let running = false;
  let again = false;
  const run = async () => {
    timer = 0;
    if (running) { again = true; return; }
    running = true;
    try { await f(); } finally { running = false; }
    if (again && !signal.aborted) { again = false; timer = setTimeout(run, ms); }
  };
  signal.addEventListener('abort', () => clearTimeout(timer));
  return () => { if (!timer && !signal.aborted) timer = setTimeout(run, ms); };
}

// fill hides a table of which nothing is to be shown, and puts words in its place.
export function fill(table, none, rows, words) {
  show(table, rows > 0);
  put(none, rows > 0 ? null : words());
}
