// One item: what it is, its timeline, its documents, log, tree, and what can be
// done to it.

import { frame, h, put, show, text } from '../dom.js';
import { get, isAbort } from '../api.js';
import { live } from '../live.js';
import { ago, count, now, plural, span } from '../format.js';
import { href } from '../router.js';
import { copyButton, facts, json, panel, problem } from '../ui.js';
import { keys } from '../keys.js';
import { badge, mark, shownState, TERMINAL } from '../states.js';
import { actionsOf, signalsOf } from './itemactions.js';
import { history } from './itemhistory.js';
import { logs } from './itemlogs.js';
import { output } from './itemoutput.js';
import { progressOf } from './batches.js';

const SOON = 150; // ms: events come in groups, one look answers them all
const AGAIN = 3000; // ms between looks, while the feed leaves events out

export default {
  name: 'item', title: 'Item', within: 'work', match: (path) => path[0] === 'work' && path.length === 2,
  mount(el, { route, signal, title }) {
    const view = new ItemView(el, route, signal, title);
    view.load();
  },
};

class ItemView {
  constructor(el, route, signal, title) {
    Object.assign(this, { id: route.path[1], at: route.query.get('at') ?? '', signal, title, item: null, timer: 0, shown: '' });
    this.state = h('span', { class: 'item-state', role: 'status', 'aria-live': 'polite' });
    this.kind = h('span', { class: 'muted' });
    this.tools = h('div', { class: 'tools' });
    this.past = h('div', { class: 'notice', hidden: true });
    this.why = h('div', { class: 'why', hidden: true });
    this.facts = h('div', { class: 'panel-body' });
    this.tree = panel('Tree', { name: 'tree' }, h('div', { class: 'panel-body' }));
    this.history = history(this);
    this.logs = logs(this);
    this.output = output(this);
    this.docs = Object.fromEntries(['Params', 'Result'].map((n) => [n.toLowerCase(), panel(n, { name: n.toLowerCase() }, h('div', { class: 'panel-body' }))]));
    this.error = panel('Last error', { name: 'error' }, h('div', { class: 'panel-body' }));
    this.gone = h('div');
    this.parts = h('div', { class: 'item-parts live-part' }, this.past, this.why, this.history.picture,
      h('div', { class: 'item-columns' },
        h('div', { class: 'column' }, this.error, this.docs.params, this.docs.result, this.output.el, this.logs.el),
        h('div', { class: 'column' }, panel('Facts', {}, this.facts), this.tree, this.history.table)));
    el.append(h('div', { class: 'screen-head item-head' }, h('h1', null, this.state, ' ', this.kind), h('span', { class: 'mono item-id' }, this.id), copyButton(() => this.id, 'Copy the id'), this.tools), this.gone, this.parts);
    this.title(`Item ${this.id}`);
    this.listen();
  }

  listen() {
    const { signal } = this;
    live.on('events', ({ events, skipped }) => {
      if (events.some((ev) => ev.id === this.id)) this.soon(SOON);
      else if (skipped > 0 && this.item && !TERMINAL.has(this.item.state)) this.soon(AGAIN);
      else if (this.item?.children?.live && events.some((ev) => this.inTree?.has(ev.id))) this.soon(SOON * 4);
    }, signal);
    live.on('anew', () => this.load(), signal);
    keys('r', 'Refresh', () => this.load(), { signal });
    keys('u', 'Back to the list', () => { location.hash = href(['work']); }, { signal });
    const tick = setInterval(() => {
      if (!document.hidden && this.item && !this.at && !TERMINAL.has(this.item.state)) frame(() => this.history.draw());
    }, 1000);
    signal.addEventListener('abort', () => { clearInterval(tick); clearTimeout(this.timer); });
  }

  // soon looks again in so many milliseconds, or earlier if that was asked before.
  soon(ms) {
    if (this.timer) return;
    this.timer = setTimeout(() => { this.timer = 0; this.load(); }, ms);
  }

  async load() {
    const { signal } = this;
    try {
      const path = `api/v1/work/${encodeURIComponent(this.id)}`;
      const [item, history] = await Promise.all([get(path, { query: { at: this.at }, signal, exact: true }), get(`${path}/history`, { signal, exact: true })]);
      this.item = { ...item, history };
      put(this.gone);
      show(this.parts, true);
      frame(() => { if (!signal.aborted) this.draw(); });
      await Promise.all([this.askWhy(), this.askTree()]);
    } catch (err) {
      if (isAbort(err)) return;
      if (this.item && err.status !== 404) return; // what is shown stays; the connection says that it is old
      put(this.gone, err.status === 404 ? this.missing(err) : problem(err, () => this.load()));
      show(this.parts, false);
    }
  }

