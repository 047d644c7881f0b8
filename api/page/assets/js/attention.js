// What of the engine's figures needs someone's attention, in words, and what to do
// about it. Pure: stats, and the newest rejected submission that is kept (or null) in,
// a list out, in the order of the engine: alarms, then each kind of attention. Kinds
// are one entry each, so that many of one kind hide no other.
//
// Each is {level: 'stop'|'bad'|'warn', key, title, text, command?, list?, links: [{text, href}]};
// stop: the engine refuses or holds work; list: those of a kind that have most,
// {name, href, text} each, the last of them {text: 'and 195 more', href} if there are more.

import { href } from './router.js';
import { count, plural, span } from './format.js';

export function attention(stats, rejected) {
  const out = (stats.alarms ?? []).map((a) => ({ level: a.severity === 'critical' ? 'stop' : 'warn', key: `a ${a.code}`, title: a.message, text: `${a.action} (${a.code})`, links: [] }));
  for (const a of stats.attention ?? []) {
    const say = kinds[a.kind];
    if (say) out.push({ level: a.severity === 'critical' ? 'bad' : 'warn', key: a.kind, links: [], ...(a.count === 1 ? say.one(a.first[0]) : many(a, say)) });
  }
  if (rejected) {
    out.push({ level: 'warn', key: 'rejected', title: 'Submissions were rejected',
      text: `They are not items yet, and are kept until they are replayed or purged. The newest: ${rejected.code}${rejected.type ? `, of type ${rejected.type}` : ''}.`,
      links: [{ text: 'Rejected', href: href(['dead'], { show: 'rejected' }) }] });
  }
  return out;
}

// many is what is said of several types or workers of a kind.
function many(a, say) {
  const list = a.first.map((of) => ({ name: of.type ?? of.worker, ...say.each(of) }));
  if (a.count > list.length) list.push({ text: `and ${count(a.count - list.length)} more`, href: say.all });
  return { ...say.many(a), list };
}

const workers = { text: 'Workers', href: href(['workers']) };
const workerOf = (of) => href(['workers'], { worker: of.worker });
const typeOf = (of) => href(['types', of.type]);
const queuedOf = (of) => href(['work'], { type: of.type, state: 'queued' });
const list = (of) => ({ text: 'Queued items', href: queuedOf(of) });
const settings = (of) => ({ text: 'Settings', href: typeOf(of) });
const queued = (of) => `${plural(of.items ?? 0, 'item')} queued${of.oldest_ms ? `, the oldest for ${span(of.oldest_ms)}` : ''}`;
const state = (of) => (of.state ?? '').replace('_', ' ');
const types = href(['types']);

