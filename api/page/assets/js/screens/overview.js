// The engine at a glance: figures, the last hour, what needs attention, the nodes,
// types, workers.

import { attr, frame, h, keyed, put, show, text } from '../dom.js';
import { get, isAbort } from '../api.js';
import { live } from '../live.js';
import { lineChart, niceSpan, spark } from '../chart.js';
import { attention } from '../attention.js';
import { count, plural, rate, short, span } from '../format.js';
import { href } from '../router.js';
import { bar, command, empty, panel } from '../ui.js';
import { keys } from '../keys.js';
import { mark, running } from '../states.js';
import { nodesPanel } from './nodespanel.js';

const TRENDS_EVERY = 10_000; // ms: the engine samples as often
const MAX_TYPES = 40;
const MAX_WORKERS = 12;

const alarmsOf = (stats) => (stats?.alarms ?? []).filter((a) => a.severity === 'critical');

export default {
  name: 'overview', title: 'Overview', icon: 'overview', path: [], key: 'o', match: (path) => path.length === 0,
  count: (live) => alarmsOf(live.stats).length,
  mount(el, { signal }) {
    const view = { trends: null, rejected: null, stops: stops(), tiles: tiles(), charts: charts(), needs: needs(), types: types(), workers: workersPanel() };
    const welcome = h('div', { hidden: true });
    el.append(h('h1', null, 'Overview'), view.stops.el, welcome, view.tiles.el,
      h('div', { class: 'overview-grid live-part' }, view.needs.el, view.workers.el), nodesPanel(signal), view.charts.el, view.types.el);
    const draw = () => {
      if (signal.aborted || !live.stats) return;
      const stats = live.stats;
      const nothing = (stats.types ?? []).length === 0;
      if (nothing && !welcome.firstChild) put(welcome, first());
      show(welcome, nothing);
      for (const part of [view.charts.el, view.types.el]) show(part, !nothing);
      const found = attention(stats, view.rejected);
      view.stops.draw(found.filter((n) => n.level === 'stop'));
      view.needs.draw(found);
      for (const part of ['tiles', 'charts', 'types', 'workers']) view[part].draw(stats, view.trends);
    };
    const load = async () => {
      try {
        view.trends = await get('api/v1/trends', { query: { minutes: 60 }, plain: true, signal });
        view.rejected = live.stats?.rejected ? (await get('api/v1/rejected', { query: { limit: 1 }, signal })).rejected?.[0] ?? null : null;
        frame(draw);
      } catch (err) {
        if (!isAbort(err)) text(view.charts.note, err.message);
      }
    };
    const timer = setInterval(() => { if (!document.hidden && live.phase === 'live') load(); }, TRENDS_EVERY);
    signal.addEventListener('abort', () => clearInterval(timer));
    live.on('stats', () => frame(draw), signal);
    live.on('anew', load, signal);
    keys('r', 'Refresh', load, { signal });
    draw();
    load();
  },
};

// first is what an engine shows that has not had any work.
function first() {
  return panel('Nothing has been submitted yet', {}, h('div', { class: 'panel-body empty' },
    h('p', null, 'Submit an item and start a worker for its type. Both appear here at once.'),
    h('p', null, command('engine submit hello \'{"name":"Ada"}\'')), h('p', null, command('engine work hello -- cat')),
    h('p', null, 'Or from any program: ', h('a', { href: 'docs' }, 'the HTTP API'), '.')));
}

const sum = (stats, state) => (stats.types ?? []).reduce((n, t) => n + (t.states?.[state] ?? 0), 0);
const total = (stats, field) => (stats.types ?? []).reduce((n, t) => n + (t[field] ?? 0), 0);
const perSecond = (stats, what) => stats.per_second?.[what] ?? 0;

