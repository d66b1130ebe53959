// Sign in with the admin token, once.
import { html, useRef, useState } from '../dom.js';
import { post } from '../api.js';
import { Failure } from '../resource.js';

export function SignIn({ ended, done }) {
  const field = useRef();
  const [state, set] = useState({});
  const send = async (event) => {
    event.preventDefault();
    const token = field.current.value.trim();
    if (!token) return set({ problem: { message: 'the token is missing', hint: 'paste it into the field' } });
    set({ busy: true });
    try {
      done(await post('/-/session', { token }, { timeout: 20_000 }));
    } catch (problem) {
      set({ problem });
      field.current.select();
    }
  };
  return html`<main class="signin" id="main">
    <h1>isr <span class="quiet">console</span></h1>
    ${ended && html`<p role="status">The session has ended. Sign in again to go on.</p>`}
    <form onSubmit=${send}>
      <label for="token">Admin token</label>
      <input id="token" ref=${field} type="password" autocomplete="current-password" spellcheck=${false} autofocus aria-describedby="where" />
      ${state.problem && html`<${Failure} problem=${state.problem} />`}
      <button type="submit" class="primary" aria-disabled=${Boolean(state.busy)}>${state.busy ? 'Signing in…' : 'Sign in'}</button>
    </form>
    <div id="where" class="quiet">
      <p>The server printed it when it first started, and keeps it in its data folder:</p>
      <pre tabindex="0"><code>cat isr-data/admin.token</code></pre>
      <p>In a fleet it is the <code>ISR_ADMIN_TOKEN</code> of the servers. The browser keeps a cookie that scripts cannot read; it ends after two hours without use.</p>
    </div>
  </main>`;
}
