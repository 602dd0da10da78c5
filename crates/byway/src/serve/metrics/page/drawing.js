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
