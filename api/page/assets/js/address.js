// Commands for a terminal, with the address of the engine that this page is of.

import { get, isAbort } from './api.js';
import { live } from './live.js';

const USUAL = { server: 'nats://127.0.0.1:4222', prefix: 'work' }; // what `engine` takes without flags
const shown = new Set(); // functions that show a command again, until the address is known
let flags = null; // null: not known yet

// addressed makes a command of the program engine one for this engine, and gives it
// to show; once more when the address has become known.
export function addressed(line, show) {
  show(write(line));
  if (flags !== null || !line.startsWith('engine ')) return;
  shown.add(() => show(write(line)));
  learn();
}

function write(line) {
  if (!flags || !line.startsWith('engine ')) return line;
  const [own, rest] = line.split(/ (-- .*)/s);
  return [own, flags, rest].filter(Boolean).join(' ');
}

let asking = null;

function learn() {
  asking ??= get('api/v1/info', { plain: true }).then((info) => {
    flags = flagsOf(info, location.hostname);
    for (const show of shown) show();
    shown.clear();
  }, (err) => {
    asking = null;
    if (!isAbort(err)) live.on('back', learn);
  });
}

// flagsOf are those that a command needs to reach the engine that info describes,
// from where the page is seen. An address that means any is that of the page.
export function flagsOf(info, host) {
  const server = (info.nats ?? '').replace(/\/\/(0\.0\.0\.0|\[::\])(?=[:/,]|$)/g, `//${host}`).replace('//localhost:', '//127.0.0.1:');
  const [, prefix, namespace] = /^([^-]*)-?(.*)$/.exec(info.prefix ?? '');
  return [
    server && server !== USUAL.server && `--server ${server}`, prefix && prefix !== USUAL.prefix && `--prefix ${prefix}`, namespace && `--namespace ${namespace}`,
  ].filter(Boolean).join(' ');
}
