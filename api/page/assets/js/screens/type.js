// One type: how it does, its pause and circuit, and its settings.

import { frame, h, put, show, text } from '../dom.js';
import { get, isAbort } from '../api.js';
import { live } from '../live.js';
import { lineChart, niceSpan } from '../chart.js';
import { ago, count, rate, short, span } from '../format.js';
import { go, href } from '../router.js';
import { button, problem } from '../ui.js';
import { keys } from '../keys.js';
import { BATCH, mark, running } from '../states.js';
import { pauseDialog, removeType, resetCircuit, resume, typePath } from './typeactions.js';
import { settingsForm } from './typesettings.js';
import { flagsOf } from './types.js';
import { newItem } from './newitem.js';

const TRENDS_EVERY = 10_000; // ms: the engine samples as often

export default {
  name: 'type', title: 'Type', within: 'types', match: (path) => path[0] === 'types' && path.length === 2,
  mount(el, { route, signal, title }) {
    const name = route.path[1];
    title(`Type ${name}`);
    const [flags, tools, notices, gone] = [h('span'), h('div', { class: 'tools' }), h('div', { class: 'notices' }), h('div')];
    const [tiles, charts, form] = [tilesOf(name), chartsOf(), settingsForm(name)];
    const parts = h('div', { class: 'item-parts' }, notices, h('div', { class: 'live-part' }, tiles.el), h('div', { class: 'live-part' }, charts.el), form.el);
    el.append(h('div', { class: 'screen-head' }, h('h1', null, name), flags, tools), gone, parts);
    const submit = () => newItem({ type: name });
    const runs = name !== BATCH;
    let said = '';
    let hour = null;
    const draw = () => {
      const t = (live.stats?.types ?? []).find((x) => x.type === name);
      if (signal.aborted || !t) return;
      tiles.draw(t);
      charts.draw(hour, name, t);
      const now = JSON.stringify([t.paused, t.circuit, t.starving > 0]);
      if (now === said) return;
      said = now;
      put(flags, flagsOf(t).map((f) => [h('span', { class: `tag ${f.startsWith('circuit') ? 'tag-bad' : 'tag-warn'}` }, f), ' ']));
      put(notices, noticesOf(t));
      put(tools, runs && button('New item', submit, { kind: t.paused ? 'plain' : 'primary', key: 'n' }), t.circuit && button('Close the circuit', () => resetCircuit(name), { key: 'c' }), t.paused ? button('Resume', () => resume(name), { kind: 'primary', key: 'p' }) : runs && button('Pause', () => pauseDialog(name), { key: 'p' }),
        button('Remove', () => removeType(name, () => go(href(['types'])))));
    };
    const load = async () => {
      try {
        const t = await get(typePath(name), { signal });
        put(gone);
        show(parts, true);
        form.set(t);
        draw();
      } catch (err) {
        if (isAbort(err)) return;
        show(parts, false);
        put(gone, err.status === 404 ? h('div', { class: 'empty panel', role: 'alert' }, h('p', { class: 'empty-title' }, 'No such type'), h('p', null, err.message), h('p', null, h('a', { href: href(['types']) }, 'All types'))) : problem(err, load));
      }
    };
    const trends = async () => {
      try {
        hour = await get('api/v1/trends', { query: { minutes: 60, types: name }, plain: true, signal });
        draw();
      } catch (err) {
        if (!isAbort(err)) text(charts.note, err.message);
      }
    };
    const timer = setInterval(() => { if (!document.hidden && live.phase === 'live') trends(); }, TRENDS_EVERY);
    signal.addEventListener('abort', () => clearInterval(timer));
    live.on('stats', () => frame(draw), signal);
    live.on('anew', () => { load(); trends(); }, signal);
    keys('p', 'Pause or resume', () => tools.querySelector('[data-key=p]')?.click(), { signal });
    keys('c', 'Close the circuit', () => tools.querySelector('[data-key=c]')?.click(), { signal });
    keys('u', 'Back to the list', () => go(href(['types'])), { signal });
    if (runs) keys('n', 'New item', submit, { signal });
    charts.draw(null, name, null);
    draw();
    load();
    trends();
  },
};

const why = { consecutive: 'in a row', ratio: 'too large a share', probe: 'the probes failed too' }; // a circuit opened

