'use strict';
// Live view of a Byway server. It reads the metrics at intervals, as Prometheus and `byway top` do, and derives rates and quantiles
// by the rules of `byway top` (crates/cli/src/watch). Nothing else is requested, and nothing is stored outside this page.

const PREFIX = 'byway_';
const MIB = 1 << 20;
const FETCH_TIMEOUT_MS = 5000;
// Points kept of all subsystems together, and the longest window.
const POINTS_MAX = 40_000;
const HISTORY_MAX_S = 900;
// Series kept apart by name and labels. Queues and hosts come and go: beyond this number all are read anew.
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
  if (known.size >= SERIES_MAX) known.clear();
  series = {name, labels};
  known.set(head, series);
  return series;
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

// ---- What is shown of an interval

const distinct = (list, label) => [...new Set(list.map((series) => series.labels[label]))];

function operations(growth) {
  const {newer, scope} = growth;
  const keys = new Map(newer.of(scope, 'commands_total').map(({labels}) => [`${labels.queue} ${labels.command}`, labels]));
  const rows = [...keys].map(([key, {queue, command}]) => {
    const mine = (labels) => labels.queue === queue && labels.command === command;
    const [p50, p99, p999] = growth.quantiles([0.5, 0.99, 0.999], mine);
    return {
      key, queue, command, p50, p99, p999,
      total: newer.sum(scope, 'commands_total', mine),
      rate: growth.rate('commands_total', mine),
      errors: growth.rate('commands_total', (labels) => mine(labels) && labels.status !== 'success'),
      in: growth.rate('command_bytes_total', (labels) => mine(labels) && labels.direction === 'in'),
      out: growth.rate('command_bytes_total', (labels) => mine(labels) && labels.direction === 'out'),
    };
  });
  return rows.sort((one, other) => (one.queue === other.queue ? 0 : one.queue === 'io' ? -1 : 1) || one.key.localeCompare(other.key));
}

function linkClasses(growth) {
  const {newer, scope} = growth;
  return distinct(newer.of(scope, 'link_transactions_total'), 'class').map((name) => {
    const mine = (labels) => labels.class === name;
    const wire = (direction) => growth.rate('link_wire_bytes_total', (labels) => mine(labels) && labels.direction === direction);
    return {
      key: name,
      total: newer.sum(scope, 'link_transactions_total', mine),
      rate: growth.rate('link_transactions_total', mine),
      payload: growth.rate('link_payload_bytes_total', mine),
      down: wire('down'),
      up: wire('up'),
    };
  }).filter((row) => row.total > 0);
}

function flashCauses(growth) {
  const {newer, scope} = growth;
  const accepted = {now: growth.rate('flash_accepted_bytes_total'), total: newer.sum(scope, 'flash_accepted_bytes_total') ?? 0};
  return distinct(newer.of(scope, 'flash_programs_total'), 'cause').map((name) => {
    const mine = (labels) => labels.cause === name;
    const bytes = growth.rate('flash_program_bytes_total', mine);
    return {
      key: name,
      total: newer.sum(scope, 'flash_programs_total', mine),
      totalReads: newer.sum(scope, 'flash_reads_total', mine),
      programs: growth.rate('flash_programs_total', mine),
      bytes,
      reads: growth.rate('flash_reads_total', mine),
      readBytes: growth.rate('flash_read_bytes_total', mine),
      erases: growth.rate('flash_erases_total', mine),
      amplification: accepted.now > 0 ? bytes / accepted.now : undefined,
      amplificationTotal: accepted.total > 0 ? newer.sum(scope, 'flash_program_bytes_total', mine) / accepted.total : undefined,
    };
  }).filter((row) => row.total > 0 || row.totalReads > 0);
}

function stalls(growth) {
  return growth.newer.of(growth.scope, 'stalls_total').filter((series) => growth.newer.values.get(series) > 0).map((series) => {
    const {scope, id, cause, subsystem = ''} = series.labels;
    const mine = (labels) => labels.scope === scope && labels.id === id && labels.cause === cause && (labels.subsystem ?? '') === subsystem;
    return {
      key: `${subsystem} ${scope} ${id} ${cause}`,
      of: [subsystem, scope, id].filter((word) => word !== '').join(' '),
      cause,
      total: growth.newer.values.get(series),
      rate: growth.of(series) / growth.seconds,
      share: growth.rate('stall_seconds_total', mine),
      longest: growth.newer.sum(growth.scope, 'stall_longest_seconds', mine),
    };
  }).sort((one, other) => other.share - one.share || other.total - one.total).slice(0, 20);
}

