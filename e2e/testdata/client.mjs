// Sends the requests on standard input with node's own clients, on one connection, and writes
// the responses (see exchange and answer in clientprograms_test.go).
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';

const { url, ca: file, version, requests } = JSON.parse(fs.readFileSync(0));
const ca = fs.readFileSync(file);
const { get, close } = version === '2' ? http2Client() : http1Client();
const answers = [];
for (const request of requests) {
  answers.push(await get({ ...request, body: request.body && Buffer.from(request.body, 'base64') }));
}
close();
fs.writeFileSync(1, JSON.stringify(answers));

function http1Client() {
  const { Agent, request } = url.startsWith('https:') ? https : http;
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca });
  let sent = 0;
  const get = async ({ method, path, header, body }) => {
    let continued = false;
    const req = request(url + path, { agent, method, headers: headersOf(header, body) });
    req.on('continue', () => {
      continued = true;
      req.end(body);
    });
    const response = new Promise((resolve, reject) => req.on('response', resolve).on('error', reject));
    upload(req, header, body);
    const res = await response;
    if (sent++ > 0 && !req.reusedSocket) throw new Error(`${method} ${path}: the connection was not kept`);
    return answer(res.httpVersion, res.statusCode, res.headers, await buffer(res), continued);
  };
  return { get, close: () => agent.destroy() };
}

function http2Client() {
  const session = http2.connect(url, { ca });
  const get = async ({ method, path, header, body }) => {
    let continued = false;
    const req = session.request(
      { ':method': method, ':path': path, ...headersOf(header, body) },
      { endStream: !body },
    );
    req.on('continue', () => {
      continued = true;
      req.end(body);
    });
    const response = new Promise((resolve, reject) => req.on('response', resolve).on('error', reject));
    if (body) upload(req, header, body);
    const headers = await response;
    return answer('2', headers[':status'], headers, await buffer(req), continued);
  };
  return { get, close: () => session.close() };
}

// upload sends the body, unless the server is asked first.
function upload(req, header, body) {
  if (!header?.Expect) req.end(body);
  else req.flushHeaders?.();
}

function headersOf(header, body) {
  return { ...header, ...(body && { 'Content-Length': body.length }) };
}

function answer(version, status, headers, content, continued) {
  const body = headers['content-encoding'] === 'gzip' ? gunzipSync(content) : content;
  const header = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
  return { version, status, header, body: body.toString('base64'), continued };
}
