// The entry point of the console.
import { html, render } from './dom.js';
import { App } from './app.js';

const root = document.getElementById('app');
root.replaceChildren();
render(html`<${App} />`, root);
