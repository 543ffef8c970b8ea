import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { evaluateEvent, settleTurn } from "../../src/domain/evaluation/evaluate.ts";
import type { PlayerState } from "../../src/domain/evaluation/player-state.ts";
import {
  orderSegments,
  refreshAllSegments,
  setMembership,
} from "../../src/domain/evaluation/segments/membership.ts";
import { aDefinition, aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { pluck } from "../support/pluck.ts";

const DAY = 86_400_000;
const NOW = Date.parse("2026-06-15T12:00:00Z");

const dynamic = (key: string, ...all: Json[]) => ({
  key,
  name: key,
  kind: "DYNAMIC",
  definition: { all },
});
const property = (field: string, op: string, value?: unknown): Json => ({
  type: "player_property",
  field,
  op,
  ...(value === undefined ? {} : { value }),
});
const segments = (...documents: Json[]) => aPlan({ define: { segment: documents } });

/** A known player: `seq` above 0. */
const known = (more: Partial<PlayerState> = {}): PlayerState => aPlayerState({ seq: 5, ...more });
const keysOf = ({ segments: map }: PlayerState): string[] => [...map.keys()].toSorted();
const told = (effects: { outbox: { type: string; data: unknown }[] }): string[] =>
  effects.outbox
    .filter(({ type }) => type.startsWith("player.segment_"))
    .map(({ type, data }) => `${type.slice(15)} ${(data as { segmentKey: string }).segmentKey}`);

describe("dynamic segments", () => {
  it("take a player in and out with what their conditions read, and tell it", () => {
    const plan = segments(
      dynamic("pro", property("level", "gte", 3)),
      dynamic("rich", property("xp", "gt", 9)),
    );
    const player = known();
    const { turn, effects } = aPass({ plan, player });
    player.level = 3;
    settleTurn(turn, player.xp);
    assert.deepEqual(keysOf(player), ["pro"]);
    player.level = 2;
    player.xp = 10;
    settleTurn(turn, player.xp);
    assert.deepEqual(keysOf(player), ["rich"]);
    assert.deepEqual(told(effects), ["entered pro", "left pro", "entered rich"]);
    assert.deepEqual([...player.dirty.segments].toSorted(), ["pro", "rich"]);
  });

  it("are looked at for a new player also where they read nothing", () => {
    const plan = segments(dynamic("everyone"), dynamic("low", property("level", "lt", 3)));
    const { turn, player } = aPass({ plan, player: aPlayerState() });
    evaluateEvent(turn);
    assert.deepEqual(keysOf(player), ["everyone", "low"]);
  });

  it("count the event in hand, and are known to the rules after it", () => {
    const metric = { eventTypes: ["won"], aggregate: "count" };
    const plan = segments(dynamic("winner", { type: "event_aggregate", metric, op: "gte", value: 2 }));
    const player = known();
    for (const expected of [[], ["winner"], ["winner"]]) {
      const { turn } = aPass({ plan, player, event: { type: "won" } });
      evaluateEvent(turn);
      assert.deepEqual(keysOf(player), expected);
    }
  });

  it("that time changes are swept: a player is idle by the clock, and active with the next event", () => {
    const plan = segments(
      dynamic("idle", property("lastSeenAt", "older_than", "P7D")),
      dynamic("pro", property("level", "gte", 1)),
    );
    const player = known({ lastSeenAt: new Date(NOW - 8 * DAY) });
    const sweep = aPass({ plan, player, nowMs: NOW, event: { type: "system.change" } });
    settleTurn(sweep.turn, player.xp);
    assert.deepEqual(keysOf(player), [], "no input has changed");
    refreshAllSegments(sweep.turn.project.segmentIndex, sweep.turn, "TIMED");
    assert.deepEqual(keysOf(player), ["idle"]);
    const event = aPass({ plan, player, nowMs: NOW + 1 });
    evaluateEvent(event.turn);
    assert.deepEqual(keysOf(player), []);
    refreshAllSegments(event.turn.project.segmentIndex, event.turn, "ALL");
    assert.deepEqual(keysOf(player), ["pro"], "all are looked at");
  });

  it("measure ages at the latest event: a late one does not bring the past back", () => {
    const plan = segments(dynamic("fresh", property("createdAt", "within_last", "P1D")));
    const created = new Date(NOW - 3 * DAY);
    const player = known({ createdAt: created, lastSeenAt: new Date(NOW - DAY), tags: ["x"] });
    const { turn } = aPass({ plan, player, event: { at: created.getTime() + 1 }, nowMs: NOW });
    refreshAllSegments(turn.project.segmentIndex, turn, "ALL");
    assert.deepEqual(keysOf(player), []);
  });

  it("take no hand: membership by action or operation is for static ones", () => {
    const plan = segments(dynamic("pro", property("level", "gte", 3)));
    const { turn, player } = aPass({ plan, player: known() });
    assert.match(setMembership(turn, "pro", true)!, /DYNAMIC/);
    assert.match(setMembership(turn, "gone", true)!, /no segment/);
    assert.equal(player.segments.size, 0);
  });

  it("agree with a look at everything after any changes, however these are split into turns", () => {
    const plan = segments(
      dynamic("a", property("level", "gte", 3)),
      dynamic("b", property("tags", "contains", "x"), { type: "segment", segmentKeys: ["a"], match: "NONE" }),
      dynamic("c", property("attributes.city", "eq", "Rome")),
      dynamic("d", { any: [property("currencies.gold", "gte", 10), property("country", "eq", "IT")] }),
      dynamic("e", { type: "segment", segmentKeys: ["b", "c", "d"], match: "ANY" }),
      dynamic("f", property("xp", "gt", { $ref: "player.level" })),
    );
    const change = fc.record(
      {
        level: fc.integer({ min: 1, max: 5 }),
        xp: fc.integer({ min: 0, max: 6 }),
        country: fc.constantFrom("IT", "DE", null),
        tags: fc.subarray(["x", "y"]),
        attributes: fc.constantFrom({}, { city: "Rome" }, { city: "Paris" }),
        gold: fc.constantFrom(5, 10),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(fc.array(change, { maxLength: 3 }), { maxLength: 6 }), (batches) => {
        let player = aPlayerState();
        for (const changes of batches) {
          // A batch begins with the player as it was stored.
          player = { ...player, segments: new Map(player.segments) };
          const { turn } = aPass({ plan, player });
          for (const { gold, ...fields } of changes) {
            Object.assign(player, fields);
            if (gold !== undefined)
              player.balances.set("gold", { balance: gold, held: 0, earned: gold, spent: 0 });
            settleTurn(turn, player.xp);
          }
          settleTurn(turn, player.xp);
          player.seq ||= 1;
        }
        if (batches.length === 0) return;
        const fresh = { ...player, segments: new Map(player.segments) };
        const { turn, effects } = aPass({ plan, player: fresh });
        refreshAllSegments(turn.project.segmentIndex, turn, "ALL");
        assert.deepEqual(told(effects), []);
      }),
    );
  });
});

describe("the definition of a segment", () => {
  const refused = (document: Json): string => {
    try {
      aDefinition("segment", { key: "s", name: "S", ...document });
    } catch (error) {
      const { issues } = error as { issues: { path: PropertyKey[]; message: string }[] };
      return issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ");
    }
    return assert.fail("it was taken");
  };

  it("goes with DYNAMIC and is refused with STATIC", () => {
    assert.match(refused({ kind: "DYNAMIC" }), /^definition: is required/);
    assert.match(refused({ definition: { all: [] } }), /^definition: goes with kind DYNAMIC/);
    assert.match(refused({ kind: "DYNAMIC", definition: [] }), /^definition: must be/);
  });

  it("cannot ask about an event, neither by condition nor by reference", () => {
    const ofEvent = { type: "event_property", path: "a", op: "eq", value: 1 };
    const where = { any: [{ none: [ofEvent] }] };
    assert.match(
      refused({ kind: "DYNAMIC", definition: where }),
      /^definition\.any\.0\.none\.0\.type: cannot be about the event/,
    );
    const compared = property("level", "eq", { $ref: "event.properties.level" });
    assert.match(
      refused({ kind: "DYNAMIC", definition: { all: [compared] } }),
      /^definition\.all\.0\.value\.\$ref: cannot be about the event/,
    );
  });

  it("finds rings of segments that read one another", () => {
    const one = (key: string, ...segmentKeys: string[]) => ({ key, segmentKeys });
    assert.deepEqual(orderSegments([one("a", "b"), one("b", "c"), one("c", "a")]), {
      ring: ["a", "b", "c", "a"],
    });
    assert.deepEqual(orderSegments([one("a", "a")]), { ring: ["a", "a"] });
    const order = orderSegments([one("a", "b", "gone"), one("c"), one("b", "c")]);
    assert.ok("ordered" in order);
    assert.deepEqual(pluck(order.ordered, "key"), ["c", "b", "a"]);
  });
});
