// The list of items: filters in the address, pages by cursor to any depth. Rows
// do not move while they are read: what has changed meanwhile is told, and shown
// on request.

import { attr, frame, h, keyed, put, show, text } from '../dom.js';
import { get, isAbort } from '../api.js';
import { live } from '../live.js';
import { ago, count, failureText, now, plural, setAgo } from '../format.js';
import { go, href } from '../router.js';
import { button, command, empty, problem, select } from '../ui.js';
import { keys, walk } from '../keys.js';
import { newItem } from './newitem.js';
import { badge, BATCH, mark, shownState, STATES, stateName } from '../states.js';

const PAGE = 50; // rows
const MAX_STEPS = 8; // requests for one page: a page of the engine reads a bounded number of entries, and may be short
const MAX_STACK = 1000; // pages that "newer" goes back
const FILTERS = ['q', 'state', 'type', 'label', 'tenant', 'worker', 'schedule', 'batch', 'error', 'code', 'reason', 'created_after', 'created_before'];
const names = { q: 'search', worker: 'on worker', schedule: 'from schedule', batch: 'in batch', error: 'error contains', created_after: 'created after', created_before: 'created before' };
const CHANGES = new Set(['created', 'queued', 'claimed', 'running', 'completed', 'failed', 'dead', 'cancelled', 'merged', 'waiting', 'released', 'snoozed', 'replayed', 'rescheduled', 'purged']);

export default {
  name: 'work', title: 'Work', icon: 'work', path: ['work'], key: 'w', match: (path) => path[0] === 'work' && path.length === 1,
  mount(el, { route, signal, title }) {
    const list = new WorkList(el, signal, title);
    list.show(route);
    return (next) => list.show(next);
  },
};

