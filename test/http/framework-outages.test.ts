import assert from "node:assert/strict";
import { once } from "node:events";
import { z } from "zod";
import { route } from "../../src/http/route.ts";
import { startTinyHttp } from "../support/http/tiny-http.ts";
import { madeOnce } from "../support/made.ts";

const open = {
  tag: "Test",
  access: "public",
  project: "none",
  method: "post",
  summary: "A test operation",
  response: z.object({ got: z.unknown() }),
} as const;

const withCode = (message: string, code: string): Error => Object.assign(new Error(message), { code });
const outages: Record<string, Error> = {
  queue: withCode("canceling statement due to lock timeout", "55P03"),
  away: withCode("no more connections", "53300"),
};
/** What the operation that waits is given. */
const waiting = Promise.withResolvers<AbortSignal>();

const routes = [
  route({
    ...open,
    path: "/wait",
    id: "wait",
    outside: async (_app, { signal }) => {
      waiting.resolve(signal);
      await once(signal, "abort");
      return { got: "nobody" };
    },
  }),
  route({
    ...open,
    path: "/fail/{how}",
    id: "fail",
    params: z.object({ how: z.string() }),
    outside: async (_app, { params }) => {
      throw outages[params.how]!;
    },
  }),
];

describe("HTTP framework, when something has gone or is away", () => {
  const http = madeOnce(
    () => startTinyHttp(routes),
    (made) => made.close(),
  );

  it("tells an operation when its client has gone", async () => {
    const leaving = new AbortController();
    const url = `http://127.0.0.1:${http.port}/wait`;
    const answer = fetch(url, { method: "POST", signal: leaving.signal });
    const signal = await waiting.promise;
    assert.equal(signal.aborted, false);
    leaving.abort();
    await assert.rejects(answer);
    if (!signal.aborted) await once(signal, "abort");
  });

  it("answers what met other work BUSY, and logs each kind of outage once in a while", async () => {
    const before = http.lines.length;
    for (let n = 0; n < 5; n++) {
      const busy = await http.send("POST", "/fail/queue");
      assert.deepEqual(
        [busy.status, busy.json.error.reason, busy.headers["retry-after"]],
        [503, "BUSY", "1"],
      );
      const away = await http.send("POST", "/fail/away");
      assert.deepEqual([away.status, away.json.error.reason], [503, "DATABASE_UNAVAILABLE"]);
    }
    const loud = http.lines.slice(before).filter((line) => /"level":"?(warn|error|40|50)/.test(line));
    assert.equal(loud.length, 2, loud.join("\n"));
    assert.ok(!loud.some((line) => line.includes("lock timeout") && line.includes("stack")));
  });
});
