// What is around the screens: navigation, search, the state of the connection,
// theme, messages, and the question for a token.

import { h, show, text, attr, frame } from './dom.js';
import { icon } from './icons.js';
import { count, short, span, startClock } from './format.js';
import { current, go, href, startRouter } from './router.js';
import { keys, startKeys, help } from './keys.js';
import { dialog, field, iconButton, toast } from './ui.js';
import { closeToast, toastRegion } from './toasts.js';
import { mark } from './states.js';
import { live } from './live.js';
import { namespaceSwitch } from './namespaces.js';
import { ofEngine } from './where.js';
import { nodes } from './nodes.js';
import { forgetStale, get, hasToken, onUnauthenticated, setToken } from './api.js';

// startShell builds the frame, and shows the screens in it.
export function startShell(screens) {
  const main = h('main', { id: 'main', tabindex: -1 });
  const nav = navigation(screens.filter((sc) => sc.key && !sc.within)); // those within others are led to from there
  document.body.append(
    h('a', { class: 'skip', href: '#main', onclick: (ev) => { ev.preventDefault(); main.focus(); } }, 'Skip to content'),
    h('header', { class: 'top' },
      h('a', { class: 'brand', href: '#/', 'aria-label': 'Streamwright: overview' }, logo(), h('span', null, 'Streamwright')),
      namespaceSwitch(), search(), connection(), themeSwitch(), iconButton('help', 'Keyboard shortcuts (?)', help)),
    nav.el, banner(), main, footer(), toastRegion());
  onUnauthenticated(askToken);
  startKeys();
  keys('Escape', 'Close the last message', closeToast, { group: 'Everywhere' });
  startClock();
  for (const sc of screens.filter((x) => x.key)) keys(`g ${sc.key}`, sc.title, () => go(href(sc.path)), { group: 'Go to' });
  startRouter(main, screens, (screen, route, again) => {
    nav.mark(screen);
    forgetStale();
    if (!again && document.activeElement !== document.body) main.focus({ preventScroll: true });
  });
  live.on('back', welcomeBack);
  live.on('phase', leaveOverview);
  live.start();
  nodes.start();
  watchVersion();
}

function logo() {
  return h('img', { src: document.querySelector('link[rel=icon]').href, alt: '', width: 22, height: 22 });
}

function navigation(screens) {
  const links = new Map(screens.map((sc) => [sc.name, h('a', { href: href(sc.path), title: `${sc.title} (g ${sc.key})` },
    icon(sc.icon), h('span', { class: 'nav-title' }, sc.title), h('span', { class: 'nav-count', hidden: true }))]));
  const el = h('nav', { 'aria-label': 'Screens' }, [...links.values()], h('a', { href: ofEngine('docs/') }, icon('docs'), h('span', { class: 'nav-title' }, 'Docs')));
  live.on('stats', () => frame(() => {
    for (const sc of screens) {
      const n = sc.count?.(live) ?? 0;
      const c = links.get(sc.name).querySelector('.nav-count');
      show(text(c, short(n)), n > 0);
      attr(c, 'aria-label', n > 0 ? `: ${count(n)}` : null);
    }
  }));
  return { el, mark: (screen) => { for (const [name, a] of links) attr(a, 'aria-current', name === (screen.within ?? screen.name) ? 'page' : null); } };
}

// footer leads to what describes the engine.
function footer() {
  return h('footer', null, h('a', { href: ofEngine('docs/') }, 'Documentation'), h('a', { href: ofEngine('docs/api/') }, 'HTTP API'), h('a', { href: ofEngine('openapi.json') }, 'OpenAPI'));
}

const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/i;

// search goes to an item by its id, or to the list of those that have words.
function search() {
  const input = h('input', { type: 'search', placeholder: 'Find an id or words of an error', 'aria-label': 'Find work by id or words', autocomplete: 'off', spellcheck: 'false', maxlength: 256 });
  keys('/', 'Search', () => input.focus(), { group: 'Everywhere' });
  return h('form', { class: 'search', role: 'search', onsubmit: (ev) => {
    ev.preventDefault();
    const q = input.value.trim();
    if (!q) return;
    input.value = '';
    input.blur();
    go(ULID.test(q) ? href(['work', q.toUpperCase()]) : href(['work'], { q }));
  } }, icon('search'), input, h('kbd', { 'aria-hidden': 'true' }, '/'));
}

// banner says, above every screen, that what is seen is old or that nothing is decided.
function banner() {
  const title = h('strong');
  const more = h('p');
  const el = h('div', { class: 'banner notice notice-bad', role: 'alert', hidden: true }, h('p', null, mark('failed'), ' ', title), more);
  nodes.on(() => frame(() => {
    const t = nodes.trouble;
    text(title, t?.title);
    text(more, t?.text);
    show(el, t !== null);
  }));
  return el;
}

