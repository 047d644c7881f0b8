// The panel of the nodes on the overview: who owns the log, how far the others are
// behind, where the streams are, and what is at risk. Where there is one node it is
// not shown.

import { attr, frame, h, keyed, put, show, text } from '../dom.js';
import { ago, count, setAgo, span } from '../format.js';
import { nodes, roleText } from '../nodes.js';
import { mark } from '../states.js';
import { panel } from '../ui.js';

const MAX_NODES = 64; // as many as the engine tells of
const MAX_STREAMS = 16;
const MAX_RISKS = 30;

export function nodesPanel(signal) {
  const risks = h('ul', { class: 'needs risks' });
  const owned = h('p');
  const over = h('p', { class: 'muted' });
  const seen = h('span');
  const at = ago(new Date(0).toISOString());
  const [members, streams] = [h('tbody'), h('tbody')];
  const where = tableOf('Streams', ['Stream', 'Leader', 'Replicas', 'Behind', 'May lose'], streams);
  const el = panel('Cluster', { name: 'nodes', tools: [seen, at] }, h('div', { class: 'panel-body' }, owned, over), risks,
    tableOf('Nodes', ['Node', 'Role', 'Since', 'Lag', 'Leads log', 'Version', 'Settings', 'NATS', 'HTTP'], members), where);
  el.classList.add('live-part');
  const heading = el.querySelector('h2');
  const draw = () => {
    const r = nodes.last;
    show(el, r !== null);
    if (!r || signal.aborted) return;
    text(heading, r.cluster ? `Cluster ${r.cluster}` : 'Nodes');
    text(seen, `as ${r.answered} sees it,`);
    setAgo(at, nodes.at);
    keyed(risks, (r.warnings ?? []).slice(0, MAX_RISKS), (w) => w, risk);
    show(risks, (r.warnings ?? []).length > 0);
    drawOwner(owned, over, nodes.owner());
    keyed(members, r.nodes.slice(0, MAX_NODES), (n) => n.node, memberRow, (tr, n) => tr.set(n, r));
    keyed(streams, (r.streams ?? []).slice(0, MAX_STREAMS), (s) => s.stream, streamRow, (tr, s) => tr.set(s));
    show(where, (r.streams ?? []).length > 0);
  };
  nodes.on(() => frame(draw), signal);
  draw();
  return el;
}

const tableOf = (label, columns, body) => h('div', { class: 'scroll-x', tabindex: 0, role: 'region', 'aria-label': label },
  h('table', { class: 'folds nodes' }, h('thead', null, h('tr', null, columns.map((c) => h('th', { scope: 'col' }, c)))), body));

const risk = (said) => h('li', { class: 'need need-warn' }, h('span', { class: 'needs-mark' }, mark('failed')), h('p', null, h('strong', null, 'AT RISK: '), said));

// drawOwner says who owns the log, since when, and how it came to that.
function drawOwner(owned, over, owner) {
  const said = JSON.stringify([owner?.node, owner?.since, owner?.epoch, owner?.took_over_from, owner?.took_over_because]);
  if (owned.dataset.said === said) return;
  owned.dataset.said = said;
  if (!owner) {
    put(owned, h('strong', { class: 'bad' }, mark('failed'), ' No node owns the log.'));
    put(over);
    return;
  }
  put(owned, 'Owned by ', h('strong', null, owner.node), ' since ', ago(owner.since), '.');
  if (!owner.took_over_from) put(over, `No fail-over since ${owner.node} started.`);
  else put(over, `Last fail-over: ${owner.node} took over from ${owner.took_over_from}, which ${{ handed_over: 'handed the log over', full: 'handed the log over since it had no room', silent: 'fell silent' }[owner.took_over_because] ?? 'owned it before'}.`);
}

const shapeOf = (n) => (!n.online ? 'dead' : n.cut_off ? 'failed' : n.recovering || n.full ? 'backing_off' : n.role === 'owner' ? 'running' : 'waiting');

function memberRow(first) {
  const cells = Object.fromEntries(['Role', 'Since', 'Lag', 'Leads log', 'Version', 'Settings', 'NATS', 'HTTP'].map((k) => [k, h('td', { 'data-label': k, class: `n-${k.toLowerCase().replace(' ', '-')}` })]));
  const here = h('span', { class: 'tag', hidden: true }, 'this page');
  const tr = h('tr', { 'data-node': first.node }, h('th', { scope: 'row' }, first.node, ' ', here), Object.values(cells));
  const since = ago(first.since);
  cells.Since.append(since);
  let was = '';
  tr.set = (n, r) => {
    show(here, n.node === r.answered);
    setAgo(since, n.since);
    show(since, Boolean(n.since));
    text(cells.Lag, lagText(n));
    text(cells['Leads log'], n.leads_log ? 'yes' : '–');
    text(cells.Version, n.version || '–');
    text(cells.NATS, n.nats || '–');
    text(cells.HTTP, n.http || '–');
    const now = JSON.stringify([roleText(n), n.settings, n.settings_differ]);
    if (was === now) return;
    was = now;
    const shape = shapeOf(n);
    put(cells.Role, h('span', { class: `badge st-${shape}` }, mark(shape), roleText(n)));
    put(cells.Settings, h('span', { class: 'mono' }, n.settings || '–'), n.settings_differ && [' ', h('span', { class: 'tag tag-warn' }, 'differ')]);
  };
  return tr;
}

// lagText says how far a node's own store is behind the log, as `engine cluster` does.
function lagText(n) {
  if (!n.online) return '–';
  if (!n.lag_events) return '0';
  return `${count(n.lag_events)} events${n.lag_ms ? `, ${span(n.lag_ms)}` : ''}`;
}

function streamRow(first) {
  const cells = Object.fromEntries(['Leader', 'Replicas', 'Behind', 'May lose'].map((k) => [k, h('td', { 'data-label': k })]));
  const tr = h('tr', { 'data-stream': first.stream }, h('th', { scope: 'row' }, first.stream), Object.values(cells));
  tr.set = (s) => {
    text(cells.Leader, s.leader || 'none');
    text(cells.Replicas, s.replicas);
    const behind = s.behind ?? [];
    attr(text(cells.Behind, behind.join(', ') || '–'), 'class', behind.length > 0 ? 'warn' : null);
    attr(text(cells['May lose'], s.spare < 0 ? 'can’t be written' : s.spare), 'class', s.spare < 0 ? 'bad' : s.spare === 0 ? 'warn' : null);
  };
  return tr;
}