function namespaces(growth) {
  const {newer, scope} = growth;
  return newer.of(scope, 'namespace_capacity_bytes').map((series) => {
    const {nsid, command_set: set, subsystem = ''} = series.labels;
    const mine = (labels) => labels.nsid === nsid && (labels.subsystem ?? '') === subsystem;
    const io = (labels) => mine(labels) && labels.queue === 'io';
    const [capacity, used] = [newer.values.get(series), newer.sum(scope, 'namespace_used_bytes', mine)];
    const of = (...commands) => growth.rate('commands_total', (labels) => io(labels) && commands.includes(labels.command));
    return {
      key: `${subsystem} ${nsid}`,
      name: subsystem === '' ? nsid : `${subsystem} ${nsid}`,
      set: set === 'kv' ? 'key-value' : 'blocks',
      rate: growth.rate('commands_total', io),
      in: growth.rate('command_bytes_total', (labels) => io(labels) && labels.direction === 'in'),
      out: growth.rate('command_bytes_total', (labels) => io(labels) && labels.direction === 'out'),
      gets: set === 'kv' ? of(...GETS) : undefined,
      puts: set === 'kv' ? of(...PUTS) : undefined,
      pairs: newer.sum(scope, 'namespace_pairs', mine),
      capacity, used, full: used === undefined || capacity === 0 ? undefined : used / capacity,
    };
  });
}

function errors(growth) {
  return growth.newer.of(growth.scope, 'command_errors_total').map((series) => {
    const {status, code, subsystem = ''} = series.labels;
    return {key: `${subsystem} ${status} ${code}`, status: words(status), code, total: growth.newer.values.get(series), rate: growth.of(series) / growth.seconds};
  });
}

/** One row for each subsystem. */
function subsystems(older, newer) {
  if (newer.scopes.size < 2) return [];
  return [...newer.scopes.keys()].sort().map((scope) => {
    const growth = new Growth(older, newer, scope);
    const io = (labels) => labels.queue === 'io';
    const [p50, p99] = growth.quantiles([0.5, 0.99], io);
    return {
      key: scope, p50, p99,
      rate: growth.rate('commands_total', io),
      in: growth.rate('command_bytes_total', (labels) => io(labels) && labels.direction === 'in'),
      out: growth.rate('command_bytes_total', (labels) => io(labels) && labels.direction === 'out'),
      errors: growth.rate('commands_total', (labels) => io(labels) && labels.status !== 'success'),
      queues: newer.sum(scope, 'io_queues'),
      warnings: warningsOf(newer, scope).join(', ') || 'none',
    };
  });
}

function warningsOf(reading, scope) {
  const active = reading.of(scope, 'health_critical_warning').filter((series) => reading.values.get(series) > 0);
  return active.map(({labels}) => words(labels.warning));
}

/** Rows [key, name, value, unit, is alarming] of one device or of all: sums of counts, and the worst of what has no sum. */
function health(reading, scope) {
  const values = (name, wanted) => reading.valuesOf(scope, name, wanted).filter(Number.isFinite);
  const least = (name) => (values(name).length ? Math.min(...values(name)) : undefined);
  const most = (name, wanted) => (values(name, wanted).length ? Math.max(...values(name, wanted)) : undefined);
  const warnings = warningsOf(reading, scope);
  const rows = [
    ['warnings', 'Critical warnings', warnings.join(', ') || 'none', words, warnings.length > 0],
    ['spare', 'Available spare', least('health_available_spare_ratio'), percent, least('health_available_spare_ratio') < 0.1],
    ['used', 'Life used', most('health_used_ratio'), percent, most('health_used_ratio') >= 1],
    ['temperature', 'Temperature', most('health_temperature_celsius'), (value) => `${value} °C`],
    ['media_errors', 'Media errors', reading.sum(scope, 'flash_media_errors_total'), count, reading.sum(scope, 'flash_media_errors_total') > 0],
    ['corrected_reads', 'Corrected reads', reading.sum(scope, 'flash_corrected_reads_total'), count],
    ['free_blocks', 'Free blocks', reading.sum(scope, 'flash_free_blocks'), count],
    ['spare_blocks', 'Spare blocks left', reading.sum(scope, 'flash_spare_blocks_left'), (value) => `${count(value)} of ${count(reading.sum(scope, 'flash_spare_blocks'))}`],
    ['bad_blocks', 'Bad blocks: factory, grown, retired', ['factory', 'grown', 'retired']
      .map((kind) => count(reading.sum(scope, 'flash_bad_blocks', (labels) => labels.kind === kind))).join(', '), String],
    ['erases', 'Erases of a block: least, mean, most', ['min', 'mean', 'max']
      .map((of) => count(most('flash_block_erases', (labels) => labels.of === of))).join(', '), String],
    ['amplification', 'Write amplification since the start', most('flash_write_amplification'), (value) => value.toFixed(2)],
    ['power_cycles', 'Power cycles', reading.sum(scope, 'health_power_cycles_total'), count],
    ['unsafe_shutdowns', 'Unsafe shutdowns', reading.sum(scope, 'health_unsafe_shutdowns_total'), count],
  ];
  return rows.filter(([, , value]) => value !== undefined)
    .map(([key, name, value, unit, alarm]) => ({key, name, value: unit(value), raw: value, alarm}));
}

