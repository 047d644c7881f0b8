// The dead items of a cause, or of filters: pages by cursor, replayed one by one
// or all that the filters find.

import { attr, h, keyed, put, text } from '../dom.js';
import { get, isAbort, send } from '../api.js';
import { live } from '../live.js';
import { ago, count, failureText, now, setAgo } from '../format.js';
import { go, href } from '../router.js';
import { button, confirm, empty, facts, panel, problem, select, toast } from '../ui.js';
import { keys, walk } from '../keys.js';
import { PAGE, pager } from '../pager.js';
import { bulk, STAYS } from './bulk.js';
import { edit, replay } from './itemactions.js';
import { fill, fillTypes } from './dead.js';

const MAX_STEPS = 8; // requests for one page: a page of the engine reads a bounded number of entries
const FILTERS = ['cause', 'type', 'reason', 'code', 'error', 'label', 'tenant', 'ended'];
const REASONS = ['exhausted', 'not_retryable', 'poisoned', 'child_dead', 'upstream_dead'];
const ENDED = [['', 'any time'], ['15m', 'last 15 minutes'], ['1h', 'last hour'], ['24h', 'last day'], ['168h', 'last week']];

export function itemsView({ place, tools, note, signal }) {
  let query = {};
  let asked = null;
  let shownDead = -1;
  const change = (name, value) => { if ((query[name] ?? '') !== value) go(href(['dead'], { ...query, items: query.items || (name === 'cause' ? '1' : query.cause ? '' : '1'), [name]: value })); };
  const type = select([['', 'any']], '', { onchange: () => change('type', type.value) });
  const reason = select([['', 'any'], ...REASONS.map((r) => [r, r.replaceAll('_', ' ')])], '', { onchange: () => change('reason', reason.value) });
  const ended = select(ENDED, '', { onchange: () => change('ended', ended.value) });
  const input = (name, label, more) => h('label', null, label, h('input', { name, autocomplete: 'off', spellcheck: 'false', maxlength: 256, size: 13, ...more, onchange: (ev) => change(name, ev.target.value.trim()) }));
  const inputs = [input('code', 'Error code'), input('error', 'Error contains', { placeholder: 'words' }), input('label', 'Label', { placeholder: 'name=value', pattern: '[^=]+=.*' }), input('tenant', 'Tenant')];
  const about = h('div');
  const body = h('tbody');
  const table = h('table', { class: 'folds dead-items' }, h('thead', null, h('tr', null, ['Item', 'Type', 'Error', 'Attempts', 'Died', 'Actions'].map((c) => h('th', { scope: 'col', class: c === 'Attempts' ? 'num' : null }, c === 'Actions' ? h('span', { class: 'sr' }, c) : c)))), body);
  const none = h('div');
  const pages = pager({ address: (cursor) => href(['dead'], { ...query, cursor }), signal, what: 'dead item', note: 'latest death first' });
  const many = [button('Replay all …', () => bulk('replay', selection(), said(), load), { kind: 'primary', key: 'a' }), button('Purge all …', () => bulk('purge', selection(), said(), load), { kind: 'danger' }), button('Refresh', load, { key: 'r' })];
  put(tools, many);
  place.append(about, h('form', { class: 'filters', 'aria-label': 'Filters', onsubmit: (ev) => { ev.preventDefault(); document.activeElement.blur(); } },
    h('label', null, 'Type', type), h('label', null, 'Reason', reason), inputs, h('label', null, 'Died', ended), h('a', { class: 'button button-quiet', href: href(['dead'], { items: 1 }) }, 'Clear'), h('input', { type: 'submit', class: 'sr', value: 'Apply the filters', tabindex: -1 })),
  h('section', { class: 'panel', 'aria-label': 'Dead items' }, h('div', { class: 'scroll-x' }, table), none, pages.el));
  keys('r', 'Refresh', load, { signal });
  keys('a', 'Replay all matches', () => bulk('replay', selection(), said(), load), { signal });
  keys('u', 'Back to causes', () => go(href(['dead'])), { signal });
  walk(body, 'a.row-link', signal);
  live.on('anew', load, signal);
  live.on('stats', () => { fillTypes(type, query.type); tell(); }, signal);

  // selection is what the filters find, as a bulk takes it.
  function selection() {
    const since = query.ended ? new Date(now() - hours(query.ended)).toISOString() : '';
    return { cause: query.cause, type: query.type, reason: query.reason, code: query.code, error: query.error, label: query.label, tenant: query.tenant, since };
  }
  const said = () => {
    const set = FILTERS.filter((f) => query[f]).map((f) => (f === 'ended' ? `died in the ${ENDED.find(([v]) => v === query[f])?.[1] ?? query[f]}` : `${f} ${query[f]}`));
    return set.length ? `Dead items of: ${set.join(', ')}.` : 'Everything dead, of every type.';
  };
  const deadNow = () => (live.stats?.types ?? []).filter((t) => !query.type || t.type === query.type).reduce((n, t) => n + (t.states?.dead ?? 0), 0);

  // tell says when others have died, or left, since the page was read.
  function tell() {
    const d = shownDead < 0 ? 0 : deadNow() - shownDead;
    text(note, d ? `${d > 0 ? '+' : '−'}${count(Math.abs(d))} dead since – refresh to see` : '');
  }

  async function load() {
    asked?.abort();
    const mine = asked = new AbortController();
    signal.addEventListener('abort', () => mine.abort(), { once: true });
    try {
      const [found] = await Promise.all([read(mine.signal), describe(mine.signal)]);
      shownDead = deadNow();
      tell();
      keyed(body, found.items, (it) => it.id, (it) => row(it, load), (tr, it) => tr.set(it));
      fill(table, none, found.items.length, () => (found.next ? empty('None yet', 'None of the items searched so far match. Older ones may: go on to older ones.')
        : query.cause ? empty('Nothing is dead of this cause now', 'Its items have been replayed or purged, or their retention is over.') : empty('No dead items match', said())));
      pages.draw(found.items.length, found.next);
    } catch (err) {
      if (isAbort(err)) return;
      keyed(body, [], String);
      fill(table, none, 0, () => problem(err, load));
    }
  }

  async function read(stop) {
    const found = { items: [], next: pages.cursor };
    for (let n = 0; n < MAX_STEPS; n++) {
      const page = await get('api/v1/dead', { query: { ...selection(), limit: PAGE - found.items.length, cursor: found.next }, signal: stop });
      found.items.push(...page.items ?? []);
      found.next = page.next_cursor ?? '';
      if (!found.next || found.items.length >= PAGE) break;
    }
    return found;
  }

  // describe shows the cause whose items these are.
  async function describe(stop) {
    if (!query.cause) { put(about); return; }
    const r = await get('api/v1/causes', { query: { type: query.type, all: 'true', limit: 1000 }, signal: stop });
    const c = (r.causes ?? []).find((x) => x.cause === query.cause);
    put(about, c ? aboutCause(c) : panel(`Cause ${query.cause}`, {}, h('p', { class: 'panel-body muted' }, 'Nothing has died of it for a long time, so its record is gone.')));
  }

  return {
    show(route) {
      query = Object.fromEntries([...FILTERS, 'items'].map((f) => [f, route.query.get(f) ?? '']));
      pages.set(route);
      fillTypes(type, query.type);
      reason.value = query.reason;
      ended.value = query.ended;
      for (const l of inputs) if (document.activeElement !== l.lastChild) l.lastChild.value = query[l.lastChild.name];
      load();
    },
  };
}

