// Numbers, times and names as people read them.

import { h, text } from './dom.js';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const stamp = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const hour = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const exact = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 });

// count is a number with its thousands apart: 12,345.
export const count = (n) => whole.format(n ?? 0);

// short is a number in little room: 950, 12.3k, 4.1M.
export function short(n) {
  n ??= 0;
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (n >= size * (size === 1e3 ? 10 : 1)) return trim(n / size) + unit;
  }
  return whole.format(n);
}

const trim = (x) => (x >= 100 ? whole.format(x) : x.toFixed(1).replace(/\.0$/, ''));

// rate is how many a second: 0, 0.02, 3.4, 1,200.
export function rate(perSecond) {
  const r = perSecond ?? 0;
  if (r === 0) return '0';
  if (r < 0.1) return r.toFixed(2).replace(/0$/, '');
  return r < 100 ? trim(r) : short(Math.round(r));
}

// span is a duration in milliseconds in at most two units: 45 ms, 1.2 s, 3m 20s, 2d 4h.
export function span(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–';
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const sec = Math.floor(ms / 1000);
  if (sec < 60) return `${sec} s`;
  if (sec < 3600) return `${Math.floor(sec / 60)}m ${sec % 60}s`;
  if (sec < 86_400) return `${Math.floor(sec / 3600)}h ${Math.floor((sec % 3600) / 60)}m`;
  return `${Math.floor(sec / 86_400)}d ${Math.floor((sec % 86_400) / 3600)}h`;
}

// bytes is a size: 512 B, 1.2 KB, 3 MB.
export function bytes(n) {
  if (n < 1000) return `${n} B`;
  return n < 1e6 ? `${trim(n / 1e3)} KB` : n < 1e9 ? `${trim(n / 1e6)} MB` : `${trim(n / 1e9)} GB`;
}

// The engine's clock: ages are by it, not by that of this machine. A time that comes
// late makes it look slow, so the best of the last few counts.
const TIMES = 16;
const skews = [];
let skew = 0;
export function setClock(engineNow) {
  const t = Date.parse(engineNow);
  if (Number.isNaN(t)) return;
  skews.push(t - Date.now());
  if (skews.length > TIMES) skews.shift();
  skew = Math.max(...skews);
}
export const now = () => Date.now() + skew;

// since is how long ago, or how far ahead, a time is, in words.
export function since(at) {
  const d = now() - at;
  if (Math.abs(d) < 1000) return 'now';
  return d > 0 ? `${coarse(d)} ago` : `in ${coarse(-d)}`;
}

// coarse is a duration in its largest unit.
function coarse(ms) {
  const sec = Math.round(ms / 1000);
  if (sec < 60) return `${sec} s`;
  if (sec < 3600) return `${Math.floor(sec / 60)} min`;
  if (sec < 86_400) return `${Math.floor(sec / 3600)} h`;
  return `${Math.floor(sec / 86_400)} d`;
}

export const when = (at) => stamp.format(at);
export const clock = (at) => hour.format(at);
export const clockExact = (at) => exact.format(at);

// ago is an element that says how long ago a time (RFC 3339) is, and keeps
// saying it; the exact time is its title.
export function ago(rfc) {
  const t = Date.parse(rfc ?? '');
  if (Number.isNaN(t)) return h('span', { class: 'muted' }, '–');
  return h('time', { datetime: rfc, 'data-ago': t, title: when(t) }, since(t));
}

// setAgo changes the time of an element made by ago.
export function setAgo(el, rfc) {
  const t = Date.parse(rfc ?? '');
  if (Number.isNaN(t) || el.dataset.ago === String(t)) return;
  el.dataset.ago = t;
  el.setAttribute('datetime', rfc);
  el.title = when(t);
  text(el, since(t));
}

// startClock keeps all times that are shown up to date.
export function startClock() {
  setInterval(() => {
    if (document.hidden) return;
    for (const el of document.querySelectorAll('time[data-ago]')) text(el, since(Number(el.dataset.ago)));
  }, 1000);
}

// plural is "1 item", "3 items".
export const plural = (n, word, many = `${word}s`) => `${count(n)} ${n === 1 ? word : many}`;

// firstLine is a text up to its first line's end: what follows may be a stack.
export const firstLine = (s = '') => s.split('\n', 1)[0];

// failureText is an item's error on one line. One that never ran has no code.
export const failureText = (e) => (e.code ? `${e.code}: ${firstLine(e.message)}` : firstLine(e.message));
