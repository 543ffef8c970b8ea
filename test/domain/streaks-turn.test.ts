import assert from "node:assert/strict";
import fc from "fast-check";
import { evaluateEvent } from "../../src/domain/evaluation/evaluate.ts";
import {
  advanceStreaks,
  announce,
  grantFreezes,
  reset,
  storeStreak,
  streakMeasure,
} from "../../src/domain/evaluation/streaks/advance.ts";
import type { Streak } from "../../src/domain/evaluation/streaks/compile.ts";
import {
  deadlineAfter,
  periodAt,
  periodName,
  periodOfDate,
  periodStart,
} from "../../src/domain/evaluation/streaks/periods.ts";
import { cases } from "../support/properties.ts";
import { aPass, aPlayerState } from "../support/rules/plan.ts";
import { aGame, noon } from "../support/streaks/streaks-game.ts";
import { aPlayedStreak, aStreak, DAY_MS, HOUR_MS, T } from "../support/streaks/streaks.ts";

describe("streaks in a turn", () => {
  it("tell of each extension with what it has come to", () => {
    const game = aGame();
    game.hit(noon(1));
    const { id: playerId, externalUserId } = game.player;
    const data = {
      playerId,
      externalUserId,
      streakKey: "s",
      current: 1,
      longest: 1,
      period: "2026-01-01",
      deadlineAt: "2026-01-03T00:00:00.000Z",
      milestone: null,
    };
    assert.deepEqual(game.told(), [["player.streak_extended", data]]);
    game.hit(noon(1));
    assert.deepEqual(game.told(), []);
  });

  it("tell of freezes, of a break with the time for repairs, and of a run taken up again", () => {
    const game = aGame({ freeze: { initial: 1 }, repairWindowHours: 24 });
    game.hit(noon(1));
    game.told();
    game.hit(noon(4));
    const [frozen, broken, extended] = game.told();
    assert.deepEqual(
      [frozen![0], frozen![1]["period"], frozen![1]["freezesLeft"], frozen![1]["current"]],
      ["player.streak_frozen", "2026-01-02", 0, 1],
    );
    assert.deepEqual(
      [broken![0], broken![1]["length"], broken![1]["repairableUntil"]],
      ["player.streak_broken", 1, "2026-01-05T00:00:00.000Z"],
    );
    assert.deepEqual([extended![0], extended![1]["current"]], ["player.streak_extended", 1]);
    game.hit(noon(3), noon(4));
    const [repaired] = game.told();
    assert.deepEqual(
      [repaired![0], repaired![1]["current"], repaired![1]["by"]],
      ["player.streak_repaired", 3, "LATE_EVENT"],
    );
  });

  it("hear what happens to the player, when they are told to", () => {
    const parts = [
      { metric: { eventTypes: ["player.xp_granted"], aggregate: "sum", property: "amount" }, threshold: 50 },
    ];
    const game = aGame({ qualify: { parts } });
    assert.ok(game.plan.hasListeners("player.xp_granted"));
    assert.ok(!game.plan.hasListeners("player.updated"));
    const { turn } = aPass({ plan: game.plan, player: game.player });
    turn.root.derived.push({
      id: "e",
      type: "player.xp_granted",
      at: noon(1),
      properties: { amount: 50 },
      depth: 1,
    });
    evaluateEvent(turn);
    assert.equal(game.streak.current, 1);
  });

  it("go by the zone of the project where the definition says so, or the player has none", () => {
    const at = T("2026-01-01T23:30Z");
    const period = (timezonePolicy: string, timezone: string | null, project: string) => {
      const plan = { ...aGame({ timezonePolicy }).plan, timezone: project };
      const player = aPlayerState({ timezone });
      advanceStreaks(aPass({ plan, player, event: { type: "done", at }, nowMs: at }).turn);
      return (player.streaks.get("s") as Streak).doc.run?.name;
    };
    assert.equal(period("PLAYER", "Asia/Tokyo", "UTC"), "2026-01-02");
    assert.equal(period("PLAYER", null, "Europe/Berlin"), "2026-01-02");
    assert.equal(period("PROJECT", "Asia/Tokyo", "UTC"), "2026-01-01");
  });

  it("archive a run when the next one is lost", () => {
    const game = aGame();
    for (const day of [1, 2, 5]) game.hit(noon(day));
    assert.deepEqual(game.runs, []);
    game.hit(noon(9));
    assert.deepEqual(game.runs, [["2026-01-01", "2026-01-02", 2, "MISSED"]]);
  });
});

