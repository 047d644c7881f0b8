// The nodes of the log, as the node that this page is loaded from sees them.
//
//   nodes.last     the last wire.NodesReply; null where there is one node
//   nodes.at       when it came, by the engine's clock (RFC 3339)
//   nodes.trouble  why nothing is decided, or what is shown is old: {title, text, old}; or null
//   nodes.on(f, signal)   f is called after each look
//
// The figures of the live feed are the owner's. Without an owner none come, so the
// page asks its own node, which answers for itself whatever has happened to the others.

import { get, onStale, staleness } from './api.js';
import { live } from './live.js';
import { now, span } from './format.js';

const LOOK = 2000; // ms between two looks at several nodes
const ALONE = 10_000; // ms between two looks where there is one node
const WITHIN = 8000; // ms that an answer may take: streams without a leader take a second
const LOG = /_EVENTS_\d+$/;
const OLD = 20_000; // ms without figures: the feed sends them every 10 s at least

const listeners = new Set();

export const nodes = {
  last: null,
  at: '',
  trouble: null,

  on(f, signal) {
    if (signal?.aborted) return;
    listeners.add(f);
    signal?.addEventListener('abort', () => listeners.delete(f));
  },

  // start looks at the nodes, again and again.
  start() {
    live.on('stats', tell); // figures that come are not old
    live.on('back', look);
    onStale(tell);
    setInterval(look, LOOK);
  },

  // owner is the node that owns the log, if one does.
  owner: () => nodes.last?.nodes.find((n) => n.node === nodes.last.owner && n.role === 'owner'),
};

let asking = false;
let asked = -Infinity; // when, by performance.now()

async function look() {
  const connected = live.phase === 'live' || live.phase === 'connecting';
  const due = performance.now() - asked >= (nodes.last ? 0 : ALONE);
  if (!asking && connected && due && !document.hidden) {
    asking = true;
    try {
      const reply = await get('api/v1/nodes', { plain: true, signal: AbortSignal.timeout(WITHIN) });
      asked = performance.now();
      nodes.last = (reply.nodes ?? []).length > 1 ? reply : null;
      nodes.at = new Date(now()).toISOString();
    } catch { /* what is known stands, with its time; the corner says what is wrong with the connection */ } finally {
      asking = false;
    }
  }
  if (staleness() && connected && !troubleOf(nodes.last, age())) live.anew(); // the node may have caught up
  tell();
}

// age is that of the figures, in ms.
const age = () => (live.phase === 'live' && live.at ? Date.now() - live.at : 0);

function tell() {
  nodes.trouble = troubleOf(nodes.last, age(), staleness());
  for (const f of listeners) {
    try { f(); } catch (err) { console.error(err); }
  }
}

// troubleOf says why what is shown is old, or nothing is decided. age is that of the
// figures, in ms; stale is why a list may lack items.
export function troubleOf(reply, age, stale) {
  const starts = reply?.nodes.find((n) => n.node === reply.answered && n.role === 'starting');
  if (starts) return { title: `${starts.node} is starting: ${starts.starting}.`, text: [...reply.warnings ?? [], 'This page goes on by itself.'].join('. '), old: true };
  const me = reply?.nodes.find((n) => n.node === reply.answered);
  if (me?.cut_off) {
    return { title: `${me.node} is cut off from the log: what you see is old.`, text: `This page is from ${me.node}: ${me.cut_off}. Open the page of another node. See that the NATS servers reach each other, and that most of them run; ${me.node} then catches up by itself.`, old: true };
  }
  if (reply && !reply.owner) {
    return { title: 'No node owns the log: nothing is decided until one does.', text: 'A standby takes over within seconds if most of the nodes run: if this lasts, start those that do not answer. What you see is from before.', old: true };
  }
  const recovering = reply?.nodes.find((n) => n.node === reply.owner && n.recovering);
  if (recovering) return { title: `${recovering.node} recovers: nothing is decided until it has.`, text: 'It settles with the log first, which takes most of the nodes. If this lasts, start those that do not answer; its log says why.' };
  if (reply?.streams?.some((s) => LOG.test(s.stream) && s.spare < 0)) {
    return { title: 'The log can’t be written: nothing is decided.', text: 'Most of its servers are gone, or they choose a leader, which takes seconds. If this lasts, start the nodes that do not answer. Nothing that was accepted is lost.' };
  }
  if (stale) return { title: 'What you see may lack items.', text: `It is ${stale}. Open the page of another node, or refresh in a moment.`, old: true };
  if (age > OLD) return { title: `The figures are ${span(age)} old.`, text: 'The engine gives no new ones. If this lasts, its log says why.', old: true };
  return null;
}

// roleText says what a node is, as `engine cluster` does.
export function roleText(n) {
  if (!n.online) return 'no answer';
  if (n.cut_off) return `${n.role}, cut off`;
  if (n.recovering) return `${n.role}, recovering`;
  if (n.full) return `${n.role}, no room`;
  return n.epoch ? `${n.role} (epoch ${n.epoch})` : n.role;
}
