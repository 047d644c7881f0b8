// Who did what: the acts that somebody asked for, oldest first, as the log has them.

import { attr, h, keyed, put, show, text } from '../dom.js';
import { get, isAbort } from '../api.js';
import { ago, now, plural, when } from '../format.js';
import { go, href } from '../router.js';
import { button, empty, field, problem, select } from '../ui.js';
import { keys } from '../keys.js';

const PAGE = 50; // rows
const HOUR = 3_600_000; // ms
const SPANS = [['1', 'the last hour'], ['24', 'the last day'], ['168', 'the last week'], ['all', 'all that the log has']];

export default {
  name: 'audit', within: 'events', title: 'Who did what', icon: 'work', path: ['audit'], key: 'a', match: (path) => path[0] === 'audit' && path.length === 1,
  mount(el, { route, signal }) {
    const at = { hours: '24', by: '', action: '', cursor: '', ...Object.fromEntries(route.query) };
    const note = h('p', { class: 'hint', role: 'status' });
    const body = h('tbody');
    const table = h('table', { class: 'folds' }, h('thead', null, h('tr', null, ['When', 'By', 'Action', 'Type', 'Item', 'Detail'].map((c) => h('th', { scope: 'col' }, c)))), body);
    const none = h('div');
    const later = h('a', { class: 'button button-plain', hidden: true }, 'Later');
    const first = h('a', { class: 'button button-plain', hidden: true, href: href(['audit'], { ...at, cursor: '' }) }, 'First');
    const filter = (name, input) => {
      input.addEventListener('change', () => go(href(['audit'], { ...at, cursor: '', [name]: input.value.trim() }), { replace: true }), { signal });
      return input;
    };
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Who did what'), note, h('div', { class: 'tools' }, button('Refresh', () => load(), { key: 'r' }))),
      h('section', { class: 'panel', 'aria-label': 'Filters' }, field('Since', filter('hours', select(SPANS, at.hours))), field('By', filter('by', h('input', { value: at.by, placeholder: 'a name' }))), field('Action', filter('action', h('input', { value: at.action, placeholder: 'cancelled, paused …' })))),
      h('section', { class: 'panel', 'aria-label': 'Acts' }, h('div', { class: 'scroll-x' }, table), none, h('div', { class: 'pager' }, first, later)));
    const load = async () => {
      try {
        const since = at.hours !== 'all' ? new Date(now() - at.hours * HOUR).toISOString() : '';
        const page = await get('api/v1/audit', { query: { since: at.cursor ? '' : since, by: at.by, action: at.action, cursor: at.cursor, limit: PAGE }, signal });
        keyed(body, page.acts, (a) => String(a.seq), row, () => {});
        text(note, [plural(page.acts.length, 'act'), page.from && `the log begins at ${when(new Date(page.from))}`].filter(Boolean).join('; '));
        show(table, page.acts.length > 0);
        show(first, at.cursor !== '');
        show(later, Boolean(page.next_cursor));
        attr(later, 'href', href(['audit'], { ...at, cursor: page.next_cursor }));
        put(none, page.acts.length ? null : page.next_cursor ? empty('Nothing yet', 'There is more of the log to look through: press Later.') : empty('Nothing was done', 'Cancels, replays, pauses, settings and the like are listed here with who asked for them.', ['engine audit --since 24h']));
      } catch (err) {
        if (isAbort(err)) return;
        keyed(body, [], String);
        show(table, false);
        put(none, problem(err, load));
      }
    };
    keys('r', 'Refresh', load, { signal });
    load();
  },
};

function row(a) {
  const { reason = '', name = '' } = a.data ?? {};
  return h('tr', null, h('td', null, ago(a.at)), h('td', null, a.by), h('td', null, a.kind), h('td', null, a.type && h('a', { class: 'tag', href: href(['types', a.type]) }, a.type)),
    h('td', null, a.id && h('a', { class: 'mono', href: href(['work', a.id]), title: a.id }, a.id)), h('td', null, [name, reason].filter(Boolean).join(' ')));
}
