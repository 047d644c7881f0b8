// Workers: what each is, its runs, how it is; drain, circuit.

import { attr, frame, h, keyed, put, show, text } from '../dom.js';
import { get, isAbort, send } from '../api.js';
import { live } from '../live.js';
import { ago, bytes, count, plural, setAgo } from '../format.js';
import { go, href } from '../router.js';
import { bar, button, confirm, empty, failed, panel, toast } from '../ui.js';
import { keys, walk } from '../keys.js';
import { mark } from '../states.js';
import { MAX_RUNS, whatRuns } from '../runs.js';

const MAX_ROWS = 200; // workers
const RUNS_SHOWN = 4; // of a worker, unless it alone is shown: then all that were asked for
const MAX_TYPES = 12; // names in a row
const shapes = { active: 'running', draining: 'backing_off', unhealthy: 'failed', dead: 'dead' };

export default {
  name: 'workers', title: 'Workers', icon: 'workers', path: ['workers'], key: 'k', match: (path) => path[0] === 'workers' && path.length === 1,
  mount(el, { route, signal, title }) {
    const view = new Workers(el, signal, title);
    view.show(route);
    return (next) => view.show(next);
  },
};

class Workers {
  constructor(el, signal, title) {
    Object.assign(this, { signal, title, query: {}, runs: whatRuns({ signal, redraw: () => frame(() => this.draw()), fail: (err) => text(this.note, err.message) }) });
    this.note = h('p', { class: 'hint', role: 'status' });
    this.find = h('input', { name: 'worker', type: 'search', autocomplete: 'off', spellcheck: 'false', maxlength: 128, placeholder: 'id, host or type', oninput: () => go(href(['workers'], { ...this.query, worker: this.find.value.trim() }), { replace: true }) });
    this.statuses = new Map(['', 'active', 'draining', 'unhealthy', 'dead'].map((st) => [st, h('button', { type: 'button', class: 'chip', 'aria-pressed': 'false', 'data-status': st, onclick: () => go(href(['workers'], { ...this.query, status: st })) },
      st && mark(shapes[st]), st || 'all', h('span', { class: 'chip-count' }))]));
    this.body = h('tbody');
    this.table = tableOf('Workers', this.body);
    this.deadBody = h('tbody');
    this.dead = panel('Died in the last ten minutes', { name: 'died' }, h('p', { class: 'panel-body hint' }, 'They were silent for too long. Their items go to others once the leases end.'), tableOf('Died', this.deadBody));
    this.none = h('div');
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Workers'), this.note), h('form', { class: 'work-filters', 'aria-label': 'Filters', onsubmit: (ev) => { ev.preventDefault(); document.activeElement.blur(); } },
      h('div', { class: 'chips', role: 'group', 'aria-label': 'Status' }, [...this.statuses.values()]), h('div', { class: 'filters' }, h('label', null, 'Find', this.find)), h('input', { type: 'submit', class: 'sr', value: 'Apply', tabindex: -1 })),
    h('section', { class: 'panel live-part', 'aria-label': 'Workers' }, this.table, this.none), this.dead);
    live.on('stats', () => { frame(() => this.draw()); this.runs.look(); }, signal);
    live.on('anew', this.runs.look, signal);
    keys('r', 'Refresh', this.runs.look, { signal });
    keys('f', 'Find', () => this.find.focus(), { signal });
    walk(this.body, 'a.row-link', signal);
  }

  show(route) {
    this.query = { worker: route.query.get('worker') ?? '', status: route.query.get('status') ?? '' };
    this.title(this.query.worker ? `Worker ${this.query.worker}` : 'Workers');
    if (document.activeElement !== this.find) this.find.value = this.query.worker;
    this.draw();
  }

  draw() {
    if (this.signal.aborted || !live.stats) return;
    const { worker, status } = this.query;
    const fits = (w) => !worker || [w.worker, w.host ?? '', ...w.types ?? []].some((x) => x.includes(worker));
    const all = live.workers;
    for (const [st, b] of this.statuses) {
      attr(b, 'aria-pressed', String(st === status));
      text(b.lastChild, count(all.filter((w) => !st || w.status === st).length));
    }
    const order = (a, b) => a.worker.localeCompare(b.worker, 'en', { numeric: true });
    const alive = all.filter((w) => w.status !== 'dead' && fits(w) && (!status || w.status === status)).sort(order);
    const dead = all.filter((w) => w.status === 'dead' && fits(w) && (!status || status === 'dead')).sort((a, b) => Date.parse(b.died_at) - Date.parse(a.died_at));
    const alone = alive.length === 1;
    const set = (tr, w) => tr.set(w, this.runs.of(w.worker), alone ? MAX_RUNS : RUNS_SHOWN);
    keyed(this.body, alive.slice(0, MAX_ROWS), (w) => w.worker, row, set);
    keyed(this.deadBody, dead.slice(0, MAX_ROWS), (w) => w.worker, row, set);
    this.runs.watch([...this.body.children, ...this.deadBody.children]);
    show(this.dead, dead.length > 0);
    show(this.table, alive.length > 0);
    const slots = alive.reduce((n, w) => n + w.slots, 0);
    const used = alive.reduce((n, w) => n + usedBy(w, this.runs.of(w.worker)), 0);
    text(this.note, alive.length ? `${count(used)} of ${plural(slots, 'slot')} used${alive.length > MAX_ROWS ? ` · the first ${count(MAX_ROWS)} of ${count(alive.length)}: search to find one` : ''}` : '');
    this.nothing(alive.length > 0, all.length > 0 && (worker || status));
  }

  nothing(some, filtered) {
    const kind = some ? 'some' : filtered ? 'filtered' : 'none';
    if (this.none.dataset.kind === kind) return;
    this.none.dataset.kind = kind;
    put(this.none, { some: () => null, filtered: () => empty('No workers match', 'No live worker matches.'), none: () => empty('No worker is registered', 'Items wait until one comes. Start one for a type:', ['engine work TYPE -- COMMAND']) }[kind]());
  }
}