  missing(err) {
    return h('div', { class: 'empty panel', role: 'alert' }, h('p', { class: 'empty-title' }, 'No such item'), h('p', null, err.message),
      h('p', null, 'Items that have ended are removed when their type’s retention is over.'), h('p', null, h('a', { href: href(['work']) }, 'All work')));
  }

  // draw shows the item. What has not changed is left alone, so that a selection
  // in it stays.
  draw() {
    const it = this.item;
    const state = shownState(it, now());
    if (this.shown !== state) put(this.state, badge(state));
    this.shown = state;
    text(this.kind, it.type);
    this.title(`${state} · ${it.type} ${this.id}`);
    this.drawPast(it);
    once(this.facts, [it, state], () => put(this.facts, factsOf(it)));
    once(this.tools, [it.state, this.at, it.has_checkpoint, it.waits_for], () => put(this.tools, this.at ? null : actionsOf(this)));
    this.drawDocs(it);
    this.history.draw();
    this.logs.draw();
    this.output.draw();
  }

  drawPast(it) {
    show(this.past, Boolean(it.as_of));
    if (it.as_of) put(this.past, h('strong', null, 'As it was then. '), `After event ${it.as_of.position}, `, ago(it.as_of.at), '. ', it.as_of.latest ? 'Nothing has happened to it since then. ' : '', h('a', { href: href(['work', this.id]) }, 'View it as it is now'));
  }

  drawDocs(it) {
    const doc = (el, value, none) => once(el.lastChild, [value === undefined, value], () => put(el.lastChild, value === undefined ? h('p', { class: 'muted' }, none) : json(value, { label: el.querySelector('h2').textContent.toLowerCase() })));
    doc(this.docs.params, it.params, 'None.');
    doc(this.docs.result, it.result, it.state === 'completed' ? 'The handler returned nothing.' : 'None: it has not completed.');
    show(this.docs.result, it.result !== undefined || TERMINAL.has(it.state));
    show(this.error, Boolean(it.error));
    if (it.error) once(this.error.lastChild, it.error, () => put(this.error.lastChild, h('p', null, it.error.code && h('span', { class: 'tag tag-bad' }, it.error.code), ' ', h('span', { class: 'muted' }, it.error.retryable ? 'may be retried' : 'not retryable')), h('pre', { class: 'error-text', tabindex: 0, 'aria-label': 'Error text' }, it.error.message)));
  }

  async askWhy() {
    if (this.at || TERMINAL.has(this.item.state)) {
      show(this.why, false);
      return;
    }
    const why = await get(`api/v1/work/${this.id}/why`, { signal: this.signal });
    const list = (why.reasons ?? []).slice(0, 6);
    show(this.why, list.length > 0);
    once(this.why, list, () => put(this.why, h('h2', null, why.state === 'running' || why.state === 'claimed' ? 'Activity' : 'Why it is not running'),
      h('ul', null, list.map((r) => h('li', null, h('span', { class: 'tag' }, r.code.replaceAll('_', ' ')), ' ', r.message,
        r.until && [' (', ago(r.until), ')'], (r.items ?? []).slice(0, 10).map((id) => [' ', h('a', { class: 'mono', href: href(['work', id]) }, id)]))))));
  }

  async askTree() {
    const it = this.item;
    const has = it.parent || it.children;
    show(this.tree, Boolean(has));
    if (!has || this.at) return;
    const tree = await get(`api/v1/work/${this.id}/tree`, { query: { depth: 5, limit: 200 }, signal: this.signal });
    this.inTree = new Set();
    once(this.tree.lastChild, tree, () => put(this.tree.lastChild, treeOf(tree, this.id)));
    const walkAll = (n) => { this.inTree.add(n.id); (n.children ?? []).forEach(walkAll); };
    walkAll(tree.root);
  }
}

// once runs f if doc is not what it was the last time for el.
const seen = new WeakMap();
function once(el, doc, f) {
  const said = JSON.stringify(doc);
  if (seen.get(el) === said) return;
  seen.set(el, said);
  f();
}

const link = (id) => h('a', { class: 'mono', href: href(['work', id]), title: id }, id);
const filter = (query, label) => h('a', { href: href(['work'], query) }, label);

