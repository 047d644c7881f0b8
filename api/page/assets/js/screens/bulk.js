// Replay, purge, cancel or reschedule many items: those that a selection finds, or
// those that were chosen one by one. Counted first, asked, then done, with its
// progress and outcome.

import { h, put, show, text } from '../dom.js';
import { get, send } from '../api.js';
import { count, plural } from '../format.js';
import { href } from '../router.js';
import { dialog, field, select, toast } from '../ui.js';
import { faultOf, withTexts } from '../jsontext.js';
import { TERMINAL } from '../states.js';
import { CANCEL, REPLAY, rescheduleFields } from './itemactions.js';

const MAX_COUNT_PAGES = 50; // of 1,000 items: counting ends there, and says so
const MAX_ERRORS = 10; // of those that failed are named
const MAX_TYPES = 5; // are named with their numbers
const MAX_REASON = 256;
const page = 1000;

// STAYS is what a purge leaves.
export const STAYS = 'The event log holds their params and results until it is cut, and backups keep them: engine purge --now cuts it at once.';

// ACTIONS are what can be done to many items: in which states, by which route (many),
// and how to one of them.
export const ACTIONS = {
  cancel: {
    verb: 'Cancel', did: 'cancelled', states: CANCEL, many: 'work/cancel', kind: 'danger', reason: true,
    about: 'They will not be run. Workers that run them are told to stop, and later reports are ignored. Their children that have not ended are cancelled too.',
    one: (id, { reason }) => send('DELETE', `api/v1/work/${id}`, undefined, { query: { reason } }),
  },
  reschedule: {
    verb: 'Reschedule', did: 'rescheduled', states: new Set(['queued']), many: 'work/reschedule', kind: 'primary',
    about: 'Only queued items can be changed.', dry: { now: true }, // one that changes nothing is refused, even to be counted
    fields: () => {
      const f = rescheduleFields('as they are');
      return { el: f.el, check: () => true, value: () => [f.value(), {}] };
    },
    one: (id, options) => send('PATCH', `api/v1/work/${id}`, options),
  },
  replay: {
    verb: 'Replay', did: 'replayed', states: REPLAY, many: 'dead/replay', kind: 'primary', reason: true,
    about: 'They are queued again, each last of its priority, with as many further attempts as their type allows.', fields: replayFields,
    one: (id, options, texts) => send('POST', `api/v1/work/${id}/replay`, withTexts(options, texts)),
  },
  purge: {
    verb: 'Purge', did: 'purged', states: TERMINAL, many: 'dead/purge', kind: 'danger', reason: true,
    about: `The items are deleted with their history and errors. This can’t be undone. ${STAYS}`,
    one: (id, { reason }) => send('DELETE', `api/v1/dead/${id}`, undefined, { query: { reason } }),
  },
};

// bulk asks for, and does, an action ('replay' or 'purge') to the dead items that
// selection finds; said is the selection in words. done is called when anything was changed.
export const bulk = (action, selection, said, done) => bulkOf(action, {
  noun: 'dead items', none: 'None are dead any more.', selections: [selection],
  // What dies from now on is not meant: the number that is asked about stays true.
  // Now is when the last of them has died, by the engine's clock and not by ours.
  bound: async (sel, state) => ({ until: await lastDeath(sel, state) }),
}, said, done);

// bulkOf is bulk for any action. Meant are either items, or what selections find, each
// with what bound(selection) adds to it.
export async function bulkOf(action, { noun = 'items', none = 'None match any more.', items, selections = [], bound }, said, done) {
  const { verb, did, about, kind, many, one, ...is } = ACTIONS[action];
  const state = { stopped: false, counted: 0, more: false, ready: false, changed: 0, failed: 0, errors: [], types: {} };
  const meant = []; // bodies of requests, once they are known
  const found = h('p', { class: 'bulk-count', role: 'status' }, 'Counting …');
  const progress = h('progress', { class: 'bulk-progress', 'aria-label': 'Progress', max: 1, value: 0, hidden: true });
  const fields = is.fields?.();
  const reason = h('input', { maxlength: MAX_REASON, autocomplete: 'off' });
  const asked = dialog({
    title: `${verb} these ${noun}?`, action: verb, kind, cancel: 'Close',
    body: [h('p', { class: 'muted' }, said), found, h('p', null, about), fields?.el, is.reason && field('Reason (kept in their history)', reason), progress],
    act() {
      state.running = run();
      return state.running;
    },
  });
  const took = (r) => {
    state.changed += r.changed;
    state.failed += r.failed;
    state.errors.push(...(r.errors ?? []));
    state.errors.length = Math.min(state.errors.length, MAX_ERRORS);
    progress.value = Math.min(state.changed + state.failed, progress.max);
    text(found, `${count(state.changed)} of ${count(state.counted)} ${did}${state.failed ? `, ${count(state.failed)} could not be` : ''} …`);
  };
  async function run() {
    if (fields && !fields.check()) return false;
    if (!state.ready) throw new Error('Still counting.');
    const [options, texts] = fields?.value() ?? [{}, {}];
    show(progress, true);
    progress.max = Math.max(state.counted, 1);
    const more = { ...options, ...(reason.value.trim() ? { reason: reason.value.trim() } : {}) };
    try {
      if (items) await eachItem(items, (id) => one(id, more, texts), state, took);
      for (const body of meant) await each(many, { ...body, ...more }, state, took, { texts });
    } finally {
      if (state.changed) done();
    }
    return true;
  }
  asked.then(() => { state.stopped = true; });
  const main = document.querySelector('dialog[open] button[type=submit]');
  main.disabled = true;
  const counted = (types) => {
    for (const [type, n] of Object.entries(types)) {
      state.types[type] = (state.types[type] ?? 0) + n;
      state.counted += n;
    }
    text(found, `Counting … ${count(state.counted)}`);
  };
  try {
    for (const it of items ?? []) counted({ [it.type]: 1 });
    let more = false;
    for (const sel of selections) {
      const all = !Object.entries(sel).some(([k, v]) => k !== 'state' && v);
      meant.push({ select: { ...sel, ...await bound(sel, state) }, all });
      await each(many, { ...meant.at(-1), ...is.dry, dry_run: true }, state, (r) => counted(r.types ?? {}), { most: MAX_COUNT_PAGES });
      more ||= state.more;
    }
    state.more = more;
  } catch (err) {
    text(found, err.message);
    return;
  }
  state.ready = true;
  const number = `${plural(state.counted, 'item')}${state.more ? ' and more' : ''}`;
  text(found, state.counted ? `${number}: ${typesOf(state.types)}.` : none);
  if (state.counted && !state.stopped) {
    text(main, `${verb} ${number}`);
    main.disabled = false;
  }
  const ok = await asked;
  await state.running?.catch(() => {}); // shown in the dialog; a page that is under way is waited for
  if (ok || state.changed) tell(did, state, ok);
}