describe("milestones of a streak", () => {
  const milestones = [
    { length: 3, rewards: { xp: 10 } },
    { length: 2, every: 2, rewards: { xp: 5 } },
    { length: 6, rewards: { xp: 1 } },
  ];

  it("give their bundles at their length, and again with every so many more", () => {
    const game = aGame({ milestones });
    for (const day of [1, 2, 3, 4, 5, 6]) game.hit(noon(day));
    assert.deepEqual(game.ledger, [
      "stk:s:2026-01-01:2:xp",
      "stk:s:2026-01-01:3:xp",
      "stk:s:2026-01-01:4:xp",
      "stk:s:2026-01-01:6:xp",
      "stk:s:2026-01-01:6:1:xp",
    ]);
    const reached = game.told().map(([, data]) => data["milestone"]);
    assert.deepEqual(reached, [null, 2, 3, 4, null, 6]);
    assert.equal(game.player.xp, 5 + 10 + 5 + 5 + 1);
  });

  it("are given once to a run, however often it is lost, taken up and begun again", () => {
    const game = aGame({ milestones: [{ length: 1, every: 1, rewards: { xp: 1 } }] });
    for (const day of [1, 2]) game.hit(noon(day));
    game.sweep(noon(4));
    game.hit(noon(3), noon(4));
    assert.equal(game.player.xp, 3);
    // An admin resets on the day on which the next run begins.
    for (const _ of [1, 2]) {
      game.during(noon(3), ({ turn }) => {
        const streak = turn.project.streaks.get("s")!;
        const { state, steps } = reset(streak, game.streak, noon(3));
        storeStreak(turn, streak, state);
        announce(turn, streak, steps);
      });
      game.hit(noon(3));
    }
    assert.equal(game.player.xp, 4, "the new run is rewarded once");
    assert.equal(new Set(game.ledger).size, game.ledger.length);
  });

  it("that are reached when two runs become one are given all", () => {
    const game = aGame({ milestones: [{ length: 1, every: 1, rewards: { xp: 1 } }] });
    for (const day of [1, 2, 4, 5]) game.hit(noon(day));
    assert.equal(game.player.xp, 4);
    game.hit(noon(3));
    assert.equal(game.streak.current, 5);
    assert.deepEqual(
      game.ledger.slice(4),
      [3, 4, 5].map((length) => `stk:s:2026-01-01:${length}:xp`),
    );
  });

  it("tell CONSECUTIVE runs of one day apart", () => {
    const wins = { mode: "CONSECUTIVE", breakOn: { eventTypes: ["lost"] } };
    const game = aGame({ ...wins, milestones: [{ length: 1, rewards: { xp: 1 } }] });
    for (const _ of [1, 2]) {
      game.hit(noon(1));
      const { turn } = aPass({ plan: game.plan, player: game.player, event: { type: "lost", at: noon(1) } });
      advanceStreaks(turn);
    }
    assert.deepEqual(game.ledger, ["stk:s:2026-01-01.1:1:xp", "stk:s:2026-01-01.2:1:xp"]);
  });

  it("may give a freeze of the streak itself", () => {
    const own = [{ length: 2, rewards: { streakFreezes: { s: 1 } } }];
    const game = aGame({ freeze: {}, milestones: own });
    game.hit(noon(1));
    game.hit(noon(2));
    assert.deepEqual(
      [game.streak.current, game.streak.freezes, game.streak.doc.won],
      [2, 1, [["2026-01-01", 2]]],
    );
  });
});

