import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { anAsker, type Past, rollUpAll } from "../support/analytics/histories.ts";
import { assertError } from "../support/http/assert-error.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const DAY_MS = 86_400_000;
const LAST = Date.parse("2026-05-31T12:00:00Z");
const AS_OF = "2026-06-01T00:00:00Z";

/** An event so many days before the last complete day. */
const seen = (user: string, ...daysBefore: number[]): Past[] =>
  daysBefore.map((days) => [user, "seen", new Date(LAST - days * DAY_MS).toISOString()]);

/** Days before the last complete one at which segments begin and end. */
const EDGES = [0, 6, 7, 13, 14, 20, 21, 29, 30, 36, 37];

type Segment = { key: string; players: number; share: number; previousPlayers: number | null };

describe("the segments of analytics", () => {
  const api = madeOnce(startApp);
  const asker = madeForEach(() => anAsker(api));

  const read = async (group: string, query: Record<string, string> = {}) => {
    const { groups, total } = await asker.ask("segments", { asOf: AS_OF, group, ...query });
    const [{ segments }] = groups as [{ segments: Segment[] }];
    assert.equal(
      segments.reduce((sum, { players }) => sum + players, 0),
      total,
    );
    return Object.fromEntries(segments.map(({ key, players }) => [key, players]));
  };

  it("divide players by when they were first and last active, at the edges too", async () => {
    await asker.store([
      ...seen("new-0", 0),
      ...seen("new-6", 6),
      ...seen("active", 7, 6),
      ...seen("active-29", 35, 6),
      ...seen("resurrected-30", 36, 6),
      ...seen("resurrected-old", 400, 2, 1),
      ...seen("at-risk-7", 7),
      ...seen("at-risk-13", 20, 13),
      ...seen("dormant-14", 14),
      ...seen("dormant-29", 29),
      ...seen("churned-30", 30),
      ...seen("churned-old", 2_000),
    ]);
    assert.deepEqual(await read("lifecycle"), {
      new: 2,
      active: 2,
      resurrected: 2,
      at_risk: 2,
      dormant: 2,
      churned: 2,
    });
  });

  it("are the same by closed days, where averages are left out: at any time of a day", async () => {
    await asker.store([
      ...EDGES.flatMap((days) => seen(`once-${days}`, days)),
      ...EDGES.flatMap((days) => seen(`twice-${days}`, days + 29, days)),
      ...EDGES.flatMap((days) => seen(`back-${days}`, days + 30, days)),
      ["today", "seen", "2026-06-01T10:00:00Z"],
      ["once-7", "seen", "2026-06-01T10:00:00Z"],
    ]);
    await rollUpAll(api, asker.tenant.projectId, Date.parse(AS_OF));
    for (const asOf of [AS_OF, "2026-06-01T09:00:00Z", "2026-06-01T18:07:07Z", "2026-06-05T00:00:00Z"]) {
      const asked = { asOf, group: "lifecycle" };
      const [{ segments }] = (await asker.ask("segments", asked)).groups;
      const byDays = (await asker.ask("segments", { ...asked, averages: "false" })).groups[0].segments;
      const withoutMeans = (segments as Segment[]).map((one) => ({ ...one, avgXp: null, avgLevel: null }));
      assert.deepEqual(byDays, withoutMeans, asOf);
    }
  });

  it("count a player of the day that is going on as active or new, but not that day", async () => {
    const asOf = "2026-06-01T18:00:00Z";
    await asker.store([
      ["today", "seen", "2026-06-01T10:00:00Z"],
      ["back", "seen", "2026-06-01T10:00:00Z"],
      ...seen("back", 50),
      ["later", "seen", "2026-06-01T19:00:00Z"],
    ]);
    const lifecycle = await read("lifecycle", { asOf });
    assert.deepEqual([lifecycle["new"], lifecycle["resurrected"]], [1, 1]);
    assert.equal((await read("engagement", { asOf }))["none"], 2);
  });

  it("divide players by the days on which they were active", async () => {
    const days = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);
    await asker.store([
      ...seen("none", 28),
      ...seen("casual", 27, 27, 27, 26, 25),
      ...seen("regular", ...days(0, 4)),
      ...seen("regular-11", ...days(0, 11)),
      ...seen("core", ...days(0, 12)),
      ...seen("power", ...days(0, 40)),
    ]);
    assert.deepEqual(await read("engagement"), { none: 1, casual: 1, regular: 2, core: 1, power: 1 });
  });

  it("divide players by level, and by the share that has more XP: equal XP together, and up", async () => {
    const users = Array.from({ length: 200 }, (_, i) => `p${i}`);
    await asker.store(users.flatMap((user) => seen(user, 0)));
    const { projectId } = asker.tenant;
    await api.sql`
      update players set xp = case when n < 3 then 900 else 200 - n end,
        level = case when n < 3 then 50 else 2 end
      from (select substr(external_user_id, 2)::int as n, id from players
        where project_id = ${projectId}::uuid) x
      where project_id = ${projectId}::uuid and players.id = x.id`;
    assert.deepEqual(await read("xp"), { top_1: 3, top_10: 17, top_25: 30, top_50: 50, rest: 100 });
    assert.deepEqual(await read("level"), { "1": 0, "2-4": 197, "5-9": 0, "10-19": 0, "20-49": 0, "50+": 3 });
  });

  it("say how many there were a week before, where that is known", async () => {
    await asker.store([...seen("ada", 3), ...seen("bob", 9)]);
    const { groups } = await asker.ask("segments", { asOf: AS_OF });
    const previous = (group: number, key: string) =>
      groups[group].segments.find((one: Segment) => one.key === key).previousPlayers;
    assert.deepEqual([previous(0, "new"), previous(0, "at_risk"), previous(2, "1")], [1, 0, null]);
  });

  it("list the very players that they count, in pages", async () => {
    await asker.store([
      ...seen("new-0", 0),
      ...seen("new-1", 1),
      ...seen("active", 7, 6),
      ...seen("resurrected", 36, 6),
      ...seen("at-risk", 7),
      ...seen("churned", 30, 40),
    ]);
    const { groups } = await asker.ask("segments", { asOf: AS_OF });
    for (const { key: group, segments } of groups as { key: string; segments: Segment[] }[]) {
      const listed: string[] = [];
      for (const { key, players } of segments) {
        const path = `segments/${group}/${encodeURIComponent(key)}/players`;
        const { data, pagination } = await asker.ask(path, { asOf: AS_OF });
        assert.deepEqual([data.length, pagination.total], [players, players], path);
        listed.push(...data.map(({ externalUserId }: { externalUserId: string }) => externalUserId));
      }
      const everybody = ["active", "at-risk", "churned", "new-0", "new-1", "resurrected"];
      assert.deepEqual(listed.toSorted(), everybody);
    }
    const page = await asker.ask("segments/lifecycle/new/players", { asOf: AS_OF, page: "2", limit: "1" });
    assert.deepEqual([page.data.length, page.pagination.totalPages], [1, 2]);
    assert.equal(page.data[0].externalUserId, "new-1");
    const beyond = await asker.ask("segments/lifecycle/new/players", { asOf: AS_OF, page: "9" });
    assert.deepEqual([beyond.data, beyond.pagination.total], [[], 2]);
    assertError(await asker.tryAsk("segments/lifecycle/rich/players"), 404);
    assertError(await asker.tryAsk("segments/colour/red/players"), 400);
  });

  it("take the filters of trends, as do their lists: levels and XP stay the player's", async () => {
    const on = (user: string, daysBefore: number, map: string): Past => [
      user,
      "won",
      new Date(LAST - daysBefore * DAY_MS).toISOString(),
      { map },
    ];
    await asker.store([
      on("ada", 3, "ice"),
      ...seen("ada", 50),
      on("bob", 40, "ice"),
      on("bob", 1, "fire"),
      ...seen("cy", 0),
    ]);
    const ofIce = { "filter[eventType]": "won,lost", "filter[properties.map]": "ice" };
    const { groups, total, players } = await asker.ask("segments", { asOf: AS_OF, ...ofIce });
    assert.equal(total, 2);
    const found = (groups as { key: string; segments: (Segment & { avgLevel: number | null })[] }[]).map(
      ({ key: group, segments }) =>
        segments.flatMap(({ key, players: size, avgLevel }) =>
          size > 0 ? [[group, key, size, avgLevel]] : [],
        ),
    );
    assert.deepEqual(found.slice(0, 3), [
      [
        ["lifecycle", "new", 1, 1],
        ["lifecycle", "churned", 1, 1],
      ],
      [
        ["engagement", "none", 1, 1],
        ["engagement", "casual", 1, 1],
      ],
      [["level", "1", 2, 1]],
    ]);
    assert.deepEqual(players.and, ["segment"]);
    const named = { asOf: AS_OF, ...ofIce };
    for (const path of ["players", "segments/lifecycle/churned/players"]) {
      const number = path === "players" ? { of: "segments", segment: "lifecycle:churned" } : {};
      const { data } = await asker.ask(path, { ...named, ...number });
      assert.deepEqual(pluck(data, "externalUserId"), ["bob"], path);
    }
    assert.deepEqual(await read("lifecycle", { "filter[eventType]": "seen" }), {
      new: 1,
      active: 0,
      resurrected: 0,
      at_risk: 0,
      dormant: 0,
      churned: 1,
    });
    assertError(await asker.tryAsk("segments", { "filter[colour]": "red" }), 400);
  });

  it("leave averages out where nobody asks for them", async () => {
    await asker.store([...seen("ada", 3), ...seen("bob", 9)]);
    const { groups } = await asker.ask("segments", { asOf: AS_OF, averages: "false" });
    for (const { segments } of groups)
      for (const { avgXp, avgLevel } of segments) assert.deepEqual([avgXp, avgLevel], [null, null]);
    assert.deepEqual(await read("level", { averages: "false" }), {
      "1": 2,
      "2-4": 0,
      "5-9": 0,
      "10-19": 0,
      "20-49": 0,
      "50+": 0,
    });
  });

  it("are all empty for a project without events, and refuse groups that are none", async () => {
    const { total, groups } = await asker.ask("segments");
    assert.deepEqual([total, groups.length], [0, 4]);
    assertError(await asker.tryAsk("segments", { group: "colour" }), 400);
  });
});