function connections(reading) {
  const rows = [];
  const each = (name, label, what) => reading.of('', name).forEach((series) => {
    const value = reading.values.get(series);
    const word = label && words(series.labels[label]);
    if (value > 0 || !label) rows.push({key: `${name} ${word}`, name: word ? `${what}: ${word}` : what, value});
  });
  each('connections', 'state', 'Connections now');
  each('connections_accepted_total', '', 'Connections accepted');
  each('connections_refused_total', 'reason', 'Refused');
  each('connections_ended_total', 'reason', 'Ended');
  each('vfio_user_clients', '', 'vfio-user clients now');
  each('vfio_user_clients_total', 'event', 'vfio-user clients');
  return rows;
}

// ---- Numbers with units

const MISSING = '–';
const shown = (format) => (value) => (value === undefined || Number.isNaN(value) ? MISSING : format(value));
const scaled = (value, units) => {
  const [size, unit] = units.find(([size]) => Math.abs(value) >= size) ?? units.at(-1);
  const number = value / size;
  return `${number >= 100 || Number.isInteger(number) ? number.toFixed(0) : number >= 10 ? number.toFixed(1) : number.toFixed(2)} ${unit}`.trimEnd();
};
const THOUSANDS = [[1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];
const BINARY = [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [MIB, 'MiB'], [1024, 'KiB'], [1, 'B']];
const count = shown((value) => scaled(value, THOUSANDS));
const rate = shown((value) => `${scaled(value, THOUSANDS)}/s`);
const bytes = shown((value) => scaled(value, BINARY));
const mibRate = shown((value) => `${(value / MIB).toFixed(value >= 100 * MIB ? 0 : value >= 10 * MIB ? 1 : 2)} MiB/s`);
const time = shown((value) => (value === 0 ? '0 s' : scaled(value, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']])));
const percent = shown((value) => `${(value * 100).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %`);
const times = shown((value) => value.toFixed(2));
const words = (value) => value.replaceAll('_', ' ');

// ---- Colours and dashes: the same for the same thing everywhere. What comes back from the device is solid, what goes to it is dashed, so
// that lines which coincide are both seen. Commands of one colour differ by their dashes.

const READS = ['read', 'compare', 'verify'];
const WRITES = ['write', 'write_zeroes', 'copy', 'dataset_management'];
const GETS = ['retrieve', 'retrieve_many', 'exist'];
const PUTS = ['store', 'store_many'];
const DELETIONS = ['delete', 'delete_range'];
const SCANS = ['scan', 'list'];
const COLOURS = {admin: 'ink', in: 'vermilion', out: 'blue', down: 'vermilion', up: 'blue', host: 'vermilion', gc: 'purple', 'log compaction': 'orange', index: 'green', metadata: 'grey', packing: 'sky', 'wear levelling': 'ink', refresh: 'blue'};

/** Colour and dash of a command. The transfer methods' commands (`kv_write_…`) are puts. */
function styleOf(command) {
  if (command.startsWith('kv_write') && !PUTS.includes(command)) PUTS.push(command);
  const kinds = [[READS, 'blue', 0], [WRITES, 'vermilion', 1], [GETS, 'sky', 0], [PUTS, 'orange', 1], [DELETIONS, 'purple', 2], [SCANS, 'green', 3]];
  for (const [commands, colour, dash] of kinds) {
    const at = commands.indexOf(command);
    if (at >= 0) return {colour, dash: (dash + at) % 4};
  }
  return {colour: 'grey', dash: command.length % 4};
}

// ---- Charts

const SVG = 'http://www.w3.org/2000/svg';
const MARGIN = {left: 74, right: 8, top: 8, bottom: 20};
const HEIGHT = 180;

function element(parent, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

/** Lines over time. With the focus, the arrow keys move a cursor, whose values stand in the legend. */
class Chart {
  constructor(id, format, {logarithmic = false, unit = 1} = {}) {
    this.figure = byId(id);
    Object.assign(this, {format, logarithmic, unit, cursor: undefined, points: [], series: []});
    this.svg = element(this.figure, 'svg', {role: 'img', tabindex: '0'});
    this.legend = document.createElement('ul');
    this.legend.className = 'legend';
    this.figure.append(this.legend);
    this.name = this.figure.querySelector('figcaption').firstChild.textContent.trim().replace(/,$/, '');
    this.svg.addEventListener('pointermove', (event) => this.pointAt(event.offsetX));
    this.svg.addEventListener('pointerleave', () => this.moveTo(undefined));
    this.svg.addEventListener('blur', () => this.moveTo(undefined));
    this.svg.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.redraw()).observe(this.figure);
  }

  key(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (step === undefined || this.points.length === 0) return;
    event.preventDefault();
    const at = this.points.findIndex((point) => point.atMs === this.cursor);
    this.moveTo((at < 0 ? this.points.at(-1) : this.points[Math.min(Math.max(at + step, 0), this.points.length - 1)]).atMs);
  }

  pointAt(x) {
    const atMs = this.endMs - (this.width() - MARGIN.right - x) / this.inner() * this.windowMs;
    const nearest = (best, point) => (Math.abs(point.atMs - atMs) < Math.abs(best.atMs - atMs) ? point : best);
    this.moveTo(this.points.length ? this.points.reduce(nearest).atMs : undefined);
  }

  moveTo(cursor) {
    this.cursor = cursor;
    this.redraw();
  }

  width() { return Math.max(this.svg.clientWidth, 120); }
  inner() { return this.width() - MARGIN.left - MARGIN.right; }

  /** Draws series [{name, colour, dash, value(point)}] of points within a window that ends at `endMs`. */
  draw(points, series, endMs, windowMs) {
    Object.assign(this, {points: points.filter((point) => point.atMs >= endMs - windowMs), series, endMs, windowMs});
    this.redraw();
  }

  redraw() {
    if (this.endMs === undefined) return;
    this.svg.replaceChildren();
    this.svg.setAttribute('viewBox', `0 0 ${this.width()} ${HEIGHT}`);
    const values = this.series.flatMap((one) => this.points.map(one.value)).filter((value) => Number.isFinite(value) && (value > 0 || !this.logarithmic));
    const scale = this.logarithmic ? logScale(values) : linearScale(values, this.unit);
    this.y = (value) => HEIGHT - MARGIN.bottom - scale.part(value) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    this.x = (atMs) => MARGIN.left + this.inner() * (1 - (this.endMs - atMs) / this.windowMs);
    this.drawAxes(scale.ticks);
    this.series.forEach((one) => this.drawLine(one));
    if (this.cursor !== undefined) {
      const x = this.x(this.cursor);
      element(this.svg, 'line', {class: 'cursor', x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom});
    }
    this.drawLegend();
  }

  drawAxes(ticks) {
    for (const tick of ticks) {
      const y = this.y(tick);
      element(this.svg, 'line', {class: 'grid', x1: MARGIN.left, x2: this.width() - MARGIN.right, y1: y, y2: y});
      element(this.svg, 'text', {x: MARGIN.left - 6, y: y + 4, 'text-anchor': 'end'}, this.format(tick).replace(/\.0+(?=\D|$)/, ''));
    }
    const windowS = this.windowMs / 1000;
    const parts = windowS === 60 ? 3 : this.inner() > 360 ? 5 : 1;
    for (let step = 0; step <= parts; step += 1) {
      const seconds = step * windowS / parts;
      const label = seconds === 0 ? 'now' : windowS === 60 ? `−${seconds} s` : `−${seconds / 60} min`;
      const anchor = step === 0 ? 'end' : step === parts ? 'start' : 'middle';
      element(this.svg, 'text', {x: this.x(this.endMs - seconds * 1000), y: HEIGHT - 5, 'text-anchor': anchor}, label);
    }
  }

  /** A line is broken where the server did not answer, and where there was nothing to measure. */
  drawLine({colour, dash, value}) {
    let path = '';
    let drawing = false;
    for (const point of this.points) {
      const of = value(point);
      const there = Number.isFinite(of) && (of > 0 || !this.logarithmic);
      if (there) {
        const joins = drawing && !point.breaks;
        // A point alone is a dash of two pixels.
        path += `${joins ? 'L' : 'M'}${this.x(point.atMs).toFixed(1)} ${this.y(of).toFixed(1)}${joins ? '' : 'h1'}`;
      }
      drawing = there;
    }
    if (path !== '') element(this.svg, 'path', {class: `line ${colour} dash-${dash}`, d: path});
  }

  drawLegend() {
    const point = this.points.find((one) => one.atMs === this.cursor) ?? this.points.at(-1);
    const items = this.series.map(({name, colour, dash, value}) => {
      const [item, number] = [document.createElement('li'), document.createElement('b')];
      const sample = element(item, 'svg', {viewBox: '0 0 28 10', 'aria-hidden': 'true'});
      element(sample, 'path', {class: `line ${colour} dash-${dash}`, d: 'M0 5H28'});
      number.textContent = this.format(point && value(point));
      item.append(`${words(name)} `, number);
      return item;
    });
    if (this.cursor !== undefined) {
      const when = document.createElement('li');
      when.textContent = clock(this.cursor);
      items.unshift(when);
    }
    this.legend.replaceChildren(...items);
    const now = this.series.map(({name, value}) => `${words(name)} ${this.format(point && value(point))}`).join(', ');
    this.svg.setAttribute('aria-label', `${this.name}: ${now || 'nothing yet'}. Arrow keys move through time.`);
  }
}

/** Where values are between the axis' ends, from 0 to 1, and its marks: round numbers of `unit`. */
function linearScale(values, unit) {
  const most = Math.max(...values.map((value) => value / unit), 1e-9);
  const power = 10 ** Math.floor(Math.log10(most / 3));
  const step = [1, 2, 5, 10].map((size) => size * power).find((size) => most / size <= 4) ?? most;
  const top = Math.ceil(most / step) * step;
  const ticks = Array.from({length: Math.round(top / step) + 1}, (_, at) => at * step * unit);
  return values.length === 0 || most <= 1e-9 ? {part: () => 0, ticks: [0]} : {part: (value) => value / unit / top, ticks};
}

function logScale(values) {
  if (values.length === 0) return {part: () => 0, ticks: []};
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...values))), low + 1);
  const ticks = Array.from({length: high - low + 1}, (_, at) => 10 ** (low + at));
  return {part: (value) => (Math.log10(value) - low) / (high - low), ticks};
}

