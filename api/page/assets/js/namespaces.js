// The way to the other namespaces of the engine, for whoever may know of them.

import { get } from './api.js';
import { attr, h, put, show, text } from './dom.js';
import { live } from './live.js';
import { DEFAULT, namespace, ofEngine, pageOf } from './where.js';

const LAST = 'namespace'; // the one that was seen last, beside the default one

// namespaceSwitch lists the namespaces, with a link to the one that was seen last. It shows
// nothing while there is but the default one.
export function namespaceSwitch() {
  const before = last();
  const list = h('select', { 'aria-label': 'Namespace', onchange: () => { location.href = pageOf(list.value); } });
  const again = h('a', { class: 'namespace-last', hidden: true });
  const el = h('div', { class: 'namespaces', hidden: true }, list, again);
  const load = async () => {
    const names = await others();
    put(list, [DEFAULT, ...names].map((n) => h('option', { value: n, selected: n === namespace }, n)));
    list.value = namespace;
    const known = before !== namespace && names.includes(before);
    if (known) attr(text(again, `open ${before}`), 'href', pageOf(before));
    show(again, known);
    show(el, names.length > 0);
  };
  live.on('back', load);
  load();
  return el;
}

// others are the namespaces beside the default one, this one included.
async function others() {
  const names = new Set([namespace]);
  try {
    const reply = await get(ofEngine('api/v1/namespaces'), { plain: true });
    for (const { name } of reply.namespaces ?? []) names.add(name);
  } catch { /* an engine without namespaces, or not for this token: this one is all that is known */ }
  names.delete(DEFAULT);
  return [...names].sort();
}

// last returns the namespace that was seen last, and notes this one.
function last() {
  try {
    const was = localStorage.getItem(LAST) ?? '';
    if (namespace !== DEFAULT) localStorage.setItem(LAST, namespace);
    return was;
  } catch {
    return ''; // storage is off
  }
}