// kinds says what each kind is called: one for one type or worker, many for several,
// each for a line of those, all where they all are.
const kinds = {
  dead: {
    all: href(['dead']),
    one: (of) => ({ title: `${plural(of.recent, 'item')} of ${of.type} died in the last ten minutes`, text: `${plural(of.items, 'is', 'are')} dead now. See why, fix it, and replay them.`,
      links: [{ text: 'Causes', href: href(['dead'], { type: of.type }) }, { text: 'Dead items', href: href(['work'], { type: of.type, state: 'dead' }) }] }),
    many: (a) => ({ title: `Items of ${plural(a.count, 'type')} died in the last ten minutes`, text: `${plural(a.items, 'is', 'are')} dead now. See why, fix it, and replay them.`, links: [{ text: 'Causes', href: href(['dead']) }] }),
    each: (of) => ({ text: `${count(of.items)} dead, ${count(of.recent)} of late`, href: href(['dead'], { type: of.type }) }),
  },
  circuit: {
    all: types,
    one: (of) => ({ title: `Circuit of ${of.type} is ${state(of)}`, text: `Its runs failed too often (${of.reason}): ${of.state === 'open' ? 'nothing is dispatched until the next probe' : 'a few runs probe it'}. ${plural(of.items ?? 0, 'item')} queued.`, links: [settings(of)] }),
    many: (a) => ({ title: `The circuits of ${plural(a.count, 'type')} are not closed`, text: `Their runs failed too often. ${plural(a.items ?? 0, 'item')} queued.` }),
    each: (of) => ({ text: `${state(of)}, ${queued(of)}`, href: typeOf(of) }),
  },
  worker_circuit: {
    all: href(['workers']),
    one: (of) => ({ title: `Circuit of worker ${of.worker} is ${state(of)}`, text: 'Its runs failed too often: it gets no work until a probe succeeds.', links: [workers] }),
    many: (a) => ({ title: `The circuits of ${plural(a.count, 'worker')} are not closed`, text: 'Their runs failed too often: they get no work until a probe succeeds.', links: [workers] }),
    each: (of) => ({ text: state(of), href: workerOf(of) }),
  },
  no_worker: {
    all: types,
    one: (of) => ({ title: `No worker for ${of.type}`, text: `${queued(of)}. Start one:`, command: `engine work ${of.type} -- COMMAND`, links: [list(of)] }),
    many: (a) => ({ title: `No worker for ${plural(a.count, 'type')}`, text: `${plural(a.items, 'item')} queued. Start one for each:`, command: 'engine work TYPE -- COMMAND' }),
    each: (of) => ({ text: queued(of), href: queuedOf(of) }),
  },
  queue: {
    all: types,
    one: (of) => ({ title: `The queue of ${of.type} is near its limit`, text: `${count(of.items)} of ${count(of.most)} items; beyond that, submissions are refused (queue_full).`, links: [settings(of)] }),
    many: (a) => ({ title: `The queues of ${plural(a.count, 'type')} are near their limits`, text: 'Beyond them, submissions are refused (queue_full).' }),
    each: (of) => ({ text: `${count(of.items)} of ${count(of.most)} items`, href: typeOf(of) }),
  },
  starving: {
    all: types,
    one: (of) => ({ title: `${of.type} is starving`, text: `Low-priority items have waited ${of.oldest_ms ? span(of.oldest_ms) : 'for long'}, close to the limit for being overtaken: there are too few workers.`, links: [list(of), settings(of)] }),
    many: (a) => ({ title: `${plural(a.count, 'type')} are starving`, text: 'Low-priority items have waited for long, close to the limit for being overtaken: there are too few workers.' }),
    each: (of) => ({ text: queued(of), href: queuedOf(of) }),
  },
  paused: {
    all: types,
    one: (of) => ({ title: `${of.type} is paused`, text: `${of.reason ? `“${of.reason}”` : 'No reason given'}${of.by ? `, by ${of.by}` : ''}. ${plural(of.items ?? 0, 'item')} held back.`, links: [settings(of), list(of)] }),
    many: (a) => ({ title: `${plural(a.count, 'type')} are paused`, text: `${plural(a.items ?? 0, 'item')} held back.` }),
    each: (of) => ({ text: `${of.reason ? `“${of.reason}”, ` : ''}${plural(of.items ?? 0, 'item')} held back`, href: typeOf(of) }),
  },
  worker_unhealthy: {
    all: href(['workers']),
    one: (of) => ({ title: `Worker ${of.worker} is unhealthy`, text: of.reason || 'It takes no new work until it is healthy again.', links: [workers] }),
    many: (a) => ({ title: `${plural(a.count, 'worker')} are unhealthy`, text: 'They take no new work until they are healthy again.', links: [workers] }),
    each: (of) => ({ text: of.reason ?? '', href: workerOf(of) }),
  },
  worker_dead: {
    all: href(['workers']),
    one: (of) => ({ title: `Worker ${of.worker} died`, text: 'It was silent for too long, so its items went to others. No worker for the same types has come since.', links: [workers] }),
    many: (a) => ({ title: `${plural(a.count, 'worker')} died`, text: 'They were silent for too long, so their items went to others. No workers for the same types have come since.', links: [workers] }),
    each: (of) => ({ text: '', href: workerOf(of) }),
  },
};
