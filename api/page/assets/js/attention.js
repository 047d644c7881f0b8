// What of the engine's figures needs someone's attention, and what to do about
// it. Pure: stats, workers, and trends in, a list out, the gravest first.
//
// Each is {level: 'bad'|'warn', key, title, text, links: [{text, href}]}.

import { href } from './router.js';
import { count, plural, span } from './format.js';

const NEAR = 0.8; // of a limit
const MAX_SHOWN = 30;

export function attention(stats, workers, trends) {
  const out = [];
  const add = (level, key, title, text, ...links) => out.push({ level, key, title, text, links });
  for (const t of stats.types ?? []) ofType(t, workers, trends?.types?.[t.type], add);
  for (const c of stats.worker_circuits ?? []) {
    add('bad', `wc ${c.worker}`, `Circuit of worker ${c.worker} is ${c.state.replace('_', ' ')}`, 'Its runs failed too often: it gets nothing until a probe succeeds.', { text: 'Workers', href: href(['workers']) });
  }
  for (const w of workers) {
    if (w.status === 'unhealthy') add('warn', `wu ${w.worker}`, `Worker ${w.worker} is unhealthy`, w.reason || 'It takes nothing new until it is well again.', { text: 'Workers', href: href(['workers']) });
    if (w.status === 'dead') add('warn', `wd ${w.worker}`, `Worker ${w.worker} has died`, 'It has been silent for too long: what it ran is given to others.', { text: 'Workers', href: href(['workers']) });
  }
  const all = (stats.types ?? []).reduce((n, t) => n + waiting(t), 0);
  if (stats.max_queued && all >= stats.max_queued * NEAR) {
    add('bad', 'limit', 'The queue is near the engine’s limit', `${count(all)} of ${count(stats.max_queued)} items: beyond it submissions are refused (queue_full).`);
  }
  if (stats.rejected > 0) {
    add('warn', 'rejected', `${plural(stats.rejected, 'submission')} rejected`, 'They became no item. They are kept: look at them, correct them, submit them again.', { text: 'Rejected', href: href(['dead'], { show: 'rejected' }) });
  }
  const rank = { bad: 0, warn: 1 };
  return out.sort((a, b) => rank[a.level] - rank[b.level]).slice(0, MAX_SHOWN);
}

const waiting = (t) => (t.states?.queued ?? 0) + (t.states?.waiting ?? 0);

function ofType(t, workers, trend, add) {
  const queued = t.states?.queued ?? 0;
  const list = { text: 'Queued items', href: href(['work'], { type: t.type, state: 'queued' }) };
  const settings = { text: 'Settings', href: href(['types', t.type]) };
  if (t.circuit) {
    add('bad', `c ${t.type}`, `Circuit of ${t.type} is ${t.circuit.state.replace('_', ' ')}`,
      `Its runs failed too often (${t.circuit.reason}): ${t.circuit.state === 'open' ? 'nothing is sent out until it is tried again' : 'a few runs try it'}. ${plural(queued, 'item')} queued.`, settings);
  }
  if (t.paused) {
    add('warn', `p ${t.type}`, `${t.type} is paused`, `${t.paused.reason ? `“${t.paused.reason}”` : 'Without a reason'}${t.paused.by ? `, by ${t.paused.by}` : ''}. ${plural(queued, 'item')} held back.`, settings, list);
  } else if (queued > (t.scheduled ?? 0) && t.workers === 0) {
    add('bad', `w ${t.type}`, `No worker for ${t.type}`, `${plural(queued, 'item')} queued${t.oldest_queued_ms ? `, the oldest for ${span(t.oldest_queued_ms)}` : ''}. Start one: engine work ${t.type} -- COMMAND`, list);
  }
  if (t.starving) {
    add('warn', `s ${t.type}`, `${t.type} is starving`, `Items of low priority have waited ${t.oldest_queued_ms ? span(t.oldest_queued_ms) : 'for long'}, close to the longest that they can be overtaken: there are too few workers${t.desired_workers ? ` (${t.workers} of ${t.desired_workers})` : ''}.`, list, settings);
  }
  if (t.max_queued && waiting(t) >= t.max_queued * NEAR) {
    add('bad', `q ${t.type}`, `The queue of ${t.type} is near its limit`, `${count(waiting(t))} of ${count(t.max_queued)} items: beyond it submissions are refused (queue_full).`, settings);
  }
  const died = (trend?.dead ?? []).slice(-60).reduce((n, v) => n + (v ?? 0), 0);
  if (died > 0) {
    add('bad', `d ${t.type}`, `${plural(died, `item of ${t.type} has`, `items of ${t.type} have`)} died in the last ten minutes`, `${plural(t.states?.dead ?? 0, 'is', 'are')} dead by now. See what of, correct it, and replay them.`,
      { text: 'Causes', href: href(['dead'], { type: t.type }) }, { text: 'Dead items', href: href(['work'], { type: t.type, state: 'dead' }) });
  }
}
