// Types: a table of all, live.

import { attr, frame, h, keyed, put, show, text } from '../dom.js';
import { live } from '../live.js';
import { count, plural, rate, span } from '../format.js';
import { go, href } from '../router.js';
import { bar, button, empty } from '../ui.js';
import { keys, walk } from '../keys.js';
import { BATCH } from '../states.js';
import { pauseDialog, resume } from './typeactions.js';

const MAX_ROWS = 200;
const HEAD = ['Type', 'Queued', 'Oldest', 'In flight', 'In/s', 'Done/s', 'Failed/s', 'Mean run', 'Dead', 'Workers', 'Actions'];
const NUMS = new Set(['Queued', 'Oldest', 'In/s', 'Done/s', 'Failed/s', 'Mean run', 'Dead', 'Workers']);

export default {
  name: 'types', title: 'Types', icon: 'types', path: ['types'], key: 'y', match: (path) => path[0] === 'types' && path.length === 1,
  mount(el, { route, signal }) {
    let q = '';
    const find = h('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', maxlength: 63, oninput: () => go(href(['types'], { q: find.value.trim() }), { replace: true }) });
    const note = h('p', { class: 'hint', role: 'status' });
    const body = h('tbody');
    const table = h('table', { class: 'folds types all-types' }, h('thead', null, h('tr', null, HEAD.map((c) => h('th', { scope: 'col', class: NUMS.has(c) ? 'num' : null }, c === 'Actions' ? h('span', { class: 'sr' }, c) : c)))), body);
    const none = h('div');
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Types'), note), h('form', { class: 'filters', 'aria-label': 'Filters', onsubmit: (ev) => { ev.preventDefault(); find.blur(); } }, h('label', null, 'Find a type', find), h('input', { type: 'submit', class: 'sr', value: 'Apply', tabindex: -1 })),
      h('section', { class: 'panel live-part', 'aria-label': 'Types' }, h('div', { class: 'scroll-x' }, table), none));
    const draw = () => {
      if (signal.aborted || !live.stats) return;
      const all = live.stats.types ?? [];
      const list = all.filter((t) => t.type.includes(q)).sort((a, b) => a.type.localeCompare(b.type));
      keyed(body, list.slice(0, MAX_ROWS), (t) => t.type, row, (tr, t) => tr.set(t));
      text(note, list.length > MAX_ROWS ? `The first ${count(MAX_ROWS)} of ${plural(list.length, 'type')}: search to find one` : list.length ? plural(list.length, 'type') : '');
      show(table, list.length > 0);
      const kind = list.length ? 'some' : all.length ? 'filtered' : 'none';
      if (none.dataset.kind === kind) return;
      none.dataset.kind = kind;
      put(none, kind === 'filtered' ? empty('No type has this name') : kind === 'none' ? empty('No types yet', 'A type appears with its first item, worker or setting.', ['engine submit hello \'{"name":"Ada"}\'']) : null);
    };
    const look = (r) => {
      q = r.query.get('q') ?? '';
      if (document.activeElement !== find) find.value = q;
      draw();
    };
    live.on('stats', () => frame(draw), signal);
    keys('f', 'Find a type', () => find.focus(), { signal });
    walk(body, 'a.row-link', signal);
    look(route);
    return look;
  },
};

function row(first) {
  const type = first.type;
  const cells = Object.fromEntries(['queued', 'oldest', 'running', 'in', 'done', 'failed', 'mean', 'dead', 'workers'].map((k) => [k, h('span')]));
  const [flags, actions] = [h('span'), h('td', { class: 'row-actions' })];
  const cap = bar(`capacity of ${type}`);
  const work = (state, inside) => h('a', { href: href(['work'], { type, state }) }, inside);
  const num = (label, inside) => h('td', { class: 'num', 'data-label': label }, inside);
  const tr = h('tr', { 'data-type': type }, h('th', { scope: 'row', class: 'c-main' }, h('a', { class: 'row-link', href: href(['types', type]) }, type), ' ', flags), num('queued', work('queued', cells.queued)), num('oldest', cells.oldest),
    h('td', { class: 'nowrap', 'data-label': 'running' }, cap, ' ', work('running', cells.running)), num('in/s', cells.in), num('done/s', cells.done), num('failed/s', cells.failed), num('mean run', cells.mean), num('dead', h('a', { href: href(['dead'], { type }) }, cells.dead)), num('workers', cells.workers), actions);
  tr.set = (t) => {
    const said = flagsOf(t);
    if (flags.dataset.said !== said.join()) { // not set at first: the buttons are put in then
      flags.dataset.said = said.join();
      put(flags, said.map((f) => [h('span', { class: `tag ${f.startsWith('circuit') ? 'tag-bad' : 'tag-warn'}` }, f), ' ']));
      put(actions, t.paused ? button('Resume', () => resume(type), { name: `Resume ${type}` }) : type !== BATCH && button('Pause', () => pauseDialog(type), { name: `Pause ${type}` }));
    }
    text(cells.queued, count(t.states?.queued));
    text(cells.oldest, t.oldest_queued_ms ? span(t.oldest_queued_ms) : '–');
    text(cells.running, `${count(t.in_flight)} / ${count(t.capacity)}`);
    cap.set(t.in_flight ?? 0, t.capacity);
    text(cells.in, rate(t.per_second?.submitted));
    text(cells.done, rate(t.per_second?.completed));
    attr(text(cells.failed, rate(t.per_second?.failed)), 'class', t.per_second?.failed ? 'warn' : null);
    text(cells.mean, t.mean_run_ms ? span(t.mean_run_ms) : '–');
    attr(text(cells.dead, count(t.states?.dead)), 'class', t.states?.dead ? 'bad' : 'muted');
    attr(text(cells.workers, t.desired_workers > t.workers ? `${t.workers} of ${t.desired_workers}` : t.workers), 'class', t.workers === 0 && t.states?.queued ? 'bad' : null);
  };
  return tr;
}

// flagsOf are the states of a type in words.
export const flagsOf = (t) => [t.paused && 'paused', t.circuit && `circuit ${t.circuit.state.replace('_', ' ')}`, t.starving > 0 && 'starving'].filter(Boolean);
