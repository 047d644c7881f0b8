// An item's history: the picture of its timeline, and the table of its events.

import { h, keyed, put, show, text } from '../dom.js';
import { clockExact, count, firstLine, now, plural, span, when } from '../format.js';
import { href } from '../router.js';
import { panel } from '../ui.js';
import { eventName } from '../states.js';
import { describe, draw, fits, spans, tell } from '../timeline.js';

const MAX_EVENTS = 500; // that the picture is made of: the last ones
const PAGE = 60; // rows of the table

const keys = [['queued', 'in the queue'], ['backing_off', 'backing off or not due'], ['waiting', 'waiting'], ['claimed', 'starting'], ['running', 'running'],
  ['completed', 'completed'], ['failed', 'failed'], ['dead', 'died'], ['cancelled', 'cancelled'], ['released', 'given back'], ['snoozed', 'snoozed'], ['parked', 'began to wait'], ['spawned', 'spawned children'],
  ['ended', 'had ended']];

// history makes both for a view with item and at.
export function history(view) {
  const plot = h('div', { class: 'timeline' });
  const words = h('p', { class: 'timeline-words muted', role: 'status', 'aria-live': 'off' });
  const toScale = h('input', { type: 'checkbox', onchange: () => { chosen = toScale.checked; update(); } });
  const legend = h('ul', { class: 'timeline-legend', 'aria-hidden': 'true' });
  const totals = h('span');
  const body = h('tbody');
  const more = h('button', { type: 'button', class: 'button button-quiet', onclick: () => { rows += PAGE; table(); } }, 'Show earlier events');
  let chosen = null; // whether to scale, if the operator has said so
  let rows = PAGE;

  const events = () => view.item?.history?.events ?? [];

  function update() {
    const list = spans(events().slice(-MAX_EVENTS), view.item?.as_of ? Date.parse(view.item.as_of.at) : now());
    if (list.length === 0) {
      put(plot, h('p', { class: 'muted' }, events().length ? 'All of it happened within a millisecond: see the events.' : 'Nothing has happened yet.'));
      return;
    }
    const scaled = chosen ?? fits(list);
    toScale.checked = scaled;
    const { svg, labels, ticks, left } = draw(list, { toScale: scaled });
    svg.addEventListener('pointermove', (ev) => {
      const g = ev.target.closest?.('.timeline-span');
      text(words, g ? g.querySelector('title').textContent : words.dataset.rest);
    });
    svg.addEventListener('pointerleave', () => text(words, words.dataset.rest));
    const oneDay = ticks.at(-1).at - ticks[0].at < 86_400_000;
    const axis = h('div', { class: 'timeline-axis', 'aria-hidden': 'true' }, ticks.map((t, i) => h('span', { class: i === 0 ? 'at-start' : t.x > 850 ? 'at-end' : null }, oneDay ? clockExact(t.at) : when(t.at))));
    axis.childNodes.forEach((el, i) => { el.style.left = `${ticks[i].x / 10}%`; });
    put(plot, labels, h('div', { class: 'timeline-main' }, svg, axis));
    words.dataset.rest = `${left > 0 ? `The last attempts; ${count(left)} earlier ones are in the table. ` : ''}${scaled ? '' : 'Not to scale: longer is wider, but not in proportion. '}${list.at(-1).live ? 'Now' : 'Last'}: ${tell(list.at(-1)).replace(/^\S+ /, '')}.`;
    if (!plot.matches(':hover')) text(words, words.dataset.rest);
    const used = new Set(list.map((x) => (x.kind === 'running' ? x.outcome ?? 'running' : x.kind)));
    if (legend.dataset.used !== [...used].join()) {
      legend.dataset.used = [...used].join();
      put(legend, keys.filter(([k]) => used.has(k)).map(([k, name]) => h('li', { class: `st-${k}` }, h('span', { class: `swatch kind-${k}` }), name)));
    }
    const t = view.item.history?.totals ?? {};
    text(totals, [['waited', t.waited_ms], ['backed off', t.backed_off_ms], ['held', t.held_ms], ['ran', t.ran_ms]].filter(([, v]) => v).map(([n, v]) => `${n} ${span(v)}`).join(' · '));
  }

  function table() {
    const all = events();
    const shown = all.slice(-rows).reverse();
    keyed(body, shown, (ev) => ev.seq, (ev) => row(view, ev, all));
    show(more, all.length > shown.length);
  }

  const picture = panel('Timeline', { tools: [totals, h('label', { class: 'check' }, toScale, ' to scale')], name: 'timeline' }, h('div', { class: 'panel-body' }, plot, words, legend));
  const box = panel('Events', { name: 'history' }, h('div', { class: 'scroll-x' }, h('table', { class: 'history-table' },
    h('thead', null, h('tr', null, ['Seq', 'When', 'Event', 'Detail'].map((c) => h('th', { scope: 'col' }, c)))), body)), more);
  return { picture, table: box, draw() { update(); table(); }, describe: () => describe(spans(events(), now())) };
}

