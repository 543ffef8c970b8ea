import assert from "node:assert/strict";
import { DomainError, notFound } from "../../src/domain/kernel/errors.ts";
import { outageError, outageOf } from "../../src/domain/kernel/outages.ts";
import { databaseTime } from "../../src/platform/database-watch.ts";

const withCode = (code: string): Error => Object.assign(new Error("it failed"), { code });

describe("an error", () => {
  for (const code of ["40P01", "40001", "55P03", "57014", "25P03"])
    it(`with ${code} tells that the database is busy, and its caller to come back`, () => {
      assert.equal(outageOf(withCode(code)), "busy");
      const told = outageError(withCode(code))!;
      // A statement that was cancelled need not have met other work.
      const reason = code === "57014" ? "DATABASE_UNAVAILABLE" : "BUSY";
      assert.deepEqual([told.code, told.reason], ["SERVICE_UNAVAILABLE", reason]);
      assert.ok(told.retryAfterSeconds! > 0);
    });

  for (const code of ["53100", "53200", "53300", "57P01", "57P03", "58030", "25006", "08006", "ECONNRESET"])
    it(`with ${code} tells that the database does not work`, () =>
      assert.equal(outageOf(withCode(code)), "database"));

  for (const severity of ["FATAL", "PANIC"])
    it(`that ends a session (${severity}) tells that the database does not work, whatever its code`, () => {
      assert.equal(outageOf(Object.assign(withCode("XX000"), { severity })), "database");
      assert.equal(outageOf(Object.assign(withCode("XX000"), { severity: "ERROR" })), undefined);
      assert.equal(outageOf(Object.assign(withCode("25P03"), { severity })), "busy");
    });

  for (const text of [
    "Connection terminated unexpectedly",
    "Client has encountered a connection error and is not queryable",
    "timeout exceeded when trying to connect",
  ])
    it(`that says "${text}" tells that the database does not work`, () =>
      assert.equal(outageOf(new Error(text)), "database"));

  for (const text of ["Connection is closed.", "Command timed out", "LOADING Redis is loading the dataset"])
    it(`that says "${text}" tells that Redis does not work`, () =>
      assert.equal(outageOf(new Error(text)), "redis"));

  it("tells of the outage that caused it", () =>
    assert.equal(outageOf(new Error("it failed", { cause: withCode("53100") })), "database"));

  it("of what was to be done tells of none", () => {
    for (const code of ["23505", "22P02", "42P01", "54001", "P0001"])
      assert.equal(outageOf(withCode(code)), undefined);
    assert.equal(outageOf(new TypeError("x is not a function")), undefined);
    assert.equal(outageOf(notFound("Player")), undefined);
    assert.equal(outageOf("text"), undefined);
  });

  it("that asks to come back later tells of a service that does not work", () =>
    assert.equal(outageOf(new DomainError("SERVICE_UNAVAILABLE", "later")), "service"));
});

describe("the time of the database", () => {
  it("is that of this process until it was heard, and its own then", () => {
    const time = databaseTime();
    assert.ok(Math.abs(time.now().getTime() - Date.now()) < 1_000);
    const theirs = Date.now() + 600_000;
    time.observe(theirs, performance.now());
    assert.ok(Math.abs(time.now().getTime() - theirs) < 1_000);
  });

  it("does not move for an answer that it agrees with", () => {
    const time = databaseTime();
    const before = time.now().getTime() - performance.now();
    // Sent ten seconds ago: the answer says no more than that it is somewhere in between.
    time.observe(Date.now() - 4_000, performance.now() - 10_000);
    assert.ok(Math.abs(time.now().getTime() - performance.now() - before) < 2);
  });
});
