// What can be done to an item, by its state.

import { h, put, text } from '../dom.js';
import { get, send } from '../api.js';
import { go, href } from '../router.js';
import { button, confirm, dialog, field, select, toast } from '../ui.js';
import { keys } from '../keys.js';
import { faultOf } from '../jsontext.js';

const MAX_REASON = 256;
export const CANCEL = new Set(['waiting', 'queued', 'claimed', 'running']);
export const REPLAY = new Set(['dead', 'cancelled']);
let off = null; // takes the shortcuts of the item's former state away

// actionsOf are the buttons for a view's item; each has a shortcut.
export function actionsOf(view) {
  off?.abort();
  off = new AbortController();
  view.signal.addEventListener('abort', () => off.abort());
  const state = view.item.state;
  const out = [];
  const offer = (label, key, f, kind) => {
    keys(key, label, f, { signal: off.signal });
    out.push(button(label, f, { key, kind }));
  };
  const waits = view.item.waits_for;
  if (waits?.ask) offer('Answer', 'a', () => go(href(['approvals', view.id])), 'primary');
  if (CANCEL.has(state) && !view.item.batch && (!waits?.ask || signalsOf(waits).length)) offer('Signal', 's', () => signal(view), waits && !waits.ask ? 'primary' : undefined);
  if (state === 'queued') offer('Reschedule', 'm', () => reschedule(view));
  if (CANCEL.has(state)) offer('Cancel', 'c', () => cancel(view), 'danger');
  if (REPLAY.has(state) && !view.item.batch) { // of a batch its items are replayed
    offer('Edit and replay', 'e', () => edit(view));
    offer('Replay', 'p', () => replay(view), 'primary');
  }
  return out;
}

const reasonField = () => h('input', { maxlength: MAX_REASON, autocomplete: 'off' });
const path = (view) => `api/v1/work/${encodeURIComponent(view.id)}`;

// signalsOf are the names of the signals that a wait is for. The first name of one that asks
// is that of the answer.
export const signalsOf = (waits) => (waits?.names ?? []).slice(waits?.ask ? 1 : 0);