// ---- Tables

/** Shows rows by their keys in a table that is made once: cells change in place, so that a selection and a reader's place stay. */
class Table {
  constructor(id, caption, columns) {
    Object.assign(this, {place: byId(id), caption, columns, rows: new Map()});
  }

  make() {
    const table = document.createElement('table');
    table.createCaption().textContent = this.caption;
    const head = table.createTHead().insertRow();
    for (const {title, isWords} of this.columns) {
      const cell = document.createElement('th');
      cell.scope = 'col';
      if (isWords) cell.className = 'words';
      cell.textContent = title;
      head.append(cell);
    }
    this.body = table.createTBody();
    this.place.replaceChildren(table);
    // A table that is wider than the window is scrolled by keys too.
    Object.assign(this.place, {tabIndex: 0, role: 'region', ariaLabel: this.caption});
  }

  show(rows) {
    if (rows.length === 0) {
      this.place.replaceChildren();
      this.place.removeAttribute('tabindex');
      this.body = undefined;
      this.rows.clear();
      return;
    }
    if (!this.body) this.make();
    const keys = rows.map((row) => row.key);
    const gone = [...this.rows.keys()].filter((key) => !keys.includes(key));
    gone.forEach((key) => { this.rows.get(key).remove(); this.rows.delete(key); });
    rows.forEach((row, at) => this.showRow(row, at));
  }