// tiles are the figures on top, each a link to what it counts.
function tiles() {
  const list = [
    ['Queued', 'queued', { state: 'queued' }, (st) => [short(sum(st, 'queued')), aged(st)]],
    ['Waiting', 'waiting', { state: 'waiting' }, (st) => [short(sum(st, 'waiting')), 'for other items']],
    ['Running', 'running', { state: 'running' }, (st) => [short(sum(st, 'running') + sum(st, 'claimed')), inFlight(st)]],
    ['Completed', 'completed', { state: 'completed' }, (st) => [`${rate(perSecond(st, 'completed'))}/s`, `last minute · ${short(sum(st, 'completed'))} kept`]],
    ['Failed', 'failed', null, (st) => [`${rate(perSecond(st, 'failed'))}/s`, 'attempts, last minute']],
    ['Dead', 'dead', { state: 'dead' }, (st) => [short(sum(st, 'dead')), `${rate(perSecond(st, 'dead'))}/s, last minute`]],
  ];
  const cells = list.map(([name, state, query, read]) => {
    const [value, more] = [h('span', { class: 'tile-value' }, '–'), h('span', { class: 'tile-more' }, '\u00a0')];
    const inside = [h('span', { class: 'tile-name' }, mark(state), name), value, more];
    return { el: query ? h('a', { class: `tile st-${state}`, href: href(['work'], query) }, inside) : h('div', { class: `tile st-${state}` }, inside), value, more, read, name };
  });
  return {
    el: h('div', { class: 'tiles live-part' }, cells.map((c) => c.el)),
    draw(stats) {
      for (const c of cells) {
        const [v, m] = c.read(stats);
        text(c.value, v);
        text(c.more, m);
        attr(c.el, 'data-tile', c.name.toLowerCase());
      }
    },
  };
}

const oldestOf = (st) => st.ages?.oldest_ms ?? Math.max(0, ...(st.types ?? []).map((t) => t.oldest_queued_ms ?? 0));

function aged(st) {
  const oldest = oldestOf(st);
  return `${oldest ? `oldest ${span(oldest)}` : 'none waiting'}${st.scheduled ? ` · ${short(st.scheduled)} not due` : ''}`;
}

// inFlight is what is dispatched or running, of how much that may be.
function inFlight(st) {
  const most = st.capacity ?? total(st, 'capacity');
  return most ? `${short(st.in_flight ?? 0)} in flight, of ${short(most)}` : 'no type yet';
}

// charts are the last hour of all types together.
function charts() {
  const flow = lineChart('Throughput, a second', [{ name: 'completed', tone: 'completed' }, { name: 'failed', tone: 'failed', area: false }, { name: 'submitted', tone: 'queued', area: false }]);
  const depth = lineChart('Depth', [{ name: 'queued', tone: 'queued' }, { name: 'running', tone: 'running', area: false }]);
  const age = lineChart('Oldest in a queue', [{ name: 'age', tone: 'backing_off' }]);
  const note = h('p', { class: 'hint', role: 'status' });
  return {
    note,
    el: h('div', { class: 'charts live-part' }, [flow, depth, age].map((c) => h('div', { class: 'panel panel-body' }, c)), note),
    draw(stats, trends) {
      if (!trends?.at) return;
      const rates = ['completed', 'failed', 'submitted'].map((what) => perSecond(stats, what));
      const all = (field, fold) => trends.at.map((__, i) => fold(Object.values(trends.types ?? {}).map((t) => t[field]?.[i]).filter((v) => v !== null && v !== undefined)));
      const add = (vs) => (vs.length ? vs.reduce((a, b) => a + b, 0) : null);
      const high = (vs) => (vs.length ? Math.max(...vs) : null);
      const second = (field) => all(field, add).map((v) => (v === null ? null : v * 1000 / trends.step_ms));
      text(note, '');
      flow.set(trends.at, [second('completed'), second('failed'), second('submitted')], { format: rate, min: 0.1, now: rates });
      depth.set(trends.at, [all('queued', add), all('running', add)], { format: short, min: 5, now: [sum(stats, 'queued'), sum(stats, 'running') + sum(stats, 'claimed')] });
      age.set(trends.at, [all('oldest_ms', high)], { format: span, min: 1000, round: niceSpan, now: [oldestOf(stats)] });
    },
  };
}

// stops is what keeps the engine from its work, above all else.
function stops() {
  const list = h('ul', { class: 'needs' });
  const el = panel('The engine is refusing or holding work', { name: 'stops' }, list);
  el.setAttribute('role', 'alert');
  show(el, false);
  return { el, draw(found) { listNeeds(list, found); show(el, found.length > 0); } };
}

