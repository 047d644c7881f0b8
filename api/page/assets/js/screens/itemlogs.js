// An item's log: the last records, and live while it runs.

import { frame, h, show, text } from '../dom.js';
import { get, isAbort, stream } from '../api.js';
import { clockExact, plural, when } from '../format.js';
import { panel } from '../ui.js';
import { TERMINAL } from '../states.js';

const MAX_LINES = 1000; // shown: the last ones
const AGAIN = 2000; // ms until a broken follow is tried again

// logs makes the log of a view with id, item and signal.
export function logs(view) {
  const lines = h('ol', { class: 'log-lines', tabindex: 0, 'aria-label': 'Log records' });
  const none = h('p', { class: 'panel-body muted' }, 'No records. What the handler logs, or a command writes to stderr, appears here.');
  const mode = h('span', { role: 'status' });
  const el = panel('Log', { tools: mode, name: 'log' }, none, lines);
  let last = 0; // the sequence of the last record that is shown
  let queue = [];
  let following = false;
  let looked = '';
  show(lines, false);

  function flush() {
    const bottom = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 30;
    const fresh = queue.slice(-MAX_LINES).map(line);
    queue = [];
    lines.append(...fresh);
    while (lines.children.length > MAX_LINES) lines.firstChild.remove();
    show(none, lines.children.length === 0);
    show(lines, lines.children.length > 0);
    if (bottom) lines.scrollTop = lines.scrollHeight;
  }

  function take(rec) {
    if (rec.seq && rec.seq <= last) return;
    last = rec.seq ?? last;
    queue.push(rec);
    if (queue.length > MAX_LINES) queue.shift();
    frame(flush);
  }

  async function load() {
    try {
      const reply = await get(`api/v1/work/${view.id}/logs`, { query: { limit: MAX_LINES }, plain: true, signal: view.signal });
      (reply.records ?? []).forEach(take);
    } catch (err) {
      if (!isAbort(err)) text(mode, err.message);
    }
  }

  // follow reads the last records, and then each as it comes, until the item has
  // ended.
  async function follow() {
    if (following) return;
    following = true;
    const stop = new AbortController();
    view.signal.addEventListener('abort', () => stop.abort());
    await load();
    let over = false;
    while (!view.signal.aborted && !over) {
      try {
        text(mode, 'live');
        const event = ({ event: name, data }) => {
          if (name === 'log') take(JSON.parse(data));
          else if (name === 'end') over = true;
        };
        over = await stream(`api/v1/work/${view.id}/logs`, { query: { follow: true }, signal: stop.signal, lastEventID: last ? String(last) : '', on: { event } }) === 'nothing left' || over;
      } catch (err) {
        if (isAbort(err)) break;
        text(mode, 'reconnecting');
      }
      if (!over) await new Promise((done) => { setTimeout(done, AGAIN); });
    }
    following = false;
    frame(() => text(mode, lines.children.length ? plural(lines.children.length, 'record') : ''));
  }

  return {
    el,
    draw() {
      const key = view.item.state;
      if (key === looked) return;
      looked = key;
      if (view.at) load();
      else if (TERMINAL.has(key)) {
        if (!following) load(); // else the stream tells the rest, and ends by itself
      } else follow();
    },
  };
}

const levels = new Set(['debug', 'info', 'warn', 'error']);

function line(rec) {
  const at = Date.parse(rec.at);
  const level = levels.has(rec.level) ? rec.level : 'info';
  return h('li', { class: `log-${level}` }, h('time', { datetime: rec.at, title: when(at) }, clockExact(at)), h('span', { class: 'log-level' }, level), h('span', { class: 'log-text' }, rec.message), rec.attempt && h('span', { class: 'muted' }, `attempt ${rec.attempt}`));
}