// leaveOverview shows the approvals to who may not see the engine's figures, in place of an
// overview that has none: answering may be all that the token is for.
function leaveOverview(phase) {
  if (phase === 'denied' && live.refused === 403 && current().path.length === 0) go(href(['approvals']), { replace: true });
}

const phases = {
  connecting: 'connecting', live: 'live', stale: 'stale', reconnecting: 'reconnecting', paused: 'paused', denied: 'signed out',
};

// connection shows whether what is seen is live. A click tries again at once.
function connection() {
  const label = h('span', null, 'connecting');
  const el = h('button', { type: 'button', class: 'connection', 'data-phase': 'connecting', 'aria-live': 'polite', onclick: () => live.retry() },
    h('span', { class: 'dot', 'aria-hidden': 'true' }), label);
  let timer = 0;
  const update = () => {
    clearTimeout(timer);
    const shown = live.phase === 'live' && nodes.trouble?.old ? 'stale' : live.phase;
    attr(el, 'data-phase', shown);
    attr(document.documentElement, 'data-phase', shown);
    const name = shown === 'denied' && live.refused === 403 ? 'not live' : phases[shown];
    text(label, name);
    let title = shown === 'stale' ? nodes.trouble.title : 'Live.';
    if (live.phase === 'denied') title = `${live.error} ${live.refused === 403 ? 'What your token may see is shown, but not live.' : 'Press to enter a token.'}`;
    else if (live.phase !== 'live') {
      const left = Math.max(0, live.retryAt - Date.now());
      title = `${live.error || 'Not connected.'} What you see may be old. Next try ${left > 0 ? `in ${span(left)}` : 'now'}: press to retry now.`;
      timer = setTimeout(update, 1000);
    }
    attr(el, 'title', title);
    attr(el, 'aria-label', `Connection: ${name}. ${live.phase === 'live' ? '' : 'Press to retry now.'}`);
  };
  live.on('phase', update);
  nodes.on(update);
  update();
  return el;
}

// welcomeBack says what has happened while there was no connection. It asks: the
// feed's first figures may be a second old.
async function welcomeBack({ awayMS, before }) {
  let after;
  try {
    after = await get('api/v1/stats');
  } catch {
    return; // it has gone again
  }
  const sum = (stats, state) => (stats?.types ?? []).reduce((n, t) => n + (t.states?.[state] ?? 0), 0);
  const changes = ['completed', 'dead', 'cancelled', 'queued'].map((st) => [st, sum(after, st) - sum(before, st)]).filter(([, d]) => d !== 0)
    .map(([st, d]) => `${d > 0 ? '+' : '−'}${count(Math.abs(d))} ${st}`);
  toast(`Reconnected after ${span(awayMS)}. Since then: ${changes.length ? changes.join(', ') : 'no counts have changed'}.`);
}

// themeSwitch goes through: the system’s theme, light, dark.
function themeSwitch() {
  const root = document.documentElement;
  const el = iconButton('theme', '', next);
  const label = () => {
    const l = `Theme: ${root.dataset.theme ?? 'follow the system'} (t)`;
    attr(attr(el, 'aria-label', l), 'title', l);
  };
  function next() {
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    const order = dark ? [undefined, 'light', 'dark'] : [undefined, 'dark', 'light'];
    const to = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
    if (to) root.dataset.theme = to;
    else delete root.dataset.theme;
    try {
      if (to) localStorage.setItem('theme', to);
      else localStorage.removeItem('theme');
    } catch { /* storage is off: it lasts as long as the page */ }
    label();
  }
  label();
  keys('t', 'Change the theme', next, { group: 'Everywhere' });
  return el;
}

// askToken asks the operator for a token until one is known to the engine.
async function askToken(why) {
  setToken('');
  const input = h('input', { type: 'password', autocomplete: 'off', required: true, spellcheck: 'false' });
  const given = await dialog({
    title: 'Sign in', action: 'Continue', cancel: 'Not now', stays: true,
    body: [h('p', null, why ? `The token was refused: ${why}` : 'This engine requires a token.'),
      field('Token', input, { hint: 'Ask the engine’s operator for one. It is kept until this tab is closed. The role read shows everything; operate can change things.' })],
    act: () => { setToken(input.value.trim()); return hasToken(); },
  });
  if (given) setTimeout(() => live.retry());
  return given;
}

// watchVersion tells when the engine that answers has other pages than this one.
function watchVersion() {
  live.on('back', async () => {
    try {
      const page = await (await fetch(document.baseURI.split('#')[0], { cache: 'no-cache' })).text();
      const mine = document.querySelector('link[rel=icon]').getAttribute('href');
      if (!page.includes(mine)) toast('The engine has been updated: reload this page to get the new version.', { kind: 'warn' });
    } catch { /* it has gone again: the next connection asks again */ }
  });
}
