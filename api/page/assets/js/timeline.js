// An item's history as spans of time, and the picture of them. Pure but for draw.
//
// A span is {kind, from, to (ms, or null: it goes on), attempt?, worker?, outcome?, seq}.
// kinds: queued, backing_off, waiting, claimed, running, and ended (between a
// terminal event and a replay). Outcomes: completed, failed, dead, cancelled, released, snoozed, parked, spawned.

import { h, s } from './dom.js';
import { clockExact, span, when } from './format.js';
import { stateName } from './states.js';

const NEXT = {
  created: 'queued', queued: 'queued', released: 'queued', snoozed: 'queued', rescheduled: null, replayed: 'queued',
  waiting: 'waiting', spawned: 'waiting', parked: 'waiting', claimed: 'claimed', running: 'running',
  completed: 'ended', dead: 'ended', cancelled: 'ended', merged: 'ended', failed: 'failed',
};
const ENDS = new Set(['completed', 'failed', 'dead', 'cancelled', 'released', 'snoozed', 'parked', 'spawned']);

// spans computes them of a history, oldest first, as of now (ms).
export function spans(events, now) {
  const out = [];
  let open = null;
  const close = (to, outcome) => {
    if (!open) return;
    open.to = to;
    if (outcome && (open.kind === 'running' || open.kind === 'claimed')) open.outcome = outcome;
    if (open.kind === 'queued') out.push(...backoff(open, to));
    else if (open.kind !== 'failed') out.push(open);
    open = null;
  };
  for (const ev of events) {
    const at = Date.parse(ev.at);
    const kind = NEXT[ev.kind];
    if (ev.kind === 'rescheduled' && open?.kind === 'queued') {
      close(at);
      open = { kind: 'queued', from: at, due: due(ev), seq: ev.seq };
    } else if (kind) {
      close(at, ENDS.has(ev.kind) ? ev.kind : null);
      open = { kind, from: at, seq: ev.seq, attempt: ev.attempt, worker: ev.worker, due: kind === 'queued' ? due(ev) : 0 };
    }
  }
  if (open && open.kind !== 'ended') {
    const goes = open;
    close(Math.max(now, goes.from));
    out.at(-1).live = true;
  }
  return out.filter((x) => x.to > x.from || x.kind === 'running' || x.live || out.length === 1);
}

const due = (ev) => Date.parse(ev.data?.available_at ?? '') || 0;

// backoff cuts a stay in the queue into the time until it was due, and the rest.
function backoff(stay, to) {
  if (!(stay.due > stay.from)) return [{ ...stay, to }];
  const until = Math.min(stay.due, to);
  const off = { ...stay, kind: 'backing_off', to: until };
  return to > until ? [off, { ...stay, from: until, to }] : [off];
}

const WIDTH = 1000;
const MIN = 5; // the least width of a span, so that it can be seen
const ROW = 26;
const MAX_ROWS = 12; // attempts that are drawn, the last ones

// scale maps times to x. toScale: by length; else a span is as wide as the
// logarithm of its length, so that a run of 5 ms stands beside a wait of a day.
function scale(list, toScale) {
  const marks = [...new Set(list.flatMap((x) => [x.from, x.to]))].sort((a, b) => a - b);
  const weigh = (ms) => (toScale ? ms : Math.log1p(ms / 2) + 0.4);
  const widths = marks.slice(1).map((m, i) => weigh(m - marks[i]));
  const whole = widths.reduce((a, b) => a + b, 0) || 1;
  const at = [0];
  widths.forEach((w) => at.push(at.at(-1) + w / whole * WIDTH));
  const xs = new Map(marks.map((m, i) => [m, at[i]]));
  return { x: (t) => xs.get(t), marks, xs: at };
}

// fits says whether all spans can be seen when they are drawn to scale.
export function fits(list) {
  const whole = Math.max(...list.map((x) => x.to)) - Math.min(...list.map((x) => x.from));
  return list.every((x) => x.to - x.from >= whole * 0.008);
}

