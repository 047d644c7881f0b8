// What the workers run, asked of the engine worker by worker: of those whose rows
// can be seen alone, so that it costs the same however many workers there are.

import { get, isAbort } from './api.js';
import { whenQuiet } from './screens/dead.js';

export const MAX_RUNS = 100; // items of a worker that are asked for
const MAX_SEEN = 40; // workers that are asked about at once
const SOON = 1000; // ms between two looks

// whatRuns is what workers run. watch(rows) says which rows there are (each has its
// worker in data-worker), of(worker) is {items, more} or undefined while it is not
// known; look() asks anew, soon.
export function whatRuns({ signal, redraw, fail }) {
  const known = new Map(); // of the rows that there are
  const seen = new Set(); // workers whose rows can be seen
  let watched = new Set();
  const ask = async (worker) => {
    const page = await get('api/v1/work', { query: { worker, limit: MAX_RUNS }, signal });
    known.set(worker, { items: page.items ?? [], more: Boolean(page.next_cursor) });
  };
  const look = whenQuiet(async () => {
    try {
      await Promise.all([...seen].slice(0, MAX_SEEN).map(ask));
      redraw();
    } catch (err) {
      if (!isAbort(err)) fail(err);
    }
  }, SOON, signal);
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const worker = target.dataset.worker;
      if (!isIntersecting) { seen.delete(worker); continue; }
      seen.add(worker);
      if (!known.has(worker) && seen.size <= MAX_SEEN) ask(worker).then(redraw, (err) => { if (!isAbort(err)) fail(err); });
    }
  });
  signal.addEventListener('abort', () => sight.disconnect());
  return {
    look,
    of: (worker) => known.get(worker),
    watch(rows) {
      const now = new Set(rows);
      for (const tr of now) if (!watched.has(tr)) sight.observe(tr);
      for (const tr of watched) {
        if (now.has(tr)) continue;
        sight.unobserve(tr);
        seen.delete(tr.dataset.worker);
        known.delete(tr.dataset.worker);
      }
      watched = now;
    },
  };
}