// listNeeds shows entries of attention.
function listNeeds(list, found) {
  keyed(list, found, (n) => n.key,
    () => h('li', null, h('span', { class: 'needs-mark' }), h('div', null, h('strong'), h('p', { class: 'muted' }), h('div'), h('ul', { class: 'needs-list' }), h('p', { class: 'needs-links' }))),
    (li, n) => {
      if (li.dataset.said === JSON.stringify(n)) return;
      li.dataset.said = JSON.stringify(n);
      const grave = n.level !== 'warn';
      attr(li, 'class', `need need-${grave ? 'bad' : 'warn'}`);
      put(li.firstChild, mark(grave ? 'failed' : 'backing_off'), h('span', { class: 'sr' }, grave ? 'Urgent: ' : 'Note: '));
      const [title, said, run, list, links] = li.lastChild.children;
      text(title, n.title);
      text(said, n.text);
      if (run.dataset.line !== (n.command ?? '')) put(run, n.command && command(n.command));
      run.dataset.line = n.command ?? '';
      put(list, (n.list ?? []).map((of) => h('li', null, of.name ? [h('a', { href: of.href }, of.name), of.text && h('span', { class: 'muted' }, `: ${of.text}`)] : h('a', { href: of.href }, of.text))));
      put(links, n.links.map((l) => h('a', { href: l.href }, l.text)));
    });
}

// needs is the list of what needs attention beside that.
function needs() {
  const list = h('ul', { class: 'needs' });
  const none = h('p', { class: 'panel-body muted', hidden: true }, h('span', { class: 'ok' }, mark('completed'), ' Nothing. '), 'Every type with work has a worker, no circuit is open, and nothing has died recently.');
  return {
    el: panel('Needs attention', { name: 'needs' }, list, none),
    draw(found) {
      listNeeds(list, found.filter((n) => n.level !== 'stop'));
      show(none, found.length === 0);
    },
  };
}

// types is the table of types, those that have most to say first.
function types() {
  const body = h('tbody');
  const more = h('p', { class: 'panel-body hint', hidden: true });
  const head = ['Type', 'Queued', 'last hour', 'Oldest', 'Running', 'In flight', 'Done/s', 'last hour', 'Dead', 'Workers', 'Mean run'];
  const nums = new Set([1, 3, 4, 6, 8, 9, 10]);
  const busy = (t) => (t.states?.queued ?? 0) + 10 * (t.in_flight ?? 0) + (t.states?.dead ?? 0) + (t.paused || t.circuit ? 1e9 : 0);
  return {
    el: panel('Types', { tools: h('a', { href: href(['types']) }, 'All settings') },
      h('div', { class: 'scroll-x', tabindex: 0, role: 'region', 'aria-label': 'Types' }, h('table', { class: 'types live-part' }, h('thead', null, h('tr', null, head.map((c, i) => h('th', { scope: 'col', class: nums.has(i) ? 'num' : null }, c)))), body)), more),
    draw(stats, trends) {
      const list = [...(stats.types ?? [])].sort((a, b) => busy(b) - busy(a) || a.type.localeCompare(b.type));
      keyed(body, list.slice(0, MAX_TYPES), (t) => t.type, typeRow, (tr, t) => tr.set(t, trends));
      show(text(more, `${plural(list.length - MAX_TYPES, 'further type')}: see Types.`), list.length > MAX_TYPES);
    },
  };
}

