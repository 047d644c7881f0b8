// The log's events: a live tail that samples what a person can't read, stopped to
// look back page by page, and resumed.

import { attr, frame, h, keyed, put, show, text } from '../dom.js';
import { isAbort } from '../api.js';
import { live } from '../live.js';
import { clockExact, count, plural, when } from '../format.js';
import { go, href } from '../router.js';
import { button, dialog, empty, json, problem, select } from '../ui.js';
import { keys, walk } from '../keys.js';
import { eventName, mark } from '../states.js';
import { cutEnd, follow, logEnd, lookBack, lookOn, MAX_ROWS } from '../eventfeed.js';
import { fillTypes } from './dead.js';
import { detail } from './itemhistory.js';

const KINDS = ['created', 'merged', 'queued', 'claimed', 'running', 'completed', 'failed', 'dead', 'cancelled', 'spawned', 'waiting', 'released', 'snoozed', 'parked', 'signalled', 'token_given', 'reminded', 'progressed', 'checkpointed', 'rescheduled', 'replayed', 'pruned',
  'rejected', 'rejected_purged', 'cause_noted', 'type_configured', 'type_forgotten', 'paused', 'resumed', 'circuit_opened', 'circuit_half_opened', 'circuit_closed', 'schedule_set', 'schedule_removed', 'schedule_fired', 'namespace_set', 'namespace_removed', 'carried', 'owned', 'snapshot'];
const WRONG = 'failed,dead,rejected,cause_noted,circuit_opened';
const PRESETS = [['', 'all'], [WRONG, 'what went wrong'], ['completed,dead,cancelled,merged', 'what ended'], ['type_configured,type_forgotten,paused,resumed,circuit_opened,circuit_half_opened,circuit_closed,schedule_set,schedule_removed,namespace_set,namespace_removed', 'settings and circuits']];
const SINCE = [['', 'the latest'], ['1m', 'the last minute'], ['10m', 'the last 10 minutes'], ['1h', 'the last hour'], ['24h', 'the last day'], ['168h', 'the last week']];
const tones = { failed: 'failed', dead: 'dead', rejected: 'dead', cause_noted: 'dead', circuit_opened: 'dead', circuit_half_opened: 'failed', circuit_closed: 'completed', paused: 'backing_off', released: 'backing_off', snoozed: 'backing_off', spawned: 'waiting', parked: 'waiting', resumed: 'completed' };

export default {
  name: 'events', title: 'Events', icon: 'events', path: ['events'], key: 'e', match: (path) => path[0] === 'events' && path.length === 1,
  mount(el, { route, signal }) {
    const view = new Events(el, signal);
    view.show(route);
    return (next) => view.show(next);
  },
};

