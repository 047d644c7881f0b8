// One schedule: when it ticks, what it makes, and the items that it has made.

import { frame, h, keyed, put } from '../dom.js';
import { get, getText, isAbort } from '../api.js';
import { live } from '../live.js';
import { ago, now, span } from '../format.js';
import { go, href, reload } from '../router.js';
import { copyButton, empty, facts, panel, problem } from '../ui.js';
import { keys, walk } from '../keys.js';
import { PAGE, pager } from '../pager.js';
import { badge } from '../states.js';
import { indent, memberOf } from '../jsontext.js';
import { actionsOf, IN_FILE, schedulePath, whenOf } from './scheduleactions.js';
import { tickText } from './scheduleform.js';
import { fill, whenQuiet } from './dead.js';
import { row } from './workrow.js';

const AGAIN = 3000; // ms between looks while ticks pass and runs change
const MAX_DOC = 1 << 20; // bytes
const MAX_STEPS = 8; // requests for one page: a page of the engine may be short
const MISSED = { one: 'one item for all', skip: 'no item', all: 'one item for each' };
const OVERLAP = { distinct: 'both run', merge: 'the new item is merged into it', defer: 'the new item waits for it', supersede: 'the new item replaces it' };

export default {
  name: 'schedule', title: 'Schedule', within: 'schedules', match: (path) => path[0] === 'schedules' && path.length === 2,
  mount(el, { route, signal, title }) {
    const name = route.path[1];
    title(`Schedule ${name}`);
    const about = aboutSchedule(name, signal);
    const runs = runsOf(name, signal);
    const load = () => { about.load(); runs.load(); };
    const soon = whenQuiet(load, AGAIN, signal);
    el.append(about.head, h('div', { class: 'item-parts' }, about.el, runs.el));
    about.changed = load;
    live.on('stats', () => frame(() => { if (now() > about.next) soon(); }), signal);
    live.on('events', ({ events, skipped }) => { if (runs.first && (skipped || events.some((ev) => ev.type === about.type))) soon(); }, signal);
    live.on('anew', load, signal);
    keys('r', 'Refresh', load, { signal });
    keys('u', 'Back to the list', () => go(href(['schedules'])), { signal });
    for (const [key, does] of [['f', 'Fire now'], ['e', 'Edit'], ['p', 'Pause or resume']]) keys(key, does, () => about.head.querySelector(`[data-key=${key}]:enabled`)?.click(), { signal });
    about.load();
    runs.show(route);
    return (next) => {
      if (next.path[1] === name) runs.show(next);
      else reload();
    };
  },
};

// aboutSchedule is the head of the page, and the panel of what the schedule says.
function aboutSchedule(name, signal) {
  const [flags, tools, place, notice] = [h('span'), h('div', { class: 'tools' }), h('div'), h('div', { class: 'notices' })];
  const self = { head: h('div', { class: 'screen-head' }, h('h1', null, name), flags, tools), el: [notice, place], next: Infinity, type: '', load, changed: () => {} };
  let said = '';
  async function load() {
    try {
      const doc = await getText(schedulePath(name), { most: MAX_DOC, signal });
      const s = JSON.parse(doc);
      self.next = s.next && !s.paused ? Date.parse(s.next) : Infinity;
      self.type = s.type;
      if (doc === said) return;
      said = doc;
      put(flags, s.paused && h('span', { class: 'tag tag-warn' }, 'paused'), ' ', h('span', { class: 'tag', title: s.source === 'file' ? IN_FILE : 'set through the API' }, s.source === 'file' ? 'engine.toml' : s.source));
      put(tools, actionsOf(s, { keyed: true, done: () => self.changed(), gone: () => go(href(['schedules'])) }));
      put(notice, s.source === 'file' && h('div', { class: 'notice' }, h('strong', null, 'Set in engine.toml'), ': change it there, then restart the engine. It can still be fired from here.'),
        s.last_error && h('div', { class: 'notice notice-bad' }, h('strong', null, 'The item of its last tick was refused'), `: ${s.last_error.message} (${s.last_error.code})`));
      put(place, panel('Activity', { name: 'schedule' }, h('div', { class: 'panel-body schedule-body' }, h('div', null, factsOf(s)), h('div', null, h('h3', null, 'Params of its items'), paramsOf(memberOf(doc, 'params'))))));
      ticks(s);
    } catch (err) {
      if (isAbort(err)) return;
      said = '';
      put(tools);
      put(flags);
      put(notice);
      put(place, err.status === 404 ? h('div', { class: 'panel' }, empty('No such schedule', `It may have been removed. The items it made are listed below. ${err.message}.`)) : problem(err, load));
    }
  }
  // ticks adds the next ones, as the engine says them.
  async function ticks(s) {
    const at = place.querySelector('.ticks-next');
    if (!s.next) return;
    try {
      const query = s.cron ? { cron: s.cron, zone: s.zone } : { every_ms: s.every_ms, anchor: s.anchor };
      const r = await get('api/v1/ticks', { query, plain: true, signal });
      put(at, r.ticks.map((t) => h('li', { class: 'mono' }, tickText(t))));
    } catch (err) {
      if (!isAbort(err)) put(at, h('li', null, err.message));
    }
  }
  return self;
}

