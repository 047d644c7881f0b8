// Messages that come and go. They never take a control away: they stand where they
// cover none, if there is such a place, and what is pressed through them goes to
// what lies below; only their own button and link are theirs.

import { attr, frame, h } from './dom.js';
import { icon } from './icons.js';

const MAX_TOASTS = 4;
const TOAST_MS = 7000;
const LINK_MS = 30_000; // with a link, which takes time to be reached
const LOOK_MS = 500; // between two looks at what lies below
const PLACES = ['bottom-end', 'top-end', 'bottom-start', 'top-start']; // css/shell.css
const CONTROLS = 'a[href], button, input, select, textarea, summary';
let region = null;
let timer = 0;

// toastRegion is where toasts appear; the shell places it once.
export function toastRegion() {
  region = h('div', { class: 'toasts', role: 'status', 'aria-live': 'polite', 'aria-label': 'Messages', 'data-place': PLACES[0] });
  for (const what of ['scroll', 'resize']) addEventListener(what, () => frame(place), { capture: true, passive: true });
  return region;
}

// toast says something for some seconds; kind: ok, warn, bad. link: {href, text}.
// A message of something bad stays until it is closed.
export function toast(message, { kind = 'ok', link } = {}) {
  const close = () => { el.remove(); look(); };
  const el = h('div', { class: `toast toast-${kind}`, role: kind === 'bad' ? 'alert' : null },
    h('span', { class: 'toast-text' }, message, link && [' ', h('a', { href: link.href, onclick: close }, link.text)]),
    h('button', { class: 'icon-button', type: 'button', title: 'Close (Esc)', 'aria-label': 'Close this message', onclick: close }, icon('close')));
  region.append(el);
  while (region.children.length > MAX_TOASTS) region.firstChild.remove();
  place();
  look();
  if (kind !== 'bad') setTimeout(close, link ? LINK_MS : TOAST_MS);
}

// closeToast closes the last message.
export function closeToast() {
  region.lastElementChild?.remove();
  look();
}

// look keeps the messages off the controls for as long as there are messages.
function look() {
  clearTimeout(timer);
  if (region.children.length) timer = setTimeout(() => { frame(place); look(); }, LOOK_MS);
}

// place moves the messages, if they cover a control, to where they cover fewer.
function place() {
  if (!region.children.length) return;
  const below = [...document.querySelectorAll(CONTROLS)].filter((el) => !region.contains(el)).map((el) => el.getBoundingClientRect())
    .filter((r) => r.width > 1 && r.bottom > 0 && r.top < innerHeight);
  const at = region.getAttribute('data-place');
  let best = at;
  let least = covers(below);
  for (const p of least ? PLACES : []) {
    attr(region, 'data-place', p);
    const n = covers(below);
    if (n < least) [best, least] = [p, n];
  }
  attr(region, 'data-place', best);
}

// covers counts the controls below the messages. One below a button or link of theirs
// can't be reached at all, and counts most.
function covers(below) {
  const under = (els) => {
    const rects = [...els].map((el) => el.getBoundingClientRect());
    return below.filter((b) => rects.some((r) => b.left < r.right && b.right > r.left && b.top < r.bottom && b.bottom > r.top)).length;
  };
  return under(region.children) + 100 * under(region.querySelectorAll('a, button'));
}
