import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import type { OutboundSettings } from "../../src/config.ts";
import {
  RESPONSE_BODY_MAX,
  type WebhookOutcome,
  type WebhookSender,
} from "../../src/domain/webhooks/sender.ts";
import { createWebhookSender } from "../../src/platform/webhook-sender.ts";
import { eventually } from "../support/eventually.ts";
import { answer, type RawEndpoint, type Respond, startRawEndpoint } from "../support/raw-endpoint.ts";

const LOCAL: OutboundSettings = { allowCidrs: [], ports: [443], allowLocal: true };
const SECRET = "s3cret-in-the-path";

describe("a sender of webhooks", function () {
  this.timeout(30_000);
  let sender: WebhookSender;
  const endpoints: RawEndpoint[] = [];

  beforeEach(() => (sender = createWebhookSender(LOCAL)));
  afterEach(async () => {
    await sender.close();
    await Promise.all(endpoints.splice(0).map((one) => one.close()));
  });

  const startEndpoint = async (respond?: Respond): Promise<RawEndpoint> => {
    const endpoint = await startRawEndpoint(respond);
    endpoints.push(endpoint);
    return endpoint;
  };
  type Given = { headers?: Record<string, string>; body?: string; timeoutMs?: number; signal?: AbortSignal };
  const sendTo = ({ port }: { port: number }, given: Given = {}): Promise<WebhookOutcome> =>
    sender.send({
      url: `http://127.0.0.1:${port}/hook/${SECRET}?a=1`,
      headers: { "content-type": "application/json" },
      body: '{"a":"ü"}',
      timeoutMs: 5_000,
      ...given,
    });
  /** What comes of an endpoint that answers so; nothing of the request may show in the error. */
  const outcomeOf = async (respond: Respond, given: Given = {}): Promise<WebhookOutcome> => {
    const outcome = await sendTo(await startEndpoint(respond), given);
    assert.doesNotMatch(outcome.error ?? "", new RegExp(`${SECRET}|127\\.0\\.0\\.1|/hook`));
    return outcome;
  };
  const says =
    (text: string): Respond =>
    (socket) =>
      void socket.write(text, "latin1");

  describe("sends", () => {
    it("the exact text, the headers and nothing that invites another encoding", async () => {
      const endpoint = await startEndpoint();
      const body = '{"text":"ü 😀 \\u0000"}';
      const outcome = await sendTo(endpoint, {
        body,
        headers: { "X-Service-Event": "a", "webhook-id": "7" },
      });
      assert.deepEqual(
        { ...outcome, durationMs: 0 },
        {
          isSuccess: true,
          responseCode: 200,
          responseBody: "ok",
          durationMs: 0,
          error: null,
          isRefused: false,
          retryAfterSeconds: null,
        },
      );
      const [request] = endpoint.requests;
      assert.equal(request?.line, `POST /hook/${SECRET}?a=1 HTTP/1.1`);
      assert.equal(request.body, body);
      assert.deepEqual(request.headers, {
        host: `127.0.0.1:${endpoint.port}`,
        connection: "keep-alive",
        "accept-encoding": "identity",
        "x-service-event": "a",
        "webhook-id": "7",
        "content-length": String(Buffer.byteLength(body)),
      });
    });

    it("nothing at all when a header could smuggle another one", async () => {
      const endpoint = await startEndpoint();
      const outcome = await sendTo(endpoint, { headers: { "x-a": "b\r\nx-evil: 1" } });
      assert.equal(outcome.error, "the request cannot be written as HTTP");
      assert.equal(endpoint.requests.length, 0);
    });

    it("many requests over few connections, and closes idle ones", async () => {
      const endpoint = await startEndpoint();
      for (let i = 0; i < 20; i += 1) assert.equal((await sendTo(endpoint)).isSuccess, true);
      assert.equal(endpoint.connections, 1);
      await Promise.all(Array.from({ length: 40 }, () => sendTo(endpoint)));
      assert.equal(endpoint.requests.length, 60);
      assert.ok(endpoint.connections <= 40);
      await eventually(() => endpoint.open.size <= 16);
      await sender.close();
      await eventually(() => endpoint.open.size === 0);
    });

    it("at most 256 requests at once, the others in turn", async () => {
      let isHolding = true;
      const waiting: (() => void)[] = [];
      const endpoint = await startEndpoint((socket) => {
        const reply = (): void => void socket.write(answer());
        if (isHolding) waiting.push(reply);
        else reply();
      });
      const sent = Array.from({ length: 300 }, () => sendTo(endpoint, { timeoutMs: 20_000 }));
      const late = sendTo(endpoint, { timeoutMs: 100 });
      await eventually(() => waiting.length === 256);
      assert.equal((await late).error, "no complete answer within 0.1 s");
      assert.equal(endpoint.open.size, 256);
      isHolding = false;
      for (const reply of waiting) reply();
      const outcomes = await Promise.all(sent);
      assert.ok(outcomes.every(({ isSuccess }) => isSuccess));
      assert.equal(endpoint.requests.length, 300);
    });

    it("once more when a kept connection turns out to be closed", async () => {
      const endpoint = await startEndpoint((socket, _request, count) => {
        if (count === 1) socket.write(answer());
        // The second request on the first connection gets no answer.
        else if (count === 2) socket.resetAndDestroy();
        else socket.write(answer("again"));
      });
      assert.equal((await sendTo(endpoint)).isSuccess, true);
      const outcome = await sendTo(endpoint);
      assert.equal(outcome.responseBody, "again");
      assert.equal(endpoint.connections, 2);
      assert.equal(endpoint.requests[1]?.body, endpoint.requests[2]?.body);
    });

    it("after the server closed a kept connection in silence", async () => {
      const endpoint = await startEndpoint((socket) => {
        socket.write(answer());
        setTimeout(() => socket.end(), 20);
      });
      for (let i = 0; i < 5; i += 1) {
        assert.equal((await sendTo(endpoint)).isSuccess, true);
        if (i % 2 === 0) await eventually(() => endpoint.open.size === 0);
      }
      assert.equal(endpoint.requests.length, 5);
    });
  });

  describe("tells the outcome", () => {
    it("of every status", async () => {
      for (const [status, error] of [
        ["200 OK", null],
        ["204 No Content", null],
        ["299 Whatever", null],
        ["302 Found", "the endpoint answered 302: redirects are not followed"],
        ["410 Gone", "the endpoint answered 410"],
        ["500 Oops", "the endpoint answered 500"],
      ] as const) {
        const outcome = await outcomeOf(says(answer("", "", status)));
        assert.deepEqual([outcome.isSuccess, outcome.error], [error === null, error]);
        assert.equal(outcome.responseCode, Number(status.slice(0, 3)));
      }
    });

    it("of a redirect without following it", async () => {
      const inner = await startEndpoint();
      for (const status of ["301 A", "302 A", "303 A", "307 A", "308 A"]) {
        const to = `Location: http://127.0.0.1:${inner.port}/metadata\r\n`;
        const outcome = await outcomeOf(says(answer("moved", to, status)));
        assert.equal(outcome.responseBody, "moved");
        assert.equal(outcome.isSuccess, false);
      }
      assert.equal(inner.connections, 0);
    });

    it("with Retry-After as seconds or as a date", async () => {
      const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
      const seconds = async (value: string) =>
        (await outcomeOf(says(answer("", `Retry-After: ${value}\r\n`, "503 Busy")))).retryAfterSeconds;
      assert.equal(await seconds("120"), 120);
      const untilDate = await seconds(inAnHour);
      assert.ok(untilDate !== null && untilDate > 3_500 && untilDate <= 3_600, String(untilDate));
      assert.equal(await seconds("Sat, 01 Jan 2000 00:00:00 GMT"), 0);
      for (const value of ["-5", "1.5", "soon", "99999999999", "2030-01-01", ""])
        assert.equal(await seconds(value), null, value);
    });

    it("of provisional answers by the real one", async () => {
      const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
      assert.equal((await outcomeOf(says(`${hints}${hints}${answer()}`))).isSuccess, true);
      const outcome = await outcomeOf((socket) => socket.write(hints.repeat(50)));
      assert.equal(outcome.error, "the answer does not begin");
    });

    it("of a connection that is refused or reset", async () => {
      const gone = await startRawEndpoint();
      await gone.close();
      assert.equal((await sendTo(gone)).error, "the connection was refused");
      const reset = await outcomeOf((socket) => socket.resetAndDestroy());
      assert.equal(reset.error, "the connection was reset");
      const ended = await outcomeOf((socket) => socket.end());
      assert.equal(ended.error, "the connection was closed before the answer was complete");
      const half = await outcomeOf((socket) =>
        socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
      );
      assert.deepEqual(
        [half.isSuccess, half.responseCode, half.responseBody, half.error],
        [false, 200, "half", "the connection was closed before the answer was complete"],
      );
    });

    it("of what is not HTTP", async () => {
      for (const text of ["SSH-2.0-OpenSSH_9.6\r\n", "-ERR unknown command\r\n", "HTTP/1.1 abc\r\n\r\n"])
        assert.equal((await outcomeOf(says(text))).error, "the answer is not HTTP/1.1", text);
      const upgrade = "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
      assert.equal((await outcomeOf(says(upgrade))).isSuccess, false);
    });

    it("of a request that is ended early", async () => {
      const endpoint = await startEndpoint(() => undefined);
      const ending = new AbortController();
      const sent = sendTo(endpoint, { signal: ending.signal });
      await eventually(() => endpoint.requests.length === 1);
      ending.abort();
      assert.equal((await sent).error, "the request was ended early");
      await eventually(() => endpoint.open.size === 0);
      const already = await sendTo(endpoint, { signal: AbortSignal.abort() });
      assert.equal(already.error, "the request was ended early");
      assert.equal(endpoint.requests.length, 1);
    });
  });

  describe("ends the exchange in time", () => {
    it("with an endpoint that says nothing, and closes the connection", async () => {
      const endpoint = await startEndpoint(() => undefined);
      const outcome = await sendTo(endpoint, { timeoutMs: 300 });
      assert.deepEqual(
        [outcome.error, outcome.responseCode, outcome.responseBody, outcome.isRefused],
        ["no complete answer within 0.3 s", null, null, false],
      );
      await eventually(() => endpoint.open.size === 0);
    });

    const drips: Record<string, string> = {
      status: "",
      headers: "HTTP/1.1 200 OK\r\nX-Slow: ",
      body: "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
    };
    for (const [what, start] of Object.entries(drips))
      it(`with an endpoint that drips its ${what}`, async () => {
        const drip: Respond = (socket) => {
          socket.write(start);
          const timer = setInterval(() => socket.write(what === "status" ? "\r\n" : "x"), 20);
          socket.once("close", () => clearInterval(timer));
        };
        const outcome = await outcomeOf(drip, { timeoutMs: 400 });
        assert.equal(outcome.isSuccess, false);
        assert.equal(outcome.error, "no complete answer within 0.4 s");
        assert.equal(outcome.responseCode, what === "body" ? 200 : null);
        await eventually(() => endpoints.every(({ open }) => open.size === 0));
      });
  });

  describe("reads little of an answer", () => {
    it("at most 16 KiB of a body without end, then closes the connection", async () => {
      for (const framing of ["Content-Length: 10737418240\r\n", ""]) {
        let written = 0;
        const flood: Respond = (socket) => {
          socket.write(`HTTP/1.1 200 OK\r\n${framing}\r\n`);
          const part = Buffer.alloc(65_536, "x");
          const pour = (): void => {
            while (!socket.destroyed && socket.write(part)) written += part.length;
          };
          socket.on("drain", pour);
          pour();
        };
        const outcome = await outcomeOf(flood);
        assert.equal(outcome.isSuccess, true);
        assert.equal(outcome.responseBody, "x".repeat(RESPONSE_BODY_MAX));
        await eventually(() => endpoints.every(({ open }) => open.size === 0));
        assert.ok(written < 64 * 1_048_576, `${written} bytes written`);
      }
    });

    it("the whole of one that has just 16 KiB, and keeps the connection", async () => {
      const body = "x".repeat(RESPONSE_BODY_MAX);
      const endpoint = await startEndpoint(says(answer(body)));
      assert.equal((await sendTo(endpoint)).responseBody, body);
      await sendTo(endpoint);
      assert.equal(endpoint.connections, 1);
    });

    it("nothing of what is compressed: a bomb stays folded", async () => {
      const bomb = gzipSync(Buffer.alloc(50 * 1_048_576));
      const outcome = await outcomeOf((socket) => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`);
        socket.write(bomb);
      });
      assert.equal(outcome.isSuccess, true);
      assert.ok(Buffer.byteLength(outcome.responseBody ?? "") <= RESPONSE_BODY_MAX);
    });

    it("headers of 16 KiB", async () => {
      for (const headers of [`X-Big: ${"x".repeat(20_000)}\r\n`, "X-Many: 1\r\n".repeat(5_000)]) {
        const outcome = await outcomeOf(says(answer("ok", headers)));
        assert.equal(outcome.error, "the headers of the answer are too large");
      }
    });

    it("chunks, but not a flood of what stands around them", async () => {
      const start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
      const chunked = await outcomeOf(says(`${start}2\r\nok\r\n3;a=b\r\nay!\r\n0\r\nX-T: 1\r\n\r\n`));
      assert.equal(chunked.responseBody, "okay!");
      const flood: Respond = (socket) => {
        socket.write(`${start}1;`);
        const part = "a".repeat(65_536);
        const timer = setInterval(() => socket.write(part), 5);
        socket.once("close", () => clearInterval(timer));
      };
      const outcome = await outcomeOf(flood, { timeoutMs: 20_000 });
      assert.equal(outcome.error, "the answer is too large");
    });
  });

  describe("makes text of any bytes", () => {
    const bodyOf = async (bytes: Buffer): Promise<string> => {
      const outcome = await outcomeOf((socket) => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes.length}\r\n\r\n`);
        socket.write(bytes);
      });
      return outcome.responseBody ?? "";
    };

    it("without NUL", async () => {
      assert.equal(await bodyOf(Buffer.from("a\0b\0\0c")), "abc");
    });

    it("with a mark for what is no UTF-8, and no larger than 16 KiB", async () => {
      assert.equal(
        await bodyOf(Buffer.from([0x61, 0xff, 0xed, 0xa0, 0x80, 0x62])),
        "a\ufffd\ufffd\ufffd\ufffdb",
      );
      const text = await bodyOf(Buffer.alloc(RESPONSE_BODY_MAX, 0xff));
      assert.ok(Buffer.byteLength(text) <= RESPONSE_BODY_MAX);
      assert.match(text, /^\ufffd+$/);
      assert.ok(text.isWellFormed());
    });

    it("cut between characters", async () => {
      const text = await bodyOf(Buffer.from(`x${"😀".repeat(RESPONSE_BODY_MAX)}`));
      assert.match(text, /^x(😀)+$/u);
      assert.ok(
        Buffer.byteLength(text) <= RESPONSE_BODY_MAX && Buffer.byteLength(text) > RESPONSE_BODY_MAX - 4,
      );
    });
  });
});
