// What of the engine's figures needs someone's attention, and what to do about
// it. Pure: stats, workers, trends, and the newest rejected submission that is kept
// (or null) in, a list out, the gravest first. What is repaired is no longer in it.
//
// Each is {level: 'stop'|'bad'|'warn', key, title, text, command?, links: [{text, href}]};
// stop: the engine refuses or holds work.

import { href } from './router.js';
import { count, plural, span } from './format.js';

const NEAR = 0.8; // of a limit
const MAX_SHOWN = 30;

export function attention(stats, workers, trends, rejected) {
  const out = [];
  const add = (level, key, title, text, ...links) => {
    const need = { level, key, title, text, links };
    out.push(need);
    return need;
  };
  for (const a of stats.alarms ?? []) add(a.severity === 'critical' ? 'stop' : 'warn', `a ${a.code}`, a.message, `${a.action} (${a.code})`);
  for (const t of stats.types ?? []) ofType(t, workers, trends?.types?.[t.type], add);
  for (const c of stats.worker_circuits ?? []) {
    add('bad', `wc ${c.worker}`, `Circuit of worker ${c.worker} is ${c.state.replace('_', ' ')}`, 'Its runs failed too often: it gets no work until a probe succeeds.', { text: 'Workers', href: href(['workers']) });
  }
  const gone = unreplaced(workers);
  for (const w of workers) {
    if (w.status === 'unhealthy') add('warn', `wu ${w.worker}`, `Worker ${w.worker} is unhealthy`, w.reason || 'It takes no new work until it is healthy again.', { text: 'Workers', href: href(['workers']) });
    if (gone.has(w.worker)) add('warn', `wd ${w.worker}`, `Worker ${w.worker} died`, 'It was silent for too long, so its items went to others. No worker for the same types has come since.', { text: 'Workers', href: href(['workers']) });
  }
  if (rejected) {
    add('warn', 'rejected', 'Submissions were rejected', `They are not items yet, and are kept until they are replayed or purged. The newest: ${rejected.code}${rejected.type ? `, of type ${rejected.type}` : ''}.`, { text: 'Rejected', href: href(['dead'], { show: 'rejected' }) });
  }
  const rank = { stop: 0, bad: 1, warn: 2 };
  return out.sort((a, b) => rank[a.level] - rank[b.level]).slice(0, MAX_SHOWN);
}

// unreplaced are the dead workers in whose stead none has come: one replaces one.
function unreplaced(workers) {
  const kinds = (w) => [...w.types ?? []].sort().join();
  const fresh = workers.filter((w) => w.status !== 'dead');
  const out = new Set();
  for (const w of workers.filter((x) => x.status === 'dead')) {
    const at = fresh.findIndex((x) => kinds(x) === kinds(w) && Date.parse(x.registered_at) >= Date.parse(w.last_seen));
    if (at >= 0) fresh.splice(at, 1);
    else out.add(w.worker);
  }
  return out;
}

const waiting = (t) => (t.states?.queued ?? 0) + (t.states?.waiting ?? 0);

function ofType(t, workers, trend, add) {
  const queued = t.states?.queued ?? 0;
  const list = { text: 'Queued items', href: href(['work'], { type: t.type, state: 'queued' }) };
  const settings = { text: 'Settings', href: href(['types', t.type]) };
  if (t.circuit) {
    add('bad', `c ${t.type}`, `Circuit of ${t.type} is ${t.circuit.state.replace('_', ' ')}`,
      `Its runs failed too often (${t.circuit.reason}): ${t.circuit.state === 'open' ? 'nothing is dispatched until the next probe' : 'a few runs probe it'}. ${plural(queued, 'item')} queued.`, settings);
  }
  if (t.paused) {
    add('warn', `p ${t.type}`, `${t.type} is paused`, `${t.paused.reason ? `“${t.paused.reason}”` : 'No reason given'}${t.paused.by ? `, by ${t.paused.by}` : ''}. ${plural(queued, 'item')} held back.`, settings, list);
  } else if (queued > (t.scheduled ?? 0) && t.workers === 0) {
    add('bad', `w ${t.type}`, `No worker for ${t.type}`, `${plural(queued, 'item')} queued${t.oldest_queued_ms ? `, the oldest for ${span(t.oldest_queued_ms)}` : ''}. Start one:`, list).command = `engine work ${t.type} -- COMMAND`;
  }
  if (t.starving) {
    add('warn', `s ${t.type}`, `${t.type} is starving`, `Low-priority items have waited ${t.oldest_queued_ms ? span(t.oldest_queued_ms) : 'for long'}, close to the limit for being overtaken: there are too few workers${t.desired_workers ? ` (${t.workers} of ${t.desired_workers})` : ''}.`, list, settings);
  }
  if (t.max_queued && waiting(t) >= t.max_queued * NEAR) {
    add('bad', `q ${t.type}`, `The queue of ${t.type} is near its limit`, `${count(waiting(t))} of ${count(t.max_queued)} items; beyond that, submissions are refused (queue_full).`, settings);
  }
  const died = (trend?.dead ?? []).slice(-60).reduce((n, v) => n + (v ?? 0), 0);
  const dead = t.states?.dead ?? 0;
  if (died > 0 && dead > 0) {
    add('bad', `d ${t.type}`, `${plural(died, 'item', 'items')} of ${t.type} died in the last ten minutes`, `${plural(dead, 'is', 'are')} dead now. See why, fix it, and replay them.`,
      { text: 'Causes', href: href(['dead'], { type: t.type }) }, { text: 'Dead items', href: href(['work'], { type: t.type, state: 'dead' }) });
  }
}
