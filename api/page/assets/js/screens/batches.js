// Batches: how far each has come, the one that changed last first.

import { attr, frame, h, keyed, put, show, text } from '../dom.js';
import { get, isAbort, send } from '../api.js';
import { live } from '../live.js';
import { ago, count, plural, setAgo } from '../format.js';
import { href } from '../router.js';
import { bar, button, confirm, empty, failed, problem, toast } from '../ui.js';
import { keys, walk } from '../keys.js';
import { badge, TERMINAL } from '../states.js';

const PAGE = 50; // rows
const EVERY = 2000; // how often what is shown is read again while something changes, in milliseconds
const HEAD = ['State', 'Batch', 'Progress', 'Done', 'Dead', 'Cancelled', 'Changed', 'Actions'];
const NUMS = new Set(['Done', 'Dead', 'Cancelled']);

export default {
  name: 'batches', title: 'Batches', icon: 'batches', path: ['batches'], key: 'b', match: (path) => path[0] === 'batches' && path.length === 1,
  mount(el, { route, signal }) {
    let cursor = route.query.get('cursor') ?? '';
    let timer = 0;
    const note = h('p', { class: 'hint', role: 'status' });
    const body = h('tbody');
    const table = h('table', { class: 'folds batches' }, h('thead', null, h('tr', null, HEAD.map((c) => h('th', { scope: 'col', class: NUMS.has(c) ? 'num' : null }, c === 'Actions' ? h('span', { class: 'sr' }, c) : c)))), body);
    const none = h('div');
    const older = h('a', { class: 'button button-plain', hidden: true }, 'Older');
    const newest = h('a', { class: 'button button-plain', href: href(['batches']), hidden: true }, 'Newest');
    el.append(h('div', { class: 'screen-head' }, h('h1', null, 'Batches'), note, h('div', { class: 'tools' }, button('Refresh', () => load(), { key: 'r' }))),
      h('section', { class: 'panel', 'aria-label': 'Batches' }, h('div', { class: 'scroll-x' }, table), none, h('div', { class: 'pager' }, newest, older)));
    const load = async () => {
      clearTimeout(timer);
      timer = 0;
      try {
        const page = await get('api/v1/work', { query: { type: 'batch', limit: PAGE, cursor }, signal });
        frame(() => draw(page));
      } catch (err) {
        if (isAbort(err)) return;
        keyed(body, [], String);
        show(table, false);
        put(none, problem(err, load));
      }
    };
    const draw = (page) => {
      if (signal.aborted) return;
      const list = (page.items ?? []).filter((it) => it.batch);
      keyed(body, list, (it) => it.id, (it) => row(it, load), (tr, it) => tr.set(it));
      show(table, list.length > 0);
      show(newest, cursor !== '');
      show(older, Boolean(page.next_cursor));
      attr(older, 'href', href(['batches'], { cursor: page.next_cursor }));
      const open = list.filter((it) => !TERMINAL.has(it.state)).length;
      text(note, open ? `${plural(open, 'batch', 'batches')} under way` : '');
      put(none, list.length ? null : empty('No batches', 'A batch treats many items as one: progress, a callback once all have ended, and one cancel.', ['engine batches open --name nightly', 'engine submit hello --lines items.jsonl --batch ID', 'engine batches seal ID']));
    };
    live.on('events', () => { timer ||= setTimeout(load, EVERY); }, signal);
    live.on('anew', load, signal);
    keys('r', 'Refresh', load, { signal });
    walk(body, 'a.row-link', signal);
    signal.addEventListener('abort', () => clearTimeout(timer));
    load();
    return (next) => {
      cursor = next.query.get('cursor') ?? '';
      load();
    };
  },
};

// progressOf is how far a batch has come, on one line. Once it has ended nothing more comes.
export function progressOf({ batch: b, state }) {
  const of = Math.max(b.total, b.declared ?? 0);
  const more = TERMINAL.has(state) ? '' : !b.sealed ? 'open: more may come' : b.total < of ? `${count(of - b.total)} still to be submitted` : '';
  return [`${b.name ? `${b.name}: ` : ''}${count(b.done)} of ${count(of)} done`, b.dead && `${count(b.dead)} dead`, b.cancelled && `${count(b.cancelled)} cancelled`, more].filter(Boolean).join(', ');
}

function row(item, load) {
  const c = Object.fromEntries(HEAD.map((name) => [name, h('td', { class: NUMS.has(name) ? 'num' : null, 'data-label': name })]));
  const meter = bar(`items of batch ${item.id} that have ended`);
  const said = h('span', { class: 'muted' });
  const name = h('a', { class: 'row-link', href: href(['work', item.id]), title: item.id });
  const all = h('a', { href: href(['work'], { batch: item.id }) });
  const cancel = button('Cancel', () => confirm('Cancel this batch?', 'All of its items that have not ended are cancelled; running ones are told to stop.', 'Cancel the batch', async () => {
    try {
      await send('DELETE', `api/v1/work/${encodeURIComponent(item.id)}`);
      toast('The batch is cancelled.');
    } catch (err) {
      failed(err);
    }
    load();
  }), { kind: 'danger', name: `Cancel batch ${item.id}` });
  c.Batch.append(name);
  c.Progress.append(meter, ' ', said);
  c.Done.append(all);
  c.Actions.append(cancel);
  const tr = h('tr', null, HEAD.map((k) => c[k]));
  tr.set = (it) => {
    const b = it.batch;
    const of = Math.max(b.total, b.declared ?? 0);
    const at = it.finished_at ?? it.queued_at ?? it.created_at;
    put(c.State, badge(it.state));
    text(name, b.name || it.id);
    meter.set(b.done, of);
    text(said, `${of ? Math.floor((100 * b.done) / of) : 0} %${b.sealed || TERMINAL.has(it.state) ? '' : ', open'}`);
    text(all, `${count(b.done)} of ${count(of)}`);
    text(c.Dead, b.dead ? count(b.dead) : '–');
    text(c.Cancelled, b.cancelled ? count(b.cancelled) : '–');
    if (c.Changed.firstChild) setAgo(c.Changed.firstChild, at);
    else c.Changed.append(ago(at));
    show(cancel, !TERMINAL.has(it.state));
  };
  return tr;
}
