// The live feed: one connection for the whole page, that comes back by itself.
//
//   live.phase    connecting | live | reconnecting | paused | denied (until retry)
//   live.stats    the last wire.StatsReply, or null
//   live.workers  the registered workers
//   live.on('stats' | 'events' | 'phase' | 'back' | 'anew', f, signal)
//
// "events" brings {events, skipped}: at most 20 of them at a time, however many
// there were. "back" comes with the first stats after a lost connection. "anew" comes
// with it, and whenever else what is shown may be old: screens load it anew. A page that is hidden for long lets
// its connection go (browsers allow but few to one host) and takes it up again
// as soon as it is looked at.

import { stream, isAbort } from './api.js';
import { setClock } from './format.js';

const FIRST_RETRY = 500; // ms; doubled at each failure
const LAST_RETRY = 8000;
const SILENCE = 40_000; // ms without a byte: the feed sends a sign of life every 15 s
const HIDDEN = 60_000; // ms hidden until the connection is let go

const listeners = { stats: new Set(), events: new Set(), phase: new Set(), back: new Set(), anew: new Set() };

export const live = {
  phase: 'connecting',
  stats: null,
  workers: [],
  at: 0, // when the last stats came, by this machine's clock
  retryAt: 0, // reconnecting: when it is tried next
  error: '',
  refused: 0, // denied: the status, 401 or 403

  on(name, f, signal) {
    if (signal?.aborted) return;
    listeners[name].add(f);
    signal?.addEventListener('abort', () => listeners[name].delete(f));
  },

  // start connects, and stays connected.
  start() {
    document.addEventListener('visibilitychange', visibility);
    addEventListener('online', () => live.retry());
    addEventListener('offline', () => current?.abort());
    run();
  },

  // retry tries at once, if it is waiting to.
  retry() { wake?.(); },

  // anew has screens load what they show anew.
  anew() { tell('anew'); },
};

function tell(name, value) {
  for (const f of listeners[name]) {
    try { f(value); } catch (err) { console.error(err); }
  }
}

let current = null; // the AbortController of the connection
let wake = null; // ends the wait before the next try
let lost = null; // what was known when the connection broke: {at, stats}
let hiddenTimer = 0;

function phase(p, more = {}) {
  Object.assign(live, { phase: p, retryAt: 0 }, more);
  tell('phase', p);
}

async function run() {
  let wait = FIRST_RETRY;
  for (;;) {
    const began = Date.now();
    try {
      await connect();
      live.error = '';
    } catch (err) {
      live.error = isAbort(err) ? '' : err.message;
      if (err.status === 401 || err.status === 403) {
        phase('denied', { refused: err.status });
        await sleep(0);
        continue;
      }
    }
    if (live.phase === 'live') lost = { at: Date.now(), stats: live.stats };
    if (document.hidden && live.phase === 'paused') {
      await sleep(0);
      continue;
    }
    if (Date.now() - began > 5000) wait = FIRST_RETRY;
    phase(lost ? 'reconnecting' : 'connecting', { retryAt: Date.now() + wait });
    await sleep(wait * (0.8 + 0.4 * Math.random()));
    wait = Math.min(wait * 2, LAST_RETRY);
  }
}

// sleep waits so long, or until retry is called; 0: until then.
function sleep(ms) {
  return new Promise((done) => {
    let timer = 0;
    const end = () => {
      clearTimeout(timer);
      if (wake === end) wake = null;
      done();
    };
    wake = end;
    if (ms > 0) timer = setTimeout(end, ms);
  });
}

async function connect() {
  const c = new AbortController();
  current = c;
  let watchdog = 0;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => c.abort(), SILENCE);
  };
  try {
    alive();
    await stream('api/v1/live', { signal: c.signal, on: { bytes: alive, event: take } });
  } finally {
    clearTimeout(watchdog);
    current = null;
  }
}

function take({ event, data }) {
  const doc = JSON.parse(data);
  if (event === 'events') tell('events', doc);
  if (event !== 'stats') return;
  setClock(doc.at);
  Object.assign(live, { stats: doc.stats, workers: doc.workers ?? [], at: Date.now() });
  if (live.phase !== 'live') phase('live');
  tell('stats', doc.stats);
  if (lost) {
    const away = lost;
    lost = null;
    tell('back', { awayMS: Date.now() - away.at, before: away.stats });
    tell('anew');
  }
}

function visibility() {
  clearTimeout(hiddenTimer);
  if (!document.hidden) {
    live.retry();
    return;
  }
  hiddenTimer = setTimeout(() => {
    if (live.phase === 'live') lost = { at: Date.now(), stats: live.stats };
    phase('paused');
    current?.abort();
  }, HIDDEN);
}
