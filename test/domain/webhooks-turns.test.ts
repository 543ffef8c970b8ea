import assert from "node:assert/strict";
import fc from "fast-check";
import {
  afterAttempt,
  inFlightMax,
  isSuspect,
  NEW_CIRCUIT,
  RoundRobin,
} from "../../src/domain/delivery/webhooks/delivering/circuit.ts";

const FOUR = (): number => 4;

describe("turns of webhooks", () => {
  it("go round tenants, then round the webhooks of each", () => {
    const turns = new RoundRobin();
    for (let i = 0; i < 30; i++) turns.add("many", `many-${i}`);
    turns.add("few", "few-0");
    turns.add("few", "few-1");
    const given = turns.take(8, FOUR);
    assert.deepEqual(given.get("few-0"), 2);
    assert.deepEqual(given.get("few-1"), 2);
    assert.deepEqual(
      [...given.keys()].filter((key) => key.startsWith("many")),
      ["many-0", "many-1", "many-2", "many-3"],
    );
    turns.add("few", "few-0");
    const next = turns.take(4, FOUR);
    assert.equal(next.get("few-0"), 2);
    assert.deepEqual([next.get("many-4"), next.get("many-5")], [1, 1], "those that had no turn are first");
  });

  it("give no more than there is, no more than a webhook takes, and leave nobody out", () => {
    const lines = fc.array(fc.tuple(fc.nat(4), fc.nat(9), fc.nat(5)), { maxLength: 40 });
    fc.assert(
      fc.property(lines, fc.nat(60), (list, slots) => {
        const turns = new RoundRobin();
        const rooms = new Map<string, number>();
        for (const [tenant, webhook, room] of list) {
          const id = `${tenant}-${webhook}`;
          rooms.set(id, room);
          turns.add(`t${tenant}`, id);
        }
        const given = turns.take(slots, (id) => rooms.get(id)!);
        const sum = [...given.values()].reduce((all, n) => all + n, 0);
        const wanted = [...rooms.values()].reduce((all, n) => all + n, 0);
        assert.equal(sum, Math.min(slots, wanted));
        for (const [id, count] of given) assert.ok(count > 0 && count <= rooms.get(id)!);
        if (slots > wanted) assert.ok(turns.isEmpty);
      }),
    );
  });
});

describe("the circuit of an endpoint", () => {
  const [well, bad, slow, hanging] = [
    { isSuccess: true, durationMs: 20 },
    { isSuccess: false, durationMs: 20 },
    { isSuccess: true, durationMs: 5_000 },
    { isSuccess: false, durationMs: 30_000 },
  ];
  const after = (...attempts: { isSuccess: boolean; durationMs: number }[]) =>
    attempts.reduce(afterAttempt, NEW_CIRCUIT);

  it("gives one attempt at a time to who has never answered, and four after that", () => {
    assert.equal(inFlightMax(NEW_CIRCUIT), 1);
    for (const answer of [well, bad, slow]) assert.equal(inFlightMax(after(answer)), 4);
    assert.equal(inFlightMax(after(hanging)), 1);
  });

  it("closes after five that hang in a row, not for failures that are fast, and opens by an answer", () => {
    assert.equal(inFlightMax(after(well, ...Array.from({ length: 20 }, () => bad))), 4);
    assert.equal(inFlightMax(after(well, hanging, hanging, hanging, hanging)), 4);
    const closed = after(well, hanging, hanging, hanging, hanging, hanging);
    assert.equal(inFlightMax(closed), 1);
    assert.ok(isSuspect(closed));
    for (const answer of [well, bad, slow]) {
      assert.equal(inFlightMax(afterAttempt(closed, answer)), 4);
      assert.ok(!isSuspect(afterAttempt(closed, answer)));
    }
  });
});
