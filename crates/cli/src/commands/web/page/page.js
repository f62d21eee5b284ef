'use strict';

// The ways, in the order of the page. The label is that of the channel.
const WAYS = [
  { name: 'shared', label: 'file', title: 'In the file’s channel',
    how: 'As over one TCP connection or WebSocket: messages wait behind the file, and behind what was lost.' },
  { name: 'reliable', label: 'reliable', title: 'Reliable, in its own channel',
    how: 'Takes turns with the file. A lost message is sent again, and all later ones wait for it.' },
  { name: 'expiring', label: 'expiring', title: 'Expiring',
    how: 'Unordered: nothing waits for a lost message. After 100 ms the server gives a message up.' },
  { name: 'prioritised', label: 'prioritised', title: 'Expiring and prioritised',
    how: 'The same, and the server sends it before everything else.' },
  { name: 'deadline', label: 'deadline', title: 'With a deadline',
    how: 'The server knows when a message is worthless, and sends as many copies as the loss needs.' },
];
// Messages in a second, the window of the numbers and of the plots, the time for being in time, and the top of the plots: milliseconds.
const RATE = 60, WINDOW = 10_000, SLACK = 100, TOP = 500;
// A message of the game has this length in bytes; others in the file's channel are parts of the file.
const MESSAGE = 100;

const calm = matchMedia('(prefers-reduced-motion: reduce)');

// The clock of the server, from the exchange with the shortest round trip.
const clock = { shortest: Infinity, ahead: 0 };
const serverNow = () => performance.now() + clock.ahead;

let newest = 0;
let fileBytes = [];
let control;

class Way {
  constructor(facts) {
    const part = element('way').content.cloneNode(true);
    this.section = part.querySelector('section');
    this.section.id = facts.name;
    this.section.style.setProperty('--own', `var(--${facts.name})`);
    part.querySelector('h2').textContent = facts.title;
    part.querySelector('.how').textContent = facts.how;
    this.ship = part.querySelector('.ship');
    this.plot = part.querySelector('.plot');
    this.ship.setAttribute('aria-label', `The ship, as messages tell: ${facts.title}`);
    this.plot.setAttribute('aria-label', `Delays of the last ten seconds: ${facts.title}`);
    this.numbers = {};
    for (const number of part.querySelectorAll('[data-number]')) this.numbers[number.dataset.number] = number;
    // Number of a message: when it was sent, and its delay.
    this.arrived = new Map();
    this.latest = null;
    element('ways').append(part);
  }

  take(bytes) {
    if (clock.shortest === Infinity) return;
    const view = new DataView(bytes);
    const number = view.getUint32(0), sent = view.getFloat64(4);
    this.arrived.set(number, { sent, delay: Math.max(0, serverNow() - sent) });
    newest = Math.max(newest, number);
    if (this.latest === null || sent > this.latest) this.latest = sent;
  }

  forget() {
    const before = serverNow() - WINDOW - 2000;
    for (const [number, message] of this.arrived) {
      if (message.sent >= before) break;
      this.arrived.delete(number);
    }
  }

  // The numbers of messages that were sent in the window and have had their time to arrive.
  tell(deadline) {
    const recent = Math.ceil((deadline / 1000) * RATE) + 2;
    const last = newest - recent, first = Math.max(last - (WINDOW / 1000) * RATE, 0);
    const sent = last - first;
    if (sent < RATE) return;
    const delays = [];
    for (const [number, message] of this.arrived) {
      if (number > first && number <= last) delays.push(message.delay);
    }
    delays.sort((a, b) => a - b);
    const inTime = delays.filter((delay) => delay <= deadline).length;
    const at = (share) => (delays.length ? milliseconds(delays[Math.min(delays.length - 1, Math.floor(share * delays.length))]) : '–');
    this.numbers['in-time'].textContent = percent(inTime / sent);
    this.numbers.median.textContent = at(0.5);
    this.numbers.p99.textContent = at(0.99);
    this.numbers.missing.textContent = percent(Math.max(0, 1 - delays.length / sent));
  }

  draw(deadline, colours) {
    this.drawShip(colours);
    this.drawPlot(deadline, colours);
  }

  drawShip(colours) {
    const { context, width, height } = prepare(this.ship);
    const point = (time) => [
      width * (0.5 + 0.38 * Math.sin(time / 460)),
      height * (0.5 + 0.36 * Math.sin(time / 310 + 1)),
    ];
    if (this.latest === null) return;
    const [x, y] = point(serverNow());
    const [shipX, shipY] = point(this.latest);
    context.lineWidth = 2;
    context.strokeStyle = colours.line;
    context.beginPath();
    for (let time = this.latest; time <= serverNow(); time += 16) context.lineTo(...point(time));
    context.stroke();
    context.strokeStyle = colours.quiet;
    context.beginPath();
    context.arc(x, y, 11, 0, 7);
    context.stroke();
    context.fillStyle = this.colour;
    context.beginPath();
    context.arc(shipX, shipY, 7, 0, 7);
    context.fill();
  }

