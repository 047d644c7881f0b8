// Replay or purge all dead items that a selection finds: counted first, asked,
// then done page by page, with its progress and outcome.

import { h, put, show, text } from '../dom.js';
import { get, send } from '../api.js';
import { count, plural } from '../format.js';
import { href } from '../router.js';
import { dialog, field, select, toast } from '../ui.js';
import { faultOf, withTexts } from '../jsontext.js';

const MAX_COUNT_PAGES = 50; // of 1,000 items: counting ends there, and says so
const MAX_ERRORS = 10; // of those that failed are named
const MAX_REASON = 256;
const page = 1000;

// STAYS is what a purge leaves.
export const STAYS = 'The event log holds their params and results until it is cut, and backups keep them: engine purge --now cuts it at once.';

// bulk asks for, and does, an action ('replay' or 'purge') to what selection finds;
// said is the selection in words. done is called when anything was changed.
export async function bulk(action, selection, said, done) {
  const purge = action === 'purge';
  const narrow = { ...selection }; // until is added below
  const all = !Object.entries(selection).some(([, v]) => v);
  const state = { stopped: false, counted: 0, more: false, ready: false, changed: 0, failed: 0, errors: [] };
  const found = h('p', { class: 'bulk-count', role: 'status' }, 'Counting …');
  const progress = h('progress', { class: 'bulk-progress', 'aria-label': 'Progress', max: 1, value: 0, hidden: true });
  const fields = purge ? null : replayFields();
  const reason = h('input', { maxlength: MAX_REASON, autocomplete: 'off' });
  const asked = dialog({
    title: purge ? 'Purge these dead items?' : 'Replay these dead items?', action: purge ? 'Purge' : 'Replay', kind: purge ? 'danger' : 'primary', cancel: 'Close',
    body: [h('p', { class: 'muted' }, said), found,
      h('p', null, purge ? `The items are deleted with their history, logs and errors. This can’t be undone. ${STAYS}` : 'They are queued again, each last of its priority, with as many further attempts as their type allows.'),
      fields?.el, field('Reason (kept in their history)', reason), progress],
    act() {
      state.running = run();
      return state.running;
    },
  });
  async function run() {
    if (fields && !fields.check()) return false;
    if (!state.ready) throw new Error('Still counting.');
    show(progress, true);
    progress.max = Math.max(state.counted, 1);
    const [options, texts] = fields?.value() ?? [{}, {}];
    const more = { ...options, ...(reason.value.trim() ? { reason: reason.value.trim() } : {}) };
    try {
      await each(action, { select: narrow, all, ...more }, state, (r) => {
        state.changed += r.changed;
        state.failed += r.failed;
        state.errors.push(...(r.errors ?? []));
        state.errors.length = Math.min(state.errors.length, MAX_ERRORS);
        progress.value = Math.min(state.changed + state.failed, progress.max);
        text(found, `${count(state.changed)} of ${count(state.counted)} ${purge ? 'purged' : 'replayed'}${state.failed ? `, ${count(state.failed)} could not be` : ''} …`);
      }, { texts });
    } finally {
      if (state.changed) done();
    }
    return true;
  }
  asked.then(() => { state.stopped = true; });
  const main = document.querySelector('dialog[open] button[type=submit]');
  main.disabled = true;
  try {
    // What dies from now on is not meant: the number that is asked about stays true.
    // Now is when the last of them has died, by the engine's clock and not by ours.
    narrow.until = await lastDeath(selection, state);
    await each(action, { select: narrow, all, dry_run: true }, state, (r) => {
      state.counted += r.matched;
      text(found, `Counting … ${count(state.counted)}`);
    }, { most: MAX_COUNT_PAGES });
  } catch (err) {
    text(found, err.message);
    return;
  }
  state.ready = true;
  text(found, state.counted ? `${plural(state.counted, 'item')}${state.more ? ' and more' : ''}.` : 'None are dead any more.');
  if (state.counted && !state.stopped) {
    text(main, `${purge ? 'Purge' : 'Replay'} ${plural(state.counted, 'item')}${state.more ? ' and more' : ''}`);
    main.disabled = false;
  }
  const ok = await asked;
  await state.running?.catch(() => {}); // shown in the dialog; a page that is under way is waited for
  if (ok || state.changed) tell(action, state, ok);
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
async function each(action, body, state, took, { most = Infinity, texts = {} } = {}) {
  let cursor = '';
  state.more = false;
  for (let n = 0; !state.stopped; n++) {
    if (n === most) { state.more = true; return; }
    const r = await send('POST', `api/v1/dead/${action}`, withTexts({ ...body, select: { ...clean(body.select), limit: page, cursor } }, texts));
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
function tell(action, state, whole) {
  const did = action === 'purge' ? 'purged' : 'replayed';
  const message = `${plural(state.changed, 'item')} ${did}${whole ? '' : '; it was stopped before the end'}.`;
  if (!state.failed) {
    toast(message, { kind: whole ? 'ok' : 'warn' });
    return;
  }
  const list = h('ul', { class: 'bulk-errors' });
  put(list, state.errors.map((e) => h('li', null, h('a', { class: 'mono', href: href(['work', e.id]), title: e.id }, e.id), ' ', e.error.message, ' ', h('span', { class: 'tag' }, e.error.code))));
  dialog({ title: `${plural(state.failed, 'item')} could not be ${did}`, cancel: 'Close', wide: true, body: [h('p', null, message, ' ', state.failed > state.errors.length ? `The first ${state.errors.length} of those that failed:` : 'Those that failed:'), list] });
}
