// Small charts of the last hour: time on the horizontal axis, one scale, few series.
import { html, useEffect, useRef } from './dom.js';

const { uPlot } = globalThis; // its minified build is a classic script, which index.html loads before the modules
const height = 92; // px
const together = uPlot.sync('hour'); // the charts share their cursor

// colour returns the computed value of a custom property that is a colour.
function colour(element, name) {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  element.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

// translucent is a colour at a tenth of its opacity.
const translucent = (value) => value.replace(/^rgb\((.*)\)$/, 'rgba($1, 0.12)');

// sparse reports whether a series has too few values for a line to show them.
const sparse = (plot, series) => plot.data[series].filter((value) => value != null).length < 10;

function options(element, series, format) {
  const quiet = colour(element, '--quiet');
  const line = colour(element, '--line');
  const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
  return {
    width: element.clientWidth || 300,
    height,
    padding: [6, 18, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: together.key }, drag: { x: false, y: false }, points: { size: 5 }, y: false },
    scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.08] } },
    axes: [
      { ...axis, grid: { show: false }, size: 18, space: 70, values: (_, ticks) => ticks.map((t) => new Date(t * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })) },
      { ...axis, size: 46, space: 26, values: (_, ticks) => ticks.map((value) => format(value)) },
    ],
    series: [{}, ...series.map(({ label, token, dash }) => {
      const stroke = colour(element, token);
      return { label, stroke, width: 1.5, dash, fill: dash ? undefined : translucent(stroke), points: { show: sparse, size: 4, fill: stroke }, spanGaps: true };
    })],
  };
}

// A Chart draws series over the times in seconds. title names it, figure is the present value as
// text, and summary says for screen readers what the picture shows.
export function Chart({ title, figure, summary, times, series, format }) {
  const place = useRef();
  const plot = useRef();
  const data = [times, ...series.map((one) => one.values)];
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(place.current, series, format), latest.current, place.current);
    };
    draw();
    const fit = new ResizeObserver(() => {
      const width = place.current?.clientWidth;
      if (width && width !== plot.current.width) plot.current.setSize({ width, height });
    });
    fit.observe(place.current);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', draw);
    addEventListener('isr-theme', draw);
    return () => {
      fit.disconnect();
      scheme.removeEventListener('change', draw);
      removeEventListener('isr-theme', draw);
      plot.current.destroy();
    };
  }, []);
  useEffect(() => { plot.current.setData(latest.current); });

  return html`<figure class="chart">
    <figcaption><span>${title}</span><strong>${figure}</strong></figcaption>
    <div ref=${place} class="plot" role="img" aria-label=${`${title}: ${summary}`}></div>
    ${series.length > 1 && html`<p class="legend">${series.map(({ label, token }) => html`<span key=${label}><i class="swatch ${token.slice(2)}"></i>${label}</span>`)}</p>`}
  </figure>`;
}
