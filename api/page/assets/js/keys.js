// Keyboard shortcuts. One key, or two in a row ("g w"). While something is typed
// into a field, or a dialog is open, they are off.
//
//   keys('r', 'Refresh', f, {signal, group})

import { h } from './dom.js';
import { dialog } from './ui.js';

const all = new Map(); // key → {key, does, f, group}
const SECOND = 1200; // ms in which the second key must come
let first = '';
let timer = 0;

// keys adds a shortcut until signal ends.
export function keys(key, does, f, { signal, group = 'This screen' } = {}) {
  const entry = { key, does, f, group };
  all.set(key, entry);
  signal?.addEventListener('abort', () => { if (all.get(key) === entry) all.delete(key); });
}

// startKeys listens.
export function startKeys() {
  document.addEventListener('keydown', press);
  keys('?', 'Show the shortcuts', help, { group: 'Everywhere' });
}

const typing = (el) => el.closest?.('input, textarea, select, [contenteditable]');

function press(ev) {
  if (ev.ctrlKey || ev.metaKey || ev.altKey || ev.defaultPrevented) return;
  if (typing(ev.target)) {
    if (ev.key === 'Escape') ev.target.blur();
    return;
  }
  if (document.querySelector('dialog[open]')) return;
  clearTimeout(timer);
  const key = first ? `${first} ${ev.key}` : ev.key;
  first = '';
  const entry = all.get(key);
  if (entry) {
    ev.preventDefault();
    entry.f(ev);
  } else if ([...all.keys()].some((k) => k.startsWith(`${key} `))) {
    first = key;
    timer = setTimeout(() => { first = ''; }, SECOND);
  }
}

// help shows all shortcuts.
export function help() {
  const groups = new Map();
  for (const e of all.values()) groups.set(e.group, [...(groups.get(e.group) ?? []), e]);
  dialog({
    title: 'Keyboard shortcuts', cancel: 'Close', wide: true,
    body: [h('div', { class: 'shortcuts' }, [...groups].map(([name, list]) => h('section', null, h('h3', null, name),
      h('dl', null, list.map((e) => h('div', null, h('dt', null, e.key.split(' ').map((k) => h('kbd', null, k))), h('dd', null, e.does)))))))],
  });
}

// walk lets j and k (and the arrows) move the focus along the links that
// selector finds in el.
export function walk(el, selector, signal) {
  const step = (by) => {
    const list = [...el.querySelectorAll(selector)];
    const at = list.findIndex((x) => x === document.activeElement || x.contains(document.activeElement));
    const to = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.max(0, Math.min(list.length - 1, at + by))];
    to?.focus();
    to?.scrollIntoView({ block: 'nearest' });
  };
  keys('j', 'Next row', () => step(1), { signal });
  keys('k', 'Previous row', () => step(-1), { signal });
  keys('ArrowDown', 'Next row', () => step(1), { signal });
  keys('ArrowUp', 'Previous row', () => step(-1), { signal });
}
