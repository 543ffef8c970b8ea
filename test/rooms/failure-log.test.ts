import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { pino } from "pino";
import { throttledWarnings } from "../../src/domain/kernel/outages.ts";
import { notFound } from "../../src/domain/kernel/errors.ts";
import { errorObject } from "../../src/rooms/room-errors.ts";
import { logFailure } from "../../src/rooms/live-room.ts";
import { openRoomsOf } from "../../src/rooms/mirror-room.ts";
import { Coalescer, tickAll } from "../../src/rooms/pace.ts";
import { pluck } from "../support/pluck.ts";

const withCode = (code: string): Error => Object.assign(new Error("it failed"), { code });

describe("what a room has thrown", () => {
  const of = { room: "chat", roomId: "r", method: "request" };

  it("is told as SERVICE_UNAVAILABLE when it tells of an outage, and not at all when it is a bug", () => {
    const told = errorObject(new Error("it failed", { cause: withCode("57P01") }));
    assert.deepEqual([told?.code, told?.reason], ["SERVICE_UNAVAILABLE", "DATABASE_UNAVAILABLE"]);
    assert.equal(errorObject(new Error("Command timed out"))?.reason, "NOT_READY");
    assert.equal(errorObject(new TypeError("x is not a function")), undefined);
  });

  it("hides nothing of another kind, and floods no log while the database is away", async () => {
    const lines: string[] = [];
    const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
    const logs = { log, warnOfOutage: throttledWarnings(log) };
    const away = async (): Promise<never> => {
      throw withCode("57P01");
    };
    const rooms = ["player rooms", "chat rooms"].map((what) => openRoomsOf<object>(logs, what, away));
    for (const open of rooms) open.add(log);
    for (let n = 0; n < 5; n++) {
      tickAll();
      await turn();
    }
    for (const open of rooms) open.remove(log);
    logs.warnOfOutage(withCode("57P01"), "the host of a WebSocket could not be looked up");
    assert.deepEqual(lines, [
      "rooms cannot do all that they are asked: what they need does not answer",
      "the host of a WebSocket could not be looked up",
    ]);
  });

  it("is logged as one warning for a row of outages, and as an error for each bug", () => {
    const lines: { level: number; msg: string }[] = [];
    const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
    const logs = { log, warnOfOutage: throttledWarnings(log) };
    for (let n = 0; n < 20; n++) logFailure(logs, withCode("57P01"), of);
    logFailure(logs, notFound("Player"), of);
    assert.deepEqual(pluck(lines, "level"), [40]);
    for (let n = 0; n < 2; n++) logFailure(logs, new TypeError("x is not a function"), of);
    assert.deepEqual(
      lines.slice(1).map(({ level, msg }) => `${level} ${msg}`),
      ["50 room failed", "50 room failed"],
    );
  });
});

describe("what a room does at intervals", () => {
  type Timer = { delayMs: number; run: () => unknown };

  /** A coalescer whose runs end when the test says so. */
  const aCoalescer = () => {
    const timers: Timer[] = [];
    const runs: PromiseWithResolvers<void>[] = [];
    const errors: unknown[] = [];
    const coalescer = new Coalescer({
      everyMs: () => 60_000,
      run: () => {
        runs.push(Promise.withResolvers<void>());
        return runs.at(-1)!.promise;
      },
      later: (delayMs, run) => void timers.push({ delayMs, run }),
      onError: (error) => void errors.push(error),
    });
    return { coalescer, timers, runs, errors };
  };

  it("is done once for all that ask before it begins, and once more for those who ask during it", async () => {
    const { coalescer, timers, runs } = aCoalescer();
    for (let n = 0; n < 3; n++) coalescer.soon();
    assert.deepEqual([timers.map(({ delayMs }) => delayMs), runs.length], [[0], 0]);
    const done = timers[0]!.run();
    coalescer.soon();
    coalescer.soon();
    assert.deepEqual([timers.length, runs.length], [1, 1]);
    runs[0]!.resolve();
    await done;
    assert.equal(timers.length, 2);
    assert.ok(timers[1]!.delayMs > 50_000 && timers[1]!.delayMs <= 60_000);
  });

  it("is tried again a second after it has failed, and not before", async () => {
    const { coalescer, timers, runs, errors } = aCoalescer();
    coalescer.soon();
    const done = timers[0]!.run();
    coalescer.soon();
    runs[0]!.reject(withCode("57P01"));
    await done;
    assert.equal(errors.length, 1);
    coalescer.soon();
    assert.deepEqual(pluck(timers.slice(1), "delayMs"), [1_000]);
    const again = timers[1]!.run();
    runs[1]!.resolve();
    await again;
    assert.deepEqual([timers.length, errors.length], [2, 1]);
  });
});