  drawPlot(deadline, colours) {
    const { context, width, height } = prepare(this.plot);
    const left = 46, bottom = height - 4, top = 8;
    const now = serverNow();
    const level = (delay) => bottom - (Math.min(delay, TOP) / TOP) * (bottom - top);
    const lines = [[0, '0'], [250, '250'], [TOP, '500 ms']];
    drawLevels(context, lines.map(([delay, text]) => [level(delay), text]), left, width);
    context.setLineDash([5, 4]);
    context.strokeStyle = colours.quiet;
    context.beginPath();
    context.moveTo(left, level(deadline));
    context.lineTo(width, level(deadline));
    context.stroke();
    context.setLineDash([]);
    for (const message of this.arrived.values()) {
      const x = width - ((now - message.sent) / WINDOW) * (width - left);
      if (x < left) continue;
      const late = message.delay > deadline;
      context.fillStyle = late ? colours.late : this.colour;
      const size = late ? 3 : 2;
      context.fillRect(x - size / 2, level(message.delay) - size / 2, size, size);
    }
  }
}


const ways = WAYS.map((facts) => new Way(facts));
const deadline = () => Number(element('delay').value) + SLACK;

function ask(request) {
  if (control?.readyState === 'open') control.send(JSON.stringify(request));
}

function showSliders() {
  element('loss-value').textContent = `${element('loss').value} %`;
  element('delay-value').textContent = `${element('delay').value} ms`;
}

function askForLink() {
  showSliders();
  ask({ loss: Number(element('loss').value), delay: Number(element('delay').value) });
}

function hear(message) {
  const answer = JSON.parse(message.data);
  const now = performance.now(), roundTrip = now - answer.clock;
  if (roundTrip < clock.shortest) {
    clock.shortest = roundTrip;
    clock.ahead = answer.server + roundTrip / 2 - now;
  }
}

function receive({ channel }) {
  channel.binaryType = 'arraybuffer';
  const index = WAYS.findIndex((facts) => facts.label === channel.label);
  if (index < 0) return;
  channel.onmessage = ({ data }) => {
    if (data.byteLength === MESSAGE) ways[index].take(data);
    else fileBytes.push([performance.now(), data.byteLength]);
  };
}

async function connect() {
  const peer = new RTCPeerConnection();
  control = peer.createDataChannel('anabranch-control');
  control.onmessage = hear;
  let hasOpened = false;
  control.onopen = () => {
    hasOpened = true;
    say('connected, encrypted', 'good');
    askForLink();
    const compare = () => ask({ clock: performance.now() });
    for (let i = 0; i < 5; i += 1) setTimeout(compare, 40 * i);
    setInterval(compare, 500);
    // The clocks are compared while the link is idle.
    setTimeout(() => ask({ file: element('file').checked }), 500);
  };
  // Firefox closes a channel that never opened, too.
  control.onclose = () => {
    if (hasOpened) say('The visit has ended. Reload the page for another one.', 'bad');
  };
  peer.ondatachannel = receive;
  peer.onconnectionstatechange = () => {
    if (peer.connectionState !== 'failed') return;
    say(hasOpened ? 'The connection to the server was lost. Reload the page.'
      : 'Cannot connect: no datagrams pass between this browser and the server. A firewall may block its UDP ports, or a proxy needs '
        + '--address. If the server is on this machine, the browser needs a network interface that is up.', 'bad');
  };
  // A browser that leaves tells the server, which then has room for the next one.
  addEventListener('pagehide', () => peer.close());
  await peer.setLocalDescription();
  const response = await fetch('offer', {
    method: 'POST', headers: { 'Content-Type': 'application/sdp' }, body: peer.localDescription.sdp,
  });
  const text = await response.text();
  if (response.status !== 201) throw new Error(text.trim());
  await peer.setRemoteDescription({ type: 'answer', sdp: text });
}

function frame() {
  const colours = { line: colour('line'), quiet: colour('quiet'), late: colour('late') };
  ways.forEach((way, index) => {
    way.colour = colour(WAYS[index].name);
    way.draw(deadline(), colours);
  });
  if (!calm.matches) requestAnimationFrame(frame);
}

function tellNumbers() {
  const now = performance.now();
  fileBytes = fileBytes.filter(([time]) => time > now - 2000);
  const bytes = fileBytes.reduce((sum, [, length]) => sum + length, 0);
  element('file-rate').textContent = bytes ? `${((bytes * 8) / 2e6).toFixed(1)} Mbit/s` : '–';
  for (const way of ways) {
    way.forget();
    way.tell(deadline());
  }
  if (calm.matches) frame();
}

element('loss').addEventListener('input', askForLink);
element('delay').addEventListener('input', askForLink);
element('file').addEventListener('change', () => ask({ file: element('file').checked }));
element('controls').addEventListener('submit', (event) => event.preventDefault());
showSliders();
setInterval(tellNumbers, 500);
requestAnimationFrame(frame);
connect().catch((error) => say(`Cannot connect: ${error.message}`, 'bad'));