class Events {
  constructor(el, signal) {
    Object.assign(this, { signal, rows: [], shown: 0, skipped: 0, stopped: false, feed: null, first: 0, more: true, cut: 0, query: {} });
    const change = (name, value) => { if ((this.query[name] ?? '') !== value) go(href(['events'], { ...this.query, [name]: value })); };
    this.type = select([['', 'any']], '', { onchange: () => change('type', this.type.value) });
    this.kind = h('select', { onchange: () => change('kind', this.kind.value) }, PRESETS.map(([v, t]) => h('option', { value: v }, t)), h('optgroup', { label: 'One kind' }, KINDS.map((k) => h('option', { value: k }, eventName(k)))));
    this.id = h('input', { name: 'id', autocomplete: 'off', spellcheck: 'false', maxlength: 26, size: 27, placeholder: 'any', onchange: () => change('id', this.id.value.trim().toUpperCase()) });
    this.since = select(SINCE, '', { onchange: () => change('since', this.since.value) });
    this.note = h('p', { class: 'hint', role: 'status' });
    this.toggle = button('Stop', () => this.stopOrGo(), { key: 's' });
    this.body = h('tbody');
    this.table = h('table', { class: 'folds events' }, h('thead', null, h('tr', null, ['Seq', 'When', 'Event', 'Type', 'Item', 'Detail'].map((c) => h('th', { scope: 'col' }, c)))), this.body);
    this.none = h('div');
    this.older = button('Older', () => this.back(), { key: ']' });
    this.newer = button('Newer', () => this.on(), { key: '[' });
    this.where = h('span', { class: 'muted', role: 'status' });
    this.pager = h('div', { class: 'pager', hidden: true }, this.newer, this.older, this.where);
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Events'), this.note, h('div', { class: 'tools' }, h('a', { class: 'button button-plain', href: href(['audit']) }, 'Who did what'), this.toggle)),
      h('form', { class: 'filters', 'aria-label': 'Filters', onsubmit: (ev) => { ev.preventDefault(); document.activeElement.blur(); } }, h('label', null, 'Type', this.type), h('label', null, 'Kind', this.kind), h('label', null, 'Item', this.id), h('label', null, 'Beginning with', this.since),
        h('a', { class: 'button button-quiet', href: href(['events']) }, 'Clear'), h('input', { type: 'submit', class: 'sr', value: 'Apply the filters', tabindex: -1 })),
      h('section', { class: 'panel', 'aria-label': 'Events' }, h('div', { class: 'scroll-x' }, this.table), this.none, this.pager));
    live.on('stats', () => fillTypes(this.type, this.query.type), signal);
    signal.addEventListener('abort', () => this.feed?.abort());
    keys('s', 'Stop or resume live', () => this.stopOrGo(), { signal });
    keys(']', 'Older events', () => this.back(), { signal });
    keys('[', 'Newer events', () => this.on(), { signal });
    walk(this.body, 'button.row-link', signal);
  }

  show(route) {
    this.query = Object.fromEntries(['type', 'kind', 'id', 'since', 'from'].map((f) => [f, route.query.get(f) ?? '']));
    fillTypes(this.type, this.query.type);
    this.kind.value = this.query.kind;
    if (this.kind.value !== this.query.kind) { this.kind.append(h('option', { value: this.query.kind }, this.query.kind)); this.kind.value = this.query.kind; }
    if (document.activeElement !== this.id) this.id.value = this.query.id;
    this.since.value = this.query.since;
    this.live();
  }

  filter() { return { type: this.query.type, kind: this.query.kind.split(',').filter(Boolean), id: this.query.id }; }

  // live begins to follow, with the latest events on the screen.
  async live() {
    this.feed?.abort();
    const feed = this.feed = new AbortController();
    Object.assign(this, { rows: [], shown: 0, skipped: 0, stopped: false, error: '', connected: false, looking: false });
    this.draw();
    const from = { since: this.query.since, from_seq: this.query.from };
    if (!from.since && !from.from_seq) {
      from.end = await logEnd(feed.signal).catch(() => 0); // the feed says what fails
      if (feed.signal.aborted) return;
      if (from.end) this.latest(from.end, feed.signal);
    }
    follow(this.filter(), from, {
      state: (connected, error) => { Object.assign(this, { connected, error }); frame(() => this.draw()); },
      gap: ({ to }) => this.lost(to),
      draw: (events, skipped) => {
        this.rows = [...this.rows, ...events].slice(-MAX_ROWS);
        this.shown += events.length;
        this.skipped += skipped;
        frame(() => this.draw());
      },
    }, feed.signal);
    if (from.since || from.from_seq) cutEnd(feed.signal).then((to) => this.lost(to), () => {}); // the feed says what fails
    this.draw();
  }

  // latest shows the events before a position, in front of those that the feed brings.
  async latest(end, signal) {
    this.looking = true;
    let found = { events: [] };
    try {
      found = await lookBack(this.filter(), end, signal);
    } catch { /* the feed says what fails */ }
    if (signal.aborted) return;
    this.looking = false;
    this.rows = [...found.events, ...this.rows].slice(-MAX_ROWS);
    this.shown += found.events.length;
    if (found.cut) this.cut = Math.max(this.cut, found.cut);
    frame(() => this.draw());
  }

  // lost takes note of what the log holds no more.
  lost(to) {
    this.cut = Math.max(this.cut, to);
    frame(() => this.draw());
  }
  gone() { return this.cut ? ` Events up to ${count(this.cut)} are gone: retention has removed them.` : ''; }

  stopOrGo() {
    if (this.stopped) { this.live(); return; }
    this.feed?.abort();
    this.stopped = true;
    Object.assign(this, { more: true, ask: null });
    this.draw();
    if (!this.rows.length || this.skipped) this.page(() => lookBack(this.filter(), this.rows.length ? Number(this.rows.at(-1).seq) + 1 : 0, this.signal)); // with those that were left out
  }

  back() { if (this.stopped && this.more) this.page(() => lookBack(this.filter(), Number(this.rows[0]?.seq ?? this.first), this.signal), 'older'); }
  on() { if (this.stopped && this.rows.length) this.page(() => lookOn(this.filter(), Number(this.rows.at(-1).seq), this.signal), 'newer'); }

  // page shows a page of the log.
  async page(look, way) {
    if (this.asking) return;
    this.asking = true;
    attr(this.table, 'aria-busy', 'true');
    text(this.where, 'Reading the log …');
    try {
      this.cut = Math.max(this.cut, await cutEnd(this.signal));
      const found = await look();
      if (!this.stopped) return;
      this.more = found.more;
      this.first = found.first;
      this.cut = Math.max(this.cut, found.cut ?? 0);
      if (found.events.length) this.rows = found.events.slice(-MAX_ROWS);
      this.ask = found.events.length ? null : way ?? 'all';
      this.draw();
    } catch (err) {
      if (isAbort(err)) return;
      put(this.none, problem(err, () => this.page(look, way)));
    } finally {
      this.asking = false;
      attr(this.table, 'aria-busy', null);
    }
  }

  draw() {
    if (this.signal.aborted) return;
    keyed(this.body, [...this.rows].reverse(), (ev) => ev.seq, row);
    show(this.table, this.rows.length > 0);
    put(this.toggle, this.stopped ? 'Resume live' : 'Stop', h('kbd', { 'aria-hidden': 'true' }, 's'));
    attr(this.toggle, 'class', `button button-${this.stopped ? 'primary' : 'plain'}`);
    show(this.pager, this.stopped);
    attr(this.older, 'disabled', !this.more);
    attr(this.newer, 'disabled', this.rows.length === 0);
    this.tell();
    const kind = this.rows.length ? '' : this.error && !this.stopped ? `error ${this.error}` : this.stopped ? `stopped ${this.more} ${this.cut}` : this.looking ? 'looking' : 'live';
    if (this.none.dataset.kind === kind) return;
    this.none.dataset.kind = kind;
    put(this.none, kind === '' ? null : kind === 'looking' ? h('p', { class: 'muted loading' }, 'Reading the log …') : kind === 'live' ? empty('No such events yet', 'They appear here as they happen. To look further back, choose where to begin, or press Stop.')
      : this.stopped ? empty('None here', this.more ? 'Press Older to look further back.' : `The log holds no such events.${this.gone()}`) : problem(new Error(this.error), () => this.live()));
  }

  tell() {
    const left = this.skipped ? ` · ${plural(this.skipped, 'event')} left out to keep this readable; stop to see them all` : '';
    text(this.note, this.stopped ? 'Stopped' : this.error ? `Not connected: ${this.error}` : !this.connected ? 'Connecting …' : `Live · ${count(this.shown)} shown${left}${(this.query.since || this.query.from) && this.cut ? ` ·${this.gone()}` : ''}`);
    const [a, b] = [this.rows[0], this.rows.at(-1)];
    const end = this.more ? '' : `; the log holds none older.${this.gone()}`;
    text(this.where, !this.stopped ? '' : this.ask === 'newer' ? 'No newer ones yet' : !a ? '' : `${plural(this.rows.length, 'event')}, ${count(a.seq)} to ${count(b.seq)}${end}`);
  }
}

function row(ev) {
  const tone = tones[ev.kind] ?? ev.kind;
  const at = Date.parse(ev.at);
  return h('tr', { 'data-seq': ev.seq, 'data-kind': ev.kind }, h('td', { class: 'e-seq' }, h('button', { type: 'button', class: 'link row-link mono', title: 'The whole event', onclick: () => dialog({ title: `Event ${ev.seq}: ${ev.kind}`, cancel: 'Close', wide: true, body: [json(ev, { label: 'event' })] }) }, String(ev.seq))),
    h('td', { class: 'nowrap e-when', title: when(at) }, clockExact(at)), h('td', { class: 'e-kind' }, h('span', { class: `badge st-${tone}` }, mark(tone), eventName(ev.kind)), ev.attempt ? h('span', { class: 'muted' }, ` ${ev.attempt}`) : null),
    h('td', { class: 'e-type' }, ev.type ?? ''), h('td', { class: 'e-item' }, ev.id && h('a', { class: 'mono', href: href(['work', ev.id]), title: ev.id }, ev.id)), h('td', { class: 'e-detail' }, detail(ev)));
}
