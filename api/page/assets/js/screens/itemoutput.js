// An item's output: what its run writes, live while it runs.

import { frame, h, show, text } from '../dom.js';
import { getText, isAbort, stream } from '../api.js';
import { plural } from '../format.js';
import { panel } from '../ui.js';
import { TERMINAL } from '../states.js';

const MAX_SHOWN = 256 * 1024; // characters: the last ones
const LOOK = 2000; // ms between looks while there is no output, and until a broken follow is tried again

// output makes the output of a view with id, item and signal. The panel is there once
// there is output.
export function output(view) {
  const pre = h('pre', { class: 'output-text', tabindex: 0, 'aria-label': 'Output' });
  const mode = h('span', { role: 'status' });
  const el = panel('Output', { tools: mode, name: 'output' }, pre);
  const path = `api/v1/work/${encodeURIComponent(view.id)}/output`;
  let last = ''; // the id of the last chunk that is shown
  let shown = '';
  let bytes = 0; // of the run that are known
  let decoder = new TextDecoder();
  let note = '';
  let following = false;
  let looked = '';
  show(el, false);

  function draw() {
    const bottom = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 30;
    text(pre, shown.length > MAX_SHOWN ? `…${shown.slice(-MAX_SHOWN)}` : shown);
    text(mode, [note, following ? 'live' : plural(bytes, 'byte')].filter(Boolean).join(' · '));
    show(el, bytes > 0);
    if (bottom) pre.scrollTop = pre.scrollHeight;
  }

  function reset() {
    [shown, bytes, note, decoder] = ['', 0, '', new TextDecoder()];
  }

  function take(chunk) {
    const fresh = chunk.base64 ? Uint8Array.from(atob(chunk.base64), (c) => c.charCodeAt(0)) : new TextEncoder().encode(chunk.text ?? '');
    if (chunk.offset > bytes) note = 'its beginning is no longer kept';
    if (chunk.cut) note = 'cut at its bound';
    bytes = chunk.offset + fresh.length;
    shown += decoder.decode(fresh, { stream: true });
    if (shown.length > 2 * MAX_SHOWN) shown = shown.slice(-MAX_SHOWN);
  }

  // any reports whether there is output. A feed takes a connection, so only what has some is followed.
  async function any() {
    return await getText(path, { most: Infinity, plain: true, signal: view.signal }) !== '';
  }

  async function follow() {
    if (following) return;
    following = true;
    let over = false;
    while (!view.signal.aborted && !over) {
      try {
        if (last || await any()) {
          const event = ({ event: name, data, id }) => {
            if (name === 'reset') reset();
            else if (name === 'output') { take(JSON.parse(data)); last = id; } else if (name === 'end') over = true;
            frame(draw);
          };
          over = await stream(path, { query: { follow: true }, signal: view.signal, lastEventID: last, on: { event } }) === 'nothing left' || over;
        } else over = TERMINAL.has(view.item.state);
      } catch (err) {
        if (isAbort(err)) break;
        text(mode, 'reconnecting');
      }
      if (!over) await new Promise((done) => { setTimeout(done, LOOK); });
    }
    following = false;
    frame(draw);
  }

  return {
    el,
    draw() {
      if (view.at || looked === view.item.state) return;
      looked = view.item.state;
      follow();
    },
  };
}