// row is an event; its number leads to the item as it was right after it.
function row(view, ev, all) {
  const i = all.indexOf(ev);
  const before = i > 0 ? Date.parse(ev.at) - Date.parse(all[i - 1].at) : null;
  return h('tr', { 'data-kind': ev.kind }, h('td', null, h('a', { class: 'mono', href: href(['work', view.id], { at: ev.seq }), title: 'The item as it was right after this event' }, String(ev.seq))),
    h('td', { class: 'nowrap', title: when(Date.parse(ev.at)) }, clockExact(Date.parse(ev.at)), before !== null && h('span', { class: 'muted delta' }, ` +${span(before)}`)),
    h('td', { class: 'nowrap', title: ev.kind }, eventName(ev.kind), ev.attempt && h('span', { class: 'muted' }, ` ${ev.attempt}`)), h('td', { class: 'history-detail' }, detail(ev)));
}

const skip = new Set(['params', 'result', 'checkpoint', 'token', 'digest', 'order_at', 'traceparent', 'start_by', 'cause', 'outcomes', 'rates', 'provenance']);
const repeated = new Set(['error', 'code']); // of a dead event: the failed one in front of it has them
const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/;

// detail is what an event says beyond its kind, in short.
export function detail(ev) {
  const parts = [ev.worker && h('span', null, ev.worker)];
  for (const [k, v] of Object.entries(ev.data ?? {})) {
    if (skip.has(k) || v === null || v === undefined || (ev.kind === 'dead' && repeated.has(k))) continue;
    if (k === 'children') parts.push(plural(v.length, 'child', 'children'));
    else if (k === 'labels') parts.push(Object.entries(v).map(([n, l]) => `${n}=${l}`).join(', '));
    else if (typeof v === 'string' && moment.test(v)) parts.push(h('span', { title: when(Date.parse(v)) }, momentOf(k, Date.parse(v) - Date.parse(ev.at))));
    else if (v === true) parts.push(k.replaceAll('_', ' '));
    else if (k.endsWith('_ms')) parts.push(`${k.slice(0, -3).replaceAll('_', ' ')} ${span(Number(v))}`);
    else parts.push(clip(k === 'error' || k === 'reason' || k === 'message' ? String(v) : `${k.replaceAll('_', ' ')} ${typeof v === 'string' ? v : JSON.stringify(v)}`));
  }
  return parts.filter(Boolean).flatMap((p, n) => (n ? [' · ', p] : [p])).flat();
}

// momentOf is a moment that an event names, told from when the event was: it is past
// as soon as anyone reads of it.
function momentOf(field, after) {
  const name = field.replace(/_at$/, '').replaceAll('_', ' ');
  return Math.abs(after) < 1 ? `${name} at once` : after > 0 ? `${name} ${span(after)} later` : `${name} ${span(-after)} earlier`;
}

const clip = (t) => {
  const line = firstLine(t);
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
};
