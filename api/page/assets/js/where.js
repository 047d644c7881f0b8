// Where this page is: which namespace it is of follows from its path, /ns/NAME/, and is
// the default one without that.

const below = /\/ns\/([a-z0-9-]+)\/$/.exec(new URL('.', document.baseURI).pathname);

export const DEFAULT = 'default';

// namespace is the one whose page this is.
export const namespace = below?.[1] ?? DEFAULT;

// ofEngine makes the path of what belongs to the engine, not to a namespace, from here.
export const ofEngine = (path) => (below ? '../../' : './') + path;

// pageOf is the path of a namespace's page.
export const pageOf = (ns) => ofEngine(ns === DEFAULT ? '' : `ns/${ns}/`);
