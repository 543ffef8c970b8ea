import assert from "node:assert/strict";
import { eventually } from "../support/eventually.ts";
import { answer, startRawEndpoint } from "../support/webhooks/raw-endpoint.ts";
import { PATH, says, type TrialSender, trialSender } from "../support/webhooks/webhook-app.ts";

describe("a sender of webhooks", () => {
  let trial: TrialSender;
  beforeEach(() => (trial = trialSender()));
  afterEach(() => trial.close());

  describe("sends", () => {
    it("the exact text, the headers and nothing that invites another encoding", async () => {
      const endpoint = await trial.startEndpoint();
      const body = '{"text":"ü 😀 \\u0000"}';
      const outcome = await trial.sendTo(endpoint, {
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
      assert.equal(request?.line, `POST ${PATH} HTTP/1.1`);
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
      const endpoint = await trial.startEndpoint();
      const outcome = await trial.sendTo(endpoint, { headers: { "x-a": "b\r\nx-evil: 1" } });
      assert.equal(outcome.error, "the request cannot be written as HTTP");
      assert.equal(endpoint.requests.length, 0);
    });

    it("many requests over few connections, and closes idle ones", async () => {
      const endpoint = await trial.startEndpoint();
      for (let i = 0; i < 20; i += 1) assert.equal((await trial.sendTo(endpoint)).isSuccess, true);
      assert.equal(endpoint.connections, 1);
      await Promise.all(Array.from({ length: 40 }, () => trial.sendTo(endpoint)));
      assert.equal(endpoint.requests.length, 60);
      assert.ok(endpoint.connections <= 40);
      // Sooner than idle ones are closed anyway.
      await eventually(() => endpoint.open.size <= 16, { timeoutMs: 2_500 });
      await trial.sender.close();
      await eventually(() => endpoint.open.size === 0);
    });

    it("once more when a kept connection turns out to be closed", async () => {
      const endpoint = await trial.startEndpoint((socket, _request, count) => {
        if (count === 1) socket.write(answer());
        // The second request on the first connection gets no answer.
        else if (count === 2) socket.resetAndDestroy();
        else socket.write(answer("again"));
      });
      assert.equal((await trial.sendTo(endpoint)).isSuccess, true);
      const outcome = await trial.sendTo(endpoint);
      assert.equal(outcome.responseBody, "again");
      assert.equal(endpoint.connections, 2);
      assert.equal(endpoint.requests[1]?.body, endpoint.requests[2]?.body);
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
        const outcome = await trial.outcomeOf(says(answer("", "", status)));
        assert.deepEqual([outcome.isSuccess, outcome.error], [error === null, error]);
        assert.equal(outcome.responseCode, Number(status.slice(0, 3)));
      }
    });

    it("of a redirect without following it", async () => {
      const inner = await trial.startEndpoint();
      for (const status of ["301 A", "302 A", "303 A", "307 A", "308 A"]) {
        const to = `Location: http://127.0.0.1:${inner.port}/metadata\r\n`;
        const outcome = await trial.outcomeOf(says(answer("moved", to, status)));
        assert.equal(outcome.responseBody, "moved");
        assert.equal(outcome.isSuccess, false);
      }
      assert.equal(inner.connections, 0);
    });

    it("with Retry-After as seconds or as a date", async () => {
      const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
      const seconds = async (value: string) =>
        (await trial.outcomeOf(says(answer("", `Retry-After: ${value}\r\n`, "503 Busy")))).retryAfterSeconds;
      assert.equal(await seconds("120"), 120);
      const untilDate = await seconds(inAnHour);
      assert.ok(untilDate !== null && untilDate > 3_500 && untilDate <= 3_600, String(untilDate));
      assert.equal(await seconds("Sat, 01 Jan 2000 00:00:00 GMT"), 0);
      for (const value of ["-5", "1.5", "soon", "99999999999", "2030-01-01", ""])
        assert.equal(await seconds(value), null, value);
    });

    it("of provisional answers by the real one", async () => {
      const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
      assert.equal((await trial.outcomeOf(says(`${hints}${hints}${answer()}`))).isSuccess, true);
      const outcome = await trial.outcomeOf((socket) => socket.write(hints.repeat(50)));
      assert.equal(outcome.error, "the endpoint sends only provisional responses");
    });

    it("of a connection that is refused or reset", async () => {
      const gone = await startRawEndpoint();
      await gone.close();
      assert.equal((await trial.sendTo(gone)).error, "the connection was refused");
      const reset = await trial.outcomeOf((socket) => socket.resetAndDestroy());
      assert.equal(reset.error, "the connection was reset");
      const ended = await trial.outcomeOf((socket) => socket.end());
      assert.equal(ended.error, "the connection was closed before the answer was complete");
      const half = await trial.outcomeOf((socket) =>
        socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
      );
      assert.deepEqual(
        [half.isSuccess, half.responseCode, half.responseBody, half.error],
        [false, 200, "half", "the connection was closed before the answer was complete"],
      );
    });

    it("of what is not HTTP", async () => {
      for (const text of ["SSH-2.0-OpenSSH_9.6\r\n", "-ERR unknown command\r\n", "HTTP/1.1 abc\r\n\r\n"])
        assert.equal((await trial.outcomeOf(says(text))).error, "the answer is not HTTP/1.1", text);
      const upgrade = "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
      assert.equal((await trial.outcomeOf(says(upgrade))).isSuccess, false);
    });

    it("of a request that is ended early", async () => {
      const endpoint = await trial.startEndpoint(() => undefined);
      const ending = new AbortController();
      const sent = trial.sendTo(endpoint, { signal: ending.signal });
      await eventually(() => endpoint.requests.length === 1);
      ending.abort();
      assert.equal((await sent).error, "the request was aborted");
      await eventually(() => endpoint.open.size === 0);
      const already = await trial.sendTo(endpoint, { signal: AbortSignal.abort() });
      assert.equal(already.error, "the request was aborted");
      assert.equal(endpoint.requests.length, 1);
    });
  });
});
