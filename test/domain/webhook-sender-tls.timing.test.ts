import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWebhookSender } from "../../src/platform/webhook-sender.ts";
import { type Certificate, selfSigned } from "../support/webhooks/receiver.ts";
import { eventually } from "../support/eventually.ts";
import { type DnsServer, startDnsServer } from "../support/webhooks/dns-server.ts";
import { type RawEndpoint, startRawEndpoint } from "../support/webhooks/raw-endpoint.ts";
import { pluck } from "../support/pluck.ts";

const HOUR_MS = 3_600_000;
const NAME = "hook.example.com";

describe("a sender of webhooks over TLS", () => {
  let dns: DnsServer;
  const endpoints: RawEndpoint[] = [];

  before(async () => {
    dns = await startDnsServer((_name, family) => (family === "A" ? ["127.0.0.1"] : []));
  });
  after(() => dns.close());
  afterEach(() => Promise.all(endpoints.splice(0).map((one) => one.close())));

  const startEndpoint = async (certificate: Certificate): Promise<RawEndpoint> => {
    const endpoint = await startRawEndpoint(undefined, { certificate });
    endpoints.push(endpoint);
    return endpoint;
  };

  const send = async (certificate: Certificate, trusted: string, host = NAME) => {
    const endpoint = await startEndpoint(certificate);
    const settings = { allowCidrs: ["127.0.0.1/32"], ports: [endpoint.port], allowLocal: false };
    const sender = createWebhookSender(settings, { dnsServers: [dns.address], ca: trusted });
    const url = `https://${host}:${endpoint.port}/hook`;
    const { isSuccess, error } = await sender.send({ url, headers: {}, body: "{}", timeoutMs: 5_000 });
    await sender.close();
    assert.equal(endpoint.connections, 1);
    // Nothing was said to whom the certificate did not prove.
    assert.equal(endpoint.requests.length, isSuccess ? 1 : 0);
    return isSuccess ? "success" : error;
  };

  it("speaks to the owner of the name and to nobody else", async () => {
    const right = selfSigned({ names: [NAME] });
    const other = selfSigned({ names: ["other.example.com"] });
    assert.equal(await send(right, right.cert), "success");
    assert.equal(await send(other, other.cert), "the certificate is for another name");
    // The name in the certificate does not count for the address behind it.
    assert.equal(await send(right, right.cert, "127.0.0.1"), "the certificate is for another name");
  });

  it("trusts no certificate that is self-signed, expired or not valid yet", async () => {
    const right = selfSigned({ names: [NAME] });
    const foreign = selfSigned({ names: [NAME] });
    assert.equal(await send(right, foreign.cert), "the certificate is self-signed");
    const old = selfSigned({ names: [NAME], until: new Date(Date.now() - HOUR_MS) });
    assert.equal(await send(old, old.cert), "the certificate has expired");
    const future = selfSigned({ names: [NAME], from: new Date(Date.now() + HOUR_MS) });
    assert.equal(await send(future, future.cert), "the certificate is not valid yet");
  });

  it("takes a plain endpoint for what it is", async () => {
    const plain = await startRawEndpoint();
    endpoints.push(plain);
    const settings = { allowCidrs: ["127.0.0.1/32"], ports: [plain.port], allowLocal: false };
    const sender = createWebhookSender(settings);
    const url = `https://127.0.0.1:${plain.port}/`;
    const sent = sender.send({ url, headers: {}, body: "{}", timeoutMs: 5_000 });
    const socket = await eventually(() => [...plain.open][0]);
    socket.write("HTTP/1.1 400 Bad Request\r\n\r\n");
    assert.equal((await sent).error, "the TLS handshake failed");
  });

  it("ends with its time a handshake that does not come to an end", async () => {
    const plain = await startRawEndpoint();
    endpoints.push(plain);
    const settings = { allowCidrs: ["127.0.0.1/32"], ports: [plain.port], allowLocal: false };
    const url = `https://127.0.0.1:${plain.port}/`;
    const request = { url, headers: {}, body: "{}", timeoutMs: 300 };
    const { error } = await createWebhookSender(settings).send(request);
    assert.equal(error, "no complete response within 0.3 s");
    assert.equal(plain.connections, 1);
    await eventually(() => plain.open.size === 0, { timeoutMs: 2_500 });
  });

  it("gives no ear to the environment: proxies and the switch that turns certificates off", async () => {
    const proxy = await startRawEndpoint();
    const endpoint = await startEndpoint(selfSigned({ names: [NAME] }));
    endpoints.push(proxy);
    const proxyUrl = `http://127.0.0.1:${proxy.port}`;
    const env = {
      ...process.env,
      ...Object.fromEntries(
        ["http_proxy", "https_proxy", "all_proxy"].flatMap((name) => [
          [name, proxyUrl],
          [name.toUpperCase(), proxyUrl],
        ]),
      ),
      no_proxy: "",
      NO_PROXY: "",
      NODE_USE_ENV_PROXY: "1",
      NODE_TLS_REJECT_UNAUTHORIZED: "0",
    };
    const run = async (script: string): Promise<string> => {
      const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
        env,
        cwd: import.meta.dirname,
        stdio: ["ignore", "pipe", "ignore"],
      });
      let out = "";
      child.stdout.on("data", (part: Buffer) => (out += part.toString()));
      await once(child, "close");
      return out;
    };
    const sending = await run(`
      import { createWebhookSender } from "../../src/platform/webhook-sender.ts";
      const sender = createWebhookSender({ allowCidrs: [], ports: [], allowLocal: true });
      const urls = ["http://127.0.0.1:${proxy.port}/direct", "https://127.0.0.1:${endpoint.port}/"];
      for (const url of urls) {
        const { error } = await sender.send({ url, headers: {}, body: "{}", timeoutMs: 5000 });
        console.log(error);
      }
      await sender.close();`);
    assert.equal(sending, "null\nthe certificate is self-signed\n");
    // What stands in the first line tells a request to a proxy from one to the endpoint.
    assert.deepEqual(pluck(proxy.requests, "line"), ["POST /direct HTTP/1.1"]);
    assert.equal(endpoint.connections, 1);
    // The same environment does lead others to the proxy.
    const others = `fetch("http://127.0.0.1:${endpoint.port}/others", { signal: AbortSignal.timeout(3000) })`;
    await run(`await ${others}.catch(() => undefined); process.exit();`);
    assert.match(
      proxy.requests.at(-1)?.line ?? "",
      new RegExp(`^(CONNECT|GET) .*127.0.0.1:${endpoint.port}`),
    );
  });
});