function typeRow(t) {
  const cells = Object.fromEntries(['flags', 'queued', 'oldest', 'running', 'flight', 'rate', 'dead', 'workers', 'mean'].map((k) => [k, h('span')]));
  const [depth, done] = [spark({ tone: 'queued' }), spark({ tone: 'completed' })];
  const cap = bar(`capacity used of ${t.type}`);
  const work = (state, inside) => h('a', { href: href(['work'], { type: t.type, state }) }, inside);
  const tr = h('tr', { 'data-type': t.type }, h('th', { scope: 'row' }, h('a', { href: href(['types', t.type]) }, t.type), ' ', cells.flags),
    h('td', { class: 'num' }, work('queued', cells.queued)), h('td', null, depth), h('td', { class: 'num' }, cells.oldest),
    h('td', { class: 'num' }, work('running', cells.running)), h('td', { class: 'nowrap', title: 'dispatched or running, of the type’s capacity' }, cap, ' ', cells.flight), h('td', { class: 'num' }, cells.rate), h('td', null, done),
    h('td', { class: 'num' }, work('dead', cells.dead)), h('td', { class: 'num' }, cells.workers), h('td', { class: 'num' }, cells.mean));
  tr.set = (now, trends) => {
    const flags = [now.paused && 'paused', now.circuit && `circuit ${now.circuit.state.replace('_', ' ')}`, now.starving && 'starving'].filter(Boolean);
    if (cells.flags.dataset.said !== flags.join()) {
      cells.flags.dataset.said = flags.join();
      put(cells.flags, flags.map((f) => h('span', { class: `tag ${f.startsWith('circuit') ? 'tag-bad' : 'tag-warn'}` }, f)));
    }
    text(cells.queued, count(now.states?.queued));
    text(cells.oldest, now.oldest_queued_ms ? span(now.oldest_queued_ms) : '–');
    text(cells.running, count(running(now)));
    text(cells.flight, `${count(now.in_flight)} / ${count(now.capacity)}`);
    cap.set(now.in_flight ?? 0, now.capacity ?? 0);
    text(cells.rate, rate(now.per_second?.completed));
    text(cells.dead, count(now.states?.dead));
    attr(cells.dead, 'class', now.states?.dead ? 'bad' : 'muted');
    text(cells.workers, now.desired_workers > now.workers ? `${now.workers} (${now.desired_workers} wanted)` : now.workers);
    attr(cells.workers, 'class', now.workers === 0 && now.states?.queued ? 'bad' : null);
    text(cells.mean, now.mean_run_ms ? span(now.mean_run_ms) : '–');
    const trend = trends?.types?.[now.type];
    depth.set(trend?.queued ?? [], `queued over the last hour, now ${count(now.states?.queued)}`);
    done.set(trend?.completed ?? [], `completed over the last hour, now ${rate(now.per_second?.completed)} a second`);
  };
  return tr;
}

// workersPanel is who works, in short.
function workersPanel() {
  const line = h('p', { class: 'muted' });
  const list = h('ul', { class: 'mini-workers' });
  const none = h('div', { hidden: true }, empty('No worker is registered', 'Items wait until one comes. Start one for a type:', ['engine work TYPE -- COMMAND']));
  return {
    el: panel('Workers', { tools: h('a', { href: href(['workers']) }, 'All workers'), name: 'workers' }, h('div', { class: 'panel-body' }, line, list), none),
    draw() {
      const all = live.workers;
      const by = (st) => all.filter((w) => w.status === st).length;
      const slots = all.filter((w) => w.status !== 'dead').reduce((n, w) => n + w.slots, 0);
      const used = all.filter((w) => w.status !== 'dead').reduce((n, w) => n + (w.in_flight ?? 0), 0);
      text(line, [`${count(used)} of ${plural(slots, 'slot')} used`, ...['active', 'draining', 'unhealthy', 'dead'].filter(by).map((st) => `${by(st)} ${st}`)].join(' · '));
      const shown = [...all].sort((a, b) => (b.in_flight ?? 0) - (a.in_flight ?? 0) || a.worker.localeCompare(b.worker)).slice(0, MAX_WORKERS);
      keyed(list, shown, (w) => w.worker, (w) => {
        const meter = bar(`slots used of ${w.worker}`);
        const li = h('li', null, h('a', { class: 'mini-name', href: href(['workers'], { worker: w.worker }) }, w.worker), h('span', { class: 'muted mini-types' }), h('span', { class: 'tag', hidden: true }), meter, h('span', { class: 'num' }));
        li.meter = meter;
        return li;
      }, (li, w) => {
        const [, kinds, status, , slotsUsed] = li.children;
        text(kinds, (w.types ?? []).slice(0, 6).join(', '));
        show(attr(text(status, w.status), 'class', `tag ${w.status === 'dead' ? 'tag-bad' : 'tag-warn'}`), w.status !== 'active');
        li.meter.set(w.in_flight ?? 0, w.slots);
        text(slotsUsed, `${w.in_flight ?? 0}/${w.slots}`);
      });
      show(none, all.length === 0);
      show(line, all.length > 0);
    },
  };
}
