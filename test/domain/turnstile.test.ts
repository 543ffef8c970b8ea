import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { Turnstile } from "../../src/domain/progression/in-hand.ts";

describe("a turnstile", () => {
  const settle = async (): Promise<void> => {
    for (let n = 0; n < 5; n++) await turn();
  };

  it("lets one alone in after those before it, and others after it, in their order", async () => {
    const turnstile = new Turnstile();
    const log: string[] = [];
    const ends = new Map<string, () => void>();
    const run = (name: string) => () => {
      log.push(name);
      return new Promise<void>((end) => ends.set(name, end));
    };
    const all = [
      turnstile.beside(run("a")),
      turnstile.beside(run("b")),
      turnstile.alone(run("one")),
      turnstile.beside(run("c")),
      turnstile.beside(run("d")),
      turnstile.alone(run("two")),
    ];
    await settle();
    assert.deepEqual(log, ["a", "b"]);
    ends.get("a")!();
    await settle();
    assert.deepEqual(log, ["a", "b"], "b is still there");
    ends.get("b")!();
    await settle();
    assert.deepEqual(log, ["a", "b", "one"]);
    ends.get("one")!();
    await settle();
    assert.deepEqual(log, ["a", "b", "one", "c", "d"]);
    ends.get("d")!();
    ends.get("c")!();
    await settle();
    assert.deepEqual(log, ["a", "b", "one", "c", "d", "two"]);
    ends.get("two")!();
    await Promise.all(all);
  });

  it("goes on after one that failed", async () => {
    const turnstile = new Turnstile();
    const failing = turnstile.alone(() => Promise.reject(new Error("on purpose")));
    const next = turnstile.beside(async () => "went on");
    await assert.rejects(failing, /on purpose/);
    assert.equal(await next, "went on");
  });
});