describe("freezes and measures of a streak", () => {
  it("are given up to the maximum, to a streak that has freezes", () => {
    const game = aGame({ freeze: { max: 3, initial: 1 } });
    game.hit(noon(1));
    const given = [1, 5, 1].map((amount) =>
      game.during(noon(1), ({ turn }) => grantFreezes(turn, "s", amount)),
    );
    assert.deepEqual([given, game.streak.freezes], [[1, 1, 0], 3]);
    assert.equal(
      aGame().during(noon(1), ({ turn }) => grantFreezes(turn, "s", 1)),
      0,
    );
    assert.equal(
      aGame().during(noon(1), ({ turn }) => grantFreezes(turn, "t", 1)),
      undefined,
    );
  });

  it("given after a run was lost do not save it", () => {
    const game = aGame({ freeze: {} });
    game.hit(noon(1));
    game.told();
    game.during(noon(3), ({ turn }) => grantFreezes(turn, "s", 2));
    assert.deepEqual(
      game.told().map(([type]) => type),
      ["player.streak_broken"],
    );
    game.hit(noon(3));
    assert.deepEqual([game.streak.current, game.streak.freezes], [1, 2]);
  });

  it("are read as of the event's time, and reading changes nothing", () => {
    const game = aGame({ freeze: { initial: 1 } });
    for (const day of [1, 2]) game.hit(noon(day));
    const before = game.streak;
    const measure = (day: number, name: "current" | "longest" | "freezes", key = "s") =>
      game.during(noon(day), ({ turn }) => streakMeasure(turn, key, name));
    assert.deepEqual(
      [2, 3, 4, 5].map((day) => measure(day, "current")),
      [2, 2, 2, 0],
    );
    assert.deepEqual(
      [2, 3, 4, 5].map((day) => measure(day, "freezes")),
      [1, 1, 0, 0],
    );
    assert.equal(measure(9, "longest"), 2);
    assert.equal(measure(9, "longest", "t"), undefined);
    assert.equal(game.streak, before);
    assert.equal(
      aGame({ freeze: { initial: 2 } }).during(noon(1), ({ turn }) => streakMeasure(turn, "s", "freezes")),
      2,
    );
  });
});

const ZONES = [
  "Europe/Berlin",
  "America/New_York",
  "Australia/Lord_Howe",
  "Pacific/Apia",
  "Asia/Kathmandu",
  "America/St_Johns",
];

