// The list of items: filters in the address, pages by cursor to any depth. It is live:
// rows change where they are, new ones come on top of the first page. While the mouse
// is over it, or rows are selected or have the focus, none comes or goes: what no
// longer matches is dimmed, and what is new is counted.

import { attr, frame, h, keyed, put, show, text } from '../dom.js';
import { get, isAbort } from '../api.js';
import { live } from '../live.js';
import { count, now, plural } from '../format.js';
import { go, href } from '../router.js';
import { button, command, empty, problem } from '../ui.js';
import { keys, walk } from '../keys.js';
import { ACTIONS, bulkOf } from './bulk.js';
import { newItem } from './newitem.js';
import { BATCH, STATES, stateName } from '../states.js';
import { FILTERS, filters } from './workfilters.js';
import { row } from './workrow.js';

const PAGE = 50; // rows
const MAX_STEPS = 8; // requests for one page: a page of the engine reads a bounded number of entries, and may be short
const MAX_STACK = 1000; // pages that "newer" goes back
const names = { q: 'search', worker: 'on worker', schedule: 'from schedule', batch: 'in batch', error: 'error contains', created_after: 'created after', created_before: 'created before' };
const LOOK_MS = 1000; // between two looks at what has changed, for each request that a look takes
const SOON_MS = 150; // what happens within it is looked at together

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
    Object.assign(this, { signal, title, asked: null, next: '', stack: [] });
    Object.assign(this, { items: [], gone: new Set(), fresh: 0 }); // rows, those of them that are dimmed, and how many are not shown
    Object.assign(this, { dirty: false, loading: false, over: false, timer: 0, looked: -LOOK_MS, steps: 1, seen: 0, touched: new Map() });
    Object.assign(this, { chosen: new Map(), every: false }); // selected: items by id, or all that match
    this.filters = filters((name, value) => this.filter(name, value));
    this.hint = h('p', { class: 'hint', role: 'status', 'aria-live': 'polite' });
    this.refresh = button('Refresh', () => this.reload(), { key: 'r' });
    this.body = h('tbody');
    this.head = h('input', { type: 'checkbox', 'aria-label': 'Select all shown', onchange: () => this.chooseShown(this.head.checked) });
    this.table = h('table', { class: 'work-table' }, h('thead', null, h('tr', null, ['State', 'Type', 'Item', 'Details', 'Priority', 'Attempt', 'Changed'].map((c) => h('th', { scope: 'col', class: c === 'Priority' || c === 'Attempt' ? 'num' : null }, c === 'State' && this.head, c)))), this.body);
    this.none = h('div');
    this.first = button('Newest', () => this.page('', [], 1), { key: '0' });
    this.newer = button('Newer', () => this.back(), { key: '[' });
    this.older = button('Older', () => this.forward(), { key: ']' });
    this.where = h('span', { class: 'muted', role: 'status' });
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Work'), this.hint, h('div', { class: 'tools' }, h('a', { class: 'button button-plain', href: href(['approvals']) }, 'Approvals'), button('New item', () => this.submit(), { kind: 'primary', key: 'n' }), this.refresh)), this.filters.el,
      h('section', { class: 'panel', 'aria-label': 'Items' }, this.selectBar(), h('div', { class: 'scroll-x' }, this.table), this.none,
        h('div', { class: 'pager' }, this.first, this.newer, this.older, this.where)));
    live.on('events', (ev) => this.note(ev), signal);
    live.on('stats', () => frame(() => { this.filters.counts(); this.drawChosen(); }), signal);
    live.on('anew', () => { this.seen = 0; this.reload(); }, signal);
    this.table.addEventListener('pointerenter', (ev) => { this.over = ev.pointerType === 'mouse'; });
    this.table.addEventListener('pointerleave', () => { this.over = false; this.release(); });
    this.body.addEventListener('focusout', () => setTimeout(() => this.release()));
    signal.addEventListener('abort', () => clearTimeout(this.timer));
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
    this.choose([], false);
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
  submit() { newItem({ type: this.query.type === BATCH ? '' : this.query.type, done: () => { if (!this.signal.aborted) this.reload(); } }); }

  // note hears of what happens. What may be of the list is looked at, soon.
  note({ events, skipped }) {
    const mine = events.filter((ev) => ev.id && (!this.query.type || ev.type === this.query.type));
    if (!mine.length && !skipped) return;
    for (const ev of mine) {
      this.seen = Math.max(this.seen, Number(ev.seq));
      if (this.items.some((it) => it.id === ev.id)) this.touched.set(ev.id, Number(ev.seq));
    }
    this.dirty = true;
    this.soon();
  }

  soon() {
    const wait = Math.max(SOON_MS, this.looked + LOOK_MS * this.steps - performance.now());
    this.timer ||= setTimeout(async () => {
      if (this.dirty && !this.loading && !document.hidden) await this.look();
      this.timer = 0;
      if (this.dirty && !this.signal.aborted) this.soon();
    }, wait);
  }

  // held reports whether the rows must stay where they are.
  held() { return (this.over && this.items.length > 0) || this.every || this.chosen.size > 0 || this.body.contains(document.activeElement); }
  release() {
    if (this.held() || !(this.fresh || this.gone.size)) return;
    this.dirty = true;
    this.soon();
  }

  // look reads the front of the list: whatever has changed is there, if it still matches.
  async look() {
    this.dirty = false;
    this.looked = performance.now();
    try {
      const found = await this.ask('');
      this.steps = found.steps;
      if (!this.loading) this.merge(found);
    } catch (err) {
      if (!isAbort(err)) this.seen = 0; // what is shown stays; the connection says that it is old
    }
  }

  merge(found) {
    const front = new Map(found.items.map((it) => [it.id, it]));
    const last = Number(found.items.at(-1)?.position);
    const at = (it) => Math.max(Number(it.position), this.touched.get(it.id) ?? 0);
    const gone = new Set(this.items.filter((it) => !front.has(it.id) && (this.gone.has(it.id) || !found.next || at(it) >= last)).map((it) => it.id));
    const shown = new Set(this.items.map((it) => it.id));
    const added = found.items.filter((it) => !shown.has(it.id));
    const free = !this.held();
    let items = this.items.map((it) => front.get(it.id) ?? it);
    if (free && this.cursor === '') {
      items = [...added, ...items.filter((it) => front.has(it.id))];
      this.next = found.next;
    } else if (free) {
      items = items.filter((it) => !gone.has(it.id));
    }
    this.fresh = this.cursor === '' && !free ? added.length : 0;
    this.draw(items, free ? new Set() : gone);
  }

  reload() { this.load(); }
  async load() {
    this.loading = true;
    this.dirty = false;
    const late = setTimeout(() => attr(this.table, 'aria-busy', 'true'), 300);
    const asking = this.ask(this.cursor);
    const mine = this.asked;
    try {
      const found = await asking;
      this.next = found.next;
      this.fresh = 0;
      this.draw(found.items, new Set());
    } catch (err) {
      if (isAbort(err)) return;
      this.items = [];
      keyed(this.body, [], String);
      put(this.none, problem(err, () => this.load()));
      show(this.table, false);
    } finally {
      clearTimeout(late);
      if (this.asked === mine) {
        this.loading = false;
        attr(this.table, 'aria-busy', null);
      }
    }
  }

  // ask reads the page at a cursor, in place of what was asked before.
  async ask(cursor) {
    this.asked?.abort();
    const asked = this.asked = new AbortController();
    return this.read(cursor, AbortSignal.any([asked.signal, this.signal]));
  }

  // wanted are the filters as the engine takes them.
  wanted() {
    const q = { ...this.query };
    for (const f of ['created_after', 'created_before']) if (q[f]) q[f] = new Date(q[f]).toISOString();
    return q;
  }

  // read fills a page: what the engine gives may be short of it, since it looks at
  // a bounded number of entries at a time.
  async read(cursor, signal) {
    const found = { items: [], next: cursor, steps: 0 };
    do {
      const q = { ...this.wanted(), limit: PAGE - found.items.length, cursor: found.next, min_position: this.seen || '' };
      const page = await get('api/v1/work', { query: q, signal });
      found.items.push(...page.items ?? []);
      found.next = page.next_cursor ?? '';
      found.steps++;
    } while (found.next && found.items.length < PAGE && found.steps < MAX_STEPS);
    return found;
  }

  draw(items, gone) {
    Object.assign(this, { items, gone });
    text(this.hint, this.fresh ? `${plural(this.fresh, 'newer item')} – refresh to see` : '');
    attr(this.refresh, 'class', `button button-${this.fresh ? 'primary' : 'plain'}`);
    const ids = new Set(items.map((it) => it.id));
    for (const known of [this.chosen, this.touched]) for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
    for (const it of items) if (this.chosen.has(it.id)) this.chosen.set(it.id, it);
    keyed(this.body, items, (it) => it.id, (it) => row(it, (id, on) => this.chooseOne(id, on)), (tr, it) => {
      tr.set(it);
      attr(tr, 'class', gone.has(it.id) ? 'is-gone' : null);
      attr(tr, 'title', gone.has(it.id) ? 'It no longer matches' : null);
    });
    show(this.table, items.length > 0);
    attr(this.first, 'disabled', this.cursor === '');
    attr(this.newer, 'disabled', this.stack.length === 0);
    attr(this.older, 'disabled', this.next === '');
    const here = this.number ? `Page ${count(this.number)}` : 'A later page';
    text(this.where, items.length ? `${here}: ${plural(items.length, 'item')}, latest change first${this.next ? '' : '; no older ones'}` : '');
    put(this.none, items.length ? null : this.nothing());
    this.drawChosen();
  }

  // selectBar says what is selected, and what can be done with it.
  selectBar() {
    this.picked = h('span', { role: 'status' });
    this.all = button('Select all that match', () => this.choose(this.items, true));
    this.acts = Object.entries(ACTIONS).map(([name, { verb, kind }]) => [name, button(`${verb} …`, () => this.act(name), { kind })]);
    return this.bar = h('div', { class: 'select-bar', role: 'group', 'aria-label': 'Selection', hidden: true }, this.picked, this.all,
      button('Select none', () => this.choose([], false), { kind: 'quiet' }), h('div', { class: 'tools' }, this.acts.map(([, b]) => b)));
  }

  choose(items, every) {
    this.chosen = new Map(items.map((it) => [it.id, it]));
    this.every = every;
    this.drawChosen();
    this.release();
  }
  chooseShown(on) { this.choose(on ? this.items : [], false); }
  chooseOne(id, on) { this.choose(this.items.filter((it) => (it.id === id ? on : this.chosen.has(it.id))), false); }

  drawChosen() {
    const total = this.total();
    const n = this.chosen.size;
    show(this.bar, n > 0 || this.every);
    text(this.picked, this.every ? `All ${total === null ? '' : `${count(total)} `}that match these filters` : `${plural(n, 'item')} selected`);
    text(this.all, `Select all ${total === null ? '' : `${count(total)} `}that match`);
    show(this.all, !this.every);
    for (const [name, b] of this.acts) show(b, this.allows(name));
    for (const tr of this.body.children) tr.check.checked = this.chosen.has(tr.dataset.id);
    this.head.checked = n > 0 && n === this.items.length;
    this.head.indeterminate = n > 0 && n < this.items.length;
  }

  // total is how many items match, null where that is not known.
  total() {
    if (this.cursor === '' && !this.next) return this.items.length;
    if (!live.stats || FILTERS.some((f) => this.query[f] && f !== 'state' && f !== 'type')) return null;
    return (live.stats.types ?? []).filter((t) => !this.query.type || t.type === this.query.type)
      .reduce((n, t) => n + STATES.filter((st) => !this.query.state || st === this.query.state).reduce((m, st) => m + (t.states?.[st] ?? 0), 0), 0);
  }

  // may are the selected items whose state allows an action.
  may(name) { return [...this.chosen.values()].filter((it) => ACTIONS[name].states.has(it.state)); }
  allows(name) { return this.every ? !this.query.state || ACTIONS[name].states.has(this.query.state) : this.may(name).length > 0; }

  act(name) {
    const done = () => {
      if (this.signal.aborted) return;
      this.choose([], false);
      this.reload();
    };
    if (!this.every) {
      const items = this.may(name);
      const rest = this.chosen.size - items.length;
      bulkOf(name, { items }, rest ? `${count(items.length)} of the ${count(this.chosen.size)} selected: the state of the others does not allow it.` : 'The selected items.', done);
      return;
    }
    // What comes from now on is not meant: the number that is asked about stays true.
    const ended = name === 'replay' || name === 'purge';
    const at = new Date(now()).toISOString();
    const { states } = ACTIONS[name];
    const of = this.query.state ? [this.query.state] : ended ? [...states] : [''];
    bulkOf(name, {
      selections: of.map((state) => ({ ...this.wanted(), state })),
      bound: (sel) => (ended ? { until: at } : { created_before: sel.created_before && sel.created_before < at ? sel.created_before : at }),
    }, this.words() ? `All that match: ${this.words()}.` : 'All items, of every type.', done);
  }

  // words are the filters as they are said.
  words() { return FILTERS.filter((f) => this.query[f]).map((f) => `${names[f] ?? f} “${this.query[f]}”`).join(', '); }

  // nothing says why no rows are there, and what to do.
  nothing() {
    if (this.next) return empty('None yet', 'None of the items searched so far match. Older ones may.', []).appendChild(button('Look further back', () => this.forward(), { kind: 'primary' })).parentNode;
    const said = this.words();
    if (said) {
      const el = empty('No items match', `Filters: ${said}.`);
      el.append(h('p', null, button('Clear the filters', () => go(href(['work'])), { key: 'x' })));
      return el;
    }
    const el = empty('Nothing has been submitted yet', 'Press New item, or submit one from a terminal:');
    el.append(command('engine submit hello \'{"name":"Ada"}\''), h('p', null, 'and start a worker for it:'), command('engine work hello -- cat'));
    return el;
  }
}
