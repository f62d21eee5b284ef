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

// Opens a page. Returns it, the errors in its console, and the addresses that it loads.
export async function visit(browser, url) {
  const page = await browser.newPage();
  const faults = [], requests = [];
  page.on('console', (message) => { if (message.type() === 'error') faults.push(message.text()); });
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('request', (request) => requests.push(request.url()));
  await page.goto(url);
  return { page, faults, requests };
}

// Shows a page with the width of a desktop and of a phone. Returns for each how many pixels of the page are outside. With `picture` it also writes
// PICTURE-wide-light.png and so on. The driver emulates the dark scheme in Chromium only.
export async function resize(name, page, picture) {
  const schemes = name === 'chromium' ? ['light', 'dark'] : ['light'];
  const hidden = {};
  for (const [size, width, height, deviceScaleFactor] of [['wide', 1280, 900, 1], ['phone', 390, 844, 2]]) {
    await page.setViewport({ width, height, deviceScaleFactor });
    // A browser may need some of the width for its scroll bar.
    hidden[size] = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    for (const value of schemes) {
      if (schemes.length > 1) await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
      await new Promise((resolve) => setTimeout(resolve, 300));
      if (picture) await page.screenshot({ path: `${picture}-${size}-${value}.png`, fullPage: true });
    }
  }
  return hidden;
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