const hours = (d) => Number.parseFloat(d) * (d.endsWith('m') ? 60_000 : 3_600_000);

function aboutCause(c) {
  return panel('Cause', { name: 'cause', tools: [h('span', { class: 'tag tag-bad' }, c.code || 'no code'), h('span', { class: 'tag' }, c.reason.replaceAll('_', ' '))] },
    h('div', { class: 'panel-body' }, h('pre', { class: 'error-text', tabindex: 0, 'aria-label': 'Example’s error text' }, c.error || 'no error text'),
      facts([['Type', h('a', { href: href(['types', c.type]) }, c.type)], ['Dead now', h('span', { class: 'bad' }, count(c.dead))], ['Deaths in all', count(c.count)], ['First', ago(c.first)], ['Last', ago(c.last)],
        ['Example', h('a', { class: 'mono', href: href(['work', c.example]), title: c.example }, c.example)], ['Cause', h('span', { class: 'mono' }, c.cause)]])));
}

function row(item, load) {
  const link = h('a', { class: 'row-link mono', href: href(['work', item.id]), title: item.id }, item.id);
  const [error, attempts, died] = [h('td', { class: 'c-say' }), h('td', { class: 'num c-attempts' }), h('td', { class: 'nowrap c-died' }, ago(item.finished_at))];
  const view = { id: item.id, item, load };
  const name = `item ${item.id}`;
  const actions = h('td', { class: 'row-actions' }, button('Replay', () => replay(view), { name: `Replay ${name}` }), button('Edit', () => editOne(view), { name: `Edit and replay ${name}` }),
    button('Purge', () => purge(view), { kind: 'danger', name: `Purge ${name}` }));
  const tr = h('tr', { 'data-id': item.id }, h('td', { class: 'c-item' }, link), h('td', { class: 'c-type' }, item.type), error, attempts, died, actions);
  tr.set = (it) => {
    view.item = it;
    text(error, it.error ? failureText(it.error) : it.reason ?? '');
    attr(error, 'title', it.error?.message);
    text(attempts, `${it.attempt}/${it.max_attempts}`);
    setAgo(died.firstChild, it.finished_at);
  };
  return tr;
}

// editOne fetches the params, which lists leave out, as they were written.
async function editOne(view) {
  try {
    const item = await get(`api/v1/work/${encodeURIComponent(view.id)}`, { exact: true });
    await edit({ ...view, item });
  } catch (err) {
    toast(err.message, { kind: 'bad' });
    view.load();
  }
}

function purge(view) {
  return confirm('Purge this item?', `The item is deleted with its history and errors. This can’t be undone. ${STAYS}`, 'Purge the item', async () => {
    await send('DELETE', `api/v1/dead/${encodeURIComponent(view.id)}`);
    toast('Purged.');
    view.load();
  });
}
