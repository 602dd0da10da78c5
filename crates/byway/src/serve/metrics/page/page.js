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
  forgetAllBut(last, reading);
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
