// Requests to the engine's API. Paths are relative to the page, so that it also
// works below a path of a proxy.

const TOKEN = 'streamwright-token';
const BUSY_MS = 30; // of taking in a stream until the browser may draw
let token = read();
let asking = null; // the promise of a token that is being asked for
let ask = null; // asks the operator: (why) => Promise<token|null>
let declined = 0; // how often the operator has given none

function read() {
  try { return sessionStorage.getItem(TOKEN) ?? ''; } catch { return ''; }
}

// onUnauthenticated says who asks the operator for a token.
export function onUnauthenticated(f) { ask = f; }

// hasToken says whether one is known.
export const hasToken = () => token !== '';

// setToken keeps a token until the tab is closed; empty forgets it.
export function setToken(t) {
  token = t;
  try {
    if (t) sessionStorage.setItem(TOKEN, t);
    else sessionStorage.removeItem(TOKEN);
  } catch { /* storage is off: it lasts as long as the page */ }
}

// ApiError is a refused request: status, code (see docs/reference/ERRORS.md) and message.
// Status 0: the engine could not be reached.
export class ApiError extends Error {
  constructor(status, code, message, retryAfterMS) {
    super(message);
    Object.assign(this, { name: 'ApiError', status, code, retryAfterMS });
  }
}

export const isAbort = (err) => err?.name === 'AbortError';

