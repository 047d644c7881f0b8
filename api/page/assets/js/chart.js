// Small charts, in SVG. Series are arrays of numbers or null (not known), one for
// each time; what has more points than MAX_POINTS is thinned, keeping each
// stretch's highest value, so that a peak can't get lost.

import { attr, h, put, s, show, text } from './dom.js';
import { clock } from './format.js';

export const MAX_POINTS = 180;

// thin makes n values at most MAX_POINTS: the highest of each stretch.
export function thin(values, most = MAX_POINTS) {
  if (values.length <= most) return values;
  const out = [];
  for (let i = 0; i < most; i++) {
    const part = values.slice(Math.floor(i * values.length / most), Math.floor((i + 1) * values.length / most));
    const is = part.filter((v) => v !== null && v !== undefined);
    out.push(is.length ? Math.max(...is) : null);
  }
  return out;
}

// nice is the next round number from v on whose half is round as well: the top of
// an axis.
export function nice(v) {
  if (!(v > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 4, 6, 8, 10].find((f) => f * unit >= v * 0.9999) * unit;
}

// niceSpan is nice for milliseconds.
export function niceSpan(ms) {
  const day = 86_400;
  const s = ms / 1000;
  const top = [1, 2, 4, 10, 20, 40, 60, 120, 240, 600, 1200, 2400, 3600, 2 * 3600, 4 * 3600, day / 2, day].find((f) => f >= s);
  return (top ?? nice(s / day) * day) * 1000;
}

// path draws a line through values in a box of w by h, with gaps where nothing is
// known; area closes it down to the ground.
function path(values, top, w, hgt, area) {
  const step = values.length > 1 ? w / (values.length - 1) : 0;
  const y = (v) => (hgt - (v / top) * hgt).toFixed(1);
  let d = '';
  let from = -1;
  for (let i = 0; i <= values.length; i++) {
    const v = values[i];
    if (v !== null && v !== undefined) {
      d += `${from < 0 ? 'M' : 'L'}${(i * step).toFixed(1)} ${y(v)}`;
      if (from < 0) from = i;
    } else if (from >= 0) {
      if (area) d += `L${((i - 1) * step).toFixed(1)} ${hgt}L${(from * step).toFixed(1)} ${hgt}Z`;
      else if (i - 1 === from) d += `h1`; // a lone point is seen, too
      from = -1;
    }
  }
  return d;
}

// spark is a line in a table's cell. set(values, label) draws; top fixes its height.
export function spark({ w = 96, h: hgt = 22, tone = 'queued' } = {}) {
  const fill = s('path', { class: 'chart-area' });
  const line = s('path', { class: 'chart-line' });
  const el = s('svg', { class: `spark st-${tone}`, viewBox: `0 -2 ${w} ${hgt + 3}`, width: w, height: hgt + 3, role: 'img', preserveAspectRatio: 'none' }, fill, line);
  el.set = (values, label, top) => {
    const v = thin(values, w);
    const high = top ?? Math.max(1e-9, ...v.filter((x) => x !== null && x !== undefined));
    attr(fill, 'd', path(v, high, w, hgt, true));
    attr(line, 'd', path(v, high, w, hgt, false));
    attr(el, 'aria-label', label);
  };
  return el;
}

const W = 400;
const H = 108;

// lineChart is a chart with an axis, a legend, and the values under the pointer or
// the arrow keys. series are {name, tone, area?}; set(at, lists, {format, min,
// round, now}) draws; round makes the top of the axis. now are the figures of this
// moment, for the legend: the last sample may be ten seconds old.
export function lineChart(title, series) {
  const grid = s('g', { class: 'chart-grid' });
  const plots = series.map((se) => ({ ...se, fill: s('path', { class: `chart-area st-${se.tone}` }), line: s('path', { class: `chart-line st-${se.tone}` }) }));
  const cursor = s('line', { class: 'chart-cursor', y1: 0, y2: H, hidden: true, visibility: 'hidden' });
  const svg = s('svg', { viewBox: `0 -4 ${W} ${H + 8}`, preserveAspectRatio: 'none', class: 'chart-plot', role: 'img', 'aria-label': `${title}: nothing yet` },
    grid, plots.map((p) => [p.area !== false && p.fill, p.line]), cursor);
  const topLabel = h('span', { class: 'chart-top' });
  const midLabel = h('span', { class: 'chart-mid' });
  const none = h('span', { class: 'chart-none' }, 'The first sample arrives within ten seconds.');
  const values = plots.map((p) => h('span', { class: 'chart-value' }, '–'));
  const legend = h('ul', { class: 'chart-legend' }, plots.map((p, i) => h('li', { class: `st-${p.tone}` },
    s('svg', { class: 'chart-key', viewBox: '0 0 12 8', width: 12, height: 8, 'aria-hidden': 'true' }, s('path', { class: `chart-line st-${p.tone}`, d: 'M0 4h12' })),
    `${p.name} `, values[i])));
  const times = h('div', { class: 'chart-times', 'aria-hidden': 'true' });
  const box = h('div', { class: 'chart-box', tabindex: 0, role: 'group', 'aria-label': `${title}: arrow keys read the values` }, svg, topLabel, midLabel, none);
  const el = h('figure', { class: 'chart' }, h('figcaption', null, h('span', { class: 'chart-title' }, title), legend), box, times);

  let data = { at: [], lists: [], format: String, now: [] };
  let pick = -1;
  const say = () => {
    plots.forEach((_, n) => {
      const v = (pick >= 0 ? data.lists[n]?.[pick] : data.now[n] ?? data.lists[n]?.at(-1)) ?? null;
      text(values[n], v === null ? '–' : data.format(v));
    });
    attr(el, 'data-picked', pick >= 0 ? clock(data.at[pick]) : null);
    attr(cursor, 'visibility', pick >= 0 ? 'visible' : 'hidden');
    if (pick >= 0) {
      const x = data.at.length > 1 ? pick / (data.at.length - 1) * W : 0;
      attr(attr(cursor, 'x1', x), 'x2', x);
      text(times.children[1] ?? times, clock(data.at[pick]));
    } else if (times.children[1]) text(times.children[1], '');
  };
  const choose = (i) => { pick = i; say(); };
  box.addEventListener('pointermove', (ev) => {
    const r = box.getBoundingClientRect();
    if (data.at.length) choose(Math.max(0, Math.min(data.at.length - 1, Math.round((ev.clientX - r.left) / r.width * (data.at.length - 1)))));
  });
  box.addEventListener('pointerleave', () => choose(-1));
  box.addEventListener('blur', () => choose(-1));
  box.addEventListener('keydown', (ev) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[ev.key];
    if (!by || !data.at.length) return;
    ev.preventDefault();
    choose(Math.max(0, Math.min(data.at.length - 1, (pick < 0 ? data.at.length - 1 : pick) + by)));
  });

  el.set = (at, lists, { format = String, min = 1, round = nice, now = [] } = {}) => {
    const thinned = lists.map((l) => thin(l));
    data = { at: at.length > MAX_POINTS ? thinned[0].map((_, i) => at[Math.min(at.length - 1, Math.floor((i + 1) * at.length / MAX_POINTS) - 1)]) : at, lists: thinned, format, now };
    const top = round(Math.max(min, ...thinned.flat().filter((v) => v !== null && v !== undefined)));
    put(grid, [0, 0.5, 1].map((f) => s('line', { x1: 0, x2: W, y1: H * f, y2: H * f })));
    plots.forEach((p, i) => {
      attr(p.fill, 'd', path(thinned[i], top, W, H, true));
      attr(p.line, 'd', path(thinned[i], top, W, H, false));
    });
    show(none, at.length === 0);
    text(topLabel, at.length ? format(top) : '');
    text(midLabel, at.length ? format(top / 2) : '');
    if (times.children.length === 0) put(times, h('span'), h('span', { class: 'chart-picked' }), h('span'));
    text(times.children[0], at.length ? clock(at[0]) : '');
    text(times.children[2], at.length ? 'now' : '');
    attr(svg, 'aria-label', `${title} over the last hour. ${plots.map((p, i) => `${p.name}: now ${format(now[i] ?? thinned[i].at(-1) ?? 0)}, at most ${format(Math.max(0, ...thinned[i].filter((v) => v !== null && v !== undefined)))}`).join('. ')}.`);
    say();
  };
  return el;
}
