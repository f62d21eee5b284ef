// Looks at the page of `anabranch forward`: usage forward.mjs chromium|firefox URL [PICTURE]. Loads it, and waits until it has two paths that work and
// five seconds of curves. With PICTURE it also writes PICTURE-wide-light.png and so on. Prints one line of JSON.
import { resize, start, visit } from './browser.mjs';

const [name, url, picture] = process.argv.slice(2);
const browser = await start(name);
const { page, faults, requests } = await visit(browser, url);

const rows = (id) => page.$eval(`#${id}`, (body) => [...body.rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
const until = async (condition) => {
  while (!await condition()) await new Promise((resolve) => setTimeout(resolve, 200));
};
// The share of the pixels of a plot that have the colour of a curve.
const drawn = (id, colour) => page.$eval(`#${id}`, (canvas, name) => {
  const context = document.createElement('canvas').getContext('2d');
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let pixels = 0;
  for (let i = 0; i < data.length; i += 4) pixels += data[i] === red && data[i + 1] === green && data[i + 2] === blue;
  return pixels / (data.length / 4);
}, colour);

await until(async () => (await rows('paths')).filter(([, state]) => state === 'active').length === 2);
const asked = () => requests.filter((request) => request.endsWith('/status')).length;
await until(() => asked() >= 6);
const hidden = await resize(name, page, picture);
const curves = {};
for (const id of ['rate', 'rtt']) curves[id] = [await drawn(id, 'blue'), await drawn(id, 'orange')];
const status = await page.$eval('#status', (line) => line.textContent);
console.log(JSON.stringify({
  browser: await browser.version(), paths: await rows('paths'), rules: await rows('rules'), curves, hidden, status, faults, requests,
}));
await browser.close();