describe("streaks and time zones", () => {
  it("never break in 400 days of daylight saving when every local day is done", () => {
    const day = aStreak().calendar;
    fc.assert(
      fc.property(
        fc.constantFrom(...ZONES),
        fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), {
          minLength: 400,
          maxLength: 400,
        }),
        (zone, hours) => {
          const played = aPlayedStreak(aStreak(), zone);
          const first = periodAt(day, zone, T("2026-01-01T12:00Z"));
          hours.forEach((hour, i) => {
            const [start, end] = [periodStart(day, zone, first + i), periodStart(day, zone, first + i + 1)];
            assert.ok(played.hit(start + Math.floor(hour * (end - start))), `${zone}, day ${i}`);
          });
          assert.equal(played.state.current, 400);
        },
      ),
      { numRuns: cases(20) },
    );
  });

  it("miss no day that a zone left out", () => {
    // Apia went over the date line: after 29 December 2011 came the 31st.
    const played = aPlayedStreak(aStreak(), "Pacific/Apia");
    assert.ok(played.hit("2011-12-29T12:00-10:00"));
    assert.equal(played.state.deadlineMs, T("2012-01-01T00:00+14:00"));
    assert.ok(played.hit("2011-12-31T12:00+14:00"));
    assert.equal(played.state.current, 2);
  });

  it("are kept by who flies east over midnight", () => {
    const played = aPlayedStreak(aStreak(), "America/Los_Angeles");
    assert.ok(played.hit("2026-01-02T20:00-08:00"));
    assert.ok(!played.hit("2026-01-02T22:00-08:00"));
    played.move("Asia/Tokyo", "2026-01-03T18:00Z");
    assert.ok(played.hit("2026-01-03T20:00Z"));
    assert.deepEqual(
      [played.state.current, periodName("DAY", played.state.doc.run!.last)],
      [2, "2026-01-04"],
    );
  });

  it("do not count a day twice for who flies west", () => {
    const played = aPlayedStreak(aStreak(), "Asia/Tokyo");
    played.hit("2026-01-02T23:30+09:00");
    played.move("America/Los_Angeles", "2026-01-02T15:00Z");
    assert.ok(!played.hit("2026-01-02T16:00Z"));
    assert.ok(played.hit("2026-01-04T06:00Z"));
    assert.equal(played.state.current, 2);
  });

  it("count no period sooner than 8 hours after the last one when the zone has changed between them", () => {
    const played = aPlayedStreak(aStreak(), "America/Los_Angeles");
    played.hit("2026-01-02T23:00-08:00");
    played.move("Asia/Tokyo", "2026-01-03T07:30Z");
    // In Tokyo it is the 4th at midnight, the next period.
    assert.ok(!played.hit("2026-01-03T14:59Z"));
    assert.ok(played.hit("2026-01-03T15:00Z"));
    const quick = aPlayedStreak(aStreak(), "America/Los_Angeles");
    quick.hit("2026-01-03T06:30Z");
    quick.move("Pacific/Kiritimati", "2026-01-03T07:00Z");
    assert.ok(!quick.hit("2026-01-03T14:29Z"), "the 4th there, but 7:59 after the 2nd");
    assert.ok(quick.hit("2026-01-03T14:30Z"));
  });

  it("take over one zone in 24 hours, and a later one when these are over", () => {
    const played = aPlayedStreak(aStreak(), "UTC");
    played.hit("2026-01-01T01:00Z");
    played.move("Asia/Tokyo", "2026-01-01T02:00Z");
    played.hit("2026-01-01T12:00Z");
    assert.equal(played.state.doc.zone, "Asia/Tokyo");
    played.move("America/Los_Angeles", "2026-01-01T13:00Z");
    played.hit("2026-01-02T01:59Z");
    assert.equal(played.state.doc.zone, "Asia/Tokyo");
    played.hit("2026-01-02T16:00Z");
    assert.equal(played.state.doc.zone, "America/Los_Angeles");
    assert.equal(played.state.doc.zoneMs, T("2026-01-02T02:00Z"));
  });

  it("are not saved by moving where the day is not over yet", () => {
    const played = aPlayedStreak(aStreak(), "UTC");
    played.hit("2026-01-01T12:00Z");
    played.move("Pacific/Pago_Pago", "2026-01-03T05:00Z");
    played.hit("2026-01-03T06:00Z");
    assert.deepEqual([played.state.current, played.state.doc.lost?.length], [1, 1]);
    const sooner = aPlayedStreak(aStreak(), "UTC");
    sooner.hit("2026-01-01T12:00Z");
    sooner.move("Pacific/Pago_Pago", "2026-01-02T23:00Z");
    sooner.hit("2026-01-03T06:00Z");
    assert.equal(sooner.state.current, 2);
  });

  it("give back the freeze of a period that is done after all", () => {
    const played = aPlayedStreak(aStreak({ freeze: { initial: 1 } }), "America/Los_Angeles");
    played.hit("2026-01-01T12:00-08:00");
    played.move("Asia/Tokyo", "2026-01-01T21:00Z");
    // What was left in Los Angeles ends in the afternoon of the 3rd in Tokyo, whose evening is left.
    played.hit("2026-01-03T18:00+09:00");
    assert.deepEqual([played.state.current, played.state.freezes], [2, 1]);
    // The 2nd in Tokyo used no freeze, and may still be done.
    played.hit("2026-01-02T20:00+09:00");
    const { current, freezes, doc } = played.state;
    assert.deepEqual([current, freezes, doc.run?.frozen], [3, 1, []]);
  });

  it("leave a player no less time for having moved", () => {
    const zone = fc.constantFrom(...ZONES, "UTC", "Asia/Tokyo", "America/Los_Angeles", "Pacific/Kiritimati");
    const ms = fc.integer({ min: T("2025-06-01T00:00Z"), max: T("2026-12-31T00:00Z") });
    fc.assert(
      fc.property(zone, zone, ms, fc.integer({ min: 0, max: 30 * HOUR_MS }), (from, to, at, later) => {
        const stayed = aPlayedStreak(aStreak(), from);
        const moved = aPlayedStreak(aStreak(), from);
        for (const one of [stayed, moved]) one.hit(at);
        const change = Math.min(at + later, stayed.state.deadlineMs! - 1);
        moved.move(to, new Date(change).toISOString());
        // Whenever it would have counted for who stayed, who moved is still alive.
        const last = stayed.state.deadlineMs! - 1;
        moved.hit(last);
        assert.ok(moved.state.current >= 1);
        assert.equal(moved.state.doc.lost, undefined);
      }),
    );
  });

  it("name weeks as ISO 8601 does, and find periods of dates again", () => {
    const names = ["2020-12-31", "2021-01-03", "2021-01-04", "2024-12-30", "2026-01-01", "1969-12-29"].map(
      (date) => periodName("WEEK", periodOfDate("WEEK", date)),
    );
    assert.deepEqual(names, ["2020-W53", "2020-W53", "2021-W01", "2025-W01", "2026-W01", "1970-W01"]);
    for (const unit of ["DAY", "WEEK", "MONTH"] as const) {
      const { calendar } = aStreak({ period: unit });
      for (let at = T("1999-12-30T12:00Z"); at < T("2001-02-02T00:00Z"); at += DAY_MS)
        assert.equal(
          periodOfDate(unit, new Date(at).toISOString().slice(0, 10)),
          periodAt(calendar, "UTC", at),
        );
      assert.ok(deadlineAfter(calendar, "UTC", 100) > periodStart(calendar, "UTC", 101));
    }
  });
});
