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
