// What the views are made of: Preact, its hooks, and htm's templates.
import { h } from './lib/preact.mjs';
import htm from './lib/htm.mjs';

export { Fragment, render } from './lib/preact.mjs';
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from './lib/hooks.mjs';

// html`<p>${text}</p>` is a tree of Preact. Values become text, never markup.
export const html = htm.bind(h);
