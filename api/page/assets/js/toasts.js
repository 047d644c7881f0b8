// Messages that come and go. They never take a control away: they stand where they
// cover none, if there is such a place, and what is pressed through them goes to
// what lies below; only their own button and link are theirs.

import { attr, frame, h } from './dom.js';
import { icon } from './icons.js';

const MAX_TOASTS = 4;
const TOAST_MS = 7000;
const LINK_MS = 30_000; // with a link, which takes time to be reached
const LOOK_MS = 500; // between two looks at what lies below
const SIDES = ['end', 'start']; // css/shell.css
const TOP = 56; // px below the top of the window that the messages stay: the top bar's
const STEP = 4; // px between two heights that are tried
const CONTROLS = 'a[href], button, input, select, textarea, summary';
let region = null;
let up = 0; // px that the messages stand above their lowest place
let timer = 0;

// toastRegion is where toasts appear; the shell places it once.
export function toastRegion() {
  region = h('div', { class: 'toasts', role: 'status', 'aria-live': 'polite', 'aria-label': 'Messages', 'data-side': SIDES[0] });
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
  if (!region.children.length) stand(SIDES[0], 0);
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

// place moves the messages, if they cover a control or reach into the top bar (the
// window has become smaller), to where they cover fewest; of such places to the lowest.
function place() {
  if (!region.children.length) return;
  const controls = [...document.querySelectorAll(CONTROLS)].filter((el) => !region.contains(el)).map((el) => el.getBoundingClientRect())
    .filter((r) => r.width > 1 && r.bottom > 0 && r.top < innerHeight);
  let best = { side: region.getAttribute('data-side'), up };
  const here = measure();
  let least = here.top < TOP ? Infinity : covers(here, 0, controls);
  for (const side of least ? SIDES : []) {
    stand(side, 0);
    const own = measure();
    const room = Math.max(own.top - TOP, 0);
    for (let to = 0; least > 0 && to <= room; to += STEP) {
      const n = covers(own, to, controls);
      if (n < least) [best, least] = [{ side, up: to }, n];
    }
  }
  stand(best.side, best.up);
}

// stand puts the messages at a side, so many px above their lowest place.
function stand(side, to) {
  attr(region, 'data-side', side);
  up = to;
  region.style.translate = `0 ${-to}px`;
}

// measure finds where the messages and their own controls are now.
function measure() {
  const rects = (els) => [...els].map((el) => el.getBoundingClientRect());
  return { top: region.getBoundingClientRect().top, messages: rects(region.children), own: rects(region.querySelectorAll('a, button')) };
}

// covers counts the controls below the messages if these were so many px higher. One
// below a button or link of theirs can't be reached at all, and counts most.
function covers({ messages, own }, higher, controls) {
  const under = (rects) => controls.filter((c) => rects.some((r) => c.left < r.right && c.right > r.left && c.top < r.bottom - higher && c.bottom > r.top - higher)).length;
  return under(messages) + 100 * under(own);
}
