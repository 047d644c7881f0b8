// Making and changing elements. Text is always set as text, never as markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else if (name === 'value' && 'value' in el) el.value = value;
    else if (name === 'checked') el.checked = value;
    else el.setAttribute(name, value === true ? '' : String(value));
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const c of children) {
    if (c === null || c === undefined || c === false || c === '') continue;
    if (Array.isArray(c)) add(el, c);
    else el.append(c instanceof Node ? c : String(c));
  }
}

// h makes an element: h('a', {href: '#/', onclick: f}, 'text', child, [children]).
// A property that is null, undefined or false is left out.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// s is h for SVG. Geometry goes into attributes, colour into classes.
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

// put replaces the children of el.
export function put(el, ...children) {
  el.replaceChildren();
  add(el, children);
  return el;
}

// text sets the text of el, and touches nothing if it is so already.
export function text(el, value) {
  const v = String(value ?? '');
  if (el.textContent !== v) el.textContent = v;
  return el;
}

// attr sets an attribute, or removes it (null, undefined, false), if it differs.
export function attr(el, name, value) {
  if (value === null || value === undefined || value === false) {
    if (el.hasAttribute(name)) el.removeAttribute(name);
  } else {
    const v = value === true ? '' : String(value);
    if (el.getAttribute(name) !== v) el.setAttribute(name, v);
  }
  return el;
}

// show hides el, or shows it.
export function show(el, shown) {
  if (el.hidden === Boolean(shown)) el.hidden = !shown;
  return el;
}

// keyed makes the children of parent those of a list: elements are kept by key,
// so that focus, selection and scroll stay where they are. create(item) makes an
// element; update(el, item) is called for each, new or old. The list must be
// bounded by the caller.
const known = new WeakMap();
export function keyed(parent, list, key, create, update) {
  const old = known.get(parent) ?? new Map();
  const next = new Map();
  let at = parent.firstChild;
  for (const item of list) {
    const k = String(key(item));
    if (next.has(k)) continue;
    const el = old.get(k) ?? create(item);
    update?.(el, item);
    next.set(k, el);
    if (el === at) at = at.nextSibling;
    else parent.insertBefore(el, at);
  }
  for (const [k, el] of old) if (!next.has(k)) el.remove();
  known.set(parent, next);
}

// frame runs f once before the next paint, however often it is asked meanwhile.
// While the page is hidden nothing runs.
const waiting = new Set();
let asked = false;
export function frame(f) {
  waiting.add(f);
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    const now = [...waiting];
    waiting.clear();
    for (const g of now) g();
  });
}
