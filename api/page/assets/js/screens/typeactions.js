// What can be done to a type.

import { h } from '../dom.js';
import { send } from '../api.js';
import { confirm, dialog, failed, field, toast } from '../ui.js';

const MAX_REASON = 256;
export const typePath = (type) => `api/v1/types/${encodeURIComponent(type)}`;

// How long a pause may be said to last, in minutes; 0 is until it is resumed.
const LASTS = [[0, 'until resumed'], [15, '15 minutes'], [60, 'an hour'], [240, 'four hours'], [1440, 'a day'], [10080, 'a week']];

// pauseDialog asks why and for how long, and pauses. done is called once it is so.
export function pauseDialog(type, done = () => {}) {
  const reason = h('input', { maxlength: MAX_REASON, autocomplete: 'off' });
  const by = h('input', { maxlength: MAX_REASON, autocomplete: 'name' });
  const lasts = h('select', null, LASTS.map(([minutes, words]) => h('option', { value: minutes }, words)));
  return dialog({
    title: `Pause ${type}?`, action: 'Pause', body: [h('p', null, 'Its items wait until it is resumed. Running items continue, and submissions are accepted.'), field('For', lasts), field('Reason (shown to all)', reason), field('By', by)],
    async act() {
      const forMS = Number(lasts.value) * 60_000;
      await send('POST', `${typePath(type)}/pause`, { ...(forMS ? { for_ms: forMS } : {}), ...(reason.value.trim() ? { reason: reason.value.trim() } : {}), ...(by.value.trim() ? { by: by.value.trim() } : {}) });
      toast(`${type} is paused.`);
      done();
    },
  });
}

// resume has its items run again.
export async function resume(type, done = () => {}) {
  try {
    await send('POST', `${typePath(type)}/resume`, {});
    toast(`${type} is resumed.`);
  } catch (err) {
    failed(err);
  }
  done();
}

// removeType has the engine forget a type that nothing uses; if something does, the
// refusal says what.
export const removeType = (type, done = () => {}) => confirm(`Remove ${type}?`, 'Its settings and its pause are removed with it. The engine refuses while the type has items, a schedule or a worker. The next submission creates it again.', 'Remove', async () => {
  await send('DELETE', typePath(type));
  toast(`${type} is removed.`);
  done();
});

// resetCircuit closes a circuit that is open.
export const resetCircuit = (type, done = () => {}) => confirm(`Close the circuit of ${type}?`, 'Its items run again at once, as if none had failed. If the cause remains, the circuit opens again.', 'Close the circuit', async () => {
  await send('POST', `${typePath(type)}/circuit/reset`);
  toast(`The circuit of ${type} is closed.`);
  done();
}, 'primary');
