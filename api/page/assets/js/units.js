// Durations and sizes as people write them: "30s", "1h30m", "250ms", "7d"; "256KiB".

const units = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 };
const part = /(\d+(?:\.\d+)?)\s*(ms|d|h|m|s)\s*/y;

// parseDuration reads one, in milliseconds; it throws what is wrong with it.
export function parseDuration(doc) {
  const said = doc.trim().toLowerCase();
  if (said === '0') return 0;
  let total = 0;
  part.lastIndex = 0;
  while (part.lastIndex < said.length) {
    const m = part.exec(said);
    if (!m) throw new Error(`“${doc}” is not a duration: use 30s, 1h30m, 250ms or 7d.`);
    total += Number(m[1]) * units[m[2]];
  }
  if (said === '') throw new Error('Give a duration, as 30s, 1h30m, 250ms or 7d.');
  return Math.round(total);
}

// parseCount reads a whole number.
export function parseCount(doc) {
  if (!/^\d+$/.test(doc)) throw new Error(`“${doc}” is not a whole number.`);
  return Number(doc);
}

// writeDuration is the exact text of so many milliseconds; parseDuration reads it.
export function writeDuration(ms) {
  if (!ms) return '0s';
  let [rest, out] = [ms, ''];
  for (const [unit, size] of Object.entries(units)) {
    const n = Math.floor(rest / size);
    if (n > 0) out += `${n}${unit}`;
    rest -= n * size;
  }
  return out;
}

const sizes = { TiB: 2 ** 40, GiB: 2 ** 30, MiB: 2 ** 20, KiB: 1024, B: 1 };

// parseSize reads a number of bytes with its unit: "256KiB", "512B".
export function parseSize(doc) {
  const m = /^(\d+)\s*(TiB|GiB|MiB|KiB|B)$/.exec(doc.trim());
  if (!m) throw new Error(`“${doc}” is not a size: use 512B, 256KiB, 8MiB or 2GiB.`);
  return Number(m[1]) * sizes[m[2]];
}

// writeSize is the exact text of so many bytes; parseSize reads it.
export function writeSize(n) {
  const [unit, size] = Object.entries(sizes).find(([, size]) => n > 0 && n % size === 0) ?? ['B', 1];
  return `${n / size}${unit}`;
}
