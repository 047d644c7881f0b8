// Schedules: what makes items by the clock. One of them: schedule.js.

import { frame, h, keyed, put, text } from '../dom.js';
import { get, isAbort } from '../api.js';
import { live } from '../live.js';
import { ago, count, now, plural } from '../format.js';
import { href } from '../router.js';
import { button, empty, problem } from '../ui.js';
import { keys, walk } from '../keys.js';
import { badge } from '../states.js';
import { fill, whenQuiet } from './dead.js';
import { actionsOf, IN_FILE, whenOf } from './scheduleactions.js';
import { scheduleForm } from './scheduleform.js';

const MAX_ROWS = 300; // the engine has at most 1,000
const AGAIN = 5000; // ms between looks while ticks pass

export default {
  name: 'schedules', title: 'Schedules', icon: 'schedules', path: ['schedules'], key: 's', match: (path) => path[0] === 'schedules' && path.length === 1,
  mount(el, { signal }) {
    const note = h('p', { class: 'hint', role: 'status' });
    const body = h('tbody');
    const table = h('table', { class: 'folds schedules' }, h('thead', null, h('tr', null, ['Schedule', 'When', 'Next', 'Last', 'Actions'].map((c) => h('th', { scope: 'col' }, c === 'Actions' ? h('span', { class: 'sr' }, c) : c)))), body);
    const none = h('div');
    let next = Infinity;
    const load = async () => {
      try {
        const { schedules } = await get('api/v1/schedules', { signal });
        next = Math.min(...schedules.filter((s) => s.next && !s.paused).map((s) => Date.parse(s.next)), Infinity);
        text(note, schedules.length > MAX_ROWS ? `The first ${count(MAX_ROWS)} of ${count(schedules.length)}` : schedules.length ? plural(schedules.length, 'schedule') : '');
        keyed(body, schedules.slice(0, MAX_ROWS), (s) => s.name, (s) => row(s, load), (tr, s) => tr.set(s));
        fill(table, none, schedules.length, () => empty('No schedules', 'A schedule makes an item at each of its ticks. Press New schedule, or set one from a terminal or in engine.toml:', ['engine schedules set nightly --type report --cron "0 3 * * *" --zone Europe/Berlin']));
      } catch (err) {
        if (isAbort(err)) return;
        keyed(body, [], String);
        fill(table, none, 0, () => problem(err, load));
      }
    };
    const create = () => scheduleForm({ done: () => { if (!signal.aborted) load(); } });
    const soon = whenQuiet(load, AGAIN, signal);
    live.on('stats', () => frame(() => { if (now() > next) soon(); }), signal);
    live.on('anew', load, signal);
    keys('r', 'Refresh', load, { signal });
    keys('n', 'New schedule', create, { signal });
    walk(body, 'a.row-link', signal);
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Schedules'), note, h('div', { class: 'tools' }, button('New schedule', create, { kind: 'primary', key: 'n' }), button('Refresh', load, { key: 'r' }))), h('section', { class: 'panel', 'aria-label': 'Schedules' }, h('div', { class: 'scroll-x' }, table), none));
    load();
  },
};

function row(first, load) {
  const cells = Object.fromEntries(['name', 'when', 'next', 'last', 'actions'].map((k) => [k, h('td', { class: `s-${k}` })]));
  const tr = h('tr', { 'data-name': first.name }, Object.values(cells));
  let said = '';
  tr.set = (s) => {
    if (said === JSON.stringify(s)) return;
    said = JSON.stringify(s);
    put(cells.name, h('a', { class: 'row-link', href: href(['schedules', s.name]) }, s.name), ' ', h('a', { class: 'tag', href: href(['types', s.type]) }, s.type), ' ', h('span', { class: 'tag', title: s.source === 'file' ? IN_FILE : 'set through the API' }, s.source), s.paused && [' ', h('span', { class: 'tag tag-warn' }, 'paused')]);
    put(cells.when, whenOf(s));
    put(cells.next, s.paused ? h('span', { class: 'muted' }, 'paused') : s.next ? ago(s.next) : h('span', { class: 'muted' }, 'never again'));
    put(cells.last, s.last_tick ? ago(s.last_tick) : h('span', { class: 'muted' }, 'none yet'), ' ', s.last_item && h('a', { class: 'mono', href: href(['work', s.last_item]), title: s.last_item }, s.last_item), ' ', s.last_state && badge(s.last_state),
      s.last_error && h('div', { class: 'bad' }, `${s.last_error.code}: ${s.last_error.message}`));
    put(cells.actions, h('div', { class: 'row-actions' }, actionsOf(s, { done: load })));
  };
  return tr;
}
