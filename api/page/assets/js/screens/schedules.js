// Schedules: what makes items by the clock; pause, resume, fire, remove.

import { frame, h, keyed, put, text } from '../dom.js';
import { get, isAbort, send } from '../api.js';
import { live } from '../live.js';
import { ago, count, now, plural, shortID, span } from '../format.js';
import { href } from '../router.js';
import { button, confirm, empty, failed, json, dialog, problem, toast } from '../ui.js';
import { keys, walk } from '../keys.js';
import { badge } from '../states.js';
import { fill, whenQuiet } from './dead.js';

const MAX_ROWS = 300; // the engine has at most 1,000
const AGAIN = 5000; // ms between looks while ticks pass
const inFile = 'engine.toml sets this schedule: change it there and restart the engine';

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
        fill(table, none, schedules.length, () => empty('There is no schedule', 'A schedule makes an item at each of its ticks. Set one from a terminal, or in engine.toml:', ['engine schedule set nightly --type report --cron "0 3 * * *" --zone Europe/Berlin']));
      } catch (err) {
        if (isAbort(err)) return;
        keyed(body, [], String);
        fill(table, none, 0, () => problem(err, load));
      }
    };
    const soon = whenQuiet(load, AGAIN, signal);
    live.on('stats', () => frame(() => { if (now() > next) soon(); }), signal);
    live.on('back', load, signal);
    keys('r', 'Refresh', load, { signal });
    walk(body, 'button.row-link', signal);
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Schedules'), note, h('div', { class: 'tools' }, button('Refresh', load, { key: 'r' }))), h('section', { class: 'panel', 'aria-label': 'Schedules' }, h('div', { class: 'scroll-x' }, table), none));
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
    put(cells.name, h('button', { type: 'button', class: 'link row-link', onclick: () => details(s) }, s.name), ' ', h('a', { class: 'tag', href: href(['types', s.type]) }, s.type), ' ', h('span', { class: 'tag', title: s.source === 'file' ? inFile : 'set by a request' }, s.source), s.paused && [' ', h('span', { class: 'tag tag-warn' }, 'paused')]);
    put(cells.when, h('span', { class: 'mono' }, s.cron || `every ${span(s.every_ms)}`), s.cron && h('span', { class: 'hint' }, ` ${s.zone || 'UTC'}`));
    put(cells.next, s.paused ? h('span', { class: 'muted' }, 'paused') : s.next ? ago(s.next) : h('span', { class: 'muted' }, 'never again'));
    put(cells.last, s.last_tick ? ago(s.last_tick) : h('span', { class: 'muted' }, 'none yet'), ' ', s.last_item && h('a', { class: 'mono', href: href(['work', s.last_item]), title: s.last_item }, shortID(s.last_item)), ' ', s.last_state && badge(s.last_state),
      s.last_error && h('div', { class: 'bad' }, `${s.last_error.code}: ${s.last_error.message}`));
    put(cells.actions, h('div', { class: 'row-actions' }, actionsOf(s, load)));
  };
  return tr;
}

function actionsOf(s, load) {
  const path = `api/v1/schedules/${encodeURIComponent(s.name)}`;
  const change = async (verb, done) => {
    try {
      await send('POST', `${path}/${verb}`);
      toast(done);
    } catch (err) {
      failed(err);
    }
    load();
  };
  const fire = () => confirm(`Fire ${s.name} now?`, `It makes one item of type ${s.type}, beside its ticks.`, 'Fire it', async () => {
    const r = await send('POST', `${path}/fire`, {});
    toast(`${s.name} has made an item.`, { link: { href: href(['work', r.id]), text: 'See it' } });
    load();
  }, 'primary');
  const remove = () => confirm(`Remove ${s.name}?`, 'No tick of it will come. The items that it has made stay.', 'Remove it', async () => {
    await send('DELETE', path);
    toast(`${s.name} is removed.`);
    load();
  });
  const file = s.source === 'file';
  return [button('Fire now', fire, { name: `Fire ${s.name} now` }),
    button(s.paused ? 'Resume' : 'Pause', () => change(s.paused ? 'resume' : 'pause', s.paused ? `${s.name} ticks again.` : `${s.name} is paused.`), { name: `${s.paused ? 'Resume' : 'Pause'} ${s.name}`, disabled: file, title: file ? inFile : undefined }),
    button('Remove', remove, { kind: 'danger', name: `Remove ${s.name}`, disabled: file, title: file ? inFile : undefined })];
}

// details shows all that a schedule says.
const details = (s) => dialog({ title: `Schedule ${s.name}`, cancel: 'Close', wide: true, body: [s.source === 'file' && h('p', { class: 'muted' }, inFile, '.'), json(s, { label: `schedule ${s.name}` })] });