  showRow(row, at) {
    if (!this.rows.has(row.key)) this.rows.set(row.key, this.newRow(row.key));
    const line = this.rows.get(row.key);
    if (this.body.rows[at] !== line) this.body.insertBefore(line, this.body.rows[at] ?? null);
    this.columns.forEach(({of, format = String, alarm}, nth) => {
      const [cell, value] = [line.cells[nth], row[of]];
      const text = format(value);
      if (cell.textContent !== text) cell.textContent = text;
      if (typeof value === 'number') cell.dataset.value = value;
      cell.classList.toggle('alarm', Boolean(alarm?.(row)));
    });
  }

  newRow(key) {
    const line = document.createElement('tr');
    line.dataset.key = key;
    this.columns.forEach(({of, isWords}, nth) => {
      const cell = document.createElement(nth === 0 ? 'th' : 'td');
      if (nth === 0) cell.scope = 'row';
      if (isWords) cell.classList.add('words');
      cell.dataset.of = of;
      line.append(cell);
    });
    return line;
  }
}

const column = (title, of, format, more) => ({title, of, format, ...more});
const flow = [column('commands', 'rate', rate), column('in', 'in', mibRate), column('out', 'out', mibRate)];
const isFailing = {alarm: (row) => row.errors > 0};
const TABLES = {
  operations: new Table('table-operations', 'Commands by operation', [
    column('operation', 'key', (key) => words(key.replace(/^io /, ''))), column('total', 'total', count), ...flow,
    column('p50', 'p50', time), column('p99', 'p99', time), column('p99.9', 'p999', time), column('errors', 'errors', rate, isFailing)]),
  errors: new Table('table-errors', 'Commands that failed', [column('status', 'status'), column('code', 'code'), column('total', 'total', count), column('rate', 'rate', rate)]),
  namespaces: new Table('table-namespaces', 'I/O commands and room by namespace', [
    column('namespace', 'name'), column('holds', 'set', String, {isWords: true}), ...flow, column('gets', 'gets', rate), column('puts', 'puts', rate),
    column('pairs', 'pairs', count), column('used', 'used', bytes), column('capacity', 'capacity', bytes), column('full', 'full', percent, {alarm: (row) => row.pairs !== undefined && row.full > 0.9})]),
  subsystems: new Table('table-subsystems', 'I/O commands by subsystem', [
    column('subsystem', 'key'), ...flow, column('p50', 'p50', time), column('p99', 'p99', time), column('errors', 'errors', rate, isFailing),
    column('I/O queues', 'queues', count), column('critical warnings', 'warnings', String, {isWords: true, alarm: (row) => row.warnings !== 'none'})]),
  link: new Table('table-link', 'Transactions by class; a fabric’s commands cross no link', [
    column('class', 'key', words), column('total', 'total', count), column('rate', 'rate', rate), column('payload', 'payload', mibRate),
    column('to the device', 'down', mibRate), column('from the device', 'up', mibRate)]),
  flash: new Table('table-flash', 'Operations by cause; write amplification is bytes programmed for each byte that hosts handed in', [
    column('cause', 'key'), column('programs', 'programs', rate), column('programmed', 'bytes', mibRate), column('reads', 'reads', rate), column('read', 'readBytes', mibRate),
    column('erases', 'erases', rate), column('amplification now', 'amplification', times), column('since the start', 'amplificationTotal', times)]),
  stalls: new Table('table-stalls', 'What commands waited for: up to 20 causes, by share of time', [
    column('of', 'of'), column('cause', 'cause', words, {isWords: true}), column('total', 'total', count), column('rate', 'rate', rate), column('share', 'share', percent), column('longest', 'longest', time)]),
  health: new Table('table-health', 'SMART and flash; of several subsystems their sum or the worst', [column('figure', 'name'), column('value', 'value', String, {alarm: (row) => row.alarm})]),
  hosts: new Table('table-hosts', 'Hosts over NVMe/TCP', [column('host', 'key'), column('controllers', 'controllers', count)]),
  connections: new Table('table-connections', 'Connections since the start, and now', [column('connections', 'name'), column('count', 'value', count)]),
};