class WorkList {
  constructor(el, signal, title) {
    Object.assign(this, { signal, title, changed: 0, asked: null, next: '', stack: [] });
    this.filters = filters((name, value) => this.filter(name, value));
    this.hint = h('p', { class: 'hint', role: 'status', 'aria-live': 'polite' });
    this.refresh = button('Refresh', () => this.reload(), { key: 'r' });
    this.body = h('tbody');
    this.table = h('table', { class: 'work-table' }, h('thead', null, h('tr', null, ['State', 'Type', 'Item', 'Details', 'Priority', 'Attempt', 'Changed'].map((c) => h('th', { scope: 'col', class: c === 'Priority' || c === 'Attempt' ? 'num' : null }, c)))), this.body);
    this.none = h('div');
    this.first = button('Newest', () => this.page('', [], 1), { key: '0' });
    this.newer = button('Newer', () => this.back(), { key: '[' });
    this.older = button('Older', () => this.forward(), { key: ']' });
    this.where = h('span', { class: 'muted', role: 'status' });
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Work'), this.hint, h('div', { class: 'tools' }, button('New item', () => this.submit(), { kind: 'primary', key: 'n' }), this.refresh)), this.filters.el,
      h('section', { class: 'panel', 'aria-label': 'Items' }, h('div', { class: 'scroll-x' }, this.table), this.none,
        h('div', { class: 'pager' }, this.first, this.newer, this.older, this.where)));
    live.on('events', (ev) => this.note(ev), signal);
    live.on('stats', () => frame(() => this.filters.counts()), signal);
    live.on('back', () => this.reload(), signal);
    keys('r', 'Refresh', () => this.reload(), { signal });
    keys('n', 'New item', () => this.submit(), { signal });
    keys('f', 'Go to the filters', () => this.filters.focus(), { signal });
    keys(']', 'Older items', () => this.forward(), { signal });
    keys('[', 'Newer items', () => this.back(), { signal });
    keys('0', 'The newest items', () => this.page('', [], 1), { signal });
    keys('x', 'Clear the filters', () => go(href(['work'])), { signal });
    walk(this.body, 'a.row-link', signal);
  }

  // show takes the filters and the page from the address.
  show(route) {
    this.query = Object.fromEntries(FILTERS.map((f) => [f, route.query.get(f) ?? '']));
    this.cursor = route.query.get('cursor') ?? '';
    this.next = ''; // until the page is there: what follows the page before it is no more to be gone to
    this.stack = route.state?.stack ?? [];
    this.number = route.state?.number ?? (this.cursor ? 0 : 1);
    this.filters.set(this.query);
    this.title(this.query.state ? `Work: ${stateName(this.query.state)}` : 'Work');
    this.load();
  }

  address(cursor) { return href(['work'], { ...this.query, cursor }); }
  filter(name, value) {
    if (this.query[name] !== value) go(href(['work'], { ...this.query, [name]: value }));
  }
  page(cursor, stack, number) { go(this.address(cursor), { state: { stack, number } }); }
  forward() {
    if (this.next) this.page(this.next, [...this.stack, this.cursor].slice(-MAX_STACK), this.number ? this.number + 1 : 0);
  }
  back() {
    if (this.stack.length) this.page(this.stack.at(-1), this.stack.slice(0, -1), this.number ? this.number - 1 : 0);
  }
  reload() { this.load(); }
  submit() { newItem({ type: this.query.type === BATCH ? '' : this.query.type, done: () => { if (!this.signal.aborted) this.reload(); } }); }

  // note counts what has changed since the page was read.
  note({ events, skipped }) {
    const of = (ev) => (!this.query.type || ev.type === this.query.type) && CHANGES.has(ev.kind);
    this.changed += events.filter(of).length + (skipped ?? 0);
    frame(() => this.tell());
  }
  tell() {
    text(this.hint, this.changed ? `${plural(this.changed, 'event')} since – refresh to see` : '');
    attr(this.refresh, 'class', `button button-${this.changed ? 'primary' : 'plain'}`);
  }

  async load() {
    this.asked?.abort();
    const asked = this.asked = new AbortController();
    const stop = () => asked.abort();
    this.signal.addEventListener('abort', stop, { once: true });
    const late = setTimeout(() => attr(this.table, 'aria-busy', 'true'), 300);
    const before = this.changed; // what changes while the page is read may not be on it
    try {
      const found = await this.read(asked.signal);
      this.changed -= before;
      this.draw(found);
    } catch (err) {
      if (isAbort(err)) return;
      keyed(this.body, [], String);
      put(this.none, problem(err, () => this.load()));
      show(this.table, false);
    } finally {
      clearTimeout(late);
      if (this.asked === asked) attr(this.table, 'aria-busy', null);
      this.signal.removeEventListener('abort', stop);
    }
  }

  // read fills a page: what the engine gives may be short of it, since it looks at
  // a bounded number of entries at a time.
  async read(signal) {
    const found = { items: [], next: this.cursor, steps: 0 };
    do {
      const q = { ...this.query, limit: PAGE - found.items.length, cursor: found.next };
      for (const f of ['created_after', 'created_before']) if (q[f]) q[f] = new Date(q[f]).toISOString();
      const page = await get('api/v1/work', { query: q, signal });
      found.items.push(...page.items ?? []);
      found.next = page.next_cursor ?? '';
      found.steps++;
    } while (found.next && found.items.length < PAGE && found.steps < MAX_STEPS);
    return found;
  }

  draw(found) {
    this.tell();
    this.next = found.next;
    keyed(this.body, found.items, (it) => it.id, row, (tr, it) => tr.set(it));
    show(this.table, found.items.length > 0);
    attr(this.first, 'disabled', this.cursor === '');
    attr(this.newer, 'disabled', this.stack.length === 0);
    attr(this.older, 'disabled', this.next === '');
    const here = this.number ? `Page ${count(this.number)}` : 'A later page';
    text(this.where, found.items.length ? `${here}: ${plural(found.items.length, 'item')}, latest change first${this.next ? '' : '; no older ones'}` : '');
    put(this.none, found.items.length ? null : this.nothing(found));
  }

  // nothing says why no rows are there, and what to do.
  nothing(found) {
    const set = FILTERS.filter((f) => this.query[f]);
    if (found.next) return empty('None yet', 'None of the items searched so far match. Older ones may.', []).appendChild(button('Look further back', () => this.forward(), { kind: 'primary' })).parentNode;
    if (set.length) {
      const said = set.map((f) => `${names[f] ?? f} “${this.query[f]}”`).join(', ');
      const el = empty('No items match', `Filters: ${said}.`);
      el.append(h('p', null, button('Clear the filters', () => go(href(['work'])), { key: 'x' })));
      return el;
    }
    const el = empty('Nothing has been submitted yet', 'Press New item, or submit one from a terminal:');
    el.append(command('engine submit hello \'{"name":"Ada"}\''), h('p', null, 'and start a worker for it:'), command('engine work hello -- cat'));
    return el;
  }
}

// row is an item's row; on a phone it folds to two lines (css/screens.css).
export function row(item) {
  const c = Object.fromEntries(['state', 'type', 'say', 'priority', 'attempt'].map((k) => [k, h('td', { class: `c-${k}${k === 'priority' || k === 'attempt' ? ' num' : ''}` })]));
  const link = h('a', { class: 'row-link mono', href: href(['work', item.id]), title: item.id }, item.id);
  const changed = h('td', { class: 'c-changed nowrap' });
  const tr = h('tr', { 'data-id': item.id }, c.state, c.type, h('td', { class: 'c-item' }, link), c.say, c.priority, c.attempt, changed);
  tr.addEventListener('click', (ev) => {
    if (!ev.target.closest('a, button') && !getSelection().toString()) link.click();
  });
  let said = '';
  tr.set = (it) => {
    const at = it.finished_at ?? it.started_at ?? it.claimed_at ?? it.queued_at ?? it.created_at;
    if (changed.firstChild) setAgo(changed.firstChild, at);
    else changed.append(ago(at));
    const state = shownState(it, now());
    const doc = JSON.stringify([state, it.attempt, it.priority, it.reason, it.error, it.progress, it.worker, it.batch, it.children]);
    if (doc === said) return;
    said = doc;
    put(c.state, badge(state));
    put(c.type, it.type);
    put(c.say, sayOf(it, state));
    put(c.priority, it.priority);
    put(c.attempt, it.attempt ? `${it.attempt}/${it.max_attempts}` : '–');
  };
  return tr;
}