function noticesOf(t) {
  const out = [];
  if (t.paused) out.push(h('div', { class: 'notice' }, h('strong', null, 'Paused'), t.paused.reason ? `: “${t.paused.reason}”` : ', no reason given', t.paused.by && `, by ${t.paused.by}`, t.paused.at && [', ', ago(t.paused.at)], '. ', t.paused.until ? ['Until ', ago(t.paused.until), '.'] : 'Its items wait until it is resumed.'));
  if (t.circuit) {
    const c = t.circuit;
    out.push(h('div', { class: 'notice notice-bad' }, h('strong', null, `Circuit ${c.state.replace('_', ' ')}`), `: its runs failed too often (${why[c.reason] ?? c.reason}), `, ago(c.since), c.opens > 1 && `, for the ${c.opens}th time in a row`, '. ',
      c.until ? ['Next probe: ', ago(c.until), '.'] : `${c.probing ?? 0} runs probe it.`));
  }
  return out;
}

function tilesOf(name) {
  const list = [
    ['Queued', 'queued', { state: 'queued' }, (t) => [short(t.states?.queued ?? 0), t.oldest_queued_ms ? `oldest ${span(t.oldest_queued_ms)}` : 'none waiting']],
    ['Running', 'running', { state: 'running' }, (t) => [count(running(t)), `${count(t.in_flight)} in flight, of ${count(t.capacity)}`]],
    ['Completed', 'completed', { state: 'completed' }, (t) => [`${rate(t.per_second?.completed)}/s`, t.mean_run_ms ? `mean run ${span(t.mean_run_ms)}` : t.per_second?.completed ? 'mean run below 1 ms' : 'none in the last minute']],
    ['Failed', 'failed', null, (t) => [`${rate(t.per_second?.failed)}/s`, 'attempts, last minute']],
    ['Dead', 'dead', 'dead', (t) => [short(t.states?.dead ?? 0), `${rate(t.per_second?.dead)}/s, last minute`]],
    ['Workers', 'claimed', 'workers', (t) => [count(t.workers), `${count(t.desired_workers)} wanted · ${count(t.slots)} slots`]],
  ];
  const to = (query) => (query === 'dead' ? href(['dead'], { type: name }) : query === 'workers' ? href(['workers'], { worker: name }) : href(['work'], { type: name, ...query }));
  const cells = list.map(([label, state, query, read]) => {
    const [value, more] = [h('span', { class: 'tile-value' }, '–'), h('span', { class: 'tile-more' }, '\u00a0')];
    const inside = [h('span', { class: 'tile-name' }, mark(state), label), value, more];
    return { el: h(query ? 'a' : 'div', { class: `tile st-${state}`, href: query ? to(query) : null, 'data-tile': label.toLowerCase() }, inside), value, more, read };
  });
  return { el: h('div', { class: 'tiles' }, cells.map((c) => c.el)), draw(t) { for (const c of cells) { const [v, m] = c.read(t); text(c.value, v); text(c.more, m); } } };
}

function chartsOf() {
  const flow = lineChart('Throughput, a second', [{ name: 'completed', tone: 'completed' }, { name: 'failed', tone: 'failed', area: false }, { name: 'submitted', tone: 'queued', area: false }]);
  const depth = lineChart('Depth', [{ name: 'queued', tone: 'queued' }, { name: 'running', tone: 'running', area: false }]);
  const age = lineChart('Oldest in the queue', [{ name: 'age', tone: 'backing_off' }]);
  const note = h('p', { class: 'hint', role: 'status' });
  return {
    note, el: h('div', { class: 'charts' }, [flow, depth, age].map((c) => h('div', { class: 'panel panel-body' }, c)), note),
    draw(trends, name, type) {
      const t = trends?.types?.[name] ?? {};
      const at = trends?.at ?? [];
      const second = (field) => (t[field] ?? []).map((v) => (v === null ? null : v * 1000 / trends.step_ms));
      text(note, '');
      flow.set(at, [second('completed'), second('failed'), second('submitted')], { format: rate, min: 0.1, now: type ? ['completed', 'failed', 'submitted'].map((what) => type.per_second?.[what] ?? 0) : [] });
      depth.set(at, [t.queued ?? [], t.running ?? []], { format: short, min: 5, now: type ? [type.states?.queued ?? 0, running(type)] : [] });
      age.set(at, [t.oldest_ms ?? []], { format: span, min: 1000, round: niceSpan, now: type ? [type.oldest_queued_ms ?? 0] : [] });
    },
  };
}
