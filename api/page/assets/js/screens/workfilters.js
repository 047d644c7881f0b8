// The filters of the list of items.

import { attr, h, put, show, text } from '../dom.js';
import { live } from '../live.js';
import { count } from '../format.js';
import { href } from '../router.js';
import { select } from '../ui.js';
import { mark, STATES } from '../states.js';

export const FILTERS = ['q', 'state', 'type', 'label', 'tenant', 'worker', 'schedule', 'batch', 'error', 'code', 'reason', 'created_after', 'created_before'];

// filters are the controls; set(query) fills them in, counts() their figures.
export function filters(change) {
  const states = new Map([['', 'all'], ...STATES.filter((s) => s !== 'created').map((s) => [s, s])].map(([st, name]) => [st,
    h('button', { type: 'button', class: `chip${st ? ` st-${st}` : ''}`, 'aria-pressed': 'false', 'data-state': st, onclick: () => change('state', st) }, st && mark(st), name, h('span', { class: 'chip-count' }))]));
  const type = select([['', 'any']], '', { onchange: () => change('type', type.value) });
  const input = (name, label, more = {}) => h('label', null, label, h('input', { name, autocomplete: 'off', spellcheck: 'false', maxlength: 256, ...more, onchange: (ev) => change(name, ev.target.value.trim()) }));
  const inputs = [input('q', 'Search', { type: 'search', placeholder: 'id or words', size: 16 }), input('error', 'Error contains', { placeholder: 'words', size: 14 }), input('label', 'Label', { placeholder: 'name=value', size: 14, pattern: '[^=]+=.*' })];
  const more = [input('worker', 'On worker', { size: 14 }), input('schedule', 'From schedule', { size: 14 }), input('tenant', 'Tenant', { size: 12 }), input('batch', 'Batch or parent', { placeholder: 'id', size: 12 }), input('code', 'Error code', { size: 12 }), input('reason', 'Reason', { size: 12 }),
    input('created_after', 'Created after', { type: 'datetime-local' }), input('created_before', 'Created before', { type: 'datetime-local' })];
  const rest = h('details', { class: 'more-filters' }, h('summary', null, 'More filters'), h('div', { class: 'filters' }, more));
  const clear = h('a', { class: 'button button-quiet', href: href(['work']), hidden: true }, 'Clear');
  const el = h('form', { class: 'work-filters', 'aria-label': 'Filters', onsubmit: (ev) => { ev.preventDefault(); document.activeElement.blur(); } },
    h('div', { class: 'chips', role: 'group', 'aria-label': 'State' }, [...states.values()]), h('div', { class: 'filters' }, h('label', null, 'Type', type), inputs, clear), rest,
    h('input', { type: 'submit', class: 'sr', value: 'Apply the filters', tabindex: -1 }));
  let query = {};
  let kinds = '';
  const all = [...inputs, ...more].map((l) => l.querySelector('input'));
  const counts = () => {
    const list = live.stats?.types ?? [];
    const of = (st) => list.filter((t) => !query.type || t.type === query.type).reduce((n, t) => n + (t.states?.[st] ?? 0), 0);
    for (const [st, b] of states) if (st) text(b.lastChild, live.stats ? count(of(st)) : '');
    const known = [...new Set([...list.map((t) => t.type), query.type].filter(Boolean))].sort();
    if (known.join() === kinds) return;
    kinds = known.join();
    put(type, h('option', { value: '' }, 'any'), known.map((t) => h('option', { value: t }, t)));
    type.value = query.type ?? '';
  };
  return {
    el, counts,
    focus: () => type.focus(),
    set(q) {
      query = q;
      for (const [st, b] of states) attr(b, 'aria-pressed', String(st === q.state));
      counts();
      type.value = q.type;
      for (const i of all) if (document.activeElement !== i) i.value = q[i.name];
      if (more.some((l) => q[l.querySelector('input').name])) rest.open = true;
      show(clear, FILTERS.some((f) => q[f]));
    },
  };
}