// signal sends a signal. It has one message id, however often the request is made.
async function signal(view) {
  const wanted = signalsOf(view.item.waits_for);
  const name = h('input', { maxlength: 256, autocomplete: 'off', value: wanted[0] ?? '', list: wanted.length > 1 ? 'signal-names' : null });
  const doc = h('textarea', { rows: 6, spellcheck: 'false', autocomplete: 'off' });
  const docField = field('Payload (JSON, or empty)', doc);
  const id = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`; // randomUUID is there on secure pages alone
  const check = () => {
    const fault = doc.value.trim() ? faultOf(doc.value) : '';
    docField.setError(fault);
    return fault;
  };
  doc.addEventListener('input', check);
  await dialog({
    title: 'Send a signal', action: 'Send the signal',
    body: [h('p', null, wanted.length ? `It waits for ${wanted.join(view.item.waits_for.all ? ' and ' : ' or ')}.` : 'It waits for no signal now: one that comes is kept until it does.'),
      wanted.length > 1 && h('datalist', { id: 'signal-names' }, wanted.map((n) => h('option', { value: n }))), field('Name', name), docField],
    async act() {
      if (check()) { doc.focus(); return false; }
      if (!name.value.trim()) { name.focus(); return false; }
      const head = JSON.stringify({ name: name.value.trim(), msg_id: id }).slice(0, -1);
      await send('POST', `${path(view)}/signals`, `${head}${doc.value.trim() ? `,"payload":${doc.value}` : ''}}`);
      toast('The signal has come.');
      view.load();
      return true;
    },
  });
}

async function cancel(view) {
  const reason = reasonField();
  const running = view.item.state === 'running' || view.item.state === 'claimed';
  await dialog({
    title: 'Cancel this item?', action: 'Cancel the item', cancel: 'Keep it', kind: 'danger',
    body: [h('p', null, running ? `${view.item.worker} is running it. It is told to stop, and its later reports are ignored.` : 'It will not be run.'),
      view.item.children?.live > 0 && h('p', null, 'Its children that have not ended are cancelled too.'), field('Reason (kept in its history)', reason)],
    async act() {
      const r = await send('DELETE', path(view), undefined, { query: { reason: reason.value.trim() } });
      toast(r.was_running ? `Cancelled. It was running${r.worker_told ? ', and its worker has been told' : '; its worker could not be reached and will learn of it at its next report'}.` : 'Cancelled.');
      view.load();
    },
  });
}

export async function replay(view) {
  await confirm('Replay this item?', 'It is queued again as it is, last in line. Its earlier attempts stay in its history.', 'Replay', async () => {
    await send('POST', `${path(view)}/replay`, {});
    toast('Queued again.');
    view.load();
  }, 'primary');
}

// attemptsOf is how many attempts an item gets that is replayed.
async function attemptsOf(it) {
  if (it.own_attempts) return 'as submitted, or its type’s';
  const { settings } = await get(`api/v1/types/${encodeURIComponent(it.type)}`);
  return settings.per_priority?.[it.priority]?.max_attempts ?? settings.max_attempts;
}

// edit replays with other params. What is sent is the text as it stands, so that
// no number is rounded on the way.
export async function edit(view) {
  const doc = h('textarea', { rows: 14, spellcheck: 'false', autocomplete: 'off', value: view.item.params === undefined ? 'null' : JSON.stringify(view.item.params, null, 2) });
  const docField = field('Params (JSON)', doc, { hint: 'Checked as you type.' });
  const priority = select([['', `as it was (${view.item.priority})`], ...priorities()], '');
  const attempts = h('input', { type: 'number', min: 1, max: 1000, step: 1 });
  const unset = h('span', null, 'its type’s setting');
  attemptsOf(view.item).then((n) => text(unset, n), () => {});
  const reason = reasonField();
  const check = () => {
    const fault = faultOf(doc.value);
    docField.setError(fault);
    return fault;
  };
  doc.addEventListener('input', check);
  await dialog({
    title: 'Edit and replay', action: 'Replay with these params', wide: true,
    body: [docField, h('div', { class: 'filters' }, h('label', null, 'Priority', priority), h('label', null, h('span', null, 'More attempts (empty: ', unset, ')'), attempts)), field('Reason (kept in its history)', reason)],
    async act() {
      if (check()) { doc.focus(); return false; }
      const more = {};
      if (priority.value !== '') more.priority = Number(priority.value);
      if (attempts.value !== '') more.max_attempts = Number(attempts.value);
      if (reason.value.trim()) more.reason = reason.value.trim();
      const rest = JSON.stringify(more).slice(1, -1);
      await send('POST', `${path(view)}/replay`, `{"params":${doc.value}${rest ? `,${rest}` : ''}}`);
      toast('Queued again with the new params.');
      view.load();
      return true;
    },
  });
}

const priorities = () => [...Array(10).keys()].reverse().map((p) => [p, p === 9 ? '9, first' : p === 0 ? '0, last' : String(p)]);

// rescheduleFields are what can be chosen anew; value() throws if nothing is. now is the
// priority that is kept if none is chosen, in words.
export function rescheduleFields(now) {
  const when = select([['', 'as it is'], ['now', 'as soon as possible'], ['delay', 'after a delay'], ['at', 'at a time']], '');
  const delay = h('input', { type: 'number', min: 1, step: 1, value: 10 });
  const unit = select([[1000, 'seconds'], [60_000, 'minutes'], [3_600_000, 'hours'], [86_400_000, 'days']], 60_000, { 'aria-label': 'Unit of the delay' });
  const at = h('input', { type: 'datetime-local', step: 1 });
  const priority = select([['', now], ...priorities()], '');
  const extra = h('div', { class: 'filters' });
  const follow = () => put(extra, when.value === 'delay' ? [h('label', null, 'Delay', delay), unit] : when.value === 'at' ? h('label', null, 'Time (of this machine’s zone)', at) : null);
  when.addEventListener('change', follow);
  return {
    el: [field('May run', when), extra, field('Priority', priority)],
    value() {
      const change = {};
      if (priority.value !== '') change.priority = Number(priority.value);
      if (when.value === 'now') change.now = true;
      if (when.value === 'delay') change.delay_ms = Math.round(Number(delay.value) * Number(unit.value));
      if (when.value === 'at') {
        if (!at.value) throw new Error('Enter a time.');
        change.available_at = new Date(at.value).toISOString();
      }
      if (Object.keys(change).length === 0) throw new Error('Nothing would change: choose a time or a priority.');
      return change;
    },
  };
}

async function reschedule(view) {
  const fields = rescheduleFields(`as it is (${view.item.priority})`);
  await dialog({
    title: 'Reschedule', action: 'Reschedule', body: fields.el,
    async act() {
      await send('PATCH', path(view), fields.value());
      toast('Rescheduled.');
      view.load();
    },
  });
}
