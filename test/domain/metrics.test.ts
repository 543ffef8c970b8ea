import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import {
  compileMetric,
  metricPieces,
  mergeCounters,
  Metric,
  subtractFromCounter,
} from "../../src/domain/evaluation/metrics/compile.ts";
import { isSubtractable } from "../../src/domain/evaluation/metrics/aggregates.ts";
import { atOnce } from "../../src/domain/kernel/slices.ts";
import {
  countEvent,
  foldEvents,
  readMetric,
  readMetricAt,
  sampleOfEvent,
} from "../../src/domain/evaluation/metrics/count.ts";
import type { PlayerDoc } from "../../src/domain/evaluation/player-state.ts";
import { eventsFor, metric as anyMetric, zone as anyZone } from "../support/rules/rule-arbitraries.ts";
import { aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { measure, type PastEvent, type World } from "../support/rules/rule-reference.ts";
import { cases } from "../support/properties.ts";

const T0 = Date.parse("2026-06-15T12:00:00Z");
const DAY = 86_400_000;

const deepFreeze = <T>(value: T): T => {
  if (value !== null && typeof value === "object") Object.values(Object.freeze(value)).forEach(deepFreeze);
  return value;
};

type Scene = { timezone?: string | undefined; projectZone?: string };

/** A player whose events are counted one by one; what was counted is saved and read again each time. */
const counting = (metric: Metric, { timezone, projectZone = "UTC" }: Scene = {}) => {
  const plan = aPlan({ metrics: atOnce(metricPieces([metric])), timezone: projectZone });
  const player = aPlayerState({ timezone: timezone ?? null });
  const compiled = compileMetric(metric);
  const turnOf = (event: Partial<PastEvent>) => aPass({ plan, player, event });
  return {
    player,
    compiled,
    whose: { player, project: plan },
    count: (event: Partial<PastEvent>): string[] => {
      const { doc } = player;
      if (doc.c) Object.values(doc.c).forEach(deepFreeze);
      const { turn, warnings } = turnOf(event);
      countEvent(turn);
      player.doc = JSON.parse(JSON.stringify(player.doc)) as PlayerDoc;
      return warnings;
    },
    read: (at = T0) => readMetric(turnOf({ at }).turn, compiled),
  };
};

const aMetric = (part: Json): Metric => Metric.parse({ eventTypes: ["tried"], aggregate: "count", ...part });

const worldOf = (history: readonly PastEvent[], { timezone, projectZone = "UTC" }: Scene): World => ({
  event: history.at(-1)!,
  history,
  nowMs: T0,
  player: {},
  attributes: {},
  available: {},
  badges: {},
  segments: [],
  scores: {},
  streaks: {},
  playerZone: timezone,
  projectZone,
});

const scene = fc.record({ timezone: anyZone, projectZone: fc.constantFrom("UTC", "America/Sao_Paulo") });
const counted = anyMetric.chain((metric) =>
  fc.record({ metric: fc.constant(metric), events: eventsFor(metric) }),
);

describe("metrics", () => {
  it("say what a plain loop over all events says, in any window, zone and order of arrival", () => {
    fc.assert(
      fc.property(counted, scene, ({ metric, events }, where) => {
        const { count, read } = counting(metric, where);
        const isLatestOnly = metric.aggregate === "distinct" && metric.window.type === "ROLLING";
        let newest = -Infinity;
        for (const [i, event] of events.entries()) {
          assert.deepEqual(count(event), []);
          newest = Math.max(newest, event.at);
          if (isLatestOnly && event.at < newest) continue;
          const expected = measure(worldOf(events.slice(0, i + 1), where), metric);
          assert.equal(read(event.at), expected, JSON.stringify({ i, event }));
        }
      }),
      { numRuns: cases(600) },
    );
  });

  it("counted again from all events are as they were counted live", () => {
    fc.assert(
      fc.property(counted, scene, ({ metric, events }, where) => {
        const { count, player, compiled, whose } = counting(metric, where);
        for (const event of events) count(event);
        assert.deepEqual(foldEvents(compiled, whose, events), player.doc.c?.[compiled.id]);
      }),
      { numRuns: cases(200) },
    );
  });

  it("lose exactly the event that is taken out, where the aggregate can tell", () => {
    fc.assert(
      fc.property(counted, scene, fc.nat(), ({ metric, events }, where, pick) => {
        const { compiled, whose, player } = counting(metric, where);
        fc.pre(isSubtractable(metric.aggregate) && metric.window.type !== "ROLLING");
        const gone = events[pick % events.length]!;
        const last = events.at(-1)!;
        const sample = sampleOfEvent(compiled, whose, gone);
        const hears = atOnce(metricPieces([metric])).forEvent(gone.type).length > 0;
        const all = foldEvents(compiled, whose, events);
        const state =
          sample && hears ? subtractFromCounter(compiled, all, sample.sample, sample.moment) : all;
        player.doc = { c: { [compiled.id]: state } };
        const history = [...events.filter((event) => event !== gone), { ...last, type: "system.unheard" }];
        assert.equal(readMetricAt(whose, compiled, last.at), measure(worldOf(history, where), metric));
      }),
      { numRuns: cases(300) },
    );
  });

  it("of two players who become one are as if one had done it all", () => {
    const twice = anyMetric.chain((metric) =>
      fc.record({ metric: fc.constant(metric), events: eventsFor(metric), sides: fc.array(fc.boolean()) }),
    );
    fc.assert(
      fc.property(twice, scene, ({ metric, events, sides }, where) => {
        const { compiled, whose, player } = counting(metric, where);
        const [mine, theirs] = [true, false].map((side) =>
          foldEvents(
            compiled,
            whose,
            events.filter((_, i) => (sides[i] ?? true) === side),
          ),
        );
        const at = Math.max(...events.map((event) => event.at));
        // Which of two at the same time came last is not known of two players.
        fc.pre(
          metric.aggregate !== "latest" || new Set(events.map((event) => event.at)).size === events.length,
        );
        player.doc = { c: { [compiled.id]: mergeCounters(compiled, mine, theirs) } };
        const history = [...events, { type: "system.unheard", at, properties: {} }];
        assert.equal(readMetricAt(whose, compiled, at), measure(worldOf(history, where), metric));
      }),
      { numRuns: cases(300) },
    );
  });

  it("are one counter where they count the same, however they are written", () => {
    const [a, b] = [
      { eventTypes: ["b", "a"], aggregate: "count", filter: { path: "x", op: "eq", value: 1 } },
      {
        window: { type: "LIFETIME" },
        filter: { value: 1, op: "eq", path: "x" },
        aggregate: "count",
        eventTypes: ["a", "b", "a"],
      },
    ].map((document) => Metric.parse(document));
    const since = ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"].map((at) =>
      aMetric({ window: { type: "SINCE", at } }),
    );
    assert.equal(atOnce(metricPieces([a!, b!])).forEvent("a").length, 1);
    assert.equal(atOnce(metricPieces(since)).forEvent("tried").length, 1);
    assert.equal(atOnce(metricPieces([a!, aMetric({}), since[0]!])).forEvent("tried").length, 2);
    assert.equal(
      atOnce(metricPieces([aMetric({ eventTypes: ["*"] })])).forEvent("player.level_up").length,
      0,
    );
  });

  it("do not count an event of a window that is no longer kept, and say late", () => {
    const calendar = counting(aMetric({ window: { type: "CALENDAR", unit: "DAY" } }));
    assert.deepEqual(calendar.count({ at: T0 }), []);
    assert.deepEqual(calendar.count({ at: T0 - 7 * DAY }), []);
    assert.match(calendar.count({ at: T0 - 8 * DAY })[0]!, /^late: metric count\(tried\)/);
    assert.equal(calendar.read(T0), 1);
    assert.equal(calendar.read(T0 - 7 * DAY), 1);
    assert.equal(calendar.read(T0 - 8 * DAY), undefined, "what was then is not known");
    calendar.count({ at: T0 + DAY });
    assert.equal(calendar.read(T0 - 7 * DAY), undefined);

    const rolling = counting(aMetric({ window: { type: "ROLLING", seconds: 3_600 } }));
    rolling.count({ at: T0 });
    assert.deepEqual(rolling.count({ at: T0 - 45 * 60_000 }), []);
    assert.equal(rolling.read(T0), 2, "late, and within the hour");
    assert.equal(rolling.read(T0 - 30 * 60_000), 1);
    assert.equal(rolling.read(T0 - 31 * 60_000), undefined);
    assert.match(rolling.count({ at: T0 - 2 * 3_600_000 })[0]!, /^late/);
    assert.deepEqual(counting(aMetric({})).count({ at: 0 }), [], "a lifetime has no late events");
  });

  it("let an event leave a rolling window a sixtieth of it late at most, and never early", () => {
    const seconds = 600;
    fc.assert(
      fc.property(fc.nat(599_999), fc.nat(1_300_000), (at, afterMs) => {
        const { count, read } = counting(aMetric({ window: { type: "ROLLING", seconds } }));
        count({ at: T0 + at });
        const isIn = read(T0 + at + afterMs) === 1;
        if (afterMs < 600_000) assert(isIn);
        if (afterMs >= 610_000) assert(!isIn);
      }),
    );
  });

  it("keep sums exact to six decimals and within ±9e9, with a warning at the bound", () => {
    const sum = counting(aMetric({ aggregate: "sum", property: "v" }));
    for (let i = 0; i < 1_000; i++) sum.count({ properties: { v: 0.1 } });
    assert.equal(sum.read(), 100);
    const warnings = [1e308, -1e308, 4e9, 4e9, 4e9].map((v) => sum.count({ properties: { v } }).length);
    assert.deepEqual(warnings, [1, 1, 0, 0, 0]);
    assert.equal(sum.read(), 3e9, "-9e9 + 12e9");
    for (const v of ["5", null, [5], {}, true]) sum.count({ properties: { v } });
    assert.equal(sum.read(), 3e9, "only numbers are added");
  });

  it("tell 1,000 distinct values apart and then stand still, within bounded room", () => {
    for (const window of [
      { type: "LIFETIME" },
      { type: "CALENDAR", unit: "DAY" },
      { type: "ROLLING", seconds: 86_400 },
    ]) {
      const { count, read, player } = counting(aMetric({ aggregate: "distinct", property: "v", window }));
      for (let i = 0; i < 1_100; i++) count({ at: T0 + i, properties: { v: i } });
      assert.equal(read(T0 + 1_100), 1_000, window.type);
      for (let day = 1; day < 4; day++) {
        for (let i = 0; i < 1_000; i++) count({ at: T0 + day * DAY, properties: { v: `${day} ${i}` } });
      }
      assert(JSON.stringify(player.doc).length < 25_000, "20,000 values at most are 22 KiB");
    }
  });

  it("hold 1 and true and their texts for different values, and no null, list or object for one", () => {
    const { count, read } = counting(aMetric({ aggregate: "distinct", property: "v" }));
    for (const v of [1, "1", true, "true", 1, null, [1], { a: 1 }, undefined, "", "\u{1F600}"])
      count({ properties: { v } });
    assert.equal(read(), 6);
  });
});