const CHARTS = {
  iops: new Chart('chart-iops', rate),
  bytes: new Chart('chart-bytes', mibRate, {unit: MIB}),
  latency: new Chart('chart-latency', time, {logarithmic: true}),
  link: new Chart('chart-link', mibRate, {unit: MIB}),
  flash: new Chart('chart-flash', mibRate, {unit: MIB}),
  amplification: new Chart('chart-amplification', times),
};

// ---- State

const view = {
  scope: '', last: undefined, growth: undefined, isPaused: false, timer: undefined, ticks: 0, restarts: 0,
  // Points by scope, the oldest first.
  history: new Map(),
};

/** What charts need of an interval. */
function pointOf(growth, breaks) {
  const point = {atMs: growth.newer.atMs, breaks, rate: {}, bytes: {}, p50: {}, p99: {}, p999: {}, flash: {}, link: {down: 0, up: 0}};
  for (const row of operations(growth)) {
    if (row.queue !== 'io') continue;
    [point.rate[row.command], point.bytes[row.command]] = [row.rate, row.in + row.out];
    [point.p50[row.command], point.p99[row.command], point.p999[row.command]] = [row.p50, row.p99, row.p999];
  }
  for (const row of linkClasses(growth)) {
    point.link.down += row.down;
    point.link.up += row.up;
  }
  const causes = flashCauses(growth);
  causes.forEach((row) => { point.flash[row.key] = row.bytes; });
  const amplifications = causes.map((row) => row.amplification).filter((value) => value !== undefined);
  point.amplification = amplifications.length ? amplifications.reduce((one, other) => one + other, 0) : undefined;
  return point;
}

