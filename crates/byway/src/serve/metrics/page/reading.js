'use strict';
// Live view of a Byway server. It reads the metrics at intervals, as Prometheus and `byway top` do, and derives rates and quantiles
// by the rules of `byway top` (crates/cli/src/watch). Nothing else is requested, and nothing is stored outside this page.

const PREFIX = 'byway_';
const MIB = 1 << 20;
const FETCH_TIMEOUT_MS = 5000;
// Points kept of all subsystems together, and the longest window.
const POINTS_MAX = 40_000;
const HISTORY_MAX_S = 900;
// Series kept apart by name and labels. Queues and hosts come and go: beyond this number those that went are forgotten.
const SERIES_MAX = 200_000;
// Lines of a chart: the others are added up.
const LINES_MAX = 8;

const byId = (id) => document.getElementById(id);

// ---- Text format of Prometheus

const known = new Map();

/** The series of a line's beginning: one object for each name and labels, so that readings are compared by it. None if it is no metric. */
function seriesOf(head) {
  let series = known.get(head);
  if (series) return series;
  const [, name, text] = /^([\w:]+)(?:\{(.*)\})?$/s.exec(head) ?? [];
  if (name === undefined) return undefined;
  const labels = {};
  for (const [, label, value] of (text ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/gs)) {
    labels[label] = value.replace(/\\(.)/g, (_, letter) => (letter === 'n' ? '\n' : letter));
  }
  series = {name, labels};
  known.set(head, series);
  return series;
}

/** Forgets the series that none of the readings has. */
function forgetAllBut(...readings) {
  if (known.size <= SERIES_MAX) return;
  for (const [head, series] of known) {
    if (!readings.some((reading) => reading.values.has(series))) known.delete(head);
  }
}

function numberOf(text) {
  return text.endsWith('Inf') ? (text.startsWith('-') ? -Infinity : Infinity) : Number(text);
}

/** All metrics of one moment. */
class Reading {
  constructor(text, atMs) {
    this.atMs = atMs;
    this.values = new Map();
    // Series by name: of all subsystems, and of each.
    this.all = new Map();
    this.scopes = new Map();
    for (const line of text.split('\n')) {
      if (line !== '' && line[0] !== '#') this.add(line);
    }
    if (this.values.size === 0 && text !== '') throw new Error(`no metric: ${text.slice(0, 80)}`);
  }

  add(line) {
    const space = line.lastIndexOf(' ');
    const series = seriesOf(line.slice(0, space));
    if (series === undefined) return;
    this.values.set(series, numberOf(line.slice(space + 1)));
    const push = (names) => (names.get(series.name) ?? names.set(series.name, []).get(series.name)).push(series);
    push(this.all);
    const {subsystem} = series.labels;
    if (subsystem === undefined) return;
    if (!this.scopes.has(subsystem)) this.scopes.set(subsystem, new Map());
    push(this.scopes.get(subsystem));
  }

  /** Series of a name in a scope: a subsystem, or all of them (''). A server's only subsystem is no label of its metrics. */
  of(scope, name) {
    const names = scope === '' || this.scopes.size <= 1 ? this.all : this.scopes.get(scope);
    return names?.get(PREFIX + name) ?? [];
  }

  valuesOf(scope, name, wanted = () => true) {
    return this.of(scope, name).filter((series) => wanted(series.labels)).map((series) => this.values.get(series));
  }

  /** Their sum; undefined where there are none. */
  sum(scope, name, wanted) {
    const values = this.valuesOf(scope, name, wanted);
    return values.length === 0 ? undefined : values.reduce((one, other) => one + other, 0);
  }

  process(name) {
    const series = this.all.get(`process_${name}`)?.[0];
    return series && this.values.get(series);
  }
}

/** What grew between two readings, in one scope. */
class Growth {
  constructor(older, newer, scope) {
    Object.assign(this, {older, newer, scope, seconds: (newer.atMs - older.atMs) / 1000});
  }

  /** How much a series grew. One that is smaller than before began anew at 0. */
  of(series) {
    const [before, now] = [this.older.values.get(series) ?? 0, this.newer.values.get(series)];
    return now >= before ? now - before : now;
  }

  rate(name, wanted = () => true) {
    let sum = 0;
    for (const series of this.newer.of(this.scope, name)) {
      if (wanted(series.labels)) sum += this.of(series);
    }
    return sum / this.seconds;
  }

  /** Of the server as a whole, whatever the scope. */
  rateOfServer(name) {
    return new Growth(this.older, this.newer, '').rate(name);
  }

  /** Processors that the server used. */
  processors() {
    return (this.newer.process('cpu_seconds_total') - this.older.process('cpu_seconds_total')) / this.seconds;
  }

  /** Times that these parts of the commands took at most, taken to be spread evenly within a bucket; undefined where there are none. */
  quantiles(parts, wanted) {
    const buckets = new Map();
    for (const series of this.newer.of(this.scope, 'command_duration_seconds_bucket')) {
      if (!wanted(series.labels)) continue;
      const bound = numberOf(series.labels.le);
      buckets.set(bound, (buckets.get(bound) ?? 0) + this.of(series));
    }
    const sorted = [...buckets].sort(([one], [other]) => one - other);
    return parts.map((part) => quantile(sorted, part));
  }
}

/** A quantile of pairs [bound, how many were at most that]. */
function quantile(sorted, part) {
  const count = sorted.at(-1)?.[1] ?? 0;
  if (count <= 0) return undefined;
  const rank = part * count;
  const at = sorted.findIndex(([, upTo]) => upTo >= rank);
  const [[bound, upTo], [below, before]] = [sorted[at], sorted[at - 1] ?? [0, 0]];
  if (bound === Infinity) return below;
  const within = upTo > before ? (rank - before) / (upTo - before) : 1;
  return below + (bound - below) * Math.min(Math.max(within, 0), 1);
}