const tableOf = (label, body) => h('div', { class: 'scroll-x' }, h('table', { class: 'folds workers', 'aria-label': label }, h('thead', null, h('tr', null, ['Worker', 'Types', 'Slots', 'Runs', 'Health', 'Host', 'Seen', 'Actions'].map((c) => h('th', { scope: 'col' }, c === 'Actions' ? h('span', { class: 'sr' }, c) : c)))), body));

function row(first) {
  const id = first.worker;
  const link = h('a', { class: 'row-link', href: href(['workers'], { worker: id }) }, id);
  const cells = Object.fromEntries(['status', 'types', 'runs', 'health', 'host', 'actions'].map((k) => [k, h(k === 'status' ? 'div' : 'td', { class: `w-${k}` })]));
  const meter = bar(`slots of ${id}`);
  const slots = h('span');
  const seen = ago(first.last_seen);
  const tr = h('tr', { 'data-worker': id }, h('td', { class: 'w-name' }, link, cells.status), cells.types, h('td', { class: 'nowrap w-slots' }, meter, ' ', slots), cells.runs, cells.health, cells.host, h('td', { class: 'nowrap w-seen' }, seen), cells.actions);
  let was = {};
  const once = (key, doc, f) => {
    const said = JSON.stringify(doc);
    if (was[key] !== said) put(cells[key], f());
    was[key] = said;
  };
  let latest = { ...first, runs: 0 };
  tr.set = (w, runs, most) => {
    latest = { ...w, runs: usedBy(w, runs) };
    const used = usedBy(w, runs);
    meter.set(used, w.slots);
    text(slots, `${used}/${w.slots}`);
    setAgo(seen, w.died_at ?? w.last_seen);
    once('status', [w.status, w.reason, w.circuit], () => statusOf(w));
    once('types', [w.types, w.capabilities], () => typesOf(w));
    once('runs', [runs && [runs.items.map((it) => [it.id, it.progress]), runs.more], most, w.in_flight], () => runsOf(w, runs, most));
    once('health', w.health && [Math.round((w.health.cpu ?? 0) * 100), Math.round((w.health.memory_bytes ?? 0) / 1e6), w.health.failing], () => healthOf(w));
    once('host', [w.host, w.version], () => [h('div', null, w.host || h('span', { class: 'muted' }, '–')), w.version && h('div', { class: 'hint' }, w.version), h('div', { class: 'hint' }, 'started ', ago(w.registered_at))]);
    once('actions', [w.status, w.circuit?.state], () => actionsOf(w, () => latest));
  };
  return tr;
}