function factsOf(s) {
  const labels = Object.entries(s.labels ?? {}).map(([k, v]) => [h('span', { class: 'tag' }, `${k}=${v}`), ' ']);
  return facts([
    ['Type', h('a', { href: href(['types', s.type]) }, s.type)], ['Ticks', whenOf(s)], ['Next', s.paused ? 'paused' : s.next ? ago(s.next) : 'never again'],
    ['Last', s.last_tick ? ago(s.last_tick) : 'none yet'],
    ['Last item', s.last_item && [h('a', { class: 'mono', href: href(['work', s.last_item]), title: s.last_item }, s.last_item), ' ', s.last_state && badge(s.last_state)]],
    ['Missed ticks', MISSED[s.missed ?? 'one']], ['Overlap', OVERLAP[s.overlap ?? 'distinct']],
    ['Priority', s.priority === undefined ? '5, the default' : String(s.priority)], ['Maximum attempts', s.max_attempts ? String(s.max_attempts) : 'the type’s setting'], ['Timeout', s.timeout_ms ? span(s.timeout_ms) : 'the type’s setting'],
    ['Tenant', s.tenant], ['Labels', labels.length > 0 && labels], ['Anchor', s.every_ms && s.anchor && h('span', { class: 'mono' }, s.anchor)],
    [s.paused ? 'Next ticks once resumed' : 'Next ticks', s.next && h('ol', { class: 'ticks ticks-next' })],
  ]);
}

function paramsOf(doc) {
  if (doc === undefined) return h('p', { class: 'muted' }, 'None.');
  const shown = indent(doc);
  return h('div', { class: 'json-box' }, copyButton(() => shown, 'Copy the params'), h('pre', { class: 'json', tabindex: 0, 'aria-label': 'Params of its items' }, shown));
}

// runsOf lists the items that a schedule has made, in pages.
function runsOf(name, signal) {
  const body = h('tbody');
  const table = h('table', { class: 'work-table' }, h('thead', null, h('tr', null, ['State', 'Type', 'Item', 'Details', 'Priority', 'Attempt', 'Changed'].map((c) => h('th', { scope: 'col', class: c === 'Priority' || c === 'Attempt' ? 'num' : null }, c)))), body);
  const none = h('div');
  const pages = pager({ address: (cursor) => href(['schedules', name], { cursor }), signal, what: 'run', note: 'latest change first' });
  const el = panel('Runs', { name: 'runs', tools: h('a', { href: href(['work'], { schedule: name }) }, 'Filter them in the list of work') }, h('div', { class: 'scroll-x' }, table), none, pages.el);
  walk(body, 'a.row-link', signal);
  let asked = null;
  const self = {
    el, first: true, load,
    show(route) {
      pages.set(route);
      self.first = pages.cursor === '';
      load();
    },
  };
  async function load() {
    asked?.abort();
    const mine = asked = new AbortController();
    signal.addEventListener('abort', () => mine.abort(), { once: true });
    try {
      const found = { items: [], next: pages.cursor };
      for (let n = 0; n < MAX_STEPS; n++) {
        const page = await get('api/v1/work', { query: { schedule: name, limit: PAGE - found.items.length, cursor: found.next }, signal: mine.signal });
        found.items.push(...page.items ?? []);
        found.next = page.next_cursor ?? '';
        if (!found.next || found.items.length >= PAGE) break;
      }
      keyed(body, found.items, (it) => it.id, row, (tr, it) => tr.set(it));
      fill(table, none, found.items.length, () => empty('It has made no items yet', 'Each of its ticks makes one. Fire it now to see one.'));
      pages.draw(found.items.length, found.next);
    } catch (err) {
      if (isAbort(err)) return;
      keyed(body, [], String);
      fill(table, none, 0, () => problem(err, load));
    }
  }
  return self;
}
