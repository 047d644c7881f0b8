// What can be done to a schedule, in the list of schedules and on its own page.

import { send } from '../api.js';
import { href } from '../router.js';
import { button, confirm, failed, toast } from '../ui.js';
import { writeDuration } from '../units.js';
import { ulid } from '../ulid.js';
import { h } from '../dom.js';
import { scheduleForm } from './scheduleform.js';

export const IN_FILE = 'engine.toml sets this schedule: change it there, then restart the engine';
export const schedulePath = (name) => `api/v1/schedules/${encodeURIComponent(name)}`;

// whenOf is when a schedule ticks.
export const whenOf = (s) => [h('span', { class: 'mono' }, s.cron || `every ${writeDuration(s.every_ms)}`), s.cron && h('span', { class: 'hint' }, ` ${s.zone || 'UTC'}`)];

// actionsOf are the buttons for a schedule. done is called when anything has changed;
// gone, when it is removed. keyed: they have shortcuts.
export function actionsOf(s, { done, gone = done, keyed = false }) {
  const path = schedulePath(s.name);
  const change = async (verb, said) => {
    try {
      await send('POST', `${path}/${verb}`);
      toast(said);
    } catch (err) {
      failed(err);
    }
    done();
  };
  const fire = () => {
    const id = ulid(); // pressed again because the reply was lost, it makes no second item
    return confirm(`Fire ${s.name} now?`, `It makes one item of type ${s.type} now, in addition to its ticks.`, 'Fire', async () => {
      const r = await send('POST', `${path}/fire`, { id });
      toast(r.merged_into ? `${s.name} made no new item: it was merged into the one before.` : `${s.name} has made an item.`, { link: { href: href(['work', r.merged_into || r.id]), text: 'View' } });
      done();
    }, 'primary');
  };
  const remove = () => confirm(`Remove ${s.name}?`, 'It will not tick again. The items it has made stay.', 'Remove', async () => {
    await send('DELETE', path);
    toast(`${s.name} is removed.`);
    setTimeout(gone);
  });
  const file = s.source === 'file';
  const one = (label, f, key, more = {}) => button(label, f, { name: `${label === 'Fire now' ? `Fire ${s.name} now` : `${label} ${s.name}`}`, key: keyed ? key : undefined, ...more });
  const owned = { disabled: file, title: file ? IN_FILE : undefined };
  return [one('Fire now', fire, 'f', { kind: keyed ? 'primary' : 'plain' }), one('Edit', () => scheduleForm({ name: s.name, done }), 'e', owned),
    one(s.paused ? 'Resume' : 'Pause', () => change(s.paused ? 'resume' : 'pause', s.paused ? `${s.name} ticks again.` : `${s.name} is paused.`), 'p', owned),
    one('Remove', remove, undefined, { kind: 'danger', ...owned })];
}