// sayOf is the one thing that is worth knowing of an item, with its labels.
function sayOf(it, state) {
  const marks = [it.tenant && h('span', { class: 'tag', title: 'tenant' }, it.tenant), ...Object.entries(it.labels ?? {}).slice(0, 4).map(([k, v]) => h('span', { class: 'tag' }, `${k}=${v}`))];
  let said = '';
  if (state === 'running' || state === 'claimed') said = it.progress ? `${it.progress.percent} %${it.progress.message ? ` ${it.progress.message}` : ''} · ${it.worker}` : it.worker ?? '';
  else if (it.error && state !== 'completed') said = failureText(it.error);
  else if (it.waits_left) said = `waits for ${plural(it.waits_left, 'item')}`;
  else if (it.batch) said = `${it.batch.name ? `${it.batch.name}: ` : ''}${count(it.batch.done)} of ${plural(Math.max(it.batch.total, it.batch.declared ?? 0), 'item')} done`;
  else if (it.children) said = `${it.children.total - it.children.live} of ${plural(it.children.total, 'child', 'children')} ended`;
  else if (it.merged_into) said = `into ${it.merged_into}`;
  else if (it.reason) said = it.reason;
  return [h('span', { class: it.error && state === 'dead' ? 'say bad' : 'say' }, said), ' ', marks];
}

// filters are the controls; set(query) fills them in, counts() their figures.
function filters(change) {
  const states = new Map([['', 'all'], ...STATES.filter((s) => s !== 'created').map((s) => [s, s])].map(([st, name]) => [st,
    h('button', { type: 'button', class: `chip${st ? ` st-${st}` : ''}`, 'aria-pressed': 'false', 'data-state': st, onclick: () => change('state', st) }, st && mark(st), name, h('span', { class: 'chip-count' }))]));
  const type = select([['', 'any']], '', { onchange: () => change('type', type.value) });
  const input = (name, label, more = {}) => h('label', null, label, h('input', { name, autocomplete: 'off', spellcheck: 'false', maxlength: 256, ...more, onchange: (ev) => change(name, ev.target.value.trim()) }));
  const inputs = [input('q', 'Search', { type: 'search', placeholder: 'id or words', size: 16 }), input('error', 'Error contains', { placeholder: 'words', size: 14 }), input('label', 'Label', { placeholder: 'name=value', size: 14, pattern: '[^=]+=.*' })];
  const more = [input('worker', 'On worker', { size: 14 }), input('schedule', 'From schedule', { size: 14 }), input('tenant', 'Tenant', { size: 12 }), input('batch', 'Batch or parent', { placeholder: 'id', size: 12 }), input('code', 'Error code', { size: 12 }), input('reason', 'Reason', { size: 12 }),
    input('created_after', 'Created after', { type: 'datetime-local' }), input('created_before', 'Created before', { type: 'datetime-local' })];
  const rest = h('details', { class: 'more-filters' }, h('summary', null, 'More filters'), h('div', { class: 'filters' }, more));
  const clear = h('a', { class: 'button button-quiet', href: href(['work']), hidden: true }, 'Clear');
  const el = h('form', { class: 'work-filters', 'aria-label': 'Filters', onsubmit: (ev) => { ev.preventDefault(); document.activeElement.blur(); } },
    h('div', { class: 'chips', role: 'group', 'aria-label': 'State' }, [...states.values()]), h('div', { class: 'filters' }, h('label', null, 'Type', type), inputs, clear), rest,
    h('input', { type: 'submit', class: 'sr', value: 'Apply the filters', tabindex: -1 }));
  let query = {};
  let kinds = '';
  const all = [...inputs, ...more].map((l) => l.querySelector('input'));
  const counts = () => {
    const list = live.stats?.types ?? [];
    const of = (st) => list.filter((t) => !query.type || t.type === query.type).reduce((n, t) => n + (t.states?.[st] ?? 0), 0);
    for (const [st, b] of states) if (st) text(b.lastChild, live.stats ? count(of(st)) : '');
    const known = [...new Set([...list.map((t) => t.type), query.type].filter(Boolean))].sort();
    if (known.join() === kinds) return;
    kinds = known.join();
    put(type, h('option', { value: '' }, 'any'), known.map((t) => h('option', { value: t }, t)));
    type.value = query.type ?? '';
  };
  return {
    el, counts,
    focus: () => type.focus(),
    set(q) {
      query = q;
      for (const [st, b] of states) attr(b, 'aria-pressed', String(st === q.state));
      counts();
      type.value = q.type;
      for (const i of all) if (document.activeElement !== i) i.value = q[i.name];
      if (more.some((l) => q[l.querySelector('input').name])) rest.open = true;
      show(clear, FILTERS.some((f) => q[f]));
    },
  };
}