function remember(older, newer, breaks) {
  const scopes = ['', ...(newer.scopes.size > 1 ? newer.scopes.keys() : [])];
  const pointsMax = Math.floor(POINTS_MAX / scopes.length);
  for (const scope of scopes) {
    const points = view.history.get(scope) ?? [];
    points.push(pointOf(new Growth(older, newer, scope), breaks));
    const oldest = newer.atMs - HISTORY_MAX_S * 1000;
    while (points.length > pointsMax || points[0].atMs < oldest) points.shift();
    view.history.set(scope, points);
  }
  [...view.history.keys()].filter((scope) => !scopes.includes(scope)).forEach((scope) => view.history.delete(scope));
}

// ---- Showing

/** Series of the busiest keys of `point[of]`; the others as one, where their values add up. */
function seriesOfKeys(points, of, style, {adds}) {
  const sums = new Map();
  points.forEach((point) => Object.entries(point[of]).forEach(([key, value]) => sums.set(key, (sums.get(key) ?? 0) + (value || 0))));
  const busy = [...sums].filter(([, sum]) => sum > 0).sort(([, one], [, other]) => other - one).map(([key]) => key);
  const lines = busy.slice(0, LINES_MAX).sort().map((key) => ({name: key, ...style(key), value: (point) => point[of][key]}));
  const rest = busy.slice(LINES_MAX);
  if (adds && rest.length > 0) {
    lines.push({name: `${rest.length} others`, colour: 'grey', dash: 2, value: (point) => rest.reduce((sum, key) => sum + (point[of][key] ?? 0), 0)});
  }
  return lines;
}

function showCharts() {
  const points = view.history.get(view.scope) ?? [];
  const windowMs = byId('window').value * 1000;
  const endMs = view.last.atMs;
  const draw = (name, series) => CHARTS[name].draw(points, series, endMs, windowMs);
  const recent = points.filter((point) => point.atMs >= endMs - windowMs);
  const fixed = (key) => ({colour: COLOURS[key] ?? 'grey', dash: 0});
  draw('iops', seriesOfKeys(recent, 'rate', styleOf, {adds: true}));
  draw('bytes', seriesOfKeys(recent, 'bytes', styleOf, {adds: true}));
  draw('latency', seriesOfKeys(recent, byId('percentile').value, styleOf, {adds: false}));
  draw('link', [['down', 'to the device'], ['up', 'from the device']].map(([key, name]) => ({name, ...fixed(key), dash: key === 'down' ? 1 : 0, value: (point) => point.link[key]})));
  draw('flash', seriesOfKeys(recent, 'flash', fixed, {adds: true}));
  draw('amplification', [{name: 'all causes', colour: 'ink', dash: 0, value: (point) => point.amplification}]);
}

function showTiles(growth, rows) {
  const {newer, scope} = growth;
  const io = (labels) => labels.queue === 'io';
  const [p50, p99] = growth.quantiles([0.5, 0.99], io);
  const sum = (of) => rows.filter((row) => row.queue === 'io').reduce((all, row) => all + row[of], 0);
  const warnings = warningsOf(newer, scope);
  const failing = sum('errors');
  const tiles = [
    ['rate', 'I/O commands', rate(sum('rate'))],
    ['in', 'Data in', mibRate(sum('in'))],
    ['out', 'Data out', mibRate(sum('out'))],
    ['latency', 'Latency p50, p99', `${time(p50)}, ${time(p99)}`],
    ['depth', 'Commands at a time', times(growth.rate('command_duration_seconds_sum', io))],
    ['waiting', 'Waiting for sync, engine', ['sync', 'engine'].map((of) => count(newer.sum(scope, 'commands_waiting', (labels) => labels.for === of))).join(', ')],
    ['errors', 'Failed I/O commands', rate(failing), failing > 0],
    ['hosts', 'Hosts, I/O queues', `${count(newer.sum('', 'hosts') ?? newer.sum('', 'vfio_user_clients'))}, ${count(newer.sum(scope, 'io_queues'))}`],
    ['namespaces', 'Namespaces', count(newer.sum(scope, 'namespaces'))],
    ['network', 'Network in, out', newer.sum('', 'network_receive_bytes_total') === undefined ? MISSING
      : `${mibRate(growth.rateOfServer('network_receive_bytes_total'))}, ${mibRate(growth.rateOfServer('network_transmit_bytes_total'))}`],
    ['health', 'Health', warnings.join(', ') || 'no warnings', warnings.length > 0],
    ['process', 'Memory, processor', `${bytes(newer.process('resident_memory_bytes'))}, ${percent(growth.processors())}`],
  ];
  byId('tiles').replaceChildren(...tiles.map(([key, name, value, alarm]) => {
    const [tile, term, definition] = ['div', 'dt', 'dd'].map((tag) => document.createElement(tag));
    [term.textContent, definition.textContent, tile.dataset.key] = [name, value, key];
    tile.classList.toggle('alarm', Boolean(alarm));
    tile.append(term, definition);
    return tile;
  }));
}

