// The engine's events for a person to read: a live feed of which at most so many a
// second are shown, the others counted; and looks back into the log.

import { get, isAbort, stream } from './api.js';
import { now } from './format.js';

export const MAX_ROWS = 200; // events that are shown at once
const DRAW_MS = 250; // between two drawings
const PAST_MS = 1000; // between two drawings of what has happened before, of which the last page alone stays
const MAX_DRAWN = 12; // events of one drawing: what a person can follow
const RECONNECT = 1000; // ms
const LAST_RECONNECT = 15_000;
const FRAME = 4096; // positions of a frame: the first event of a log has this one
const STEPS = [4, 40, 400, 4000, 40_000, 4_000_000]; // how far back each look goes, in frames
const LOOK_MS = 10_000; // of one look back
const QUIET_MS = 1500; // without an event: a look has all that there is; longer where the engine takes long to answer
const QUIET_TIMES = 5; // as long as the answer took

// Of what went wrong more is shown than of the rest.
const GRAVE = new Set(['dead', 'failed', 'rejected', 'cause_noted', 'circuit_opened', 'paused']);

// follow streams events until signal ends. on has: draw(events, skipped), gap({from, to}),
// state(connected, error). from: {since} or {from_seq}, or {end} for what comes next: that
// is asked for from end, where the log ended, or, left out, from where it ends now, so that
// nothing is missed while it connects.
export async function follow(filter, { end, ...from }, on, signal) {
  let waiting = [];
  let skipped = 0;
  let last = '';
  let timer = 0;
  const draw = () => {
    timer = 0;
    if (signal.aborted) return;
    on.draw(waiting, skipped);
    [waiting, skipped] = [[], 0];
  };
  // What has happened before is not to be followed: the last page of it is shown.
  const began = now();
  const take = (ev) => {
    waiting.push(ev);
    const past = Date.parse(ev.at) < began;
    if (past && waiting.length > MAX_ROWS) {
      waiting.shift();
      skipped++;
    } else if (!past && waiting.length > MAX_DRAWN) {
      const at = waiting.findIndex((x) => !GRAVE.has(x.kind));
      waiting.splice(at < 0 ? 0 : at, 1);
      skipped++;
    }
    timer ||= setTimeout(draw, past ? PAST_MS : DRAW_MS);
  };
  signal.addEventListener('abort', () => clearTimeout(timer));
  const next = !from.since && !from.from_seq;
  let start = next && end ? { from_seq: end } : from;
  let renewed = false; // where the log ends was asked anew, since it was not known any more: another log
  for (let wait = RECONNECT; !signal.aborted; wait = Math.min(wait * 2, LAST_RECONNECT)) {
    try {
      if (next && !start.from_seq) start = { from_seq: await logEnd(signal) };
      await stream('api/v1/events', { query: { ...filter, ...(last ? {} : start) }, lastEventID: last, signal, on: {
        open() { wait = RECONNECT; renewed = false; on.state(true, ''); },
        event({ event, data, id }) {
          if (id) last = id;
          if (event === 'gap') on.gap(JSON.parse(data));
          else take(JSON.parse(data));
        },
      } });
      on.state(false, 'The engine ended the feed.');
    } catch (err) {
      if (isAbort(err)) return;
      on.state(false, err.message);
      if (err.status >= 400 && err.status < 500) {
        if (!next || last || renewed) return; // asking again would not help
        renewed = true;
        start = {};
      }
    }
    await new Promise((done) => { setTimeout(done, wait); signal.addEventListener('abort', done, { once: true }); });
  }
}

// lookBack gives the page of events in front of a position, oldest first, and
// whether the log may have older ones: {events, more, first}. before: 0 means the log's
// end. It reads further and further back until it has a page, for a bounded time. What
// the log holds no more is said as cut: the last position of it.
export async function lookBack(filter, before, signal, page = MAX_ROWS) {
  const end = before || await logEnd(signal);
  const until = performance.now() + LOOK_MS;
  let found = { events: [], more: true, first: end };
  for (const step of STEPS) {
    const from = Math.max(1, end - step * FRAME);
    found = await read(filter, from, end, signal, page);
    if (found.events.length >= page || !found.more || performance.now() > until) break;
  }
  return found;
}

// logEnd is the position behind the log's last event.
export const logEnd = async (signal) => Number((await get('api/v1/info', { plain: true, signal })).position) + 1;

// cutEnd is the last position that retention has cut from the log, 0 for none.
export async function cutEnd(signal) {
  const { retention } = await get('api/v1/info', { plain: true, signal });
  const first = Number(retention?.log_first ?? 0);
  return first > FRAME ? first - 1 : 0;
}

// lookOn gives the page behind a position, oldest first: those up to the log's end.
export async function lookOn(filter, after, signal, page = MAX_ROWS) {
  const found = await read(filter, after + 1, await logEnd(signal), signal, page, true);
  return { ...found, more: true };
}

// read collects the events from a position up to end (not with it); of more than a
// page the last, or with early the first.
async function read(filter, from, end, signal, page, early = false) {
  const events = [];
  const out = { events, more: from > FRAME, first: from };
  if (from >= end) return out;
  const stop = new AbortController();
  const leave = () => stop.abort();
  signal.addEventListener('abort', leave, { once: true });
  let quiet = setTimeout(leave, LOOK_MS);
  const asked = performance.now();
  let patience = QUIET_MS;
  const whole = Object.values(filter).every((v) => !v || v.length === 0);
  try {
    await stream('api/v1/events', { query: { ...filter, from_seq: from }, signal: stop.signal, on: { event({ event, data }) {
      const ev = JSON.parse(data);
      clearTimeout(quiet);
      quiet = setTimeout(leave, patience);
      if (event === 'gap') { Object.assign(out, { more: false, first: ev.to + 1, cut: ev.to }); return; }
      if (Number(ev.seq) < end && !(early && events.length === page)) events.push(ev);
      if (!early && events.length > page) { events.shift(); out.more = true; }
      if (Number(ev.seq) >= end - (whole ? 1 : 0) || (early && events.length === page)) leave();
    }, open() {
      clearTimeout(quiet);
      patience = Math.max(QUIET_MS, QUIET_TIMES * (performance.now() - asked));
      quiet = setTimeout(leave, patience);
    } } });
  } catch (err) {
    if (!isAbort(err) || signal.aborted) throw err;
  } finally {
    clearTimeout(quiet);
    signal.removeEventListener('abort', leave);
  }
  return out;
}
