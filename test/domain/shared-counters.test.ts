import assert from "node:assert/strict";
import * as fc from "fast-check";
import {
  createSharedCounters,
  type SharedCounters,
  type SharedKey,
} from "../../src/domain/evaluation/shared-counters.ts";

const keyOf = (scope: number): SharedKey => ({ projectId: "p", scope: String(scope), windowNo: 0 });
const locked = (count: number): SharedCounters =>
  createSharedCounters(
    "REFUSED",
    Array.from({ length: count }, (_, scope) => ({ key: keyOf(scope), state: { used: 0, times: null } })),
  );

describe("shared counters", () => {
  const SCOPES = 6;
  const usedOf = (counters: SharedCounters): number[] =>
    Array.from({ length: SCOPES }, (_, scope) => counters.used(keyOf(scope)));

  it("are put back to what they were, however often and deep that was remembered", () => {
    const step = fc.oneof(
      fc.nat(SCOPES - 1).map((scope) => ({ kind: "add" as const, scope })),
      fc.constant({ kind: "save" as const }),
      fc.constant({ kind: "undo" as const }),
      fc.constant({ kind: "keep" as const }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), fc.boolean(), (steps, isOpen) => {
        const counters = isOpen ? createSharedCounters("FROM_ZERO") : locked(SCOPES);
        const saved: { used: number[]; undo: () => void }[] = [];
        for (const one of steps) {
          if (one.kind === "add") counters.add(keyOf(one.scope), 1);
          else if (one.kind === "save") saved.push({ used: usedOf(counters), undo: counters.save() });
          else {
            const last = saved.pop();
            if (one.kind === "keep" || !last) continue;
            last.undo();
            assert.deepEqual(usedOf(counters), last.used);
          }
        }
        const changed = counters.changes().filter(({ u }) => u > 0);
        assert.equal(
          changed.reduce((sum, { u }) => sum + u, 0),
          usedOf(counters).reduce((sum, used) => sum + used, 0),
        );
      }),
    );
  });
});