function factsOf(it) {
  const dur = it.started_at && it.finished_at ? span(Date.parse(it.finished_at) - Date.parse(it.started_at)) : '';
  const runs = !it.batch; // a batch runs nothing
  return facts([
    ['Type', filter({ type: it.type }, it.type)], ['Attempt', runs && (it.attempt ? `${it.attempt} of ${it.max_attempts}` : `none yet, of ${it.max_attempts}`) + (it.own_attempts ? ' (its own)' : '')],
    ['Priority', String(it.priority)], ['Worker', it.worker && h('a', { href: href(['workers'], { worker: it.worker }) }, it.worker)],
    ['Batch', it.batch && progressOf(it)], ['Items', it.batch && filter({ batch: it.id }, `all ${plural(it.batch.total, 'item')}`)],
    ['Children', it.children && filter({ batch: it.id }, it.children.declared > it.children.total ? `${count(it.children.total)} of ${count(it.children.declared)} made so far` : plural(it.children.total, 'child', 'children'))],
    ['Progress', it.progress && `${it.progress.percent} %${it.progress.message ? `: ${it.progress.message}` : ''}`],
    ['Reason', it.reason], ['Created', ago(it.created_at)], ['Available', it.available_at && ago(it.available_at)],
    ['Started', it.started_at && ago(it.started_at)], ['Deadline', it.deadline && !it.finished_at && ago(it.deadline)],
    ['Finished', it.finished_at && ago(it.finished_at)], ['Last run took', dur], ['Timeout', runs && span(it.timeout_ms) + (it.own_timeout ? ' (its own)' : '')], ['Estimated run', it.estimated_duration_ms && span(it.estimated_duration_ms)], ['Expiry', it.expires_at && ago(it.expires_at)],
    ['Source', it.provenance?.source], ['Trigger', it.provenance?.source === 'schedule' ? h('a', { href: href(['schedules', it.provenance.trigger]) }, it.provenance.trigger) : it.provenance?.trigger], ['Tenant', it.tenant && filter({ tenant: it.tenant }, it.tenant)], ['Group', it.group],
    ['Labels', it.labels && Object.entries(it.labels).map(([k, v]) => [filter({ label: `${k}=${v}` }, h('span', { class: 'tag' }, `${k}=${v}`)), ' '])],
    ['Capabilities', it.capabilities?.join(', ')], ['Dedup key', it.dedup_key && h('span', { class: 'mono' }, it.dedup_key)],
    ['Idempotency key', it.idempotency_key && h('span', { class: 'mono' }, it.idempotency_key)],
    ['Merged into', it.merged_into && link(it.merged_into)], ['Merged from', it.merged_count && plural(it.merged_count, 'submission')],
    ['Parent', it.parent && link(it.parent)], ['Caused by', it.by && link(it.by)],
    ['Waits for', it.waits?.length && [it.waits.slice(0, 10).map((id) => [link(id), ' ']), it.waits_left > 10 && `and ${it.waits_left - 10} more`]],
    ['Asks', it.waits_for?.ask && h('a', { href: href(['approvals', it.id]) }, it.waits_for.ask.title)], ['Waits for the signal', it.waits_for && (signalsOf(it.waits_for).join(it.waits_for.all ? ' and ' : ' or ') || (!it.waits_for.ask && 'none: for its deadline alone'))], ['Waits until', it.waits_for && ago(it.waits_for.until)], ['Unread signals', it.unread_signals],
    ['Awaited by', it.awaited && plural(it.awaited, 'item')], ['Checkpoint', it.has_checkpoint && 'saved'], ['Leases lost', it.leases_lost], ['Attempts spared', it.attempts_spared],
    ['Cause of death', it.cause && h('a', { class: 'mono', href: href(['dead'], { cause: it.cause }) }, it.cause)],
    ['Notes', it.notes?.join(' ')], ['Position', h('span', { class: 'mono' }, it.position)],
  ]);
}

// treeOf is an item's place among those that were spawned, as nested lists.
function treeOf(tree, here) {
  const node = (n) => h('li', null, h('span', { class: `tree-node${n.id === here ? ' is-here' : ''}` }, mark(n.state), h('span', { class: 'sr' }, n.state),
    h('a', { href: href(['work', n.id]), 'aria-current': n.id === here ? 'true' : null }, n.type), h('span', { class: 'mono muted' }, n.id),
    n.progress && h('span', { class: 'muted' }, `${n.progress.percent} %`), n.code && h('span', { class: 'tag tag-bad' }, n.code)),
  (n.children?.length || n.truncated) && h('ul', null, (n.children ?? []).map(node), n.truncated && h('li', { class: 'muted' }, 'more children are not shown')));
  const nest = (path) => (path.length === 0 ? node(tree.root) : h('li', null, node(path[0]).firstChild, h('ul', null, nest(path.slice(1)))));
  return h('ul', { class: 'tree' }, nest(tree.path ?? []));
}
