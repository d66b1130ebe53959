// A list of any length of which only the visible rows exist.
import { html, useEffect, useLayoutEffect, useRef, useState } from './dom.js';

const overscan = 8; // rows above and below the visible ones

// A VirtualTable shows rows of a height in px as a table. row(index) is the content of a row:
// its cells; a row that is not loaded yet is undefined. seen is told which rows are shown.
export function VirtualTable({ label, head, total, height, row, seen }) {
  const box = useRef();
  const [view, set] = useState({ top: 0, size: 600 });
  const measure = () => {
    const { scrollTop, clientHeight } = box.current;
    const top = Math.floor(scrollTop / height);
    set((was) => (was.top === top && was.size === clientHeight ? was : { top, size: clientHeight }));
  };
  useLayoutEffect(() => {
    measure();
    const fit = new ResizeObserver(measure);
    fit.observe(box.current);
    return () => fit.disconnect();
  }, [height]);

  const from = Math.max(0, Math.min(view.top, total - 1) - overscan);
  const to = Math.min(total, view.top + Math.ceil(view.size / height) + overscan);
  useEffect(() => { seen(from, to); });

  const rows = [];
  for (let i = from; i < to; i++) {
    rows.push(html`<div key=${i} role="row" aria-rowindex=${i + 2} class="vrow" style=${{ transform: `translateY(${i * height}px)`, height: `${height}px` }}>
      ${row(i) ?? html`<span role="cell" class="bone"></span>`}
    </div>`);
  }
  return html`<div class="vtable" role="table" aria-label=${label} aria-rowcount=${total + 1}>
    <div role="rowgroup" class="vhead"><div role="row" aria-rowindex="1" class="vrow">${head}</div></div>
    <div ref=${box} class="vbody" role="rowgroup" tabindex="0" aria-label="Rows" onScroll=${measure}>
      <div class="vspace" role="presentation" style=${{ height: `${total * height}px` }}>${rows}</div>
    </div>
  </div>`;
}
