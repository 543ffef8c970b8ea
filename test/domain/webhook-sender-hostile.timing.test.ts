import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { RESPONSE_BODY_MAX } from "../../src/domain/delivery/webhooks/delivering/sender.ts";
import { eventually } from "../support/eventually.ts";
import { answer, type Respond } from "../support/webhooks/raw-endpoint.ts";
import { says, type TrialSender, trialSender } from "../support/webhooks/webhook-app.ts";

describe("a sender of webhooks to hostile endpoints", () => {
  let trial: TrialSender;
  beforeEach(() => (trial = trialSender()));
  afterEach(() => trial.close());

  describe("ends the exchange in time", () => {
    it("with an endpoint that says nothing, and closes the connection", async () => {
      const endpoint = await trial.startEndpoint(() => undefined);
      const outcome = await trial.sendTo(endpoint, { timeoutMs: 300 });
      assert.deepEqual(
        [outcome.error, outcome.responseCode, outcome.responseBody, outcome.isRefused],
        ["no complete response within 0.3 s", null, null, false],
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
        const outcome = await trial.outcomeOf(drip, { timeoutMs: 400 });
        assert.equal(outcome.isSuccess, false);
        assert.equal(outcome.error, "no complete response within 0.4 s");
        assert.equal(outcome.responseCode, what === "body" ? 200 : null);
        await eventually(() => trial.endpoints.every(({ open }) => open.size === 0));
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
        const outcome = await trial.outcomeOf(flood);
        assert.equal(outcome.isSuccess, true);
        assert.equal(outcome.responseBody, "x".repeat(RESPONSE_BODY_MAX));
        await eventually(() => trial.endpoints.every(({ open }) => open.size === 0));
        assert.ok(written < 64 * 1_048_576, `${written} bytes written`);
      }
    });

    it("the whole of one that has just 16 KiB, and keeps the connection", async () => {
      const body = "x".repeat(RESPONSE_BODY_MAX);
      const endpoint = await trial.startEndpoint(says(answer(body)));
      assert.equal((await trial.sendTo(endpoint)).responseBody, body);
      await trial.sendTo(endpoint);
      assert.equal(endpoint.connections, 1);
    });

    it("nothing of what is compressed: a bomb stays folded", async () => {
      const bomb = gzipSync(Buffer.alloc(50 * 1_048_576));
      const outcome = await trial.outcomeOf((socket) => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`);
        socket.write(bomb);
      });
      assert.equal(outcome.isSuccess, true);
      assert.ok(Buffer.byteLength(outcome.responseBody ?? "") <= RESPONSE_BODY_MAX);
    });

    it("headers of 16 KiB", async () => {
      for (const headers of [`X-Big: ${"x".repeat(20_000)}\r\n`, "X-Many: 1\r\n".repeat(5_000)]) {
        const outcome = await trial.outcomeOf(says(answer("ok", headers)));
        assert.equal(outcome.error, "the headers of the answer are too large");
      }
    });

    it("chunks, but not a flood of what stands around them", async () => {
      const start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
      const chunked = await trial.outcomeOf(says(`${start}2\r\nok\r\n3;a=b\r\nay!\r\n0\r\nX-T: 1\r\n\r\n`));
      assert.equal(chunked.responseBody, "okay!");
      const flood: Respond = (socket) => {
        socket.write(`${start}1;`);
        const part = "a".repeat(65_536);
        const timer = setInterval(() => socket.write(part), 5);
        socket.once("close", () => clearInterval(timer));
      };
      const outcome = await trial.outcomeOf(flood, { timeoutMs: 20_000 });
      assert.equal(outcome.error, "the response is too large");
    });
  });

  describe("takes no answer for that of another request", () => {
    it("when an endpoint answers twice", async () => {
      let isTwice = true;
      const endpoint = await trial.startEndpoint((socket) => {
        const [first, second] = [answer("first"), isTwice ? answer("forged") : ""];
        isTwice = false;
        socket.write(`${first}${second}`);
      });
      assert.equal((await trial.sendTo(endpoint)).responseBody, "first");
      assert.equal((await trial.sendTo(endpoint)).responseBody, "first");
      assert.equal(endpoint.connections, 2);
    });

    it("when an endpoint says something while nothing was asked", async () => {
      const endpoint = await trial.startEndpoint((socket, _request, count) => {
        socket.write(answer(`answer ${count}`));
        setTimeout(() => socket.write(answer("forged")), 20);
      });
      for (let i = 1; i < 4; i += 1) {
        assert.equal((await trial.sendTo(endpoint)).responseBody, `answer ${i}`);
        await eventually(() => endpoint.open.size === 0);
      }
    });
  });

  describe("makes text of any bytes", () => {
    const bodyOf = async (bytes: Buffer): Promise<string> => {
      const outcome = await trial.outcomeOf((socket) => {
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