describe("metric documents", () => {
  const problems = (part: Json): string[] => {
    const parsed = Metric.safeParse({ eventTypes: ["a"], aggregate: "sum", property: "v", ...part });
    return (parsed.error?.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);
  };

  it("are refused at the place that is wrong", () => {
    assert.deepEqual(problems({}), []);
    const wrong: [Json, RegExp][] = [
      [{ eventTypes: [] }, /^eventTypes: /],
      [{ eventTypes: ["a", "lobby.started"] }, /^eventTypes\.1: is not an event type of players/],
      [{ eventTypes: ["system.change"] }, /^eventTypes\.0: is not an event type of players/],
      [{ eventTypes: Array(21).fill("a") }, /^eventTypes: /],
      [{ aggregate: "median" }, /^aggregate: /],
      [{ property: undefined }, /^property: sum needs a property/],
      [{ aggregate: "count" }, /^property: count takes no property/],
      [{ property: "__proto__.x" }, /^property: /],
      [{ window: { type: "YEARLY" } }, /^window(\.type)?: must have a type of LIFETIME/],
      [{ window: { type: "ROLLING", seconds: 59 } }, /^window\.seconds: /],
      [{ window: { type: "CALENDAR", unit: "YEAR" } }, /^window\.unit: /],
      [{ window: { type: "SINCE", at: "2026-01" } }, /^window\.at: /],
      [{ filter: { path: "a", op: "gt", value: true } }, /^filter\.value: /],
      [
        {
          filter: {
            all: [
              { path: "a", op: "exists" },
              { path: "a.__proto__", op: "exists" },
            ],
          },
        },
        /^filter\.all\.1\.path/,
      ],
      [{ filter: { any: [] } }, /^filter\.any: must not be empty/],
      [{ filter: { all: [], none: [] } }, /^filter\.none: cannot be combined with "all"/],
      [
        { filter: { path: "a", op: "eq", value: { $ref: "player.level" } } },
        /^filter\.value: must be a literal/,
      ],
      [{ filter: "x" }, /^filter: must be an object/],
      [{ extra: 1 }, /^: /],
    ];
    for (const [part, expected] of wrong) {
      assert.match(problems(part)[0] ?? "accepted", expected, JSON.stringify(part));
    }
  });
});
