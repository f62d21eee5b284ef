// Starts a browser without its windows.
import { once } from 'node:events';
import { existsSync, rmSync } from 'node:fs';
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

// Ends a browser as a crash would, and removes the profile that was made for it.
export async function kill(browser) {
  const main = browser.process();
  const gone = once(main, 'exit');
  // The driver made a process group of the browser's processes, which outlive the first one.
  process.kill(-main.pid, 'SIGKILL');
  await gone;
  const [, profile] = main.spawnargs.join('\n').match(/^--(?:user-data-dir=|profile\n)(.*)$/m) ?? [];
  // Processes of the browser that are still ending may write there once more.
  if (profile) rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
}