// usedBy is how many slots a worker uses: what it has said with its last heartbeat,
// or what it has begun since, as far as that was asked.
const usedBy = (w, runs) => Math.max(runs?.items.length ?? 0, w.in_flight ?? 0);

const statusOf = (w) => [h('span', { class: `badge st-${shapes[w.status] ?? 'created'}` }, mark(shapes[w.status] ?? 'created'), w.status), w.reason && h('div', { class: 'hint' }, w.reason),
  w.circuit && h('div', null, h('span', { class: 'tag tag-bad' }, `circuit ${w.circuit.state.replace('_', ' ')}`), h('span', { class: 'hint' }, ` ${w.circuit.reason}`, w.circuit.until && [' · next probe: ', ago(w.circuit.until)]))];

const typesOf = (w) => [(w.types ?? []).slice(0, MAX_TYPES).map((t) => [h('a', { class: 'tag', href: href(['types', t]) }, t), ' ']), w.types?.length > MAX_TYPES && h('span', { class: 'hint' }, `and ${w.types.length - MAX_TYPES} more`),
  w.capabilities?.length > 0 && h('div', { class: 'hint' }, `can ${w.capabilities.join(', ')}`)];

// runsOf is what a worker runs; the rest of it stands in the list of work.
function runsOf(w, runs, most) {
  if (!runs) return h('span', { class: 'muted' }, w.in_flight ? '…' : 'nothing');
  if (!runs.items.length) return h('span', { class: 'muted' }, w.in_flight ? 'nothing yet' : 'nothing');
  const list = runs.items.slice(0, most).map((it) => h('li', null, h('a', { class: 'mono', href: href(['work', it.id]), title: it.id }, it.id), ' ', it.type, it.progress && h('span', { class: 'muted' }, ` ${it.progress.percent} %`), it.started_at && h('span', { class: 'muted' }, ' · started ', ago(it.started_at))));
  const rest = runs.items.length - most;
  const words = runs.more ? 'all its runs' : rest > 0 ? `${count(rest)} more` : '';
  return h('ul', null, list, words && h('li', { class: 'hint' }, h('a', { href: href(['work'], { worker: w.worker }) }, words)));
}

function healthOf(w) {
  const x = w.health;
  if (!x) return h('span', { class: 'muted' }, '–');
  return [h('div', { class: 'nowrap' }, `CPU ${Math.round((x.cpu ?? 0) * 100)} %`), x.memory_bytes && h('div', { class: 'nowrap' }, bytes(x.memory_bytes)), (x.failing ?? []).map((f) => h('div', { class: 'bad' }, `${f.check}: ${f.error}`))];
}

// actionsOf are the buttons; latest() is the worker as it is when one is pressed.
function actionsOf(w, latest) {
  const path = `api/v1/workers/${encodeURIComponent(w.worker)}`;
  const drain = () => confirm(`Drain worker ${w.worker}?`, `It finishes ${latest().runs ? plural(latest().runs, 'item') : 'its runs'}, gets nothing more, and ends. Once it has left, it can be started again. A worker that has been told already may stop even if it is undrained.`, 'Drain', async () => {
    await send('POST', `${path}/drain`);
    toast(`Worker ${w.worker} is draining.`);
  });
  const undrain = async () => {
    try {
      await send('POST', `${path}/undrain`, {});
      toast(`Worker ${w.worker} may get work again.`);
    } catch (err) {
      failed(err);
    }
  };
  const reset = () => confirm(`Close the circuit of worker ${w.worker}?`, 'It gets work again at once, as if nothing had failed.', 'Close the circuit', async () => {
    await send('POST', `${path}/circuit/reset`);
    toast(`The circuit of worker ${w.worker} is closed.`);
  }, 'primary');
  return [w.circuit && button('Close the circuit', reset, { name: `Close the circuit of ${w.worker}` }), ' ', (w.status === 'active' || w.status === 'unhealthy') && button('Drain', drain, { kind: 'danger', name: `Drain ${w.worker}` }), w.status === 'draining' && button('Undrain', undrain, { name: `Undrain ${w.worker}` })];
}
