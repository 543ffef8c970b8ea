import assert from "node:assert/strict";
import { pino } from "pino";
import { throttledWarnings } from "../../src/domain/kernel/throttled-log.ts";
import { notFound } from "../../src/domain/kernel/errors.ts";
import { errorObject } from "../../src/rooms/errors.ts";
import { logFailure } from "../../src/rooms/failure-log.ts";

const withCode = (code: string): Error => Object.assign(new Error("it failed"), { code });

describe("what a room has thrown", () => {
  const of = { room: "chat", roomId: "r", method: "request" };

  it("is told as SERVICE_UNAVAILABLE when it tells of an outage, and not at all when it is a bug", () => {
    const told = errorObject(new Error("it failed", { cause: withCode("57P01") }));
    assert.deepEqual([told?.code, told?.reason], ["SERVICE_UNAVAILABLE", "DATABASE_UNAVAILABLE"]);
    assert.equal(errorObject(new Error("Command timed out"))?.reason, "NOT_READY");
    assert.equal(errorObject(new TypeError("x is not a function")), undefined);
  });

  it("is logged as one warning for a row of outages, and as an error for each bug", () => {
    const lines: { level: number; msg: string }[] = [];
    const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
    const logs = { log, warnOfOutage: throttledWarnings(log) };
    for (let n = 0; n < 20; n++) logFailure(logs, withCode("57P01"), of);
    logFailure(logs, notFound("Player"), of);
    assert.deepEqual(
      lines.map(({ level }) => level),
      [40],
    );
    for (let n = 0; n < 2; n++) logFailure(logs, new TypeError("x is not a function"), of);
    assert.deepEqual(
      lines.slice(1).map(({ level, msg }) => `${level} ${msg}`),
      ["50 room failed", "50 room failed"],
    );
  });
});
