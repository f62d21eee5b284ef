// libdatachannel, by its binding node-datachannel, as the peer of the measurement of throughput. README.md has the requests; this peer knows
// `answer`, `flood`, `received` and `vanish`.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

// scripts/long/data-channels --setup installs it there.
const folder = new URL('../../target/interop/libdatachannel/', import.meta.url);
const installed = createRequire(new URL('package.json', folder));
const { PeerConnection } = installed('node-datachannel');
const { version } = JSON.parse(readFileSync(new URL('node_modules/node-datachannel/package.json', folder)));

const peer = new PeerConnection('peer', { iceServers: [] });
const channels = new Map();
peer.onDataChannel((channel) => {
  const known = { channel, bytes: 0 };
  channels.set(channel.getLabel(), known);
  channel.onMessage((message) => { known.bytes += message.length; });
});

const requests = {
  async answer({ sdp }) {
    const gathered = new Promise((resolve) => {
      peer.onGatheringStateChange((state) => { if (state === 'complete') resolve(); });
    });
    peer.setRemoteDescription(sdp, 'offer');
    await gathered;
    return { sdp: peer.localDescription().sdp };
  },
  async flood({ label, size, seconds, low, high }) {
    const { channel } = channels.get(label);
    const message = Buffer.alloc(size), end = performance.now() + 1000 * seconds;
    let sent = 0;
    channel.setBufferedAmountLowThreshold(low);
    while (performance.now() < end) {
      if (channel.bufferedAmount() < high) {
        channel.sendMessageBinary(message);
        sent += size;
      } else {
        await new Promise((resolve) => { channel.onBufferedAmountLow(resolve); setTimeout(resolve, 100); });
      }
    }
    return { bytes: sent };
  },
  async received({ label }) {
    return { bytes: channels.get(label)?.bytes ?? 0 };
  },
};

console.log(JSON.stringify({ ready: `libdatachannel (node-datachannel ${version})` }));
for await (const line of createInterface({ input: process.stdin })) {
  const { do: action, ...request } = JSON.parse(line);
  if (action === 'vanish') process.exit(0);
  try {
    console.log(JSON.stringify(await requests[action](request)));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }));
  }
}
process.exit(0);
