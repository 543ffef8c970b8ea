import assert from "node:assert/strict";
import * as fc from "fast-check";
import {
  createSharedCounters,
  type SharedCounters,
  type SharedKey,
} from "../../src/domain/evaluation/shared-counters.ts";
import { define, memoryDomain, publish } from "../support/domain/domain.ts";

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

describe("a change that is the first to ask for a shared counter", () => {
  const { domain } = memoryDomain();

  it("is begun again as if nothing had been: segments are entered, rules run and count once", async () => {
    const projectId = await domain.addProject();
    const definition = { all: [{ type: "player_property", field: "xp", op: "gte", value: 100 }] };
    await define(domain, projectId, "segment", { key: "vip", name: "VIP", kind: "DYNAMIC", definition });
    await publish(domain, projectId, {
      key: "welcome",
      triggers: [{ kind: "EVENT", eventTypes: ["player.segment_entered"] }],
      limits: { global: [{ max: 2, window: "LIFETIME" }] },
      actions: [{ type: "update_player", addTags: ["welcome"] }],
    });
    for (const name of ["ada", "bob", "cid"]) {
      const player = await domain.addPlayer(projectId, name);
      await domain.grant(projectId, player, 50);
      await domain.grant(projectId, player, 100);
    }
    const [found] = await domain.sql<{ members: number; tagged: number; used: number }>`
      select (select count(*) from player_segments where project_id = ${projectId}) as members,
        (select count(*) from players where project_id = ${projectId} and tags @> '{welcome}') as tagged,
        (select sum(used) from shared_counters where project_id = ${projectId}) as used`;
    assert.deepEqual(found, { members: 3, tagged: 2, used: 2 });
  });
});
