import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { dateOf } from "../support/streaks/real-days.ts";
import { streaksByApi } from "../support/streaks/by-api.ts";
import { pluck } from "../support/pluck.ts";

describe("the history of a streak", () => {
  const { api, tenant, player, define, doneAgo, act } = streaksByApi();

  before(async () => {
    await define("daily", { freeze: { max: 3 } });
    await define("weekly", { period: "WEEK" });
    await define("wins", { mode: "CONSECUTIVE", breakOn: { eventTypes: ["lost"] } });
  });
  const history = (key: string, query = "") =>
    api.get(`/api/v1/players/${player.id}/streaks/${key}/history${query}`, { key: tenant.key });

  it("has every period and run from one date to another", async () => {
    await act("daily", "freezes", { amount: 1 });
    for (const days of [9, 8, 6, 3, 0]) await doneAgo(days);
    const { data, runs } = must(await history("daily", `?from=${dateOf(10)}&to=${dateOf(0)}`), 200);
    const marks = data.map(({ done, frozen }: Json) => (done ? "x" : frozen ? "f" : ".")).join("");
    assert.equal(marks, ".xxfx..x..x");
    assert.deepEqual([data[0].period, data.at(-1).period], [dateOf(10), dateOf(0)]);
    assert.deepEqual(runs, [
      { startedOn: dateOf(0), endedOn: null, length: 1, frozenPeriods: [], endedBy: null },
      { startedOn: dateOf(3), endedOn: dateOf(3), length: 1, frozenPeriods: [], endedBy: "MISSED" },
      {
        startedOn: dateOf(9),
        endedOn: dateOf(6),
        length: 3,
        frozenPeriods: [dateOf(7)],
        endedBy: "MISSED",
      },
    ]);
    assert.equal(must(await history("daily"), 200).data.length, 30);
    const some = must(await history("daily", `?from=${dateOf(5)}&to=${dateOf(4)}`), 200);
    assert.deepEqual([some.data.length, some.runs], [2, []]);
  });

  it("counts weeks by name, and has runs only of CONSECUTIVE streaks", async () => {
    await doneAgo(0);
    const { data } = must(await history("weekly"), 200);
    assert.equal(data.length, 30);
    assert.match(data.at(-1).period, /^\d{4}-W\d\d$/);
    assert.equal(data.at(-1).done, true);
    await doneAgo(0, "lost");
    const wins = must(await history("wins"), 200);
    assert.deepEqual([wins.data, wins.runs.length, wins.runs[0].endedBy], [[], 1, "BREAK_EVENT"]);
  });

  it("refuses dates that are none, turned round, or too far apart", async () => {
    for (const [query, field] of [
      ["?from=2026-02-30", "from"],
      ["?to=yesterday", "to"],
      ["?from=2026-02-02&to=2026-02-01", "to"],
      ["?from=2025-01-01&to=2026-01-02", "from"],
      ["?since=2026-01-01", "since"],
    ]) {
      const answer = await history("daily", query);
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field, field, query!);
    }
    assert.equal(must(await history("daily", "?from=2025-01-01&to=2026-01-01"), 200).data.length, 366);
    assertError(await history("nothing"), 404);
  });

  it("says which run was ended by hand", async () => {
    for (const days of [2, 1]) await doneAgo(days);
    must(await act("daily", "reset"), 200);
    await doneAgo(0);
    const { runs } = must(await history("daily"), 200);
    assert.deepEqual(pluck(runs, "length", "endedBy"), [
      [1, null],
      [2, "RESET"],
    ]);
  });
});