function url(path, query) {
  const u = new URL(path.replace(/^\//, ''), document.baseURI);
  u.hash = '';
  for (const [k, v] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(v) ? v : [v]) {
      if (one !== null && one !== undefined && one !== '') u.searchParams.append(k, one);
    }
  }
  return u;
}

// request makes one request and returns the response, having asked for a token
// if the engine wants one. Who gives none is not asked again for what was under way
// by then. Anything but success is thrown as an ApiError.
async function request(method, path, { query, body, signal, accept = 'application/json', headers } = {}) {
  const before = declined;
  for (;;) {
    const used = token;
    const h = { Accept: accept, ...headers };
    if (used) h.Authorization = `Bearer ${used}`;
    if (body !== undefined) h['Content-Type'] = 'application/json';
    let res;
    try {
      res = await fetch(url(path, query), { method, headers: h, body, signal, cache: 'no-store', credentials: 'same-origin' });
    } catch (err) {
      if (isAbort(err)) throw err;
      throw new ApiError(0, 'unreachable', 'The engine does not answer. It may be restarting; this page keeps retrying.');
    }
    if (res.ok) return res;
    const err = await problem(res);
    if (res.status !== 401 || !ask) throw err;
    if (used !== token) continue; // another request has got one meanwhile
    if (declined > before) throw err;
    asking ??= ask(used ? err.message : '').then((given) => { if (!given) declined++; return given; }).finally(() => { asking = null; });
    if (!await asking) throw err;
  }
}

async function problem(res) {
  let doc = null;
  try { doc = await res.json(); } catch { /* no document: the status alone */ }
  return new ApiError(res.status, doc?.code ?? `http_${res.status}`, doc?.detail ?? `The engine answered ${res.status} ${res.statusText}.`, doc?.retry_after_ms);
}

// The highest position that a change has told us: what is read afterwards has it.
let position = '';
function note(reply) {
  const p = reply?.position;
  if (typeof p === 'string' && /^\d+$/.test(p)) position = later(p, position);
}
const later = (a, b) => (BigInt(a || '0') > BigInt(b || '0') ? a : b);

// get reads JSON. With exact, numbers that JavaScript can't hold as they were
// written stay as they were written (objects of JSON.rawJSON). The reply has in it what
// this page has changed before; not so with plain, for what is not of the projection (logs, trends).
export async function get(path, { exact = false, plain = false, query, ...rest } = {}) {
  const used = plain ? '' : position;
  const asked = (at) => request('GET', path, { ...rest, query: at ? { ...query, min_position: later(at, query?.min_position) } : query });
  const res = await asked(used).catch((err) => {
    if (err.code !== 'position_ahead' || !used) throw err;
    if (position === used) position = ''; // the engine was restored, and its log is another one
    return asked('');
  });
  const reply = exact ? parseExact(await res.text()) : await res.json();
  if (reply?.stale) lacking.set(path, reply.stale);
  if (reply?.stale || lacking.delete(path)) lacks();
  return reply;
}

// Why lists that were read on this screen may lack items, by their path: the node that
// answers is behind the others.
const lacking = new Map();
let lacks = () => {};

// onStale says who is told when that changes.
export function onStale(f) { lacks = f; }

// staleness is why what is shown may lack items; '' if it has all.
export const staleness = () => lacking.values().next().value ?? '';

// forgetStale is for another screen.
export function forgetStale() {
  if (lacking.size === 0) return;
  lacking.clear();
  lacks();
}

// getText is get for a document as it is written; one of more than so many bytes is refused.
export async function getText(path, { most, plain = false, query, ...rest }) {
  const res = await request('GET', path, { ...rest, query: position && !plain ? { ...query, min_position: position } : query });
  const tooLong = (n) => { if (n > most) throw new ApiError(0, 'too_large', `It has ${n} bytes: too many to show here.`); };
  try {
    tooLong(Number(res.headers.get('Content-Length') ?? 0));
  } catch (err) {
    await res.body.cancel();
    throw err;
  }
  const doc = await res.text();
  tooLong(doc.length);
  return doc;
}

// send makes a change (POST, PATCH, PUT, DELETE). Body is a value, or a string that is
// JSON already.
export async function send(method, path, body, { query, signal } = {}) {
  const raw = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  const res = await request(method, path, { query, body: raw, signal });
  const reply = res.status === 204 ? {} : await res.json();
  note(reply);
  return reply;
}

// parseExact is JSON.parse, but for numbers: 1.50 and 12345678901234567890 stay
// as they are written when they are shown or sent back.
export function parseExact(doc) {
  if (!JSON.rawJSON) return JSON.parse(doc);
  return JSON.parse(doc, (_, v, at) => (typeof v === 'number' && at?.source && String(v) !== at.source ? JSON.rawJSON(at.source) : v));
}

// stream reads server-sent events until the connection ends (it then returns, 'nothing
// left' if there is nothing to tell for good) or breaks (it throws). on has: open(), event({event, data, id}), bytes().
// Where much comes at once, the browser gets time to draw in between.
// A page that is left lets its connections go, for a browser may keep it for a return,
// with them, and has only six to a host. If it is shown again whoever reads a stream
// takes it up as after any break.
export async function stream(path, { signal, ...options }) {
  const left = new AbortController();
  const leave = () => left.abort(new ApiError(0, 'unreachable', 'You left the page.'));
  addEventListener('pagehide', leave);
  try {
    return await readEvents(path, { ...options, signal: AbortSignal.any([signal, left.signal].filter(Boolean)) });
  } finally {
    removeEventListener('pagehide', leave);
  }
}

async function readEvents(path, { query, signal, lastEventID, on }) {
  const headers = lastEventID ? { 'Last-Event-ID': lastEventID } : undefined;
  const res = await request('GET', path, { query, signal, accept: 'text/event-stream', headers });
  if (res.status === 204) return 'nothing left';
  on.open?.();
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let ev = { event: 'message', data: '', id: '' };
  let drawn = performance.now();
  try {
    for (;;) {
      if (performance.now() - drawn > BUSY_MS && !document.hidden) {
        await new Promise((done) => { setTimeout(done); });
        drawn = performance.now();
      }
      const { value, done } = await reader.read();
      if (done) return '';
      on.bytes?.();
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const l of lines) ev = line(ev, l.endsWith('\r') ? l.slice(0, -1) : l, on);
    }
  } catch (err) {
    if (isAbort(err)) throw err;
    throw new ApiError(0, 'unreachable', 'The connection to the engine was lost.');
  }
}

// line takes one line of a stream into the event that it is part of.
function line(ev, l, on) {
  if (l === '') {
    if (ev.data !== '') on.event?.({ ...ev, data: ev.data.slice(0, -1) });
    return { event: 'message', data: '', id: ev.id };
  }
  const i = l.indexOf(':');
  if (i === 0) return ev; // a comment: a sign of life
  const field = i < 0 ? l : l.slice(0, i);
  const value = i < 0 ? '' : l.slice(l[i + 1] === ' ' ? i + 2 : i + 1);
  if (field === 'event') ev.event = value;
  else if (field === 'data') ev.data += `${value}\n`;
  else if (field === 'id') ev.id = value;
  return ev;
}
