'use strict';

// The times that the plots can show, the longest of them, the time of the numbers of the table, and that between two requests: milliseconds.
const SPANS = [60_000, 120_000, 300_000];
const WINDOW = SPANS.at(-1), RECENT = 10_000, PAUSE = 1000;
// The longest wait for an answer.
const LONGEST = 5000;
// The looks of the curves. Further paths have the same colours with other strokes.
const COLOURS = ['blue', 'orange', 'green', 'purple', 'gold'];
const STROKES = [[], [7, 4], [2, 3]];
// The margins of a plot, and the distance between two numbers at the ends of its curves.
const LEFT = 64, RIGHT = 18, TOP = 10, BOTTOM = 20, APART = 12;

// The curves of each client: a map from the name of a path to its curve.
const clients = new Map();
let latest = null;

const withUnit = (value, units, step) => {
  let index = 0;
  for (; value >= step && index < units.length - 1; index += 1) value /= step;
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} ${units[index]}`;
};
const bitRate = (rate) => withUnit(rate, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s'], 1000);
const size = (bytes) => withUnit(bytes, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
const count = (number) => number.toLocaleString('en');
const orDash = (value, text) => (value === null ? '–' : text(value));

const delay = (time) => (time < 10 ? `${time.toFixed(1)} ms` : milliseconds(time));

// The plots: the value of a point, and the lowest top of the scale.
const PLOTS = [
  { id: 'rate', text: bitRate, least: 1e5, of: (point) => point.rate },
  { id: 'rtt', text: delay, least: 10, of: (point) => point.rtt },
  { id: 'loss', text: percent, least: 0.01, of: (point) => point.loss },
];

// A path over the last minutes.
class Curve {
  constructor(number) {
    this.number = number;
    this.points = [];
    this.path = null;
    // The counters of the last point; null after a gap.
    this.counted = null;
  }

  colour() {
    return COLOURS[(this.number - 1) % COLOURS.length];
  }

  stroke() {
    return STROKES[Math.floor((this.number - 1) / COLOURS.length) % STROKES.length];
  }

  take(path, now) {
    const before = this.counted, last = this.points.at(-1);
    this.path = path;
    this.counted = path;
    // Another association begins to count again.
    const isSame = before !== null && last !== undefined && path.bytes_sent >= before.bytes_sent && path.chunks_sent >= before.chunks_sent;
    const point = {
      time: now, rtt: path.srtt_ms,
      took: isSame ? now - last.time : 0,
      bytes: isSame ? path.bytes_sent - before.bytes_sent : 0,
      chunks: isSame ? path.chunks_sent - before.chunks_sent : 0,
      lost: isSame ? Math.max(0, path.chunks_lost - before.chunks_lost) : 0,
    };
    point.rate = point.took ? (8000 * point.bytes) / point.took : null;
    this.points.push(point);
    point.loss = this.recent(now).loss;
  }

  // The path is not there any more. Its curves stay until they have left the plots.
  leave(now) {
    if (this.counted === null) return;
    this.counted = null;
    this.points.push({ time: now, rtt: null, rate: null, loss: null, took: 0, bytes: 0, chunks: 0, lost: 0 });
    this.path = {
      ...this.path, state: 'gone', srtt_ms: null, rate_bits_per_second: null, remark: 'its network or its association went away',
    };
  }

  forget(now) {
    const first = this.points.findIndex((point) => point.time > now - WINDOW);
    this.points.splice(0, first < 0 ? this.points.length : first);
  }

  // The sums of the last seconds.
  recent(now) {
    const sums = { bytes: 0, took: 0, chunks: 0, lost: 0 };
    for (let i = this.points.length - 1; i >= 0 && this.points[i].time > now - RECENT; i -= 1) {
      for (const key of Object.keys(sums)) sums[key] += this.points[i][key];
    }
    const isThere = this.counted !== null;
    return {
      bytes: sums.bytes,
      rate: isThere && sums.took ? (8000 * sums.bytes) / sums.took : null,
      loss: isThere && sums.chunks ? Math.min(1, sums.lost / sums.chunks) : null,
    };
  }
}

const clientKey = (client) => client.remote ?? '';
const pathName = (path) => `${path.interface ? `${path.interface} ` : ''}${path.local ?? 'any'} – ${path.remote}`;

// Adds what the program says now to the curves.
function take(status, now) {
  for (const client of status.clients) {
    const key = clientKey(client);
    if (!clients.has(key)) clients.set(key, new Map());
    const curves = clients.get(key);
    const names = new Set();
    for (const path of client.paths) {
      const name = pathName(path);
      names.add(name);
      if (!curves.has(name)) curves.set(name, new Curve(freeNumber(curves)));
      curves.get(name).take(path, now);
    }
    for (const [name, curve] of curves) {
      if (!names.has(name)) curve.leave(now);
      curve.forget(now);
      if (!curve.points.length) curves.delete(name);
    }
  }
  const present = new Set(status.clients.map(clientKey));
  for (const key of clients.keys()) {
    if (!present.has(key)) clients.delete(key);
  }
}

function freeNumber(curves) {
  const taken = new Set([...curves.values()].map((curve) => curve.number));
  let number = 1;
  while (taken.has(number)) number += 1;
  return number;
}

// Writes rows of cells into a table. Cells that have not changed stay as they are, so that a screen reader does not lose its place.
function fill(body, rows) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, index) => {
    const row = body.rows[index] ?? body.insertRow();
    cells.forEach((text, column) => {
      let cell = row.cells[column];
      if (!cell) {
        cell = document.createElement(column ? 'td' : 'th');
        if (!column) cell.scope = 'row';
        cell.classList.toggle('text', body.parentElement.tHead.rows[0].cells[column].className === 'text');
        row.append(cell);
      }
      if (cell.textContent !== text) cell.textContent = text;
    });
  });
}

function showPaths(curves, now) {
  const sums = curves.map((curve) => curve.recent(now));
  const all = sums.reduce((total, { bytes }) => total + bytes, 0);
  fill(element('paths'), curves.map((curve, index) => {
    const { path, number } = curve, { bytes, rate, loss } = sums[index];
    return [
      `${number}: ${pathName(path)}`, path.state, orDash(rate, bitRate), all ? percent(bytes / all) : '–', orDash(path.srtt_ms, delay),
      orDash(loss, percent), orDash(path.rate_bits_per_second, bitRate), size(path.bytes_sent),
      size(path.bytes_received), count(path.chunks_retransmitted), path.remark ?? '',
    ];
  }));
  curves.forEach((curve, index) => {
    const [name, state] = element('paths').rows[index].cells;
    name.style.setProperty('--own', `var(--${curve.colour()})`);
    state.classList.toggle('good', curve.path.state === 'active');
    state.classList.toggle('bad', curve.path.state !== 'active');
  });
}

function showRules(rules) {
  fill(element('rules'), rules.map((rule) => {
    // Bytes of connections are never too late.
    const hasTime = rule.messages_sent > 0 && !/^(reverse-)?tcp /.test(rule.rule);
    return [
      rule.rule, count(rule.flows), count(rule.messages_sent), hasTime ? percent(1 - rule.abandoned / rule.messages_sent) : '–',
      count(rule.abandoned), count(rule.dropped), size(rule.bytes_sent), count(rule.messages_received), size(rule.bytes_received), count(rule.flows_refused),
    ];
  }));
}

// The next of 1, 2 and 5 times a power of ten.
function above(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((level) => level >= value);
}

function draw(plot, curves, now) {
  const { context, width, height } = prepare(element(plot.id));
  const values = curves.flatMap((curve) => curve.points.map(plot.of)).filter((value) => value !== null);
  const top = above(values.reduce((most, value) => Math.max(most, value), plot.least));
  const bottom = height - BOTTOM, right = width - RIGHT;
  const level = (value) => bottom - (value / top) * (bottom - TOP);
  const oldest = Math.min(now, ...curves.map((curve) => curve.points[0].time));
  const span = SPANS.find((time) => now - oldest <= time) ?? WINDOW;
  const across = (time) => right - ((now - time) / span) * (right - LEFT);
  drawLevels(context, [[bottom, '0'], [level(top / 2), plot.text(top / 2)], [TOP, plot.text(top)]], LEFT, right);
  context.textBaseline = 'bottom';
  context.textAlign = 'left';
  context.fillText(`${span / 60_000} min ago`, LEFT, height);
  context.textAlign = 'right';
  context.fillText('now', right, height);
  const ends = [];
  for (const curve of curves) {
    context.strokeStyle = colour(curve.colour());
    context.lineWidth = 2;
    context.setLineDash(curve.stroke());
    context.beginPath();
    let isDrawing = false, end = null;
    for (const point of curve.points) {
      const value = plot.of(point);
      if (value !== null) {
        end = [across(point.time), level(value)];
        context[isDrawing ? 'lineTo' : 'moveTo'](...end);
      }
      isDrawing = value !== null;
    }
    context.stroke();
    if (end) ends.push({ curve, x: end[0], y: end[1] });
  }
  context.setLineDash([]);
  drawNumbers(context, ends, bottom);
}

// Writes the number of each curve at its end, without overlap.
function drawNumbers(context, ends, bottom) {
  context.font = 'bold 11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  ends.sort((a, b) => b.y - a.y);
  let lowest = bottom;
  for (const end of ends) {
    const y = Math.min(end.y, lowest);
    lowest = y - APART;
    context.fillStyle = colour(end.curve.colour());
    context.fillText(end.curve.number, end.x + 4, y);
  }
}

// The client whose paths are shown: the one that the visitor chose, while it is there.
function chosen() {
  const select = element('client'), keys = latest.clients.map(clientKey);
  element('choice').hidden = keys.length < 2;
  const shown = [...select.options].map((option) => option.value);
  if (keys.join('\n') !== shown.join('\n')) {
    const before = select.value;
    select.replaceChildren(...keys.map((key) => new Option(key, key)));
    if (keys.includes(before)) select.value = before;
  }
  return latest.clients[Math.max(0, select.selectedIndex)];
}

function show() {
  if (latest === null) return;
  const now = performance.now(), client = chosen();
  const curves = client ? [...clients.get(clientKey(client)).values()].sort((a, b) => a.number - b.number) : [];
  showPaths(curves, now);
  showRules(client?.rules ?? []);
  for (const plot of PLOTS) draw(plot, curves, now);
  if (!client) tell('no client is connected');
  else if (client.connected) tell(latest.clients.length > 1 ? `${latest.clients.length} clients` : 'connected', 'good');
  else tell('not connected', 'bad');
}

// A status that is there already is not said again.
function tell(text, kind = '') {
  if (element('status').textContent !== text) say(text, kind);
}

async function follow() {
  try {
    const response = await fetch('status', { signal: AbortSignal.timeout(LONGEST) });
    if (!response.ok) throw new Error((await response.text()).trim());
    latest = await response.json();
    take(latest, performance.now());
    show();
  } catch (error) {
    tell(`No answer from anabranch: the values are old. (${error.message})`, 'bad');
  }
  setTimeout(follow, PAUSE);
}

element('client').addEventListener('change', show);
addEventListener('resize', show);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
follow();
