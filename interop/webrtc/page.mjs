// Looks at the page of `anabranch web`: usage page.mjs chromium|firefox URL [PICTURE]. Loads it, waits for the numbers, moves a slider, and
// waits until the numbers show it. With PICTURE it also writes PICTURE-wide-light.png and so on. Prints one line of JSON.
import { networkInterfaces } from 'node:os';
import { resize, start, visit } from './browser.mjs';

const [name, url, picture] = process.argv.slice(2);
// Without addresses other than loopback, no browser connects with its default preferences.
const usual = Object.values(networkInterfaces()).flat().some(({ internal }) => !internal);
const browser = await start(name, { usual });
const { page, faults, requests } = await visit(browser, url);

// The numbers of each way, in the units of the page: percent, milliseconds. A number that is not there yet is null.
const numbers = () => page.evaluate(() => {
  const value = (text) => (text === '–' ? null : (text.endsWith(' s') ? 1000 : 1) * Number.parseFloat(text));
  const ways = [...document.querySelectorAll('section')];
  return Object.fromEntries(ways.map((way) => [way.id, Object.fromEntries(
    [...way.querySelectorAll('[data-number]')].map((number) => [number.dataset.number, value(number.textContent)]),
  )]));
});
const until = async (condition) => {
  for (;;) {
    const now = await numbers();
    if (await condition(now)) return now;
    const failure = await page.evaluate(() => document.querySelector('#status.bad')?.textContent);
    if (failure) throw new Error(`the page says: ${failure}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
};
const known = (now) => Object.values(now).every((way) => way['in-time'] !== null);

const before = await until((now) => known(now) && now.prioritised.median !== null);
const hidden = await resize(name, page, picture);
const move = (id, to) => page.$eval(`#${id}`, (slider, value) => {
  slider.value = value;
  slider.dispatchEvent(new Event('input', { bubbles: true }));
}, to);
// The delay of the link is a lower bound of what the plots show. Less is the error of the browser's idea of the server's clock.
await move('delay', 200);
const slow = await until((now) => now.prioritised.median >= 150);
await page.click('#file');
await until(() => page.$eval('#file-rate', (rate) => rate.textContent === '–'));
const status = await page.$eval('#status', (line) => line.textContent);
console.log(JSON.stringify({ browser: await browser.version(), before, slow, hidden, status, faults, requests }));
await browser.close();