// draw makes the picture: one row for the queue, one for each attempt.
export function draw(list, { toScale }) {
  const attempts = [...new Set(list.filter((x) => x.kind === 'claimed' || x.kind === 'running').map((x) => x.attempt ?? 0))];
  const rows = attempts.slice(-MAX_ROWS);
  const shown = list.filter((x) => (x.kind !== 'claimed' && x.kind !== 'running') || rows.includes(x.attempt ?? 0));
  const { x, marks, xs } = scale(shown, toScale);
  const height = (rows.length + 1) * ROW + 4;
  const svg = s('svg', { class: 'timeline-plot', viewBox: `0 0 ${WIDTH} ${height}`, height, preserveAspectRatio: 'none', role: 'img', 'aria-label': describe(list) });
  for (let i = 0; i <= rows.length; i++) svg.append(s('rect', { class: 'timeline-row', x: 0, y: i * ROW + 2, width: WIDTH, height: ROW - 4, rx: 2 }));
  const labels = h('div', { class: 'timeline-labels', 'aria-hidden': 'true' }, h('span', null, 'queue'), rows.map((n) => h('span', null, `attempt ${n}`)));
  for (const sp of shown) {
    const run = sp.kind === 'claimed' || sp.kind === 'running';
    const row = run ? rows.indexOf(sp.attempt ?? 0) + 1 : 0;
    const w = Math.max(MIN, x(sp.to) - x(sp.from));
    const from = Math.min(x(sp.from), WIDTH - w);
    const tone = sp.kind === 'running' ? sp.outcome ?? 'running' : sp.kind;
    svg.append(s('g', { class: `timeline-span st-${tone} kind-${sp.kind}${sp.live ? ' is-live' : ''}`, 'data-seq': sp.seq },
      s('title', null, tell(sp)), s('rect', { x: from, y: row * ROW + (sp.kind === 'ended' ? 12 : 4), width: w, height: sp.kind === 'ended' ? 2 : ROW - 8 })));
  }
  return { svg, labels, ticks: ticks(marks, xs), left: attempts.length - rows.length };
}

// tell is a span in words.
export function tell(sp) {
  const name = sp.live ? { queued: 'has waited in the queue for', backing_off: 'has backed off for', waiting: 'has waited for others for', claimed: 'has been starting for', running: 'has been running for' }[sp.kind] : { queued: 'waited in the queue', backing_off: 'backed off', waiting: 'waited for others', claimed: 'claimed, starting', running: 'ran', ended: 'had ended' }[sp.kind];
  return `${clockExact(sp.from)} ${name} ${span(sp.to - sp.from)}${sp.attempt ? `, attempt ${sp.attempt}` : ''}${sp.worker ? `, ${sp.worker}` : ''}${sp.outcome ? `: ${sp.outcome}` : ''}`;
}

// ticks are a few times below the picture, far enough apart to be read.
function ticks(marks, xs) {
  const out = [];
  let last = -Infinity;
  marks.forEach((m, i) => {
    if (xs[i] - last < 150 && i !== 0) return;
    if (i !== marks.length - 1 && i !== 0 && WIDTH - xs[i] < 150) return;
    out.push({ at: m, x: xs[i] });
    last = xs[i];
  });
  return out;
}

// describe is the whole picture in words, for who can't see it.
export function describe(list) {
  const sum = {};
  for (const sp of list) sum[sp.kind] = (sum[sp.kind] ?? 0) + sp.to - sp.from;
  const parts = Object.entries(sum).filter(([k]) => k !== 'ended').map(([k, ms]) => `${stateName(k)} ${span(ms)}`);
  return list.length ? `Timeline from ${when(list[0].from)}: ${parts.join(', ')}. The table of events below says the same.` : 'Timeline: nothing yet.';
}
