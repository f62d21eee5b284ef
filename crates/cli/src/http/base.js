'use strict';

// The functions that all pages of the command have.

const element = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 1 ? 1 : 0)} %`;
const milliseconds = (time) => (time < 1000 ? `${Math.round(time)} ms` : `${(time / 1000).toFixed(1)} s`);

// A colour of the style, in the scheme that the visitor has now.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

// The line at the top that says how the page is connected.
function say(text, kind = '') {
  element('status').textContent = text;
  element('status').className = kind;
}

// A canvas in the pixels of the screen.
function prepare(canvas) {
  const scale = devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

// The horizontal lines of a plot: the height of each, and the text at its left.
function drawLevels(context, levels, left, width) {
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  context.fillStyle = colour('quiet');
  context.strokeStyle = colour('line');
  context.lineWidth = 1;
  for (const [height, text] of levels) {
    const y = Math.round(height) + 0.5;
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(width, y);
    context.stroke();
    context.fillText(text, left - 6, y);
  }
}
