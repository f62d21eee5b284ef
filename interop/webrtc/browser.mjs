// Starts a browser without its windows.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';

// scripts/setup installs the driver there.
const installed = new URL('../../target/interop/webrtc/package.json', import.meta.url);
const puppeteer = createRequire(installed)('puppeteer-core');

const PROGRAMS = {
  chromium: ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'],
  firefox: ['firefox-esr', 'firefox'],
};

// The path of a browser's program; undefined if it is not installed.
export function program(name) {
  const folders = (process.env.PATH ?? '').split(':').concat('/usr/bin');
  for (const file of PROGRAMS[name]) {
    const found = folders.map((folder) => `${folder}/${file}`).find(existsSync);
    if (found) return found;
  }
  return undefined;
}

// `trials` are Chromium's field trials. With `usual`, the browser has its default preferences for WebRTC, as that of a user.
export async function start(name, { trials = '', usual = false } = {}) {
  const executablePath = program(name);
  if (!executablePath) throw new Error(`no ${name} is installed: run scripts/setup`);
  if (name === 'firefox') {
    return puppeteer.launch({
      browser: 'firefox', executablePath,
      extraPrefsFirefox: usual ? {} : {
        // Connections to this machine, and their addresses in the offer.
        'media.peerconnection.ice.loopback': true,
        'media.peerconnection.ice.obfuscate_host_addresses': false,
      },
    });
  }
  const args = ['--disable-dev-shm-usage'];
  if (!usual) args.push('--disable-features=WebRtcHideLocalIpsWithMdns', '--allow-loopback-in-peer-connection');
  // Chromium's sandbox does not work for root.
  if (process.getuid() === 0) args.push('--no-sandbox');
  if (trials) args.push(`--force-fieldtrials=${trials}`);
  return puppeteer.launch({ executablePath, args });
}