// typesOf names the types with the most of them.
function typesOf(types) {
  const list = Object.entries(types).sort((a, b) => b[1] - a[1]);
  return list.slice(0, MAX_TYPES).map(([type, n]) => `${count(n)} ${type}`).join(', ') + (list.length > MAX_TYPES ? `, and ${plural(list.length - MAX_TYPES, 'more type')}` : '');
}

// eachItem does it to one item after the other. What the engine refuses is one that failed.
async function eachItem(items, f, state, took) {
  for (const { id } of items) {
    if (state.stopped) return;
    try {
      await f(id);
      took({ changed: 1, failed: 0 });
    } catch (err) {
      if (!err.status || err.status === 401 || err.status === 403 || err.status >= 500) throw err;
      took({ changed: 0, failed: 1, errors: [{ id, error: err }] });
    }
  }
}

// lastDeath is when the last of the dead items of a selection has died, undefined if
// there is none.
async function lastDeath(selection, state) {
  for (let n = 0, cursor = ''; n < MAX_COUNT_PAGES && !state.stopped; n++) {
    const r = await get('api/v1/dead', { query: { ...selection, limit: 1, cursor } });
    if (r.items.length) return r.items[0].finished_at;
    cursor = r.next_cursor ?? '';
    if (!cursor) return undefined;
  }
  return undefined;
}

// each sends a bulk page by page, until its end, until it is stopped, or up to most
// pages; state.more says that there is more. texts are members of the body that are
// JSON already.
async function each(route, body, state, took, { most = Infinity, texts = {} } = {}) {
  let cursor = '';
  state.more = false;
  for (let n = 0; !state.stopped; n++) {
    if (n === most) { state.more = true; return; }
    const r = await send('POST', `api/v1/${route}`, withTexts({ ...body, select: { ...clean(body.select), limit: page, cursor } }, texts));
    took(r);
    cursor = r.next_cursor ?? '';
    if (!cursor) return;
  }
}

const clean = (sel) => Object.fromEntries(Object.entries(sel).filter(([, v]) => v));

function replayFields() {
  const priority = select([['', 'as they were'], ...[...Array(10).keys()].reverse().map((p) => [p, p === 9 ? '9, first' : p === 0 ? '0, last' : String(p)])], '');
  const attempts = h('input', { type: 'number', min: 1, max: 1000, step: 1 });
  const patch = h('input', { class: 'mono', name: 'patch', autocomplete: 'off', spellcheck: 'false', placeholder: '{"field": "new value", "other": null}' });
  const patchField = field('Change each item’s own params (a JSON merge patch; empty: leave them)', patch, { hint: 'Checked as you type; sent exactly as written.' });
  const check = () => {
    const fault = patch.value.trim() && patchFault(patch.value);
    patchField.setError(fault);
    if (fault) patch.focus();
    return !fault;
  };
  patch.addEventListener('input', check);
  return {
    check, el: h('div', null, h('div', { class: 'filters' }, h('label', null, 'Priority', priority), h('label', null, 'More attempts (empty: as submitted, or their type’s)', attempts)), patchField),
    value: () => [
      { ...(priority.value !== '' ? { priority: Number(priority.value) } : {}), ...(attempts.value ? { max_attempts: Number(attempts.value) } : {}) },
      { patch: patch.value.trim() ? patch.value : undefined },
    ],
  };
}

// patchFault says what is wrong with a patch: only an object changes params, anything
// else would replace them all.
function patchFault(doc) {
  return faultOf(doc) || (doc.trim().startsWith('{') ? '' : 'The patch must be an object, like {"field": "new value"}.');
}

// tell says what has become of it; those that failed are named, to be looked at.
function tell(did, state, whole) {
  const message = `${plural(state.changed, 'item')} ${did}${whole ? '' : '; it was stopped before the end'}.`;
  if (!state.failed) {
    toast(message, { kind: whole ? 'ok' : 'warn' });
    return;
  }
  const list = h('ul', { class: 'bulk-errors' });
  put(list, state.errors.map((e) => h('li', null, h('a', { class: 'mono', href: href(['work', e.id]), title: e.id }, e.id), ' ', e.error.message, ' ', h('span', { class: 'tag' }, e.error.code))));
  dialog({ title: `${plural(state.failed, 'item')} could not be ${did}`, cancel: 'Close', wide: true, body: [h('p', null, message, ' ', state.failed > state.errors.length ? `The first ${state.errors.length} of those that failed:` : 'Those that failed:'), list] });
}
