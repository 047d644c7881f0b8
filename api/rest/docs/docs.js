// The page of the API: it draws /openapi.json. Text only ever becomes text
// nodes, so nothing in the document can become markup.

const methods = ['get', 'post', 'put', 'patch', 'delete'];

// el makes an element; children are elements or texts.
function el(name, attrs, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, v);
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

function paragraphs(text) {
  return (text || '').split('\n\n').filter(Boolean).map((t) => el('p', {}, t));
}

function resolve(doc, schema) {
  if (!schema || !schema.$ref) return schema || {};
  return schema.$ref.replace(/^#\//, '').split('/').reduce((at, key) => at[key], doc);
}

function refName(schema) {
  return schema && schema.$ref ? schema.$ref.split('/').pop() : '';
}

// kindOf names a schema's type in a few words.
function kindOf(doc, schema) {
  if (!schema) return '';
  const name = refName(schema);
  if (name) return name;
  const forms = schema.oneOf || schema.anyOf;
  if (forms) return forms.map((f) => kindOf(doc, f)).join(' or ');
  const types = [].concat(schema.type || []).filter((t) => t !== 'null');
  if (types.includes('array')) return `list of ${kindOf(doc, schema.items) || 'any'}`;
  if (types.includes('object') && typeof schema.additionalProperties === 'object') return `object of ${kindOf(doc, schema.additionalProperties)}`;
  let text = types.join(' or ') || 'any JSON';
  if (schema.format === 'date-time') text = 'time';
  if (schema.enum) text += `: ${schema.enum.join(', ')}`;
  return text;
}

// fields draws the members of a schema; those of objects below are drawn when
// they are opened, so that a schema may contain itself.
function fields(doc, schema) {
  const s = resolve(doc, schema);
  const list = el('ul', { class: 'fields' });
  for (const [name, member] of Object.entries(s.properties || {})) {
    const needed = (s.required || []).includes(name) ? ', always' : '';
    const line = [el('code', {}, name), ' ', el('span', { class: 'kind' }, kindOf(doc, member) + needed)];
    if (member.description) line.push(' — ', member.description);
    const below = inner(doc, member);
    list.append(below ? el('li', {}, lazy(line, () => fields(doc, below))) : el('li', {}, ...line));
  }
  return list;
}

// inner is the object schema that a member has below it, or null.
function inner(doc, member) {
  for (const s of [member, member.items, member.additionalProperties]) {
    if (s && typeof s === 'object' && resolve(doc, s).properties) return s;
  }
  return null;
}

function lazy(title, draw) {
  const d = el('details', {}, el('summary', {}, ...title));
  d.addEventListener('toggle', () => { if (d.open && d.children.length === 1) d.append(draw()); });
  return d;
}

function content(doc, media) {
  return Object.entries(media || {}).flatMap(([type, m]) => ((m.schema && m.schema.oneOf) || [m.schema]).map((schema) => {
    const title = [el('code', {}, type), ' ', el('span', { class: 'kind' }, kindOf(doc, schema))];
    const below = schema && inner(doc, schema);
    return below ? lazy(title, () => fields(doc, below)) : el('p', {}, ...title);
  }));
}

function parameters(doc, op) {
  if (!op.parameters || op.parameters.length === 0) return null;
  const rows = op.parameters.map((p) => el('tr', {},
    el('td', {}, el('code', {}, p.name)), el('td', {}, p.in), el('td', {}, kindOf(doc, p.schema)), el('td', {}, p.description || '')));
  return el('table', {}, el('thead', {}, el('tr', {}, ...['Parameter', 'In', 'Type', 'Meaning'].map((h) => el('th', { scope: 'col' }, h)))), el('tbody', {}, ...rows));
}

function operation(doc, path, method, op) {
  const roles = op['x-role'] || [];
  const who = roles.includes('none') ? 'for everyone' : `needs the role ${roles.join(' or ')}`;
  const section = el('section', { id: op.operationId },
    el('h3', {}, el('span', { class: `method ${method}` }, method), ' ', el('code', {}, path)),
    el('p', {}, op.summary, ' ', el('span', { class: 'role' }, `(${who})`)), ...paragraphs(op.description));
  const table = parameters(doc, op);
  if (table) section.append(table);
  if (op.requestBody) section.append(el('h4', {}, op.requestBody.required ? 'Body' : 'Body, may be left out'), ...content(doc, op.requestBody.content));
  const refused = [];
  section.append(el('h4', {}, 'Replies'));
  for (const [status, reply] of Object.entries(op.responses || {})) {
    if (reply.content && reply.content['application/problem+json']) { refused.push(status); continue; }
    section.append(el('p', {}, el('code', {}, status), ' ', reply.description), ...content(doc, reply.content));
  }
  if (refused.length) section.append(el('p', { class: 'kind' }, `A problem document for ${refused.join(', ')}.`));
  return section;
}

function draw(doc) {
  const main = document.getElementById('content');
  const index = document.getElementById('index');
  document.getElementById('version').textContent = doc.info.version;
  main.replaceChildren(...paragraphs(doc.info.description));
  const entries = [];
  for (const tag of doc.tags || []) {
    const head = el('h2', {}, tag.name);
    const items = el('ul', {});
    const part = [el('h2', {}, tag.name), el('p', {}, tag.description || '')];
    for (const [path, item] of Object.entries(doc.paths)) {
      for (const m of methods) {
        const op = item[m];
        if (!op || !(op.tags || []).includes(tag.name)) continue;
        const method = m.toUpperCase();
        const section = operation(doc, path, method, op);
        const link = el('li', {}, el('a', { href: `#${op.operationId}` }, el('span', { class: `method ${method}` }, method), ' ', op.summary));
        items.append(link);
        part.push(section);
        entries.push({ words: `${method} ${path} ${op.summary} ${op.description || ''}`.toLowerCase(), section, link });
      }
    }
    if (items.children.length === 0) continue;
    index.append(head, items);
    main.append(...part);
  }
  document.getElementById('filter').addEventListener('input', (e) => {
    const wanted = e.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const entry of entries) {
      const hide = !wanted.every((w) => entry.words.includes(w));
      entry.section.hidden = hide;
      entry.link.hidden = hide;
    }
  });
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

try {
  const reply = await fetch('/openapi.json');
  if (!reply.ok) throw new Error(`the server answers ${reply.status}`);
  draw(await reply.json());
  document.documentElement.dataset.drawn = 'yes';
} catch (err) {
  document.getElementById('status').textContent = `The description can't be read: ${err.message}`;
}
