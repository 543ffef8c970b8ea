import assert from "node:assert/strict";
import { periodName } from "../../src/domain/evaluation/streaks/periods.ts";
import { aPlayedStreak, aStreak, DAY_MS, T } from "../support/streaks/streaks.ts";

const days = (numbers: readonly number[]) => numbers.map((one) => periodName("DAY", one));

describe("streaks of periods", () => {
  it("grow by one with each period that follows, whatever happens twice in one", () => {
    const played = aPlayedStreak(aStreak());
    assert.ok(played.hit("2026-01-01T00:00Z"));
    const done = played.state;
    assert.ok(!played.hit("2026-01-01T23:59:59.999Z"));
    assert.equal(played.state, done, "nothing is written for it");
    assert.ok(played.hit("2026-01-02T23:59:59.999Z"));
    assert.ok(played.hit("2026-01-03T00:00Z"));
    const { current, longest, deadlineMs, doc } = played.state;
    assert.deepEqual([current, longest, deadlineMs], [3, 3, T("2026-01-05T00:00Z")]);
    assert.deepEqual(doc.run?.name, "2026-01-01");
  });

  it("break at the very end of a period without", () => {
    for (const [at, current] of [
      ["2026-01-02T23:59:59.999Z", 1],
      ["2026-01-03T00:00Z", 0],
    ] as const) {
      const played = aPlayedStreak(aStreak());
      played.hit("2026-01-01T12:00Z");
      played.settle(at);
      assert.equal(played.state.current, current, at);
    }
    const played = aPlayedStreak(aStreak());
    played.hit("2026-01-01T12:00Z");
    assert.ok(played.hit("2026-01-03T00:00Z"), "a new one begins");
    assert.deepEqual([played.state.current, played.state.longest], [1, 1]);
    assert.equal(played.state.doc.lost?.brokenMs, T("2026-01-03T00:00Z"));
  });

  it("count local weeks from Monday, and months", () => {
    const week = aPlayedStreak(aStreak({ period: "WEEK" }), "Europe/Berlin");
    // Sunday evening in UTC is Monday in Berlin.
    assert.ok(week.hit("2026-01-04T12:00Z"));
    assert.ok(week.hit("2026-01-04T23:30Z"));
    assert.ok(week.hit("2026-01-18T22:59Z"));
    assert.deepEqual([week.state.current, week.state.deadlineMs], [3, T("2026-01-25T23:00Z")]);
    const month = aPlayedStreak(aStreak({ period: "MONTH" }));
    for (const at of ["2025-12-31T23:59Z", "2026-01-01T00:00Z", "2026-02-28T12:00Z"]) month.hit(at);
    assert.deepEqual([month.state.current, month.state.deadlineMs], [3, T("2026-04-01T00:00Z")]);
  });

  it("can begin their days later than midnight", () => {
    const played = aPlayedStreak(aStreak({ dayStartsAtMinutes: 240 }));
    assert.ok(played.hit("2026-01-02T03:59Z"));
    assert.ok(played.hit("2026-01-02T04:00Z"));
    assert.equal(played.state.deadlineMs, T("2026-01-04T04:00Z"));
  });

  it("use freezes for missed periods by themselves, and show which", () => {
    const played = aPlayedStreak(aStreak({ freeze: { initial: 1 } }));
    played.hit("2026-01-01T12:00Z");
    assert.ok(played.hit("2026-01-03T12:00Z"));
    const { current, freezes, doc } = played.state;
    assert.deepEqual([current, freezes, days(doc.run!.frozen)], [2, 0, ["2026-01-02"]]);
    played.hit("2026-01-06T12:00Z");
    assert.deepEqual([played.state.current, played.state.doc.lost?.length], [1, 2]);
    assert.deepEqual(played.kinds(), [
      "EXTENDED",
      "REACHED",
      "FROZEN",
      "EXTENDED",
      "REACHED",
      "BROKEN",
      "EXTENDED",
      "REACHED",
    ]);
  });

  it("keep freezes for repairs where they are not used by themselves", () => {
    const played = aPlayedStreak(aStreak({ freeze: { initial: 2, autoUse: false } }));
    played.hit("2026-01-01T12:00Z");
    played.settle("2026-01-03T12:00Z");
    assert.deepEqual([played.state.current, played.state.freezes], [0, 2]);
  });

  it("earn a freeze with every so many periods, up to the most that may be held", () => {
    const played = aPlayedStreak(aStreak({ freeze: { max: 2, autoEarnEvery: 3 } }));
    const held = Array.from({ length: 12 }, (_, i) => {
      played.hit(T("2026-01-01T12:00Z") + i * DAY_MS);
      return played.state.freezes;
    });
    assert.deepEqual(held, [0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2]);
  });

  it("let a period be done in the time of grace, once", () => {
    const played = aPlayedStreak(aStreak({ graceSeconds: 3_600 }));
    played.hit("2026-01-01T12:00Z");
    assert.ok(played.hit("2026-01-03T00:30Z"));
    assert.deepEqual([played.state.current, days([played.state.doc.run!.last])], [2, ["2026-01-02"]]);
    assert.ok(played.hit("2026-01-03T10:00Z"));
    assert.equal(played.state.current, 3);
    // What is done already needs no grace: half past midnight is the new day's.
    assert.ok(played.hit("2026-01-04T00:30Z"));
    assert.equal(played.state.current, 4);
    played.settle("2026-01-06T00:59:59.999Z");
    assert.equal(played.state.current, 4);
    played.settle("2026-01-06T01:00Z");
    assert.equal(played.state.current, 0);
  });

  it("want every part of ALL, and one of ANY, at its threshold", () => {
    const parts = [
      { metric: { eventTypes: ["read"], aggregate: "sum", property: "pages" }, threshold: 10 },
      { metric: { eventTypes: ["wrote"], aggregate: "distinct", property: "id" }, threshold: 2 },
    ];
    const all = aPlayedStreak(aStreak({ qualify: { mode: "ALL", parts } }));
    const any = aPlayedStreak(aStreak({ qualify: { mode: "ANY", parts } }));
    const at = "2026-01-01T12:00Z";
    const seen = [
      { type: "wrote", properties: { id: "a" } },
      { type: "wrote", properties: { id: "a" } },
      { type: "read", properties: { pages: 9 } },
      { type: "read", properties: { pages: "9" } },
      { type: "read", properties: { pages: 1 } },
      { type: "wrote", properties: { id: "b" } },
    ].map((event) => [any.hit(at, event), all.hit(at, event)]);
    assert.deepEqual(seen.map(String), [
      "false,false",
      "false,false",
      "false,false",
      "false,false",
      "true,false",
      "false,true",
    ]);
    assert.ok(
      !all.hit("2026-01-02T12:00Z", { type: "read", properties: { pages: 99 } }),
      "a day begins anew",
    );
  });

  it("count only events that pass the filter of a part", () => {
    const metric = {
      eventTypes: ["done"],
      aggregate: "count",
      filter: { path: "score", op: "gte", value: 50 },
    };
    const played = aPlayedStreak(aStreak({ qualify: { parts: [{ metric }] } }));
    assert.ok(!played.hit("2026-01-01T12:00Z", { properties: { score: 49 } }));
    assert.deepEqual(played.state.doc, {}, "and leave nothing behind");
    assert.ok(played.hit("2026-01-01T12:00Z", { properties: { score: 50 } }));
  });

  it("forget what a period has gathered when what counts has changed", () => {
    const of = (aggregate: string) => [
      { metric: { eventTypes: ["done"], aggregate, property: "p" }, threshold: 2 },
    ];
    const distinct = aPlayedStreak(aStreak({ qualify: { parts: of("distinct") } }));
    distinct.hit("2026-01-01T12:00Z", { properties: { p: 1 } });
    const sum = aPlayedStreak(aStreak({ qualify: { parts: of("sum") } }), "UTC", distinct.state);
    assert.ok(!sum.hit("2026-01-01T12:00Z", { properties: { p: 1 } }));
    assert.ok(sum.hit("2026-01-01T12:00Z", { properties: { p: 1 } }));
  });
});

