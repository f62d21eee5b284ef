// A browser as the peer of the tests: usage channels.mjs chromium|firefox [TRIALS]. README.md has the requests, one line of JSON each on
// standard input; each has one line of JSON as its answer.
import { createInterface } from 'node:readline';
import { kill, start } from './browser.mjs';

// Runs in the page.
function prepare() {
  const channels = new Map();
  let peer;
  const bytes = (size) => Uint8Array.from({ length: size }, (_, place) => place % 251);
  const text = (size) => 'abcdefghijklmnopqrstuvwxyz'.repeat(Math.ceil(size / 26)).slice(0, size);

  function adopt(channel, echoes) {
    channel.binaryType = 'arraybuffer';
    const known = { channel, inbox: [], bytes: 0, wake: () => {} };
    channels.set(channel.label, known);
    channel.onmessage = ({ data }) => {
      if (channel.label.startsWith('sink')) known.bytes += data.byteLength ?? data.length;
      else if (echoes) channel.send(data);
      else known.inbox.push(data);
      known.wake();
    };
    channel.onopen = () => known.wake();
    channel.onclose = () => known.wake();
  }

  async function until(label, condition) {
    const known = channels.get(label);
    if (!known) throw new Error(`there is no channel ${label}`);
    while (!condition(known)) await new Promise((resolve) => { known.wake = resolve; });
    return known;
  }

  // Sets the local description, and waits for its candidates.
  async function described() {
    const gathered = new Promise((resolve) => { peer.onicecandidate = ({ candidate }) => candidate ?? resolve(); });
    await peer.setLocalDescription();
    await gathered;
    return { sdp: peer.localDescription.sdp };
  }

  function begin(configuration) {
    peer = new RTCPeerConnection(configuration);
    peer.ondatachannel = ({ channel }) => adopt(channel, true);
  }

  const open = ({ label, ...properties }) => adopt(peer.createDataChannel(label, properties), false);
  begin();

  window.requests = {
    async offer({ channels: wanted, media = [], bundlePolicy }) {
      if (bundlePolicy) begin({ bundlePolicy });
      media.forEach((kind) => peer.addTransceiver(kind));
      wanted.forEach(open);
      return described();
    },
    async answer({ sdp }) {
      await peer.setRemoteDescription({ type: 'offer', sdp });
      return described();
    },
    async restart() {
      peer.restartIce();
      return described();
    },
    async connected() {
      while (peer.connectionState !== 'connected' || peer.signalingState !== 'stable') {
        await new Promise((resolve) => { peer.onconnectionstatechange = resolve; });
      }
      return {};
    },
    async accept({ sdp }) {
      await peer.setRemoteDescription({ type: 'answer', sdp });
      return {};
    },
    async open({ channels: wanted }) {
      wanted.forEach(open);
      for (const { label } of wanted) await until(label, ({ channel }) => channel.readyState === 'open');
      return {};
    },
    async echoes({ label, sizes, kind }) {
      const known = await until(label, ({ channel }) => channel.readyState === 'open');
      for (const size of sizes) {
        const sent = kind === 'text' ? text(size) : bytes(size);
        known.channel.send(sent);
        await until(label, ({ inbox, channel }) => inbox.length > 0 || channel.readyState === 'closed');
        const back = known.inbox.shift();
        const same = kind === 'text' ? back === sent
          : back instanceof ArrayBuffer && back.byteLength === size && new Uint8Array(back).every((byte, place) => byte === sent[place]);
        if (!same) throw new Error(`${kind} of ${size} bytes came back as ${back?.constructor.name} of ${back?.length ?? back?.byteLength}`);
      }
      return {};
    },
    async flood({ label, size, seconds, low, high, pause = 0 }) {
      const { channel } = await until(label, (known) => known.channel.readyState === 'open');
      const message = new Uint8Array(size), end = performance.now() + 1000 * seconds;
      let sent = 0;
      channel.bufferedAmountLowThreshold = low;
      while (performance.now() < end) {
        if (channel.bufferedAmount < high) {
          channel.send(message);
          sent += size;
          if (pause > 0) await new Promise((resolve) => { setTimeout(resolve, pause); });
        } else {
          await new Promise((resolve) => { channel.onbufferedamountlow = resolve; });
        }
      }
      return { bytes: sent };
    },
    async received({ label }) {
      return { bytes: channels.get(label).bytes };
    },
    async say({ label, text: words }) {
      channels.get(label).channel.send(words);
      return {};
    },
    async close({ label }) {
      channels.get(label).channel.close();
      await until(label, ({ channel }) => channel.readyState === 'closed');
      return {};
    },
    async closed({ label }) {
      await until(label, ({ channel }) => channel.readyState === 'closed');
      return {};
    },
  };
}

const [name, trials] = process.argv.slice(2);
const browser = await start(name, { trials });
const page = await browser.newPage();
await page.evaluate(prepare);
console.log(JSON.stringify({ ready: await browser.version() }));
for await (const line of createInterface({ input: process.stdin })) {
  const { do: action, ...request } = JSON.parse(line);
  if (action === 'vanish') {
    await kill(browser);
    process.exit(0);
  }
  try {
    console.log(JSON.stringify(await page.evaluate((key, value) => window.requests[key](value), action, request)));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }));
  }
}
await browser.close();