function showScopes(reading) {
  const names = reading.of('', 'info').map((series) => series.labels.subsystem);
  const several = names.length > 1;
  byId('scope-label').hidden = !several;
  const version = reading.of('', 'info')[0]?.labels.version;
  const about = `${version ?? ''} · ${several ? `${names.length} subsystems` : names[0] ?? 'no subsystem'}`;
  if (byId('about').textContent !== about) byId('about').textContent = about;
  if (view.scope !== '' && !names.includes(view.scope)) view.scope = '';
  const wanted = ['', ...(several ? names : [])];
  const select = byId('scope');
  if (wanted.join('\n') !== [...select.options].map((option) => option.value).join('\n')) {
    select.replaceChildren(...wanted.map((name) => new Option(name || 'all', name)));
  }
  select.value = view.scope;
}

function show() {
  if (!view.growth || view.isPaused) return;
  const growth = new Growth(view.growth.older, view.growth.newer, view.scope);
  const {older, newer} = growth;
  const rows = operations(growth);
  showTiles(growth, rows);
  TABLES.operations.show(rows);
  TABLES.errors.show(errors(growth));
  TABLES.namespaces.show(namespaces(growth));
  TABLES.subsystems.show(subsystems(older, newer));
  const classes = linkClasses(growth);
  byId('link').hidden = classes.length === 0;
  TABLES.link.show(classes);
  TABLES.flash.show(flashCauses(growth));
  TABLES.stalls.show(stalls(growth));
  TABLES.health.show(health(newer, view.scope));
  TABLES.hosts.show(newer.of('', 'host_controllers').map((series) => ({key: series.labels.host, controllers: newer.values.get(series)})));
  TABLES.connections.show(connections(newer));
  showCharts();
}

const clock = (atMs) => new Date(performance.timeOrigin + atMs).toLocaleTimeString();

/** Says how it stands, once for each change: a screen reader reads it out. */
function say(text, {isAlarm = false} = {}) {
  if (byId('status').textContent !== text) byId('status').textContent = text;
  byId('status').classList.toggle('alarm', isAlarm);
  document.body.classList.toggle('stale', isAlarm);
}

function sayAnswered() {
  const again = view.restarts > 0 ? ` The server was restarted at ${clock(view.restartedMs)}: its counters began anew.` : '';
  say(`Live.${again}`);
}

// ---- Reading

async function read() {
  const answer = await fetch('metrics', {cache: 'no-store', signal: AbortSignal.timeout(FETCH_TIMEOUT_MS)});
  if (!answer.ok) throw new Error(`it answers ${answer.status}`);
  const text = await answer.text();
  return new Reading(text, performance.now());
}

/** Takes a reading in. Rates need two of one server's life. */
function take(reading) {
  const {last} = view;
  view.last = reading;
  showScopes(reading);
  if (!last) return say('First metrics read. Rates follow with the second.');
  if (reading.process('start_time_seconds') !== last.process('start_time_seconds')) {
    view.restarts += 1;
    view.restartedMs = reading.atMs;
    view.breaks = true;
    return sayAnswered();
  }
  remember(last, reading, Boolean(view.breaks));
  view.growth = {older: last, newer: reading};
  view.breaks = false;
  sayAnswered();
  show();
}

/** Reads and shows, again and again, until a later call takes over. */
async function tick() {
  const mine = ++view.ticks;
  clearTimeout(view.timer);
  const begunMs = performance.now();
  try {
    take(await read());
    view.failedMs = undefined;
  } catch (error) {
    view.failedMs ??= begunMs;
    view.breaks = true;
    const why = error.name === 'TimeoutError' ? 'it does not answer' : error instanceof TypeError ? 'it cannot be reached' : error.message;
    say(`No metrics of the server since ${clock(view.failedMs)}: ${why}. It is asked again every ${byId('interval').value} s.`, {isAlarm: true});
  }
  if (mine !== view.ticks) return;
  const wait = byId('interval').value * 1000 - (performance.now() - begunMs);
  view.timer = setTimeout(tick, Math.max(wait, 100));
}

byId('scope').addEventListener('change', (event) => { view.scope = event.target.value; show(); });
byId('window').addEventListener('change', show);
byId('percentile').addEventListener('change', show);
byId('interval').addEventListener('change', tick);
byId('controls').addEventListener('submit', (event) => event.preventDefault());
byId('pause').addEventListener('click', (event) => {
  view.isPaused = !view.isPaused;
  event.target.setAttribute('aria-pressed', view.isPaused);
  event.target.textContent = view.isPaused ? 'Go on' : 'Pause';
  show();
});
tick();
