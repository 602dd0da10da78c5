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