describe("streaks in a row, until an event breaks them", () => {
  const wins = { mode: "CONSECUTIVE", breakOn: { eventTypes: ["lost"] } };
  const lost = { type: "lost" };

  it("count every event and end with the one that breaks", () => {
    const played = aPlayedStreak(aStreak(wins));
    const at = "2026-01-01T12:00Z";
    for (const _ of [1, 2, 3]) assert.ok(played.hit(at));
    assert.deepEqual([played.state.current, played.state.deadlineMs], [3, null]);
    played.settle("2036-01-01T12:00Z");
    assert.equal(played.state.current, 3, "time does not break them");
    played.hit(at, lost);
    assert.deepEqual([played.state.current, played.state.longest], [0, 3]);
    assert.ok(played.hit(at), "at the same time, in the order of arrival");
    assert.equal(played.state.current, 1);
    assert.notEqual(played.state.doc.run?.name, played.state.doc.lost?.name);
  });

  it("leave out what comes late", () => {
    const played = aPlayedStreak(aStreak(wins));
    played.hit("2026-01-02T12:00Z");
    played.hit("2026-01-01T12:00Z", lost);
    assert.equal(played.state.current, 1, "a break from before the last event that counted");
    played.hit("2026-01-03T12:00Z", lost);
    assert.ok(!played.hit("2026-01-02T13:00Z"), "an event from before the last break");
    assert.equal(played.state.current, 0);
  });

  it("survive a break with a freeze", () => {
    const played = aPlayedStreak(aStreak({ ...wins, freeze: { initial: 1 } }));
    played.hit("2026-01-01T12:00Z");
    played.hit("2026-01-01T13:00Z", lost);
    assert.deepEqual([played.state.current, played.state.freezes], [1, 0]);
    played.hit("2026-01-01T14:00Z", lost);
    assert.equal(played.state.current, 0);
  });

  it("break only on events that pass the filter, and want each event to be enough by itself", () => {
    const metric = { eventTypes: ["done"], aggregate: "sum", property: "points" };
    const filter = { path: "ranked", op: "eq", value: true };
    const breakOn = { eventTypes: ["lost"], filter };
    const parts = [{ metric, threshold: 10 }];
    const played = aPlayedStreak(aStreak({ mode: "CONSECUTIVE", breakOn, qualify: { parts } }));
    assert.ok(!played.hit("2026-01-01T12:00Z", { properties: { points: 9 } }));
    assert.ok(!played.hit("2026-01-01T12:00Z", { properties: { points: 9 } }));
    assert.ok(played.hit("2026-01-01T12:00Z", { properties: { points: 10 } }));
    played.hit("2026-01-01T12:00Z", { type: "lost" });
    assert.equal(played.state.current, 1);
    played.hit("2026-01-01T12:00Z", { type: "lost", properties: { ranked: true } });
    assert.equal(played.state.current, 0);
  });
});
