// The inbox: the questions that wait for somebody's answer. One of them: approval.js.

import { attr, h, keyed, put, show, text } from '../dom.js';
import { get, isAbort } from '../api.js';
import { live } from '../live.js';
import { ago, plural } from '../format.js';
import { go, href } from '../router.js';
import { button, empty, field, problem } from '../ui.js';
import { keys, walk } from '../keys.js';
import { whenQuiet } from './dead.js';

const HEAD = ['Question', 'Asked', 'Answer by', 'Submitted by', 'Reminders'];
const PAGE = 50; // rows
const SOON = 500; // ms after an event
const LATER = 3000; // ms after events that the feed has left out
const AGAIN = 15_000; // ms between looks: not everybody who may answer may see events

export default {
  name: 'approvals', title: 'Approvals', within: 'work', path: ['approvals'], key: 'q', match: (path) => path[0] === 'approvals' && path.length === 1,
  mount(el, { route, signal }) {
    const at = { type: '', mine: '', cursor: '', ...Object.fromEntries(route.query) };
    const note = h('p', { class: 'hint', role: 'status' });
    const body = h('tbody');
    const table = h('table', { class: 'folds approvals' }, h('thead', null, h('tr', null, HEAD.map((c) => h('th', { scope: 'col' }, c)))), body);
    const none = h('div');
    const first = h('a', { class: 'button button-plain', href: href(['approvals'], { ...at, cursor: '' }) }, 'First');
    const more = h('a', { class: 'button button-plain' }, 'More');
    const pager = h('div', { class: 'pager' }, first, more);
    const filter = (change) => go(href(['approvals'], { ...at, cursor: '', ...change }), { replace: true });
    const mine = h('input', { type: 'checkbox', checked: at.mine === 'true', onchange: () => filter({ mine: mine.checked ? 'true' : '' }) });
    const type = h('input', { name: 'type', value: at.type, placeholder: 'any', autocomplete: 'off', spellcheck: 'false', maxlength: 63, onchange: () => filter({ type: type.value.trim() }) });
    let shown = new Set();
    const load = async () => {
      try {
        const page = await get('api/v1/approvals', { query: { ...at, limit: PAGE }, signal });
        const list = page.approvals ?? [];
        shown = new Set(list.map((a) => a.id));
        keyed(body, list, (a) => `${a.id} ${a.number}`, row, (tr, a) => tr.set(a));
        text(note, list.length ? plural(list.length, 'question') : '');
        show(table, list.length > 0);
        show(first, at.cursor !== '');
        show(attr(more, 'href', href(['approvals'], { ...at, cursor: page.next_cursor })), Boolean(page.next_cursor));
        show(pager, !first.hidden || !more.hidden);
        put(none, list.length ? null : nothing(at, page.next_cursor));
      } catch (err) {
        if (isAbort(err)) return;
        keyed(body, [], String);
        show(table, false);
        put(none, problem(err, load));
      }
    };
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Approvals'), note, h('div', { class: 'tools' }, button('Refresh', load, { key: 'r' }))),
      h('div', { class: 'filters' }, h('label', null, 'Type', type), h('label', { class: 'check' }, mine, 'that I may answer')),
      h('section', { class: 'panel', 'aria-label': 'Questions' }, h('div', { class: 'scroll-x' }, table), none, pager));
    keys('r', 'Refresh', load, { signal });
    walk(body, 'a.row-link', signal);
    watch(load, signal, (ev) => ev.kind === 'parked' || shown.has(ev.id));
    load();
  },
};

// watch calls load when an event may have changed what it shows, and now and then.
export function watch(load, signal, concerns) {
  const soon = whenQuiet(load, SOON, signal);
  const later = whenQuiet(load, LATER, signal);
  live.on('events', ({ events, skipped }) => {
    if (events.some(concerns)) soon();
    else if (skipped) later();
  }, signal);
  live.on('anew', load, signal);
  const timer = setInterval(() => { if (!document.hidden) load(); }, AGAIN);
  signal.addEventListener('abort', () => clearInterval(timer));
}

function nothing(at, next) {
  if (next) return empty('None yet', 'There are more to look through: press More.');
  if (at.type || at.mine) return empty('No questions match', 'Change the filters to see others.');
  return empty('Nothing waits for an answer', 'Items that ask for an approval are listed here until somebody answers.');
}

function row(first) {
  const cells = HEAD.map((name) => h('td', { class: name === 'Question' ? 'c-main' : 'nowrap', 'data-label': name === 'Question' ? null : name }));
  const tr = h('tr', { 'data-id': first.id }, cells);
  let was = '';
  tr.set = (a) => {
    if (was === JSON.stringify(a)) return;
    was = JSON.stringify(a);
    put(cells[0], h('a', { class: 'row-link', href: href(['approvals', a.id]) }, a.title), ' ', h('a', { class: 'tag', href: href(['approvals'], { type: a.type }) }, a.type), a.tenant && [' ', h('span', { class: 'tag', title: 'tenant' }, a.tenant)],
      a.may_answer === false && h('p', { class: 'hint' }, `Not for you: ${a.why_not}`));
    put(cells[1], ago(a.since));
    put(cells[2], ago(a.until));
    put(cells[3], a.submitted_by || '–');
    put(cells[4], a.reminded || '–');
  };
  return tr;
}
