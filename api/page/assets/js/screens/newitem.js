// A new item: type, params and options are asked for, and sent once.

import { h, show } from '../dom.js';
import { send } from '../api.js';
import { plural } from '../format.js';
import { href } from '../router.js';
import { dialog, field, select, toast } from '../ui.js';
import { complain, optionFields, paramsField, readAll, reveal, typeField } from '../itemform.js';
import { parseDuration } from '../units.js';
import { withTexts } from '../jsontext.js';
import { ulid } from '../ulid.js';

// newItem asks for an item and submits it. done is called once that is so.
export async function newItem({ type = '', done = () => {} } = {}) {
  const params = paramsField();
  const types = typeField(type, { changed: (name) => params.start(name) });
  const due = dueFields();
  const dedup = field('Dedup key', h('input', { name: 'dedup_key', autocomplete: 'off', spellcheck: 'false', maxlength: 512 }), { hint: 'merged into an item of this type that has the same key' });
  const options = optionFields();
  const fields = { type: types.el, params: params.el, dedup_key: dedup, ...due.all, ...options.all };
  const sent = once();
  params.start(type);
  const asked = dialog({
    title: 'New item', action: 'Submit', wide: true,
    body: [types.el, params.el, h('details', { class: 'options' }, h('summary', null, 'Options'), h('div', { class: 'form-grid' }, options.all.priority, due.el, dedup, options.els.slice(1)))],
    async act() {
      for (const el of Object.values(fields)) el.setError('');
      if (await params.loading()) { params.input.focus(); return false; } // nobody has seen them yet
      if (await types.check()) { reveal(types.el); return false; }
      if (params.check()) { reveal(params.el); return false; }
      const item = { type: types.name() };
      const read = due.read(item);
      if (!options.read(item) || !read) return false;
      const key = dedup.querySelector('input').value.trim();
      if (key) item.dedup_key = key;
      let reply;
      try {
        reply = await send('POST', 'api/v1/work', sent(withTexts(item, { params: params.text() })));
      } catch (err) {
        if (complain(err, fields, WORDS)) return false;
        throw err;
      }
      tell(reply);
      done();
      return true;
    },
  });
  if (type) params.input.focus();
  return asked;
}

// WORDS are what the engine calls the fields where it does not name them.
const WORDS = { dedup_key: 'dedup[ _]key', max_attempts: 'max_attempts', timeout_ms: 'timeout(_ms)?', labels: 'labels?', delay: 'delay(_ms)?|due time', at: 'available_at|time', type: 'types?' };

// once gives each different request an id of its own, and the same one the same:
// what is sent again because its reply was lost makes no second item.
export function once() {
  let [before, id] = ['', ''];
  return (doc) => {
    if (doc !== before) [before, id] = [doc, ulid()];
    return `{"id":"${id}",${doc.slice(1)}`;
  };
}

// dueFields ask when it may run.
function dueFields() {
  const when = select([['', 'as soon as possible'], ['delay', 'after a delay'], ['at', 'at a time']], '', { name: 'when' });
  const all = {
    delay: field('Delay', h('input', { name: 'delay', autocomplete: 'off', spellcheck: 'false', maxlength: 40, placeholder: '10m' }), { hint: 'as 30s, 10m or 1h30m' }),
    at: field('Time', h('input', { name: 'at', type: 'datetime-local', step: 1 }), { hint: 'in the zone of this machine' }),
  };
  const follow = () => { for (const [name, el] of Object.entries(all)) show(el, when.value === name); };
  when.addEventListener('change', follow);
  follow();
  const value = (name) => (when.value === name ? all[name].querySelector('input').value.trim() || 'none' : '');
  return {
    all, el: [field('May run', when), all.delay, all.at],
    read(item) {
      const into = {};
      const ok = readAll(all, { delay: parseDuration, at: timeOf }, value, into);
      if (into.delay) item.delay_ms = into.delay;
      if (into.at) item.available_at = into.at;
      return ok;
    },
  };
}

function timeOf(said) {
  if (said === 'none') throw new Error('Enter a time.');
  return new Date(said).toISOString();
}

// tell says what has become of it.
function tell(r) {
  const see = (id) => ({ link: { href: href(['work', id]), text: 'View' } });
  if (r.merged_into) toast(`A duplicate: merged into ${r.merged_into}${r.raised ? ', which takes its higher priority' : r.not_raised ? `, which is ${r.not_raised} and keeps its lower priority` : ''}.`, { kind: 'warn', ...see(r.merged_into) });
  else if (r.repeat) toast(`Already submitted as ${r.id}.`, { kind: 'warn', ...see(r.id) });
  else toast(`Submitted: ${r.id}${r.ahead ? `, behind ${plural(r.ahead, 'other')}` : ''}.`, see(r.id));
}
