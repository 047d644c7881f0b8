// Which screen is shown follows from the part of the address behind "#", so that
// links, bookmarks and the browser's back work:
//
//   #/work?state=dead&type=email     path ['work'], query
//   #/work/01J…                      path ['work', '01J…']
//
// A screen is {name, title, match(path) → bool, mount(el, ctx) → update?}. ctx
// has: route {path, query, state}, signal (ends when the screen is left), title(text).
// mount may return a function that takes a new route of the same screen; without
// one the screen is mounted anew.

import { put } from './dom.js';
import { DEFAULT, namespace } from './where.js';

let screens = [];
let main = null;
let shown = null; // {screen, key, ctx, update, stop}
let after = null; // called with each shown screen
const scrolls = new Map(); // history entry → scroll position; bounded by MAX_SCROLLS
const MAX_SCROLLS = 200;

// parse reads an address's hash.
export function parse(hash) {
  const [path, query] = hash.replace(/^#/, '').split('?', 2);
  return {
    path: path.split('/').filter(Boolean).map(decoded),
    query: new URLSearchParams(query ?? ''),
  };
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; } // an address that was cut
}

// href makes a link: href(['work', id], {state: 'dead'}). Empty values are left out.
export function href(path, query) {
  const q = new URLSearchParams();
  for (const [k, v] of query instanceof URLSearchParams ? query : Object.entries(query ?? {})) {
    if (v !== null && v !== undefined && v !== '') q.append(k, v);
  }
  const tail = q.toString();
  return `#/${path.map(encodeURIComponent).join('/')}${tail ? `?${tail}` : ''}`;
}

// go shows an address. replace: without a new entry in the browser's history.
// state is kept with the entry.
export function go(to, { replace = false, state = null } = {}) {
  remember();
  const entry = { n: replace ? history.state?.n ?? Date.now() : Date.now() + Math.random(), state };
  if (replace) history.replaceState(entry, '', to);
  else history.pushState(entry, '', to);
  render(false);
}

function remember() {
  const n = history.state?.n ?? 0;
  scrolls.delete(n);
  scrolls.set(n, scrollY);
  if (scrolls.size > MAX_SCROLLS) scrolls.delete(scrolls.keys().next().value);
}

// startRouter shows the screen of the address in el, and from then on each that
// is gone to. shownScreen(screen, route, again) is told.
export function startRouter(el, list, shownScreen) {
  [main, screens, after] = [el, list, shownScreen];
  history.scrollRestoration = 'manual';
  addEventListener('popstate', () => render(true));
  document.addEventListener('click', follow);
  document.addEventListener('scroll', () => { clearTimeout(scrollTimer); scrollTimer = setTimeout(remember, 100); }, { passive: true });
  render(true);
}
let scrollTimer = 0;

// follow takes clicks on links within the page.
function follow(ev) {
  const a = ev.target.closest?.('a[href^="#/"]');
  if (!a || ev.defaultPrevented || ev.button !== 0 || ev.metaKey || ev.ctrlKey || ev.shiftKey || ev.altKey || a.target) return;
  ev.preventDefault();
  go(a.getAttribute('href'));
}

export const current = () => ({ ...parse(location.hash || '#/'), state: history.state?.state ?? null });

// reload mounts the shown screen anew.
export function reload() {
  shown = stop(shown);
  render(true);
}

function stop(s) {
  s?.leave.abort();
  return null;
}

function render(back) {
  for (const open of document.querySelectorAll('dialog[open]:not([data-stays])')) open.close(); // it asked about what is left now
  const route = current();
  const screen = screens.find((sc) => sc.match(route.path)) ?? screens[screens.length - 1];
  const again = shown?.screen === screen && shown.update !== undefined;
  if (again) {
    shown.update(route);
  } else {
    stop(shown);
    const leave = new AbortController();
    const el = document.createElement('div');
    el.className = `screen screen-${screen.name}`;
    put(main, el);
    shown = { screen, leave, update: undefined };
    const ctx = { route, signal: leave.signal, title: (t) => setTitle(t) };
    setTitle(screen.title);
    shown.update = screen.mount(el, ctx) ?? undefined;
  }
  after?.(screen, route, again);
  const y = back ? scrolls.get(history.state?.n ?? 0) ?? 0 : again ? null : 0;
  if (y !== null) requestAnimationFrame(() => scrollTo(0, y));
}

// setTitle names the page.
export function setTitle(t) { document.title = [t, namespace !== DEFAULT && namespace, 'Streamwright'].filter(Boolean).join(' · '); }
